package rpc

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-eddy/eddy/internal/chaos"
	"github.com/go-eddy/eddy/internal/testkit"
)

var chaosSteps = flag.Int("chaos.steps", 40, "what TestChaos does to its connections")

// storm is a client and a server with a hostile network between them, and what became of each call.
type storm struct {
	t      *testing.T
	client *Client
	proxy  *chaos.Proxy

	mu       sync.Mutex
	executed map[string]int

	ids, succeeded, failed, surelyNot, notified atomic.Int64
}

// ran notes an execution, on the server.
func (s *storm) ran(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.executed[id]++
}

// next returns the body of a call: its number, and filling of any length.
func (s *storm) next(r *rand.Rand) string {
	return fmt.Sprintf("%d:%0*d", s.ids.Add(1), 1+r.IntN(3000), 7)
}

// judge holds the end of a call against what the server did.
func (s *storm) judge(id, resp string, err error) {
	s.mu.Lock()
	n := s.executed[id]
	s.mu.Unlock()
	if err == nil {
		s.succeeded.Add(1)
		if resp != id {
			s.t.Errorf("the answer of another call: %.40q for %.40q", resp, id)
		}
		if n != 1 {
			s.t.Errorf("call %.40q was answered and executed %d times", id, n)
		}
		return
	}
	s.failed.Add(1)
	e, ok := errors.AsType[*Error](err)
	if !ok {
		s.t.Errorf("call %.40q ended with %v, a %T", id, err, err)
		return
	}
	if n > 1 {
		s.t.Errorf("call %.40q was executed %d times", id, n)
	}
	if e.Executed == ExecutedNo {
		s.surelyNot.Add(1)
		if n != 0 {
			s.t.Errorf("call %.40q was executed and reported as certainly not: %v", id, err)
		}
	}
}

// caller makes calls of all kinds until done.
func (s *storm) caller(seed uint64, done <-chan struct{}) {
	r := rand.New(rand.NewPCG(seed, 2))
	for {
		select {
		case <-done:
			return
		default:
		}
		id := s.next(r)
		ctx := context.Background()
		switch r.IntN(4) {
		case 0:
			f := InvokeAsync[[]byte](ctx, s.client, probeKey, "Echo", text(id))
			calls := new(atomic.Int32)
			f.Then(func(*[]byte, error) { calls.Add(1); s.notified.Add(1) })
			resp, err := f.Wait(ctx)
			s.judge(id, deref(resp), err)
			if calls.Load() > 1 {
				s.t.Errorf("call %.40q: its function was called %d times", id, calls.Load())
			}
		case 1:
			if err := Send(ctx, s.client, probeKey, "Log", text(id)); err != nil {
				if _, ok := errors.AsType[*Error](err); !ok {
					s.t.Errorf("one-way %.40q ended with %v, a %T", id, err, err)
				}
			}
		case 2:
			ctx, cancel := context.WithTimeout(ctx, time.Duration(r.IntN(20))*time.Millisecond)
			resp, err := Invoke[[]byte](ctx, s.client, probeKey, "Echo", text(id))
			s.judge(id, deref(resp), err)
			cancel()
		default:
			resp, err := Invoke[[]byte](ctx, s.client, probeKey, "Echo", text(id))
			s.judge(id, deref(resp), err)
		}
	}
}

func deref(b *[]byte) string {
	if b == nil {
		return ""
	}
	return string(*b)
}

// heal ends what a step did.
func (s *storm) heal() {
	p := s.proxy
	p.Stall(false)
	p.Refuse(false)
	p.Throttle(0)
	p.Shred(0)
	p.CutAfter(0)
}

// step does something to the network, after it has healed what the step before did.
func (s *storm) step(r *rand.Rand) {
	s.heal()
	p := s.proxy
	switch r.IntN(7) {
	case 0:
		p.Cut()
	case 1:
		p.Stall(true)
	case 2:
		p.Throttle(20_000 + r.IntN(200_000))
	case 3:
		p.Shred(1 + r.IntN(40))
	case 4: // in the middle of a frame, sooner or later
		p.CutAfter(int64(1 + r.IntN(20_000)))
		p.Cut()
	case 5:
		p.Refuse(true)
		p.Cut()
	case 6: // a moment of peace
	}
}

// TestChaos: calls of all kinds through connections that are cut, stalled, throttled, shredded and refused. Each ends in its
// own answer or in a typed error; what was answered was executed once, what is reported as certainly not executed was not,
// and nothing was executed twice. Afterwards everything works again, and no goroutine is left (TestMain).
func TestChaos(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	s := &storm{t: t, executed: map[string]int{}}
	told := &recorder{}
	srv := newServer(t, ServerOptions{Ports: []PortOptions{{
		Dispatcher: DispatchAll, Pool: PoolOptions{Threads: 8, Queue: 100}, Listener: struct {
			ConnectedListener
			DisconnectedListener
		}{told, told},
	}}})
	svc, err := NewService(probeKey,
		Raw("Echo", func(_ context.Context, body []byte) ([]byte, error) {
			s.ran(string(body))
			return body, nil
		}),
		OneWay("Log", func(_ context.Context, body *[]byte) error { return nil }))
	if err != nil {
		t.Fatal(err)
	}
	serve(t, srv, svc)
	if s.proxy, err = chaos.New(srv.Addr("port0").String()); err != nil {
		t.Fatal(err)
	}
	defer s.proxy.Close()
	s.client = client(t, ClientOptions{
		ConnsPerAddr: 2, Timeout: 2 * time.Second, Heartbeat: 200 * time.Millisecond,
		Backoff: Backoff{Min: time.Millisecond, Max: 20 * time.Millisecond},
	}, s.proxy.Addr())

	done := make(chan struct{})
	var callers sync.WaitGroup
	for i := range 6 {
		callers.Go(func() { s.caller(seed+uint64(i), done) })
	}
	for range *chaosSteps {
		s.step(r)
		time.Sleep(time.Duration(1+r.IntN(15)) * time.Millisecond) // the network's own time
	}
	s.heal()
	s.proxy.Cut()
	close(done)
	callers.Wait()

	testkit.Eventually(t, "a call to succeed again", func() bool {
		resp, err := Invoke[[]byte](context.Background(), s.client, probeKey, "Echo", text("after"))
		return err == nil && string(*resp) == "after"
	})
	if err := s.client.Close(); err != nil {
		t.Error(err)
	}
	testkit.Eventually(t, "the connections' end", func() bool { return srv.Stats().Ports["port0"].Engine.Active == 0 })
	testkit.Eventually(t, "each disconnect", func() bool {
		st := srv.Stats().Ports["port0"].Events
		return st.Connected == st.Disconnected
	})
	if s.succeeded.Load() == 0 {
		t.Errorf("no call succeeded, %d failed", s.failed.Load())
	}
	t.Logf("%d calls answered, %d failed, %d of them certainly not executed; %+v", s.succeeded.Load(), s.failed.Load(), s.surelyNot.Load(), s.proxy.Stats())
}
