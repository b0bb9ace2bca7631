package rpc

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/go-eddy/eddy/codec/frame"
	"github.com/go-eddy/eddy/internal/testkit"
)

// streams is a service with a method of each kind of stream.
func streams(t testing.TB) *Service {
	return newService(t, "/test.Streams:",
		ServerStream("Count", func(_ context.Context, req *greeting, out *Sender[greeting]) error {
			for i := range req.Times {
				if err := out.Send(&greeting{Name: req.Name, Times: i}); err != nil {
					return err
				}
			}
			if req.Name == "fail" {
				return Statusf(CodeAborted, "after %d", req.Times)
			}
			return nil
		}),
		ClientStream("Sum", func(_ context.Context, in *Receiver[greeting]) (*greeting, error) {
			sum := new(greeting)
			for g, err := range in.All() {
				if err != nil {
					return nil, err
				}
				sum.Name += g.Name
				sum.Times += g.Times
			}
			if sum.Name == "nil" {
				return nil, nil
			}
			return sum, nil
		}),
		BidiStream("Echo", func(_ context.Context, in *Receiver[greeting], out *Sender[greeting]) error {
			for g, err := range in.All() {
				if err != nil {
					return err
				}
				if err := out.Send(g); err != nil {
					return err
				}
			}
			return nil
		}),
	)
}

// TestGRPCCalls: what calls by gRPC are answered, on a pool and on the loop, beside the frame protocol on the same port.
func TestGRPCCalls(t *testing.T) {
	pb, err := proto.Marshal(wrapperspb.String("abc"))
	if err != nil {
		t.Fatal(err)
	}
	big := strings.Repeat("x", 300_000)
	const protobuf, raw = "application/grpc+proto", "application/grpc+raw"
	for _, d := range []Dispatcher{DispatchAll, DispatchDirect, DispatchMessage, DispatchExecution, DispatchConnection} {
		t.Run(d.String(), func(t *testing.T) {
			s := serve(t, newServer(t, ServerOptions{Ports: []PortOptions{{Dispatcher: d}}}), greeter(t, "/test:"), streams(t))
			p := dialGRPC(t, s.Addr("port0"))
			answered := map[Code]uint64{}
			for _, call := range []struct {
				what, path, kind string
				in               []string
				out              []string
				status           string
				code             Code
			}{
				{"JSON", "/test/Hello", "", []string{`{"name":"Ann","times":1}`}, []string{`{"name":"Hello, Ann","times":2}`}, "0", CodeOK},
				{"an error", "/test/Hello", "", []string{`{}`}, nil, "2 nobody is there", CodeUnknown},
				{"no JSON", "/test/Hello", "", []string{`{`}, nil, "3 rpc: a body that is no JSON for *rpc.greeting: unexpected end of JSON input", CodeInvalidArgument},
				{"nil", "/test/Nil", "", []string{`{}`}, nil, "13 the method returned nil and no error", CodeInternal},
				{"protobuf", "/test/Proto", "application/grpc", []string{string(pb)}, []string{"\x0a\x03ABC"}, "0", CodeOK},
				{"protobuf, by name", "/test/Proto", protobuf, []string{string(pb)}, []string{"\x0a\x03ABC"}, "0", CodeOK},
				{"protobuf as JSON", "/test/Proto", "", []string{`"abc"`}, []string{`"ABC"`}, "0", CodeOK},
				{"raw", "/test/Echo", raw, []string{"abc"}, []string{"abc"}, "0", CodeOK},
				{"raw, big", "/test/Echo", raw, []string{big}, []string{big}, "0", CodeOK},
				{"raw, empty", "/test/Echo", raw, []string{""}, []string{""}, "0", CodeOK},
				{"protobuf for JSON", "/test/Hello", protobuf, []string{""}, nil, "12 method /test/Hello takes no protobuf", CodeUnimplemented},
				{"no message", "/test/Echo", "", nil, nil, "12 method Echo takes one message, and there is none", CodeUnimplemented},
				{"two messages", "/test/Echo", "", []string{"a", "b"}, nil, "12 method Echo takes one message", CodeUnimplemented},
				{"no service", "/tost/Echo", "", []string{""}, nil, "12 no method /tost/Echo", CodeUnimplemented},
				{"no method", "/test/echo", "", []string{""}, nil, "12 no method /test/echo", CodeUnimplemented},
				{"a status", "/test/Status", "", []string{""}, nil, "16 who are you", CodeUnauthenticated},
				{"somebody else's deadline", "/test/Late", "", []string{""}, nil, "4 asking another server: context deadline exceeded", CodeDeadlineExceeded},
				{"given up", "/test/GaveUp", "", []string{""}, nil, "1 context canceled", CodeCanceled},
				{"a status of connections", "/test/Goaway", "", []string{""}, nil, "2", CodeUnknown},
				{"one-way", "/test/Note", "", []string{"{}"}, []string{"{}"}, "0", CodeOK},
				{"a stream of responses", "/test.Streams/Count", "", []string{`{"name":"a","times":3}`}, []string{`{"name":"a"}`, `{"name":"a","times":1}`, `{"name":"a","times":2}`}, "0", CodeOK},
				{"a stream that fails", "/test.Streams/Count", "", []string{`{"name":"fail","times":1}`}, []string{`{"name":"fail"}`}, "10 after 1", CodeAborted},
				{"a stream that fails at once", "/test.Streams/Count", "", []string{`{"name":"fail","times":0}`}, nil, "10 after 0", CodeAborted},
				{"a stream that is empty", "/test.Streams/Count", "", []string{`{"name":"","times":0}`}, nil, "0", CodeOK},
				{"a stream of responses to nothing", "/test.Streams/Count", "", nil, nil, "12 method Count takes one message, and there is none", CodeUnimplemented},
				{"a stream of responses to two", "/test.Streams/Count", "", []string{`{"name":"a","times":3}`, `{"name":"b"}`}, nil, "12 method Count takes one message", CodeUnimplemented},
				{"a stream of requests", "/test.Streams/Sum", "", []string{`{"name":"a","times":1}`, `{"name":"b","times":2}`}, []string{`{"name":"ab","times":3}`}, "0", CodeOK},
				{"a stream of no requests", "/test.Streams/Sum", "", nil, []string{`{"name":""}`}, "0", CodeOK},
				{"a stream that returns nil", "/test.Streams/Sum", "", []string{`{"name":"nil"}`}, nil, "13 the method returned nil and no error", CodeInternal},
				{"both", "/test.Streams/Echo", "", []string{`{"name":"a","times":1}`, `{"name":"b","times":2}`}, []string{`{"name":"a","times":1}`, `{"name":"b","times":2}`}, "0", CodeOK},
				{"both, no JSON", "/test.Streams/Echo", "", []string{"{"}, nil, "3 rpc: a body that is no JSON for *rpc.greeting: unexpected end of JSON input", CodeInvalidArgument},
			} {
				answered[call.code]++
				kind := call.kind
				if kind == "" {
					kind = "application/grpc+json"
				}
				a := p.call(call.path, call.in, "Content-Type", kind)
				if a.status != call.status || !slices.Equal(a.msgs, call.out) || a.header.Get("Content-Type") != kind {
					t.Errorf("%s: %.200q, status %q, %v; want %.200q, %q", call.what, a.msgs, a.status, a.header, call.out, call.status)
				}
			}
			for code, n := range s.Stats().Ports["port0"].GRPC {
				if n != answered[code] {
					t.Errorf("%d answers %v were counted, want %d", n, code, answered[code])
				}
			}
			c := dialRaw(t, s.Addr("port0"))
			c.send(rawFrame(1, 2, rawCall(0, 0, "/test:", "Echo", "frames")))
			if got := c.expect(1, ok); got != "frames" {
				t.Error(got)
			}
			c.send(rawFrame(2, 2, rawCall(0, 1, "/test.Streams:", "Sum", "{}")))
			if got := c.expect(2, badRequestStatus); got != `rpc: method "Sum" streams: call it by gRPC` {
				t.Error(got)
			}
		})
	}
}

// TestGRPCLateStream: a stream that goes on behind its deadline sends nothing more, and its result is no answer.
func TestGRPCLateStream(t *testing.T) {
	sent := make(chan error, 100)
	s := serve(t, newServer(t, ServerOptions{Ports: []PortOptions{{}}}), newService(t, "/test:",
		Streaming("Late", ServerStreams, func(ctx context.Context, s Stream) error {
			b := []byte("x")
			_ = s.Send(&b) // in time, in the end
			<-ctx.Done()
			sent <- s.Send(&b)
			return nil
		})))
	p := dialGRPC(t, s.Addr("port0"))
	for within := 20; ; within *= 2 {
		a := p.call("/test/Late", []string{""}, "Grpc-Timeout", fmt.Sprintf("%dm", within))
		if a.status == fmt.Sprintf("4 the request was not answered within %dms", within) && len(a.msgs) == 0 {
			continue // a slow machine's method has not begun
		}
		if len(a.msgs) != 1 || a.status != "4 context deadline exceeded" {
			t.Errorf("%q, %q", a.msgs, a.status)
		}
		break
	}
	if err := testkit.Receive(t, "the late message", sent); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
}

// TestGRPCMaxAge: a port's connections end at their age, and calls go on by others.
func TestGRPCMaxAge(t *testing.T) {
	s := serve(t, newServer(t, ServerOptions{Ports: []PortOptions{{MaxAge: 20 * time.Millisecond, MaxAgeGrace: time.Minute}}}), greeter(t, "/test:"))
	p := dialGRPC(t, s.Addr("port0"))
	for s.Stats().Ports["port0"].Engine.Accepted < 2 {
		if a := p.call("/test/Hello", []string{`{"name":"a"}`}); a.status != "0" {
			t.Fatalf("%q", a.status)
		}
	}
}

// TestGRPCLimits: requests and responses have limits of their own.
func TestGRPCLimits(t *testing.T) {
	s := serve(t, newServer(t, ServerOptions{Ports: []PortOptions{{MaxPayload: 100, MaxResponse: 200}}}), newService(t, "/test:",
		Raw("Double", func(_ context.Context, b []byte) ([]byte, error) { return append(b, b...), nil }),
		Raw("Triple", func(_ context.Context, b []byte) ([]byte, error) { return slices.Repeat(b, 3), nil })))
	p := dialGRPC(t, s.Addr("port0"))
	for _, call := range []struct {
		method string
		n      int
		status string
	}{{"Double", 100, "0"}, {"Double", 101, "8 a message over the limit of 100 bytes"}, {"Triple", 66, "0"}, {"Triple", 67, "8 a message of 201 bytes, limit 200"}} {
		if a := p.call("/test/"+call.method, []string{strings.Repeat("x", call.n)}); a.status != call.status {
			t.Errorf("%s of %d bytes: %q", call.method, call.n, a.status)
		}
	}
}

// TestGRPCStatus: the errors of methods that have a code, by both protocols.
func TestGRPCStatus(t *testing.T) {
	fails := map[string]error{
		"Details":  &Status{Code: CodeNotFound, Message: "no ü 100%", Details: []proto.Message{wrapperspb.String("more")}, RetryAfter: 1500 * time.Millisecond},
		"Wrapped":  fmt.Errorf("around: %w", Statusf(CodeDataLoss, "lost")),
		"NotOK":    &Status{},
		"Internal": Statusf(CodeInternal, "inside"),
		"Late":     Statusf(CodeDeadlineExceeded, "late"),
		"Stopped":  Statusf(CodeCanceled, "stopped"),
		"Who":      Statusf(CodeUnauthenticated, "who"),
		"Foreign":  foreignError{},
		"Busy":     &frame.StatusError{Status: frame.StatusBusy, Message: "later", RetryAfter: time.Second},
	}
	var methods []Method
	for name, err := range fails {
		methods = append(methods, Raw(name, func(context.Context, []byte) ([]byte, error) { return nil, err }))
	}
	s := serve(t, newServer(t, ServerOptions{Ports: []PortOptions{{}}}), newService(t, "/test:", methods...))
	p, c := dialGRPC(t, s.Addr("port0")), dialRaw(t, s.Addr("port0"))
	id := uint64(0)
	for name, want := range map[string]struct {
		grpc   string
		framed byte
		text   string
	}{
		"Details":  {"5 no %C3%BC 100%25", appError, "NOT_FOUND: no ü 100%"},
		"Wrapped":  {"15 lost", appError, "DATA_LOSS: lost"},
		"NotOK":    {"2", appError, "OK"},
		"Internal": {"13 inside", internalError, "inside"},
		"Late":     {"4 late", deadlineExceeded, "late"},
		"Stopped":  {"1 stopped", canceled, "stopped"},
		"Who":      {"16 who", 10, "who"},
		"Foreign":  {"9 not now", appError, "FAILED_PRECONDITION: not now"},
		"Busy":     {"8 later", busy, "later"},
	} {
		a := p.call("/test/"+name, []string{""})
		if a.status != want.grpc {
			t.Errorf("%s: %q, want %q", name, a.status, want.grpc)
		}
		switch name {
		case "Details":
			const details = "CAUSDW5vIMO8IDEwMCUaOwoxdHlwZS5nb29nbGVhcGlzLmNvbS9nb29nbGUucHJvdG9idWYuU3RyaW5nVmFsdWUSBgoEbW9yZQ"
			if got := a.trailer.Get("Grpc-Status-Details-Bin"); !strings.HasSuffix(got, details[len(details)-60:]) {
				t.Errorf("details %s", got)
			}
			if got := a.trailer.Get("Grpc-Retry-Pushback-Ms"); got != "1500" {
				t.Errorf("pushback %q", got)
			}
		case "Busy":
			if got := a.trailer.Get("Grpc-Retry-Pushback-Ms"); got != "1000" {
				t.Errorf("pushback %q", got)
			}
		}
		id++
		c.send(rawFrame(id, 2, rawCall(0, 0, "/test:", name, "")))
		if got := c.expect(id, want.framed); got != want.text {
			t.Errorf("%s by a frame: %q, want %q", name, got, want.text)
		}
	}
}

// foreignError is an error as package google.golang.org/grpc/status makes it.
type foreignError struct{}

func (foreignError) Error() string { return "foreign" }

// GRPCStatus returns what has a Proto.
func (foreignError) GRPCStatus() *foreignProto { return new(foreignProto) }

type foreignProto struct{}

// Proto returns a message with the fields of a google.rpc.Status.
func (*foreignProto) Proto() proto.Message {
	m := newStatusMessage()
	fields := m.Descriptor().Fields()
	m.Set(fields.ByNumber(1), protoreflect.ValueOfInt32(int32(CodeFailedPrecondition)))
	m.Set(fields.ByNumber(2), protoreflect.ValueOfString("not now"))
	return m.Interface()
}

// TestGRPCMetadata: what travels beside the messages, both ways.
func TestGRPCMetadata(t *testing.T) {
	var errs atomic.Pointer[[]error]
	svc := newService(t, "/test:", Raw("Show", func(ctx context.Context, _ []byte) ([]byte, error) {
		info := CallFrom(ctx)
		values := slices.Collect(info.Metadata.Values("x-many"))
		bin, _ := info.Metadata.Get("x-bytes-bin")
		errs.Store(&[]error{
			SetHeader(ctx, Pair{"X-Early", "1"}, Pair{"x-early-bin", "\x00\xff"}), SetTrailer(ctx, Pair{"x-late", "2"}),
			SetHeader(ctx, Pair{"grpc-status", "7"}), SetHeader(ctx, Pair{"x y", ""}), SetTrailer(ctx, Pair{"x-text", "\n"}),
		})
		return fmt.Appendf(nil, "%v %q %d pairs, codec %v, %s %s, local %v", values, bin, len(info.Metadata), info.Codec, info.Key, info.Method, info.Peer.Addr().IsLoopback()), nil
	}), Streaming("Early", ServerStreams, func(ctx context.Context, _ Stream) error {
		if err := SendHeader(ctx, Pair{"x-early", "1"}); err != nil {
			return err
		}
		<-ctx.Done()
		return ctx.Err()
	}))
	s := serve(t, newServer(t, ServerOptions{Ports: []PortOptions{{}}}), svc)
	p := dialGRPC(t, s.Addr("port0"))
	r := p.request(context.Background(), "/test/Show", bytes.NewReader(grpcMessage(0, "")), "X-Bytes-Bin", "AP8", "User-Agent", "me", "Grpc-Timeout", "1H")
	r.Header["X-Many"] = []string{"a", "b"}
	a := p.send(r)
	want := `[a b] "\x00\xff" 3 pairs, codec json, /test: Show, local true`
	if a.status != "0" || len(a.msgs) != 1 || a.msgs[0] != want {
		t.Errorf("%q %q, want %q", a.status, a.msgs, want)
	}
	if a.header.Get("X-Early") != "1" || a.header.Get("X-Early-Bin") != "AP8" || a.trailer.Get("X-Late") != "2" || a.header.Get("X-Late") != "" {
		t.Errorf("header %v, trailer %v", a.header, a.trailer)
	}
	texts := []string{"", "", `rpc: the metadata key "grpc-status" belongs to the protocol`, `rpc: the metadata key "x y" is no name of a header field`,
		`rpc: the metadata value "\n" of "x-text" is not printable ASCII: a key with the suffix -bin takes any bytes`}
	for i, err := range *errs.Load() {
		if got := fmt.Sprint(err); got != texts[i] && (err != nil || texts[i] != "") {
			t.Errorf("error %d: %v, want %q", i, err, texts[i])
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	resp, err := p.http.Do(p.request(ctx, "/test/Early", bytes.NewReader(grpcMessage(0, ""))))
	if err != nil {
		t.Fatal(err)
	}
	if resp.Header.Get("X-Early") != "1" {
		t.Errorf("header %v", resp.Header)
	}
	cancel()
	resp.Body.Close()
	c := dialRaw(t, s.Addr("port0"))
	c.send(rawFrame(1, 2, rawCall(0, 0, "/test:", "Show", "")))
	c.expect(1, ok)
	for _, err := range *errs.Load() {
		if !errors.Is(err, ErrNoMetadata) {
			t.Errorf("by a frame: %v", err)
		}
	}
}

// TestGRPCKeys: services of one interface are told apart by the headers of Triple.
func TestGRPCKeys(t *testing.T) {
	s := newServer(t, ServerOptions{Ports: []PortOptions{{}}})
	for _, key := range []string{"/two:", "g/two:1", "g/one:1", "g/many:1", "g/many:2"} {
		if err := s.Register(newService(t, key, Raw("Name", func(ctx context.Context, _ []byte) ([]byte, error) {
			return []byte(CallFrom(ctx).Key.String()), nil
		}))); err != nil {
			t.Fatal(err)
		}
	}
	serve(t, s)
	p := dialGRPC(t, s.Addr("port0"))
	for _, x := range []struct{ path, group, version, want string }{
		{"/two/Name", "", "", "/two:"}, {"/two/Name", "g", "1", "g/two:1"}, {"/one/Name", "", "", "g/one:1"}, {"/one/Name", "g", "1", "g/one:1"},
		{"/many/Name", "g", "2", "g/many:2"},
		{"/many/Name", "", "", `12 method /many/Name has 2 services, none of group "" and version ""`},
		{"/one/Name", "h", "", `12 method /one/Name has 1 services, none of group "h" and version ""`},
	} {
		var fields []string
		if x.group != "" {
			fields = []string{"tri-service-group", x.group, "tri-service-version", x.version}
		}
		a := p.call(x.path, []string{""}, fields...)
		if got := strings.Join(a.msgs, ""); got != x.want && a.status != x.want {
			t.Errorf("%s: %q %q, want %q", x.path, got, a.status, x.want)
		}
	}
}

// TestGRPCCompression: a request in gzip is answered in gzip, and a message that grows beyond the limit is refused.
func TestGRPCCompression(t *testing.T) {
	s := serve(t, newServer(t, ServerOptions{Ports: []PortOptions{{MaxPayload: 10_000}}}), greeter(t, "/test:"), streams(t))
	p := dialGRPC(t, s.Addr("port0"))
	zip := func(s string) string {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		io.WriteString(w, s)
		w.Close()
		return b.String()
	}
	send := func(path string, flags byte, msg string, fields ...string) grpcAnswer {
		return p.send(p.request(context.Background(), path, bytes.NewReader(grpcMessage(flags, msg)), fields...))
	}
	for _, path := range []string{"/test/Hello", "/test.Streams/Echo"} {
		in, want := `{"name":"Ann","times":1}`, `{"name":"Hello, Ann","times":2}`
		if path != "/test/Hello" {
			want = in
		}
		a := send(path, 1, zip(in), "Grpc-Encoding", "gzip")
		if len(a.msgs) != 1 || a.header.Get("Grpc-Encoding") != "gzip" {
			t.Fatalf("%s: %q %v", a.status, a.msgs, a.header)
		}
		zr, err := gzip.NewReader(strings.NewReader(strings.TrimPrefix(a.msgs[0], "gzip ")))
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := io.ReadAll(zr); string(got) != want {
			t.Errorf("%q", got)
		}
	}
	for _, x := range []struct {
		what   string
		flags  byte
		msg    string
		fields []string
		status string
	}{
		{"a bomb", 1, zip(strings.Repeat("x", 10_001)), []string{"Grpc-Encoding", "gzip"}, "8 a message of 10001 bytes, limit 10000"},
		{"as much as allowed", 1, zip(`{"name":"` + strings.Repeat("x", 9_000) + `"}`), []string{"Grpc-Encoding", "gzip"}, "0"},
		{"too large", 0, strings.Repeat("x", 10_001), nil, "8 a message over the limit of 10000 bytes"},
		{"no gzip", 1, "abc", []string{"Grpc-Encoding", "gzip"}, "13 a message that is no gzip: unexpected EOF"},
		{"compressed without a word", 1, "abc", nil, "13 a compressed message in a call without grpc-encoding"},
		{"an encoding that nobody has", 1, "abc", []string{"Grpc-Encoding", "snappy"}, `12 messages in "snappy": this server takes gzip and identity`},
		{"identity", 0, "{\"name\":\"a\"}", []string{"Grpc-Encoding", "identity"}, "0"},
		{"flags", 2, "{}", nil, "13 a message with the flags 0x2"},
	} {
		if a := send("/test/Hello", x.flags, x.msg, x.fields...); a.status != x.status {
			t.Errorf("%s: %q, want %q", x.what, a.status, x.status)
		}
	}
}

// TestGRPCTimeouts: the smaller of the client's time and the service's ends a call, with an answer; a request whose time is
// over is not executed, and a stream that has begun ends with its status.
func TestGRPCTimeouts(t *testing.T) {
	var ran atomic.Int32
	stopped := make(chan error, 4)
	hang := func(ctx context.Context) error {
		ran.Add(1)
		<-ctx.Done()
		stopped <- ctx.Err()
		return ctx.Err()
	}
	svc := newService(t, "/test:",
		Raw("Hang", func(ctx context.Context, _ []byte) ([]byte, error) { return nil, hang(ctx) }),
		Raw("Left", func(ctx context.Context, _ []byte) ([]byte, error) {
			d, ok := ctx.Deadline()
			return fmt.Append(nil, ok, d.After(time.Now().Add(time.Hour))), nil
		}),
		Streaming("Begun", ServerStreams, func(ctx context.Context, s Stream) error {
			if err := s.Send([]byte("first")); err != nil {
				return err
			}
			var b []byte
			_ = s.Recv(&b)
			return hang(ctx)
		}))
	s := newServer(t, ServerOptions{Ports: []PortOptions{{}}})
	if err := s.Register(svc, Timeout(2*time.Hour)); err != nil {
		t.Fatal(err)
	}
	serve(t, s)
	p := dialGRPC(t, s.Addr("port0"))
	for _, path := range []string{"/test/Hang", "/test/Begun"} {
		a := p.call(path, []string{""}, "Grpc-Timeout", "20m", "Content-Type", "application/grpc+raw")
		if !strings.HasPrefix(a.status, "4") {
			t.Errorf("%s: %q", path, a.status)
		}
		if err := testkit.Receive(t, "the end of the method", stopped); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: its context ended with %v", path, err)
		}
	}
	if err := s.Register(newService(t, "/short:", Raw("Hang", func(ctx context.Context, _ []byte) ([]byte, error) { return nil, hang(ctx) })), Timeout(20*time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	for _, own := range []string{"1H", ""} { // the service's time is the smaller one, or the only one
		var fields []string
		if own != "" {
			fields = []string{"Grpc-Timeout", own}
		}
		if a := p.call("/short/Hang", []string{""}, fields...); !strings.HasPrefix(a.status, "4") {
			t.Errorf("%q: %q", own, a.status)
		}
		testkit.Receive(t, "the end of the method", stopped)
	}
	for text, want := range map[string]string{"3H": "true true", "1S": "true false", "": "true true"} {
		fields := []string{"Grpc-Timeout", text}
		if text == "" {
			fields = nil
		}
		if a := p.call("/test/Left", []string{""}, fields...); a.status != "0" || a.msgs[0] != want {
			t.Errorf("%s: %q %q, want %s", text, a.status, a.msgs, want)
		}
	}
	if a := p.call("/test/Hang", []string{""}, "Grpc-Timeout", "soon"); a.status != `3 grpc-timeout "soon": want up to 8 digits and one of H, M, S, m, u, n` {
		t.Errorf("%q", a.status)
	}
	before := ran.Load()
	if a := p.call("/test/Hang", []string{""}, "Grpc-Timeout", "1n"); !strings.HasPrefix(a.status, "4") {
		t.Errorf("%q", a.status)
	}
	if n := ran.Load() - before; n > 1 {
		t.Errorf("%d executions of one call", n)
	}
}

// TestGRPCBusy: a full pool and a service at its limit answer RESOURCE_EXHAUSTED with a pushback, while health and unknown
// methods are answered as ever.
func TestGRPCBusy(t *testing.T) {
	entered, release := make(chan struct{}, 4), make(chan struct{})
	svc := newService(t, "/test:", Raw("Hold", func(context.Context, []byte) ([]byte, error) {
		entered <- struct{}{}
		<-release
		return nil, nil
	}))
	limited := newService(t, "/limited:", Raw("Hold", func(context.Context, []byte) ([]byte, error) { return nil, nil }))
	s := newServer(t, ServerOptions{RetryAfter: 70 * time.Millisecond, Ports: []PortOptions{{Pool: PoolOptions{Threads: 1}}}})
	if err := s.Register(limited, InFlight(1)); err != nil {
		t.Fatal(err)
	}
	serve(t, s, svc)
	p := dialGRPC(t, s.Addr("port0"))
	held := make(chan grpcAnswer, 1)
	go func() { held <- p.call("/test/Hold", []string{""}) }()
	testkit.Receive(t, "the first call", entered)
	a := p.call("/test/Hold", []string{""})
	if a.status != "8 the server is busy" || a.trailer.Get("Grpc-Retry-Pushback-Ms") != "70" || a.header.Get("Content-Type") != "application/grpc+json" {
		t.Errorf("%q %v", a.status, a.trailer)
	}
	if a := p.call("/test/Hald", []string{""}); a.status != "12 no method /test/Hald" {
		t.Errorf("%q", a.status)
	}
	if a := p.call("/grpc.health.v1.Health/Check", []string{""}, "Content-Type", "application/grpc"); a.status != "0" || a.msgs[0] != "\x08\x01" {
		t.Errorf("%q %q", a.status, a.msgs)
	}
	reg := s.registration(limited.Key())
	reg.inFlight.Add(1)
	if a := p.call("/limited/Hold", []string{""}); a.status != "8 service /limited: is at its limit of 1 calls in flight" || a.trailer.Get("Grpc-Retry-Pushback-Ms") != "70" {
		t.Errorf("%q %v", a.status, a.trailer)
	}
	reg.inFlight.Add(-1)
	close(release)
	if a := testkit.Receive(t, "the first answer", held); a.status != "0" {
		t.Errorf("%q", a.status)
	}
	testkit.Eventually(t, "nothing in flight", func() bool {
		st := s.Stats().Services
		return st[svc.Key()].InFlight == 0 && st[limited.Key()].InFlight == 0
	})
	if st := s.Stats(); st.Services[svc.Key()].Calls != 2 || st.Services[limited.Key()].Limited != 1 || st.Ports["port0"].GRPC[CodeResourceExhausted] != 2 {
		t.Errorf("%+v", st.Services)
	}
}

// TestGRPCPanic: a panic is INTERNAL, on a pool and on the loop, and nobody else notices.
func TestGRPCPanic(t *testing.T) {
	for _, d := range []Dispatcher{DispatchAll, DispatchDirect} {
		svc := newService(t, "/test:",
			Raw("Panic", func(context.Context, []byte) ([]byte, error) { panic("secret") }),
			Raw("Echo", func(_ context.Context, b []byte) ([]byte, error) { return b, nil }),
			Streaming("Late", ServerStreams, func(_ context.Context, s Stream) error {
				if err := s.Send([]byte("x")); err != nil {
					return err
				}
				panic("secret")
			}))
		s := serve(t, newServer(t, ServerOptions{Ports: []PortOptions{{Dispatcher: d}}}), svc)
		p := dialGRPC(t, s.Addr("port0"))
		if a := p.call("/test/Panic", []string{""}); !strings.HasPrefix(a.status, "13 ") || strings.Contains(a.status, "secret") {
			t.Errorf("%v: %q", d, a.status)
		}
		resp, err := p.http.Do(p.request(context.Background(), "/test/Late", bytes.NewReader(grpcMessage(0, "")), "Content-Type", "application/grpc+raw"))
		if err == nil { // else the reset came before anything of the response went out
			if b, err := io.ReadAll(resp.Body); err == nil {
				t.Errorf("%v: a stream that has panicked ended in order, with %q", d, b)
			}
			resp.Body.Close()
		}
		if a := p.call("/test/Echo", []string{"x"}); a.status != "0" {
			t.Errorf("%v: %q", d, a.status)
		}
	}
}

// TestGRPCCancel: the context of a method ends when its client resets the call, and when its connection goes.
func TestGRPCCancel(t *testing.T) {
	entered, ended := make(chan struct{}, 1), make(chan error, 1)
	svc := newService(t, "/test:", Raw("Hold", func(ctx context.Context, _ []byte) ([]byte, error) {
		entered <- struct{}{}
		<-ctx.Done()
		ended <- ctx.Err()
		return nil, ctx.Err()
	}), BidiStream("Wait", func(_ context.Context, in *Receiver[greeting], _ *Sender[greeting]) error {
		entered <- struct{}{}
		_, err := in.Recv()
		ended <- err
		return err
	}))
	s := serve(t, newServer(t, ServerOptions{Ports: []PortOptions{{}}}), svc)
	p := dialGRPC(t, s.Addr("port0"))
	for _, path := range []string{"/test/Hold", "/test/Wait"} {
		body, w := io.Pipe()
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() {
			resp, err := p.http.Do(p.request(ctx, path, body))
			if err == nil {
				resp.Body.Close()
			}
			done <- err
		}()
		if path == "/test/Hold" {
			w.Write(grpcMessage(0, ""))
			w.Close()
		}
		testkit.Receive(t, "the call", entered)
		cancel()
		if err := testkit.Receive(t, "the end of the method", ended); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", path, err)
		}
		testkit.Receive(t, "the end of the call", done)
		w.Close()
	}
}

// TestGRPCStreamHoldsNoWorker: streams whose methods wait for their clients leave the one worker of the pool to others, and
// a client that does not read stops its own stream only.
func TestGRPCStreamHoldsNoWorker(t *testing.T) {
	entered := make(chan struct{}, 20)
	svc := newService(t, "/test:",
		BidiStream("Wait", func(_ context.Context, in *Receiver[greeting], _ *Sender[greeting]) error {
			entered <- struct{}{}
			_, err := in.Recv()
			return err
		}),
		ServerStream("Pour", func(_ context.Context, _ *greeting, out *Sender[greeting]) error {
			entered <- struct{}{}
			for {
				if err := out.Send(&greeting{Name: strings.Repeat("x", 10_000)}); err != nil {
					return err
				}
			}
		}),
		Raw("Echo", func(_ context.Context, b []byte) ([]byte, error) { return b, nil }))
	s := serve(t, newServer(t, ServerOptions{Ports: []PortOptions{{Pool: PoolOptions{Threads: 1, Queue: 8}}}}), svc)
	stuck := dialGRPC(t, s.Addr("port0"))
	ctx, cancel := context.WithCancel(context.Background())
	var ends []chan struct{}
	for i := range 10 {
		var body io.Reader = bytes.NewReader(grpcMessage(0, "{}"))
		path := "/test/Pour"
		if i%2 == 0 {
			pr, pw := io.Pipe()
			defer pw.Close()
			body, path = pr, "/test/Wait"
		}
		end := make(chan struct{})
		ends = append(ends, end)
		go func() {
			defer close(end)
			if resp, err := stuck.http.Do(stuck.request(ctx, path, body)); err == nil {
				<-ctx.Done() // reads nothing
				resp.Body.Close()
			}
		}()
		testkit.Receive(t, "a stream", entered)
	}
	p := dialGRPC(t, s.Addr("port0"))
	for _, peer := range []*grpcPeer{p, stuck} {
		if a := peer.call("/test/Echo", []string{"x"}); a.status != "0" {
			t.Errorf("%q", a.status)
		}
	}
	cancel()
	for _, end := range ends {
		testkit.Receive(t, "the end of a stream", end)
	}
	testkit.Eventually(t, "nothing in flight", func() bool { return s.Stats().Services[svc.Key()].InFlight == 0 })
}

// TestGRPCStreamMisuse: a method that takes or sends more than its kind allows, and one that goes on when it has returned.
func TestGRPCStreamMisuse(t *testing.T) {
	left := make(chan Stream, 1)
	s := serve(t, newServer(t, ServerOptions{Ports: []PortOptions{{}}}), newService(t, "/test:",
		Streaming("Greedy", ServerStreams, func(_ context.Context, s Stream) error {
			var b []byte
			if err := s.Recv(&b); err != nil {
				return err
			}
			return s.Recv(&b)
		}),
		Streaming("Chatty", ClientStreams, func(_ context.Context, s Stream) error {
			if err := s.Send([]byte("a")); err != nil {
				return err
			}
			return s.Send([]byte("b"))
		}),
		Streaming("Leaves", ServerStreams, func(_ context.Context, s Stream) error { left <- s; return nil })))
	p := dialGRPC(t, s.Addr("port0"))
	for method, want := range map[string]string{
		"Greedy": "12 method Greedy takes one message", "Chatty": "13 method Chatty sends one message", "Leaves": "0",
	} {
		if a := p.call("/test/"+method, []string{"a", "b"}, "Content-Type", "application/grpc+raw"); a.status != want {
			t.Errorf("%s: %q, want %q", method, a.status, want)
		}
	}
	stream := testkit.Receive(t, "the stream", left)
	testkit.Eventually(t, "the end of the call", func() bool { return errors.Is(stream.Send([]byte("late")), errStreamOver) })
}

// TestGRPCInterceptors: both kinds see the calls of their kind, the first one outermost, and may change them.
func TestGRPCInterceptors(t *testing.T) {
	var mu sync.Mutex
	var seen []string
	saw := func(what string) {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, what)
	}
	unary := func(name string) Interceptor {
		return func(ctx context.Context, call *CallInfo, req any, next func(ctx context.Context, req any) (any, error)) (any, error) {
			saw(name + " " + call.Method)
			return next(ctx, req)
		}
	}
	stream := func(name string) StreamInterceptor {
		return func(ctx context.Context, call *CallInfo, s Stream, next func(ctx context.Context, s Stream) error) error {
			saw(name + " " + call.Method)
			return next(ctx, loud{s})
		}
	}
	s := serve(t, newServer(t, ServerOptions{
		Ports: []PortOptions{{}}, Interceptors: []Interceptor{unary("a"), unary("b")}, StreamInterceptors: []StreamInterceptor{stream("c"), stream("d")},
	}), greeter(t, "/test:"), streams(t))
	p := dialGRPC(t, s.Addr("port0"))
	if a := p.call("/test/Hello", []string{`{"name":"Ann"}`}); a.status != "0" {
		t.Errorf("%q", a.status)
	}
	if a := p.call("/test.Streams/Echo", []string{`{"name":"Ann","times":1}`}); a.status != "0" || a.msgs[0] != `{"name":"Ann!!","times":1}` {
		t.Errorf("%q %q", a.status, a.msgs)
	}
	mu.Lock()
	defer mu.Unlock()
	if want := []string{"a Hello", "b Hello", "c Echo", "d Echo"}; !reflect.DeepEqual(seen, want) {
		t.Errorf("%q, want %q", seen, want)
	}
}

type loud struct{ Stream }

// Send implements Stream.
func (l loud) Send(msg any) error {
	if g, ok := msg.(*greeting); ok {
		g.Name += "!"
	}
	return l.Stream.Send(msg)
}

// TestGRPCRefusals: what is no call by gRPC is told so, on a port of both protocols and on one of its own.
func TestGRPCRefusals(t *testing.T) {
	for _, only := range []bool{false, true} {
		o := PortOptions{}
		if only {
			o.Protocols = []Protocol{ProtocolGRPC}
		}
		s := serve(t, newServer(t, ServerOptions{Ports: []PortOptions{o}}), greeter(t, "/test:"))
		p := dialGRPC(t, s.Addr("port0"))
		for _, kind := range []string{"text/plain", "application/grpcx"} {
			resp, err := p.http.Do(p.request(context.Background(), "/test/Hello", strings.NewReader("x"), "Content-Type", kind))
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if resp.StatusCode != http.StatusUnsupportedMediaType {
				t.Errorf("%s: %d", kind, resp.StatusCode)
			}
		}
		c := dialRaw(t, s.Addr("port0"))
		c.send(rawFrame(1, 2, rawCall(0, 0, "/test:", "Echo", "x")))
		if only {
			if got, _ := io.ReadAll(c.r); len(got) > 0 && got[0] == frame.Magic>>8 { // a reset is an end, too
				t.Errorf("a port of gRPC alone answers a frame: %x", got)
			}
			continue
		}
		c.expect(1, ok)
	}
	full := serve(t, newServer(t, ServerOptions{Ports: []PortOptions{{Protocols: []Protocol{ProtocolGRPC}, Accepts: 1}}}), greeter(t, "/test:"))
	if a := dialGRPC(t, full.Addr("port0")).call("/test/Echo", []string{"x"}); a.status != "0" {
		t.Errorf("%q", a.status)
	}
	refused := dialRaw(t, full.Addr("port0"))
	if got, _ := io.ReadAll(refused.r); !bytes.HasPrefix(got, []byte("\x00\x00\x00\x04\x00\x00\x00\x00\x00")) || !bytes.HasPrefix(got[9+3:], []byte("\x07")) { // SETTINGS, GOAWAY
		t.Errorf("a connection beyond Accepts is told %x", got)
	}
	s := serve(t, newServer(t, ServerOptions{Ports: []PortOptions{{Protocols: []Protocol{ProtocolFrame}}}}), greeter(t, "/test:"))
	p := dialGRPC(t, s.Addr("port0"))
	if _, err := p.http.Do(p.request(context.Background(), "/test/Hello", strings.NewReader("x"))); err == nil { //nolint:bodyclose // there is none
		t.Error("a port without gRPC answers a call")
	}
}

// newStatusMessage returns a message with the fields of a google.rpc.Status, which nothing here is generated for.
func newStatusMessage() protoreflect.Message {
	kind := func(k descriptorpb.FieldDescriptorProto_Type) *descriptorpb.FieldDescriptorProto_Type { return &k }
	file, err := protodesc.NewFile(&descriptorpb.FileDescriptorProto{
		Name: proto.String("status.proto"), Syntax: proto.String("proto3"),
		MessageType: []*descriptorpb.DescriptorProto{{Name: proto.String("Status"), Field: []*descriptorpb.FieldDescriptorProto{
			{Name: proto.String("code"), Number: proto.Int32(1), Type: kind(descriptorpb.FieldDescriptorProto_TYPE_INT32)},
			{Name: proto.String("message"), Number: proto.Int32(2), Type: kind(descriptorpb.FieldDescriptorProto_TYPE_STRING)},
		}}},
	}, nil)
	if err != nil {
		panic(err)
	}
	return dynamicpb.NewMessage(file.Messages().Get(0))
}
