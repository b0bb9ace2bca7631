//go:build unix

package poll

import (
	"slices"
	"strings"
	"testing"

	"github.com/go-eddy/eddy/internal/poll/polltest"
	"github.com/go-eddy/eddy/internal/sys"
)

func TestNew(t *testing.T) {
	if got := Available(); len(got) == 0 || got[0] != Default() || !slices.Contains(got, "poll") || !slices.Contains(got, "select") {
		t.Fatalf("Available() = %q with default %q", got, Default())
	}
	if p := open(t, "", Parked); p.Name() != Default() {
		t.Errorf("the default poller is %q, want %q", p.Name(), Default())
	}
	for _, name := range Available() {
		if p := open(t, name, Pinned); p.Name() != name {
			t.Errorf("New(%q) made a %q", name, p.Name())
		}
	}
	_, err := New("iocp", Parked)
	if err == nil {
		t.Fatal("an unknown backend opened")
	}
	for _, want := range append(Available(), "iocp") {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not name %q", err, want)
		}
	}
	if _, err := New("", Mode(7)); err == nil {
		t.Error("an unknown mode opened")
	}
}

// TestConformance tests each backend, in each mode, against the contract of sys.Poller.
func TestConformance(t *testing.T) {
	for _, name := range Available() {
		for _, mode := range []Mode{Parked, Pinned} {
			t.Run(name+"/"+mode.String(), func(t *testing.T) {
				polltest.Run(t, polltest.Kernel{
					Sockets: sys.NewSockets,
					Poller:  func() (sys.Poller, error) { return New(name, mode) },
				})
			})
		}
	}
}
