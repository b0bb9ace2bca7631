package eddy_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/codec/line"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/internal/testkit"
)

// keeper is a WriteHandler that passes a message on after the one behind it, so it has to keep it.
type keeper struct{ held any }

func (k *keeper) HandleWrite(ctx *eddy.Context, msg any) error {
	if d, ok := msg.(eddy.Detacher); ok {
		msg = d.Detach()
	}
	held := k.held
	k.held = msg
	if held == nil {
		return nil
	}
	return ctx.Write(held)
}

// TestWriteBytesOnPool: what a handler on a pool writes arrives in order and whole, although it changes its bytes at once,
// whatever stands between it and the socket, and whatever the bytes' length.
func TestWriteBytesOnPool(t *testing.T) {
	pool, err := executor.NewFixed(executor.Options{Workers: 2, Queue: 64})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pool.Close() })
	lengths := []int{0, 1, 63, 64, 65, 256, 257, 1024, 1025, 5000}
	write := func(ctx *eddy.Context, _ *line.Line) error {
		p := make([]byte, 5000)
		for i, n := range lengths {
			for j := range n {
				p[j] = byte('a' + i)
			}
			if err := ctx.WriteBytes(p[:n]); err != nil {
				return err
			}
			clear(p)
		}
		return ctx.WriteBytes([]byte("end\n"))
	}
	var want bytes.Buffer
	for i, n := range lengths {
		fmt.Fprintf(&want, "%s", bytes.Repeat([]byte{byte('a' + i)}, n))
	}
	for name, between := range map[string][]eddy.AddOption{"nothing": nil, "a WriteHandler on the loop": {}, "a WriteHandler on the pool": {eddy.On(pool)}} {
		t.Run(name, func(t *testing.T) {
			srv := &eddy.Server{Loops: 1, Init: func(p *eddy.Pipeline) error {
				if between != nil {
					if err := p.Add("keeper", &keeper{}, between...); err != nil {
						return err
					}
				}
				if err := p.Add("lines", line.Codec(100)); err != nil {
					return err
				}
				return p.Add("app", eddy.Handle(write), eddy.On(pool))
			}}
			c := dial(t, start(t, srv))
			if _, err := io.WriteString(c, "go\n"); err != nil {
				t.Fatal(err)
			}
			got := make([]byte, want.Len()) // a keeper keeps what comes last
			if _, err := io.ReadFull(c, got); err != nil || !bytes.Equal(got, want.Bytes()) {
				t.Errorf("%d bytes, %v; want %d", len(got), err, want.Len())
			}
		})
	}
}

// TestWriteBytesOnPoolIsBounded: what a handler on a pool has written counts as queued before the loop has looked at it.
func TestWriteBytesOnPoolIsBounded(t *testing.T) {
	pool, err := executor.NewFixed(executor.Options{Workers: 1, Queue: 64})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pool.Close() })
	const high, most = 1000, 4000
	queued := make(chan int64, 1)
	write := func(ctx *eddy.Context, _ *line.Line) error {
		busy, goOn := make(chan bool), make(chan bool)
		if err := ctx.Conn().Post(func() { close(busy); <-goOn }); err != nil {
			return err
		}
		defer close(goOn)
		<-busy
		var err error
		for range 2 * most / 100 {
			if err = ctx.WriteBytes(make([]byte, 100)); err != nil {
				break
			}
		}
		if !errors.Is(err, eddy.ErrBackpressure) {
			t.Errorf("the last WriteBytes: %v", err)
		}
		queued <- ctx.Conn().QueuedBytes()
		return nil
	}
	srv := &eddy.Server{Loops: 1, Overflow: eddy.OverflowReject, Watermarks: eddy.Watermarks{Low: high / 2, High: high, Max: most}, Init: func(p *eddy.Pipeline) error {
		return errors.Join(p.Add("lines", line.Codec(100)), p.Add("app", eddy.Handle(write), eddy.On(pool)))
	}}
	c := dial(t, start(t, srv))
	if _, err := io.WriteString(c, "go\n"); err != nil {
		t.Fatal(err)
	}
	if n := testkit.Receive(t, "the queued bytes", queued); n != most {
		t.Errorf("%d bytes are queued, want %d", n, most)
	}
	if _, err := io.ReadFull(c, make([]byte, most)); err != nil {
		t.Error(err)
	}
}
