package rpc

import (
	"context"
	"errors"
	"io"
	"maps"
	"slices"
	"strconv"
	"testing"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/internal/goid"
	"github.com/go-eddy/eddy/internal/testkit"
)

// TestStreamMessagesAreCodedOnWorkers: the messages of streams of every kind are decoded and encoded on the server's worker and by the client's caller, on no loop.
func TestStreamMessagesAreCodedOnWorkers(t *testing.T) {
	const messages = 3
	b := newBook(t)
	me := goid.Current()
	b.knows("caller", func() bool { return goid.Current() == me })
	loops := &eddy.Group{Loops: 1, Logger: quiet}
	defer loops.Close()
	b.knows("loop", loops.In)
	pool, err := executor.NewFixed(executor.Options{Workers: 4})
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	b.knows("worker", pool.OnWorker)
	say := func(what string, n int) *tellBody { return &tellBody{what + strconv.Itoa(n)} }
	svc, err := NewService(probeKey,
		ServerStream("Down", func(_ context.Context, req *askBody, out *Sender[tellBody]) error {
			for n := range messages {
				if err := out.Send(say(req.Call, n)); err != nil {
					return err
				}
			}
			return nil
		}),
		BidiStream("Both", func(_ context.Context, in *Receiver[askBody], out *Sender[tellBody]) error {
			for n := 0; ; n++ {
				req, err := in.Recv()
				if errors.Is(err, io.EOF) {
					return nil
				}
				if err == nil {
					err = out.Send(say(req.Call, n))
				}
				if err != nil {
					return err
				}
			}
		}))
	if err != nil {
		t.Fatal(err)
	}
	srv, err := NewServer(ServerOptions{Logger: quiet, Isolation: PerService, Ports: []PortOptions{{Name: "port0", Addr: "127.0.0.1:0", Group: loops}}})
	if err != nil {
		t.Fatal(err)
	}
	defer srv.Close()
	if err := srv.Register(svc, WithPool(pool)); err != nil {
		t.Fatal(err)
	}
	if err := srv.Listen(); err != nil {
		t.Fatal(err)
	}
	cl := newGRPC(t, srv, nil)
	ctx, want := testkit.Context(t), map[string]string{}
	down, err := OpenServerStream[tellBody](ctx, cl, probeKey, "Down", &askBody{"down"}, CallCodec(CodecJSON))
	if err != nil {
		t.Fatal(err)
	}
	want["down: encode request"], want["down: decode request"] = "caller", "worker"
	both, err := OpenBidiStream[askBody, tellBody](ctx, cl, probeKey, "Both", CallCodec(CodecJSON))
	if err != nil {
		t.Fatal(err)
	}
	for n := range messages {
		if err := both.Send(&askBody{"both"}); err != nil {
			t.Fatal(err)
		}
		for what, recv := range map[string]func() (*tellBody, error){"down": down.Recv, "both": both.Recv} {
			what += strconv.Itoa(n)
			if got, err := recv(); err != nil || got.Call != what {
				t.Fatalf("%v, %v, want %s", got, err, what)
			}
			want[what+": encode response"], want[what+": decode response"] = "worker", "caller"
		}
	}
	want["both: encode request"], want["both: decode request"] = "caller", "worker"
	both.Close()
	for what, where := range b.all() {
		if want[what] != where {
			t.Errorf("%s on %q, want %q", what, where, want[what])
		}
		delete(want, what)
	}
	if len(want) > 0 {
		t.Errorf("not seen: %q", slices.Sorted(maps.Keys(want)))
	}
}
