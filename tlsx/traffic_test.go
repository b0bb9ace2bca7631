package tlsx_test

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/buf"
	"github.com/go-eddy/eddy/http1"
	"github.com/go-eddy/eddy/internal/testkit"
	"github.com/go-eddy/eddy/tlsx"
	ews "github.com/go-eddy/eddy/websocket"
)

// TestSlowReader: a client that sends and does not read makes the server stop reading. The server holds no more than
// its watermarks, counted encrypted. When the client reads, all of it comes.
func TestSlowReader(t *testing.T) {
	const high = 256 << 10
	r := newRig(t, setup{server: func(s *eddy.Server) {
		s.Watermarks = eddy.Watermarks{Low: 64 << 10, High: high, Max: 1 << 20}
		s.SendBuffer, s.RecvBuffer = 64<<10, 64<<10
	}})
	c := r.dial(clientConfig())
	const total = 16 << 20
	sent := make(chan error, 1)
	go func() {
		block := pattern(64 << 10)
		for range total / len(block) {
			if _, err := c.Write(block); err != nil {
				sent <- err
				return
			}
		}
		sent <- nil
	}()
	var most int64
	testkit.Eventually(t, "the high watermark", func() bool {
		st := r.srv.Stats()
		most = max(most, st.Memory.Outbound)
		return st.Loops[0].OutboundPauses+st.Loops[1].OutboundPauses > 0
	})
	before := r.srv.Stats()
	var in uint64
	looks := 0 // with the same number
	testkit.Eventually(t, "the end of reading", func() bool {
		st := r.srv.Stats()
		most = max(most, st.Memory.Outbound)
		if now := st.Loops[0].BytesIn + st.Loops[1].BytesIn; now != in {
			in, looks = now, 0
		}
		looks++
		return looks > 10
	})
	if limit := int64(high + 32<<10); most > limit {
		t.Errorf("%d bytes were held, limit %d", most, limit)
	}
	if before.Closed[eddy.CloseBackpressureLimit] > 0 {
		t.Error("closed")
	}
	block := pattern(64 << 10)
	got := make([]byte, len(block))
	for i := range total / len(block) {
		if _, err := io.ReadFull(c, got); err != nil {
			t.Fatalf("block %d: %v", i, err)
		}
		if string(got) != string(block) {
			t.Fatalf("block %d is wrong", i)
		}
	}
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "nothing to be held", func() bool {
		m := r.srv.Stats().Memory
		return m.Outbound == 0 && m.Inbound == 0
	})
}

// TestOverflow: one message may be larger than every bound. Beyond Max the connection closes with its usual reason, and
// a server that rejects keeps its stream whole.
func TestOverflow(t *testing.T) {
	app := func(p *eddy.Pipeline) error {
		return p.Add("app", eddy.Handle(func(ctx *eddy.Context, b *buf.Bytes) error {
			for i := range 3 {
				if err := ctx.Write(make([]byte, 5<<20)); err != nil && i == 0 {
					return err
				}
			}
			return ctx.Write("end")
		}))
	}
	marks := eddy.Watermarks{Low: 1 << 10, High: 64 << 10, Max: 4 << 20}
	r := newRig(t, setup{add: app, server: func(s *eddy.Server) { s.Watermarks, s.Overflow = marks, eddy.OverflowReject }})
	c := r.dial(clientConfig())
	io.WriteString(c, "x")
	if _, err := io.ReadFull(c, make([]byte, 5<<20)); err != nil {
		t.Fatalf("the message that was taken: %v", err)
	}
	c.Close()
	r.end()
	r = newRig(t, setup{add: app, server: func(s *eddy.Server) { s.Watermarks = marks }})
	c = r.dial(clientConfig())
	io.WriteString(c, "x")
	r.wantEnd(eddy.CloseBackpressureLimit)
}

// TestPause: a pause stops the messages of a record after the current one.
func TestPause(t *testing.T) {
	conns := make(chan *eddy.Conn, 1)
	r := newRig(t, setup{add: func(p *eddy.Pipeline) error {
		p.Add("bytes", single{})
		return p.Add("app", eddy.Handle(func(ctx *eddy.Context, b *buf.Bytes) error {
			if b.Bytes()[0] == '|' {
				ctx.Conn().PauseRead()
				conns <- ctx.Conn()
			}
			return ctx.WriteBytes(b.Bytes())
		}))
	}})
	c := r.dial(clientConfig())
	io.WriteString(c, "abc|defg")
	got := make([]byte, 4)
	if _, err := io.ReadFull(c, got); err != nil || string(got) != "abc|" {
		t.Fatalf("%q, %v", got, err)
	}
	conn := <-conns
	testkit.Eventually(t, "the rest to be counted", func() bool { return r.srv.Stats().Memory.Inbound == 4 })
	conn.ResumeRead()
	if _, err := io.ReadFull(c, got); err != nil || string(got) != "defg" {
		t.Fatalf("%q, %v", got, err)
	}
}

// single is a decoder of messages of one byte.
type single struct{}

func (single) Decode(ctx *eddy.Context, view []byte) (int, error) {
	ctx.FireRead(buf.Own([]byte{view[0]}))
	return 1, nil
}

// TestHTTP: net/http's client against http1 behind the layer: keep-alive, bodies both ways, a client that shuts down.
func TestHTTP(t *testing.T) {
	pages := http1.NewHandler(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		b, err := io.ReadAll(q.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		if q.TLS == nil || q.TLS.ServerName != "localhost" {
			t.Errorf("the handler sees %v", q.TLS)
		}
		_, _ = io.WriteString(w, q.Method+" "+q.URL.Path+" ")
		_, _ = w.Write(b)
	}), newPool(t, 4), http1.Options{HeaderTimeout: time.Hour})
	r := newRig(t, setup{add: pages.Init})
	tr := &http.Transport{TLSClientConfig: clientConfig(), MaxIdleConnsPerHost: 4}
	hc := &http.Client{Transport: tr, Timeout: time.Hour}
	for i, body := range []string{"", "short", strings.Repeat("long", 1<<18)} {
		resp, err := hc.Post("https://"+r.addr+"/path", "text/plain", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || string(b) != "POST /path "+body || resp.TLS == nil {
			t.Errorf("request %d: %d bytes, %v", i, len(b), err)
		}
	}
	if n := r.layer.Stats().Established; n != 1 {
		t.Errorf("%d connections, want one", n)
	}
	tr.CloseIdleConnections()
	r.wantEnd(eddy.ClosePeerClosed)
}

// sharedNoter counts the bytes that reach the layer in counted buffers.
type sharedNoter struct{ n *atomic.Int64 }

func (s sharedNoter) HandleWrite(ctx *eddy.Context, msg any) error {
	if b, ok := msg.(*buf.Shared); ok {
		s.n.Add(int64(b.Len()))
	}
	return ctx.Write(msg)
}

// TestFilesOverHTTP: files go through TLS in buffers of the engine, whole and in ranges, and every buffer goes back. Only an
// eddy.File is refused, because the kernel would send it unencrypted.
func TestFilesOverHTTP(t *testing.T) {
	dir := t.TempDir()
	content := pattern(300 << 10)
	if err := os.WriteFile(filepath.Join(dir, "file.bin"), content, 0o600); err != nil {
		t.Fatal(err)
	}
	pages := http1.NewHandler(http.FileServer(http.Dir(dir)), newPool(t, 2), http1.Options{HeaderTimeout: time.Hour})
	var shared atomic.Int64
	var pool atomic.Pointer[buf.SharedPool]
	r := newRig(t, setup{add: func(p *eddy.Pipeline) error {
		pool.Store(p.Conn().Buffers())
		return errors.Join(p.Add("noter", sharedNoter{&shared}), pages.Init(p))
	}})
	tr := &http.Transport{TLSClientConfig: clientConfig()}
	defer tr.CloseIdleConnections()
	hc := &http.Client{Transport: tr, Timeout: time.Hour}
	for _, c := range []struct {
		span   string
		status int
		want   []byte
	}{{"", 200, content}, {"bytes=1000-280999", 206, content[1000:281000]}} {
		q, err := http.NewRequest("GET", "https://"+r.addr+"/file.bin", nil)
		if err != nil {
			t.Fatal(err)
		}
		if c.span != "" {
			q.Header.Set("Range", c.span)
		}
		resp, err := hc.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != c.status || !bytes.Equal(b, c.want) {
			t.Errorf("%q: %d, %d bytes of %d, %v", c.span, resp.StatusCode, len(b), len(c.want), err)
		}
		if n := shared.Swap(0); n < int64(len(c.want))-1024 {
			t.Errorf("%q: %d bytes in buffers of the engine, want nearly all %d", c.span, n, len(c.want))
		}
	}
	testkit.Eventually(t, "every buffer back", func() bool { return pool.Load().Live() == 0 })
}

// TestFileShortenedOverTLS: a file that is shorter than its Content-Length ends the connection within the response.
func TestFileShortenedOverTLS(t *testing.T) {
	const size = 200 << 10
	name := filepath.Join(t.TempDir(), "file.bin")
	if err := os.WriteFile(name, pattern(size), 0o600); err != nil {
		t.Fatal(err)
	}
	sent := make(chan int64, 1)
	pages := http1.NewHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		f, err := os.Open(name)
		if err != nil {
			t.Error(err)
			return
		}
		defer f.Close()
		w.Header().Set("Content-Length", strconv.Itoa(size+1))
		n, err := io.Copy(w, f)
		if err != nil {
			t.Error(err)
		}
		sent <- n
	}), newPool(t, 2), http1.Options{HeaderTimeout: time.Hour})
	r := newRig(t, setup{add: pages.Init})
	tr := &http.Transport{TLSClientConfig: clientConfig()}
	defer tr.CloseIdleConnections()
	resp, err := (&http.Client{Transport: tr, Timeout: time.Hour}).Get("https://" + r.addr + "/")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if n := <-sent; n != size || !errors.Is(err, io.ErrUnexpectedEOF) || !bytes.Equal(b, pattern(size)) {
		t.Errorf("%d bytes sent, %d received, %v", n, len(b), err)
	}
}

// TestTransport: http1's client over TLS against http1's server over TLS, as an http.RoundTripper.
func TestTransport(t *testing.T) {
	pages := http1.NewHandler(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		b, err := io.ReadAll(q.Body)
		if err == nil {
			_, _ = w.Write(append(b, '!'))
		}
	}), newPool(t, 2), http1.Options{HeaderTimeout: time.Hour})
	r := newRig(t, setup{add: pages.Init})
	_, port, _ := strings.Cut(r.addr, ":")
	for name, c := range map[string]struct {
		config *tls.Config
		host   string
		want   string
	}{
		"good":      {&tls.Config{RootCAs: roots(cert())}, "localhost", ""},
		"authority": {&tls.Config{RootCAs: roots()}, "localhost", "unknown authority"},
	} {
		secure, err := tlsx.Secure(c.config, newPool(t, 2), tlsx.Options{Logger: quiet()})
		if err != nil {
			t.Fatal(err)
		}
		tr := &http1.Transport{Secure: secure}
		hc := &http.Client{Transport: tr, Timeout: time.Hour}
		for range 2 {
			resp, err := hc.Post("https://"+c.host+":"+port+"/", "text/plain", strings.NewReader(strings.Repeat("x", 100000)))
			if c.want != "" {
				if err == nil || !strings.Contains(err.Error(), "x509") {
					t.Errorf("%s: %v, want %q", name, err, c.want)
				}
				continue
			}
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			b, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if err != nil || len(b) != 100001 {
				t.Errorf("%s: %d bytes, %v", name, len(b), err)
			}
		}
		if err := tr.Close(); err != nil {
			t.Error(err)
		}
	}
	if n := r.layer.Stats().Established; n != 1 {
		t.Errorf("%d connections, want one for both requests", n)
	}
}

type wsEcho struct{}

func (wsEcho) HandleOpen(*ews.Conn) error { return nil }
func (wsEcho) HandleMessage(c *ews.Conn, op ews.Opcode, data []byte) error {
	return c.Write(op, append([]byte(nil), data...))
}
func (wsEcho) HandleClose(*ews.Conn, int, string) {}

// TestWebSocket: another library's client over wss: the upgrade changes the decoder behind the layer.
func TestWebSocket(t *testing.T) {
	pages := http1.NewHandler(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		_, _ = ews.Upgrade(w, q, wsEcho{}, ews.Options{})
	}), newPool(t, 2), http1.Options{HeaderTimeout: time.Hour})
	r := newRig(t, setup{add: pages.Init})
	tr := &http.Transport{TLSClientConfig: clientConfig()}
	ctx := testkit.Context(t)
	c, _, err := websocket.Dial(ctx, "wss://"+r.addr+"/", &websocket.DialOptions{HTTPClient: &http.Client{Transport: tr}})
	if err != nil {
		t.Fatal(err)
	}
	c.SetReadLimit(1 << 20)
	for _, n := range []int{0, 1, 1000, 60000, 200000} {
		if err := c.Write(ctx, websocket.MessageBinary, pattern(n)); err != nil {
			t.Fatal(err)
		}
		_, b, err := c.Read(ctx)
		if err != nil || string(b) != string(pattern(n)) {
			t.Fatalf("%d bytes: %d came back, %v", n, len(b), err)
		}
	}
	if err := c.Close(websocket.StatusNormalClosure, ""); err != nil {
		t.Error(err)
	}
	r.end()
}

// FuzzServer gives the server bytes, before or after a handshake: it must answer or close, and serve others.
func FuzzServer(f *testing.F) {
	for _, s := range []string{"", "\x16\x03\x01\x00\x05hello", "\x16\x03\x03\x00\x04\x01\x00\x00\x00", "\x15\x03\x03\x00\x02\x02\x28", "\x17\x03\x03\x00\x01x",
		"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "GET / HTTP/1.0\r\n\r\n", "\x14\x03\x03\x00\x01\x01", "\x17\x03\x03\xff\xff"} {
		f.Add([]byte(s), false)
		f.Add([]byte(s), true)
	}
	pool := newPool(f, 2)
	r := newRig(f, setup{pool: pool, o: tlsx.Options{Timeout: time.Hour}})
	config := clientConfig()
	f.Fuzz(func(t *testing.T, in []byte, shake bool) {
		r := &rig{t: t, srv: r.srv, layer: r.layer, ends: r.ends, addr: r.addr}
		raw := r.raw()
		if shake {
			if err := tls.Client(raw, config).Handshake(); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := raw.Write(in); err == nil {
			_ = raw.(interface{ CloseWrite() error }).CloseWrite()
			_, _ = io.Copy(io.Discard, raw)
		}
		raw.Close()
		e := r.end()
		switch e.Reason {
		case eddy.CloseHandshakeFailed, eddy.CloseProtocolError, eddy.CloseIncompleteRequest, eddy.CloseIOError, eddy.ClosePeerClosed:
		default:
			t.Fatalf("%v", e)
		}
		if r.srv.Stats().Loops[0].Panics+r.srv.Stats().Loops[1].Panics > 0 {
			t.Fatal("a panic")
		}
	})
}
