package executor

import (
	"bytes"
	"runtime/pprof"
	"strings"
	"testing"
)

// TestWorkersAreNamed: a pool's goroutines carry its name as a pprof label, not what the goroutine was called that
// submitted to it.
func TestWorkersAreNamed(t *testing.T) {
	p, err := NewFixed(Options{Name: "crew", Workers: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	ran := make(chan string)
	pprof.SetGoroutineLabels(pprof.WithLabels(t.Context(), pprof.Labels("submitter", "me")))
	defer pprof.SetGoroutineLabels(t.Context())
	if err := p.Submit(runFunc(func() {
		var profile bytes.Buffer
		_ = pprof.Lookup("goroutine").WriteTo(&profile, 1)
		ran <- profile.String()
	})); err != nil {
		t.Fatal(err)
	}
	profile := <-ran
	if !strings.Contains(profile, `{"eddy_pool":"crew"}`) {
		t.Errorf("no goroutine is called crew in\n%s", profile)
	}
}
