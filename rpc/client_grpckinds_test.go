package rpc

import (
	"context"
	"errors"
	"io"
	"iter"
	"strings"
	"testing"

	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/go-eddy/eddy/internal/testkit"
)

type word = wrapperspb.StringValue

// words returns a service that streams messages of protobuf.
func words(t testing.TB) *Service {
	return newService(t, "/test.Words:",
		ServerStream("Split", func(_ context.Context, req *word, out *Sender[word]) error {
			for w := range strings.FieldsSeq(req.Value) {
				if err := out.Send(wrapperspb.String(w)); err != nil {
					return err
				}
			}
			if req.Value == "" {
				return Statusf(CodeInvalidArgument, "nothing to split")
			}
			return nil
		}),
		ClientStream("Join", func(_ context.Context, in *Receiver[word]) (*word, error) {
			all := "all:"
			for w, err := range in.All() {
				if err != nil {
					return nil, err
				}
				if w.Value == "stop" {
					return nil, Statusf(CodeAborted, "stopped")
				}
				all += w.Value
			}
			return wrapperspb.String(all), nil
		}),
		BidiStream("Echo", func(_ context.Context, in *Receiver[word], out *Sender[word]) error {
			for w, err := range in.All() {
				if err != nil {
					return err
				}
				if err := out.Send(w); err != nil {
					return err
				}
			}
			return out.Send(wrapperspb.String("end"))
		}))
}

// joined returns the words of a stream and its error.
func joined(all iter.Seq2[*word, error]) string {
	var list []string
	for w, err := range all {
		if err != nil {
			return strings.Join(append(list, err.Error()), " ")
		}
		list = append(list, w.Value)
	}
	return strings.Join(list, " ")
}

// TestTypedStreams: the three kinds of calls that stream, with typed messages, and how they end.
func TestTypedStreams(t *testing.T) {
	svc := words(t)
	s := serve(t, newServer(t, ServerOptions{Ports: []PortOptions{{}}}), svc)
	cl, key, ctx := newGRPC(t, s, nil), svc.Key(), testkit.Context(t)
	for text, want := range map[string]string{"a b c": "a b c", "": "rpc: /test.Words: Split: BAD_REQUEST: nothing to split"} {
		down, err := OpenServerStream[word](ctx, cl, key, "Split", wrapperspb.String(text))
		if err != nil {
			t.Fatal(err)
		}
		if got := joined(down.All()); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	for _, given := range []string{"", "a", "abc"} {
		up, err := OpenClientStream[word, word](ctx, cl, key, "Join")
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range given {
			if err := up.Send(wrapperspb.String(string(r))); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := up.CloseAndRecv(); err != nil || got.Value != "all:"+given {
			t.Errorf("%v, %v, want %q", got, err, "all:"+given)
		}
	}
	for _, given := range []string{"", "x"} {
		both, err := OpenBidiStream[word, word](ctx, cl, key, "Echo")
		if err != nil {
			t.Fatal(err)
		}
		if given != "" {
			if err := both.Send(wrapperspb.String(given)); err != nil {
				t.Fatal(err)
			}
			if got, err := both.Recv(); err != nil || got.Value != given {
				t.Errorf("%v, %v", got, err)
			}
		}
		if err := both.CloseSend(); err != nil {
			t.Error(err)
		}
		if got := joined(both.All()); got != "end" {
			t.Errorf("%q", got)
		}
		both.Close()
	}
}

// TestTypedStreamsEnd: a server that ends a call before its client does, and a server that is not there.
func TestTypedStreamsEnd(t *testing.T) {
	svc := words(t)
	s := serve(t, newServer(t, ServerOptions{Ports: []PortOptions{{}}}), svc)
	cl, key, ctx := newGRPC(t, s, nil), svc.Key(), testkit.Context(t)
	stopped, err := OpenClientStream[word, word](ctx, cl, key, "Join")
	if err != nil {
		t.Fatal(err)
	}
	for err = nil; err != io.EOF; err = stopped.Send(wrapperspb.String("stop")) {
		if err != nil {
			t.Fatal(err)
		}
	}
	if got, err := stopped.CloseAndRecv(); !errors.Is(err, ErrApp) || !strings.Contains(err.Error(), "stopped") {
		t.Errorf("%v, %v", got, err)
	}
	gone := newGRPC(t, s, func(o *GRPCOptions) { o.Targets = []string{"http://127.0.0.1:1"} })
	down, err := OpenServerStream[word](ctx, gone, key, "Split", wrapperspb.String("a"))
	if err == nil {
		_, err = down.Recv()
	}
	if e, ok := errors.AsType[*Error](err); !ok || !errors.Is(err, ErrConnection) || e.Executed != ExecutedNo || strings.Count(err.Error(), "Split") != 1 {
		t.Errorf("a server that is not there: %v", err)
	}
}

// TestTypedStreamsRefuse: calls that cannot be, and calls that are given up.
func TestTypedStreamsRefuse(t *testing.T) {
	svc := words(t)
	s := serve(t, newServer(t, ServerOptions{Ports: []PortOptions{{}}}), svc)
	key, ctx := svc.Key(), testkit.Context(t)
	open := func(cl Caller, key Key) map[string]error {
		_, down := OpenServerStream[word](ctx, cl, key, "Split", wrapperspb.String("a"))
		_, up := OpenClientStream[word, word](ctx, cl, key, "Join")
		_, both := OpenBidiStream[word, word](ctx, cl, key, "Echo")
		return map[string]error{"Split": down, "Join": up, "Echo": both}
	}
	framed := client(t, ClientOptions{Codec: CodecProtobuf}, s.Addr("port0").String())
	for method, err := range open(framed, key) {
		if e, ok := errors.AsType[*Error](err); !ok || !errors.Is(err, ErrNoStreams) || e.Executed != ExecutedNo || e.Method != method {
			t.Errorf("%s by the frame protocol: %v", method, err)
		}
	}
	cl := newGRPC(t, s, nil)
	for method, err := range open(cl, Key{}) {
		if err == nil || !strings.Contains(err.Error(), "the interface is empty") {
			t.Errorf("%s without a key: %v", method, err)
		}
	}
	if _, err := OpenServerStream[word](ctx, cl, key, "Split", make(chan int)); !errors.Is(err, ErrBadRequest) {
		t.Errorf("a request without an encoding: %v", err)
	}
	up, err := OpenClientStream[word, word](ctx, cl, key, "Split") // two responses where one is wanted
	if err != nil {
		t.Fatal(err)
	}
	if err := up.Send(wrapperspb.String("a b")); err != nil {
		t.Fatal(err)
	}
	if _, err := up.CloseAndRecv(); !errors.Is(err, ErrProtocol) {
		t.Errorf("two responses: %v", err)
	}
	both, err := OpenBidiStream[word, word](ctx, cl, key, "Echo")
	if err != nil {
		t.Fatal(err)
	}
	if err := both.Send(wrapperspb.String("x")); err != nil {
		t.Fatal(err)
	}
	both.Close()
	if _, err := both.Recv(); !errors.Is(err, ErrCanceled) {
		t.Errorf("a call that was given up: %v", err)
	}
	given, err := OpenClientStream[word, word](ctx, cl, key, "Join")
	if err != nil {
		t.Fatal(err)
	}
	given.Close()
	if _, err := given.CloseAndRecv(); !errors.Is(err, ErrCanceled) {
		t.Errorf("a call that was given up before it began: %v", err)
	}
	testkit.Eventually(t, "nothing in flight", func() bool { return s.Stats().Services[key].InFlight == 0 })
}

// lateHook is a context that never runs what waits for its end.
type lateHook struct{ context.Context }

// AfterFunc is what context.AfterFunc calls.
func (lateHook) AfterFunc(func()) (stop func() bool) { return func() bool { return true } }

// TestGRPCStreamEndsWithContext: a stream does nothing more once its context has ended, no matter when the hook of the
// context runs.
func TestGRPCStreamEndsWithContext(t *testing.T) {
	s := serve(t, newServer(t, ServerOptions{Ports: []PortOptions{{}}}), streams(t))
	cl, key := newGRPC(t, s, nil), Key{Interface: "test.Streams"}
	open := func() (*CallStream, context.CancelFunc) {
		t.Helper()
		ctx, cancel := context.WithCancel(testkit.Context(t))
		st, err := OpenStream(lateHook{ctx}, cl, key, "Sum")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(st.Close)
		if err := st.Send(&greeting{"a", 1}); err != nil {
			t.Fatal(err)
		}
		return st, cancel
	}
	st, cancel := open()
	cancel()
	if err := st.CloseSend(); !errors.Is(err, context.Canceled) {
		t.Errorf("CloseSend: %v", err)
	}
	if err := st.Recv(new(greeting)); !errors.Is(err, context.Canceled) {
		t.Errorf("Recv: %v", err)
	}
	st, cancel = open()
	cancel()
	if err := st.Send(&greeting{"b", 2}); !errors.Is(err, context.Canceled) {
		t.Errorf("Send: %v", err)
	}
}
