package eddy_test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/buf"
	"github.com/go-eddy/eddy/internal/enginetest"
)

// memory is a listener whose connections exist in this process only.
type memory struct {
	conns chan net.Conn
	over  chan struct{}
	once  sync.Once
}

func newMemory() *memory { return &memory{conns: make(chan net.Conn), over: make(chan struct{})} }

func (m *memory) Accept() (net.Conn, error) {
	select {
	case c := <-m.conns:
		return c, nil
	case <-m.over:
		return nil, net.ErrClosed
	}
}

func (m *memory) Close() error   { m.once.Do(func() { close(m.over) }); return nil }
func (m *memory) Addr() net.Addr { return &net.UnixAddr{Name: "here", Net: "memory"} }

func (m *memory) dial() net.Conn {
	near, far := net.Pipe()
	m.conns <- far
	return near
}

func lineEcho() *eddy.Server {
	srv := &eddy.Server{Loops: 1, Logger: quiet(), Init: func(p *eddy.Pipeline) error {
		p.Add("lines", &lines{})
		return p.Add("app", eddy.Handle(func(ctx *eddy.Context, m *buf.Bytes) error { return reply(ctx, m) }))
	}}
	enginetest.Relax(srv)
	return srv
}

// echoOnce asks for one line.
func echoOnce(t *testing.T, c net.Conn) {
	t.Helper()
	if _, err := io.WriteString(c, "hello\n"); err != nil {
		t.Fatal(err)
	}
	if got, err := bufio.NewReader(c).ReadString('\n'); got != "hello\n" || err != nil {
		t.Fatalf("the echo is %q, %v", got, err)
	}
}

// TestServe: a server serves a listener that exists already, one in memory too, and closes it at its end.
func TestServe(t *testing.T) {
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	mem := newMemory()
	for _, c := range []struct {
		name   string
		ln     net.Listener
		poller string
		dial   func() net.Conn
	}{
		{"tcp", tcp, "", func() net.Conn { return dial(t, tcp.Addr().String()) }},
		{"memory", mem, "net", mem.dial},
	} {
		t.Run(c.name, func(t *testing.T) {
			srv := lineEcho()
			srv.Poller = c.poller
			done := make(chan error, 1)
			go func() { done <- srv.Serve(c.ln) }()
			client := c.dial()
			defer client.Close()
			echoOnce(t, client)
			waitFor(t, "the end of Listen, before which the loop may serve", func() bool { return srv.Addr() != nil })
			if srv.Addr().String() != c.ln.Addr().String() {
				t.Errorf("address %v, want %v", srv.Addr(), c.ln.Addr())
			}
			if err := srv.Close(); err != nil {
				t.Error(err)
			}
			if err := <-done; !errors.Is(err, eddy.ErrServerClosed) {
				t.Errorf("Serve returned %v", err)
			}
			if _, err := c.ln.Accept(); !errors.Is(err, net.ErrClosed) {
				t.Errorf("the listener after the end: %v", err)
			}
		})
	}
}

// TestServeRefuses: a listener that the server cannot serve is closed, and the error says what to do.
func TestServeRefuses(t *testing.T) {
	if os.Getenv("EDDY_POLLER") == "net" || runtime.GOOS == "windows" {
		t.Skip("the poller net serves any listener")
	}
	for want, c := range map[string]struct {
		ln       net.Listener
		topology eddy.Topology
	}{
		"the listener is nil":      {nil, eddy.SingleReactor},
		"listeners of its own":     {newMemory(), eddy.ListenerPerLoop},
		"has no descriptor":        {newMemory(), eddy.SingleReactor},
		"eddy: listen memory here": {newMemory(), eddy.BossWorkers},
	} {
		srv := lineEcho()
		srv.Topology = c.topology
		if err := srv.Serve(c.ln); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "sys:") {
			t.Errorf("%v, want %q", err, want)
		}
		if c.ln == nil {
			continue
		}
		if _, err := c.ln.Accept(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("%s: the listener stays open: %v", want, err)
		}
	}
}

// TestAdopt: a connection that was made elsewhere is served as an accepted one is, with every limit.
func TestAdopt(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	accepted := func() (client, c net.Conn) {
		client = dial(t, ln.Addr().String())
		if c, err = ln.Accept(); err != nil {
			t.Fatal(err)
		}
		return client, c
	}
	srv := lineEcho()
	srv.MaxConns = 1
	srv.Admission.OnLimit, srv.Admission.Busy = eddy.DecisionPause, func(r eddy.Refusal) []byte { return []byte(r.Cause.String()) }
	locals := make(chan net.Addr, 1)
	build := srv.Init
	srv.Init = func(p *eddy.Pipeline) error {
		locals <- net.TCPAddrFromAddrPort(p.Conn().LocalAddr())
		return build(p)
	}
	_, early := accepted()
	if err := srv.Adopt(early); err == nil || !strings.Contains(err.Error(), "before Listen") {
		t.Errorf("before Listen: %v", err)
	}
	start(t, srv)
	first, c := accepted()
	if err := srv.Adopt(c); err != nil {
		t.Fatal(err)
	}
	echoOnce(t, first)
	if got := <-locals; got.String() != ln.Addr().String() {
		t.Errorf("local address %v, want %v", got, ln.Addr())
	}
	second, c := accepted()
	if err := srv.Adopt(c); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(second); string(got) != "max_conns" || err != nil {
		t.Errorf("beyond MaxConns: %q, %v", got, err)
	}
	if st := srv.Stats(); st.Accepted != 2 || st.Refused[eddy.RefuseMaxConns] != 1 {
		t.Errorf("%d accepted, refused %v", st.Accepted, st.Refused)
	}
	if err := srv.Close(); err != nil {
		t.Error(err)
	}
	late, c := accepted()
	if err := srv.Adopt(c); !errors.Is(err, eddy.ErrServerClosed) {
		t.Errorf("after Close: %v", err)
	}
	if got, err := io.ReadAll(late); len(got) > 0 || err != nil {
		t.Errorf("adopted too late: %q, %v", got, err)
	}
}
