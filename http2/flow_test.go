package http2

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	wire "golang.org/x/net/http2"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/http1"
	"github.com/go-eddy/eddy/internal/enginetest"
	"github.com/go-eddy/eddy/internal/testkit"
)

// A client whose window is closed holds no worker: handlers whose responses wait are parked, and others run.
func TestClosedWindowHoldsNoWorker(t *testing.T) {
	s := startWith(t, setup{pool: executor.Options{Workers: 1}, handler: func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/" {
			hello(w, r)
			return
		}
		_, _ = io.WriteString(w, big(300000))
	}})
	r := s.dial(wire.Setting{ID: wire.SettingInitialWindowSize, Val: 0})
	for id := uint32(1); id < 20; id += 2 {
		r.get(id, "/big")
	}
	testkit.Eventually(t, "the handlers to wait", func() bool { return s.pool.Stats().Parked == 10 })
	if resp, err := s.client().Get(s.url("/")); err != nil || resp.StatusCode != 200 {
		t.Fatalf("%v %v", resp, err)
	} else {
		_ = resp.Body.Close()
	}
	held := enginetest.Stats(t, s.srv).Memory.Inbound
	if most := int64(10 * (defaultResponseBuffer + bodyBuffer)); held < 10*defaultResponseBuffer || held > most {
		t.Errorf("%d bytes are counted, want about %d", held, most)
	}
	r.send(func() error { return r.WriteSettings(wire.Setting{ID: wire.SettingInitialWindowSize, Val: 1 << 20}) })
	for id, a := range r.answers(10, true) {
		if a.body != big(300000) {
			t.Errorf("stream %d: %d bytes", id, len(a.body))
		}
	}
	s.settles()
}

// A handler that reads nothing holds back its own stream, at its window. Others of the connection go on.
func TestUnreadBodyHoldsItsStream(t *testing.T) {
	goOn, entered := make(chan struct{}), make(chan struct{}, 1)
	s := startWith(t, setup{opts: Options{BodyBuffer: 64 << 10}, handler: func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/wait" {
			entered <- struct{}{}
			<-goOn
		}
		n, err := io.Copy(io.Discard, r.Body)
		if err != nil {
			t.Error(err)
		}
		if n != 100000 {
			t.Errorf("%s: %d bytes", r.URL, n)
		}
		hello(w, r)
	}})
	body := big(100000)
	slow := make(chan struct{})
	c := s.client()
	go func() {
		defer close(slow)
		resp, err := c.Post(s.url("/wait"), "", strings.NewReader(body))
		if err != nil {
			t.Error(err)
			return
		}
		_ = resp.Body.Close()
	}()
	testkit.Receive(t, "the handler", entered)
	testkit.Eventually(t, "the window to fill", func() bool { return enginetest.Stats(t, s.srv).Memory.Inbound == 64<<10 })
	for range 50 {
		resp, err := c.Post(s.url("/"), "", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
	}
	if n := enginetest.Stats(t, s.srv); n.Accepted != 1 {
		t.Errorf("%d connections: the requests were not beside each other", n.Accepted)
	}
	close(goOn)
	<-slow
	s.settles()
}

// Windows are kept to the byte: those of a stream and of the connection, from the settings, as they change, to their bounds.
func TestWindows(t *testing.T) {
	s := start(t, func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, big(10)) })
	r := s.dial(wire.Setting{ID: wire.SettingInitialWindowSize, Val: 1})
	r.get(1, "/")
	for i := range 10 {
		if d := r.nextData(); string(d.Data()) != big(10)[i:i+1] || d.StreamEnded() != (i == 9) {
			t.Fatalf("%d: %v %q", i, d, d.Data())
		}
		if i < 9 {
			r.send(func() error { return r.WriteWindowUpdate(1, 1) })
		}
	}
	// A window that settings have made negative opens again by as much.
	r.get(3, "/")
	r.nextData()
	r.send(func() error {
		_ = r.WriteSettings(wire.Setting{ID: wire.SettingInitialWindowSize, Val: 0})
		_ = r.WriteWindowUpdate(3, 1) // -1 + 1
		return r.WriteWindowUpdate(3, 9)
	})
	if a := r.answers(1, false)[3]; a.body != big(10)[1:] {
		t.Errorf("%+v", a)
	}
	r.get(5, "/")
	r.send(func() error {
		_ = r.WriteWindowUpdate(5, 1<<31-1)
		return r.WriteWindowUpdate(5, 1)
	})
	if a := r.answers(1, false)[5]; a.body != big(10) && (a.reset == nil || *a.reset != wire.ErrCodeFlowControl) {
		t.Errorf("%+v", a)
	}
	r.send(func() error { return r.WriteWindowUpdate(0, 1<<31-1) })
	if code, _ := r.goAway(); code != wire.ErrCodeFlowControl {
		t.Errorf("%v", code)
	}
}

// The window of the connection is shared, and one update lets all go on that wait for it.
func TestConnectionWindow(t *testing.T) {
	s := start(t, func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, big(50000)) })
	r := s.dial(wire.Setting{ID: wire.SettingInitialWindowSize, Val: 1 << 20})
	for id := uint32(1); id < 8; id += 2 {
		r.get(id, "/")
	}
	got, ended := 0, 0
	take := func() {
		d := r.nextData()
		got += len(d.Data())
		if d.StreamEnded() {
			ended++
		}
	}
	for got < firstWindow {
		take()
	}
	if got != firstWindow {
		t.Fatalf("%d bytes in a window of %d", got, firstWindow)
	}
	r.send(func() error { return r.WriteWindowUpdate(0, 1<<20) })
	for ended < 4 {
		take()
	}
	if got != 4*50000 {
		t.Errorf("%d bytes", got)
	}
	s.settles()
}

// Bytes beyond a window end the stream, or the connection.
func TestWindowsAreEnforced(t *testing.T) {
	goOn := make(chan struct{})
	s := startWith(t, setup{opts: Options{BodyBuffer: 64 << 10}, handler: func(w http.ResponseWriter, r *http.Request) { <-goOn }})
	defer close(goOn)
	r := s.dial()
	r.request(1, false, headersOf("POST", "/")...)
	for range 5 {
		r.data(1, false, big(16384))
	}
	if a := r.answer(1); a.reset == nil || *a.reset != wire.ErrCodeFlowControl {
		t.Errorf("%+v", a)
	}
	for range connWindow / maxFrame * 2 { // on a stream that is over; the connection's window is given back all the same
		r.data(1, false, big(maxFrame))
	}
	r.request(3, true, headersOf("GET", "/")...)
	s.settles()
}

// Streams of a higher urgency come first, incremental ones of the same urgency take turns (RFC 9218).
func TestUrgency(t *testing.T) {
	s := start(t, func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, big(60000)) })
	r := s.dial(wire.Setting{ID: wire.SettingInitialWindowSize, Val: 1 << 20})
	used := firstWindow // closed, so that all responses wait
	r.get(1, "/fill")
	r.get(3, "/fill")
	over := 0
	for used > 0 {
		d := r.nextData()
		if used -= len(d.Data()); d.StreamEnded() {
			over++
		}
	}
	r.get(5, "/", "priority: u=7")
	r.get(7, "/", "priority: u=5")
	r.get(9, "/", "priority: u=1, i")
	r.get(11, "/", "priority: u=1, i")
	testkit.Eventually(t, "the responses to wait", func() bool {
		return s.pool.Stats().Completed == 6 && enginetest.Stats(t, s.srv).Memory.Inbound >= 4*60000
	})
	r.send(func() error {
		return r.WriteRawFrame(wire.FrameType(framePriorityUpdate), 0, 0, append([]byte{0, 0, 0, 5}, "u=0"...))
	})
	r.send(func() error { return r.WriteWindowUpdate(0, 1<<20) })
	var order []uint32
	frames := map[uint32][]int{}
	for n := 0; len(order) < 6-over; {
		d := r.nextData()
		n++
		frames[d.StreamID] = append(frames[d.StreamID], n)
		if d.StreamEnded() {
			order = append(order, d.StreamID)
		}
	}
	at := func(id uint32) int {
		for i, o := range order {
			if o == id {
				return i
			}
		}
		return -1
	}
	if at(5) != 0 || at(9) > at(7) || at(11) > at(7) {
		t.Errorf("the streams end in the order %v", order)
	}
	if a, b := frames[9], frames[11]; a[0] > b[len(b)-1] || b[0] > a[len(a)-1] {
		t.Errorf("the incremental streams do not take turns: %v and %v", a, b)
	}
}

// What a stream without a window holds is bounded by time: a client that opens its window byte by byte gains little.
func TestStalledResponses(t *testing.T) {
	failed := make(chan error, 2)
	s := startWith(t, setup{clock: true, opts: Options{WriteTimeout: timeout}, handler: func(w http.ResponseWriter, r *http.Request) {
		_, err := io.WriteString(w, big(200000))
		failed <- err
	}})
	r := s.dial(wire.Setting{ID: wire.SettingInitialWindowSize, Val: 0})
	r.get(1, "/")
	testkit.Eventually(t, "the handler to wait", func() bool { return s.pool.Stats().Parked == 1 })
	for range 10 {
		s.clock.Advance(timeout / 20)
		r.send(func() error { return r.WriteWindowUpdate(1, 1) })
		r.nextData()
	}
	s.clock.Pass(timeout/2+2*tick, tick)
	if a := r.answers(1, false)[1]; a.reset == nil || *a.reset != wire.ErrCodeCancel {
		t.Errorf("%+v", a)
	}
	if err := testkit.Receive(t, "the end of the write", failed); err == nil {
		t.Error("the write succeeded")
	}
	r.get(3, "/")
	testkit.Eventually(t, "the handler to wait", func() bool { return s.pool.Stats().Parked == 1 })
	const step = int(512 * timeout / 2 / time.Second) // 512 bytes a second
	for range 10 {
		s.clock.Advance(timeout / 2)
		r.send(func() error {
			_ = r.WriteWindowUpdate(0, 1<<20)
			return r.WriteWindowUpdate(3, uint32(step))
		})
		for got := 0; got < step; {
			got += len(r.nextData().Data())
		}
	}
	if st := s.f.Stats(); st.Timeouts != 1 {
		t.Errorf("%+v", st)
	}
	_ = r.conn.Close()
	<-failed
}

// A client that has ended its side opens no window again: a response that waits for one ends, the others go out.
func TestEndedSideOpensNoWindow(t *testing.T) {
	const window = 20000
	failed, later := make(chan error, 1), make(chan struct{})
	s := startWith(t, setup{clock: true, handler: func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/waits":
			_, err := io.WriteString(w, big(200000))
			failed <- err
		case "/over":
			<-later
			_, _ = io.WriteString(w, big(window+1))
		default:
			<-later
			_, _ = io.WriteString(w, big(window))
		}
	}})
	r := s.dial(wire.Setting{ID: wire.SettingInitialWindowSize, Val: window})
	r.get(1, "/waits")
	testkit.Eventually(t, "the handler to wait", func() bool { return s.pool.Stats().Parked == 1 })
	r.get(3, "/over")
	r.get(5, "/fits")
	testkit.Eventually(t, "all requests", func() bool { return s.f.Stats().Requests == 3 })
	r.send(r.conn.CloseWrite)
	if err := testkit.Receive(t, "the end of the write", failed); err == nil {
		t.Error("the write succeeded")
	}
	close(later)
	ends := make(map[uint32]string)
	for len(ends) < 3 {
		switch f := r.next().(type) {
		case *wire.HeadersFrame:
			r.fieldsOf(f.HeaderBlockFragment())
		case *wire.DataFrame:
			if f.StreamEnded() {
				ends[f.StreamID] = "whole"
			}
		case *wire.RSTStreamFrame:
			ends[f.StreamID] = f.ErrCode.String()
		}
	}
	if ends[1] != "CANCEL" || ends[3] != "CANCEL" || ends[5] != "whole" {
		t.Errorf("the streams end by %v", ends)
	}
	if _, err := r.ReadFrame(); err == nil {
		t.Error("the connection goes on")
	}
}

// A write that waits ends at the handler's own deadline.
func TestWriteDeadline(t *testing.T) {
	failed := make(chan error, 1)
	s := start(t, func(w http.ResponseWriter, r *http.Request) {
		c := http.NewResponseController(w)
		_ = c.Flush()
		_ = c.SetWriteDeadline(time.Now().Add(10 * time.Millisecond))
		_, err := io.WriteString(w, big(200000))
		failed <- err
	})
	r := s.dial(wire.Setting{ID: wire.SettingInitialWindowSize, Val: 0})
	r.get(1, "/")
	if err := testkit.Receive(t, "the end of the write", failed); !isTimeout(err) {
		t.Error(err)
	}
	if a := r.answers(1, false)[1]; a.reset == nil || *a.reset != wire.ErrCodeInternal {
		t.Errorf("%+v", a)
	}
}

func isTimeout(err error) bool {
	t, ok := err.(interface{ Timeout() bool })
	return ok && t.Timeout()
}

// What streams hold counts against the server's memory budget, and a client that does not let it go is closed.
func TestMemoryBudget(t *testing.T) {
	s := startWith(t, setup{
		pool:    executor.Options{Workers: 64},
		adjust:  func(srv *eddy.Server) { srv.MemoryBudget = 1 << 20 },
		handler: func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, big(60000)) },
	})
	r := s.dial(wire.Setting{ID: wire.SettingInitialWindowSize, Val: 0})
	for id := uint32(1); id < 100; id += 2 {
		r.get(id, "/")
	}
	s.waitClosed(eddy.CloseBackpressureLimit)
	s.settles()
}

// A client that does not read its connection holds no more than the queue and the streams may, and is heard all the same.
func TestUnreadConnection(t *testing.T) {
	began := make(chan context.Context, 200)
	s := startWith(t, setup{pool: executor.Options{Workers: 128}, adjust: enginetest.Narrow, handler: func(w http.ResponseWriter, r *http.Request) {
		began <- r.Context()
		_, _ = io.WriteString(w, big(8<<20))
	}})
	r := s.dial(wire.Setting{ID: wire.SettingInitialWindowSize, Val: 1<<31 - 1})
	r.send(func() error { return r.WriteWindowUpdate(0, 1<<30) })
	for id := uint32(1); id < 100; id += 2 {
		r.get(id, "/")
	}
	var contexts []context.Context
	for range 50 {
		contexts = append(contexts, testkit.Receive(t, "a handler", began))
	}
	testkit.Eventually(t, "the handlers to wait", func() bool { return s.pool.Stats().Parked == 50 })
	m := enginetest.Stats(t, s.srv).Memory
	if most := int64(50*(defaultResponseBuffer+bodyBuffer) + 2<<20); m.Inbound+m.Outbound > most {
		t.Errorf("%+v, want at most %d", m, most)
	}
	for id := uint32(1); id < 100; id += 2 {
		r.send(func() error { return r.WriteRSTStream(id, wire.ErrCodeCancel) })
	}
	for _, ctx := range contexts {
		<-ctx.Done()
	}
	testkit.Eventually(t, "the handlers to end", func() bool { return s.pool.Stats().Parked == 0 })
}

// Padding uses a window up as data does (RFC 9113 section 6.9.1), and is given back although the request waits for the rest of
// its body. One frame in many is answered with an update.
func TestPaddingIsGivenBack(t *testing.T) {
	s := startWith(t, setup{handler: echo, opts: Options{BodyBuffer: 64 << 10, OnLoop: func(w *http1.LoopResponse, r *http1.LoopRequest) bool {
		_, _ = fmt.Fprint(w, len(r.Body()))
		return true
	}}})
	r := s.dial()
	const body, pad = 1000, 255
	r.request(1, false, headersOf("POST", "/", "content-length: 1000")...)
	window, updates := 64<<10, 0
	for i := range body {
		for window < pad+2 {
			if f, ok := r.next().(*wire.WindowUpdateFrame); ok && f.StreamID == 1 {
				window, updates = window+int(f.Increment), updates+1
			}
		}
		window -= pad + 2
		r.send(func() error { return r.WriteDataPadded(1, i == body-1, []byte("x"), make([]byte, pad)) })
	}
	if a := r.answer(1); a.body != "1000" || updates > 100 {
		t.Errorf("%+v after %d updates", a, updates)
	}
}
