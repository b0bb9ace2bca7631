package enginetest

import (
	"fmt"
	"math"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/internal/backend"
	"github.com/go-eddy/eddy/internal/poll"
	"github.com/go-eddy/eddy/internal/simhook"
	"github.com/go-eddy/eddy/internal/sys"
	"github.com/go-eddy/eddy/internal/testkit"
)

// A Clock is a time that stands still until the test advances it. The engines on it otherwise run as ever, on the real
// kernel with real sockets. Deadlines, timers, rates and lag of the loops follow the Clock. Code outside the loops that
// uses package time does not, and there is no watchdog. Loops look up deadlines in steps of 10 ms.
type Clock struct {
	t      testing.TB
	passed atomic.Int64
	began  time.Time

	mu      sync.Mutex
	pollers []*clockedPoller
}

// NewClock puts servers, dialers and groups that are not started on one clock. Members of a shared group must be named
// in the same call.
func NewClock(t testing.TB, on ...any) *Clock {
	t.Helper()
	c := &Clock{t: t, began: time.Now()}
	for _, o := range on {
		name := "" // of the backend
		switch o := o.(type) {
		case *eddy.Server:
			if name = o.Poller; o.Group != nil {
				name = o.Group.Poller
			}
			simhook.Simulate(c.host(name), o)
		case *eddy.Dialer:
			if o.Group != nil {
				name = o.Group.Poller
			}
			simhook.Simulate(c.host(name), o)
		case *eddy.Group:
			simhook.Simulate(c.host(o.Poller), o)
		default:
			t.Fatalf("enginetest: a %T has no clock", o)
		}
	}
	return c
}

// host is the machine that the tests run on, with another clock.
func (c *Clock) host(name string) simhook.Host {
	if name == "" {
		name = os.Getenv("EDDY_POLLER") // as a Group does
	}
	return simhook.Host{
		Sockets: func() sys.Sockets { return backend.NewSockets(name) },
		Clock:   c,
		Poller: func() (sys.Poller, error) {
			p, err := backend.NewPoller(name, poll.Parked)
			if err != nil {
				return nil, fmt.Errorf("enginetest: %w", err)
			}
			clocked := &clockedPoller{Poller: p}
			c.mu.Lock()
			defer c.mu.Unlock()
			c.pollers = append(c.pollers, clocked)
			return clocked, nil
		},
		Start: func(l simhook.Loop) { go l.Run() },
		Pause: func(_ time.Duration, alarm <-chan struct{}) { <-alarm },
		Await: func(a, b <-chan struct{}) bool {
			select {
			case <-a:
				return true
			case <-b:
				return false
			}
		},
	}
}

// Now and Wall implement sys.Clock.
func (c *Clock) Now() int64      { return int64(time.Second) + c.passed.Load() }
func (c *Clock) Wall() time.Time { return c.began.Add(time.Duration(c.passed.Load())) }

// Advance lets d pass. It returns when each loop has done what was due by then and has published its numbers. Work that
// this starts on other goroutines may go on. No loop may be inside a handler that waits for the test, because Advance
// waits for all loops. Any goroutine but a loop's.
func (c *Clock) Advance(d time.Duration) {
	c.t.Helper()
	c.passed.Add(int64(d))
	c.mu.Lock()
	pollers := c.pollers
	c.mu.Unlock()
	for range 3 { // the iteration under way, one that sees the time, and the end of that one
		for _, p := range pollers {
			seen := p.waits.Load()
			if p.Wake() != nil {
				continue // the loop has ended
			}
			testkit.Eventually(c.t, "a loop to see the time", func() bool { return p.waits.Load() > seen || p.closed.Load() })
		}
	}
}

// Pass lets d pass in steps of Advance, so that timers armed on the way expire too.
func (c *Clock) Pass(d, step time.Duration) {
	c.t.Helper()
	for ; d > 0; d -= step {
		c.Advance(min(d, step))
	}
}

// clockedPoller waits for events and wake-ups only, and ignores timeouts other than 0.
type clockedPoller struct {
	sys.Poller
	waits  atomic.Int64
	closed atomic.Bool
}

// staleToken belongs to no connection.
const staleToken = math.MaxUint64

func (p *clockedPoller) Wait(events []sys.Event, timeout time.Duration) (int, error) {
	p.waits.Add(1)
	if timeout == 0 {
		return p.Poller.Wait(events, 0)
	}
	n, err := p.Poller.Wait(events, -1)
	if n == 0 && err == nil { // an event, or the loop would take the early return for a fault of the poller
		events[0], n = sys.Event{Token: staleToken, Ready: sys.Readable}, 1
	}
	return n, err
}

func (p *clockedPoller) Close() error {
	p.closed.Store(true)
	return p.Poller.Close()
}
