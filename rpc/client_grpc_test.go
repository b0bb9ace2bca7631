package rpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/go-eddy/eddy/codec/frame"
	"github.com/go-eddy/eddy/http2"
	"github.com/go-eddy/eddy/internal/testkit"
)

// newGRPC returns a client of the server's first port.
func newGRPC(t testing.TB, s *Server, change func(*GRPCOptions)) *GRPCClient {
	t.Helper()
	o := GRPCOptions{Targets: []string{"http://" + s.Addr("port0").String()}, Timeout: testkit.Patience}
	if change != nil {
		change(&o)
	}
	cl, err := NewGRPCClient(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cl.Close(); err != nil {
			t.Error(err)
		}
	})
	return cl
}

// TestGRPCClient: calls of every codec, plain and compressed, and what becomes of errors.
func TestGRPCClient(t *testing.T) {
	s := serve(t, newServer(t, ServerOptions{Ports: []PortOptions{{}}}), greeter(t, "g/test:1"), newService(t, "/fails:",
		Raw("Details", func(ctx context.Context, _ []byte) ([]byte, error) {
			_ = SetTrailer(ctx, Pair{"x-late", "2"})
			return nil, &Status{Code: CodeNotFound, Message: "no ü", RetryAfter: time.Second}
		})))
	key := Key{"g", "test", "1"}
	for _, zip := range []bool{false, true} {
		cl := newGRPC(t, s, func(o *GRPCOptions) { o.Gzip = zip })
		ctx := testkit.Context(t)
		if got, err := Invoke[greeting](ctx, cl, key, "Hello", &greeting{Name: "Ann", Times: 1}); err != nil || *got != (greeting{"Hello, Ann", 2}) {
			t.Errorf("JSON: %v, %v", got, err)
		}
		if got, err := Invoke[wrapperspb.StringValue](ctx, cl, key, "Proto", wrapperspb.String("abc")); err != nil || got.Value != "ABC" {
			t.Errorf("protobuf: %v, %v", got, err)
		}
		if got, err := Invoke[wrapperspb.StringValue](ctx, cl, key, "Proto", wrapperspb.String("abc"), CallCodec(CodecJSON)); err != nil || got.Value != "ABC" {
			t.Errorf("protobuf as JSON: %v, %v", got, err)
		}
		big := strings.Repeat("x", 400_000)
		if got, err := Invoke[[]byte](ctx, cl, key, "Echo", []byte(big)); err != nil || string(*got) != big {
			t.Errorf("raw: %v", err)
		}
		for _, x := range []struct {
			key    Key
			method string
			kind   error
			text   string
		}{
			{key, "Hello", ErrApp, "nobody is there"},
			{key, "hello", ErrNotFound, "no method /test/hello"},
			{key, "Status", ErrUnauthenticated, "who are you"},
			{key, "Late", context.DeadlineExceeded, "asking another server: context deadline exceeded"},
			{Key{Interface: "fails"}, "Details", ErrApp, "no ü"},
		} {
			var trailer Metadata
			_, err := Invoke[greeting](ctx, cl, x.key, x.method, &greeting{}, CallTrailer(&trailer))
			e, ok := errors.AsType[*Error](err)
			if !ok || !errors.Is(err, x.kind) || e.Message != x.text {
				t.Errorf("%s: %v", x.method, err)
				continue
			}
			if st, ok := errors.AsType[*Status](err); !ok || st.Code == CodeOK {
				t.Errorf("%s: %v has no status", x.method, err)
			}
			if late, _ := trailer.Get("x-late"); x.method == "Details" && (late != "2" || e.RetryAfter != time.Second) {
				t.Errorf("trailer %v, %+v", trailer, e)
			}
		}
	}
}

// TestGRPCClientRefuses: what cannot be sent is told at once, with what is wrong.
func TestGRPCClientRefuses(t *testing.T) {
	for _, x := range []struct {
		o    GRPCOptions
		text string
	}{
		{GRPCOptions{}, "GRPCOptions.Targets is empty"},
		{GRPCOptions{Targets: []string{"127.0.0.1:1"}}, `GRPCOptions.Targets has "127.0.0.1:1": want http://host:port or https://host:port`},
		{GRPCOptions{Targets: []string{"http://a/b"}}, `GRPCOptions.Targets has "http://a/b"`},
		{GRPCOptions{Targets: []string{"http://a"}, Codec: 9}, "GRPCOptions.Codec is 9"},
		{GRPCOptions{Targets: []string{"http://a"}, MaxPayload: -1}, "GRPCOptions.MaxPayload is -1"},
	} {
		if _, err := NewGRPCClient(x.o); err == nil || !strings.Contains(err.Error(), x.text) {
			t.Errorf("%v, want %q", err, x.text)
		}
	}
	s := serve(t, newServer(t, ServerOptions{Ports: []PortOptions{{}}}), greeter(t, "/test:"), streams(t))
	cl := newGRPC(t, s, func(o *GRPCOptions) { o.MaxPayload = 1000 })
	key := Key{Interface: "test"}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for what, call := range map[string]struct {
		ctx  context.Context
		key  Key
		req  any
		opts []CallOption
		text string
	}{
		"too large":   {t.Context(), key, make([]byte, 1001), nil, "a message of 1001 bytes, limit 1000"},
		"no JSON":     {t.Context(), key, make(chan int), nil, "as JSON"},
		"a key":       {t.Context(), Key{}, nil, nil, "the interface is empty"},
		"metadata":    {t.Context(), key, nil, []CallOption{CallMetadata(Pair{"grpc-x", ""})}, "belongs to the protocol"},
		"given up":    {ctx, key, nil, nil, "cancelled"},
		"its time":    {t.Context(), key, nil, []CallOption{CallTimeout(1)}, "deadline exceeded"},
		"large reply": {t.Context(), Key{Interface: "test.Streams"}, nil, nil, "has sent no message"},
	} {
		method := "Echo"
		if what == "large reply" {
			method = "Count"
		}
		_, err := Invoke[greeting](call.ctx, cl, call.key, method, call.req, call.opts...)
		if e, ok := errors.AsType[*Error](err); what != "large reply" && (!ok || !strings.Contains(err.Error(), call.text) || what != "its time" && e.Executed != ExecutedNo) {
			t.Errorf("%s: %v, want %q", what, err, call.text)
		}
	}
	if _, err := Invoke[[]byte](t.Context(), newGRPC(t, s, func(o *GRPCOptions) { o.MaxPayload = 100 }), key, "Echo", make([]byte, 50)); err != nil {
		t.Error(err)
	}
	down := newGRPC(t, s, func(o *GRPCOptions) { o.Targets = append([]string{"http://127.0.0.1:1"}, o.Targets...) })
	for range 4 { // the second target answers for the first one
		if _, err := Invoke[[]byte](t.Context(), down, key, "Echo", []byte("x")); err != nil {
			t.Error(err)
		}
	}
	gone := newGRPC(t, s, func(o *GRPCOptions) { o.Targets = []string{"http://127.0.0.1:1"} })
	_, err := Invoke[[]byte](t.Context(), gone, key, "Echo", []byte("x"))
	if e, ok := errors.AsType[*Error](err); !ok || !errors.Is(err, ErrConnection) || e.Executed != ExecutedNo {
		t.Errorf("a server that is not there: %v", err)
	}
	if err := gone.Close(); err != nil {
		t.Error(err)
	}
	if _, err := Invoke[[]byte](t.Context(), gone, key, "Echo", []byte("x")); !errors.Is(err, ErrClosed) {
		t.Errorf("a closed client: %v", err)
	}
}

// TestGRPCClientStreams: every kind of stream, and how it ends.
func TestGRPCClientStreams(t *testing.T) {
	s := serve(t, newServer(t, ServerOptions{Ports: []PortOptions{{}}}), streams(t), newService(t, "/test:",
		BidiStream("Stop", func(context.Context, *Receiver[greeting], *Sender[greeting]) error {
			return Statusf(CodeAborted, "enough")
		})))
	cl, key := newGRPC(t, s, nil), Key{Interface: "test.Streams"}
	open := func(method string, opts ...CallOption) *CallStream {
		t.Helper()
		st, err := OpenStream(testkit.Context(t), cl, key, method, opts...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(st.Close)
		return st
	}
	send := func(st *CallStream, msgs ...greeting) {
		t.Helper()
		for _, m := range msgs {
			if err := SenderOf[greeting](st).Send(&m); err != nil {
				t.Fatal(err)
			}
		}
	}
	collect := func(st *CallStream) string {
		var b strings.Builder
		for g, err := range ReceiverOf[greeting](st).All() {
			if err != nil {
				return b.String() + err.Error()
			}
			fmt.Fprintf(&b, "%s%d ", g.Name, g.Times)
		}
		return b.String()
	}
	down := open("Count")
	send(down, greeting{"a", 3})
	down.CloseSend()
	if got := collect(down); got != "a0 a1 a2 " {
		t.Errorf("%q", got)
	}
	fails := open("Count")
	send(fails, greeting{"fail", 1})
	fails.CloseSend()
	if got := collect(fails); got != "fail0 rpc: /test.Streams: Count: APP_ERROR: after 1" {
		t.Errorf("%q", got)
	}
	up := open("Sum")
	send(up, greeting{"a", 1}, greeting{"b", 2})
	up.CloseSend()
	if got := collect(up); got != "ab3 " {
		t.Errorf("%q", got)
	}
	both := open("Echo")
	for i := range 3 {
		send(both, greeting{"x", i})
		if g, err := ReceiverOf[greeting](both).Recv(); err != nil || g.Times != i {
			t.Fatalf("%v, %v", g, err)
		}
	}
	both.CloseSend()
	if err := both.Recv(new(greeting)); err != io.EOF {
		t.Errorf("%v", err)
	}
	key = Key{Interface: "test"}
	stop := open("Stop")
	if err := stop.Send(&greeting{"x", 1}); err != nil && err != io.EOF { // the method may have returned
		t.Error(err)
	}
	if err := stop.Recv(new(greeting)); !errors.Is(err, ErrApp) {
		t.Errorf("%v", err)
	}
	for err := error(nil); err != io.EOF; err = stop.Send(&greeting{}) {
	}
	key = Key{Interface: "nobody"}
	if got := collect(open("Echo")); !strings.Contains(got, "NOT_FOUND: no method /nobody/Echo") {
		t.Errorf("%q", got)
	}
	key = Key{Interface: "test.Streams"}
	given := open("Echo", CallTimeout(time.Hour))
	send(given, greeting{"x", 1})
	given.Close()
	if err := given.Recv(new(greeting)); !errors.Is(err, ErrCanceled) {
		t.Errorf("%v", err)
	}
	testkit.Eventually(t, "nothing in flight", func() bool { return s.Stats().Services[key].InFlight == 0 })
	if st, err := OpenStream(t.Context(), cl, Key{}, "x"); err == nil {
		t.Errorf("%v", st)
	}
}

// TestGRPCClientInterceptors: they see calls, change their metadata, and may answer.
func TestGRPCClientInterceptors(t *testing.T) {
	svc := newService(t, "/test:", Raw("Show", func(ctx context.Context, _ []byte) ([]byte, error) {
		v, _ := CallFrom(ctx).Metadata.Get("x-token")
		return []byte(v), nil
	}))
	s := serve(t, newServer(t, ServerOptions{Ports: []PortOptions{{}}}), svc)
	cl := newGRPC(t, s, func(o *GRPCOptions) {
		o.Interceptors = []Interceptor{func(ctx context.Context, call *CallInfo, req any, next func(ctx context.Context, req any) (any, error)) (any, error) {
			switch call.Method {
			case "Own":
				return text("own"), nil
			case "Wrong":
				return 1, nil
			}
			call.Metadata = append(call.Metadata, Pair{"x-token", "t"})
			return next(ctx, req)
		}}
	})
	for method, want := range map[string]string{"Show": "t", "Own": "own"} {
		if got, err := Invoke[[]byte](testkit.Context(t), cl, svc.Key(), method, []byte("")); err != nil || string(*got) != want {
			t.Errorf("%s: %v", method, err)
		}
	}
	if _, err := Invoke[[]byte](testkit.Context(t), cl, svc.Key(), "Wrong", nil); !errors.Is(err, ErrResponse) {
		t.Errorf("%v", err)
	}
}

// TestGRPCClientBusy: a server without room is ErrBusy, with its advice.
func TestGRPCClientBusy(t *testing.T) {
	entered, release := make(chan struct{}, 1), make(chan struct{})
	svc := newService(t, "/test:", Raw("Hold", func(context.Context, []byte) ([]byte, error) {
		entered <- struct{}{}
		<-release
		return nil, nil
	}))
	s := serve(t, newServer(t, ServerOptions{RetryAfter: 70 * time.Millisecond, Ports: []PortOptions{{Pool: PoolOptions{Threads: 1}}}}), svc)
	cl := newGRPC(t, s, nil)
	held := make(chan error, 1)
	go func() {
		_, err := Invoke[[]byte](testkit.Context(t), cl, svc.Key(), "Hold", []byte(""))
		held <- err
	}()
	testkit.Receive(t, "the call", entered)
	_, err := Invoke[[]byte](testkit.Context(t), cl, svc.Key(), "Hold", []byte(""))
	if e, ok := errors.AsType[*Error](err); !ok || !errors.Is(err, ErrBusy) || e.RetryAfter != 70*time.Millisecond || e.Status != frame.StatusBusy {
		t.Errorf("%v", err)
	}
	close(release)
	if err := testkit.Receive(t, "the first call", held); err != nil {
		t.Error(err)
	}
}

// TestGRPCDescribe: what the reflection of a server says, of its services and of their messages.
func TestGRPCDescribe(t *testing.T) {
	s := serve(t, newServer(t, ServerOptions{Ports: []PortOptions{{}}}), newService(t, "/test.Greeter:",
		Unary("Proto", func(_ context.Context, req *wrapperspb.StringValue) (*wrapperspb.StringValue, error) { return req, nil })))
	cl := newGRPC(t, s, nil)
	list, err := DescribeAll(testkit.Context(t), cl)
	if err != nil || !strings.Contains(strings.Join(list, " "), "test.Greeter") {
		t.Errorf("%v, %v", list, err)
	}
	svc, err := Describe(testkit.Context(t), cl, "test.Greeter")
	if err != nil {
		t.Fatal(err)
	}
	m := svc.Methods().ByName("Proto")
	if m == nil || m.Input().FullName() != "google.protobuf.StringValue" || m.Input().Fields().Len() != 1 {
		t.Errorf("%v", m)
	}
	if _, err := Describe(testkit.Context(t), cl, "nobody"); !errors.Is(err, ErrNotFound) {
		t.Errorf("%v", err)
	}
	if _, err := Describe(testkit.Context(t), cl, "google.protobuf.StringValue"); !errors.Is(err, ErrNotFound) {
		t.Errorf("%v", err)
	}
}

// TestGRPCClientRaw: messages that are bytes stay as they were when the next ones have come.
func TestGRPCClientRaw(t *testing.T) {
	s := serve(t, newServer(t, ServerOptions{Ports: []PortOptions{{}}}), newService(t, "/test:",
		Streaming("Three", ServerStreams, func(_ context.Context, s Stream) error {
			for _, text := range []string{"1", "2", "3"} {
				if err := s.Send([]byte(strings.Repeat(text, 3000))); err != nil {
					return err
				}
			}
			return nil
		})))
	st, err := OpenStream(testkit.Context(t), newGRPC(t, s, nil), Key{Interface: "test"}, "Three")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(st.Close)
	if err := st.CloseSend(); err != nil {
		t.Fatal(err)
	}
	var kept [][]byte
	for {
		var b []byte
		if err := st.Recv(&b); err != nil {
			break
		}
		kept = append(kept, b)
	}
	if len(kept) != 3 {
		t.Fatalf("%d messages", len(kept))
	}
	for i, b := range kept {
		if want := strings.Repeat(string(rune('1'+i)), 3000); string(b) != want {
			t.Errorf("message %d is %.20q", i+1, b)
		}
	}
}

// TestCodeOf: every error of a call has a code, whatever client has made it.
func TestCodeOf(t *testing.T) {
	wrap := func(e *Error) error { return fmt.Errorf("around: %w", e) }
	for _, c := range []struct {
		err  error
		code Code
	}{
		{nil, CodeOK}, {errors.New("mine"), CodeUnknown}, {Statusf(CodeDataLoss, "lost"), CodeDataLoss}, {&Status{}, CodeUnknown},
		{wrap(&Error{Status: frame.StatusAppError, Err: Statusf(CodeNotFound, "no")}), CodeNotFound},
		{wrap(&Error{Status: frame.StatusAppError}), CodeUnknown}, {wrap(&Error{Status: frame.StatusBusy}), CodeResourceExhausted},
		{wrap(&Error{Status: frame.StatusTooLarge}), CodeResourceExhausted}, {wrap(&Error{Status: frame.StatusDeadlineExceeded}), CodeDeadlineExceeded},
		{wrap(&Error{Status: frame.StatusCanceled}), CodeCanceled}, {wrap(&Error{Status: frame.StatusUnavailable}), CodeUnavailable},
		{wrap(&Error{Status: frame.StatusNotFound}), CodeUnimplemented}, {wrap(&Error{Status: frame.StatusBadRequest}), CodeInvalidArgument},
		{wrap(&Error{Status: frame.StatusInternal}), CodeInternal}, {wrap(&Error{Status: frame.StatusUnauthenticated}), CodeUnauthenticated},
		{wrap(&Error{Status: frame.StatusProtocolError}), CodeInternal}, {wrap(&Error{Err: errDeadline}), CodeDeadlineExceeded},
		{wrap(&Error{Err: errClosed}), CodeUnavailable}, {wrap(&Error{Err: errNoAddress}), CodeUnavailable}, {context.Canceled, CodeCanceled},
	} {
		if got := CodeOf(c.err); got != c.code {
			t.Errorf("%v: %v, want %v", c.err, got, c.code)
		}
	}
}

// TestGRPCClientDetails: a client has the details of a status as messages; one whose type the program lacks stays an Any, and a method may pass on all.
func TestGRPCClientDetails(t *testing.T) {
	lacks := &anypb.Any{TypeUrl: "type.googleapis.com/nobody.Knows", Value: []byte{8, 1}}
	first := serve(t, newServer(t, ServerOptions{Ports: []PortOptions{{}}}), newService(t, "/test:", Raw("Fail", func(context.Context, []byte) ([]byte, error) {
		return nil, &Status{Code: CodeAborted, Message: "m", Details: []proto.Message{wrapperspb.String("more"), lacks}}
	})))
	cl := newGRPC(t, first, nil)
	key := Key{Interface: "test"}
	second := serve(t, newServer(t, ServerOptions{Ports: []PortOptions{{}}}), newService(t, "/test:", Raw("Fail", func(ctx context.Context, b []byte) ([]byte, error) {
		_, err := Invoke[[]byte](ctx, cl, key, "Fail", b)
		return nil, err
	})))
	for _, from := range []*GRPCClient{cl, newGRPC(t, second, nil)} {
		_, err := Invoke[[]byte](testkit.Context(t), from, key, "Fail", []byte{})
		s, ok := errors.AsType[*Status](err)
		if !ok || len(s.Details) != 2 || !proto.Equal(s.Details[0], wrapperspb.String("more")) || !proto.Equal(s.Details[1], lacks) {
			t.Errorf("%v %v", err, s)
		}
	}
}

// lateContext is a context whose deadline has passed, and whose timer has not fired yet.
type lateContext struct{ context.Context }

func (lateContext) Deadline() (time.Time, bool) { return time.Now(), true }

// TestGRPCClientDeadlineOfServer: a server that ends a call at its deadline, a moment before the client does, has not
// cancelled it.
func TestGRPCClientDeadlineOfServer(t *testing.T) {
	reset := func(remote bool) error {
		return fmt.Errorf("around: %w", &http2.StreamError{Stream: 1, Code: http2.CodeCancel, Remote: remote})
	}
	late, plain := lateContext{context.Background()}, context.Background()
	for _, c := range []struct {
		ctx    context.Context
		remote bool
		begun  Code
		code   Code
	}{{late, true, CodeDeadlineExceeded, CodeDeadlineExceeded}, {late, false, CodeUnavailable, CodeUnavailable}, {plain, true, CodeCanceled, CodeCanceled}} {
		by, _ := c.ctx.Deadline()
		if err := (&grpcInput{ctx: c.ctx, by: by, e: &Error{}, messages: &grpcUnary{}}).lost(reset(c.remote)); CodeOf(err) != c.code {
			t.Errorf("before the response: %v", err)
		}
		if err := (&grpcInput{ctx: c.ctx, by: by, e: &Error{}}).reset(reset(c.remote)); CodeOf(err) != c.begun {
			t.Errorf("inside the response: %v", err)
		}
	}
}

// TestGRPCClientPings: the client's own Transport asks a silent server no more often than servers of gRPC permit.
func TestGRPCClientPings(t *testing.T) {
	cl, err := NewGRPCClient(GRPCOptions{Targets: []string{"http://127.0.0.1:1"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cl.Close() })
	if every := cl.o.Transport.PingInterval; every <= 5*time.Minute {
		t.Errorf("a PING after %v", every)
	}
}

// TestGRPCClientResets: the code of a server's reset is the code of the call, before the response and inside.
func TestGRPCClientResets(t *testing.T) {
	for reset, want := range map[http2.ErrCode]Code{
		http2.CodeNo: CodeInternal, http2.CodeProtocol: CodeInternal, http2.CodeInternal: CodeInternal, http2.CodeRefusedStream: CodeUnavailable,
		http2.CodeCancel: CodeCanceled, http2.CodeEnhanceYourCalm: CodeResourceExhausted, http2.CodeInadequate: CodePermissionDenied,
	} {
		cause := &http2.StreamError{Stream: 1, Code: reset, Remote: true}
		for _, err := range []error{
			(&grpcInput{ctx: t.Context(), e: &Error{}, messages: &grpcUnary{}}).lost(cause),
			(&grpcInput{ctx: t.Context(), e: &Error{}}).reset(cause),
		} {
			if CodeOf(err) != want || !errors.Is(err, cause) {
				t.Errorf("%v: %v, %v", reset, err, CodeOf(err))
			}
		}
	}
}

// TestGRPCSubtype: a call whose encoding only its ends know comes to a method that is given bytes, and is answered by the
// same name. A method of another kind takes none of it.
func TestGRPCSubtype(t *testing.T) {
	s := serve(t, newServer(t, ServerOptions{Ports: []PortOptions{{}}}), greeter(t, "/test:"), newService(t, "/raw:",
		Raw("Codec", func(ctx context.Context, b []byte) ([]byte, error) {
			return fmt.Appendf(nil, "%v %s", CallFrom(ctx).Codec, b), nil
		})))
	cl := newGRPC(t, s, nil)
	resp, err := Invoke[[]byte](testkit.Context(t), cl, Key{Interface: "raw"}, "Codec", []byte("x"), CallSubtype("hessian2"))
	if err != nil || string(*resp) != "raw x" {
		t.Errorf("%v, %v", resp, err)
	}
	if _, err := Invoke[[]byte](testkit.Context(t), cl, Key{Interface: "test"}, "Hello", []byte("x"), CallSubtype("hessian2")); err == nil || !strings.Contains(err.Error(), "415") {
		t.Errorf("a method that takes none: %v", err)
	}
	if _, err := Invoke[greeting](testkit.Context(t), cl, Key{Interface: "raw"}, "Codec", &greeting{}, CallSubtype("hessian2")); err == nil || !strings.Contains(err.Error(), "is a []byte, not a *rpc.greeting") {
		t.Errorf("a message that is no bytes: %v", err)
	}
	p := dialGRPC(t, s.Addr("port0"))
	answer, err := p.http.Do(p.request(context.Background(), "/raw/Codec", strings.NewReader("\x00\x00\x00\x00\x01x"), "Content-Type", "application/grpc+hessian2"))
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if kind := answer.Header.Get("Content-Type"); answer.StatusCode != 200 || kind != "application/grpc+hessian2" {
		t.Errorf("%s, %s", answer.Status, kind)
	}
}

// TestGRPCSpaces: messages of a status and metadata that begin or end with a space arrive, though no field of HTTP/2 may.
func TestGRPCSpaces(t *testing.T) {
	s := serve(t, newServer(t, ServerOptions{Ports: []PortOptions{{}}}), newService(t, "/test:",
		Raw("Fail", func(ctx context.Context, b []byte) ([]byte, error) {
			v, _ := CallFrom(ctx).Metadata.Get("x-space")
			if err := SetTrailer(ctx, Pair{"x-back", " " + v + " "}); err != nil {
				return nil, err
			}
			return nil, Statusf(CodeNotFound, "%s", b)
		})))
	cl := newGRPC(t, s, nil)
	for _, text := range []string{" a", "a ", " ", "\ta\t", "%20 ", "a\n"} {
		var trailer Metadata
		_, err := Invoke[[]byte](testkit.Context(t), cl, Key{Interface: "test"}, "Fail", []byte(text), CallMetadata(Pair{"x-space", " a b "}), CallTrailer(&trailer))
		if st, ok := errors.AsType[*Status](err); !ok || st.Code != CodeNotFound || st.Message != text {
			t.Errorf("%q: %v", text, err)
		}
		if v, _ := trailer.Get("x-back"); v != "a b" {
			t.Errorf("metadata came back as %q", v)
		}
	}
}
