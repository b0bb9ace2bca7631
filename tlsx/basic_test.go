package tlsx_test

import (
	"crypto/tls"
	"errors"
	"io"
	"math/rand"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/buf"
	"github.com/go-eddy/eddy/codec/line"
	"github.com/go-eddy/eddy/internal/testkit"
	"github.com/go-eddy/eddy/tlsx"
)

// TestEcho: crypto/tls on the other side, both versions, sizes around those of records.
func TestEcho(t *testing.T) {
	for name, config := range versions() {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, setup{})
			c := r.dial(config)
			for _, n := range []int{1, 2, 100, 16383, 16384, 16385, 40000, 300000} {
				echoed(t, c, pattern(n))
			}
			if err := c.Close(); err != nil {
				t.Fatal(err)
			}
			r.wantEnd(eddy.ClosePeerClosed)
			if st := r.layer.Stats(); st.Established != 1 || st.Active != 0 || st.Failed != 0 || st.Truncated != 0 {
				t.Errorf("%+v", st)
			}
		})
	}
}

// TestFragments: records that come a few bytes at a time, handshake included.
func TestFragments(t *testing.T) {
	for name, config := range versions() {
		for pieces, size := range map[string]func() int{
			"1": func() int { return 1 },
			"1 to 7": func() func() int {
				rnd := rand.New(rand.NewSource(1))
				return func() int { return 1 + rnd.Intn(7) }
			}(),
		} {
			t.Run(name+" by "+pieces, func(t *testing.T) {
				r := newRig(t, setup{})
				var mu sync.Mutex
				c := tls.Client(drip{r.raw(), func() int { mu.Lock(); defer mu.Unlock(); return size() }}, config)
				echoed(t, c, pattern(1))
				echoed(t, c, pattern(5000))
				c.Close()
				r.wantEnd(eddy.ClosePeerClosed)
			})
		}
	}
}

// TestBehindDecoder: the layer feeds a decoder, with messages that span records and records that hold several messages.
func TestBehindDecoder(t *testing.T) {
	r := newRig(t, setup{add: func(p *eddy.Pipeline) error {
		p.Add("lines", line.Codec(100000))
		return p.Add("app", eddy.Handle(func(ctx *eddy.Context, l *line.Line) error {
			return ctx.Write(append(append([]byte(nil), l.Text()...), '!', '\n'))
		}))
	}})
	c := r.dial(clientConfig())
	long := strings.Repeat("x", 50000)
	var want strings.Builder
	var all strings.Builder
	for i := range 300 {
		s := strings.Repeat("y", i%40)
		all.WriteString(s + "\n")
		want.WriteString(s + "!\n")
	}
	all.WriteString(long + "\n")
	want.WriteString(long + "!\n")
	go func() {
		s := all.String()
		for len(s) > 0 {
			n := min(len(s), 777)
			io.WriteString(c, s[:n])
			s = s[n:]
		}
	}()
	got := make([]byte, want.Len())
	if _, err := io.ReadFull(c, got); err != nil || string(got) != want.String() {
		t.Fatalf("%v; the answers differ: %v", err, string(got) != want.String())
	}
}

// records counts the records of one direction.
type records struct {
	net.Conn
	mu    sync.Mutex
	types []byte
	sizes []int
	rest  []byte
}

func (c *records) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rest = append(c.rest, p[:n]...)
	for len(c.rest) >= 5 {
		k := 5 + int(c.rest[3])<<8 + int(c.rest[4])
		if len(c.rest) < k {
			break
		}
		c.types, c.sizes = append(c.types, c.rest[0]), append(c.sizes, k-5)
		c.rest = c.rest[k:]
	}
	return n, err
}

// TestRecords: the small writes of one batch share a record, large ones fill records of 16 KiB.
func TestRecords(t *testing.T) {
	config := serverConfig()
	config.DynamicRecordSizingDisabled = true
	config.SessionTicketsDisabled = true
	r := newRig(t, setup{config: config, add: func(p *eddy.Pipeline) error {
		return p.Add("app", eddy.Handle(func(ctx *eddy.Context, b *buf.Bytes) error {
			if b.Bytes()[0] == 'L' {
				return ctx.Write(make([]byte, 100000))
			}
			for range 50 {
				if err := ctx.Write("0123456789"); err != nil {
					return err
				}
			}
			return nil
		}))
	}})
	for order, want := range map[string][]int{"S": {500}, "L": {16384, 16384, 16384, 16384, 16384, 16384, 100000 % 16384}} {
		wire := &records{Conn: r.raw()}
		c := tls.Client(wire, clientConfig())
		if err := c.Handshake(); err != nil {
			t.Fatal(err)
		}
		wire.mu.Lock()
		before := len(wire.sizes)
		wire.mu.Unlock()
		io.WriteString(c, order)
		n := 0
		for _, w := range want {
			n += w
		}
		if _, err := io.ReadFull(c, make([]byte, n)); err != nil {
			t.Fatal(err)
		}
		const overhead = 17 // content type and tag of TLS 1.3
		got := wire.sizes[before:]
		if len(got) != len(want) {
			t.Fatalf("%s: records of %v, want %v and %d each", order, got, want, overhead)
		}
		for i := range got {
			if got[i] != want[i]+overhead {
				t.Errorf("%s: record %d has %d bytes, want %d", order, i, got[i], want[i]+overhead)
			}
		}
	}
}

// TestMessageTypes: the layer takes every message that a connection takes, except a file. Counted buffers are released.
func TestMessageTypes(t *testing.T) {
	file := make(chan error, 1)
	r := newRig(t, setup{add: func(p *eddy.Pipeline) error {
		return p.Add("app", eddy.Handle(func(ctx *eddy.Context, b *buf.Bytes) error {
			pool := ctx.Conn().Buffers()
			m := new(buf.Composite)
			m.Append([]byte("f"))
			m.AppendShared(pool.Copy([]byte("g")))
			for _, msg := range []any{[]byte("a"), "b", [][]byte{[]byte("c"), []byte("d")}, pool.Copy([]byte("e")), m, buf.Own([]byte("h"))} {
				if err := ctx.Write(msg); err != nil {
					t.Error(err)
				}
			}
			file <- ctx.Write(&eddy.File{})
			if err := ctx.Write(42); err == nil {
				t.Error("a number was written")
			}
			return ctx.WriteBytes([]byte("i"))
		}))
	}})
	c := r.dial(clientConfig())
	io.WriteString(c, "go")
	got := make([]byte, 9)
	if _, err := io.ReadFull(c, got); err != nil || string(got) != "abcdefghi" {
		t.Fatalf("%q, %v", got, err)
	}
	if err := <-file; !errors.Is(err, tlsx.ErrFile) {
		t.Errorf("a file: %v", err)
	}
	if n := r.srv.Stats().LiveBuffers; n != 0 {
		t.Errorf("%d counted buffers are left", n)
	}
}

// TestFromOtherGoroutines: Conn.Write, and handlers on pools, through the layer.
func TestFromOtherGoroutines(t *testing.T) {
	pool := newPool(t, 2)
	r := newRig(t, setup{add: func(p *eddy.Pipeline) error {
		return p.Add("app", eddy.Handle(func(ctx *eddy.Context, b *buf.Bytes) error {
			if err := ctx.Write(append([]byte("pool "), b.Bytes()...)); err != nil {
				return err
			}
			return ctx.Conn().Write([]byte(" conn"))
		}), eddy.On(pool))
	}})
	c := r.dial(clientConfig())
	io.WriteString(c, "hello")
	got := make([]byte, len("pool hello conn"))
	if _, err := io.ReadFull(c, got); err != nil || string(got) != "pool hello conn" {
		t.Fatalf("%q, %v", got, err)
	}
}

// TestEarlyWrites: messages that handlers write during the handshake are sent after it, up to a bound.
func TestEarlyWrites(t *testing.T) {
	r := newRig(t, setup{o: tlsx.Options{MaxEarly: 10}, add: func(p *eddy.Pipeline) error { return p.Add("greeter", greeter{"hello", nil}) }})
	c := r.dial(clientConfig())
	got := make([]byte, 5)
	if _, err := io.ReadFull(c, got); err != nil || string(got) != "hello" {
		t.Fatalf("%q, %v", got, err)
	}
	c.Close()
	r.wantEnd(eddy.ClosePeerClosed)

	errs := make(chan error, 1)
	r = newRig(t, setup{o: tlsx.Options{MaxEarly: 10}, add: func(p *eddy.Pipeline) error { return p.Add("greeter", greeter{"hello world", errs}) }})
	r.raw()
	if err := <-errs; !errors.Is(err, tlsx.ErrEarly) || !errors.Is(err, eddy.ErrBackpressure) || !strings.Contains(err.Error(), "limit 10") {
		t.Errorf("too much: %v", err)
	}
	r.wantEnd(eddy.CloseBackpressureLimit)
}

type greeter struct {
	text string
	errs chan error
}

func (g greeter) HandleOpen(ctx *eddy.Context) error {
	err := ctx.Write(g.text)
	if g.errs != nil {
		g.errs <- err
	}
	return err
}

// TestCloseNotify: an orderly end of the server is orderly for TLS, too. Written bytes come first, then close_notify,
// and only then the end.
func TestCloseNotify(t *testing.T) {
	for name, config := range versions() {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, setup{add: func(p *eddy.Pipeline) error {
				return p.Add("app", eddy.Handle(func(ctx *eddy.Context, _ *buf.Bytes) error {
					_ = ctx.Write("bye")
					ctx.CloseAfterFlush(eddy.CloseNormal)
					if err := ctx.Write("more"); err == nil {
						t.Error("written after the end")
					}
					return nil
				}))
			}})
			wire := &records{Conn: r.raw()}
			c := tls.Client(wire, config)
			io.WriteString(c, "x")
			if b, err := io.ReadAll(c); err != nil || string(b) != "bye" {
				t.Fatalf("%q, %v", b, err)
			}
			last := wire.types[len(wire.types)-1]
			if name == "1.2" && last != 21 { // in 1.3 the type is encrypted
				t.Errorf("the last record has type %d, want that of an alert", last)
			}
			if name == "1.3" && wire.sizes[len(wire.sizes)-1] != 2+17 {
				t.Errorf("the last record has %d bytes, want those of an alert", wire.sizes[len(wire.sizes)-1])
			}
			c.Close()
			r.wantEnd(eddy.CloseNormal)
		})
	}
}

// TestHalfClose: after the client's close_notify the answers in flight still come, and then the server's own end.
func TestHalfClose(t *testing.T) {
	pool := newPool(t, 1)
	hold := make(chan struct{})
	r := newRig(t, setup{add: func(p *eddy.Pipeline) error {
		return p.Add("app", eddy.Handle(func(ctx *eddy.Context, b *buf.Bytes) error {
			<-hold
			return ctx.Write("late " + string(b.Bytes()))
		}), eddy.On(pool))
	}})
	c := r.dial(clientConfig())
	io.WriteString(c, "answer")
	if err := c.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	close(hold)
	if b, err := io.ReadAll(c); err != nil || string(b) != "late answer" {
		t.Fatalf("%q, %v", b, err)
	}
	r.wantEnd(eddy.ClosePeerClosed)
}

// TestCloseWrite: the end of our side reaches the client in TLS and in TCP, after the written bytes. The client's later
// bytes are read, and its end ends the connection.
func TestCloseWrite(t *testing.T) {
	for name, config := range versions() {
		t.Run(name, func(t *testing.T) {
			got := make(chan string, 1)
			r := newRig(t, setup{add: func(p *eddy.Pipeline) error {
				return p.Add("app", eddy.Handle(func(ctx *eddy.Context, b *buf.Bytes) error {
					if s := string(b.Bytes()); s != "end yours" {
						got <- s
						return nil
					}
					_ = ctx.Write("the last ")
					c := ctx.Conn()
					return errors.Join(c.Write("words"), c.CloseWrite())
				}))
			}})
			c := r.dial(config)
			io.WriteString(c, "end yours")
			if b, err := io.ReadAll(c); err != nil || string(b) != "the last words" {
				t.Fatalf("%q, %v", b, err)
			}
			io.WriteString(c, "and now mine")
			if s := testkit.Receive(t, "what the client sends behind it", got); s != "and now mine" {
				t.Errorf("%q came behind it", s)
			}
			if err := c.CloseWrite(); err != nil {
				t.Fatal(err)
			}
			r.wantEnd(eddy.ClosePeerClosed)
			if n := r.layer.Stats().Truncated; n != 0 {
				t.Errorf("%d truncated", n)
			}
		})
	}
}

// TestTruncation: an end without close_notify differs from an orderly one, and from one inside a record or a message.
func TestTruncation(t *testing.T) {
	lines := func(p *eddy.Pipeline) error {
		p.Add("lines", line.Codec(1000))
		return p.Add("app", eddy.Handle(func(ctx *eddy.Context, l *line.Line) error { return ctx.Write("ok") }))
	}
	for name, c := range map[string]struct {
		do    func(raw net.Conn, c *tls.Conn)
		want  eddy.CloseReason
		cause error
	}{
		"orderly":          {func(_ net.Conn, c *tls.Conn) { c.Close() }, eddy.ClosePeerClosed, nil},
		"cut":              {func(raw net.Conn, _ *tls.Conn) { raw.Close() }, eddy.CloseIOError, tlsx.ErrTruncated},
		"inside a record":  {func(raw net.Conn, _ *tls.Conn) { raw.Write([]byte{23, 3, 3, 0, 50, 1}); raw.Close() }, eddy.CloseIncompleteRequest, nil},
		"inside a message": {func(raw net.Conn, c *tls.Conn) { io.WriteString(c, "half"); c.Close() }, eddy.CloseIncompleteRequest, nil},
		"cut in a message": {func(raw net.Conn, c *tls.Conn) { io.WriteString(c, "half"); raw.Close() }, eddy.CloseIncompleteRequest, nil},
	} {
		for _, half := range []bool{false, true} {
			r := newRig(t, setup{add: lines, server: func(s *eddy.Server) { s.CloseOnEOF = !half }})
			raw := r.raw()
			tc := tls.Client(raw, clientConfig())
			io.WriteString(tc, "line\n")
			if _, err := io.ReadFull(tc, make([]byte, 2)); err != nil {
				t.Fatal(err)
			}
			c.do(raw, tc)
			e := r.end()
			if e.Reason != c.want || c.cause != nil && !errors.Is(e.Err, c.cause) {
				t.Errorf("%s, half-close %v: %v, want %v, %v", name, half, e, c.want, c.cause)
			}
			if n := r.layer.Stats().Truncated; (n == 1) != (name != "orderly" && name != "inside a message") {
				t.Errorf("%s: %d truncated", name, n)
			}
		}
	}
}

// TestReadTimeoutOfARecord: the engine's deadlines hold for records and for the messages inside.
func TestReadTimeoutOfARecord(t *testing.T) {
	add := func(p *eddy.Pipeline) error {
		p.Add("lines", line.Codec(1000))
		return p.Add("app", eddy.Handle(func(ctx *eddy.Context, l *line.Line) error { return nil }))
	}
	for name, send := range map[string]func(raw net.Conn, c *tls.Conn){
		"record":  func(raw net.Conn, _ *tls.Conn) { raw.Write([]byte{23, 3, 3, 0, 50, 1}) },
		"message": func(_ net.Conn, c *tls.Conn) { io.WriteString(c, "half") },
	} {
		r := newRig(t, setup{add: add, clock: true, server: func(s *eddy.Server) { s.ReadTimeout = timeout }})
		raw := r.raw()
		c := tls.Client(raw, clientConfig())
		if err := c.Handshake(); err != nil {
			t.Fatal(err)
		}
		testkit.Eventually(t, "the handshake's last bytes", func() bool { return r.layer.Stats().Established == 1 })
		before := r.bytesIn()
		send(raw, c)
		testkit.Eventually(t, "the server to read", func() bool { return r.bytesIn() > before })
		r.expire(timeout)
		if e := r.end(); e.Reason != eddy.CloseReadTimeout {
			t.Errorf("%s: %v", name, e)
		}
	}
}
