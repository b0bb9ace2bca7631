package rpc

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/buf"
	"github.com/go-eddy/eddy/codec/frame"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/internal/enginetest"
	"github.com/go-eddy/eddy/internal/testkit"
)

// eventServer is a frame server with a notifier and nothing else: PING is answered on the loop, what the notifier leaves
// alone is answered NOT_FOUND, and CALL panics on the loop.
type eventServer struct {
	t      *testing.T
	n      *notifier
	srv    *eddy.Server
	group  *eddy.Group
	shared *executor.Pool
}

var mute = slog.New(slog.NewTextHandler(io.Discard, nil))

func newEventPool(t *testing.T, o executor.Options) *executor.Pool {
	t.Helper()
	o.Logger = mute
	p, err := executor.NewFixed(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), testkit.Patience)
		defer cancel()
		if _, err := p.Shutdown(ctx); err != nil {
			t.Error(err)
		}
	})
	return p
}

func newEventServer(t *testing.T, o eventOptions) *eventServer {
	t.Helper()
	if o.logger == nil {
		o.logger = mute
	}
	if o.shared == nil {
		o.shared = newEventPool(t, executor.Options{Name: "shared", Workers: 4})
	}
	o.name = "events"
	n, err := newNotifier(o)
	if err != nil {
		t.Fatal(err)
	}
	s := &eventServer{t: t, n: n, shared: o.shared, group: &eddy.Group{Loops: 2, Logger: mute}}
	decoder := frame.Decoder(frame.MaxPayload(1 << 16))
	s.srv = &eddy.Server{
		Group: s.group, Logger: mute, Pools: n.pools(),
		Init: func(p *eddy.Pipeline) error {
			return errors.Join(p.Add("frames", decoder), p.Add("rest", eddy.Handle(s.rest)), n.add(p, "frames"))
		},
	}
	t.Cleanup(func() { _ = s.group.Close() }) // after the server
	enginetest.Serve(t, s.srv)
	return s
}

var errOfCall = errors.New("a handler's error")

func (s *eventServer) rest(ctx *eddy.Context, f *frame.Frame) error {
	defer f.Release()
	switch f.Op() {
	case frame.Ping:
		return ctx.Write(frame.AppendResponse(nil, f.ID, f.Payload))
	case frame.Call:
		return errOfCall
	}
	return ctx.Write(frame.AppendError(nil, f.ID, &frame.StatusError{Status: frame.StatusNotFound}))
}

// eventPeer is a client made of bytes.
type eventPeer struct {
	t *testing.T
	net.Conn
}

func (s *eventServer) dial() *eventPeer {
	s.t.Helper()
	return dialEvents(s.t, s.srv.Addr().String())
}

func dialEvents(t *testing.T, addr string) *eventPeer {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(testkit.Patience))
	return &eventPeer{t, c}
}

func (p *eventPeer) send(id uint64, op frame.Op, payload string) {
	p.t.Helper()
	if _, err := p.Write(frame.AppendRequest(nil, id, op, []byte(payload))); err != nil {
		p.t.Fatal(err)
	}
}

// response reads one frame.
func (p *eventPeer) response() (id uint64, status frame.Status, payload string, err error) {
	var head [frame.HeaderSize]byte
	if _, err = io.ReadFull(p, head[:]); err != nil {
		return 0, 0, "", err
	}
	body := make([]byte, binary.BigEndian.Uint32(head[12:]))
	if _, err = io.ReadFull(p, body); err != nil {
		return 0, 0, "", err
	}
	return binary.BigEndian.Uint64(head[3:]), frame.Status(head[11]), string(body), nil
}

// expect reads one frame and compares.
func (p *eventPeer) expect(id uint64, status frame.Status, part string) {
	p.t.Helper()
	gotID, got, payload, err := p.response()
	if err != nil || gotID != id || got != status || !strings.Contains(payload, part) {
		p.t.Fatalf("response %d %v %q %v, want %d %v with %q", gotID, got, payload, err, id, status, part)
	}
}

func (p *eventPeer) ping(id uint64) {
	p.t.Helper()
	p.send(id, frame.Ping, "hi")
	p.expect(id, frame.StatusOK, "hi")
}

// readAll reads to the end, and ends the other direction.
func (p *eventPeer) readAll() {
	p.t.Helper()
	if _, err := io.ReadAll(p); err != nil {
		p.t.Error(err)
	}
	_ = p.Close()
}

// recorder is a Listener that notes what it is told and where.
type recorder struct {
	mu     sync.Mutex
	lines  []string
	where  func() Place
	during func(event string, l *Link) // before the event is noted
	reply  func(f *frame.Frame) ([]byte, error)
	inside atomic.Int32 // calls of one connection, but for Sent
	at     map[string]Place
}

func (r *recorder) note(event, line string, l *Link) {
	if event != "sent" && r.inside.Add(1) != 1 && r.at == nil {
		line += " CONCURRENT"
	}
	if r.during != nil {
		r.during(event, l)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.at != nil && r.where != nil {
		r.at[event] = r.where()
	}
	r.lines = append(r.lines, line)
	if event != "sent" {
		r.inside.Add(-1)
	}
}

func (r *recorder) tell(where func() Place) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.where = where
}

func (r *recorder) told() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.lines)
}

func (r *recorder) Connected(l *Link) { r.note("connected", "connected", l) }
func (r *recorder) Disconnected(l *Link, reason eddy.CloseReason, _ error) {
	r.note("disconnected", "disconnected "+reason.String(), l)
}
func (r *recorder) Sent(l *Link, f SentFrame) {
	r.note("sent", fmt.Sprintf("sent %d %v %d", f.ID, frame.Status(f.Code), f.Size), l)
}
func (r *recorder) Received(l *Link, f *frame.Frame) ([]byte, error) {
	r.note("other", fmt.Sprintf("other %d %s", f.ID, f.Payload), l)
	if r.reply != nil {
		return r.reply(f)
	}
	return f.Payload, nil
}
func (r *recorder) Caught(l *Link, err error) { r.note("caught", "caught "+err.Error(), l) }
func (r *recorder) Late(l *Link, id uint64, s frame.Status) {
	r.note("late response", fmt.Sprintf("late %d %v", id, s), l)
}

// place says where the caller runs.
func (s *eventServer) place() Place {
	switch {
	case s.group.In():
		return PlaceLoop
	case s.shared.OnWorker():
		return PlaceShared
	case s.n.connects != nil && s.n.connects.pool.OnWorker():
		return PlaceConnection
	}
	return places
}

var allDispatchers = []Dispatcher{DispatchAll, DispatchDirect, DispatchMessage, DispatchExecution, DispatchConnection}

// TestEventsRunWhereTheTableSays drives one connection through all events of a Listener, with each dispatcher.
func TestEventsRunWhereTheTableSays(t *testing.T) {
	for _, d := range allDispatchers {
		t.Run(d.String(), func(t *testing.T) {
			r := &recorder{at: map[string]Place{}}
			s := newEventServer(t, eventOptions{dispatcher: d, listener: r})
			r.tell(s.place)
			p := s.dial()
			p.ping(1)
			p.send(2, 16, "two")
			p.expect(2, frame.StatusOK, "two")
			p.send(3, frame.Call, "")
			p.readAll()
			testkit.Eventually(t, "disconnected", func() bool { return s.n.stats().Disconnected == 1 })
			want := []string{"connected", "sent 1 OK 18", "other 2 two", "sent 2 OK 19", "caught a handler's error", "disconnected internal_error"}
			testkit.Eventually(t, "all events", func() bool { return len(r.told()) == len(want) })
			got := r.told()
			slices.Sort(got) // Sent has no part in the order
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Errorf("told %q, want %q", got, want)
			}
			for _, e := range []Event{EventConnected, EventDisconnected, EventSent, EventOther, EventCaught} {
				if got, want := r.at[e.String()], d.Place(e, ServerSide); got != want {
					t.Errorf("%v ran on the %v, want the %v", e, got, want)
				}
			}
			st := s.n.stats()
			if want := (EventStats{Connected: 1, Disconnected: 1, Sent: 2, Received: 1, Caught: 1}); st != want {
				t.Errorf("stats %+v, want %+v", st, want)
			}
		})
	}
}

// TestEventsOfAConnectionAreInOrder holds Connected back while everything else happens: the others wait for it, come one at
// a time, and nothing comes after Disconnected.
func TestEventsOfAConnectionAreInOrder(t *testing.T) {
	for _, d := range []Dispatcher{DispatchAll, DispatchMessage, DispatchConnection} {
		t.Run(d.String(), func(t *testing.T) {
			const n = 20
			gate := make(chan struct{})
			held := "connected"
			if d == DispatchMessage { // its Connected is the loop's
				held = "other"
			}
			var once sync.Once
			r := &recorder{during: func(event string, _ *Link) {
				if event == held {
					once.Do(func() { <-gate })
				}
				runtime.Gosched()
			}}
			s := newEventServer(t, eventOptions{dispatcher: d, listener: listenerWithoutSent{r}})
			p := s.dial()
			for i := range n {
				p.send(uint64(i+1), 16, "x")
			}
			p.ping(100) // the loop has read what came before
			p.send(101, frame.Call, "")
			p.readAll()
			testkit.Eventually(t, "the close", func() bool { return s.srv.Stats().Active == 0 })
			if got := len(r.told()); got > 1 {
				t.Errorf("%d events overtook the one that is held: %q", got, r.told())
			}
			close(gate)
			want := []string{"connected"}
			for i := range n {
				want = append(want, fmt.Sprintf("other %d x", i+1))
			}
			want = append(want, "caught a handler's error", "disconnected internal_error")
			testkit.Eventually(t, "all events", func() bool { return len(r.told()) >= len(want) })
			if got := r.told(); !slices.Equal(got, want) {
				t.Errorf("told\n%q, want\n%q", got, want)
			}
		})
	}
}

// listenerWithoutSent hides a method.
type listenerWithoutSent struct{ r *recorder }

func (w listenerWithoutSent) Connected(l *Link) { w.r.Connected(l) }
func (w listenerWithoutSent) Disconnected(l *Link, reason eddy.CloseReason, err error) {
	w.r.Disconnected(l, reason, err)
}
func (w listenerWithoutSent) Received(l *Link, f *frame.Frame) ([]byte, error) {
	return w.r.Received(l, f)
}
func (w listenerWithoutSent) Caught(l *Link, err error) { w.r.Caught(l, err) }

// TestEventsOfAFullPool: while no pool has room, connections are taken, PING is answered, the application's requests are
// answered BUSY, once, and what must not be lost is told later.
func TestEventsOfAFullPool(t *testing.T) {
	for _, d := range []Dispatcher{DispatchAll, DispatchMessage, DispatchConnection} {
		t.Run(d.String(), func(t *testing.T) {
			pool := newEventPool(t, executor.Options{Name: "shared", Workers: 1, Queue: executor.HandOff})
			var link atomic.Pointer[Link]
			r := &recorder{during: func(_ string, l *Link) { link.Store(l) }}
			var log testkit.Output
			s := newEventServer(t, eventOptions{
				dispatcher: d, listener: listenerWithoutSent{r}, shared: pool, retryAfter: 7 * time.Millisecond,
				logger: slog.New(slog.NewTextHandler(&log, nil)),
			})
			empty := fillUp(t, pool, 1)
			defer empty()
			p := s.dial()
			p.ping(1)
			if d != DispatchAll { // else the link waits for its Connected, and so would the request
				testkit.Eventually(t, "connected", func() bool { return s.n.stats().Connected == 1 && link.Load().idle() })
				p.send(2, 16, "two")
				id, status, payload, err := p.response()
				if err != nil || id != 2 || status != frame.StatusBusy || binary.BigEndian.Uint32([]byte(payload)) != 7 {
					t.Errorf("response %d %v %q %v", id, status, payload, err)
				}
			}
			p.ping(3) // and no second response to 2
			p.send(4, frame.Call, "")
			p.readAll()
			testkit.Eventually(t, "the close", func() bool { return s.srv.Stats().Active == 0 })
			var want []string
			rejected := uint64(2) // other and caught
			switch d {
			case DispatchAll: // caught waits in the link's order behind connected
				want = []string{"connected", "caught a handler's error", "disconnected internal_error"}
				rejected = 1 // connected
			case DispatchMessage:
				want = []string{"connected", "caught a handler's error", "disconnected internal_error"}
				rejected = 1
			case DispatchConnection:
				want = []string{"connected", "disconnected internal_error"}
			}
			if d == DispatchAll && len(r.told()) > 0 {
				t.Errorf("told %q by a pool that is full", r.told())
			}
			empty()
			testkit.Eventually(t, "disconnected", func() bool { return s.n.stats().Disconnected == 1 })
			testkit.Eventually(t, "all events", func() bool { return len(r.told()) >= len(want) })
			if got := r.told(); !slices.Equal(got, want) {
				t.Errorf("told %q, want %q", got, want)
			}
			if got := s.n.stats().Rejected; got != rejected {
				t.Errorf("%d rejected, want %d", got, rejected)
			}
			if got := strings.Count(log.String(), "rpc: no room for an event"); got != 1 {
				t.Errorf("%d lines about rejected events, want 1:\n%s", got, log.String())
			}
			if d == DispatchConnection && !strings.Contains(log.String(), "rpc: an error that its listener is not told") {
				t.Errorf("the error is not in the log:\n%s", log.String())
			}
		})
	}
}

// idle reports whether no event of the link waits or runs.
func (l *Link) idle() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.busy
}

// TestLinkBound: behind an event that takes its time linkBound others wait, and the next one is answered BUSY.
func TestLinkBound(t *testing.T) {
	gate := make(chan struct{})
	r := &recorder{during: func(event string, _ *Link) {
		if event == "other" {
			<-gate
		}
	}}
	s := newEventServer(t, eventOptions{dispatcher: DispatchMessage, listener: listenerWithoutSent{r}})
	p := s.dial()
	for i := range linkBound {
		p.send(uint64(i+1), 16, "x")
	}
	p.ping(900)
	p.send(1000, 16, "x")
	p.expect(1000, frame.StatusBusy, "no worker")
	p.send(1001, 17, "x")
	p.expect(1001, frame.StatusBusy, "no worker")
	close(gate)
	for i := range linkBound {
		p.expect(uint64(i+1), frame.StatusOK, "x")
	}
	if st := s.n.stats(); st.Received != linkBound || st.Rejected != 2 {
		t.Errorf("%+v", st)
	}
}

// TestReceivedAnswers: what a ReceivedListener does with a request, and what its client is told, with each dispatcher.
func TestReceivedAnswers(t *testing.T) {
	for _, d := range allDispatchers {
		t.Run(d.String(), func(t *testing.T) {
			gate := make(chan struct{})
			r := &recorder{reply: func(f *frame.Frame) ([]byte, error) {
				switch string(f.Payload) {
				case "mine":
					return []byte("yours"), nil
				case "wait":
					<-gate
				case "error":
					return nil, errors.New("an error of the application")
				case "status":
					return nil, fmt.Errorf("why: %w", &frame.StatusError{Status: frame.StatusUnauthenticated, Message: "who are you"})
				case "details":
					return nil, &frame.StatusError{Status: frame.StatusAppError, Message: "no", Details: strings.Repeat("d", 992)}
				case "more details":
					return nil, &frame.StatusError{Status: frame.StatusAppError, Message: "none", Details: strings.Repeat("d", 991)}
				case "wrong status":
					return nil, &frame.StatusError{Status: frame.StatusGoAway}
				case "panic":
					panic("on purpose")
				case "large":
					return make([]byte, 1001), nil
				case "nothing":
					return nil, nil
				}
				return f.Payload, nil
			}}
			s := newEventServer(t, eventOptions{dispatcher: d, listener: listenerWithoutSent{r}, maxPayload: 1000})
			p := s.dial()
			for i, c := range []struct {
				payload string
				status  frame.Status
				want    string
			}{
				{"mine", frame.StatusOK, "yours"},
				{"same", frame.StatusOK, "same"},
				{"nothing", frame.StatusOK, ""},
				{"error", frame.StatusAppError, "an error of the application"},
				{"status", frame.StatusUnauthenticated, "who are you"},
				{"details", frame.StatusAppError, "no" + strings.Repeat("d", 992)},
				{"wrong status", frame.StatusInternal, "GOAWAY"},
				{"panic", frame.StatusInternal, "panicked"},
				{"large", frame.StatusTooLarge, "1001 bytes, limit 1000"},
			} {
				p.send(uint64(i+1), frame.Op(16+20*i), c.payload)
				p.expect(uint64(i+1), c.status, c.want)
			}
			p.send(40, 16, "more details")
			if _, _, got, err := p.response(); err != nil || !strings.HasSuffix(got, "none") {
				t.Errorf("details beyond the limit: %q, %v", got, err)
			}
			if got := s.n.stats().Panics; got != 1 {
				t.Errorf("%d panics", got)
			}
			if d.Place(EventOther, ServerSide) == PlaceLoop {
				close(gate)
				return
			}
			p.send(50, 16, "wait")
			p.send(51, 16, "behind")
			for range 2 {
				p.send(50, 16, "again")
				p.expect(50, frame.StatusBadRequest, "in flight")
			}
			p.send(51, 16, "again")
			p.expect(51, frame.StatusBadRequest, "in flight")
			close(gate)
			p.expect(50, frame.StatusOK, "wait")
			p.expect(51, frame.StatusOK, "behind")
			for range 100 { // an id may be used again as soon as it is answered
				p.send(52, 16, "same id")
				p.expect(52, frame.StatusOK, "same id")
			}
		})
	}
}

// TestReceivedWithout: without a ReceivedListener the application's operations go their usual way.
func TestReceivedWithout(t *testing.T) {
	r := &recorder{}
	s := newEventServer(t, eventOptions{listener: struct{ ConnectedListener }{r}})
	p := s.dial()
	p.send(1, 16, "x")
	p.expect(1, frame.StatusNotFound, "")
}

// TestReceivedWhileDraining: a drain waits for what was taken and refuses what comes later.
func TestReceivedWhileDraining(t *testing.T) {
	gate, running := make(chan struct{}), make(chan *Link, 1)
	r := &recorder{during: func(event string, l *Link) {
		if event == "other" {
			running <- l
			<-gate
		}
	}}
	s := newEventServer(t, eventOptions{dispatcher: DispatchMessage, listener: listenerWithoutSent{r}})
	p := s.dial()
	p.send(1, 16, "slow")
	l := <-running
	ended := make(chan error, 1)
	go func() {
		_, err := s.srv.Shutdown(testkit.Context(t))
		ended <- err
	}()
	testkit.Eventually(t, "the drain", l.Conn().Draining)
	p.send(2, 16, "late")
	p.expect(2, frame.StatusUnavailable, "draining")
	close(gate)
	p.expect(1, frame.StatusOK, "slow")
	p.readAll() // or the server would linger for our end
	if err := <-ended; err != nil {
		t.Error(err)
	}
	testkit.Eventually(t, "disconnected", func() bool { return slices.Contains(r.told(), "disconnected server_shutdown") })
}

// TestListenerEndsItsGoroutine: runtime.Goexit in a method is the end of neither the order nor the request.
func TestListenerEndsItsGoroutine(t *testing.T) {
	r := &recorder{reply: func(f *frame.Frame) ([]byte, error) {
		if string(f.Payload) == "exit" {
			runtime.Goexit()
		}
		return f.Payload, nil
	}}
	s := newEventServer(t, eventOptions{dispatcher: DispatchAll, listener: listenerWithoutSent{r}})
	p := s.dial()
	p.send(1, 16, "exit")
	p.send(2, 16, "on")
	p.expect(1, frame.StatusInternal, "panicked")
	p.expect(2, frame.StatusOK, "on")
	_ = p.Close()
	testkit.Eventually(t, "disconnected", func() bool { return s.n.stats().Disconnected == 1 })
}

// TestEventsOfAStoppedPool: Connected and Disconnected are told once whoever stops the pool when, and a request that waits
// there is answered.
func TestEventsOfAStoppedPool(t *testing.T) {
	for _, d := range []Dispatcher{DispatchAll, DispatchMessage} {
		t.Run(d.String(), func(t *testing.T) {
			pool, err := executor.NewFixed(executor.Options{Name: "shared", Workers: 1, Queue: 4, Logger: mute})
			if err != nil {
				t.Fatal(err)
			}
			r := &recorder{}
			s := newEventServer(t, eventOptions{dispatcher: d, listener: listenerWithoutSent{r}, shared: pool})
			gate := make(chan struct{})
			if err := pool.SubmitFunc(func() { <-gate }); err != nil {
				t.Fatal(err)
			}
			waiting := s.dial()
			waiting.send(1, 16, "x")
			waiting.ping(2)
			pool.Close()
			waiting.expect(1, frame.StatusUnavailable, "stopping")
			after := s.dial()
			after.send(1, 16, "y")
			after.expect(1, frame.StatusUnavailable, "stopping")
			close(gate)
			_ = waiting.Close()
			testkit.Eventually(t, "the first's end", func() bool { return s.n.stats().Disconnected == 1 })
			_ = after.Close()
			testkit.Eventually(t, "the second's end", func() bool { return s.n.stats().Disconnected == 2 })
			if st := s.n.stats(); st.Connected != 2 || st.Received != 0 {
				t.Errorf("%+v", st)
			}
			if _, err := pool.Shutdown(testkit.Context(t)); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestLinkStamps: the times of the last read and write are set with the connection, noted with each frame and cleared with
// the connection; any goroutine may look.
func TestLinkStamps(t *testing.T) {
	links := make(chan *Link, 1)
	r := &recorder{during: func(event string, l *Link) {
		if event == "connected" {
			links <- l
		}
	}}
	s := newEventServer(t, eventOptions{dispatcher: DispatchDirect, listener: listenerWithoutSent{r}})
	before := time.Now()
	p := s.dial()
	l := <-links
	opened := l.LastRead()
	if !opened.Equal(l.LastWrite()) || opened.Before(before) || opened.After(time.Now()) {
		t.Errorf("opened between %v and %v: read %v, written %v", before, time.Now(), opened, l.LastWrite())
	}
	if l.Side() != ServerSide || l.Name() != "events" || l.Conn().RemoteAddr().String() != p.LocalAddr().String() {
		t.Errorf("%v %v %v", l.Side(), l.Name(), l.Conn().RemoteAddr())
	}
	testkit.Eventually(t, "both stamps", func() bool { // the loop's time goes on with its turns
		p.ping(1)
		return l.LastRead().After(opened) && l.LastWrite().After(opened)
	})
	written := l.LastWrite()
	testkit.Eventually(t, "a read without a write", func() bool {
		read := l.LastRead()
		p.send(2, frame.Op(16), "ignored")
		p.expect(2, frame.StatusOK, "ignored")
		return l.LastRead().After(read)
	})
	testkit.Eventually(t, "the write", func() bool { return l.LastWrite().After(written) })
	if l.LastRead().After(time.Now()) || l.LastWrite().After(time.Now()) {
		t.Errorf("read %v, written %v, now %v", l.LastRead(), l.LastWrite(), time.Now())
	}
	_ = p.Close()
	testkit.Eventually(t, "the end", func() bool { return l.LastRead().IsZero() && l.LastWrite().IsZero() })
}

// TestStampsApart: what is only read leaves the time of the last write alone.
func TestStampsApart(t *testing.T) {
	links := make(chan *Link, 1)
	r := &recorder{during: func(event string, l *Link) {
		if event == "connected" {
			links <- l
		}
	}}
	s := newEventServer(t, eventOptions{dispatcher: DispatchDirect, listener: struct {
		ConnectedListener
		DisconnectedListener
	}{r, r}})
	p := s.dial()
	l := <-links
	opened := l.LastWrite()
	for !l.LastRead().After(opened) {
		p.send(1, frame.Cancel, "") // nobody answers here: see rest
		if _, _, _, err := p.response(); err != nil {
			t.Fatal(err)
		}
	}
	testkit.Eventually(t, "an answer's stamp", func() bool { return l.LastWrite().After(opened) })
}

// TestEventsOfAClient: the client's end of a connection, with each dispatcher: what a server sends on its own, responses
// that come too late, and errors.
func TestEventsOfAClient(t *testing.T) {
	for _, d := range allDispatchers {
		t.Run(d.String(), func(t *testing.T) {
			r := &recorder{at: map[string]Place{}}
			shared := newEventPool(t, executor.Options{Name: "callbacks", Workers: 2})
			n, err := newNotifier(eventOptions{name: "client", side: ClientSide, dispatcher: d, listener: r, shared: shared, logger: mute})
			if err != nil {
				t.Fatal(err)
			}
			group := &eddy.Group{Loops: 1, Logger: mute}
			s := &eventServer{n: n, group: group, shared: shared}
			r.tell(s.place)
			own := &lateHandler{}
			decoder := frame.ResponseDecoder()
			dialer := &eddy.Dialer{Group: group, Logger: mute, LingerTimeout: time.Second, Init: func(p *eddy.Pipeline) error {
				return errors.Join(p.Add("frames", decoder), p.Add("own", own), n.add(p, "frames"))
			}}
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				_ = ln.Close()
				_ = dialer.Close()
				_ = group.Close()
				for _, p := range n.pools() {
					if _, err := p.Shutdown(t.Context()); err != nil {
						t.Error(err)
					}
				}
			}()
			c, err := dialer.Dial(t.Context(), "tcp", ln.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			peer, err := ln.Accept()
			if err != nil {
				t.Fatal(err)
			}
			if err := c.Write(frame.AppendRequest(nil, 1, frame.Call, []byte("x"))); err != nil {
				t.Fatal(err)
			}
			b := frame.AppendResponse(nil, 0, []byte("push"))
			b = frame.AppendResponse(b, 9, nil)                                         // the test's own handler takes it for late
			b = frame.AppendError(b, 0, &frame.StatusError{Status: frame.StatusGoAway}) // not the Listener's
			if _, err := peer.Write(append(b, "garbage"...)); err != nil {
				t.Fatal(err)
			}
			_, _ = io.ReadAll(peer) // a reset is as good
			_ = peer.Close()
			want := []string{"caught frame: magic byte 0x67, want 0xed", "connected", "disconnected protocol_error", "late 9 OK", "other 0 push", "sent 1 NOT_FOUND 17"}
			testkit.Eventually(t, "all events", func() bool { return len(r.told()) == len(want) })
			got := r.told()
			slices.Sort(got)
			if !slices.Equal(got, want) { // the operation CALL has the number of NOT_FOUND
				t.Errorf("told %q, want %q", got, want)
			}
			for _, e := range []Event{EventConnected, EventDisconnected, EventSent, EventOther, EventLateResponse, EventCaught} {
				if got, want := r.at[e.String()], d.Place(e, ClientSide); got != want {
					t.Errorf("%v ran on the %v, want the %v", e, got, want)
				}
			}
			if got := own.rest.Load(); got != 1 {
				t.Errorf("%d frames passed on, want GOAWAY only", got)
			}
		})
	}
}

// lateHandler takes each response with an id for one that came too late.
type lateHandler struct {
	link *Link
	rest atomic.Int32
}

func (h *lateHandler) HandleEvent(ctx *eddy.Context, ev any) error {
	if o, ok := ev.(linkOpened); ok {
		h.link = o.link
	}
	ctx.FireEvent(ev)
	return nil
}

func (h *lateHandler) HandleRead(_ *eddy.Context, msg any) error {
	f := msg.(*frame.Frame)
	defer f.Release()
	if f.ID != 0 {
		h.link.responseLate(f.ID, f.Status())
	} else {
		h.rest.Add(1)
	}
	return nil
}

func TestSentFrames(t *testing.T) {
	one := frame.AppendResponse(nil, 7, []byte("abc"))
	two := frame.AppendError(slices.Clone(one), 8, &frame.StatusError{Status: frame.StatusBusy})
	whole := new(buf.Bytes)
	whole.Reset(two)
	head, body := frame.AppendHeader(nil, 9, 0, 5), []byte("12345")
	pool := buf.NewSharedPool(1<<16, nil)
	shared := pool.Get(len(one))
	copy(shared.Bytes(), one)
	defer shared.Release()
	first, second := SentFrame{7, uint8(frame.StatusOK), 19}, SentFrame{8, uint8(frame.StatusBusy), 22}
	for name, c := range map[string]struct {
		msg  any
		want []SentFrame
	}{
		"bytes":         {one, []SentFrame{first}},
		"two frames":    {two, []SentFrame{first, second}},
		"borrowed":      {whole, []SentFrame{first, second}},
		"in parts":      {[][]byte{head, body}, []SentFrame{{9, 0, 21}}},
		"shared":        {shared, []SentFrame{first}},
		"half a header": {one[:9], nil},
		"no parts":      {[][]byte{}, []SentFrame{{}}},
		"something":     {"text", []SentFrame{{}}},
	} {
		if got := sentFrames(nil, c.msg); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

func TestNotifierOptions(t *testing.T) {
	for want, o := range map[string]eventOptions{
		"Dispatcher is 5":       {dispatcher: dispatchers},
		"ConnectQueue is -1":    {connectQueue: -1},
		"ConnectWarning is -2":  {connectWarning: -2},
		"Listener is a string:": {listener: "x"},
	} {
		if n, err := newNotifier(o); err == nil || n != nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	n, err := newNotifier(eventOptions{})
	if n != nil || err != nil {
		t.Errorf("without a Listener: %v %v", n, err)
	}
	if n.add(nil, "") != nil || n.pools() != nil || n.onWorker() || n.stats() != (EventStats{}) {
		t.Error("a nil notifier does something")
	}
}
