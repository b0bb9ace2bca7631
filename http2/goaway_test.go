package http2

import (
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"testing"

	wire "golang.org/x/net/http2"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/http1"
	"github.com/go-eddy/eddy/internal/testkit"
)

// The last stream that a connection takes never grows, whatever tells the client of it: a function on the loop, and then the
// drain of the server. Frames of streams behind it are ignored, and those that were taken end as ever.
func TestGoAwayNeverGrows(t *testing.T) {
	goOn, entered := make(chan struct{}), make(chan struct{}, 1)
	var conn atomic.Pointer[eddy.Conn]
	s := startWith(t, setup{
		init: func(f *Factory) func(*eddy.Pipeline) error {
			return func(p *eddy.Pipeline) error {
				conn.Store(p.Conn())
				return f.Init(p)
			}
		},
		opts: Options{OnLoop: func(w *http1.LoopResponse, r *http1.LoopRequest) bool {
			if string(r.Path()) == "/last" {
				w.Close()
			}
			return string(r.Path()) == "/last"
		}},
		handler: func(w http.ResponseWriter, r *http.Request) {
			entered <- struct{}{}
			<-goOn
			hello(w, r)
		},
	})
	r := s.dial()
	r.get(1, "/")
	testkit.Receive(t, "the handler", entered)
	r.get(3, "/last")
	over := make(chan error, 1)
	var got []string
	for ended := 0; ended < 2; {
		f, err := r.ReadFrame()
		if err != nil {
			t.Fatalf("%v after %v", err, got)
		}
		switch f := f.(type) {
		case *wire.GoAwayFrame:
			if got = append(got, fmt.Sprint("last ", f.LastStreamID)); len(got) == 1 {
				r.request(5, false, headersOf("POST", "/")...) // with a body and without, each with a trailer section
				r.request(5, true, "x-late: 1")
				r.request(7, false, headersOf("POST", "/")...)
				r.data(7, false, "body")
				r.request(7, true, "x-late: 1")
				r.get(9, "/")
				r.send(func() error { return r.WritePing(false, [8]byte{}) })
			}
		case *wire.PingFrame: // everything before it was read
			go func() {
				_, err := s.srv.Shutdown(testkit.Context(t))
				over <- err
			}()
			testkit.Eventually(t, "the drain", func() bool { return conn.Load().Draining() })
			close(goOn)
		case *wire.HeadersFrame:
			r.fieldsOf(f.HeaderBlockFragment())
			if f.StreamEnded() {
				ended++
			}
		case *wire.DataFrame:
			if got = append(got, fmt.Sprint(f.StreamID, " ", string(f.Data()))); f.StreamEnded() {
				ended++
			}
		default:
			got = append(got, fmt.Sprint(f))
		}
	}
	if want := "[last 3 1 hello]"; fmt.Sprint(got) != want {
		t.Errorf("%v, want %v", got, want)
	}
	if _, err := io.Copy(io.Discard, r.conn); err != nil {
		t.Error(err)
	}
	_ = r.conn.Close()
	if err := testkit.Receive(t, "the end of the drain", over); err != nil {
		t.Error(err)
	}
	if n := s.f.Stats().Refused; n != 3 {
		t.Errorf("%d refused requests are counted, want 3", n)
	}
}

// A Call is told its end also when it returns after the server has ended, and with it the loop.
func TestCallEndsAfterItsLoop(t *testing.T) {
	var over atomic.Int32
	goOn, entered := make(chan struct{}), make(chan struct{}, 3)
	s := startWith(t, setup{opts: Options{Calls: func(Head) Followed {
		return Followed{Call: counted{func(x *Exchange) {
			entered <- struct{}{}
			<-goOn
			_ = x.Send([]byte("to nobody"))
		}, &over}}
	}}})
	r := s.dial()
	for id := range uint32(3) {
		r.get(2*id+1, "/")
		testkit.Receive(t, "the call", entered)
	}
	if err := s.srv.Close(); err != nil {
		t.Fatal(err)
	}
	if n := over.Load(); n != 0 {
		t.Errorf("%d calls are over, and all run", n)
	}
	close(goOn)
	testkit.Eventually(t, "the end of three calls", func() bool { return over.Load() == 3 })
}

// A pool that is stopped answers the requests that wait in it, and the connection goes on.
func TestStoppedPool(t *testing.T) {
	for _, call := range []bool{false, true} {
		var over atomic.Int32
		goOn, entered := make(chan struct{}), make(chan struct{}, 3)
		wait := func() {
			entered <- struct{}{}
			<-goOn
		}
		c := setup{pool: executor.Options{Workers: 1}, handler: func(w http.ResponseWriter, r *http.Request) { wait(); hello(w, r) }}
		want, ends := "503 the server is busy\n", int32(0)
		if call {
			want, ends = "418 own words", 2
			c.opts.Calls = func(Head) Followed {
				return Followed{Call: counted{func(x *Exchange) {
					wait()
					_ = x.Begin(http.StatusOK)
					_ = x.Give([]byte("hello"))
					x.End()
				}, &over}}
			}
		}
		s := startWith(t, c)
		r := s.dial()
		r.get(1, "/")
		testkit.Receive(t, "the handler", entered)
		r.get(3, "/")
		testkit.Eventually(t, "the request that waits", func() bool { return s.pool.Stats().Queued == 1 })
		if left := s.pool.Close(); len(left) != 0 {
			t.Errorf("%v were not told", left)
		}
		if a := r.answer(3); a.status()+" "+a.body != want {
			t.Errorf("%+v, want %q", a, want)
		}
		close(goOn)
		if a := r.answer(1); a.body != "hello" {
			t.Errorf("%+v", a)
		}
		testkit.Eventually(t, "the ends of the calls", func() bool { return over.Load() == ends })
		if n := s.f.Stats().Busy; n != 1 {
			t.Errorf("%d are counted as busy", n)
		}
		s.settles()
	}
}
