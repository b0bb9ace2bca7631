package netsys

import (
	"io"
	"net"
	"testing"

	"github.com/go-eddy/eddy/internal/sys"
	"github.com/go-eddy/eddy/internal/testkit"
)

// pipes is a listener in memory.
type pipes struct {
	conns chan net.Conn
	over  chan struct{}
}

func newPipes() *pipes { return &pipes{make(chan net.Conn), make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.over:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { close(p.over); return nil }
func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "memory", Net: "memory"} }

func (p *pipes) dial() net.Conn {
	near, far := net.Pipe()
	p.conns <- far
	return near
}

// TestListenOn: a listener that is no socket brings connections that are read and written as others are. The end of our
// side ends both. The last of its connections are served before it closes.
func TestListenOn(t *testing.T) {
	p := newPipes()
	system := New()
	s := system.NewSockets()
	l, err := s.Listen("", "", sys.ListenOptions{On: p})
	must(t, err)
	if l.Addr.String() != "memory" {
		t.Errorf("address %v", l.Addr)
	}
	if _, _, err := s.Accept(l.FD); err != sys.ErrAgain {
		t.Fatalf("nobody has come: %v", err)
	}
	client := p.dial()
	fd := accept(t, s, l)
	go io.WriteString(client, "ping")
	buf := make([]byte, 16)
	n, err := again(t, func() (int, error) { return s.Read(fd, buf) })
	if err != nil || string(buf[:n]) != "ping" {
		t.Errorf("read %q, %v", buf[:n], err)
	}
	if _, err := s.Write(fd, []byte("pong")); err != nil {
		t.Error(err)
	}
	must(t, s.ShutdownWrite(fd))
	if got, err := io.ReadAll(client); string(got) != "pong" || err != nil {
		t.Errorf("the client read %q, %v", got, err)
	}
	last := p.dial()
	defer last.Close()
	node, err := system.table.lookup(l.FD)
	must(t, err)
	testkit.Eventually(t, "the goroutine to bring it", node.what.(*listener).brought) // after a while it comes too late
	taken := 0
	testkit.Eventually(t, "the last connection", func() bool {
		lfd, _, err := s.AcceptLast(l.FD)
		if err == nil {
			taken++
			must(t, s.Close(lfd))
		}
		return err == sys.ErrAgain
	})
	if taken != 1 {
		t.Errorf("%d connections taken at the end, want 1", taken)
	}
	must(t, s.Close(l.FD))
}

// TestTake: a connection that somebody else has made is read and written as others are.
func TestTake(t *testing.T) {
	near, far := net.Pipe()
	s := New().NewSockets()
	fd, _, err := s.Take(far)
	must(t, err)
	if _, err := s.Write(fd, []byte("hello")); err != nil {
		t.Error(err)
	}
	must(t, s.Close(fd))
	if got, err := io.ReadAll(near); string(got) != "hello" || err != nil {
		t.Errorf("the peer read %q, %v", got, err)
	}
}
