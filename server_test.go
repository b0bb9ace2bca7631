package eddy_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/buf"
)

func TestMain(m *testing.M) {
	if runRole() {
		return
	}
	goleak.VerifyTestMain(m)
}

// echo answers every byte with itself.
var echo = eddy.Handle(func(ctx *eddy.Context, m *buf.Bytes) error { return ctx.WriteBytes(m.Bytes()) })

// start serves s on a free port and stops it with the test.
func start(t testing.TB, s *eddy.Server) string {
	t.Helper()
	if err := s.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s.Addr().String()
}

// dial connects to addr and closes with the test. Its deadline is for all that the test does with the connection.
func dial(t testing.TB, addr string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(5 * time.Minute)); err != nil {
		t.Fatal(err)
	}
	return c
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
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	closed := make(chan error, 1)
	go func() {
		_, err := c.Read(make([]byte, 1))
		c.Close()
		closed <- err
	}()
	report, err := s.Shutdown(ctx)
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
