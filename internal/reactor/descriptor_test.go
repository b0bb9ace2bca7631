package reactor

import (
	"errors"
	"testing"

	"github.com/go-eddy/eddy/internal/sys"
)

// TestDescriptorTokens: a token is not used again before the iteration in which its descriptor left is over, since an
// event of that may still be on its way.
func TestDescriptorTokens(t *testing.T) {
	r := newRig(t, Settings{})
	watch := func(fd int) uint64 {
		t.Helper()
		token, err := r.Watch(&Descriptor{FD: fd, Ready: func(sys.Ready) { t.Errorf("descriptor %d is ready", fd) }})
		if err != nil {
			t.Fatal(err)
		}
		return token
	}
	first := watch(5)
	if err := r.Unwatch(first); err != nil {
		t.Fatal(err)
	}
	if second := watch(6); second == first {
		t.Error("a token was used again at once")
	}
	if !r.Ready(sys.Event{Token: first, Ready: sys.Readable}) { // reaches nobody
		t.Error("the event is not one of a descriptor")
	}
	if r.Ready(sys.Event{Token: 1 << 32}) {
		t.Error("an event of the resident was taken")
	}
	r.Iterate()
	if third := watch(7); third != first {
		t.Errorf("token %d is not used again, but %d", first, third)
	}
	r.poller.refuse = 8
	if _, err := r.Watch(&Descriptor{FD: 8}); !errors.Is(err, errRefused) {
		t.Errorf("Watch of what the poller refuses: %v", err)
	}
	if n := len(r.poller.regs); n != 2 {
		t.Errorf("%d descriptors are registered, want 2", n)
	}
}

// TestLostDescriptors: when a new poller refuses a descriptor, its owner is told, and one without such a function is
// offered to the poller again.
func TestLostDescriptors(t *testing.T) {
	r := newRig(t, Settings{})
	var lost error
	ready := 0
	for _, d := range []*Descriptor{
		{FD: 5, Ready: func(sys.Ready) {}, Lost: func(err error) { lost = err }},
		{FD: 6, Ready: func(sys.Ready) { ready++; r.poller.ready = nil }},
	} {
		if _, err := r.Watch(d); err != nil {
			t.Fatal(err)
		}
	}
	for _, fd := range []int{5, 6} {
		r.poller.err = errors.New("unwell")
		old := r.poller
		refused := fd
		r.Kernel.Open = func() (sys.Poller, error) {
			p, err := r.open()
			r.poller.refuse = refused
			return p, err
		}
		r.Iterate()
		if r.poller == old {
			t.Fatal("the poller was not replaced")
		}
	}
	if !errors.Is(lost, errRefused) {
		t.Errorf("the owner was told %v", lost)
	}
	r.poller.refuse = 0
	r.now += int64(readopt)
	r.Iterate()
	r.poller.ready = []int{6}
	if r.Iterate(); ready != 1 {
		t.Error("the descriptor was not offered again")
	}
}
