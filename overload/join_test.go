package overload

import (
	"bufio"
	"io"
	"log/slog"
	"net/http"
	"testing"
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/http1"
	"github.com/go-eddy/eddy/internal/enginetest"
	"github.com/go-eddy/eddy/internal/testkit"
)

// site is an HTTP server whose manager takes looks when the test says.
type site struct {
	*eddy.Server
	*Manager
	dial  dial
	addr  string
	clock *enginetest.Clock
	hold  chan struct{} // lets requests for /hold end
	held  chan struct{} // tells that one has begun
	at    time.Time
}

func newSite(t *testing.T, onLimit eddy.Decision) *site {
	pool, err := executor.NewFixed(executor.Options{Workers: 4, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	s := &site{hold: make(chan struct{}), held: make(chan struct{}), at: time.Now()}
	pages := http1.NewHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/hold" {
			s.held <- struct{}{}
			<-s.hold
		}
		_, _ = io.WriteString(w, "OK")
	}), pool, http1.Options{IdleTimeout: -1})
	s.Server = &eddy.Server{
		Loops: 1, Init: pages.Init, Pools: []*executor.Pool{pool}, Logger: slog.New(slog.DiscardHandler),
		Admission: eddy.Admission{OnLimit: onLimit, Busy: pages.Refuse},
	}
	s.clock = enginetest.NewClock(t, s.Server)
	s.addr = enginetest.Serve(t, s.Server)
	o := only(s.dial.source("d"))
	o.Servers = []*eddy.Server{s.Server}
	if s.Manager, err = newManager(o); err != nil {
		t.Fatal(err)
	}
	return s
}

// feel makes the manager find a pressure, long after its last look.
func (s *site) feel(pressure int64) {
	s.dial.Store(pressure)
	s.at = s.at.Add(time.Minute)
	s.look(s.at)
}

// client is an HTTP client on one connection.
type client struct {
	*enginetest.Peer
	t *testing.T
	r *bufio.Reader
}

func (s *site) client(t *testing.T) *client {
	p := enginetest.Dial(t, s.addr)
	return &client{p, t, bufio.NewReader(p)}
}

func (c *client) ask(path string) { c.Send("GET " + path + " HTTP/1.1\r\nHost: a\r\n\r\n") }

// answer reads a response, and fails unless it has this status and says close as told.
func (c *client) answer(status int, closes bool) {
	c.t.Helper()
	resp, err := http.ReadResponse(c.r, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	if resp.StatusCode != status || resp.Close != closes {
		c.t.Errorf("status %d, close %v; want %d, %v", resp.StatusCode, resp.Close, status, closes)
	}
}

// get asks and reads the answer.
func (c *client) get(status int, closes bool) {
	c.t.Helper()
	c.ask("/")
	c.answer(status, closes)
}

// TestStopAccepting: new clients are refused in the protocol's words while the action is in force, and served when it is over. A second
// server of the process, with a manager of its own, notices nothing; nor do connections that are open.
func TestStopAccepting(t *testing.T) {
	a, b := newSite(t, eddy.DecisionBusy), newSite(t, eddy.DecisionBusy)
	defer func() { _ = a.Server.Close(); _ = b.Server.Close() }()
	open := a.client(t)
	open.get(200, false)
	for range 2 {
		a.feel(98)
		b.feel(10)
		a.client(t).answer(503, true)
		b.client(t).get(200, false)
		a.feel(0)
		a.client(t).get(200, false)
	}
	st := a.Server.Stats()
	if n := st.Refused[eddy.RefuseOverload]; n != 2 || len(b.Server.Stats().Refused) != 0 {
		t.Errorf("%d refused, want 2; %v of the other", n, b.Server.Stats().Refused)
	}
	if s := a.Manager.Stats().Actions[StopAccepting-1]; s.Began != 2 || s.Ended != 2 {
		t.Errorf("%+v", s)
	}
}

// TestStopAcceptingAndDrain: a server that accepts nothing drains in order. Those who wait in the kernel's queue are told that there is no
// room, and the end of the overload afterwards disturbs nothing.
func TestStopAcceptingAndDrain(t *testing.T) {
	s := newSite(t, eddy.DecisionPause)
	s.feel(100)
	waits := s.client(t) // connected by the kernel
	testkit.Eventually(t, "the listener to rest", func() bool { return s.Server.Stats().AcceptPauses > 0 })
	ended := make(chan error, 1)
	go func() {
		_, err := s.Server.Shutdown(testkit.Context(t))
		ended <- err
	}()
	waits.answer(503, true)
	_ = waits.Close()
	if err := testkit.Receive(t, "the drain", ended); err != nil {
		t.Error(err)
	}
	if n := s.Server.Stats().Refused[eddy.RefuseOverload]; n != 1 {
		t.Errorf("%d refused, want 1", n)
	}
	if s.feel(0); !s.ends() {
		t.Error("the manager does not end with its server")
	}
	s.undo()
}

// TestEndConnections: idle connections end by themselves, oldest first; one that works says close with its next answer; one whose
// request runs is answered first. All are asked at most once, and what has ended is told by its reason.
func TestEndConnections(t *testing.T) {
	s := newSite(t, eddy.DecisionReject)
	defer s.Server.Close()
	idle, busy, quick := s.client(t), s.client(t), s.client(t)
	for _, c := range []*client{idle, busy, quick} {
		c.get(200, false)
	}
	s.clock.Advance(2 * time.Second)
	busy.ask("/hold")
	testkit.Receive(t, "the request", s.held)
	quick.get(200, false)
	s.feel(91) // end_idle
	idle.ExpectEnd()
	_ = idle.Close()
	testkit.Eventually(t, "the end of the idle one", func() bool { return s.Server.Stats().Active == 2 })
	if st := enginetest.Stats(t, s.Server); st.EndedIdle != 1 || st.EndedKeepAlive != 0 {
		t.Errorf("%d idle and %d others were told", st.EndedIdle, st.EndedKeepAlive)
	}
	s.feel(96) // end_keep_alive
	s.look(s.at.Add(every))
	enginetest.Barrier(t, s.Server) // all have been told
	quick.ExpectEnd()
	_ = quick.Close()
	s.hold <- struct{}{}
	busy.answer(200, true)
	busy.ExpectEnd()
	_ = busy.Close()
	testkit.Eventually(t, "the connections to end", func() bool { return s.Server.Stats().Active == 0 })
	if st := enginetest.Stats(t, s.Server); st.EndedKeepAlive != 2 || st.Closed[eddy.CloseOverload] != 3 || len(st.Closed) != 1 {
		t.Errorf("%d told, closed %v", st.EndedKeepAlive, st.Closed)
	}
	s.feel(0)
	s.clock.Advance(2 * time.Second)
	fresh := s.client(t)
	fresh.get(200, false)
	s.clock.Advance(2 * time.Second)
	s.feel(0)
	enginetest.Barrier(t, s.Server)
	fresh.get(200, false)
}

// TestChangesWhileTheServerEnds: a manager whose grade changes all the time does no harm to a server that is closed in the middle.
func TestChangesWhileTheServerEnds(t *testing.T) {
	s := newSite(t, eddy.DecisionPause)
	for range 20 {
		enginetest.Dial(t, s.addr)
	}
	done := make(chan struct{})
	go func() {
		defer func() { done <- struct{}{} }()
		for i := int64(0); !s.ends(); i++ {
			s.feel(i % 2 * 100)
		}
		s.feel(100)
		s.undo()
	}()
	testkit.Eventually(t, "some changes", func() bool { return s.Manager.Stats().Actions[StopAccepting-1].Ended > 100 })
	if err := s.Server.Close(); err != nil {
		t.Error(err)
	}
	<-done
	if active(t, s.Manager) != "" {
		t.Errorf("%q in force", active(t, s.Manager))
	}
}
