// Package enginetest runs engines in tests. It has servers whose limits are far away, and a barrier that makes their
// numbers current. It also has sockets with small buffers of a known size, and peers that follow a script.
// docs/testing.md says when to use which.
package enginetest

import (
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/internal/testkit"
)

// farAway is longer than any test.
const farAway = time.Hour

// Serve lets srv listen on a free port of the loopback interface until the end of the test and returns the address.
// Limits that the test has not set are far away instead of at their default, so that a busy machine ends nothing. A
// server without a Logger is silent.
func Serve(t testing.TB, srv *eddy.Server) string {
	t.Helper()
	Relax(srv)
	if err := srv.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = srv.Close() })
	return srv.Addr().String()
}

// Relax moves the limits of srv far away that would have a default. Limits that the test has set stay.
func Relax(srv *eddy.Server) {
	setDefault(&srv.FlushTimeout, farAway)
	setDefault(&srv.LingerTimeout, farAway)
	setDefault(&srv.MemoryBudget, -1)
	setDefault(&srv.KeepAlive, -1)
	setDefault(&srv.Logger, slog.New(slog.DiscardHandler))
	if srv.Group != nil {
		RelaxGroup(srv.Group)
	}
	if srv.Boss != nil {
		RelaxGroup(srv.Boss)
	}
}

// RelaxGroup does for a group that is not started what Relax does for a server. A loop that gets no processor for a
// while is then no stall.
func RelaxGroup(g *eddy.Group) {
	setDefault(&g.StallThreshold, -1)
	setDefault(&g.Logger, slog.New(slog.DiscardHandler))
}

// RelaxDialer does for a dialer what Relax does for a server.
func RelaxDialer(d *eddy.Dialer) {
	setDefault(&d.ConnectTimeout, farAway)
	setDefault(&d.FlushTimeout, farAway)
	setDefault(&d.LingerTimeout, farAway)
	setDefault(&d.Logger, slog.New(slog.DiscardHandler))
	if d.Group != nil {
		RelaxGroup(d.Group)
	}
}

func setDefault[T comparable](field *T, far T) {
	var zero T
	if *field == zero {
		*field = far
	}
}

// Barrier returns when srv.Stats shows everything that the workers of srv had done before the call. A task goes through
// each loop, and an iteration ends after it. Use it instead of waiting until a number has been published. Any goroutine
// but a loop's.
func Barrier(t testing.TB, srv *eddy.Server) {
	t.Helper()
	for i, l := range srv.Workers() {
		through(t, l)
		for seen := srv.Stats().Loops[i].Iterations; srv.Stats().Loops[i].Iterations == seen; {
			through(t, l)
		}
	}
}

// Stats returns the numbers of srv after a Barrier.
func Stats(t testing.TB, srv *eddy.Server) eddy.Stats {
	t.Helper()
	Barrier(t, srv)
	return srv.Stats()
}

// through returns when a task posted to l now has run. Tasks that were posted before have then run, too.
func through(t testing.TB, l *eddy.Loop) {
	t.Helper()
	ran := make(chan struct{})
	if err := l.Post(func() { close(ran) }); err != nil {
		t.Fatalf("the barrier cannot pass: %v", err)
	}
	testkit.Receive(t, "a task to pass through a loop", ran)
}

// Buffer is the size in bytes that is asked of the kernel for small buffers. The kernel's own size is about twice as
// much and differs between systems. It is far below what a test writes to fill it.
const Buffer = 8 << 10

// Narrow gives the connections of srv small buffers, so that bytes that a peer does not read soon stay with the server. It
// sets the default watermarks, where none are set, so that they hold from the begin of a connection.
func Narrow(srv *eddy.Server) {
	srv.RecvBuffer, srv.SendBuffer = Buffer, Buffer
	if m := &srv.Watermarks; m.Low == 0 && m.High == 0 {
		m.Low, m.High = 256<<10, 1<<20
	}
}

// DialNarrow connects to addr with small buffers until the end of the test. Bytes that the test does not read soon stay
// with the server.
func DialNarrow(t testing.TB, addr string) *Peer {
	t.Helper()
	return dial(t, &net.Dialer{Control: narrow}, addr)
}

// Dial connects to addr until the end of the test.
func Dial(t testing.TB, addr string) *Peer {
	t.Helper()
	return dial(t, &net.Dialer{}, addr)
}

func dial(t testing.TB, d *net.Dialer, addr string) *Peer {
	t.Helper()
	c, err := d.DialContext(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	return Accepted(t, c)
}

// Accepted makes a Peer of a connection that a listener of the test has accepted.
func Accepted(t testing.TB, c net.Conn) *Peer {
	t.Helper()
	t.Cleanup(func() { _ = c.Close() })
	if err := c.SetDeadline(time.Now().Add(testkit.Patience)); err != nil {
		t.Fatal(err)
	}
	return &Peer{TCPConn: c.(*net.TCPConn), t: t}
}
