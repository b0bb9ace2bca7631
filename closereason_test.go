package eddy_test

import (
	"errors"
	"io"
	"net"
	"slices"
	"testing"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/buf"
	"github.com/go-eddy/eddy/internal/enginetest"
	"github.com/go-eddy/eddy/internal/testkit"
)

// quotaExceeded is a close reason of an application.
var quotaExceeded = eddy.RegisterCloseReason("quota_exceeded")

// closeBy closes the connection in one of closeWays.
func closeBy(ctx *eddy.Context, way string, reason eddy.CloseReason) error {
	switch c := ctx.Conn(); way {
	case "Conn.Close":
		c.Close(reason)
	case "Conn.CloseWith":
		c.CloseWith(reason, errors.New("the cause"))
	case "Conn.CloseAfterFlush":
		c.CloseAfterFlush(reason)
	case "Conn.Reset":
		c.Reset(reason, nil)
	case "Context.Close":
		ctx.Close(reason)
	case "Context.CloseAfterFlush":
		ctx.CloseAfterFlush(reason)
	case "Context.Fail":
		ctx.Fail(eddy.WithReason(reason, nil))
	default:
		return eddy.WithReason(reason, nil)
	}
	return nil
}

var closeWays = []string{"Conn.Close", "Conn.CloseWith", "Conn.CloseAfterFlush", "Conn.Reset", "Context.Close", "Context.CloseAfterFlush", "Context.Fail", "an error"}

// sendAndLeave sends a line and ends the connection when the server has ended its side, whichever way.
func sendAndLeave(c net.Conn, line string) {
	_, _ = io.WriteString(c, line+"\n")
	_, _ = io.Copy(io.Discard, c)
	_ = c.Close()
}

// TestOwnCloseReason: a reason of the application works wherever one of the engine does: in every way to close, for the
// handlers, in the numbers by server, network and tenant, among the recent closes and in texts.
func TestOwnCloseReason(t *testing.T) {
	var ends closes
	ended := make(chan *eddy.Conn, 1)
	srv := &eddy.Server{Loops: 1, KeepCloses: 16, Logger: quiet(), Init: func(p *eddy.Pipeline) error {
		p.Add("lines", &lines{})
		p.Add("ends", &ends)
		return p.Add("app", eddy.Handle(func(ctx *eddy.Context, m *buf.Bytes) error {
			if err := ctx.Conn().SetTenant("acme"); err != nil {
				return err
			}
			ended <- ctx.Conn()
			return closeBy(ctx, string(m.Bytes()), quotaExceeded)
		}))
	}}
	addr := start(t, srv)
	var want []eddy.CloseReason
	for _, way := range closeWays {
		sendAndLeave(dial(t, addr), way)
		c := testkit.Receive(t, way, ended)
		testkit.Receive(t, "the end of "+way, c.CloseFuture().Done())
		want = append(want, quotaExceeded)
		ends.wait(t, want...)
		if e := c.CloseError(); e.Reason != quotaExceeded || !errors.Is(e, eddy.ErrClosed) || e.Reason.String() != "quota_exceeded" {
			t.Errorf("%s: the connection ended with %v", way, e)
		}
	}
	n := uint64(len(want))
	st := enginetest.Stats(t, srv)
	if got := st.Closed[quotaExceeded]; got != n || len(st.Closed) != 1 {
		t.Errorf("closed %v, want %d with the application's reason", st.Closed, n)
	}
	if len(st.Tenants) != 1 || st.Tenants["acme"][quotaExceeded] != n {
		t.Errorf("by tenant %v", st.Tenants)
	}
	for network, closed := range st.Networks {
		if len(st.Networks) != 1 || closed[quotaExceeded] != n {
			t.Errorf("by network %v: %v", network, closed)
		}
	}
	for _, c := range srv.RecentCloses() {
		if c.Reason != quotaExceeded {
			t.Errorf("a recent close for %v", c.Reason)
		}
	}
	if all := eddy.CloseReasons(); !slices.Contains(all[17:], quotaExceeded) || eddy.RegisterCloseReason("quota_exceeded") != quotaExceeded {
		t.Errorf("the reasons are %v", all)
	}
}

// TestOwnCloseReasonOfADialer: a dialer counts the application's reasons, too, and the operator's close takes one.
func TestOwnCloseReasonOfADialer(t *testing.T) {
	conns := make(chan *eddy.Conn, 1)
	srv := &eddy.Server{Loops: 1, Init: initWith(captureConn(conns))}
	addr := start(t, srv)
	hears := eddy.Handle(func(*eddy.Context, *buf.Bytes) error { return nil }) // an echo would be captured again
	d := &eddy.Dialer{Init: initWith(hears)}
	defer d.Close()
	c, err := d.Dial(testkit.Context(t), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	testkit.Receive(t, "the dialer's connection", conns)
	c.Close(quotaExceeded)
	testkit.Receive(t, "the end", c.CloseFuture().Done())
	if st := d.Stats(); st.Closed[quotaExceeded] != 1 {
		t.Errorf("the dialer has closed %v", st.Closed)
	}
	io.WriteString(dial(t, addr), "x")
	served := testkit.Receive(t, "a connection", conns)
	if found, err := srv.CloseConn(testkit.Context(t), served.ID(), false, quotaExceeded, nil); !found || err != nil {
		t.Errorf("CloseConn: %v, %v", found, err)
	}
	waitFor(t, "the close by id", func() bool { return srv.Stats().Closed[quotaExceeded] == 1 })
}

// TestUnknownCloseReasons: a number that is no reason closes a connection with CloseInternalError, in whatever way.
func TestUnknownCloseReasons(t *testing.T) {
	var ends closes
	srv := &eddy.Server{Loops: 1, Logger: quiet(), Init: func(p *eddy.Pipeline) error {
		p.Add("lines", &lines{})
		p.Add("ends", &ends)
		return p.Add("app", eddy.Handle(func(ctx *eddy.Context, m *buf.Bytes) error {
			way, unset := string(m.Bytes()), m.Bytes()[0] == '-'
			if unset {
				return closeBy(ctx, way[1:], eddy.CloseUnset)
			}
			return closeBy(ctx, way, 200)
		}))
	}}
	addr := start(t, srv)
	var want []eddy.CloseReason
	for _, way := range closeWays {
		for _, line := range []string{way, "-" + way} {
			sendAndLeave(dial(t, addr), line)
			want = append(want, eddy.CloseInternalError)
			ends.wait(t, want...)
		}
	}
	if st := enginetest.Stats(t, srv); st.Closed[eddy.CloseInternalError] != uint64(len(want)) || st.Loops[0].Panics+st.Loops[0].Faults != 0 {
		t.Errorf("closed %v, %d panics, %d faults", st.Closed, st.Loops[0].Panics, st.Loops[0].Faults)
	}
}
