package eddy_test

import (
	"bufio"
	"io"
	"net"
	"net/netip"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/internal/enginetest"
)

// TestUptime: the time of a server's Stats goes on while it serves, and stops with it.
func TestUptime(t *testing.T) {
	srv := &eddy.Server{Loops: 1, Init: initWith(echo)}
	if up := srv.Stats().Uptime; up != 0 {
		t.Errorf("uptime %v before Listen", up)
	}
	clock := enginetest.NewClock(t, srv)
	clock.Advance(time.Hour) // before it serves
	start(t, srv)
	for range 3 {
		before := srv.Stats().Uptime
		clock.Advance(time.Minute)
		if up := srv.Stats().Uptime; up != before+time.Minute {
			t.Errorf("uptime %v, a minute after %v", up, before)
		}
	}
	srv.Close()
	clock.Advance(time.Hour)
	if up := srv.Stats().Uptime; up != 3*time.Minute {
		t.Errorf("uptime %v after the end, want 3 minutes", up)
	}
}

// TestLoadAwareChooser: a Chooser of the application's goes by what the loops have queued for their peers, and by their
// lag.
func TestLoadAwareChooser(t *testing.T) {
	var lagging, outbound atomic.Int64
	byBytes := func(_ netip.AddrPort, loops []*eddy.Loop) int {
		best := 0
		for i := range loops {
			if loops[i].Lag().Max > 20*time.Millisecond {
				lagging.Or(1 << i)
			}
			if n := loops[i].Load().Outbound; n > 0 {
				outbound.Store(n)
			}
			if loops[i].Load().Outbound < loops[best].Load().Outbound {
				best = i
			}
		}
		return best
	}
	conns := make(chan *eddy.Conn, 8)
	g := &eddy.Group{Loops: 2, Chooser: byBytes}
	t.Cleanup(func() { g.Close() })
	srv := &eddy.Server{Group: g, Init: initWith(captureConn(conns))}
	clock := enginetest.NewClock(t, g, srv)
	addr := start(t, srv)
	talk := func() *eddy.Conn {
		c := dial(t, addr)
		io.WriteString(c, "x")
		return <-conns
	}
	heavy := talk()
	if err := heavy.Write(make([]byte, 16<<20)); err != nil {
		t.Fatal(err)
	}
	stats := func() eddy.LoopStats { return srv.Stats().Loops[int(heavy.ID().String()[0]-'0')] }
	waitFor(t, "queued bytes", func() bool { return stats().OutboundBytes > 0 })
	for range 4 {
		if c := talk(); c.Loop() == heavy.Loop() {
			t.Error("a connection went to the loop with the long queue")
		}
	}
	if outbound.Load() == 0 {
		t.Error("the chooser was not told of the queued bytes")
	}
	talk()
	if n := lagging.Load(); n != 0 {
		t.Errorf("the chooser was told of a lag, of loops %b", n)
	}
	inside, from := make(chan struct{}), clock.Now()
	if err := heavy.Post(func() {
		for close(inside); clock.Now() == from; { // what the loop does for too long
			runtime.Gosched()
		}
	}); err != nil {
		t.Fatal(err)
	}
	<-inside
	clock.Advance(250 * time.Millisecond)
	talk()
	if n := lagging.Load(); n&(1<<(heavy.ID().String()[0]-'0')) == 0 {
		t.Errorf("the chooser was told of a lag of loops %b", n)
	}
}

// TestOperatorsQuestions answers what an operator asks first from Stats alone: are the disconnects normal, are clients
// too slow, is it overload that refuses them, did protocol errors come with the deployment, and whose writes time out.
func TestOperatorsQuestions(t *testing.T) {
	tenants := []string{"acme", "bolt", "cargo", "dyno"}
	var next atomic.Int64
	conns := make(chan *eddy.Conn, 1)
	srv := lineServer(new(closes))
	srv.MaxConns = 8
	srv.WriteTimeout, srv.LingerTimeout = time.Second, time.Second
	srv.Watermarks = eddy.Watermarks{Low: 1 << 10, High: 64 << 10, Max: 128 << 10}
	srv.Admission.Tenant = func(netip.AddrPort) string { return tenants[int(next.Add(1)-1)%len(tenants)] }
	inner := srv.Init
	srv.Init = func(p *eddy.Pipeline) error {
		select {
		case conns <- p.Conn():
		default:
		}
		return inner(p)
	}
	clock := enginetest.NewClock(t, srv)
	addr := start(t, srv)
	open := func(tenant string) (*net.TCPConn, *eddy.Conn) {
		for next.Load()%int64(len(tenants)) != int64(strings.Index("abcd", tenant[:1])) {
			next.Add(1)
		}
		for len(conns) > 0 {
			<-conns
		}
		c := dial(t, addr).(*net.TCPConn)
		conn := <-conns
		return c, conn
	}
	ends := func(why string, reason eddy.CloseReason, n uint64) {
		t.Helper()
		waitFor(t, why, func() bool { clock.Advance(100 * time.Millisecond); return srv.Stats().Closed[reason] == n })
	}
	for range 3 { // acme's clients come, ask and go
		c, _ := open("acme")
		io.WriteString(c, "hello\n")
		expectLines(t, bufio.NewReader(c), "hello")
		c.Close()
	}
	ends("normal ends", eddy.ClosePeerClosed, 3)
	before := srv.Stats()
	for range 2 { // bolt has deployed a client that sends what is no line
		c, _ := open("bolt")
		go io.Copy(c, strings.NewReader(strings.Repeat("x", 8<<20)))
	}
	ends("protocol errors", eddy.CloseFrameTooLarge, 2)
	_, conn := open("cargo")     // is sent too much at once,
	if err := conn.Post(func() { // before anything can take it or its time to write is over
		for conn.Write(make([]byte, 64<<10)) == nil {
		}
	}); err != nil {
		t.Fatal(err)
	}
	ends("a client too slow", eddy.CloseBackpressureLimit, 1)
	stuck, conn := open("dyno") // reads nothing, and is sent one long answer
	stuck.SetReadBuffer(4 << 10)
	if err := conn.Write(make([]byte, 16<<20)); err != nil {
		t.Fatal(err)
	}
	ends("a write that timed out", eddy.CloseWriteTimeout, 1)
	for range 8 {
		open("acme")
	}
	for range 5 {
		dial(t, addr)
	}
	ends("overload", eddy.CloseAdmissionRejected, 5)

	st := srv.Stats()
	normal, all := st.Closed[eddy.ClosePeerClosed]+st.Closed[eddy.CloseNormal], uint64(0)
	for _, n := range st.Closed {
		all += n
	}
	if normal != 3 || all != 12 {
		t.Errorf("are disconnects normal? %d of %d", normal, all)
	}
	if n := st.Closed[eddy.CloseBackpressureLimit]; n != 1 || st.Tenants["cargo"][eddy.CloseBackpressureLimit] != 1 {
		t.Errorf("are clients too slow? %d, by tenant %v", n, st.Tenants)
	}
	if st.Refused[eddy.RefuseMaxConns] != 5 || len(st.Refused) != 1 {
		t.Errorf("does overload refuse? %v", st.Refused)
	}
	if st.Closed[eddy.CloseFrameTooLarge] == 0 || before.Closed[eddy.CloseFrameTooLarge] != 0 || st.Tenants["bolt"][eddy.CloseFrameTooLarge] != 2 {
		t.Errorf("did protocol errors come with the deployment? %v, by tenant %v", st.Closed, st.Tenants)
	}
	if st.Tenants["dyno"][eddy.CloseWriteTimeout] != 1 || st.Tenants["acme"][eddy.CloseWriteTimeout] != 0 ||
		st.Networks["127.0.0.0/24"][eddy.CloseWriteTimeout] != 1 {
		t.Errorf("whose writes time out? tenants %v, networks %v", st.Tenants, st.Networks)
	}
}
