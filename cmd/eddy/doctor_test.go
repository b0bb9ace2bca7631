package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/go-eddy/eddy/cmd/eddy/internal/doctor"
)

// doctorRun runs a command line of this process.
func doctorRun(args ...string) (stdout, stderr string, code int) {
	var out, errs bytes.Buffer
	code = run(append([]string{"doctor"}, args...), &out, &errs, nil)
	return out.String(), errs.String(), code
}

// TestDoctor: this machine runs a few connections; the exit code is 0 then, 1 when something fails and 2 when it was asked wrongly.
func TestDoctor(t *testing.T) {
	t.Setenv("EDDY_POLLER", "")
	out, errs, code := doctorRun("--conns", "10", "--data", t.TempDir())
	if code != 0 || errs != "" || !strings.HasPrefix(out, "eddy doctor: ") || !strings.Contains(out, "for 10 connections\n") || strings.Contains(out, "\x1b") {
		t.Errorf("exit %d, stderr %q, stdout:\n%s", code, errs, out)
	}
	out, errs, code = doctorRun("--tls-cert", "no-such-file", "--tls-key", "nor-this")
	if code != 1 || !strings.Contains(out, "FAIL  TLS") || strings.Count(errs, "\n") != 1 {
		t.Errorf("exit %d, stderr %q, stdout:\n%s", code, errs, out)
	}
	for _, args := range []string{"--conns -1", "--conns 100000001", "--conns many", "--port 65536", "--port -1", "--tls-cert x", "--tls-key x", "--con 1", "now"} {
		out, errs, code := doctorRun(strings.Fields(args)...)
		if code != usageCode || out != "" || strings.Count(errs, "\n") != 1 {
			t.Errorf("doctor %s: exit %d, stdout %q, stderr %q", args, code, out, errs)
		}
	}
	if _, _, code := doctorRun("--help"); code != 0 {
		t.Errorf("--help: exit %d", code)
	}
}

// TestDoctorJSON: the JSON has what the text has.
func TestDoctorJSON(t *testing.T) {
	t.Setenv("EDDY_POLLER", "")
	out, _, code := doctorRun("--json", "--conns", "10")
	var r doctor.Report
	if err := json.Unmarshal([]byte(out), &r); err != nil || code != 0 {
		t.Fatalf("exit %d, %v in %s", code, err, out)
	}
	if r.Conns != 10 || !r.Healthy || len(r.Findings) < 10 || r.Findings[0].Check != "descriptors" {
		t.Errorf("%+v", r)
	}
	if err := (&terminal{out: failingWriter{}}).examine(doctor.Machine(), doctor.Question{}, true); err == nil || errors.Is(err, errUnfit) {
		t.Errorf("an error of the output: %v", err)
	}
}

type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, io.ErrShortWrite }
