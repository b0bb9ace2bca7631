package backend

import (
	"slices"
	"strings"
	"testing"

	"github.com/go-eddy/eddy/internal/poll"
	"github.com/go-eddy/eddy/internal/sys/netsys"
)

func TestAvailable(t *testing.T) {
	names := Available()
	if names[0] != Default() || names[len(names)-1] != netsys.Name {
		t.Errorf("Available() = %q with default %q", names, Default())
	}
	for _, name := range append(names, "") {
		if err := Check(name); err != nil {
			t.Error(err)
		}
		p, err := NewPoller(name, poll.Parked)
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		want := name
		if want == "" {
			want = Default()
		}
		if p.Name() != want {
			t.Errorf("NewPoller(%q) made a %q", name, p.Name())
		}
	}
}

// TestSocketsAndPollersMatch: a backend's pollers take the listeners of its sockets, and refuse those of other
// backends.
func TestSocketsAndPollersMatch(t *testing.T) {
	for _, name := range append(Available(), "") {
		s := NewSockets(name)
		fd, err := s.OpenReserve()
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close(fd)
		for _, other := range Available() {
			o := NewSockets(other)
			_, err := o.LocalAddr(fd)
			same := strings.Contains(err.Error(), "socket") // it is known, and is none
			if want := Virtual(name) == Virtual(other); same != want {
				t.Errorf("descriptor of %q given to %q: %v", name, other, err)
			}
		}
	}
}

func TestUnknown(t *testing.T) {
	for _, err := range []error{Check("iocp"), func() error { _, err := NewPoller("iocp", poll.Parked); return err }()} {
		if err == nil {
			t.Fatal("an unknown backend is taken")
		}
		for _, want := range append(Available(), `"iocp"`) {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%q does not name %s", err, want)
			}
		}
	}
	if !slices.Contains(Available(), "net") {
		t.Error("net is not everywhere")
	}
}
