package dubbo

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-eddy/eddy/codec/frame"
	"github.com/go-eddy/eddy/internal/testkit"
	"github.com/go-eddy/eddy/rpc"
	"github.com/go-eddy/eddy/rpc/internal/payload"
)

// TestFrontErrors: each way to fail has its status, and the connection goes on.
func TestFrontErrors(t *testing.T) {
	p := start(t, Limits{Depth: 5}, nil, rpc.Raw("block", func(ctx context.Context, _ []byte) ([]byte, error) {
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}))
	ctx := testkit.Context(t)
	deep := any("x")
	for range 6 {
		deep = []any{deep}
	}
	more := rpc.Key{Interface: "org.example.More"}
	for name, c := range map[string]struct {
		key       rpc.Key
		operation string
		args      []any
		kind      error
		text      string
	}{
		"an error":            {key, "getUser", []any{13}, rpc.ErrApp, "java.lang.RuntimeException: NOT_FOUND: nobody has the number 13"},
		"no such operation":   {key, "close", nil, rpc.ErrNotFound, `has no method "close"`},
		"no such service":     {rpc.Key{Interface: "x"}, "close", nil, rpc.ErrNotFound, `no service "/x:"`},
		"another version":     {rpc.Key{Interface: key.Interface, Version: "2"}, "ping", nil, rpc.ErrNotFound, "no service"},
		"another group":       {rpc.Key{Interface: key.Interface, Version: "1.0", Group: "g"}, "ping", nil, rpc.ErrNotFound, `no service "g/`},
		"too few arguments":   {key, "rename", []any{ann}, rpc.ErrApp, "Rename: 1 arguments, want 2"},
		"another type":        {key, "getUser", []any{"x"}, rpc.ErrApp, "GetUser: argument 1: a string is no int64"},
		"too deep":            {key, "any", []any{deep}, rpc.ErrBadRequest, "more than Limits.Depth, 5"},
		"no result of theirs": {key, "func", nil, rpc.ErrApp, "the result of Func"},
		"no time":             {more, "block", nil, rpc.ErrDeadline, ""},
	} {
		opts := []rpc.CallOption{}
		if c.operation == "block" {
			opts = append(opts, rpc.CallTimeout(time.Millisecond))
		}
		_, err := Invoke[any](ctx, p.dubbo, c.key, c.operation, c.args, opts...)
		if !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %v, want %v %q", name, err, c.kind, c.text)
		}
	}
	if _, err := rpc.Invoke[int](ctx, p.dubbo, key, "ping", new(int), rpc.CallCodec(rpc.CodecJSON)); err == nil || !strings.Contains(err.Error(), "call it by dubbo.Invoke") {
		t.Errorf("a call of another package: %v", err)
	}
	if _, err := Invoke[int](ctx, p.dubbo, key, "any", []any{"x"}); !errors.Is(err, rpc.ErrResponse) {
		t.Errorf("another result: %v", err)
	}
	if n := p.srv.Stats().Ports["port0"].Engine.Accepted; n > 2 {
		t.Errorf("%d connections, want one of each client that called", n)
	}
}

// TestFrontBusy: a call that finds no worker is told so, and the call that has it is answered.
func TestFrontBusy(t *testing.T) {
	started, blocked := make(chan string, 1), make(chan struct{})
	p := start(t, Limits{}, func(o *rpc.ServerOptions) { o.Ports[0].Pool = rpc.PoolOptions{Threads: 1} }, rpc.Raw("block", func(context.Context, []byte) ([]byte, error) {
		started <- ""
		<-blocked
		return []byte("N"), nil
	}))
	ctx := testkit.Context(t)
	done := make(chan error, 1)
	go func() {
		_, err := Invoke[any](ctx, p.dubbo, rpc.Key{Interface: "org.example.More"}, "block", nil)
		done <- err
	}()
	<-started
	if _, err := Invoke[any](ctx, p.dubbo, key, "ping", nil); !errors.Is(err, rpc.ErrBusy) {
		t.Errorf("a full pool: %v", err)
	}
	close(blocked)
	if err := testkit.Receive(t, "the call that ran", done); err != nil {
		t.Error(err)
	}
}

// TestFrontOneWay: a one-way call runs, and what Dubbo attaches is metadata.
func TestFrontOneWay(t *testing.T) {
	infos := make(chan *rpc.CallInfo, 1)
	p := start(t, Limits{}, nil, rpc.Raw("tell", func(ctx context.Context, _ []byte) ([]byte, error) {
		infos <- rpc.CallFrom(ctx)
		return nil, nil
	}))
	k, tenant := rpc.Key{Interface: "org.example.More"}, strings.Repeat("Ünal 😀", 1000)
	if err := Send(testkit.Context(t), p.dubbo, k, "tell", []any{1}, rpc.CallMetadata(rpc.Pair{Key: "tenant", Value: tenant})); err != nil {
		t.Fatal(err)
	}
	info := testkit.Receive(t, "the call", infos)
	got, _ := info.Metadata.Get("tenant")
	path, _ := info.Metadata.Get("path")
	if !info.OneWay || info.Key != k || info.Method != "tell" || got != tenant || path != k.Interface {
		t.Errorf("%.300v", info)
	}
	if u, err := Invoke[*User](testkit.Context(t), p.dubbo, key, "getUser", []any{8}); err != nil || u.ID != 8 {
		t.Errorf("a call behind it: %v, %v", u, err)
	}
}

// TestFrontDrain: a server that drains tells the clients of the protocol, which finish there and call elsewhere.
func TestFrontDrain(t *testing.T) {
	started, blocked := make(chan string, 1), make(chan struct{})
	p := start(t, Limits{}, nil, rpc.Raw("block", func(context.Context, []byte) ([]byte, error) {
		started <- ""
		<-blocked
		return []byte("\x02ok"), nil
	}))
	q := start(t, Limits{}, nil)
	cl := client(t, rpc.ClientOptions{Addrs: []string{p.addr, q.addr}, Front: ClientFront(Options{})})
	ctx := testkit.Context(t)
	done := make(chan error, 1)
	go func() {
		v, err := Invoke[string](ctx, cl, rpc.Key{Interface: "org.example.More"}, "block", nil)
		for errors.Is(err, rpc.ErrNotFound) { // it went to the other server
			v, err = Invoke[string](ctx, cl, rpc.Key{Interface: "org.example.More"}, "block", nil)
		}
		if err == nil && v != "ok" {
			err = errors.New(v)
		}
		done <- err
	}()
	<-started
	ended := make(chan error, 1)
	go func() {
		_, err := p.srv.Shutdown(ctx)
		ended <- err
	}()
	testkit.Eventually(t, "the client has left", func() bool { return cl.Stats().Connections == 1 })
	for range 10 {
		if _, err := Invoke[*User](ctx, cl, key, "getUser", []any{8}); err != nil {
			t.Errorf("a call during the drain: %v", err)
		}
	}
	close(blocked)
	if err := testkit.Receive(t, "the call in flight", done); err != nil {
		t.Error(err)
	}
	if err := testkit.Receive(t, "the drain", ended); err != nil {
		t.Error(err)
	}
}

// packetOf is a whole packet.
func packetOf(flags, status byte, id uint64, body string) []byte {
	b := binary.BigEndian.AppendUint64([]byte{0xda, 0xbb, flags, status}, id)
	return append(binary.BigEndian.AppendUint32(b, uint32(len(body))), body...)
}

// readPacket reads one.
func readPacket(t *testing.T, from io.Reader) (p packet) {
	t.Helper()
	head := make([]byte, headerSize)
	if _, err := io.ReadFull(from, head); err != nil {
		t.Fatalf("no packet: %v", err)
	}
	body := make([]byte, binary.BigEndian.Uint32(head[12:]))
	if _, err := io.ReadFull(from, body); err != nil {
		t.Fatalf("half a packet: %v", err)
	}
	return packet{flags: head[2], status: head[3], id: binary.BigEndian.Uint64(head[4:]), body: body}
}

func (p packet) String() string {
	return fmt.Sprintf("%#x %d %#x %q", p.flags, p.status, p.id, p.body)
}

// short is a short string in Hessian 2.0.
func short(s string) string { return string([]byte{byte(len(s))}) + s }

// callOf is the body of a call of the tests' service without arguments.
func callOf(method, attachments string) string {
	return short("2.0.2") + short(key.Interface) + short(key.Version) + short(method) + short("") + "H" + attachments + "Z"
}

// dial opens a connection to a server of the protocol.
func dial(t *testing.T, addr string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(testkit.Patience))
	return c
}

// TestFrontPackets: what clients send besides calls that fit, byte for byte.
func TestFrontPackets(t *testing.T) {
	p := start(t, Limits{}, nil)
	c := dial(t, p.addr)
	good := callOf("ping", "")
	for _, s := range []struct{ name, send, want string }{
		{"a heartbeat", string(packetOf(0xe2, 0, 5, "N")), `0x22 20 0x5 "N"`},
		{"a heartbeat of another serialization", string(packetOf(0xe6, 0, 6, "null")), `0x22 20 0x6 "N"`},
		{"the id 0", string(packetOf(0xc2, 0, 0, good)), `0x2 20 0x0 "\x92N"`},
		{"an event that wants no answer, a response, and a call", string(packetOf(0xa2, 0, 1, "N")) + string(packetOf(0x02, 20, 2, "\x92")) + string(packetOf(0xc2, 0, 3, good)), `0x2 20 0x3 "\x92N"`},
		{"a negative id", string(packetOf(0xc2, 0, 1<<64-2, good)), `0x2 20 0xfffffffffffffffe "\x92N"`},
		{"the reserved id", string(packetOf(0xc2, 0, topBit, good)), `0x2 40 0x8000000000000000 "0)request id 0x8000000000000000 is reserved`},
		{"another serialization", string(packetOf(0xc6, 0, 7, good)), `0x2 40 0x7 "01serialization 6: this server takes 2`},
		{"no body", string(packetOf(0xc2, 0, 8, "")), `0x2 40 0x8`},
		{"a body that is cut", string(packetOf(0xc2, 0, 9, good[:len(good)-1])), `0x2 40 0x9`},
		{"no attachments", string(packetOf(0xc2, 0, 9, good[:len(good)-2])), `0x2 40 0x9`},
		{"more arguments than Java has", string(packetOf(0xc2, 0, 9, good[:len(good)-2]+strings.Repeat("N", 256)+"HZ")), `0x2 40 0x9`},
		{"attachments that are none", string(packetOf(0xc2, 0, 9, good[:len(good)-2]+"\x90")), `0x2 40 0x9`},
		{"a version that means none", string(packetOf(0xc2, 0, 9, strings.Replace(good, short("1.0"), short("0.0.0"), 1))), `0x2 60 0x9 "0'no service`},
		{"a group", string(packetOf(0xc2, 0, 9, callOf("ping", "\x05group\x01g"))), `0x2 60 0x9`},
		{"attachments of all kinds", string(packetOf(0xc2, 0, 9, callOf("ping", "\x01a\x90\x01bN\x01cHZ\x02xyT\x07timeout\x05hello"))), `0x2 20 0x9 "\x92N"`},
	} {
		if _, err := io.WriteString(c, s.send); err != nil {
			t.Fatal(err)
		}
		if got := readPacket(t, c).String(); !strings.HasPrefix(got, s.want) {
			t.Errorf("%s: %s, want %s", s.name, got, s.want)
		}
	}
	// Everything at once, and byte by byte.
	var all []byte
	for i := range uint64(20) {
		all = append(all, packetOf(0xc2, 0, 9+i, good)...)
	}
	go func() {
		for i := range all {
			_, _ = c.Write(all[i : i+1])
		}
	}()
	for range 20 {
		if got := readPacket(t, c); got.status != statusOK {
			t.Errorf("%v", got)
		}
	}
}

// TestFrontEnds: what breaks the protocol ends the connection; a body over the limit is answered first.
func TestFrontEnds(t *testing.T) {
	p := start(t, Limits{}, nil)
	c := dial(t, p.addr)
	_, _ = c.Write(packetOf(0xe2, 0, 5, "N"))
	readPacket(t, c)
	_, _ = c.Write([]byte("GET / HTTP/1.1\r\n"))
	if n, err := c.Read(make([]byte, 1)); n != 0 || err == nil {
		t.Errorf("%d bytes, %v behind what is no packet", n, err)
	}
	c = dial(t, p.addr)
	_, _ = c.Write(packetOf(0xc2, 0, 7, "")[:12])
	_, _ = c.Write([]byte{0x7f, 0xff, 0xff, 0xff})
	if got := readPacket(t, c).String(); !strings.HasPrefix(got, `0x2 40 0x7`) || !strings.Contains(got, "a body of 2147483647 bytes, limit 1048576") {
		t.Errorf("%s", got)
	}
	if n, err := c.Read(make([]byte, 1)); n != 0 || err == nil {
		t.Errorf("%d bytes, %v behind a body over the limit", n, err)
	}
	testkit.Eventually(t, "the reasons are counted", func() bool {
		closed := p.srv.Stats().Ports["port0"].Engine.Closed
		n := 0
		for reason, count := range closed {
			if s := reason.String(); s == "protocol_error" || s == "frame_too_large" {
				n += int(count)
			}
		}
		return n == 2
	})
	if u, err := Invoke[*User](testkit.Context(t), p.dubbo, key, "getUser", []any{8}); err != nil || u.ID != 8 {
		t.Errorf("others: %v, %v", u, err)
	}
}

// TestClientFrontPackets: what servers answer besides values, and what they send by themselves.
func TestClientFrontPackets(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	answers := make(chan packet, 1)
	heart := make(chan packet, 1)
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		_, _ = c.Write(packetOf(0xe2, 0, 99, "N"))
		for {
			head := make([]byte, headerSize)
			if _, err := io.ReadFull(c, head); err != nil {
				return
			}
			body := make([]byte, binary.BigEndian.Uint32(head[12:]))
			if _, err := io.ReadFull(c, body); err != nil {
				return
			}
			if head[2]&flagRequest == 0 {
				heart <- packet{flags: head[2], status: head[3], id: binary.BigEndian.Uint64(head[4:]), body: body}
				continue
			}
			a := <-answers
			_, _ = c.Write(packetOf(0x42, 0, 1, "x")) // flags that no server sends
			_, _ = c.Write(packetOf(a.flags, a.status, binary.BigEndian.Uint64(head[4:]), string(a.body)))
		}
	}()
	cl := client(t, rpc.ClientOptions{Addrs: []string{l.Addr().String()}, Front: ClientFront(Options{})})
	exception := "C\x11com.example.Error\x94\x04code\x0ddetailMessage\x05cause\x0astackTrace\x60"
	for name, c := range map[string]struct {
		status byte
		body   string
		kind   error
		text   string
	}{
		"a value":                      {20, "\x91\x01x", nil, "x"},
		"a value with attachments":     {20, "\x94\x01xH\x01a\x01bZ", nil, "x"},
		"null":                         {20, "\x92", nil, ""},
		"null with attachments":        {20, "\x95HZN", nil, ""},
		"an exception":                 {20, "\x90" + exception + "\x91\x05oh noNN", rpc.ErrApp, "com.example.Error: oh no"},
		"an exception without text":    {20, "\x93" + exception + "\x91NNNHZ", rpc.ErrApp, "com.example.Error: "},
		"an exception that is a text":  {20, "\x90\x01x", rpc.ErrApp, "the definition of a class is missing"},
		"an exception cut short":       {20, "\x90" + exception[:30], rpc.ErrApp, "cut short"},
		"an exception without object":  {20, "\x90C\x01x\x91\x0ddetailMessageN", rpc.ErrApp, "the object of the class is missing"},
		"an exception of many fields":  {20, "\x90C\x01xI\x7f\xff\xff\xff", rpc.ErrApp, "Limits.Fields"},
		"an answer of no kind":         {20, "\x96", rpc.ErrInternal, "of the kind 0x96"},
		"an empty answer":              {20, "", rpc.ErrInternal, "without a kind"},
		"a value that is none":         {20, "\x91\xff", rpc.ErrResponse, ""},
		"a timeout":                    {30, "\x04late", rpc.ErrDeadline, "late"},
		"a timeout of the server":      {31, "\x04late", rpc.ErrDeadline, "late"},
		"a bad request":                {40, "\x03bad", rpc.ErrBadRequest, "bad"},
		"no such service":              {60, "\x02no", rpc.ErrNotFound, "no"},
		"an exhausted pool":            {100, "\x04full", rpc.ErrBusy, "full"},
		"a failed server":              {80, "\x04ouch", rpc.ErrInternal, "ouch"},
		"a failed service":             {70, "N", rpc.ErrInternal, "status 70"},
		"a status that nobody defined": {7, "", rpc.ErrInternal, "status 7"},
	} {
		answers <- packet{flags: 0x02, status: c.status, body: []byte(c.body)}
		got, err := Invoke[string](testkit.Context(t), cl, key, "ping", nil)
		if c.kind == nil && (err != nil || got != c.text) || c.kind != nil && (!errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.text)) {
			t.Errorf("%s: %q, %v, want %v %q", name, got, err, c.kind, c.text)
		}
	}
	if got := testkit.Receive(t, "the answer to a heartbeat", heart).String(); got != `0x22 20 0x63 "N"` {
		t.Errorf("a heartbeat was answered with %s", got)
	}
}

// TestStatuses: what a server says about a call is what its client is told, as far as the protocol has a word for it.
func TestStatuses(t *testing.T) {
	h := &clientFront{Options{}.withDefaults()}
	for sent, want := range map[frame.Status]frame.Status{
		frame.StatusBadRequest: frame.StatusBadRequest, frame.StatusNotFound: frame.StatusNotFound, frame.StatusAppError: frame.StatusAppError,
		frame.StatusInternal: frame.StatusInternal, frame.StatusBusy: frame.StatusBusy, frame.StatusDeadlineExceeded: frame.StatusDeadlineExceeded,
		frame.StatusCanceled: frame.StatusInternal, frame.StatusUnavailable: frame.StatusUnavailable, frame.StatusTooLarge: frame.StatusBadRequest,
		frame.StatusUnauthenticated: frame.StatusInternal,
	} {
		b, err := convert(frame.AppendError(nil, 5^topBit, &frame.StatusError{Status: sent, Message: "text"}), appendAnswer)
		if err != nil {
			t.Fatal(err)
		}
		p, _, err := split(b, 1000)
		if err != nil || p.id != 5 {
			t.Fatalf("%v, %v", p, err)
		}
		if got := h.response(p); frame.Status(got[11]) != want || !bytes.HasSuffix(got, []byte("text")) {
			t.Errorf("%v arrives as %q, want %v", sent, got, want)
		}
	}
}

// TestHeartbeats: a client's PING is a heartbeat, and what answers it is the PING's answer. Other operations have no word.
func TestHeartbeats(t *testing.T) {
	b, err := appendRequest(nil, &frame.Frame{ID: 5, Code: uint8(frame.Ping)})
	if want := packetOf(0xe2, 0, 5, "N"); err != nil || !bytes.Equal(b, want) {
		t.Errorf("%q, %v, want %q", b, err, want)
	}
	h := &clientFront{Options{}.withDefaults()}
	p, _, err := split(packetOf(0x22, statusOK, 5, "N"), 100)
	if got, want := h.response(p), frame.AppendResponse(nil, 5, nil); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%q, %v, want %q", got, err, want)
	}
	if b, err := appendRequest(nil, &frame.Frame{ID: 5, Code: uint8(frame.Cancel)}); err != nil || len(b) > 0 {
		t.Errorf("%q, %v for CANCEL", b, err)
	}
}

// TestParseCall: a call is read back as the client writes it.
func TestParseCall(t *testing.T) {
	args, err := appendArguments("x", []any{true, int8(1), int32(2), "text", ann, []int64{1}, []string{"a"}, map[string]int{"a": 1}, nil, Arg{Type: "java.lang.Long", Value: int64(3)}})
	if err != nil {
		t.Fatal(err)
	}
	k := rpc.Key{Group: "g", Interface: "a.B", Version: "1"}
	f := &frame.Frame{ID: 7, Code: uint8(frame.Call), Payload: prefixed(t, k, "x", args)}
	b, err := appendRequest(nil, f)
	if err != nil {
		t.Fatal(err)
	}
	p, n, err := split(b, 1<<20)
	if err != nil || n != len(b) || p.id != 7 || p.flags != 0xc2 {
		t.Fatalf("%v, %d of %d, %v", p, n, len(b), err)
	}
	c, err := parseCall(p.body, Limits{})
	if err != nil || c.key != k || c.method != "x" || !bytes.Equal(c.args, args[1:]) || c.timeout != 1500*time.Millisecond {
		t.Errorf("%+v, %v", c, err)
	}
	if want := "ZBILjava/lang/String;Lorg/example/User;[J[Ljava/lang/String;Ljava/util/Map;Ljava/lang/Object;Ljava/lang/Long;"; !strings.Contains(string(args), want) {
		t.Errorf("%q has not the types %s", args, want)
	}
	if i := slices.IndexFunc(c.meta, func(p rpc.Pair) bool { return p.Key == "k" }); i < 0 || !reflect.DeepEqual(c.meta[i], rpc.Pair{Key: "k", Value: "v"}) {
		t.Errorf("%v", c.meta)
	}
	for i := range b { // a request that ends early is no request, and no panic
		if _, n, _ := split(b[:i], 1<<20); n != 0 {
			t.Fatalf("a packet of %d bytes in %d", n, i)
		}
		if i > headerSize {
			if c, err := parseCall(b[headerSize:i], Limits{}); err == nil && bytes.Equal(c.args, args[1:]) {
				t.Fatalf("the call in %d of its %d bytes", i-headerSize, len(b)-headerSize)
			}
		}
	}
}

// TestFrontDrainsUnused: a connection whose client has not shown its protocol is told of a drain when it has.
func TestFrontDrainsUnused(t *testing.T) {
	for name, c := range map[string]struct{ send, want string }{
		"dubbo":  {string(packetOf(0xe2, 0, 5, "N")), string(packetOf(0xa2, 0, 0, "\x01R")) + string(packetOf(0x22, 20, 5, "N"))},
		"frames": {string(frame.AppendRequest(nil, 7, frame.Ping, nil)), string(frame.AppendHeader(nil, 0, uint8(frame.StatusGoAway), 0))[:12]},
	} {
		t.Run(name, func(t *testing.T) {
			p := start(t, Limits{}, func(o *rpc.ServerOptions) { o.DrainGrace = testkit.Patience })
			_, _ = p.frames.Close(), p.dubbo.Close()
			conn := dial(t, p.addr)
			testkit.Eventually(t, "the connection is open", func() bool { return p.srv.Stats().Ports["port0"].Engine.Active == 1 })
			ended := make(chan error, 1)
			go func() {
				_, err := p.srv.Shutdown(testkit.Context(t))
				ended <- err
			}()
			testkit.Eventually(t, "the server drains", func() bool {
				other, err := net.Dial("tcp", p.addr)
				if err == nil {
					_ = other.Close()
				}
				return err != nil
			})
			if _, err := io.WriteString(conn, c.send); err != nil {
				t.Fatal(err)
			}
			got := make([]byte, len(c.want))
			if _, err := io.ReadFull(conn, got); err != nil || string(got) != c.want {
				t.Errorf("%q, %v, want %q", got, err, c.want)
			}
			_ = conn.Close()
			if err := testkit.Receive(t, "the drain", ended); err != nil {
				t.Error(err)
			}
		})
	}
}

// prefixed is the payload of a frame that calls a method.
func prefixed(t *testing.T, k rpc.Key, method string, body []byte) []byte {
	t.Helper()
	b, err := payload.AppendPrefix(nil, 1500, payload.Raw, k.String(), method, []rpc.Pair{{Key: "k", Value: "v"}})
	if err != nil {
		t.Fatal(err)
	}
	return append(b, body...)
}

// FuzzPackets: no packet of a peer panics, on either side, and what a server takes for a call its methods can read.
func FuzzPackets(f *testing.F) {
	args, err := appendArguments("x", []any{int64(1), "text", ann, []any{nil, true}})
	if err != nil {
		f.Fatal(err)
	}
	k := rpc.Key{Interface: "a.B"}
	b, err := payload.AppendPrefix[rpc.Pair](nil, 0, payload.Raw, k.String(), "x", nil)
	if err == nil {
		b, err = appendRequest(nil, &frame.Frame{ID: 7, Code: uint8(frame.Call), Payload: append(b, args...)})
	}
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add(appendException(nil, 7, "text", ""))
	f.Add(appendException(nil, 7, "text", "\x40\x01H\x01a\x011Z"))
	f.Add(packetOf(0xe2, 0, 5, "N"))
	f.Add(packetOf(0x02, 20, 5, "\x94\x01xH\x01a\x01bZ"))
	server, client := &serverFront{Options{}.withDefaults()}, &clientFront{Options{}.withDefaults()}
	m, err := newMethod("Rename", reflect.ValueOf(users{}).MethodByName("Rename"), Limits{})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		p, n, err := split(b, len(b))
		if n == 0 || err != nil {
			return
		}
		if fr := client.response(p); len(fr) < frame.HeaderSize {
			t.Errorf("a response of %d bytes", len(fr))
		}
		if fr, err := server.frame(p); err == nil {
			h, err := payload.ParsePrefix(fr[frame.HeaderSize:])
			if err != nil || len(h.Body) == 0 || h.Body[0] != callMark {
				t.Fatalf("%q, %v", fr, err)
			}
			_, _ = m.call(t.Context(), h.Body)
		}
	})
}
