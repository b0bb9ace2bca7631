package http2

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	wire "golang.org/x/net/http2"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/http1"
	"github.com/go-eddy/eddy/internal/testkit"
)

// A section that decodes to a little more than the limit is cut there, and the table stays in step. One that decodes to very much more is
// not even decoded to its end.
func TestHeaderBomb(t *testing.T) {
	s := startWith(t, setup{opts: Options{MaxHeaderBytes: 10000, MaxHeaderCount: 1000}, handler: echo})
	r := s.dial()
	r.get(1, "/", "x-bomb: "+big(3500)) // in the table from now on
	if a := r.answer(1); a.status() != "200" {
		t.Fatalf("%+v", a)
	}
	bomb := r.section(headersOf("GET", "/")...)
	bomb = append(bomb, bytes.Repeat([]byte{0x80 | 62}, 20)...) // 70 KB
	explode := func(id uint32) {
		r.send(func() error {
			return r.WriteHeaders(wire.HeadersFrameParam{StreamID: id, BlockFragment: bomb, EndHeaders: true, EndStream: true})
		})
	}
	explode(3)
	if a := r.answer(3); a.status() != "431" {
		t.Errorf("%+v", a)
	}
	r.get(5, "/after", "x-bomb: "+big(3500))
	if a := r.answer(5); a.body != "GET /after " {
		t.Errorf("%+v", a)
	}
	bomb = append(bomb, bytes.Repeat([]byte{0x80 | 62}, 5000)...) // 17 MB
	explode(7)
	if code, text := r.goAway(); code != wire.ErrCodeEnhanceYourCalm || !strings.Contains(text, "10000") {
		t.Errorf("%v %q", code, text)
	}
	s.waitClosed(eddy.CloseAdmissionRejected)
}

// floods are frames that cost the server more than the client. Each function sends number i.
var floods = map[string]func(r *raw, i int) error{
	"ping": func(r *raw, _ int) error { return r.WritePing(false, [8]byte{}) },
	"settings": func(r *raw, _ int) error {
		return r.WriteSettings(wire.Setting{ID: wire.SettingInitialWindowSize, Val: 1})
	},
	"priority": func(r *raw, _ int) error { return r.WritePriority(3, wire.PriorityParam{}) },
	"priority update": func(r *raw, _ int) error {
		return r.WriteRawFrame(wire.FrameType(framePriorityUpdate), 0, 0, []byte{0, 0, 0, 1, 'u', '=', '1'})
	},
	"unknown": func(r *raw, _ int) error { return r.WriteRawFrame(0x77, 0, 0, nil) },
	"window":  func(r *raw, _ int) error { return r.WriteWindowUpdate(0, 1) },
	"empty data": func(r *raw, i int) error {
		if i == 0 {
			r.request(1, false, headersOf("POST", "/wait")...)
		}
		return r.WriteData(1, false, nil)
	},
	"empty data of a request that is refused": func(r *raw, i int) error {
		if i == 0 {
			r.request(1, false, headersOf("POST", "/wait", "content-length: 1000000000")...)
		}
		return r.WriteData(1, true, nil)
	},
	"rapid reset": func(r *raw, i int) error {
		return errors.Join(r.ask(i, "/wait"), r.WriteRSTStream(uint32(2*i+1), wire.ErrCodeCancel))
	},
	"made you reset": func(r *raw, i int) error { // the client makes the server reset each request
		return errors.Join(r.ask(i, "/wait"), r.WriteWindowUpdate(uint32(2*i+1), 0))
	},
	"malformed": func(r *raw, i int) error {
		return r.WriteHeaders(wire.HeadersFrameParam{StreamID: uint32(2*i + 1), BlockFragment: r.section(":method: GET"), EndHeaders: true, EndStream: true})
	},
	"large headers": func(r *raw, i int) error { return r.ask(i, "/", "x-large: "+big(3000)) },
}

// ask sends request number i.
func (r *raw) ask(i int, path string, fields ...string) error {
	return r.WriteHeaders(wire.HeadersFrameParam{
		StreamID: uint32(2*i + 1), BlockFragment: r.section(headersOf("GET", path, fields...)...), EndHeaders: true, EndStream: true,
	})
}

// Each flood ends its connection with ENHANCE_YOUR_CALM, after a bounded number of frames, no matter who answers requests.
func TestFloods(t *testing.T) {
	for name, flood := range floods {
		t.Run(name, func(t *testing.T) {
			var running, most counter
			s := startWith(t, setup{clock: true, opts: Options{MaxStreams: 20, MaxHeaderBytes: 2000}, pool: executor.Options{Workers: 100, Queue: 1000}, handler: func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/" {
					hello(w, r)
					return
				}
				most.max(running.add(1))
				<-r.Context().Done()
				running.add(-1)
			}})
			s.outlast(flood)
			if n := most.load(); n > 20 {
				t.Errorf("%d handlers ran at once", n)
			}
			testkit.Eventually(t, "the handlers to end", func() bool { return running.load() == 0 })
		})
		t.Run(name+", answered on the loop", func(t *testing.T) {
			s := startWith(t, setup{clock: true, opts: Options{MaxStreams: 20, MaxHeaderBytes: 2000, OnLoop: func(w *http1.LoopResponse, _ *http1.LoopRequest) bool {
				_, _ = w.WriteString("hello")
				return true
			}}})
			s.outlast(flood)
		})
	}
}

// outlast has one client flood, and fails if the server goes on with it, or does not answer another client meanwhile.
func (s *server) outlast(flood func(r *raw, i int) error) {
	t := s.t
	t.Helper()
	good, r := s.dial(), s.dial()
	drained := make(chan struct{})
	go func() { // so that the server is not held up by what the client does not read
		defer close(drained)
		_, _ = io.Copy(io.Discard, r.conn)
	}()
	sent := 0
	for i := range 100_000 {
		if flood(r, i) != nil {
			break
		}
		if sent++; s.f.Stats().Floods > 0 {
			break
		}
		if i%100 == 0 {
			good.get(uint32(i/100*2+1), "/")
			if a := good.answer(uint32(i/100*2 + 1)); a.body != "hello" {
				t.Fatalf("%+v", a)
			}
		}
	}
	if sent == 100_000 {
		t.Fatal("the server has taken 100,000 of them")
	}
	_ = r.conn.Close()
	<-drained
	s.waitClosed(eddy.CloseAdmissionRejected)
	if st := s.f.Stats(); st.Floods != 1 {
		t.Errorf("%+v", st)
	}
}

// A stream that waits for the window of its connection is forgotten when it is reset: a client that never opens the window
// cannot make the server keep its streams.
func TestResetStreamsAreForgotten(t *testing.T) {
	var o sender
	all := []*stream{{id: 1}, {id: 3}, {id: 5}}
	for _, st := range all {
		st.starved = true
		o.starved = append(o.starved, st)
	}
	o.remove(all[1])
	o.remove(all[1])
	if len(o.starved) != 2 || o.starved[0] != all[0] || o.starved[1] != all[2] || all[1].starved {
		t.Errorf("%d streams wait", len(o.starved))
	}
}

// A client that gets answers may update windows, and ping, as often as it likes in proportion.
func TestBusyClientIsNoFlood(t *testing.T) {
	s := startWith(t, setup{clock: true, opts: Options{ControlBurst: 200}, handler: func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/big" {
			_, _ = io.WriteString(w, big(1<<20))
			return
		}
		hello(w, r)
	}})
	r := s.dial()
	for id := uint32(1); id < 2000; id += 2 {
		r.get(id, "/")
		if a := r.answer(id); a.body != "hello" { // sends an update of the connection's window
			t.Fatalf("%+v", a)
		}
		r.send(func() error { return r.WritePing(false, [8]byte{}) })
	}
	r.get(2001, "/big")
	for got := 0; got < 1<<20; { // a client that gives its windows back in pieces of 4 KiB, each on its own
		n := len(r.nextData().Data())
		got += n
		for range (n + 4095) / 4096 {
			r.send(func() error {
				_ = r.WriteWindowUpdate(0, uint32(min(n, 4096)))
				return r.WriteWindowUpdate(2001, uint32(min(n, 4096)))
			})
		}
	}
}
