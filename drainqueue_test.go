package eddy_test

import (
	"io"
	"maps"
	"net"
	"net/netip"
	"sync"
	"testing"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/internal/enginetest"
	"github.com/go-eddy/eddy/internal/testkit"
)

// outcome is what Shutdown returns.
type outcome struct {
	eddy.DrainReport
	err error
}

// shutdown ends srv beside the test, which is told the outcome.
func shutdown(t *testing.T, srv *eddy.Server) <-chan outcome {
	t.Helper()
	ended := make(chan outcome, 1)
	ctx := testkit.Context(t)
	go func() {
		r, err := srv.Shutdown(ctx)
		ended <- outcome{r, err}
	}()
	waitFor(t, "the drain", srv.Draining)
	return ended
}

// crowd connects so many clients, each of which sends its request at once.
func crowd(t *testing.T, addr string, n int) []net.Conn {
	t.Helper()
	all := make([]net.Conn, n)
	for i := range all {
		all[i] = dial(t, addr)
		if _, err := io.WriteString(all[i], "hello\n"); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// expectAll: each of them gets the answer and then the end of the stream, in order.
func expectAll(t *testing.T, clients []net.Conn, answer string) {
	t.Helper()
	for i, c := range clients {
		if got, err := io.ReadAll(c); string(got) != answer || err != nil {
			t.Fatalf("client %d of %d got %q, %v; want %q and the end", i, len(clients), got, err, answer)
		}
		_ = c.Close() // the server waits for it
	}
}

// TestDrainTakesTheQueue: clients that wait in the listener's queue when a server begins to drain are served, none is reset,
// and each is in the report.
func TestDrainTakesTheQueue(t *testing.T) {
	const waiting = 200
	for name, srv := range map[string]*eddy.Server{
		"boss and workers":    {Loops: 2},
		"one loop":            {Topology: eddy.SingleReactor},
		"a listener per loop": {Topology: eddy.ListenerPerLoop, Loops: 2},
		"a shared boss":       {Group: &eddy.Group{Loops: 2}, Boss: &eddy.Group{Loops: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, g := range []*eddy.Group{srv.Group, srv.Boss} {
				if g != nil {
					defer g.Close()
				}
			}
			gate := make(chan struct{})
			srv.Init = lineServer(new(closes)).Init
			srv.AcceptBatch = 4 // so that the loop gets to the drain before it has accepted all
			srv.Admission.Decide = func(netip.AddrPort) eddy.Decision {
				<-gate
				return eddy.DecisionAccept
			}
			clients := crowd(t, start(t, srv), waiting)
			ended := shutdown(t, srv)
			close(gate)
			expectAll(t, clients, "hello\n")
			if o := testkit.Receive(t, "the end", ended); o.err != nil || o.DrainReport != (eddy.DrainReport{Drained: waiting}) {
				t.Errorf("%+v, %v; want %d drained", o.DrainReport, o.err, waiting)
			}
			if st := srv.Stats(); st.Accepted != waiting || st.AdmissionRejected != 0 || st.Closed[eddy.CloseServerShutdown] != waiting {
				t.Errorf("%d accepted, %d refused, closed %v", st.Accepted, st.AdmissionRejected, st.Closed)
			}
			if c, err := net.Dial("tcp", srv.Addr().String()); err == nil {
				_ = c.Close()
				t.Error("the server still listens")
			}
		})
	}
}

// TestDrainRefusesTheQueue: clients that wait in the queue because of a limit are told so when the server drains, with what
// the server has for that, or with an end in order, and are counted as refused.
func TestDrainRefusesTheQueue(t *testing.T) {
	const waiting = 200
	for name, c := range map[string]struct {
		cause  eddy.RefuseCause
		adm    eddy.Admission
		max    int
		answer string
	}{
		"total":    {eddy.RefuseMaxConns, eddy.Admission{}, 1, "busy: max_conns\n"},
		"per loop": {eddy.RefusePerLoop, eddy.Admission{MaxPerLoop: 1}, 0, "busy: max_per_loop\n"},
		"rate":     {eddy.RefuseRate, eddy.Admission{Rate: 1, Burst: 1}, 0, "busy: rate\n"},
		"no words": {eddy.RefuseMaxConns, eddy.Admission{}, 1, ""},
	} {
		t.Run(name, func(t *testing.T) {
			srv := lineServer(new(closes))
			srv.MaxConns, srv.Admission = c.max, c.adm
			srv.Admission.OnLimit = eddy.DecisionPause
			if c.answer != "" {
				srv.Admission.Busy = func(r eddy.Refusal) []byte { return []byte("busy: " + r.Cause.String() + "\n") }
			}
			enginetest.NewClock(t, srv) // it stands still: no rate gives more room
			addr := start(t, srv)
			served := crowd(t, addr, 1)
			waitFor(t, "the first", func() bool { return srv.Stats().Active == 1 })
			clients := crowd(t, addr, waiting)
			waitFor(t, "the pause", func() bool { return srv.Stats().AcceptPauses > 0 })
			ended := shutdown(t, srv)
			expectAll(t, served, "hello\n")
			var all sync.WaitGroup
			all.Go(func() { expectAll(t, clients, c.answer) })
			all.Wait()
			if o := testkit.Receive(t, "the end", ended); o.err != nil || o.DrainReport != (eddy.DrainReport{Drained: 1}) {
				t.Errorf("%+v, %v; want 1 drained", o.DrainReport, o.err)
			}
			if st := srv.Stats(); !maps.Equal(st.Refused, map[eddy.RefuseCause]uint64{c.cause: waiting}) {
				t.Errorf("refused %v", st.Refused)
			}
		})
	}
}

// TestDrainGivesUpOnTheRefused: who was refused and does not end its side holds a drain no longer than its context.
func TestDrainGivesUpOnTheRefused(t *testing.T) {
	srv := lineServer(new(closes))
	srv.MaxConns = 1
	srv.Admission = eddy.Admission{OnLimit: eddy.DecisionBusy, Busy: func(eddy.Refusal) []byte { return []byte("busy\n") }}
	addr := start(t, srv)
	served := crowd(t, addr, 1)
	waitFor(t, "the first", func() bool { return srv.Stats().Active == 1 })
	refused := crowd(t, addr, 1)
	waitFor(t, "the second", func() bool { return srv.Stats().AdmissionRejected == 1 })
	limit := deadline{t.Context(), make(chan struct{})}
	ended := make(chan outcome, 1)
	go func() {
		r, err := srv.Shutdown(limit)
		ended <- outcome{r, err}
	}()
	expectAll(t, served, "hello\n")
	waitFor(t, "the end of the first", func() bool { return srv.Stats().Active == 0 })
	select {
	case o := <-ended:
		t.Fatalf("Shutdown has cut who was told busy: %+v", o)
	default:
	}
	close(limit.passed)
	if o := testkit.Receive(t, "the end", ended); o.DrainReport != (eddy.DrainReport{Drained: 1}) {
		t.Errorf("%+v", o.DrainReport)
	}
	_ = refused
}
