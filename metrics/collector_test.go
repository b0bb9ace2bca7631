package metrics

import (
	"io"
	"net/http"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/codec/frame"
	"github.com/go-eddy/eddy/codec/line"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/http1"
	"github.com/go-eddy/eddy/http2"
	"github.com/go-eddy/eddy/internal/enginetest"
	"github.com/go-eddy/eddy/internal/testkit"
	"github.com/go-eddy/eddy/overload"
	"github.com/go-eddy/eddy/ring"
	"github.com/go-eddy/eddy/rpc"
	"github.com/go-eddy/eddy/tlsx"
	"github.com/go-eddy/eddy/trace"
	"github.com/go-eddy/eddy/websocket"
)

// echoLines answers every line with itself.
func echoLines(p *eddy.Pipeline) error {
	p.Add("lines", line.Codec(1024))
	return p.Add("echo", eddy.Handle(func(ctx *eddy.Context, l *line.Line) error {
		return ctx.WriteBytes(append(l.Text(), '\n'))
	}))
}

// everything returns a source of each kind.
func everything(t *testing.T) []Source {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	srv := &eddy.Server{Init: echoLines, Loops: 1}
	listen(t, srv)
	pool := fixed(t, executor.Options{})
	queue, err := ring.NewMPSC[int](8)
	must(err)
	spill, err := ring.OpenSpill(ring.SpillOptions{Dir: t.TempDir()})
	must(err)
	t.Cleanup(func() { _ = spill.Close() })
	lanes, err := executor.NewLanes(executor.LanesOptions[int, int]{
		Lanes: []executor.Lane{{Name: "light"}, {Name: "heavy"}}, Run: func(int, *int, *int) {}, Wake: func() error { return nil },
	})
	must(err)
	responder, err := frame.NewServer(frame.Options{Pool: pool})
	must(err)
	hub, err := websocket.NewHub(websocket.HubOptions{})
	must(err)
	z, err := websocket.NewCompression(websocket.CompressionOptions{})
	must(err)
	server, err := rpc.NewServer(rpc.ServerOptions{Ports: []rpc.PortOptions{{Addr: "127.0.0.1:0", Loops: 1}}})
	must(err)
	t.Cleanup(func() { _ = server.Close() })
	must(server.Listen())
	client, err := rpc.NewClient(rpc.ClientOptions{Addrs: []string{server.Addr("port0").String()}})
	must(err)
	t.Cleanup(func() { _ = client.Close() })
	recorder, err := trace.New(trace.Options{})
	must(err)
	guard, err := overload.New(overload.Options{Servers: []*eddy.Server{srv}})
	must(err)
	t.Cleanup(guard.Close)
	return []Source{
		Server("srv", srv), Dialer("out", &eddy.Dialer{}), Group("shared", &eddy.Group{}), Pool("work", pool),
		Keyed("keyed", executor.NewKeyed[int](pool, 0, 0)), Lanes("lanes", lanes), Ring("queue", queue), Spill("spill", spill),
		HTTP("web", http1.NewHandler(http.NotFoundHandler(), pool, http1.Options{})), HTTP2("web2", http2.NewHandler(http.NotFoundHandler(), pool, http2.Options{})), Transport("out", &http1.Transport{}), TLS("tls", &tlsx.Layer{}),
		Responder("frames", responder), Class("typing", &eddy.MessageClass{}), WebSocket("ws", &websocket.Stats{}), Hub("all", hub), Compression("z", z),
		RPCServer("api", server), RPCClient("peer", client), Traces("main", recorder), Overload("guard", guard),
	}
}

// TestEverythingIsScraped: each metric of the package appears once all kinds of sources are there, and follows the rules of
// Prometheus for names and consistency.
func TestEverythingIsScraped(t *testing.T) {
	sources := everything(t)
	c := collecting(t, sources...)
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(c)
	found, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	problems, err := promlint.NewWithMetricFamilies(found).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	there := map[string]bool{}
	for _, f := range found {
		there[f.GetName()] = true
		counts := f.GetType() == dto.MetricType_COUNTER
		if total := strings.HasSuffix(f.GetName(), "_total"); total != counts {
			t.Errorf("%s is a %v", f.GetName(), f.GetType())
		}
	}
	for _, f := range families() {
		byLabel := f == tenantClosed || f == networkClosed // of connections that there were none of
		if there[f.Name] == byLabel {
			t.Errorf("%s was found: %v", f.Name, there[f.Name])
		}
	}
	c.Unregister(sources...)
	if found, err := reg.Gather(); err != nil || len(found) > 0 {
		t.Errorf("after Unregister: %d metrics, %v", len(found), err)
	}
}

// TestServer: what a server and its loops count is exposed while it works, and stays when it has ended.
func TestServer(t *testing.T) {
	srv := &eddy.Server{Init: echoLines, Loops: 2, MaxConns: 3, MemoryBudget: 1 << 20, IdleTimeout: testkit.Patience}
	addr := listen(t, srv)
	c := collecting(t, Server("lines", srv))
	conns := []io.ReadWriter{dial(t, addr), dial(t, addr), dial(t, addr)}
	for _, conn := range conns {
		if _, err := io.WriteString(conn, "hello\n"); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(conn, make([]byte, 6)); err != nil {
			t.Fatal(err)
		}
	}
	refused := dial(t, addr)
	if n, err := refused.Read(make([]byte, 1)); err == nil {
		t.Fatalf("read %d bytes of a refused connection", n)
	}
	enginetest.Barrier(t, srv)
	s := scrape(t, c)
	s.want(t, samples{
		`eddy_server_connections{server="lines"}`:                                                             3,
		`eddy_server_connections_limit{server="lines"}`:                                                       3,
		`eddy_server_accepted_total{server="lines"}`:                                                          4,
		`eddy_server_rejected_total{cause="max_conns",server="lines"}`:                                        1,
		`eddy_server_rejected_total{cause="rate",server="lines"}`:                                             0,
		`eddy_server_closed_total{reason="admission_rejected",server="lines"}`:                                1,
		`eddy_server_closed_total{reason="normal",server="lines"}`:                                            0,
		`eddy_server_memory_budget_bytes{server="lines"}`:                                                     1 << 20,
		`eddy_server_memory_pressure{server="lines"}`:                                                         0,
		`eddy_loop_healthy{group="lines",loop="worker-0"}`:                                                    1,
		`eddy_loop_healthy{group="lines",loop="worker-1"}`:                                                    1,
		`eddy_loop_tasks_limit{group="lines",loop="worker-0"}`:                                                65536,
		`eddy_server_network_closed_total{network="127.0.0.0/24",reason="admission_rejected",server="lines"}`: 1,
	})
	for metric, want := range map[string]float64{
		"eddy_loop_connections": 3, "eddy_loop_deadlines": 3, "eddy_loop_received_bytes_total": 18, "eddy_loop_sent_bytes_total": 18,
		"eddy_loop_messages_total": 3, "eddy_loop_opened_total": 3, "eddy_loop_write_interest_connections": 0, "eddy_loop_outbound_queued_bytes": 0,
		"eddy_loop_tasks_queued": 0, "eddy_loop_stale_events_total": 0,
	} {
		if got := s.sum(metric); got != want {
			t.Errorf("%s is %v in all, want %v", metric, got, want)
		}
	}
	for _, metric := range []string{"eddy_loop_events_total", "eddy_loop_iterations_total", "eddy_loop_busy_seconds_total", "eddy_loop_writes_total"} {
		if s.sum(metric) <= 0 {
			t.Errorf("%s is %v", metric, s.sum(metric))
		}
	}
	if n := s.starts("eddy_loop_lag_seconds"); n != 3*4 {
		t.Errorf("%d series of lag, want four for each worker and the boss", n)
	}
	if err := srv.Close(); err != nil {
		t.Fatal(err)
	}
	end := scrape(t, c)
	end.want(t, samples{
		`eddy_server_connections{server="lines"}`:                           0,
		`eddy_server_accepted_total{server="lines"}`:                        4,
		`eddy_server_closed_total{reason="server_shutdown",server="lines"}`: 3,
	})
	if again := scrape(t, c); again[`eddy_server_uptime_seconds{server="lines"}`] != end[`eddy_server_uptime_seconds{server="lines"}`] {
		t.Error("a closed server still counts its uptime")
	}
	grows(t, s, end)
}

// grows fails when a counter was larger before.
func grows(t *testing.T, before, after samples) {
	t.Helper()
	n := 0
	for series, v := range before {
		if name, _, _ := strings.Cut(series, "{"); !strings.HasSuffix(name, "_total") {
			continue
		}
		n++
		if now, ok := after[series]; !ok || now < v {
			t.Errorf("%s was %v and is %v (there: %v)", series, v, now, ok)
		}
	}
	if n == 0 {
		t.Error("no counters")
	}
}
