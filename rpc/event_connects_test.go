package rpc

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/codec/frame"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/internal/testkit"
)

// gatekeeper is a Listener whose Connected waits, and which notes the alarms.
type gatekeeper struct {
	listenerWithoutSent
	mu     sync.Mutex
	alarms []string
}

func (g *gatekeeper) ConnectBacklog(name string, waiting int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.alarms = append(g.alarms, fmt.Sprintf("%s %d", name, waiting))
}

func (g *gatekeeper) heard() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.alarms
}

// holdConnects returns a gatekeeper that holds the first Connected until open is called.
func holdConnects() (g *gatekeeper, r *recorder, open func()) {
	gate := make(chan struct{})
	var once sync.Once
	r = &recorder{during: func(event string, _ *Link) {
		if event == "connected" {
			once.Do(func() { <-gate })
		}
	}}
	return &gatekeeper{listenerWithoutSent: listenerWithoutSent{r}}, r, sync.OnceFunc(func() { close(gate) })
}

// TestConnectQueueRefuses: with one connect that runs and as many as the queue holds that wait, the next connection is told
// BUSY and closed; those that wait are served, and answered their PINGs meanwhile.
func TestConnectQueueRefuses(t *testing.T) {
	const bound = 3
	g, r, open := holdConnects()
	defer open()
	var log testkit.Output
	s := newEventServer(t, eventOptions{
		dispatcher: DispatchConnection, listener: g, connectQueue: bound, connectWarning: 2, retryAfter: 1500 * time.Millisecond,
		logger: slog.New(slog.NewTextHandler(&log, nil)),
	})
	var peers []*eventPeer
	for i := range bound + 1 {
		p := s.dial()
		p.ping(uint64(i + 1))
		peers = append(peers, p)
		if i == 0 {
			testkit.Eventually(t, "the first connect to run", func() bool { return s.n.stats().Waiting == 0 && r.inside.Load() == 1 })
		}
	}
	if got := s.n.stats().Waiting; got != bound {
		t.Errorf("%d wait, want %d", got, bound)
	}
	if got := g.heard(); len(got) != 0 {
		t.Errorf("alarms %v before more wait than they should", got)
	}
	for range 2 {
		p := s.dial()
		id, status, payload, err := p.response()
		if err != nil || id != 0 || status != frame.StatusBusy || binary.BigEndian.Uint32([]byte(payload)) != 1500 {
			t.Errorf("a refused client was told %d %v %q %v", id, status, payload, err)
		}
		if rest, err := io.ReadAll(p); err != nil || len(rest) > 0 {
			t.Errorf("and then %q %v", rest, err)
		}
		_ = p.Close()
	}
	testkit.Eventually(t, "the refused to be gone", func() bool { return s.srv.Stats().Active == bound+1 })
	if got := s.srv.Stats().Closed[eddy.CloseAdmissionRejected]; got != 2 {
		t.Errorf("%d closes with admission_rejected, want 2", got)
	}
	st := s.n.stats()
	if st.Refused != 2 || st.Rejected != 2 || st.Alarms != 2 || st.Connected != 1 {
		t.Errorf("%+v", st)
	}
	if got := g.heard(); len(got) != 1 || got[0] != "events 3" {
		t.Errorf("alarms %v, want one", got)
	}
	if got := strings.Count(log.String(), "connects and disconnects wait"); got != 1 {
		t.Errorf("%d lines, want 1:\n%s", got, log.String())
	}
	for _, p := range peers {
		p.ping(77)
		_ = p.Close()
	}
	testkit.Eventually(t, "their ends", func() bool { return s.srv.Stats().Active == 0 })
	open()
	testkit.Eventually(t, "all disconnects", func() bool { return s.n.stats().Disconnected == bound+1 })
	want := strings.Repeat("connected ", bound+1) + strings.Repeat("disconnected peer_closed ", bound+1)
	if got := strings.Join(r.told(), " ") + " "; got != want {
		t.Errorf("told %q, want %q", got, want)
	}
}

// TestConnectQueueIsOrdered: connects and disconnects of all connections run one at a time, on loops ever so many.
func TestConnectQueueIsOrdered(t *testing.T) {
	r := &recorder{}
	s := newEventServer(t, eventOptions{dispatcher: DispatchConnection, listener: listenerWithoutSent{r}})
	const n = 40
	var done sync.WaitGroup
	for range n {
		p := s.dial()
		done.Go(func() { _ = p.Close() })
	}
	done.Wait()
	testkit.Eventually(t, "all", func() bool { return s.n.stats().Disconnected == n })
	for _, line := range r.told() {
		if strings.Contains(line, "CONCURRENT") { // the recorder counts over all connections
			t.Fatal(line)
		}
	}
	if st := s.n.stats(); st.Connected != n || st.Refused != 0 || st.Alarms != 0 {
		t.Errorf("%+v", st)
	}
}

// TestConnectQueueEndsWithItsServer: the server's end runs what waits and ends the worker, which a leak would show.
func TestConnectQueueEndsWithItsServer(t *testing.T) {
	g, r, open := holdConnects()
	s := newEventServer(t, eventOptions{dispatcher: DispatchConnection, listener: g})
	for range 3 {
		s.dial().ping(1)
	}
	closed := make(chan error, 1)
	go func() { closed <- s.srv.Close() }()
	testkit.Eventually(t, "the connections to be gone", func() bool { return s.srv.Stats().Active == 0 })
	open()
	if err := <-closed; err != nil {
		t.Error(err)
	}
	if st := s.n.stats(); st.Connected != 3 || st.Disconnected != 3 {
		t.Errorf("%+v: %v", st, r.told())
	}
	if s.n.connects.pool.Stats().Workers != 0 {
		t.Error("the worker lives on")
	}
	if _, err := s.n.connects.pool.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if err := s.n.connects.pool.SubmitFunc(func() {}); !errors.Is(err, executor.ErrClosed) {
		t.Errorf("the pool takes work: %v", err)
	}
}

// TestConnectDefaults: the bound is real without being asked for, and a small one has its alarm.
func TestConnectDefaults(t *testing.T) {
	for _, c := range []struct{ queue, warning, wantQueue, wantWarning int }{
		{0, 0, 4096, 1000},
		{10, 0, 10, 10},
		{0, 7, 4096, 7},
		{20, 30, 20, 30},
	} {
		n, err := newNotifier(eventOptions{
			dispatcher: DispatchConnection, listener: &recorder{}, connectQueue: c.queue, connectWarning: c.warning, logger: mute,
		})
		if err != nil {
			t.Fatal(err)
		}
		if n.connects.bound != c.wantQueue || n.connects.warning != c.wantWarning {
			t.Errorf("queue %d, warning %d: %d and %d", c.queue, c.warning, n.connects.bound, n.connects.warning)
		}
		for _, p := range n.pools() {
			p.Close()
		}
	}
}

// TestRefuseConn: a connection beyond the limit of the port is refused on the loop that accepts, before there is anything to
// dispatch; its client is told, and the Listener is not.
func TestRefuseConn(t *testing.T) {
	for _, d := range allDispatchers {
		t.Run(d.String(), func(t *testing.T) {
			pool := newEventPool(t, executor.Options{Name: "shared", Workers: 1, Queue: executor.HandOff})
			r := &recorder{}
			n, err := newNotifier(eventOptions{name: "limited", dispatcher: d, listener: listenerWithoutSent{r}, shared: pool, logger: mute})
			if err != nil {
				t.Fatal(err)
			}
			group := &eddy.Group{Loops: 2, Logger: mute}
			var elsewhere sync.Map
			srv := &eddy.Server{
				Group: group, MaxConns: 1, Logger: mute, Pools: n.pools(),
				Admission: eddy.Admission{OnLimit: eddy.DecisionBusy, RetryAfter: 2 * time.Second, Busy: func(r eddy.Refusal) []byte {
					if pool.OnWorker() || n.connects != nil && n.connects.pool.OnWorker() {
						elsewhere.Store(r.Peer, true)
					}
					return frame.Refuse(r)
				}},
				Init: func(p *eddy.Pipeline) error {
					return errors.Join(p.Add("frames", frame.Decoder()), n.add(p, "frames"))
				},
			}
			if err := srv.Listen("tcp", "127.0.0.1:0"); err != nil {
				t.Fatal(err)
			}
			defer func() {
				_ = srv.Close()
				_ = group.Close()
			}()
			empty := fillUp(t, pool, 1) // also then
			defer empty()
			first := dialEvents(t, srv.Addr().String())
			testkit.Eventually(t, "the first", func() bool { return srv.Stats().Active == 1 })
			second := dialEvents(t, srv.Addr().String())
			id, status, payload, err := second.response()
			if err != nil || id != 0 || status != frame.StatusBusy || binary.BigEndian.Uint32([]byte(payload)) != 2000 || !strings.Contains(payload, "max_conns") {
				t.Errorf("told %d %v %q %v", id, status, payload, err)
			}
			second.readAll()
			_ = first.Close()
			testkit.Eventually(t, "the first's end", func() bool { return srv.Stats().Active == 0 })
			empty()
			testkit.Eventually(t, "the first's disconnect", func() bool { return n.stats().Disconnected == 1 })
			if st := n.stats(); st.Connected != 1 || st.Refused != 0 {
				t.Errorf("%+v", st)
			}
			elsewhere.Range(func(any, any) bool { t.Error("refused off the loop"); return false })
		})
	}
}
