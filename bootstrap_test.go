package eddy_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/codec/line"
	"github.com/go-eddy/eddy/internal/enginetest"
	"github.com/go-eddy/eddy/internal/testkit"
)

// A server is put together from a group of boss loops that accept, a group of worker loops that serve, and a function that
// builds the pipeline of each accepted connection; Listen makes the listener for the network it is given.
func Example_bootstrap() {
	boss, workers := &eddy.Group{Name: "boss", Loops: 1}, &eddy.Group{Name: "worker", Loops: 2}
	defer boss.Close()
	defer workers.Close()

	srv := &eddy.Server{
		Boss:  boss,
		Group: workers,

		Backlog:  128, // of the listener
		MaxConns: 10_000,

		KeepAlive:   time.Minute, // of each connection
		IdleTimeout: time.Minute,
		Watermarks:  eddy.Watermarks{Low: 32 << 10, High: 64 << 10, Max: 1 << 20},

		Init: func(p *eddy.Pipeline) error {
			p.Add("lines", line.Codec(1024))
			return p.Add("hello", eddy.Handle(func(ctx *eddy.Context, l *line.Line) error {
				return ctx.WriteBytes(fmt.Appendf(nil, "hello %s\n", l.Text()))
			}))
		},
	}
	if err := srv.Listen("tcp", "127.0.0.1:0"); err != nil { // port 0: any; ListenAndServe also waits
		fmt.Println(err)
		return
	}
	c, err := net.Dial("tcp", srv.Addr().String())
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Fprintln(c, "world")
	answer, _ := bufio.NewReader(c).ReadString('\n')
	fmt.Print(answer)
	c.Close()

	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	_, err = srv.Shutdown(ctx)
	fmt.Println(err)
	// Output:
	// hello world
	// <nil>
}

// TestBootstrap: boss loops accept and worker loops serve; Init builds a pipeline of its own for each connection, on the
// worker that has it; the network chooses the kind of listener; what is set on the server holds for the listener and for
// each connection; and the groups outlive their servers.
func TestBootstrap(t *testing.T) {
	boss, workers := &eddy.Group{Name: "front", Loops: 1}, &eddy.Group{Name: "io", Loops: 2}
	t.Cleanup(func() {
		boss.Close()
		workers.Close()
	})
	servers := []*eddy.Server{{}, {}, {}}
	clock := enginetest.NewClock(t, boss, workers, servers[0], servers[1], servers[2])
	for i, network := range []string{"tcp", "tcp4", "unix"} {
		address := "127.0.0.1:0"
		if network == "unix" {
			if runtime.GOOS == "windows" {
				continue
			}
			address = filepath.Join(t.TempDir(), "sock")
		}
		t.Run(network, func(t *testing.T) { testBootstrap(t, clock, servers[i], boss, workers, network, address) })
	}
}

func testBootstrap(t *testing.T, clock *enginetest.Clock, srv *eddy.Server, boss, workers *eddy.Group, network, address string) {
	var inits atomic.Int64
	count := func(p *eddy.Pipeline, number int64) error {
		asked := 0 // of this connection only
		p.Add("lines", line.Codec(64))
		return p.Add("count", eddy.Handle(func(ctx *eddy.Context, l *line.Line) error {
			if asked++; string(l.Text()) == "the server's" {
				if err := ctx.Conn().SetDeadlines(nil); err != nil {
					return err
				}
			}
			return ctx.WriteBytes(fmt.Appendf(nil, "%d %d %s\n", number, asked, ctx.Conn().Loop().Name()))
		}))
	}
	srv.Boss, srv.Group, srv.MaxConns, srv.Backlog = boss, workers, 4, 16
	srv.KeepAlive, srv.IdleTimeout = time.Minute, time.Minute
	srv.Init = func(p *eddy.Pipeline) error {
		number := inits.Add(1)
		if loop := p.Conn().Loop(); !loop.In() || !strings.HasPrefix(loop.Name(), "io-") {
			return fmt.Errorf("Init runs on the wrong loop, %s", loop.Name())
		}
		return errors.Join(p.Conn().SetDeadlines(&eddy.Deadlines{Idle: time.Hour}), count(p, number)) // options of its own, for now
	}
	enginetest.Relax(srv)
	if err := srv.Listen(network, address); err != nil {
		t.Fatal(err)
	}
	defer srv.Close()
	loops := map[string]int{}
	var conns []net.Conn
	for i := range 4 {
		c := connectTo(t, srv)
		conns = append(conns, c)
		r := bufio.NewReader(c)
		for asked := range 3 {
			fmt.Fprintln(c, "next")
			text, err := r.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			var number, n int
			var loop string
			if _, err := fmt.Sscan(text, &number, &n, &loop); err != nil || number != i+1 || n != asked+1 {
				t.Fatalf("connection %d, question %d: %q, %v", i+1, asked+1, text, err)
			}
			if asked == 0 {
				loops[loop]++
			}
		}
	}
	if loops["io-0"] != 2 || loops["io-1"] != 2 {
		t.Errorf("connections by loop: %v", loops)
	}
	if n, err := connectTo(t, srv).Read(make([]byte, 1)); err == nil { // beyond MaxConns
		t.Errorf("the fifth connection reads %d bytes", n)
	}
	waitFor(t, "the boss's numbers", func() bool { st := srv.Stats(); return st.Accepted >= 4 && st.AdmissionRejected > 0 })
	st := srv.Stats()
	if st.Accepted < 4 || st.Active > 4 || st.AdmissionRejected != 1 || inits.Load() != 4 || st.Boss.Name != "front-0" || st.Boss.Opened != 0 {
		t.Errorf("%d pipelines; %d accepted, %d active, %d refused; boss %s opened %d", inits.Load(), st.Accepted, st.Active, st.AdmissionRejected,
			st.Boss.Name, st.Boss.Opened)
	}
	if network != "tcp" {
		return
	}
	for i, c := range conns {
		if i == 1 { // keeps its own
			continue
		}
		fmt.Fprintln(c, "the server's")
		if text, err := bufio.NewReader(c).ReadString('\n'); err != nil || !strings.HasPrefix(text, fmt.Sprint(i+1, " 4 ")) {
			t.Errorf("connection %d: %q, %v", i+1, text, err)
		}
	}
	clock.Advance(2 * srv.IdleTimeout)
	for i, c := range conns {
		if i == 1 {
			continue
		}
		if _, err := c.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("connection %d, when it was idle for long enough: %v", i+1, err)
		}
	}
	fmt.Fprintln(conns[1], "still there?")
	if text, err := bufio.NewReader(conns[1]).ReadString('\n'); err != nil || !strings.HasPrefix(text, "2 4 ") {
		t.Errorf("the connection with a deadline of its own: %q, %v", text, err)
	}
	waitFor(t, "three closes", func() bool { return srv.Stats().Closed[eddy.CloseIdleTimeout] == 3 })
}

// connectTo connects to a server; reads and writes have a deadline.
func connectTo(t *testing.T, srv *eddy.Server) net.Conn {
	t.Helper()
	c, err := net.Dial(srv.Addr().Network(), srv.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(testkit.Patience)); err != nil {
		t.Fatal(err)
	}
	return c
}
