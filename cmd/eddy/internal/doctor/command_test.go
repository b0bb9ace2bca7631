package doctor_test

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/go-eddy/eddy/cmd/eddy/internal/cli"
	"github.com/go-eddy/eddy/cmd/eddy/internal/doctor"
	"github.com/go-eddy/eddy/cmd/eddy/internal/root"
)

// doctorRun runs a command line of this process.
func doctorRun(args ...string) (stdout, stderr string, code int) {
	var out, errs bytes.Buffer
	code = root.Run(append([]string{"doctor"}, args...), &out, &errs, nil)
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
		if code != cli.UsageCode || out != "" || strings.Count(errs, "\n") != 1 {
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
	var errs bytes.Buffer
	if code := root.Run([]string{"doctor", "--json"}, failingWriter{}, &errs, nil); code != 1 || !strings.Contains(errs.String(), io.ErrShortWrite.Error()) {
		t.Errorf("an error of the output: exit %d, %q", code, &errs)
	}
}

type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, io.ErrShortWrite }
