package http2

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	wire "golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/internal/enginetest"
	"github.com/go-eddy/eddy/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// timeout is a time of tests on a clock. A tick is longer than the interval at which streams are looked at.
const (
	timeout = time.Minute
	tick    = 2 * time.Second
)

// server is a running HTTP/2 server of a test.
type server struct {
	t    *testing.T
	srv  *eddy.Server
	f    *Factory
	pool *executor.Pool
	addr string

	clock *enginetest.Clock // with setup.clock
}

type setup struct {
	opts    Options
	pool    executor.Options
	handler http.HandlerFunc // nil: there is Options.OnLoop only
	answer  time.Duration    // the server's HandlerTimeout
	clock   bool             // the server's time is the test's
	adjust  func(*eddy.Server)
	init    func(f *Factory) func(*eddy.Pipeline) error
}

func start(t *testing.T, h http.HandlerFunc) *server { return startWith(t, setup{handler: h}) }

func startWith(t *testing.T, c setup) *server {
	t.Helper()
	if c.pool.OnPanic == nil {
		c.pool.OnPanic = func(any, []byte) {}
	}
	if c.pool.Workers == 0 {
		c.pool.Workers = 8
	}
	for _, d := range []*time.Duration{&c.opts.HeaderTimeout, &c.opts.BodyTimeout, &c.opts.IdleTimeout, &c.opts.WriteTimeout} {
		if *d == 0 {
			*d = time.Hour // a slow machine's clients are slow
		}
	}
	pool, err := executor.NewFixed(c.pool)
	if err != nil {
		t.Fatal(err)
	}
	s := &server{t: t, pool: pool, srv: &eddy.Server{Loops: 2, HandlerTimeout: c.answer}}
	if c.handler == nil && c.opts.Calls != nil {
		s.f = NewHandler(nil, pool, c.opts)
	} else if c.handler == nil {
		s.f = NewHandler(nil, nil, c.opts)
	} else {
		s.f = NewHandler(c.handler, pool, c.opts)
	}
	s.srv.Init = s.f.Init
	if c.init != nil {
		s.srv.Init = c.init(s.f)
	}
	if c.adjust != nil {
		c.adjust(s.srv)
	}
	if c.clock {
		s.clock = enginetest.NewClock(t, s.srv)
	}
	t.Cleanup(func() {
		_ = s.srv.Close()
		if _, err := pool.Shutdown(context.Background()); err != nil {
			t.Errorf("pool: %v", err)
		}
	})
	s.addr = enginetest.Serve(t, s.srv)
	return s
}

// client returns the HTTP/2 client of net/http.
func (s *server) client() *http.Client {
	p := new(http.Protocols)
	p.SetUnencryptedHTTP2(true)
	tr := &http.Transport{Protocols: p}
	s.t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: testkit.Patience}
}

func (s *server) url(path string) string { return "http://" + s.addr + path }

func (s *server) closed(reason eddy.CloseReason) uint64 { return s.srv.Stats().Closed[reason] }

// waitClosed waits until a connection has ended with the reason.
func (s *server) waitClosed(reason eddy.CloseReason) {
	s.t.Helper()
	testkit.Eventually(s.t, reason.String(), func() bool { return s.closed(reason) >= 1 })
}

// settles waits until the server holds nothing for its connections.
func (s *server) settles() {
	s.t.Helper()
	testkit.Eventually(s.t, "nothing to be held", func() bool {
		m := enginetest.Stats(s.t, s.srv).Memory
		return m.Inbound == 0 && m.Outbound == 0
	})
}

// raw is a client that speaks frames.
type raw struct {
	t    *testing.T
	conn *net.TCPConn
	*wire.Framer
	enc   *hpack.Encoder
	block bytes.Buffer
	dec   *hpack.Decoder
}

// dial connects, exchanges the prefaces and acknowledges the server's settings.
func (s *server) dial(settings ...wire.Setting) *raw {
	s.t.Helper()
	r := s.connect()
	r.send(func() error {
		if _, err := io.WriteString(r.conn, Preface); err != nil {
			return err
		}
		return r.WriteSettings(settings...)
	})
	for acked := false; !acked; {
		switch f := r.next().(type) {
		case *wire.SettingsFrame:
			if acked = f.IsAck(); !acked {
				r.send(r.WriteSettingsAck)
			}
		case *wire.WindowUpdateFrame:
		default:
			s.t.Fatalf("%v before the acknowledgement of the settings", f)
		}
	}
	return r
}

func (s *server) connect() *raw {
	s.t.Helper()
	c, err := net.Dial("tcp", s.addr)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = c.Close() })
	if err := c.SetDeadline(time.Now().Add(testkit.Patience)); err != nil {
		s.t.Fatal(err)
	}
	r := &raw{t: s.t, conn: c.(*net.TCPConn), Framer: wire.NewFramer(c, c)}
	r.AllowIllegalWrites = true
	r.enc = hpack.NewEncoder(&r.block)
	r.dec = hpack.NewDecoder(4096, nil)
	return r
}

func (r *raw) send(f func() error) {
	r.t.Helper()
	if err := f(); err != nil {
		r.t.Fatalf("sending: %v", err)
	}
}

// next reads a frame.
func (r *raw) next() wire.Frame {
	r.t.Helper()
	f, err := r.ReadFrame()
	if err != nil {
		r.t.Fatalf("reading a frame: %v", err)
	}
	return f
}

// section encodes header fields; "k: v" each.
func (r *raw) section(fields ...string) []byte {
	r.block.Reset()
	for _, f := range fields {
		i := strings.Index(f[1:], ": ") + 1
		_ = r.enc.WriteField(hpack.HeaderField{Name: f[:i], Value: f[i+2:]})
	}
	return bytes.Clone(r.block.Bytes())
}

// headersOf are the fields of a usual request.
func headersOf(method, path string, more ...string) []string {
	return append([]string{":method: " + method, ":scheme: http", ":authority: a", ":path: " + path}, more...)
}

// request sends a header section in one frame.
func (r *raw) request(id uint32, end bool, fields ...string) {
	r.t.Helper()
	block := r.section(fields...)
	r.send(func() error {
		return r.WriteHeaders(wire.HeadersFrameParam{StreamID: id, BlockFragment: block, EndHeaders: true, EndStream: end})
	})
}

func (r *raw) get(id uint32, path string, more ...string) {
	r.t.Helper()
	r.request(id, true, headersOf("GET", path, more...)...)
}

// data sends a part of a body.
func (r *raw) data(id uint32, end bool, text string) {
	r.t.Helper()
	r.send(func() error { return r.WriteData(id, end, []byte(text)) })
}

// answer is a response as it came.
type answer struct {
	fields  map[string]string
	body    string
	trailer map[string]string
	frames  int // DATA frames
	reset   *wire.ErrCode
	order   int // when its last frame came, counted over all streams
}

func (a answer) status() string { return a.fields[":status"] }

// fieldsOf decodes a header section.
func (r *raw) fieldsOf(block []byte) map[string]string {
	r.t.Helper()
	list, err := r.dec.DecodeFull(block)
	if err != nil {
		r.t.Fatal(err)
	}
	m := make(map[string]string, len(list))
	for _, f := range list {
		m[f.Name] = f.Value
	}
	return m
}

// answers reads until n streams have ended. It gives back the window of the connection, and that of the streams if update.
func (r *raw) answers(n int, update bool) map[uint32]answer {
	r.t.Helper()
	all := make(map[uint32]answer)
	ended := 0
	over := func(id uint32) {
		a := all[id]
		ended++
		a.order = ended
		all[id] = a
	}
	for ended < n {
		switch f := r.next().(type) {
		case *wire.HeadersFrame:
			a := all[f.StreamID]
			got := r.fieldsOf(f.HeaderBlockFragment())
			if a.fields == nil || strings.HasPrefix(a.fields[":status"], "1") {
				a.fields = got
			} else {
				a.trailer = got
			}
			all[f.StreamID] = a
			if f.StreamEnded() {
				over(f.StreamID)
			}
		case *wire.DataFrame:
			a := all[f.StreamID]
			a.body += string(f.Data())
			a.frames++
			all[f.StreamID] = a
			if n := uint32(len(f.Data())); n > 0 {
				r.send(func() error { return r.WriteWindowUpdate(0, n) })
				if update && !f.StreamEnded() {
					r.send(func() error { return r.WriteWindowUpdate(f.StreamID, n) })
				}
			}
			if f.StreamEnded() {
				over(f.StreamID)
			}
		case *wire.RSTStreamFrame:
			a := all[f.StreamID]
			if a.order > 0 || f.ErrCode == wire.ErrCodeNo { // it follows a whole response
				continue
			}
			a.reset = &f.ErrCode
			all[f.StreamID] = a
			over(f.StreamID)
		case *wire.GoAwayFrame:
			r.t.Fatalf("GOAWAY %v: %s", f.ErrCode, f.DebugData())
		}
	}
	return all
}

// nextData reads until a DATA frame, and decodes the header sections before it.
func (r *raw) nextData() *wire.DataFrame {
	r.t.Helper()
	for {
		switch f := r.next().(type) {
		case *wire.DataFrame:
			return f
		case *wire.HeadersFrame:
			r.fieldsOf(f.HeaderBlockFragment())
		case *wire.RSTStreamFrame, *wire.GoAwayFrame:
			r.t.Fatalf("%v in place of DATA", f)
		}
	}
}

// answer reads until stream id has ended.
func (r *raw) answer(id uint32) answer {
	r.t.Helper()
	all := r.answers(1, true)
	a, ok := all[id]
	if !ok {
		r.t.Fatalf("no answer on stream %d: %v", id, all)
	}
	return a
}

// goAway reads until the server says why the connection ends, and then to the end.
func (r *raw) goAway() (code wire.ErrCode, text string) {
	r.t.Helper()
	for {
		f, err := r.ReadFrame()
		if err != nil {
			r.t.Fatalf("no GOAWAY but %v", err)
		}
		if g, ok := f.(*wire.GoAwayFrame); ok && g.ErrCode != wire.ErrCodeNo {
			code, text = g.ErrCode, string(g.DebugData())
			break
		}
	}
	_, _ = io.Copy(io.Discard, r.conn) // a reset is an end, too
	_ = r.conn.Close()
	return code, text
}

func echo(w http.ResponseWriter, r *http.Request) {
	b, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	_, _ = fmt.Fprintf(w, "%s %s %s", r.Method, r.RequestURI, b)
}

func hello(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") }

func big(n int) string { return strings.Repeat("0123456789abcdef", (n+15)/16)[:n] }

// counter is a number that goroutines share.
type counter struct{ n atomic.Int64 }

func (c *counter) add(n int64) int64 { return c.n.Add(n) }
func (c *counter) load() int64       { return c.n.Load() }

// max raises the number to n.
func (c *counter) max(n int64) {
	for old := c.n.Load(); n > old && !c.n.CompareAndSwap(old, n); old = c.n.Load() {
	}
}
