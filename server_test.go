package eddy_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"testing"

	"go.uber.org/goleak"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/buf"
	"github.com/go-eddy/eddy/internal/enginetest"
	"github.com/go-eddy/eddy/internal/testkit"
)

func TestMain(m *testing.M) {
	if runRole() {
		return
	}
	goleak.VerifyTestMain(m)
}

// echo answers every byte with itself.
var echo = eddy.Handle(func(ctx *eddy.Context, m *buf.Bytes) error { return ctx.WriteBytes(m.Bytes()) })

// start serves s on a free port and stops it with the test. Limits that the test does not set are far away.
func start(t testing.TB, s *eddy.Server) string {
	t.Helper()
	return enginetest.Serve(t, s)
}

// dial connects to addr and closes with the test. What the test does with the connection has testkit.Patience.
func dial(t testing.TB, addr string) net.Conn {
	t.Helper()
	return enginetest.Dial(t, addr).TCPConn
}

func initWith(h any, opts ...eddy.AddOption) func(*eddy.Pipeline) error {
	return func(p *eddy.Pipeline) error { return p.Add("handler", h, opts...) }
}

func TestEcho(t *testing.T) {
	addr := start(t, &eddy.Server{Init: initWith(echo), Loops: 2})
	for i := range 10 {
		c := dial(t, addr)
		r := bufio.NewReader(c)
		for j := range 100 {
			want := fmt.Sprintf("conn %d message %d\n", i, j)
			if _, err := io.WriteString(c, want); err != nil {
				t.Fatal(err)
			}
			got, err := r.ReadString('\n')
			if err != nil || got != want {
				t.Fatalf("got %q, %v, want %q", got, err, want)
			}
		}
	}
}

func TestShutdownIdle(t *testing.T) {
	s := &eddy.Server{Init: initWith(echo), Loops: 2}
	addr := start(t, s)
	c := dial(t, addr)
	if _, err := c.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	closed := make(chan error, 1)
	go func() {
		_, err := c.Read(make([]byte, 1))
		c.Close()
		closed <- err
	}()
	report, err := s.Shutdown(testkit.Context(t))
	if err != nil || report.Drained != 1 || report.Forced != 0 {
		t.Fatalf("Shutdown = %+v, %v", report, err)
	}
	if err := <-closed; err != io.EOF {
		t.Fatalf("client read %v, want EOF", err)
	}
	if got := s.Stats().Closed[eddy.CloseServerShutdown]; got != 1 {
		t.Fatalf("closed by shutdown: %d, want 1", got)
	}
}
