//go:build unix

package poll

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/go-eddy/eddy/internal/sys"
)

// duplicate copies fd to the lowest free descriptor from least on.
func duplicate(t *testing.T, fd, least int) int {
	t.Helper()
	d, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, least)
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.EMFILE) {
		t.Skipf("the process may not have descriptor %d: %v", least, err)
	}
	must(t, err)
	t.Cleanup(func() { unix.Close(d) })
	return d
}

// TestSelectLimit: the last descriptor of the sets works; the one after it is
// refused with the limit and the value, and disturbs nothing.
func TestSelectLimit(t *testing.T) {
	p := open(t, "select", Pinned)
	a, b := pair(t)
	last, beyond := duplicate(t, a, selectLimit-1), duplicate(t, a, selectLimit)
	if last != selectLimit-1 || beyond != selectLimit {
		t.Skipf("descriptors %d and %d are not those asked for", last, beyond)
	}
	must(t, p.Add(last, sys.Read, 1))
	err := p.Add(beyond, sys.Read, 2)
	if err == nil || !strings.HasPrefix(err.Error(), "poll: ") ||
		!strings.Contains(err.Error(), fmt.Sprintf("descriptor %d", beyond)) || !strings.Contains(err.Error(), fmt.Sprintf("below %d", selectLimit)) {
		t.Errorf("Add beyond the limit: %v", err)
	}
	for what, err := range map[string]error{"Modify": p.Modify(beyond, sys.Read, 2), "Remove": p.Remove(beyond)} {
		if !errors.Is(err, syscall.ENOENT) {
			t.Errorf("%s beyond the limit: %v", what, err)
		}
	}
	write(t, b, 1)
	expect(t, p, sys.Event{Token: 1, Ready: sys.Readable})
	must(t, p.Remove(last))
	expectNothing(t, p)
}

// TestSelectWithoutRoom: with all low descriptors in use, opening the poller
// fails, rather than a later wait that nothing can wake.
func TestSelectWithoutRoom(t *testing.T) {
	null, err := os.Open(os.DevNull)
	must(t, err)
	defer null.Close()
	for duplicate(t, int(null.Fd()), 0) < selectLimit-1 {
	}
	before := duplicate(t, int(null.Fd()), 0)
	if before < selectLimit {
		t.Fatalf("descriptor %d was still free", before)
	}
	_, err = New("select", Parked)
	if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("below %d", selectLimit)) || !strings.Contains(err.Error(), "wake-up") {
		t.Errorf("New: %v", err)
	}
	if after := duplicate(t, int(null.Fd()), 0); after != before+1 {
		t.Errorf("New left a descriptor open: %d, then %d", before, after)
	}
}

func TestSelectTimeout(t *testing.T) {
	for _, c := range []struct {
		in, want time.Duration
	}{
		{0, 0},
		{1, time.Microsecond},
		{time.Microsecond, time.Microsecond},
		{time.Microsecond + 1, 2 * time.Microsecond},
		{1999999999, 2 * time.Second},
		{1<<63 - 1, 1 << 24 * time.Second},
	} {
		if got := time.Duration(unix.TimevalToNsec(*selectTimeout(c.in))); got != c.want {
			t.Errorf("selectTimeout(%v) = %v, want %v", c.in, got, c.want)
		}
	}
	if selectTimeout(-1) != nil {
		t.Error("a wait without limit has one")
	}
}

// TestSelectShrinks: the kernel looks only as far as the highest descriptor
// that is registered.
func TestSelectShrinks(t *testing.T) {
	p := open(t, "select", Pinned).(*selecter)
	a, _ := pair(t)
	low := p.end
	high := duplicate(t, a, 900)
	must(t, p.Add(high, sys.Read, 1))
	if p.end != high+1 {
		t.Errorf("end %d with descriptor %d", p.end, high)
	}
	must(t, p.Remove(high))
	if p.end != low {
		t.Errorf("end %d after Remove, want %d", p.end, low)
	}
}
