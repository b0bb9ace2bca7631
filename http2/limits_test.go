package http2

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	wire "golang.org/x/net/http2"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/http1"
	"github.com/go-eddy/eddy/internal/enginetest"
	"github.com/go-eddy/eddy/internal/testkit"
)

// Options that make no sense are named, with the value and the range.
func TestOptions(t *testing.T) {
	pool, err := executor.NewFixed(executor.Options{Name: "p"})
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	for want, f := range map[string]func(){
		"a handler and a pool":                           func() { NewHandler(nil, pool, Options{}) },
		"Options.MaxStreams is -1, want 0 (default 128)": func() { NewHandler(http.NotFoundHandler(), pool, Options{MaxStreams: -1}) },
		"Options.BodyBuffer is 10":                       func() { NewHandler(http.NotFoundHandler(), pool, Options{BodyBuffer: 10}) },
		"Options.ControlBurst is 1":                      func() { NewHandler(http.NotFoundHandler(), pool, Options{ControlBurst: 1}) },
	} {
		func() {
			defer func() {
				if got := fmt.Sprint(recover()); !strings.Contains(got, want) {
					t.Errorf("%q, want %q", got, want)
				}
			}()
			f()
		}()
	}
}

// Requests beyond a limit are answered with the status that names it, and the connection goes on.
func TestRequestLimits(t *testing.T) {
	s := startWith(t, setup{opts: Options{MaxHeaderBytes: 2000, MaxHeaderCount: 10, MaxBody: 1000}, handler: echo})
	r := s.dial()
	var many []string
	for i := range 12 {
		many = append(many, fmt.Sprintf("x-%d: v", i))
	}
	r.get(1, "/", many...)
	r.get(3, "/", "x-long: "+big(2500))
	r.request(5, false, headersOf("POST", "/", "content-length: 1001")...)
	r.request(7, false, headersOf("POST", "/")...)
	r.data(7, true, big(1001))
	r.request(9, true, headersOf("HEAD", "/", many...)...)
	r.request(11, false, headersOf("POST", "/")...)
	r.data(11, true, big(1000))
	all := r.answers(6, true)
	for id, status := range map[uint32]string{1: "431", 3: "431", 5: "413", 7: "413", 9: "431", 11: "200"} {
		if a := all[id]; a.status() != status {
			t.Errorf("stream %d: %+v, want %s", id, a, status)
		}
	}
	if all[9].body != "" || !strings.Contains(all[5].body, "1000") || !strings.Contains(all[1].body, "10 fields") {
		t.Errorf("%q %q %q", all[9].body, all[5].body, all[1].body)
	}
	s.settles()
	if st := s.f.Stats(); st.ProtocolErrors != 5 {
		t.Errorf("%+v", st)
	}
}

// A header section that takes too many bytes, however it is cut, ends the connection.
func TestHeaderSectionIsBounded(t *testing.T) {
	for name, send := range map[string]func(r *raw){
		"bytes": func(r *raw) {
			for {
				if r.WriteContinuation(1, false, make([]byte, 4000)) != nil {
					return
				}
			}
		},
		"frames": func(r *raw) {
			for {
				if r.WriteContinuation(1, false, nil) != nil {
					return
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, hello)
			r := s.dial()
			r.send(func() error { return r.WriteHeaders(wire.HeadersFrameParam{StreamID: 1, BlockFragment: []byte{0x82}}) })
			go send(r)
			if code, text := r.goAway(); code != wire.ErrCodeEnhanceYourCalm {
				t.Errorf("%v %q", code, text)
			}
			s.waitClosed(eddy.CloseAdmissionRejected)
			if st := s.f.Stats(); st.Floods != 1 {
				t.Errorf("%+v", st)
			}
		})
	}
}

// Requests beyond MaxStreams are refused, so that the client can send them elsewhere.
func TestMaxStreams(t *testing.T) {
	goOn, entered := make(chan struct{}), make(chan struct{}, 4)
	s := startWith(t, setup{opts: Options{MaxStreams: 2}, handler: func(w http.ResponseWriter, r *http.Request) {
		entered <- struct{}{}
		<-goOn
		hello(w, r)
	}})
	r := s.dial()
	r.get(1, "/")
	r.get(3, "/")
	r.get(5, "/")
	if a := r.answer(5); a.reset == nil || *a.reset != wire.ErrCodeRefusedStream {
		t.Fatalf("%+v", a)
	}
	for range 2 {
		testkit.Receive(t, "a handler", entered)
	}
	for id := uint32(1); id < 4; id += 2 { // their handlers still run
		r.send(func() error { return r.WriteRSTStream(id, wire.ErrCodeCancel) })
	}
	r.get(7, "/")
	if a := r.answer(7); a.reset == nil || *a.reset != wire.ErrCodeRefusedStream {
		t.Fatalf("%+v", a)
	}
	close(goOn)
	testkit.Eventually(t, "the handlers to end", func() bool { return s.pool.Stats().Running == 0 })
	enginetest.Barrier(t, s.srv)
	r.get(9, "/")
	if a := r.answer(9); a.body != "hello" {
		t.Errorf("%+v", a)
	}
	if st := s.f.Stats(); st.Refused != 2 || st.Resets != 2 {
		t.Errorf("%+v", st)
	}
}

// The bound of the handlers that run holds for requests that have waited for their bodies, too: meanwhile the client has reset
// others, whose handlers still run.
func TestMaxStreamsAwaited(t *testing.T) {
	goOn, entered := make(chan struct{}), make(chan struct{}, 4)
	var over atomic.Int32
	s := startWith(t, setup{opts: Options{MaxStreams: 2, Calls: func(Head) Followed {
		call := counted{func(x *Exchange) {
			entered <- struct{}{}
			<-goOn
			_ = x.Begin(http.StatusOK)
			x.End()
		}, &over}
		return Followed{Call: call, Route: http1.Route{Await: 10}}
	}}})
	r := s.dial()
	r.get(1, "/")
	testkit.Receive(t, "a handler", entered)
	r.send(func() error { return r.WriteRSTStream(1, wire.ErrCodeCancel) })
	for _, id := range []uint32{3, 5} {
		r.request(id, false, headersOf("POST", "/")...)
	}
	r.data(3, true, "a")
	testkit.Receive(t, "a handler", entered)
	r.data(5, true, "b")
	if a := r.answer(5); a.reset == nil || *a.reset != wire.ErrCodeRefusedStream {
		t.Fatalf("%+v", a)
	}
	close(goOn)
	if a := r.answer(3); a.status() != "200" {
		t.Errorf("%+v", a)
	}
	testkit.Eventually(t, "the end of each call", func() bool { return over.Load() == 3 })
	if st := s.f.Stats(); st.Refused != 1 || len(entered) > 0 {
		t.Errorf("%+v; %d more have run", st, len(entered))
	}
}

// A request whose client, handler or body is too slow is answered, or its stream is reset. The connection goes on.
func TestTimeouts(t *testing.T) {
	ends := make(chan error, 1)
	s := startWith(t, setup{clock: true, opts: Options{BodyTimeout: timeout}, answer: 4 * timeout, handler: func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/begun":
			_ = http.NewResponseController(w).Flush()
			_, err := io.ReadAll(r.Body)
			ends <- err
		case "/late":
			<-r.Context().Done()
			ends <- r.Context().Err()
		default:
			echo(w, r)
		}
	}})
	r := s.dial()
	r.request(1, false, headersOf("POST", "/")...)
	testkit.Eventually(t, "the handler to wait", func() bool { return s.pool.Stats().Parked == 1 })
	s.clock.Pass(timeout-tick, tick)
	r.data(1, false, "x") // the silence begins anew
	enginetest.Barrier(t, s.srv)
	s.clock.Pass(timeout-2*tick, tick)
	if st := s.f.Stats(); st.Timeouts != 0 {
		t.Fatalf("%+v", st)
	}
	s.clock.Pass(4*tick, tick)
	if a := r.answer(1); a.status() != "408" {
		t.Errorf("%+v", a)
	}
	r.request(3, false, headersOf("POST", "/begun")...) // a stream may be silent
	for f := r.next(); f.Header().Type != wire.FrameHeaders; f = r.next() {
	}
	s.clock.Pass(2*timeout, 10*tick)
	if st := s.f.Stats(); st.Timeouts != 1 {
		t.Fatalf("%+v", st)
	}
	r.data(3, true, "")
	if err := testkit.Receive(t, "the handler", ends); err != nil {
		t.Error(err)
	}
	r.dec.SetMaxDynamicTableSize(4096)
	for f := r.next(); f.Header().Type != wire.FrameData; f = r.next() {
	}
	r = s.dial()
	r.get(1, "/late")
	r.get(3, "/")
	if a := r.answer(3); a.status() != "200" {
		t.Errorf("%+v", a)
	}
	s.clock.Pass(4*timeout+2*tick, 10*tick)
	if a := r.answer(1); a.status() != "503" {
		t.Errorf("%+v", a)
	}
	if err := testkit.Receive(t, "the handler", ends); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	r.get(5, "/")
	if a := r.answer(5); a.status() != "200" {
		t.Errorf("%+v", a)
	}
}

// A header section, or a frame, that does not come to its end ends the connection in time.
func TestIncompleteInput(t *testing.T) {
	for name, send := range map[string]func(r *raw) error{
		"section": func(r *raw) error {
			return r.WriteHeaders(wire.HeadersFrameParam{StreamID: 1, BlockFragment: []byte{0x82}})
		},
		"frame": func(r *raw) error { _, err := r.conn.Write([]byte{0, 0, 8, 6}); return err },
	} {
		t.Run(name, func(t *testing.T) {
			s := startWith(t, setup{clock: true, opts: Options{HeaderTimeout: timeout}, handler: hello})
			r := s.dial()
			r.send(func() error { return send(r) })
			enginetest.Barrier(t, s.srv)
			s.clock.Pass(timeout+2*tick, tick)
			_, _ = io.Copy(io.Discard, r.conn)
			_ = r.conn.Close()
			s.waitClosed(eddy.CloseReadTimeout)
		})
	}
}

// Requests beyond the pool are answered 503; a route's pool and its awaited body are its own.
func TestRoutes(t *testing.T) {
	goOn, entered := make(chan struct{}), make(chan struct{}, 1)
	own, err := executor.NewFixed(executor.Options{Name: "own", Workers: 1, Queue: executor.HandOff})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = own.Shutdown(context.Background()) })
	s := startWith(t, setup{
		pool: executor.Options{Workers: 1, Queue: executor.HandOff},
		opts: Options{Route: func(r *http.Request) http1.Route {
			switch r.URL.Path {
			case "/own":
				if r.ContentLength != 0 {
					t.Errorf("a request without a body has the length %d", r.ContentLength)
				}
				return http1.Route{Pool: own}
			case "/await":
				if r.ContentLength >= 0 && r.ContentLength < 250<<10 {
					t.Errorf("the length %d in place of Content-Length", r.ContentLength)
				}
				return http1.Route{Await: 300 << 10}
			}
			return http1.Route{}
		}},
		handler: func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/block" {
				entered <- struct{}{}
				<-goOn
			}
			echo(w, r)
		},
	})
	r := s.dial()
	r.request(1, false, headersOf("POST", "/await", "content-length: "+strconv.Itoa(250<<10), "expect: 100-continue")...)
	sent := 0
	for sent < 250<<10 { // more than the window of a stream: it was opened for the whole body
		n := min(16<<10, 250<<10-sent)
		r.data(1, sent+n == 250<<10, big(n))
		sent += n
	}
	if a := r.answer(1); len(a.body) != len("POST /await ")+250<<10 {
		t.Errorf("%d bytes, %v", len(a.body), a.fields)
	}
	r.request(3, false, headersOf("POST", "/await", "content-length: 400000")...)
	if a := r.answer(3); a.status() != "413" {
		t.Errorf("%+v", a)
	}
	r.request(11, false, headersOf("POST", "/await")...) // of unknown length: the window lets it be one byte too long
	for range 5 {
		r.data(11, false, big(16<<10))
	}
	for granted := defaultBodyBuffer; granted <= 300<<10; {
		if f, ok := r.next().(*wire.WindowUpdateFrame); ok && f.StreamID == 11 {
			granted += int(f.Increment)
		}
	}
	r.send(func() error { return r.WriteRSTStream(11, wire.ErrCodeCancel) })
	testkit.Eventually(t, "the worker to be free", func() bool { return s.pool.Stats().Running == 0 })
	r.get(13, "/block")
	testkit.Receive(t, "the handler", entered)
	r.get(15, "/")
	if a := r.answer(15); a.status() != "503" || a.fields["retry-after"] != "1" {
		t.Errorf("%+v", a)
	}
	r.get(17, "/own")
	if a := r.answer(17); a.body != "GET /own " {
		t.Errorf("%+v", a)
	}
	close(goOn)
	if a := r.answer(13); a.status() != "200" {
		t.Errorf("%+v", a)
	}
	if st := s.f.Stats(); st.Busy != 1 {
		t.Errorf("%+v", st)
	}
	s.settles()
}

// OnLoop answers on the loop what it wants, bodies included, and leaves the rest to the handler.
func TestOnLoop(t *testing.T) {
	for _, alone := range []bool{false, true} {
		c := setup{handler: echo, opts: Options{OnLoop: func(w *http1.LoopResponse, r *http1.LoopRequest) bool {
			if !strings.HasPrefix(string(r.Path()), "/loop") {
				return false
			}
			v, _ := r.Header("x-a")
			w.AddHeader("X-B", string(v))
			w.AddHeader("Content-Length", "7")
			w.AddHeader("x c", "bad")
			_, _ = fmt.Fprintf(w, "%s %s %s", r.Method(), r.Query(), r.Body())
			if string(r.Path()) == "/loop/close" {
				w.Close()
			}
			return true
		}}}
		if alone {
			c.handler = nil
		}
		s := startWith(t, c)
		r := s.dial()
		r.get(1, "/loop?q", "x-a: 1")
		r.request(3, false, headersOf("POST", "/loop", "content-length: 4")...)
		r.data(3, true, "body")
		r.request(5, true, headersOf("HEAD", "/loop")...)
		r.request(7, false, headersOf("POST", "/pool", "content-length: 4")...)
		r.data(7, true, "body")
		all := r.answers(4, true)
		if a := all[1]; a.body != "GET q " || a.fields["x-b"] != "1" || a.fields["content-length"] != "6" {
			t.Errorf("%+v", a)
		}
		if a := all[3]; a.body != "POST  body" {
			t.Errorf("%+v", a)
		}
		if a := all[5]; a.body != "" || a.fields["content-length"] == "" {
			t.Errorf("%+v", a)
		}
		if a := all[7]; alone && a.status() != "404" || !alone && a.body != "POST /pool body" {
			t.Errorf("%+v", a)
		}
		if st := s.f.Stats(); st.InvalidFields != 6 {
			t.Errorf("%+v", st)
		}
		s.settles()
		r.get(9, "/loop/close")
		for f := r.next(); f.Header().Type != wire.FrameGoAway; f = r.next() {
		}
		if _, err := io.Copy(io.Discard, r.conn); err != nil {
			t.Error(err)
		}
		_ = r.conn.Close()
		s.waitClosed(eddy.CloseNormal)
	}
}

// A handler's own deadline for reads ends a Read.
func TestReadDeadline(t *testing.T) {
	failed := make(chan error, 1)
	s := start(t, func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(10 * time.Millisecond))
		_, err := io.ReadAll(r.Body)
		failed <- err
	})
	r := s.dial()
	r.request(1, false, headersOf("POST", "/")...)
	if err := testkit.Receive(t, "the end of the read", failed); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error(err)
	}
}
