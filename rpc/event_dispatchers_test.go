package rpc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/codec/frame"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/internal/enginetest"
	"github.com/go-eddy/eddy/internal/goid"
	"github.com/go-eddy/eddy/internal/testkit"
	"github.com/go-eddy/eddy/responder"
	"github.com/go-eddy/eddy/rpc/discovery"
)

// placeBook notes where things really ran.
type placeBook struct {
	mu    sync.Mutex
	known []knownPlace
	seen  map[string]string
}

type knownPlace struct {
	name string
	here func() bool
}

// book is what the bodies of the tests write in: values know nothing but themselves. One test at a time uses it.
var book atomic.Pointer[placeBook]

func newBook(t *testing.T) *placeBook {
	b := &placeBook{seen: map[string]string{}}
	if !book.CompareAndSwap(nil, b) {
		t.Fatal("another test uses the book")
	}
	t.Cleanup(func() { book.Store(nil) })
	return b
}

func (b *placeBook) knows(name string, here func() bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.known = append(b.known, knownPlace{name, here})
}

// note writes down where the caller runs. What happens several times must always run in the same place.
func (b *placeBook) note(what string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	where := "elsewhere"
	for _, p := range b.known {
		if p.here() {
			where = p.name
		}
	}
	if was, ok := b.seen[what]; ok && was != where {
		where = was + " and " + where
	}
	b.seen[what] = where
}

func (b *placeBook) has(what string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, ok := b.seen[what]
	return ok
}

func (b *placeBook) all() map[string]string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return maps.Clone(b.seen)
}

// askBody and tellBody are a request's and a response's body, whose codec notes where it runs.
type (
	askBody  struct{ Call string }
	tellBody struct{ Call string }
)

func (b askBody) MarshalJSON() ([]byte, error) {
	book.Load().note(b.Call + ": encode request")
	return json.Marshal(b.Call)
}

func (b *askBody) UnmarshalJSON(p []byte) error {
	err := json.Unmarshal(p, &b.Call)
	book.Load().note(b.Call + ": decode request")
	return err
}

func (b tellBody) MarshalJSON() ([]byte, error) {
	book.Load().note(b.Call + ": encode response")
	return json.Marshal(b.Call)
}

func (b *tellBody) UnmarshalJSON(p []byte) error {
	err := json.Unmarshal(p, &b.Call)
	book.Load().note(b.Call + ": decode response")
	return err
}

// witness is a Listener of one side that notes where it runs.
type witness struct {
	side  string
	b     *placeBook
	links chan *Link
	last  *atomic.Uint64 // id of the last frame that was sent
}

func (w *witness) Connected(l *Link) {
	w.b.note(w.side + " connected")
	select {
	case w.links <- l:
	default:
	}
}
func (w *witness) Disconnected(*Link, eddy.CloseReason, error) { w.b.note(w.side + " disconnected") }
func (w *witness) Sent(_ *Link, f SentFrame) {
	w.b.note(w.side + " sent")
	w.last.Store(f.ID)
}
func (w *witness) Caught(*Link, error)              { w.b.note(w.side + " caught") }
func (w *witness) Late(*Link, uint64, frame.Status) { w.b.note(w.side + " late response") }
func (w *witness) Received(_ *Link, f *frame.Frame) ([]byte, error) {
	w.b.note(w.side + " other")
	return f.Payload, nil
}

var probeKey = Key{Interface: "test.Probe", Version: "1"}

// stage is a server and a client whose executors are all known.
type stage struct {
	t              *testing.T
	b              *placeBook
	server         *Server
	client         *Client
	own, callbacks *executor.Pool
	serverLinks    chan *Link
	hold           chan struct{} // what "held" waits for
	answered       atomic.Uint64 // id of the server's last response
}

func newStage(t *testing.T, d Dispatcher, change func(*ServerOptions, *ClientOptions)) *stage {
	t.Helper()
	s := &stage{t: t, b: newBook(t), serverLinks: make(chan *Link, 1), hold: make(chan struct{}, 100)}
	s.own = userPool(t, "own", PoolOptions{Threads: 4, Queue: 100})
	s.callbacks = userPool(t, "callbacks", PoolOptions{Threads: 4, Queue: 100})
	serverLoops, clientLoops := &eddy.Group{Name: "server", Loops: 2, Logger: quiet}, &eddy.Group{Name: "client", Loops: 1, Logger: quiet}
	so := ServerOptions{
		Isolation: PerService, Logger: quiet,
		Ports: []PortOptions{{
			Name: "port", Addr: "127.0.0.1:0", Dispatcher: d, Group: serverLoops, Pool: PoolOptions{Threads: 4, Queue: 100},
			Listener: &witness{"server", s.b, s.serverLinks, &s.answered},
		}},
	}
	co := ClientOptions{
		Codec: CodecJSON, Timeout: testkit.Patience, Group: clientLoops, CallbackPool: s.callbacks, Dispatcher: d, Logger: quiet,
		Listener: &witness{"client", s.b, nil, new(atomic.Uint64)},
		Backoff:  Backoff{Min: time.Millisecond, Max: 10 * time.Millisecond},
	}
	if change != nil {
		change(&so, &co)
	}
	var err error
	if s.server, err = NewServer(so); err != nil {
		t.Fatal(err)
	}
	if err := s.server.Register(s.probe(), WithPool(s.own)); err != nil {
		t.Fatal(err)
	}
	port := s.server.ports[0]
	s.b.knows("server loop", serverLoops.In)
	s.b.knows("client loop", clientLoops.In)
	s.b.knows("server shared pool", port.pool.OnWorker)
	s.b.knows("server preferred pool", s.own.OnWorker)
	s.b.knows("client shared pool", s.callbacks.OnWorker)
	s.b.knows("server connection executor", port.events.onWorker)
	caller := goid.Current()
	s.b.knows("caller", func() bool { return goid.Current() == caller })
	if err := s.server.Listen(); err != nil {
		t.Fatal(err)
	}
	known := make(chan struct{}) // nothing is connected before all places are known
	co.Resolver = gatedResolver{known, s.server.Addr("port").String()}
	if s.client, err = NewClient(co); err != nil {
		t.Fatal(err)
	}
	s.b.knows("client connection executor", s.client.events.onWorker)
	close(known)
	t.Cleanup(func() {
		close(s.hold)
		if err := errors.Join(s.client.Close(), s.server.Close(), clientLoops.Close(), serverLoops.Close()); err != nil {
			t.Error(err)
		}
	})
	return s
}

// gatedResolver names an address once it is let.
type gatedResolver struct {
	gate chan struct{}
	addr string
}

func (r gatedResolver) Watch(ctx context.Context, tell func([]discovery.Instance)) error {
	select {
	case <-r.gate:
		tell(discovery.Addrs(r.addr))
	case <-ctx.Done():
	}
	<-ctx.Done()
	return ctx.Err()
}

func (s *stage) probe() *Service {
	svc, err := NewService(probeKey,
		Unary("Ask", func(_ context.Context, req *askBody) (*tellBody, error) {
			s.b.note(req.Call + ": method")
			if req.Call == "held" {
				<-s.hold
			}
			return &tellBody{req.Call}, nil
		}),
		OneWay("Log", func(_ context.Context, req *askBody) error {
			s.b.note(req.Call + ": method")
			return nil
		}))
	if err != nil {
		s.t.Fatal(err)
	}
	return svc
}

// on returns the book's name of a place.
func on(side Side, p Place) string {
	switch p {
	case PlaceCaller:
		return "caller"
	case PlaceFuture:
		return "client shared pool" // ClientOptions.CallbackPool
	}
	return fmt.Sprintf("%v %v", side, p)
}

// TestDispatchersEndToEnd: every event × dispatcher over real connections, on both sides, and where bodies are encoded
// and decoded: all of it ran where Dispatcher.Place says. TestDispatcherTable has what Place must say.
func TestDispatchersEndToEnd(t *testing.T) {
	for _, d := range allDispatchers {
		t.Run(d.String(), func(t *testing.T) {
			s := newStage(t, d, nil)
			ctx := context.Background()
			for range 3 {
				resp, err := Invoke[tellBody](ctx, s.client, probeKey, "Ask", &askBody{"sync"})
				if err != nil || resp.Call != "sync" {
					t.Fatalf("%v, %v", resp, err)
				}
			}
			f := InvokeAsync[tellBody](ctx, s.client, probeKey, "Ask", &askBody{"async"})
			f.Then(func(resp *tellBody, err error) {
				if err != nil || resp.Call != "async" {
					t.Errorf("%v, %v", resp, err)
				}
				s.b.note("async: then")
			})
			testkit.Eventually(t, "the future's function", func() bool { return s.b.has("async: then") })
			if err := Send(ctx, s.client, probeKey, "Log", &askBody{"one-way"}); err != nil {
				t.Fatal(err)
			}
			testkit.Eventually(t, "the one-way request", func() bool { return s.b.has("one-way: method") })
			s.late(d)
			s.others(d)
			s.check(d)
		})
	}
}

// late makes a response come when nobody waits for it any more. On the server's loop no method may wait, and so the
// server's application sends a response once more there.
func (s *stage) late(d Dispatcher) {
	if d.Place(EventRequest, ServerSide) == PlaceLoop {
		link := <-s.serverLinks
		s.serverLinks <- link
		if err := link.Conn().Write(frame.AppendResponse(nil, s.answered.Load(), []byte("{}"))); err != nil {
			s.t.Fatal(err)
		}
	} else {
		f := InvokeAsync[tellBody](context.Background(), s.client, probeKey, "Ask", &askBody{"held"})
		testkit.Eventually(s.t, "the held call", func() bool { return s.b.has("held: method") })
		f.Cancel()
		s.hold <- struct{}{}
	}
	testkit.Eventually(s.t, "a late response", func() bool { return s.b.has("client late response") })
}

// others does the rest: what is no RPC, on both sides, and errors that end connections.
func (s *stage) others(d Dispatcher) {
	t := s.t
	raw := dialEvents(t, s.server.Addr("port").String())
	raw.send(1, 16, "app")
	raw.expect(1, frame.StatusOK, "app")
	if _, err := raw.Write([]byte("garbage")); err != nil {
		t.Fatal(err)
	}
	raw.readAll()
	link := <-s.serverLinks
	if err := link.Conn().Write(frame.AppendResponse(nil, 0, []byte("push"))); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "the push", func() bool { return s.b.has("client other") })
	if err := link.Conn().Write([]byte("garbage")); err != nil {
		t.Fatal(err)
	}
	for _, side := range []Side{ServerSide, ClientSide} {
		for _, e := range []Event{EventConnected, EventDisconnected, EventSent, EventOther, EventCaught} {
			what := fmt.Sprintf("%v %v", side, e)
			testkit.Eventually(t, what, func() bool { return s.b.has(what) })
		}
	}
}

// check compares the book with the table.
func (s *stage) check(d Dispatcher) {
	want := map[string]string{}
	for _, side := range []Side{ServerSide, ClientSide} {
		for _, e := range []Event{EventConnected, EventDisconnected, EventSent, EventOther, EventCaught} {
			want[fmt.Sprintf("%v %v", side, e)] = on(side, d.Place(e, side))
		}
	}
	want["client late response"] = on(ClientSide, d.Place(EventLateResponse, ClientSide))
	request := on(ServerSide, d.Place(EventRequest, ServerSide))
	future := on(ClientSide, d.Place(EventAsyncResponse, ClientSide))
	for _, call := range []string{"sync", "async", "one-way", "held"} {
		want[call+": encode request"] = "caller"
		want[call+": decode request"] = request
		want[call+": method"] = request
		if call != "one-way" {
			want[call+": encode response"] = request
			want[call+": decode response"] = future
		}
	}
	want["sync: decode response"] = on(ClientSide, d.Place(EventSyncResponse, ClientSide))
	want["async: then"] = future
	got := s.b.all()
	for what, where := range got {
		if want[what] != where {
			s.t.Errorf("%s ran on: %s; want: %s", what, where, want[what])
		}
	}
	for what := range want {
		if _, ok := got[what]; !ok && !strings.HasPrefix(what, "held") {
			s.t.Errorf("%s was not seen", what)
		}
	}
}

// TestSharedPoolIsPreferred: a service without a pool of its own prefers the port's.
func TestSharedPoolIsPreferred(t *testing.T) {
	s := newStage(t, DispatchAll, func(o *ServerOptions, _ *ClientOptions) { o.Isolation = Shared })
	if _, err := Invoke[tellBody](context.Background(), s.client, probeKey, "Ask", &askBody{"sync"}); err != nil {
		t.Fatal(err)
	}
	for _, what := range []string{"sync: decode request", "sync: method", "sync: encode response"} {
		if got := s.b.all()[what]; got != "server shared pool" {
			t.Errorf("%s ran on: %s", what, got)
		}
	}
}

// TestLoopGoesOnWhileEveryPoolIsFull: with each dispatcher that has pools, no worker is free on either side, and connections
// are taken or refused, PINGs are sent and answered, frames are told as sent, and calls are answered BUSY.
func TestLoopGoesOnWhileEveryPoolIsFull(t *testing.T) {
	for _, d := range []Dispatcher{DispatchAll, DispatchMessage, DispatchExecution, DispatchConnection} {
		t.Run(d.String(), func(t *testing.T) {
			var clock *enginetest.Clock // of the client's loop
			s := newStage(t, d, func(so *ServerOptions, co *ClientOptions) {
				so.Ports[0].Accepts = 3
				so.Ports[0].Pool = PoolOptions{Threads: 1}
				co.Heartbeat = time.Minute
				clock = enginetest.NewClock(t, co.Group)
			})
			if _, err := Invoke[tellBody](context.Background(), s.client, probeKey, "Ask", &askBody{"sync"}); err != nil {
				t.Fatal(err)
			}
			testkit.Eventually(t, "what there was to tell", func() bool {
				return s.b.has("server connected") && s.b.has("client connected")
			})
			for _, pool := range []*executor.Pool{s.own, s.callbacks, s.server.ports[0].pool} { // what still runs there would take in what is to be refused
				testkit.Eventually(t, "the pools to rest", func() bool { st := pool.Stats(); return st.Running == 0 && st.Queued == 0 })
			}
			defer fillUp(t, s.own, 4)()
			defer fillUp(t, s.callbacks, 4)()
			defer fillUp(t, s.server.ports[0].pool, 1)()
			_, err := Invoke[tellBody](context.Background(), s.client, probeKey, "Ask", &askBody{"refused"})
			if !errors.Is(err, ErrBusy) {
				t.Errorf("a call: %v, want busy", err)
			}
			clock.Pass(2*beat, beat) // the first one finds that the server was heard
			if st := s.client.Stats(); st.Pings != 1 || st.Lost != 0 || st.Connections != 1 {
				t.Errorf("the client's connection: %+v", st)
			}
			a, b := dialEvents(t, s.server.Addr("port").String()), dialEvents(t, s.server.Addr("port").String())
			a.ping(1)
			b.ping(2)
			c := dialEvents(t, s.server.Addr("port").String())
			c.expect(0, frame.StatusBusy, "max_conns")
			c.readAll()
			sent := s.server.Stats().Ports["port"].Events.Sent
			a.ping(3)
			if got := s.server.Stats().Ports["port"].Events.Sent; got <= sent {
				t.Errorf("%d sent, then %d", sent, got)
			}
			a.Close()
			testkit.Eventually(t, "room for another", func() bool { return s.server.Stats().Ports["port"].Engine.Active == 2 })
			dialEvents(t, s.server.Addr("port").String()).ping(4)
		})
	}
}

// fillUp occupies all workers of a pool and its queue, until the returned function is called.
func fillUp(t *testing.T, p *executor.Pool, workers int) (empty func()) {
	t.Helper()
	gate := make(chan struct{})
	testkit.Eventually(t, "the pool to be full", func() bool { // a worker that has just ended something will take one more
		for p.SubmitFunc(func() { <-gate }) == nil {
		}
		return p.Stats().Running == workers && p.SubmitFunc(func() { <-gate }) != nil
	})
	return sync.OnceFunc(func() { close(gate) })
}

// TestStreamsStayOffTheLoop: a port with responder.Serial is a stream protocol. The calls of one connection are decoded,
// executed and encoded one at a time and in order, connections run side by side, and nothing of it touches a loop.
func TestStreamsStayOffTheLoop(t *testing.T) {
	const calls = 50
	type span struct {
		stream string
		n      int
	}
	var mu sync.Mutex
	var order []span
	running := map[string]int{}
	together := make(chan struct{})
	arrived := make(chan struct{}, 2)
	b := newBook(t)
	loops := &eddy.Group{Loops: 2, Logger: quiet}
	defer loops.Close()
	b.knows("loop", loops.In)
	svc, err := NewService(probeKey, Unary("Ask", func(_ context.Context, req *askBody) (*tellBody, error) {
		b.note("method")
		var at span
		if _, err := fmt.Sscanf(req.Call, "%s %d", &at.stream, &at.n); err != nil {
			return nil, err
		}
		mu.Lock()
		running[at.stream]++
		if running[at.stream] != 1 {
			t.Errorf("%d calls of stream %s at once", running[at.stream], at.stream)
		}
		order = append(order, at)
		mu.Unlock()
		if at.n == 0 { // both streams have one that runs
			arrived <- struct{}{}
			<-together
		}
		mu.Lock()
		running[at.stream]--
		mu.Unlock()
		return &tellBody{"any"}, nil
	}))
	if err != nil {
		t.Fatal(err)
	}
	srv, err := NewServer(ServerOptions{Logger: quiet, Ports: []PortOptions{{
		Name: "tri", Addr: "127.0.0.1:-1", Ordering: responder.Serial, Group: loops, Pool: PoolOptions{Threads: 8},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	defer srv.Close()
	serve(t, srv, svc)
	var futures []*Future[tellBody]
	for _, stream := range []string{"a", "b"} {
		cl := client(t, ClientOptions{Codec: CodecJSON, Addrs: []string{srv.Addr("tri").String()}}, srv.Addr("tri").String())
		testkit.Eventually(t, "the connection", func() bool { return cl.Stats().Connections == 1 }) // calls that wait for one have no order
		for n := range calls {
			futures = append(futures, InvokeAsync[tellBody](context.Background(), cl, probeKey, "Ask", &askBody{fmt.Sprintf("%s %d", stream, n)}))
		}
	}
	<-arrived
	<-arrived
	close(together)
	for _, f := range futures {
		if _, err := f.Wait(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	for _, stream := range []string{"a", "b"} {
		n := 0
		for _, at := range order {
			if at.stream != stream {
				continue
			}
			if at.n != n {
				t.Fatalf("stream %s: call %d where %d is due", stream, at.n, n)
			}
			n++
		}
		if n != calls {
			t.Errorf("stream %s: %d calls", stream, n)
		}
	}
	for what, where := range b.all() {
		if strings.Contains(where, "loop") {
			t.Errorf("%s ran on a loop", what)
		}
	}
	if !b.has("any: encode response") || !b.has("a 7: decode request") {
		t.Errorf("the codec was not seen: %v", slices.Sorted(maps.Keys(b.all())))
	}
}

// TestListenerMayNotEndItsServer: who would wait for itself is told so, on whatever executor.
func TestListenerMayNotEndItsServer(t *testing.T) {
	for _, d := range allDispatchers {
		t.Run(d.String(), func(t *testing.T) {
			errs := make(chan error, 2)
			var srv *Server
			r := &recorder{during: func(event string, _ *Link) {
				if event == "connected" {
					_, err := srv.Shutdown(context.Background())
					errs <- err
					errs <- srv.Close()
				}
			}}
			srv = newServer(t, ServerOptions{Ports: []PortOptions{{Dispatcher: d, Listener: listenerWithoutSent{r}}}})
			serve(t, srv)
			c := dialRaw(t, srv.Addr("port0"))
			for range 2 {
				if err := <-errs; !errors.Is(err, eddy.ErrOnLoop) && !errors.Is(err, eddy.ErrOnPool) {
					t.Errorf("%v", err)
				}
			}
			_ = c.Close()
			if err := srv.Close(); err != nil {
				t.Error(err)
			}
			if st := srv.Stats().Ports["port0"].Events; st.Connected != 1 || st.Disconnected != 1 {
				t.Errorf("%+v", st)
			}
		})
	}
}

// TestPortEventOptions: errors of a port's Listener name the port and the field.
func TestPortEventOptions(t *testing.T) {
	for want, o := range map[string]PortOptions{
		`rpc: port "p": PortOptions.ConnectQueue is -1`:   {ConnectQueue: -1},
		`rpc: port "p": PortOptions.ConnectWarning is -1`: {ConnectWarning: -1},
		`rpc: port "p": PortOptions.Listener is a int`:    {Listener: 7},
	} {
		o.Name, o.Addr = "p", "127.0.0.1:0"
		if _, err := NewServer(ServerOptions{Ports: []PortOptions{o}, Logger: quiet}); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	_, err := NewClient(ClientOptions{Addrs: []string{"127.0.0.1:1"}, Listener: io.Discard, Logger: quiet})
	if err == nil || !strings.Contains(err.Error(), "Listener is a io.discard") {
		t.Errorf("a client's: %v", err)
	}
}
