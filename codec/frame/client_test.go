package frame

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/internal/enginetest"
	"github.com/go-eddy/eddy/internal/testkit"
	"github.com/go-eddy/eddy/responder"
)

// dialFrames connects with a pipeline of this package's own parts.
func (r *rig) dialFrames(encoder ...eddy.AddOption) (*eddy.Conn, <-chan *Frame) {
	r.t.Helper()
	got := make(chan *Frame, 100)
	d := &eddy.Dialer{Init: func(p *eddy.Pipeline) error {
		p.Add("frames", ResponseDecoder(MaxPayload(1<<20)))
		p.Add("encoder", Encoder{}, encoder...)
		return p.Add("got", eddy.Handle(func(_ *eddy.Context, f *Frame) error {
			got <- f.Detach().(*Frame)
			return nil
		}))
	}}
	enginetest.RelaxDialer(d)
	r.t.Cleanup(func() { d.Close() })
	c, err := d.Dial(context.Background(), "tcp", r.srv.Addr().String())
	if err != nil {
		r.t.Fatal(err)
	}
	return c, got
}

// TestClientPipeline: Encoder and ResponseDecoder make a client, with the encoder on the loop and on a pool, with
// payloads that are copied and that are not.
func TestClientPipeline(t *testing.T) {
	r := newRig(t, &set{workers: 2})
	pool, err := executor.NewFixed(executor.Options{Name: "encoder", Workers: 2, Queue: 100})
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Shutdown(context.Background())
	for name, opts := range map[string][]eddy.AddOption{"loop": nil, "pool": {eddy.On(pool)}} {
		c, got := r.dialFrames(opts...)
		for i, n := range []int{0, 1, 1000, 20_000, 1 << 20} {
			p := bytes.Repeat([]byte{byte(n)}, n)
			id := uint64(i + 1)
			if err := c.Write(&Frame{ID: id, Code: uint8(Echo), Payload: p}); err != nil {
				t.Fatal(err)
			}
			f := testkit.Receive(t, "a response", got)
			if f.ID != id || f.Err() != nil || !bytes.Equal(f.Payload, p) {
				t.Errorf("%s: %d bytes came back as %d %v, %d bytes", name, n, f.ID, f.Status(), len(f.Payload))
			}
			f.Release()
		}
		if err := c.Write(AppendRequest(nil, 9, Call, []byte("error"))); err != nil { // bytes pass
			t.Fatal(err)
		}
		f := testkit.Receive(t, "a response", got)
		if e, ok := errors.AsType[*StatusError](f.Err()); !ok || e.Status != StatusAppError || e.Error() != "frame: APP_ERROR: my error" {
			t.Errorf("%s: %v", name, f.Err())
		}
		f.Release()
	}
}

// TestFramesPassOn: a handler can write a decoded frame again, on the loop, where its payload is borrowed.
func TestFramesPassOn(t *testing.T) {
	srv := &eddy.Server{Loops: 1, Init: func(p *eddy.Pipeline) error {
		p.Add("frames", Decoder())
		p.Add("encoder", Encoder{})
		return p.Add("mirror", eddy.Handle(func(ctx *eddy.Context, f *Frame) error {
			f.Code = uint8(StatusOK)
			return ctx.Write(f)
		}))
	}}
	c := newRaw(t, enginetest.Dial(t, enginetest.Serve(t, srv)))
	for _, n := range []int{0, 1, 100, 30_000, 200_000} {
		p := string(bytes.Repeat([]byte("p"), n))
		go c.Write(bytes.Join([][]byte{rawFrame(1, 2, p), rawFrame(2, 2, p)}, nil))
		c.expect(answer{1, 0, p}, answer{2, 0, p})
	}
}

// TestBadResponses end a client's connection with the reason.
func TestBadResponses(t *testing.T) {
	for send, want := range map[string]eddy.CloseReason{
		"x": eddy.CloseProtocolError, "\xed\xd1\x07": eddy.CloseProtocolError,
		string(AppendHeader(nil, 0, 0, 1<<21)): eddy.CloseFrameTooLarge,
	} {
		srv := &eddy.Server{Loops: 1, Init: func(p *eddy.Pipeline) error { return p.Add("bad", greeter(send)) }}
		enginetest.Serve(t, srv)
		c, _ := (&rig{t: t, srv: srv}).dialFrames()
		<-c.CloseFuture().Done()
		if e := c.CloseError(); e == nil || e.Reason != want {
			t.Errorf("%q: closed with %v, want %v", send, e, want)
		}
		srv.Close()
	}
}

// greeter sends something to everybody who connects.
type greeter string

func (g greeter) HandleOpen(ctx *eddy.Context) error { return ctx.Write(string(g)) }

// TestFrameMemory: released frames come back without long buffers, and without what they held.
func TestFrameMemory(t *testing.T) {
	home := new(sync.Pool)
	for _, n := range []int{10, keptBuffer - HeaderSize, keptBuffer, 1 << 20} {
		f := &Frame{ID: 1, Code: 2, Payload: make([]byte, n), home: home}
		if f.Detach() != any(f) || len(f.Payload) != n || &f.Payload[0] != &f.data[HeaderSize] {
			t.Errorf("detached %d bytes: %d", n, len(f.Payload))
		}
		if p := &f.Payload[0]; f.Detach() != any(f) || p != &f.Payload[0] {
			t.Error("detached twice")
		}
		f.encodedError(1, &StatusError{Status: StatusBusy})
		f.Release()
		if kept := cap(f.data) > 0; kept != (n <= keptBuffer-HeaderSize) || f.Payload != nil || f.owned || f.out.Len() > 0 || f.ID != 0 {
			t.Errorf("%d bytes: %+v", n, f)
		}
	}
	(&Frame{}).Release() // of nobody
}

// An echo server, and a client that makes one call.
func Example() {
	pool, err := executor.NewFixed(executor.Options{Name: "work", Workers: 4, Queue: 100})
	if err != nil {
		fmt.Println(err)
		return
	}
	server, err := NewServer(Options{
		Pool:     pool,
		Ordering: responder.ByRequest,
		Handle: func(_ context.Context, req *Frame) ([]byte, error) {
			if req.Op() == Call {
				return bytes.ToUpper(req.Payload), nil
			}
			return nil, &StatusError{Status: StatusNotFound}
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	srv := &eddy.Server{Pools: []*executor.Pool{pool}}
	server.Configure(srv)
	if err := srv.Listen("tcp", "127.0.0.1:0"); err != nil {
		fmt.Println(err)
		return
	}
	defer srv.Close()

	done := make(chan struct{})
	client := &eddy.Dialer{Init: func(p *eddy.Pipeline) error {
		p.Add("frames", ResponseDecoder())
		return p.Add("print", eddy.Handle(func(_ *eddy.Context, f *Frame) error {
			defer f.Release()
			defer close(done)
			fmt.Printf("%d %v %s\n", f.ID, f.Status(), f.Payload)
			return nil
		}))
	}}
	defer client.Close()
	c, err := client.Dial(context.Background(), "tcp", srv.Addr().String())
	if err == nil {
		err = c.Write(AppendRequest(nil, 1, Call, []byte("hello")))
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	<-done
	// Output: 1 OK HELLO
}
