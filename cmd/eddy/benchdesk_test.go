package main

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"
)

// TestBenchDesk runs every measurement on a small scale and looks at what is counted, not at how fast it was.
func TestBenchDesk(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the server's processor time and memory are read from /proc, which only Linux has")
	}
	dir := t.TempDir()
	out, errs, code := runToEnd(t, "bench", "desk", "--customers", "6", "--agents", "2", "--rate", "40", "--duration", "500ms", "--idle", "20",
		"--reconnect", "10", "--data", dir, "--json")
	if code != 0 {
		t.Fatalf("exit code %d, %q", code, errs)
	}
	var r deskReport
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatalf("%v: %q", err, out)
	}
	if r.Rate == nil || r.Rate.Messages != 20 || r.Rate.AckP50 <= 0 || r.Rate.PeerP99 < r.Rate.PeerP50 || r.Rate.Refused != 0 {
		t.Errorf("rate %+v", r.Rate)
	}
	if r.Full == nil || r.Full.Messages == 0 || r.Full.PerSecond <= 0 {
		t.Errorf("full %+v", r.Full)
	}
	if i := r.Isolation; i == nil || i.Undisturbed.Messages != 20 || i.Hanging.Messages != 20 || i.Undisturbed.Refused+i.Hanging.Refused != 0 {
		t.Errorf("isolation %+v", i)
	}
	if r.Idle == nil || r.Idle.Visitors != 20 {
		t.Errorf("idle %+v", r.Idle)
	}
	if c := r.Reconnect; c == nil || c.Visitors != 10 || c.Seconds <= 0 || c.Faults.Lost != 0 || c.Faults.Doubled != 0 {
		t.Errorf("reconnect %+v", c)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind %v, %v", left, err)
	}
}

var isolationGate = flag.Bool("isolation-gate", false, "run TestIsolationGate, which measures for a minute")

// TestIsolationGate is the release gate of the three rules: with every place of the agents' pool taken by operations that hang, nobody is
// refused and the 99th percentile of acknowledgements to customers and agents rises by no more than 5 ms (spec/desk, targets). A machine with
// other things to do gets three tries.
func TestIsolationGate(t *testing.T) {
	if !*isolationGate {
		t.Skip("measures for a minute: run it with -isolation-gate, as .ci/run does")
	}
	const allowed = 5.0
	for try := 1; ; try++ {
		out, errs, code := runWithin(t, 5*time.Minute, "bench", "desk", "--only", "isolation", "--customers", "200", "--agents", "20", "--rate", "200",
			"--duration", "10s", "--data", t.TempDir(), "--json")
		var r deskReport
		if err := json.Unmarshal([]byte(out), &r); code != 0 || err != nil || r.Isolation == nil {
			t.Fatalf("exit code %d, %v, %q, %q", code, err, out, errs)
		}
		i := r.Isolation
		t.Logf("p99 undisturbed %.2f ms, hanging %.2f ms, medians differ by %.2f ms", i.Undisturbed.AckP99, i.Hanging.AckP99, i.Delta)
		if i.Undisturbed.Refused+i.Hanging.Refused > 0 || i.Hanging.Messages != i.Undisturbed.Messages {
			t.Fatalf("%+v", i)
		}
		if i.Delta <= allowed {
			return
		}
		if try == 3 {
			t.Fatalf("three times the 99th percentile rose by more than %v ms", allowed)
		}
	}
}

func TestBenchDeskRefuses(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	for _, c := range []struct {
		args          []string
		thing, remedy string
	}{
		{[]string{"--customers", "0"}, "--customers 0", "1 to"},
		{[]string{"--size", "8001"}, "--size 8001", "8000"},
		{[]string{"--duration", "0s"}, "--duration 0s", "more than 0"},
		{[]string{"--only", "rate,speed"}, `"speed"`, "reconnect"},
		{[]string{"--data", missing}, missing, "--data"},
	} {
		expectFailure(t, append([]string{"bench", "desk"}, c.args...), c.thing, c.remedy)
	}
}
