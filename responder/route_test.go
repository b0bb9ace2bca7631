package responder_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/internal/enginetest"
	"github.com/go-eddy/eddy/internal/testkit"
	"github.com/go-eddy/eddy/responder"
)

// routes sends requests to one pool or another, to the loop or nowhere, as the last two digits of their ids say: below 10 to
// the first pool, below 20 to the second, below 30 to the loop, and the others away.
type routes struct {
	a, b       *executor.Pool
	let, ended atomic.Int64
}

func (r *routes) options(o *responder.Options[*ask]) {
	o.Pool = nil
	o.Route = func(a *ask) (*executor.Pool, error) {
		switch d := a.id % 100 / 10; d {
		case 0, 1, 2:
			r.let.Add(1)
			return []*executor.Pool{r.a, r.b, nil}[d], nil
		}
		return nil, errors.New("nowhere")
	}
	o.Done = func(*ask) { r.ended.Add(1) }
	o.Value = func(a *ask, key any) any {
		if key == "id" {
			return a.id
		}
		return nil
	}
}

// settle waits until every request that was let pass has ended.
func (r *routes) settle(d *desk) {
	d.t.Helper()
	d.settle()
	if let, ended := r.let.Load(), r.ended.Load(); let != ended {
		d.t.Errorf("%d requests were let pass and the end of %d was told", let, ended)
	}
}

// TestRoutes: requests run where Route says, refused ones are answered with its error, and one full pool leaves the others
// alone.
func TestRoutes(t *testing.T) {
	for _, o := range []responder.Ordering{responder.ByCompletion, responder.ByRequest, responder.Serial} {
		t.Run(o.String(), func(t *testing.T) {
			queue := executor.HandOff
			if o == responder.Serial {
				queue = 1 // a worker that has just answered is not free at once
			}
			r := &routes{a: newPool(t, 1, queue), b: newPool(t, 1, queue)}
			d := newDesk(t, nil, func(opts *responder.Options[*ask]) {
				r.options(opts)
				opts.Ordering = o
			})
			c := newClient(t, enginetest.Serve(t, &eddy.Server{Loops: 1, Init: d.init, Logger: quiet()}))
			c.say("1 wait")
			d.waitBegan(1)
			switch o {
			case responder.ByCompletion:
				c.say("2 ok", "11 ok", "21 ok", "31 ok", "22 panic", "23 oneway", "32 oneway", "3 oneway", "4 local")
				// 11 is on another goroutine.
				got := map[string]bool{}
				for range 6 {
					line, err := c.r.ReadString('\n')
					if err != nil {
						t.Fatal(err)
					}
					got[strings.TrimSpace(line)] = true
				}
				for _, want := range []string{"2 busy", "11 ok", "21 ok", "31 failed", "22 panicked", "4 ok"} {
					if !got[want] {
						t.Errorf("answers %v, without %q", got, want)
					}
				}
				close(d.gate)
				c.expect("1 ok")
			case responder.ByRequest:
				c.say("2 ok", "11 ok", "21 ok", "31 ok", "22 panic", "23 oneway", "4 local")
				testkit.Eventually(t, "the others", func() bool { return r.b.Stats().Completed == 1 && d.r.Stats().Refused == 1 })
				if n := c.r.Buffered(); n > 0 {
					t.Errorf("%d bytes before the first answer", n)
				}
				close(d.gate)
				c.expect("1 ok", "2 busy", "11 ok", "21 ok", "31 failed", "22 panicked", "4 ok")
			case responder.Serial:
				c.say("11 ok", "2 ok", "21 ok", "31 ok", "22 panic", "23 oneway", "4 local", "12 exit", "3 ok")
				testkit.Eventually(t, "the refusal", func() bool { return d.r.Stats().Refused == 1 })
				if n := d.ran.Load(); n != 1 {
					t.Errorf("%d functions began beside the first", n-1)
				}
				close(d.gate)
				c.expect("1 ok", "11 ok", "2 ok", "21 ok", "31 failed", "22 panicked", "4 ok", "12 failed", "3 ok")
				if most := d.most.Load(); most != 1 {
					t.Errorf("%d functions ran side by side", most)
				}
			}
			r.settle(d)
		})
	}
}

// TestSerialRoutesWait: under Serial a call waits for those before it, also those that were answered and still run and
// whatever their pools; what is cancelled meanwhile is not run, and what finds its pool full is answered.
func TestSerialRoutesWait(t *testing.T) {
	r := &routes{a: newPool(t, 1, executor.HandOff), b: newPool(t, 1, executor.HandOff)}
	d := newDesk(t, nil, func(o *responder.Options[*ask]) {
		r.options(o)
		o.Ordering = responder.Serial
	})
	c := newClient(t, enginetest.Serve(t, &eddy.Server{Loops: 1, Init: d.init, Logger: quiet()}))
	c.say("1 deaf")
	d.waitBegan(1)
	c.say("11 ok", "21 ok", "12 ok", "13 oneway", "12 cancel", "13 cancel", "1 cancel", "5 local")
	c.expect("1 cancelled")
	testkit.Eventually(t, "the cancellations", func() bool { return d.r.Stats().Canceled == 3 })
	if n := d.ran.Load(); n != 1 {
		t.Errorf("%d functions began beside one that was answered and still runs", n-1)
	}
	held := make(chan struct{})
	if err := r.b.SubmitFunc(func() { <-held }); err != nil {
		t.Fatal(err)
	}
	close(d.gate)
	c.expect("11 busy", "21 ok", "12 cancelled", "5 ok")
	close(held)
	r.settle(d)
	if n := d.ran.Load(); n != 3 { // 1, 21 and 5
		t.Errorf("%d functions ran, want 3", n)
	}
	if st := d.r.Stats(); st.Dropped != 1 {
		t.Errorf("%d one-way requests were dropped, want 1: %+v", st.Dropped, st)
	}
}

// TestManySerialRejections: thousands of calls that wait and then find their pool full are answered one after the other.
func TestManySerialRejections(t *testing.T) {
	const calls = 3000
	r := &routes{a: newPool(t, 1, executor.HandOff), b: newPool(t, 1, executor.HandOff)}
	d := newDesk(t, nil, func(o *responder.Options[*ask]) {
		r.options(o)
		o.Ordering = responder.Serial
		o.InFlight = calls + 2
	})
	c := newClient(t, enginetest.Serve(t, &eddy.Server{Loops: 1, Init: d.init, Logger: quiet()}))
	held := make(chan struct{})
	if err := r.b.SubmitFunc(func() { <-held }); err != nil {
		t.Fatal(err)
	}
	c.say("1 wait")
	d.waitBegan(1)
	var all strings.Builder
	for i := range calls {
		fmt.Fprintf(&all, "%d11 ok\n", i+1)
	}
	if _, err := io.WriteString(c, all.String()); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "all of them", func() bool { return r.let.Load() == calls+1 })
	close(d.gate)
	c.expect("1 ok")
	for i := range calls {
		c.expect(fmt.Sprintf("%d11 busy", i+1))
	}
	close(held)
	r.settle(d)
}

// TestDisconnectWithRoutes: calls of a connection that ends are over wherever they are, and their end is told.
func TestDisconnectWithRoutes(t *testing.T) {
	for _, o := range []responder.Ordering{responder.ByCompletion, responder.ByRequest, responder.Serial} {
		r := &routes{a: newPool(t, 1, 5), b: newPool(t, 1, 5)}
		d := newDesk(t, nil, func(opts *responder.Options[*ask]) {
			r.options(opts)
			opts.Ordering = o
		})
		c := newClient(t, enginetest.Serve(t, &eddy.Server{Loops: 1, CloseOnEOF: true, Init: d.init, Logger: quiet()}))
		c.say("1 wait", "2 ok", "11 deaf", "12 ok", "21 ok", "3 oneway")
		if o == responder.Serial {
			d.waitBegan(1)
		} else {
			d.waitBegan(1, 11)
		}
		testkit.Eventually(t, "all of them", func() bool { return r.let.Load() == 6 })
		c.Close()
		testkit.Eventually(t, "the end", func() bool { return d.r.Stats().Abandoned > 0 })
		close(d.gate)
		r.settle(d)
	}
}

// TestValuesOfRequests: the context of a request knows its values, derived ones too, until the function has returned, and
// not when its end was merely decided.
func TestValuesOfRequests(t *testing.T) {
	r := &routes{a: newPool(t, 1, 5), b: newPool(t, 1, 5)}
	seen := make(chan any, 4)
	kept := make(chan context.Context, 1)
	d := newDesk(t, nil, func(o *responder.Options[*ask]) {
		r.options(o)
		run := o.Run
		o.Run = func(ctx context.Context, a *ask) (any, error) {
			derived, stop := context.WithCancel(ctx)
			defer stop()
			if a.verb == "wait" {
				kept <- derived
			}
			resp, err := run(ctx, a)
			seen <- derived.Value("id")
			seen <- derived.Value("other")
			return resp, err
		}
	})
	c := newClient(t, enginetest.Serve(t, &eddy.Server{Loops: 1, Init: d.init, Logger: quiet()}))
	c.say("7 wait")
	d.waitBegan(7)
	c.say("7 cancel")
	c.expect("7 cancelled")
	if got := <-seen; got != uint64(7) {
		t.Errorf("a cancelled function sees %v", got)
	}
	if got := <-seen; got != nil {
		t.Errorf("another key has %v", got)
	}
	r.settle(d)
	if got := (<-kept).Value("id"); got != nil {
		t.Errorf("a kept context still says %v", got)
	}
	c.say("21 ok")
	c.expect("21 ok")
	if got := <-seen; got != uint64(21) {
		t.Errorf("on the loop: %v", got)
	}
	r.settle(d)
}

// TestExpiredIsNotRun: a request whose time was over before a worker took it is not run, also when its loop was too busy to
// notice.
func TestExpiredIsNotRun(t *testing.T) {
	r := &routes{a: newPool(t, 1, 5), b: newPool(t, 1, 5)}
	stalled, goOn := make(chan time.Time, 1), make(chan struct{})
	d := newDesk(t, nil, func(o *responder.Options[*ask]) {
		r.options(o)
		o.Ordering = responder.ByRequest
		o.Timeout = func(a *ask) time.Duration {
			if a.id == 2 || a.id == 3 {
				return time.Millisecond
			}
			return 0
		}
		run := o.Run
		o.Run = func(ctx context.Context, a *ask) (any, error) {
			if a.verb == "stall" {
				stalled <- time.Now()
				<-goOn
			}
			return run(ctx, a)
		}
	})
	c := newClient(t, enginetest.Serve(t, &eddy.Server{Loops: 1, Init: d.init, Logger: quiet()}))
	c.say("1 wait")
	d.waitBegan(1)
	if _, err := io.WriteString(c, "2 ok\n3 oneway\n21 stall\n"); err != nil {
		t.Fatal(err)
	}
	since := <-stalled
	testkit.Eventually(t, "the end of their time", func() bool { return time.Since(since) > 3*time.Millisecond })
	close(d.gate)
	testkit.Eventually(t, "the worker to take them", func() bool { return r.a.Stats().Completed == 3 })
	close(goOn)
	c.expect("1 ok", "2 late", "21 ok")
	r.settle(d)
	if n := d.ran.Load(); n != 2 {
		t.Errorf("%d functions ran, want 2", n)
	}
	if st := d.r.Stats(); st.Expired != 2 || st.Dropped != 1 {
		t.Errorf("%+v, want 2 that expired, of which 1 was one-way", st)
	}
}
