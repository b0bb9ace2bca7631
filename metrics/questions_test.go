package metrics

import (
	"fmt"
	"io"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/internal/testkit"
	"github.com/go-eddy/eddy/internal/version"
	"github.com/go-eddy/eddy/metrics/internal/expotest"
)

// question returns the n-th query below a heading of docs/metrics.md.
func question(t *testing.T, heading string, n int) string {
	t.Helper()
	_, text, ok := strings.Cut(expotest.Read(t, "docs", "metrics.md"), "\n### "+heading+"\n")
	if !ok {
		t.Fatalf("docs/metrics.md has no heading %q", heading)
	}
	text, _, _ = strings.Cut(text, "\n### ")
	parts := strings.Split(text, "```promql\n")
	if n+1 >= len(parts) {
		t.Fatalf("%q has %d queries", heading, len(parts)-1)
	}
	query, _, _ := strings.Cut(parts[n+1], "```")
	return strings.TrimSpace(query)
}

// site is a server whose connections belong to the tenants that the test names.
type site struct {
	*eddy.Server
	t      *testing.T
	tenant atomic.Value
	conns  chan *eddy.Conn
	addr   string
}

func newSite(t *testing.T, srv *eddy.Server) *site {
	s := &site{Server: srv, t: t, conns: make(chan *eddy.Conn, 1)}
	srv.Loops, srv.LingerTimeout = 1, 50*time.Millisecond
	srv.Admission.Tenant = func(netip.AddrPort) string { return s.tenant.Load().(string) }
	srv.Init = func(p *eddy.Pipeline) error {
		if err := echoLines(p); err != nil {
			return err
		}
		s.conns <- p.Conn()
		return nil
	}
	s.addr = listen(t, srv)
	return s
}

// open connects a client of a tenant.
func (s *site) open(tenant string) (io.ReadWriteCloser, *eddy.Conn) {
	s.tenant.Store(tenant)
	c := dial(s.t, s.addr)
	if err := c.SetReadBuffer(4 << 10); err != nil {
		s.t.Fatal(err)
	}
	return c, <-s.conns
}

// polite come, ask and go.
func (s *site) polite(tenant string, n int) {
	was := s.Stats().Closed[eddy.ClosePeerClosed]
	for range n {
		c, _ := s.open(tenant)
		if _, err := io.WriteString(c, "hello\n"); err != nil {
			s.t.Fatal(err)
		}
		if _, err := io.ReadFull(c, make([]byte, 6)); err != nil {
			s.t.Fatal(err)
		}
		_ = c.Close()
	}
	s.ends(eddy.ClosePeerClosed, was+uint64(n))
}

// wrong clients send bytes that are no line.
func (s *site) wrong(tenant string, n int) {
	was := s.Stats().Closed[eddy.CloseFrameTooLarge]
	for range n {
		c, _ := s.open(tenant)
		if _, err := io.WriteString(c, strings.Repeat("x", 2048)); err != nil {
			s.t.Fatal(err)
		}
	}
	s.ends(eddy.CloseFrameTooLarge, was+uint64(n))
}

func (s *site) ends(reason eddy.CloseReason, n uint64) {
	s.t.Helper()
	testkit.Eventually(s.t, reason.String(), func() bool { return s.Stats().Closed[reason] == n })
}

// TestOperatorsQuestions makes on real servers what an operator asks about, and reads the answers out of scrapes by the very
// queries of docs/metrics.md (R206).
func TestOperatorsQuestions(t *testing.T) {
	edge := newSite(t, &eddy.Server{MaxConns: 4, Watermarks: eddy.Watermarks{Low: 1 << 10, High: 64 << 10, Max: 128 << 10}})
	bulk := newSite(t, &eddy.Server{WriteTimeout: 100 * time.Millisecond})
	c := collecting(t, Server("edge", edge.Server), Server("bulk", bulk.Server))
	h := history{scrape(t, c, program{})}
	edge.polite("acme", 2) // an hour as it should be
	edge.wrong("bolt", 1)
	bulk.polite("acme", 1)
	h = append(h, scrape(t, c, program{}))

	edge.polite("acme", 5) // and one with a bit of everything
	edge.wrong("bolt", 4)  // it has deployed a new client
	_, conn := edge.open("cargo")
	for conn.Write(make([]byte, 64<<10)) == nil { // its clients read nothing, and are sent too much
	}
	edge.ends(eddy.CloseBackpressureLimit, 1)
	for _, tenant := range []string{"dyno", "dyno", "echo"} { // theirs read nothing of one long answer
		_, conn := bulk.open(tenant)
		if err := conn.Write(make([]byte, 32<<20)); err != nil {
			t.Fatal(err)
		}
	}
	bulk.ends(eddy.CloseWriteTimeout, 3)
	for range 4 {
		edge.open("acme")
	}
	for range 6 {
		dial(t, edge.addr)
	}
	edge.ends(eddy.CloseAdmissionRejected, 6)
	h = append(h, scrape(t, c, program{}))

	const ends = 5 + 4 + 1 + 6
	for _, q := range []struct {
		heading string
		n       int
		want    series
	}{
		{"Are disconnects normal?", 0, series{`{server="edge"}`: 5. / ends, `{server="bulk"}`: 0}},
		{"Are disconnects normal?", 1, series{
			`{reason="frame_too_large",server="edge"}`: 4, `{reason="backpressure_limit",server="edge"}`: 1,
			`{reason="admission_rejected",server="edge"}`: 6, `{reason="write_timeout",server="bulk"}`: 3,
		}},
		{"Are clients too slow?", 0, series{`{reason="backpressure_limit",server="edge"}`: 1, `{reason="write_timeout",server="bulk"}`: 3}},
		{"Does overload refuse connections?", 0, series{`{cause="max_conns",server="edge"}`: 6}},
		{"Did protocol errors come with the deployment?", 0, series{`{server="edge"}`: 3, `{server="bulk"}`: 0}},
		{"Did protocol errors come with the deployment?", 1, series{`{server="edge",tenant="bolt"}`: 4}},
		{"Did protocol errors come with the deployment?", 2, series{fmt.Sprintf(`{reason="frame_too_large",version=%q}`, version.Get().Version): 4}},
		{"Whose writes time out?", 0, series{`{server="bulk",tenant="dyno"}`: 2, `{server="bulk",tenant="echo"}`: 1}},
		{"Whose writes time out?", 1, series{`{network="127.0.0.0/24",server="bulk"}`: 3}},
	} {
		query := question(t, q.heading, q.n)
		got := h.eval(t, query)
		for labels, want := range q.want {
			if v, ok := got[labels]; !ok || v != want {
				t.Errorf("%s %s is %v (there: %v), want %v", q.heading, labels, v, ok, want)
			}
		}
		for labels, v := range got {
			if _, ok := q.want[labels]; !ok {
				t.Errorf("%s %s is %v, want nothing of it", q.heading, labels, v)
			}
		}
	}
}
