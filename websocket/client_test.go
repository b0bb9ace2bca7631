package websocket

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	coder "github.com/coder/websocket"
	gorilla "github.com/gorilla/websocket"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/internal/enginetest"
	"github.com/go-eddy/eddy/internal/testkit"
)

// independent servers that echo.
func coderServer(m coder.CompressionMode) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		c, err := coder.Accept(w, r, &coder.AcceptOptions{CompressionMode: m, CompressionThreshold: 1, Subprotocols: []string{"b"}})
		if err != nil {
			return
		}
		c.SetReadLimit(1 << 24)
		for {
			typ, data, err := c.Read(r.Context())
			if err != nil || c.Write(r.Context(), typ, data) != nil {
				return
			}
		}
	}
}

func gorillaServer(w http.ResponseWriter, r *http.Request) {
	up := gorilla.Upgrader{EnableCompression: true, Subprotocols: []string{"b"}}
	c, err := up.Upgrade(w, r, nil)
	if err != nil {
		return
	}
	defer func() { _ = c.Close() }()
	for {
		typ, data, err := c.ReadMessage()
		if err != nil || c.WriteMessage(typ, data) != nil {
			return
		}
	}
}

// The client talks to independent servers, with every way of compression, and the
// close handshake ends in order.
func TestClientWithIndependentServers(t *testing.T) {
	servers := map[string]http.HandlerFunc{
		"coder":              coderServer(coder.CompressionDisabled),
		"coder, takeover":    coderServer(coder.CompressionContextTakeover),
		"coder, no takeover": coderServer(coder.CompressionNoContextTakeover),
		"gorilla":            gorillaServer,
	}
	clients := map[string]func() Options{
		"plain": func() Options { return Options{} },
		"alone": func() Options { return Options{Compression: newCompression(t, CompressionOptions{Threshold: 1})} },
		"takeover": func() Options {
			return Options{Compression: newCompression(t, CompressionOptions{Threshold: 1, ContextTakeover: true})}
		},
	}
	for name, h := range servers {
		srv := httptest.NewServer(h)
		defer srv.Close()
		for with, options := range clients {
			t.Run(name+" with "+with, func(t *testing.T) {
				o := options()
				o.Subprotocols = []string{"a", "b"}
				o.RequireSubprotocol = true
				d := newDialer(t, o)
				m := newMessages()
				c, err := d.Dial(t.Context(), "ws"+strings.TrimPrefix(srv.URL, "http")+"/chat?x=1", m)
				if err != nil {
					t.Fatal(err)
				}
				if c.Subprotocol() != "b" {
					t.Errorf("subprotocol %q", c.Subprotocol())
				}
				want := o.Compression != nil && name != "coder"
				if c.Compressed() != want && name != "gorilla" {
					t.Errorf("compressed %v, want %v", c.Compressed(), want)
				}
				for range 2 {
					for _, msg := range slices.Concat(samples(), []string{strings.Repeat("large é ", 20000)}) {
						op := Text
						if strings.ContainsRune(msg, '�') || !validText(msg) {
							op = Binary
						}
						if err := c.Write(op, []byte(msg)); err != nil {
							t.Fatal(err)
						}
						m.want(t, op.String()+" "+msg)
					}
				}
				if err := c.Close(1000, "done"); err != nil {
					t.Fatal(err)
				}
				if e := <-m.closed; e.code != 1000 {
					t.Errorf("%+v", e)
				}
				testkit.Eventually(t, "the end", func() bool { return d.Engine.Stats().Active == 0 })
				if st := d.Engine.Stats(); st.Closed[eddy.CloseNormal] != 1 {
					t.Errorf("%v", st.Closed)
				}
			})
		}
	}
}

func validText(s string) bool { return strings.ToValidUTF8(s, "") == s }

// RFC 6455 section 4.1: every response that the client must not accept. Each is
// also sent byte by byte.
func TestDialRefusesResponses(t *testing.T) {
	const ok = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: WebSocket\r\nConnection: keep-alive, Upgrade\r\nSec-WebSocket-Accept: {}\r\n"
	big := "X-Large: " + strings.Repeat("x", maxResponseHead) + "\r\n"
	for _, tt := range []struct {
		name, response string
		want           string // in the error, "" = success
		status         int
		o              Options
	}{
		{"right", ok, "", 101, Options{}},
		{"subprotocol", ok + "Sec-WebSocket-Protocol: b\r\n", "", 101, Options{Subprotocols: []string{"a", "b"}}},
		{"compression", ok + "Sec-WebSocket-Extensions: permessage-deflate; server_no_context_takeover\r\n", "", 101, Options{Compression: newCompression(t, CompressionOptions{})}},
		{"ok", strings.Replace(ok, "101 Switching Protocols", "200 OK", 1), "200 OK", 200, Options{}},
		{"unauthorized", "HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic\r\n", "401 Unauthorized", 401, Options{}},
		{"redirect", "HTTP/1.1 302 Found\r\nLocation: /other\r\n", "302 Found", 302, Options{}},
		{"no upgrade", strings.Replace(ok, "Upgrade: WebSocket\r\n", "", 1), "does not upgrade", 101, Options{}},
		{"other upgrade", strings.Replace(ok, "WebSocket", "h2c", 1), "does not upgrade", 101, Options{}},
		{"no connection", strings.Replace(ok, "keep-alive, Upgrade", "close", 1), "does not upgrade", 101, Options{}},
		{"wrong accept", strings.Replace(ok, "{}", "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=", 1), "Sec-WebSocket-Accept", 101, Options{}},
		{"no accept", strings.Replace(ok, "Sec-WebSocket-Accept", "X", 1), "Sec-WebSocket-Accept", 101, Options{}},
		{"two accepts", ok + "Sec-WebSocket-Accept: {}\r\n", "Sec-WebSocket-Accept", 101, Options{}},
		{"unasked subprotocol", ok + "Sec-WebSocket-Protocol: b\r\n", "not offered", 101, Options{}},
		{"other subprotocol", ok + "Sec-WebSocket-Protocol: c\r\n", "not offered", 101, Options{Subprotocols: []string{"a"}}},
		{"two subprotocols", ok + "Sec-WebSocket-Protocol: a\r\nSec-WebSocket-Protocol: a\r\n", "not offered", 101, Options{Subprotocols: []string{"a"}}},
		{"required subprotocol", ok, "no subprotocol", 101, Options{Subprotocols: []string{"a"}, RequireSubprotocol: true}},
		{"unasked extension", ok + "Sec-WebSocket-Extensions: permessage-deflate\r\n", "not offered", 101, Options{}},
		{"wrong extension", ok + "Sec-WebSocket-Extensions: permessage-deflate; x\r\n", "do not fit", 101, Options{Compression: newCompression(t, CompressionOptions{})}},
		{"malformed extension", ok + "Sec-WebSocket-Extensions: ;\r\n", "malformed", 101, Options{}},
		{"not HTTP", "SSH-2.0-OpenSSH_9.2\r\n", "malformed response", 0, Options{}},
		{"too large", ok + big, "limit of 16384", 0, Options{}},
	} {
		for _, whole := range []bool{true, false} {
			t.Run(tt.name, func(t *testing.T) {
				addr := respond(t, tt.response+"\r\n", whole)
				tt.o.CloseTimeout = 20 * time.Millisecond // the server leaves the end to the client
				d := newDialer(t, tt.o)
				e := newEcho()
				c, err := d.Dial(t.Context(), "ws://"+addr+"/", e)
				if tt.want == "" {
					if err != nil {
						t.Fatal(err)
					}
					if e := <-e.closed; e.code != 1001 { // sent behind the response
						t.Errorf("%+v", e)
					}
					return
				}
				he, ok := errors.AsType[*HandshakeError](err)
				if !ok || c != nil || !strings.Contains(err.Error(), tt.want) || he.Status != tt.status {
					t.Fatalf("%v, want %q with status %d", err, tt.want, tt.status)
				}
				testkit.Eventually(t, "the end", func() bool { return d.Engine.Stats().Closed[eddy.CloseHandshakeFailed] == 1 })
				if len(e.conns) > 0 || len(e.closed) > 0 {
					t.Error("the handler was told")
				}
				if z := tt.o.Compression; z != nil && z.Stats().Windows != 0 {
					t.Errorf("%d bytes stay reserved", z.Stats().Windows)
				}
			})
		}
	}
}

// respond serves one connection: it answers the request with the text, in which
// {} is the right accept key, and a close frame.
func respond(t *testing.T, text string, whole bool) string {
	return serveOne(t, func(c net.Conn, r *http.Request) {
		out := strings.ReplaceAll(text, "{}", acceptKey(r.Header.Get("Sec-WebSocket-Key"))) + serverFrame(0x88, "\x03\xe9")
		if whole || len(out) > 5000 {
			_, _ = io.WriteString(c, out)
		} else {
			for i := range len(out) {
				_, _ = io.WriteString(c, out[i:i+1])
			}
		}
		_, _ = io.Copy(io.Discard, c)
	})
}

// serveOne accepts one connection and runs f with its request, which is nil when none came.
func serveOne(t *testing.T, f func(c net.Conn, r *http.Request)) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer func() { _ = c.Close() }()
		_ = c.SetDeadline(time.Now().Add(testkit.Patience))
		r, err := http.ReadRequest(bufio.NewReader(c))
		if err != nil {
			r = nil
		}
		f(c, r)
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-done
	})
	return l.Addr().String()
}

func TestDialArguments(t *testing.T) {
	d := newDialer(t, Options{})
	for address, want := range map[string]string{
		"http://127.0.0.1/":       "want ws or wss",
		"ws:///path":              "names no host",
		"ws://127.0.0.1/#part":    "fragment",
		"ws://user:pw@127.0.0.1/": "fragment or a user",
		"ws://[::1":               "websocket:",
	} {
		if _, err := d.Dial(t.Context(), address, newEcho()); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "pw@") {
			t.Errorf("%s: %v", address, err)
		}
	}
	if _, err := d.Dial(t.Context(), "ws://127.0.0.1/", nil); err == nil || !strings.Contains(err.Error(), "without a Handler") {
		t.Errorf("no handler: %v", err)
	}
	for name, d := range map[string]*Dialer{
		"MaxMessage":            {Options: Options{MaxMessage: -1}},
		"Sec-WebSocket-Version": {Header: http.Header{"Sec-WebSocket-Version": {"8"}}},
		"host":                  {Header: http.Header{"host": {"x"}}},
	} {
		if _, err := d.Dial(t.Context(), "ws://127.0.0.1/", newEcho()); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The request has all required fields and those of the dialer.
func TestDialRequest(t *testing.T) {
	got := make(chan *http.Request, 1)
	addr := serveOne(t, func(_ net.Conn, r *http.Request) { got <- r })
	d := newDialer(t, Options{Subprotocols: []string{"a", "b"}, Compression: newCompression(t, CompressionOptions{})})
	d.Header = http.Header{"Origin": {"https://example.org"}, "Authorization": {"Bearer x"}}
	_, err := d.Dial(t.Context(), "ws://"+addr+"/a%20b?c=d", newEcho())
	if !errors.Is(err, errEnded) || !errors.Is(err, eddy.ErrClosed) {
		t.Errorf("error %v", err)
	}
	r := <-got
	if r == nil || r.Method != "GET" || r.RequestURI != "/a%20b?c=d" || r.Host != addr || !r.ProtoAtLeast(1, 1) {
		t.Fatalf("%+v", r)
	}
	for name, want := range map[string]string{
		"Upgrade": "websocket", "Connection": "Upgrade", "Sec-Websocket-Version": "13", "Sec-Websocket-Protocol": "a, b",
		"Sec-Websocket-Extensions": "permessage-deflate; server_no_context_takeover; client_no_context_takeover; client_max_window_bits",
		"Origin":                   "https://example.org", "Authorization": "Bearer x",
	} {
		if v := r.Header[name]; len(v) != 1 || v[0] != want {
			t.Errorf("%s: %q, want %q", name, v, want)
		}
	}
	if !validKey(r.Header["Sec-Websocket-Key"]) {
		t.Errorf("key %q", r.Header["Sec-Websocket-Key"])
	}
}

// A server that accepts and never answers keeps the caller no longer than its context, and no longer than the timeout.
func TestDialContextAndTimeout(t *testing.T) {
	asked := make(chan struct{}, 1)
	silent := func(c net.Conn, _ *http.Request) { asked <- struct{}{}; _, _ = io.Copy(io.Discard, c) }
	d := newDialer(t, Options{Compression: newCompression(t, CompressionOptions{ContextTakeover: true})})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	outcome := make(chan error, 1)
	dial := func(ctx context.Context) {
		_, err := d.Dial(ctx, "ws://"+serveOne(t, silent)+"/", newEcho())
		outcome <- err
	}
	go dial(ctx)
	testkit.Receive(t, "the request", asked)
	cancel()
	if err := testkit.Receive(t, "the outcome", outcome); !errors.Is(err, context.Canceled) {
		t.Errorf("context: %v", err)
	}
	testkit.Eventually(t, "the end", func() bool { return d.Engine.Stats().Active == 0 })
	if n := d.Options.Compression.Stats().Windows; n != 0 {
		t.Errorf("%d bytes stay reserved", n)
	}
	d = newDialer(t, Options{PingInterval: -1})
	d.Engine.HandshakeTimeout = answer
	clock := enginetest.NewClock(t, d.Engine)
	go dial(t.Context())
	testkit.Receive(t, "the request", asked)
	clock.Advance(answer - tick)
	select {
	case err := <-outcome:
		t.Fatalf("before the timeout: %v", err)
	default:
	}
	clock.Advance(2 * tick)
	if err := testkit.Receive(t, "the outcome", outcome); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, errEnded) {
		t.Errorf("handshake timeout: %v", err)
	}
	// The handshake's timeout ends with the handshake.
	m := newMessages()
	c, err := d.Dial(t.Context(), "ws://"+start(t, Options{}).addr, m)
	if err != nil {
		t.Fatal(err)
	}
	clock.Advance(2 * answer)
	if err := c.Write(Text, []byte("still here")); err != nil {
		t.Fatal(err)
	}
	m.want(t, "text still here")
}

// A server that speaks before it was asked, and one that ends at once.
func TestDialToStrangeServers(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	go func() {
		for i := 0; ; i++ {
			c, err := l.Accept()
			if err != nil {
				return
			}
			if i%2 == 0 {
				_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\n\r\n")
			}
			_ = c.Close()
		}
	}()
	d := newDialer(t, Options{})
	for range 50 {
		if c, err := d.Dial(t.Context(), "ws://"+l.Addr().String(), newEcho()); err == nil {
			t.Errorf("connected: %v", c)
		}
	}
	testkit.Eventually(t, "the ends", func() bool { return d.Engine.Stats().Active == 0 })
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.waiting) != 0 {
		t.Errorf("%d connections are still waited for", len(d.waiting))
	}
}

// Every violation of a server is answered by the client with its close code, in a
// masked frame, and ends the connection.
func TestClientViolations(t *testing.T) {
	for _, tt := range []struct {
		name, in string
		code     int
		reason   eddy.CloseReason
	}{
		{"masked", frame(0x81, "hi"), 1002, eddy.CloseProtocolError},
		{"reserved bit", serverFrame(0xc1, "x"), 1002, eddy.CloseProtocolError},
		{"reserved opcode", serverFrame(0x83, "x"), 1002, eddy.CloseProtocolError},
		{"bad UTF-8", serverFrame(0x81, "\xff"), 1007, eddy.CloseProtocolError},
		{"too large", serverFrame(0x82, strings.Repeat("x", 1001)), 1009, eddy.CloseFrameTooLarge},
		{"invalid close code", serverFrame(0x88, "\x03\xed"), 1002, eddy.CloseProtocolError},
		{"fragmented ping", serverFrame(0x09, ""), 1002, eddy.CloseProtocolError},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := make(chan string, 1)
			addr := serveOne(t, func(c net.Conn, r *http.Request) {
				_, _ = io.WriteString(c, "HTTP/1.1 101 x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: "+
					acceptKey(r.Header.Get("Sec-WebSocket-Key"))+"\r\n\r\n"+serverFrame(0x81, "before")+tt.in)
				all, _ := io.ReadAll(c)
				got <- string(all)
			})
			d := newDialer(t, Options{MaxMessage: 1000})
			m := newMessages()
			if _, err := d.Dial(t.Context(), "ws://"+addr, m); err != nil {
				t.Fatal(err)
			}
			m.want(t, "text before")
			if e := <-m.closed; e.code != tt.code {
				t.Errorf("%+v, want %d", e, tt.code)
			}
			p := parserOf(1000, 1000)()
			ev, _, ok, err := p.next([]byte(<-got))
			if !ok || err != nil || ev.op != opClose || int(ev.data[0])<<8|int(ev.data[1]) != tt.code {
				t.Errorf("the server got %+v, %v", ev, err)
			}
			testkit.Eventually(t, tt.reason.String(), func() bool { return d.Engine.Stats().Closed[tt.reason] == 1 })
		})
	}
}

// Masking keys come from the source that was given, a fresh one for each frame.
func TestMaskKeys(t *testing.T) {
	s := start(t, Options{})
	d := newDialer(t, Options{})
	keys := &counter{}
	d.MaskKeys = func() MaskKeys { return keys }
	m := newMessages()
	c, err := d.Dial(t.Context(), "ws://"+s.addr, m)
	if err != nil {
		t.Fatal(err)
	}
	for range 10 {
		if err := c.Write(Text, []byte("masked")); err != nil {
			t.Fatal(err)
		}
		m.want(t, "text masked")
	}
	if keys.n != 11 { // zero was passed over
		t.Errorf("%d keys drawn for 10 frames", keys.n)
	}
	a, b := newMaskKeys(), newMaskKeys()
	if a.Uint64() == b.Uint64() {
		t.Error("two sources begin alike")
	}
}

type counter struct{ n uint64 }

func (c *counter) Uint64() uint64 {
	c.n++
	return c.n - 1
}

// Pings go both ways: the client's keep-alive finds a dead server, Ping reaches
// the PongHandler.
func TestClientPings(t *testing.T) {
	s := start(t, Options{})
	h := &ponger{messages: newMessages(), pongs: make(chan string, 1)}
	c := s.client(h, Options{})
	err := c.Ping([]byte("how far"))
	if err != nil {
		t.Fatal(err)
	}
	if got := <-h.pongs; got != "how far" {
		t.Errorf("pong %q", got)
	}
	if err := c.Ping(make([]byte, 126)); err == nil {
		t.Error("a ping of 126 bytes was taken")
	}
	addr := serveOne(t, func(c net.Conn, r *http.Request) {
		_, _ = io.WriteString(c, "HTTP/1.1 101 x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: "+
			acceptKey(r.Header.Get("Sec-WebSocket-Key"))+"\r\n\r\n")
		_, _ = io.Copy(io.Discard, c) // half-open: it reads and never answers
	})
	d := newDialer(t, Options{PingInterval: interval, PongTimeout: answer})
	clock := enginetest.NewClock(t, d.Engine)
	e := newEcho()
	if c, err = d.Dial(t.Context(), "ws://"+addr, e); err != nil {
		t.Fatal(err)
	}
	clock.Advance(interval + tick)
	clock.Advance(answer - tick)
	if err := c.conn.CloseError(); err != nil {
		t.Fatalf("before the time for an answer is over: %v", err)
	}
	clock.Advance(2 * tick)
	if end := testkit.Receive(t, "the end", e.closed); end.code != CloseAbnormal {
		t.Errorf("%+v", end)
	}
	testkit.Eventually(t, "idle_timeout", func() bool { return d.Engine.Stats().Closed[eddy.CloseIdleTimeout] == 1 })
}

type ponger struct {
	*messages
	pongs chan string
}

func (p *ponger) HandlePong(_ *Conn, data []byte) { p.pongs <- string(data) }

// Shutdown of the dialer sends 1001 to the servers. It does not wait for a server that does not end its side in time.
func TestClientCloses(t *testing.T) {
	s := start(t, Options{})
	d := newDialer(t, Options{})
	m := newMessages()
	if _, err := d.Dial(t.Context(), "ws://"+s.addr, m); err != nil {
		t.Fatal(err)
	}
	ctx := testkit.Context(t)
	if r, err := d.Shutdown(ctx); err != nil || r.Drained != 1 {
		t.Errorf("%+v, %v", r, err)
	}
	s.wantEnd(1001, "")
	if _, err := d.Dial(t.Context(), "ws://"+s.addr, m); !errors.Is(err, eddy.ErrDialerClosed) {
		t.Errorf("Dial after Shutdown: %v", err)
	}
	// A server that answers the close frame and does not end the connection.
	ended := make(chan struct{})
	addr := serveOne(t, func(c net.Conn, r *http.Request) {
		_, _ = io.WriteString(c, "HTTP/1.1 101 x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: "+
			acceptKey(r.Header.Get("Sec-WebSocket-Key"))+"\r\n\r\n"+serverFrame(0x88, "\x03\xe8"))
		_, _ = io.Copy(io.Discard, c)
		close(ended)
	})
	d = newDialer(t, Options{CloseTimeout: answer})
	clock := enginetest.NewClock(t, d.Engine)
	e := newEcho()
	c, err := d.Dial(t.Context(), "ws://"+addr, e)
	if err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "the close frame", func() (over bool) {
		onLoop(t, c.Eddy().Loop(), func() { over = c.over })
		return over
	})
	clock.Advance(answer - tick)
	select {
	case <-ended:
		t.Error("the client did not wait for the server")
	default:
	}
	clock.Advance(2 * tick)
	testkit.Receive(t, "the client to end the connection", ended)
	if end := testkit.Receive(t, "the end", e.closed); end.code != 1000 {
		t.Errorf("%+v", end)
	}
}
