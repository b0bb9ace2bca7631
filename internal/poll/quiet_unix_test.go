//go:build unix

package poll

import (
	"testing"
	"time"

	"github.com/go-eddy/eddy/internal/sys"
	"github.com/go-eddy/eddy/internal/testkit"
)

// TestLooksDoNotCutWaits: a wait with paused connections is one wait to its
// caller, however often they are checked meanwhile. Otherwise a loop would run
// four times a second for nothing.
func TestLooksDoNotCutWaits(t *testing.T) {
	p := open(t, "select", Pinned)
	a, _ := pair(t)
	must(t, p.Add(a, sys.None, 1))
	const timeout = 5 * glance / 2
	start := time.Now()
	if n, err := p.Wait(make([]sys.Event, 4), timeout); n != 0 || err != nil {
		t.Fatalf("Wait = %d, %v", n, err)
	}
	if took := time.Since(start); took < timeout || took > testkit.Patience/2 {
		t.Errorf("Wait(%v) took %v", timeout, took)
	}
	least := time.Hour // a busy machine makes some of them long
	for range 20 {
		start = time.Now()
		_, err := p.Wait(make([]sys.Event, 4), time.Millisecond)
		must(t, err)
		least = min(least, time.Since(start))
	}
	if least >= glance {
		t.Errorf("each of 20 waits of 1ms took %v and more", least)
	}
}

// TestQuietForgets: a descriptor that is resumed or removed is no longer
// checked.
func TestQuietForgets(t *testing.T) {
	p := open(t, "select", Pinned).(*selecter)
	var fds [4]int
	for i := range fds {
		fds[i], _ = pair(t)
		must(t, p.Add(fds[i], sys.None, uint64(i)))
	}
	must(t, p.Modify(fds[1], sys.None, 11))
	must(t, p.Modify(fds[0], sys.Read, 10))
	must(t, p.Modify(fds[0], sys.Write, 10))
	must(t, p.Remove(fds[3]))
	if len(p.quiet.fds) != 2 || len(p.quiet.index) != 2 {
		t.Fatalf("%d of 2 are looked at, %d known", len(p.quiet.fds), len(p.quiet.index))
	}
	for _, fd := range fds[1:3] {
		if i, ok := p.quiet.index[fd]; !ok || p.quiet.fds[i].Fd != int32(fd) {
			t.Errorf("descriptor %d is not where it is looked for", fd)
		}
	}
	must(t, p.Modify(fds[0], sys.None, 10))
	if len(p.quiet.fds) != 3 {
		t.Errorf("%d of 3 are looked at", len(p.quiet.fds))
	}
}
