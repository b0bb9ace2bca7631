package eddy_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/buf"
)

// Two parts are one message wherever the handler runs and whoever writes in front of it, and their memory may be reused.
func TestWriteParts(t *testing.T) {
	pool := newPool(t, 1, 100)
	upper := encodeFunc(func(ctx *eddy.Context, msg any) error {
		switch m := msg.(type) {
		case *buf.Bytes: // of a handler on the loop
			return ctx.WriteBytes(bytes.ToUpper(m.Bytes()))
		case []byte:
			return ctx.Write(bytes.ToUpper(m))
		}
		t.Errorf("a part of type %T reached the writer", msg)
		return nil
	})
	head, body := []byte("head,"), []byte(strings.Repeat("body", 1000))
	answer := eddy.Handle(func(ctx *eddy.Context, _ *buf.Bytes) error {
		h, b := append([]byte(nil), head...), append([]byte(nil), body...)
		err := ctx.WriteParts(h, b)
		clear(h)
		clear(b)
		return err
	})
	want := string(head) + string(body)
	for _, tt := range []struct {
		name string
		init func(p *eddy.Pipeline) error
		want string
	}{
		{"loop", func(p *eddy.Pipeline) error { return p.Add("answer", answer) }, want},
		{"pool", func(p *eddy.Pipeline) error { return p.Add("answer", answer, eddy.On(pool)) }, want},
		{"behind a writer", func(p *eddy.Pipeline) error { p.Add("upper", upper); return p.Add("answer", answer) }, strings.ToUpper(want)},
		{"on a pool behind a writer", func(p *eddy.Pipeline) error {
			p.Add("upper", upper)
			return p.Add("answer", answer, eddy.On(pool))
		}, strings.ToUpper(want)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			srv := &eddy.Server{Init: tt.init, Logger: quiet()}
			if err := srv.Listen("tcp", "127.0.0.1:0"); err != nil {
				t.Fatal(err)
			}
			defer srv.Close()
			c, err := net.Dial("tcp", srv.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if _, err := c.Write([]byte("x")); err != nil {
				t.Fatal(err)
			}
			got := make([]byte, len(tt.want))
			if _, err := io.ReadFull(c, got); err != nil || string(got) != tt.want {
				t.Errorf("%.30q, %v", got, err)
			}
		})
	}
}

// What does not fit is refused with both parts, also when one of them would.
func TestWritePartsAllOrNone(t *testing.T) {
	outcome := make(chan error, 1)
	srv := &eddy.Server{
		Watermarks: eddy.Watermarks{Low: 1, High: 2, Max: 100}, Overflow: eddy.OverflowReject, Logger: quiet(),
		Init: func(p *eddy.Pipeline) error {
			return p.Add("answer", eddy.Handle(func(ctx *eddy.Context, _ *buf.Bytes) error {
				if err := ctx.WriteBytes([]byte(strings.Repeat("f", 60))); err != nil {
					return err
				}
				outcome <- ctx.WriteParts([]byte(strings.Repeat("h", 30)), []byte(strings.Repeat("b", 30)))
				ctx.CloseAfterFlush(eddy.CloseNormal)
				return nil
			}))
		},
	}
	if err := srv.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	defer srv.Close()
	c, err := net.Dial("tcp", srv.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if err := <-outcome; !errors.Is(err, eddy.ErrBackpressure) {
		t.Errorf("error %v", err)
	}
	if got, err := io.ReadAll(c); err != nil || string(got) != strings.Repeat("f", 60) {
		t.Errorf("%q, %v", got, err)
	}
}
