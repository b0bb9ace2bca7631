package http2

import (
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/go-eddy/eddy/internal/testkit"
	wire "golang.org/x/net/http2"
)

// At its age a connection takes no more requests, and ends with those that it has, or when their time is over.
func TestMaxAge(t *testing.T) {
	for _, grace := range []time.Duration{0, time.Second} {
		goOn, entered := make(chan struct{}), make(chan struct{}, 1)
		s := startWith(t, setup{clock: true, opts: Options{MaxAge: 30 * time.Second, MaxAgeGrace: grace}, handler: func(w http.ResponseWriter, r *http.Request) {
			entered <- struct{}{}
			select {
			case <-goOn:
			case <-r.Context().Done():
			}
			hello(w, r)
		}})
		r := s.dial()
		r.get(1, "/")
		testkit.Receive(t, "the handler", entered)
		s.clock.Advance(spread(30*time.Second, r.conn.LocalAddr().String()) + drainGrace/10)
		if g, ok := r.next().(*wire.GoAwayFrame); !ok || g.LastStreamID != 1<<31-1 || g.ErrCode != wire.ErrCodeNo {
			t.Fatalf("%v", g)
		}
		r.get(3, "/") // was on its way
		testkit.Receive(t, "the handler", entered)
		s.clock.Advance(2 * drainGrace)
		if g, ok := r.next().(*wire.GoAwayFrame); !ok || g.LastStreamID != 3 || g.ErrCode != wire.ErrCodeNo {
			t.Fatalf("%v", g)
		}
		r.get(5, "/") // too late: told by the GOAWAY
		want := "CANCEL CANCEL"
		if grace == 0 {
			want = "hello hello"
			close(goOn)
		} else {
			s.clock.Advance(grace)
		}
		ends := map[uint32]string{}
		for len(ends) < 2 {
			switch f := r.next().(type) {
			case *wire.HeadersFrame:
				r.fieldsOf(f.HeaderBlockFragment())
			case *wire.DataFrame:
				ends[f.StreamID] += string(f.Data())
			case *wire.RSTStreamFrame:
				ends[f.StreamID] = f.ErrCode.String()
			}
		}
		if got := ends[1] + " " + ends[3]; got != want {
			t.Errorf("with the grace %v: %s", grace, got)
		}
		if _, err := io.Copy(io.Discard, r.conn); err != nil {
			t.Error(err)
		}
		_ = r.conn.Close()
		s.settles()
	}
}

// A connection without requests ends at its age; connections do not end all at once.
func TestMaxAgeIdle(t *testing.T) {
	s := startWith(t, setup{clock: true, opts: Options{MaxAge: 30 * time.Second}, handler: hello})
	r := s.dial()
	s.clock.Pass(33*time.Second+tick, tick)
	if g, ok := r.next().(*wire.GoAwayFrame); !ok || g.LastStreamID != 1<<31-1 {
		t.Fatalf("%v", g)
	}
	s.clock.Advance(2 * drainGrace)
	if g, ok := r.next().(*wire.GoAwayFrame); !ok || g.LastStreamID != 0 {
		t.Fatalf("%v", g)
	}
	if _, err := io.Copy(io.Discard, r.conn); err != nil {
		t.Error(err)
	}
	least, most := time.Hour, time.Duration(0)
	for port := range 1000 {
		d := spread(100*time.Second, fmt.Sprintf("192.0.2.1:%d", port))
		least, most = min(least, d), max(most, d)
	}
	if least < 90*time.Second || most > 110*time.Second || least > 91*time.Second || most < 109*time.Second {
		t.Errorf("from %v to %v", least, most)
	}
}
