package netsys

import (
	"net"
	"testing"

	"github.com/go-eddy/eddy/internal/sys"
	"github.com/go-eddy/eddy/internal/testkit"
)

// TestAcceptLast: every connection is found before the end is reported: in the system's queue, with the goroutine or in
// our queue. What the peers have sent is found with them, and no call waits for more.
func TestAcceptLast(t *testing.T) {
	for _, network := range []string{"tcp", "unix"} {
		t.Run(network, func(t *testing.T) {
			for range 20 {
				sock := New().NewSockets()
				address := "127.0.0.1:0"
				if network == "unix" {
					address = t.TempDir() + "/socket"
				}
				l := listen(t, sock, network, address, sys.ListenOptions{})
				if _, _, err := sock.Accept(l.FD); err != sys.ErrAgain { // starts the goroutine
					t.Fatal(err)
				}
				const waiting = 2*acceptAhead + 5
				for range waiting {
					c, err := net.Dial(network, l.Addr.String())
					must(t, err)
					defer c.Close()
					_, err = c.Write([]byte("hello"))
					must(t, err)
				}
				for i := range waiting {
					fd, _, err := sock.AcceptLast(l.FD)
					if err != nil {
						t.Fatalf("%d of %d accepted: %v", i, waiting, err)
					}
					p := make([]byte, 10)
					if n, err := sock.Read(fd, p); string(p[:n]) != "hello" {
						t.Fatalf("connection %d has brought %q, %v", i, p[:n], err)
					}
					must(t, sock.Close(fd))
				}
				for range 2 {
					if _, _, err := sock.AcceptLast(l.FD); err != sys.ErrAgain {
						t.Fatalf("after the last: %v", err)
					}
				}
				must(t, sock.Close(l.FD))
			}
		})
	}
}

// holding is a listener whose connections stay in Accept until the gate opens.
type holding struct {
	*net.TCPListener
	has  chan struct{}
	gate chan struct{}
}

func (l *holding) Accept() (net.Conn, error) {
	c, err := l.TCPListener.Accept()
	if err == nil {
		l.has <- struct{}{}
		<-l.gate
	}
	return c, err
}

// TestAcceptLastWaitsForTheGoroutine: a connection that the system has given to the goroutine, and that is not in our
// queue yet, is not left behind.
func TestAcceptLastWaitsForTheGoroutine(t *testing.T) {
	s := New()
	sock := s.NewSockets()
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	ln := &holding{inner.(*net.TCPListener), make(chan struct{}, 1), make(chan struct{})}
	l, err := s.newListener(ln, nil)
	must(t, err)
	defer sock.Close(l.fd)
	if _, _, err := sock.Accept(l.fd); err != sys.ErrAgain { // starts the goroutine
		t.Fatal(err)
	}
	c, err := net.Dial("tcp", inner.Addr().String())
	must(t, err)
	defer c.Close()
	testkit.Receive(t, "the goroutine to have it", ln.has)
	found := make(chan error, 1)
	go func() {
		fd, _, err := sock.AcceptLast(l.fd)
		if err == nil {
			err = sock.Close(fd)
		}
		found <- err
	}()
	testkit.Eventually(t, "the goroutine to be called back", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.recalled || len(found) > 0
	})
	close(ln.gate)
	if err := testkit.Receive(t, "the connection", found); err != nil {
		t.Errorf("it was left behind: %v", err)
	}
}
