package admin

import (
	"fmt"
	"io"
	"net"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/codec/line"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/internal/testkit"
)

// table asks for connections.
func table(t *testing.T, s *Server, query string) Connections {
	t.Helper()
	w := ask(s, "GET", "/connections?"+query, "")
	if w.Code != 200 {
		t.Fatalf("%s: %d %s", query, w.Code, w.Body)
	}
	return decode[Connections](t, w.Body.String())
}

// TestConnectionTable: filters, orders and pages, a close by id, and the table of those that ended.
func TestConnectionTable(t *testing.T) {
	s := newAdmin(t, nil)
	// A line is a number of bytes that are to be queued for the peer, which reads nothing.
	srv := echoServer(t, &eddy.Server{Loops: 2, KeepCloses: 16, LingerTimeout: time.Millisecond, SendBuffer: 4096, Init: lines(eddy.Handle(func(ctx *eddy.Context, l *line.Line) error {
		var n int
		if _, err := fmt.Sscan(string(l.Text()), &n); err != nil {
			return eddy.WithReason(eddy.CloseProtocolError, err)
		}
		return ctx.Write(make([]byte, n))
	}))})
	idle := echoServer(t, &eddy.Server{Loops: 1, LingerTimeout: time.Millisecond})
	if err := s.Watch("main", srv); err != nil {
		t.Fatal(err)
	}
	if err := s.Watch("idle", idle); err != nil {
		t.Fatal(err)
	}
	dial(t, idle)
	const heavy = 4
	var all []net.Conn
	for i := range heavy {
		c := dial(t, srv)
		all = append(all, c)
		c.(*net.TCPConn).SetReadBuffer(4096)
		fmt.Fprintf(c, "%d\n", (8+i)<<20)
	}
	testkit.Eventually(t, "the queues", func() bool { return table(t, s, "min_queued=1048576").Matched == heavy })
	got := table(t, s, "")
	if got.Matched != heavy+1 || got.Looked != heavy+1 || len(got.Connections) != heavy+1 || len(got.Errors) != 0 {
		t.Fatalf("%+v", got)
	}
	if !slices.IsSortedFunc(got.Connections, func(a, b Connection) int { return int(b.Queued - a.Queued) }) {
		t.Errorf("not sorted by what is queued: %+v", got.Connections)
	}
	top := got.Connections[0]
	if top.Server != "main" || top.Peer != all[heavy-1].LocalAddr().String() || top.Local != srv.Addr().String() || !top.Unwritable || top.Loop == "" || top.State != "writing" && top.State != "reading_header" {
		t.Errorf("%+v", top)
	}
	for query, want := range map[string]int{
		"server=idle": 1, "server=main": heavy, "peer=127.0.0.1": heavy + 1, "peer=127.0.0.0/8": heavy + 1, "peer=10.0.0.0/8": 0, "peer=::/0": 0,
		"state=" + top.State + "&min_queued=1": heavy, "state=closing": 0, "closed=0&reason=io_error": 0,
	} {
		if n := table(t, s, query).Matched; n != want {
			t.Errorf("%s: %d rows, want %d", query, n, want)
		}
	}
	var paged []string
	for offset := 0; offset <= heavy; offset += 2 {
		p := table(t, s, fmt.Sprintf("sort=id&limit=2&offset=%d", offset))
		if len(p.Connections) > 2 || p.Matched != heavy+1 {
			t.Errorf("a page of %d of %d rows", len(p.Connections), p.Matched)
		}
		for _, c := range p.Connections {
			paged = append(paged, c.Server+" "+c.ID)
		}
	}
	if len(paged) != heavy+1 || !slices.IsSorted(paged) {
		t.Errorf("the pages have %q", paged)
	}
	for _, order := range sorts {
		asc, desc := table(t, s, "order=asc&sort="+order).Connections, table(t, s, "order=desc&sort="+order).Connections
		if len(asc) != heavy+1 || len(desc) != heavy+1 {
			t.Errorf("sorted by %s: %d and %d rows", order, len(asc), len(desc))
		}
	}
	if a, d := table(t, s, "sort=queued&order=asc").Connections, got.Connections; a[heavy].ID != d[0].ID {
		t.Error("asc is not the other way round")
	}

	w := ask(s, "POST", "/connections/close", fmt.Sprintf(`{"server":"main","id":%q}`, top.ID), jsonBody)
	if w.Code != 200 {
		t.Fatalf("close: %d %s", w.Code, w.Body)
	}
	testkit.Eventually(t, "the end of the connection", func() bool { return srv.Stats().Active == heavy-1 })
	fmt.Fprint(dial(t, srv), "no number\n")
	var closed Connections
	testkit.Eventually(t, "the other end", func() bool { closed = table(t, s, "closed=1"); return closed.Matched == 2 }) // it is counted before it is in the table
	if closed.Matched != 2 || closed.Connections[0].Reason != "protocol_error" || closed.Connections[1].Reason != "normal" || closed.Connections[1].Cause != "closed by the operator" ||
		closed.Connections[1].ID != top.ID || closed.Connections[1].Peer != top.Peer || closed.Connections[1].State != "closed" {
		t.Errorf("%+v", closed)
	}
	if c := table(t, s, "reason=protocol_error"); c.Matched != 1 || c.Connections[0].Cause == "" {
		t.Errorf("%+v", c)
	}
	if w := ask(s, "POST", "/connections/close", fmt.Sprintf(`{"server":"main","id":%q}`, top.ID), jsonBody); w.Code != 404 {
		t.Errorf("closing it again: %d", w.Code)
	}
	if w := ask(s, "POST", "/connections/close", `{"id":"0.0.1"}`, jsonBody); w.Code != 404 || !strings.Contains(w.Body.String(), "there are main, idle") {
		t.Errorf("closing without saying whose: %d %s", w.Code, w.Body)
	}
	if w := ask(s, "POST", "/connections/close", fmt.Sprintf(`{"server":"idle","id":%q,"flush":true}`, table(t, s, "server=idle").Connections[0].ID), jsonBody); w.Code != 200 {
		t.Errorf("closing in order: %d %s", w.Code, w.Body)
	}
	testkit.Eventually(t, "the idle one's end", func() bool { return idle.Stats().Closed[eddy.CloseNormal] == 1 })
}

// TestOwnCloseReason: the operator's tables, numbers and page know the application's own close reasons.
func TestOwnCloseReason(t *testing.T) {
	quotaExceeded := eddy.RegisterCloseReason("quota_exceeded")
	s := newAdmin(t, nil)
	srv := echoServer(t, &eddy.Server{Loops: 1, KeepCloses: 16, Init: lines(eddy.Handle(func(*eddy.Context, *line.Line) error {
		return eddy.WithReason(quotaExceeded, nil)
	}))})
	if err := s.Watch("main", srv); err != nil {
		t.Fatal(err)
	}
	c := dial(t, srv)
	fmt.Fprint(c, "x\n")
	_, _ = io.Copy(io.Discard, c)
	_ = c.Close()
	testkit.Eventually(t, "the close", func() bool { return srv.Stats().Closed[quotaExceeded] == 1 && len(srv.RecentCloses()) == 1 })
	if got := table(t, s, "reason=quota_exceeded"); got.Matched != 1 || got.Connections[0].Reason != "quota_exceeded" {
		t.Errorf("%+v", got)
	}
	if got := s.Snapshot(0); got.Servers[0].Closed["quota_exceeded"] != 1 {
		t.Errorf("the numbers have %v", got.Servers[0].Closed)
	}
	if w := ask(s, "GET", "/", ""); !strings.Contains(w.Body.String(), "<option>quota_exceeded</option>") {
		t.Error("the page offers no filter by the reason")
	}
}

// TestConnectionTableIsBounded: no more rows are kept than the page needs, and no more tables are made at a time than
// there are places.
func TestConnectionTableIsBounded(t *testing.T) {
	q := query{sort: "queued", limit: 5, offset: 5}
	p := &page{q: &q}
	for i := range 1000 {
		p.add(Connection{Queued: int64(i * 7919 % 1000)})
		if len(p.rows) >= 20 {
			t.Fatalf("%d rows are kept for a page that ends at 10", len(p.rows))
		}
	}
	rows := p.take()
	if p.matched != 1000 || len(rows) != 5 {
		t.Fatalf("%d matched, %d rows", p.matched, len(rows))
	}
	for i, c := range rows {
		if want := int64(999 - 5 - i); c.Queued != want {
			t.Errorf("row %d has %d, want %d", i, c.Queued, want)
		}
	}
	s := newAdmin(t, nil)
	for range cap(s.walks) {
		s.walks <- struct{}{}
	}
	if w := ask(s, "GET", "/connections", ""); w.Code != 503 || w.Header().Get("Retry-After") == "" {
		t.Errorf("one table too many: %d", w.Code)
	}
	s.profile <- struct{}{}
	for _, path := range []string{"/debug/goroutines", "/debug/pprof/heap", "/debug/pprof/profile"} {
		if w := ask(s, "GET", path, ""); w.Code != 503 {
			t.Errorf("%s beside another: %d", path, w.Code)
		}
	}
}

// TestOverload: the operator is answered while every worker of the pools is stuck, the queues are full, and a loop hangs.
// The answers have the reasons, the numbers, and the connections of the other loops.
func TestOverload(t *testing.T) {
	s := newAdmin(t, func(o *Options) { o.MaxLag = 50 * time.Millisecond })
	gate, released := make(chan struct{}), false
	defer func() {
		if !released {
			close(gate)
		}
	}()
	p := pool(t, executor.Options{Name: "full", Workers: 1, Queue: 1})
	srv := echoServer(t, &eddy.Server{Loops: 2, TaskQueue: 8, Init: lines(eddy.Handle(func(*eddy.Context, *line.Line) error { <-gate; return nil }), eddy.On(p))})
	if err := s.Watch("main", srv); err != nil {
		t.Fatal(err)
	}
	if err := s.WatchPools(p); err != nil {
		t.Fatal(err)
	}
	base := listen(t, s)
	for range 8 {
		c := dial(t, srv)
		if _, err := io.WriteString(c, "work\n"); err != nil {
			t.Fatal(err)
		}
	}
	testkit.Eventually(t, "the pool to be full", func() bool { st := p.Stats(); return st.Running == 1 && st.Rejected > 0 })
	loop := srv.Workers()[1]
	stuck := make(chan struct{})
	if err := loop.Post(func() { close(stuck); <-gate }); err != nil {
		t.Fatal(err)
	}
	<-stuck
	for loop.Post(func() {}) == nil { // until its queue is full
	}
	if status, body := fetch(t, base+"/healthz"); status != 200 || body != "ok\n" {
		t.Errorf("/healthz: %d %q", status, body)
	}
	testkit.Eventually(t, "the reasons", func() bool {
		status, body := fetch(t, base+"/readyz")
		return status == 503 && strings.Contains(body, "main worker-1") && strings.Contains(body, "pool full")
	})
	if status, body := fetch(t, base+"/stats.json"); status != 200 || decode[Snapshot](t, body).Servers[0].Loops[1].TaskQueue != 8 {
		t.Errorf("/stats.json: %d %s", status, body)
	}
	status, body := fetch(t, base+"/connections?"+url.Values{"sort": {"id"}}.Encode())
	got := decode[Connections](t, body)
	if status != 200 || len(got.Errors) != 1 || !strings.Contains(got.Errors[0], "worker-1") || got.Matched == 0 {
		t.Errorf("/connections: %d %s", status, body)
	}
	for _, c := range got.Connections {
		if c.Loop != "worker-0" {
			t.Errorf("%+v", c)
		}
	}
	if status, body := fetch(t, base+"/debug/goroutines"); status != 200 || !strings.Contains(body, "goroutine ") {
		t.Errorf("/debug/goroutines: %d", status)
	}
	released = true
	close(gate)
}
