package eddy_test

import (
	"io"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/go-eddy/eddy"
)

// fitsSelect skips a test that needs n descriptors where select(2) cannot take so many.
func fitsSelect(t *testing.T, n int) {
	t.Helper()
	const limit = 900 // of 1024, so that there is room for what a test process has open besides
	if os.Getenv("EDDY_POLLER") == "select" && n > limit {
		t.Skipf("needs %d descriptors: select(2) takes only those below 1024", n)
	}
}

// TestSelectEndsAt1024: a connection whose descriptor select(2) cannot take is closed with an error that names the
// limit; those that it took go on, and there is room again when they end.
func TestSelectEndsAt1024(t *testing.T) {
	const limit = 1024
	if runtime.GOOS == "windows" || runtime.GOOS == "netbsd" || descriptorLimit() < limit+200 {
		t.Skipf("needs select(2) with %d descriptors and a process that may have %d", limit, limit+200)
	}
	var ends closes
	srv := &eddy.Server{Loops: 1, Poller: "select", Logger: quiet(), Init: func(p *eddy.Pipeline) error {
		p.Add("echo", echo)
		return p.Add("ends", &ends)
	}}
	addr := start(t, srv)
	first := dial(t, addr)
	expectEcho(t, first)
	for filled := 0; filled < limit; { // every number that select(2) could take
		f, err := os.Open(os.DevNull)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		filled = int(f.Fd())
	}
	beyond := dial(t, addr)
	ends.wait(t, eddy.CloseInternalError)
	if _, err := beyond.Read(make([]byte, 1)); err == nil {
		t.Error("the connection beyond the limit lives")
	}
	if err := ends.first(); err == nil || !strings.Contains(err.Error(), "below 1024") {
		t.Errorf("closed with %v", err)
	}
	expectEcho(t, first)
}

func expectEcho(t *testing.T, c io.ReadWriter) {
	t.Helper()
	io.WriteString(c, "word")
	got := make([]byte, 4)
	if _, err := io.ReadFull(c, got); err != nil || string(got) != "word" {
		t.Fatalf("read %q, %v", got, err)
	}
}
