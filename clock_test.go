package eddy_test

import (
	"net"
	"testing"
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/buf"
)

// The loop's time does not change while a handler runs, and goes on with the loop's turns.
func TestContextNow(t *testing.T) {
	type look struct{ first, second time.Duration }
	looks := make(chan look, 1)
	srv := &eddy.Server{Logger: quiet(), Init: func(p *eddy.Pipeline) error {
		return p.Add("clock", eddy.Handle(func(ctx *eddy.Context, _ *buf.Bytes) error {
			l := look{first: ctx.Now()}
			for begin := time.Now(); time.Since(begin) < time.Millisecond; { // a handler that takes its time
			}
			l.second = ctx.Now()
			looks <- l
			return nil
		}))
	}}
	if err := srv.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	defer srv.Close()
	c, err := net.Dial("tcp", srv.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var last time.Duration
	for range 5 {
		if _, err := c.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		l := <-looks
		if l.first != l.second {
			t.Errorf("the time changed within a turn, from %v to %v", l.first, l.second)
		}
		if l.first < last+time.Millisecond {
			t.Errorf("%v follows %v, a handler's millisecond later", l.first, last)
		}
		last = l.first
	}
}
