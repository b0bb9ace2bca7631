package metrics

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/http1"
	"github.com/go-eddy/eddy/metrics/internal/expo"
	"github.com/go-eddy/eddy/ring"
	"github.com/go-eddy/eddy/websocket"
)

// TestSharedLoopsAreThereOnce: loops that servers and a dialer share are those of their Group, whoever uses them.
func TestSharedLoopsAreThereOnce(t *testing.T) {
	group, bosses := &eddy.Group{Name: "w", Loops: 2}, &eddy.Group{Name: "b", Loops: 1}
	t.Cleanup(func() { _, _ = group.Close(), bosses.Close() })
	var sources []Source
	for _, name := range []string{"one", "two"} {
		srv := &eddy.Server{Init: echoLines, Group: group, Boss: bosses}
		listen(t, srv)
		sources = append(sources, Server(name, srv))
	}
	d, own := &eddy.Dialer{Init: echoLines, Group: group}, &eddy.Dialer{Init: echoLines}
	addr := listen(t, &eddy.Server{Init: echoLines, Loops: 1})
	for _, d := range []*eddy.Dialer{d, own} {
		if _, err := d.Dial(t.Context(), "tcp", addr); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = d.Close() })
	}
	alone := scrape(t, collecting(t, append(sources, Dialer("out", d))...))
	if n := alone.starts("eddy_loop_healthy"); n != 0 || alone.starts("eddy_server_connections") != 2 {
		t.Errorf("%d loops without their groups", n)
	}
	s := scrape(t, collecting(t, append(sources, Dialer("out", d), Dialer("own", own), Group("workers", group), Group("bosses", bosses))...))
	s.want(t, samples{
		`eddy_loop_healthy{group="workers",loop="w-0"}`: 1, `eddy_loop_healthy{group="workers",loop="w-1"}`: 1, `eddy_loop_healthy{group="bosses",loop="b-0"}`: 1,
		`eddy_loop_healthy{group="own",loop="dialer-0"}`: 1, `eddy_dialer_dialed_total{dialer="out"}`: 1, `eddy_dialer_dialed_total{dialer="own"}`: 1,
	})
	if n := s.starts("eddy_loop_healthy"); n != 4 {
		t.Errorf("%d loops, want 4: %v", n, s)
	}
}

// TestRegister: sources that have a taken name or read nil are refused, and nothing of that call is kept.
func TestRegister(t *testing.T) {
	pool := fixed(t, executor.Options{})
	c := collecting(t, Pool("a", pool), Server("s", &eddy.Server{}))
	var (
		noRing  *ring.SPSC[int]
		noStats *websocket.Stats
	)
	for want, s := range map[string]Source{
		`a pool named "a" is registered`:                    Pool("a", pool),
		`a server, dialer or group named "s" is registered`: Group("s", &eddy.Group{}),
		`"" is no name of a pool`:                           Pool("", pool),
		`"x/y" is no name of a pool`:                        Pool("x/y", pool),
		`is no name of a pool: it takes 1 to 128 bytes`:     Pool(strings.Repeat("x", 129), pool),
		`"\xff" is no name of a pool`:                       Pool("\xff", pool),
		`the pool "nil" is nil`:                             Pool[*executor.Pool]("nil", nil),
		`the server, dialer or group "nil" is nil`:          Dialer("nil", nil),
		`the ring "nil" is nil`:                             Ring("nil", noRing),
		`the WebSocket "nil" is nil`:                        WebSocket("nil", noStats),
		`metrics: Register of the zero Source`:              {},
	} {
		if err := c.Register(Pool("b", pool), s); err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "metrics: ") {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if err := c.Register(Pool("b", pool)); err != nil {
		t.Errorf("b was kept: %v", err)
	}
	c.Unregister(Pool("a", pool), Pool("unknown", pool))
	if s := scrape(t, c); s.starts("eddy_pool_workers") != 1 || s.starts("eddy_server_connections") != 1 {
		t.Errorf("after Unregister: %v", s)
	}
	many := make([]Source, MaxSources)
	for i := range many {
		many[i] = Pool(fmt.Sprint(i), pool)
	}
	if err := c.Register(many...); err == nil || !strings.Contains(err.Error(), "1002 sources, limit 1000") {
		t.Error(err)
	}
}

// crowd is a server with closes of many tenants and networks.
type crowd struct {
	tenants, networks map[string]map[eddy.CloseReason]uint64
}

func (c *crowd) Stats() eddy.Stats {
	return eddy.Stats{Tenants: c.tenants, Networks: c.networks}
}

func (c *crowd) add(n int, closes uint64) {
	c.tenants, c.networks = map[string]map[eddy.CloseReason]uint64{}, map[string]map[eddy.CloseReason]uint64{}
	for i := range n {
		closed := map[eddy.CloseReason]uint64{eddy.CloseNormal: closes}
		c.tenants[fmt.Sprintf("t%04d", n-i)] = closed
		c.networks[fmt.Sprintf("10.%d.%d.0/24", i/256, i%256)] = closed
	}
	c.tenants["other"] = map[eddy.CloseReason]uint64{eddy.CloseNormal: 7}
}

// TestLabelsAreBounded: traffic makes no more series than Options allow, no series goes back, and nothing is lost.
func TestLabelsAreBounded(t *testing.T) {
	srv := &crowd{}
	c := New(Options{Tenants: 3, Networks: -1})
	if err := c.Register(Server("s", srv)); err != nil {
		t.Fatal(err)
	}
	srv.add(2, 1)
	before := scrape(t, c)
	before.want(t, samples{
		`eddy_server_tenant_closed_total{reason="normal",server="s",tenant="t0001"}`: 1,
		`eddy_server_tenant_closed_total{reason="normal",server="s",tenant="t0002"}`: 1,
		`eddy_server_tenant_closed_total{reason="normal",server="s",tenant="other"}`: 7,
	})
	for i, n := range []int{50, 1000} {
		srv.add(n, uint64(i+2))
		s := scrape(t, c)
		grows(t, before, s)
		if got := s.starts("eddy_server_tenant_closed_total"); got != 4 {
			t.Errorf("%d tenants: %d series, want 3 and the others", n, got)
		}
		if got, want := s.sum("eddy_server_tenant_closed_total"), float64(n*(i+2)+7); got != want {
			t.Errorf("%d tenants: %v closes, want %v", n, got, want)
		}
		if got := s.starts("eddy_server_network_closed_total"); got != 0 {
			t.Errorf("%d series by network, want none", got)
		}
		before = s
	}
	if d := scrape(t, collecting(t, Server("s", srv))); d.starts("eddy_server_network_closed_total") != DefaultLabels+1 {
		t.Errorf("%d series by network, want %d", d.starts("eddy_server_network_closed_total"), DefaultLabels+1)
	}
}

// TestLongLabels: what a peer chose as a tenant becomes a short and valid label; those that look the same then count together.
func TestLongLabels(t *testing.T) {
	closed := map[eddy.CloseReason]uint64{eddy.CloseNormal: 2}
	long := strings.Repeat("é", 40)
	srv := &crowd{tenants: map[string]map[eddy.CloseReason]uint64{long + "1": closed, long + "2": closed, "a\xffb\n\"": closed}}
	scrape(t, collecting(t, Server("s", srv))).want(t, samples{
		`eddy_server_tenant_closed_total{reason="normal",server="s",tenant="` + strings.Repeat("é", 32) + `"}`: 4,
		"eddy_server_tenant_closed_total{reason=\"normal\",server=\"s\",tenant=\"a�b\n\"\"}":                   2,
	})
}

// TestHandler: the handler answers on net/http and on http1, in both formats, bounds its scrapes, and has the runtime's numbers
// when it was asked for them.
func TestHandler(t *testing.T) {
	pool := fixed(t, executor.Options{Name: "http", Workers: 2})
	c := collecting(t, Pool("http", pool))
	h, err := Handler(HandlerOptions{Runtime: true}, c)
	if err != nil {
		t.Fatal(err)
	}
	web := listen(t, &eddy.Server{Init: http1.NewHandler(h, pool, http1.Options{}).Init, Loops: 1})
	std := httptest.NewServer(h)
	t.Cleanup(std.Close)
	for _, url := range []string{"http://" + web, std.URL} {
		for accept, kind := range map[string]string{"": "text/plain", "application/openmetrics-text;version=1.0.0": "application/openmetrics-text"} {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Accept", accept)
			req.Close = true
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if err != nil || resp.StatusCode != http.StatusOK || !strings.HasPrefix(resp.Header.Get("Content-Type"), kind) {
				t.Errorf("%s: %v, status %d, %s", url, err, resp.StatusCode, resp.Header.Get("Content-Type"))
			}
			for _, metric := range []string{"eddy_pool_workers{", "go_goroutines", "process_open_fds"} {
				if !strings.Contains(string(body), "\n"+metric) && (metric[0] != 'p' || strings.Contains(string(body), "process_")) {
					t.Errorf("%s, %s: no %s", url, kind, metric)
				}
			}
		}
	}
	if bare := scrape(t, c); bare.starts("go_goroutines") != 0 {
		t.Error("the runtime's numbers without Runtime")
	}
	if _, err := Handler(HandlerOptions{}, c, c); err == nil || !strings.HasPrefix(err.Error(), "metrics: ") {
		t.Errorf("the same collector twice: %v", err)
	}
	if _, err := Handler(HandlerOptions{Scrapes: -1}); err == nil || !strings.Contains(err.Error(), "Scrapes is -1") {
		t.Error(err)
	}
}

// stuck is a collector that takes its time.
type stuck struct{ begun, gate chan struct{} }

func (s stuck) Describe(to chan<- *prometheus.Desc) { expo.Describe(to, dialerFamilies()) }
func (s stuck) Collect(chan<- prometheus.Metric) {
	s.begun <- struct{}{}
	<-s.gate
}

// TestScrapesAreBounded: beyond the bound a scrape is told 503 at once.
func TestScrapesAreBounded(t *testing.T) {
	s := stuck{make(chan struct{}), make(chan struct{})}
	h, err := Handler(HandlerOptions{Scrapes: 2}, s)
	if err != nil {
		t.Fatal(err)
	}
	answer := func() int {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
		return w.Code
	}
	var scrapes sync.WaitGroup
	for range 2 {
		scrapes.Go(func() {
			if code := answer(); code != http.StatusOK {
				t.Errorf("status %d", code)
			}
		})
		<-s.begun
	}
	if code := answer(); code != http.StatusServiceUnavailable {
		t.Errorf("status %d with two scrapes under way", code)
	}
	close(s.gate)
	scrapes.Wait()
}

// broken emits the same series twice.
type broken struct{}

func (broken) Describe(to chan<- *prometheus.Desc) { expo.Describe(to, dialerFamilies()) }
func (broken) Collect(to chan<- prometheus.Metric) {
	for range 2 {
		expo.NewScrape(to).Put(dialerClosed, 1, "a", "b")
	}
}

// TestBrokenCollector: one collector that contradicts itself takes nothing from the others, and is in the log.
func TestBrokenCollector(t *testing.T) {
	var log strings.Builder
	h, err := Handler(HandlerOptions{Logger: slog.New(slog.NewTextHandler(&log, nil))}, broken{})
	if err != nil {
		t.Fatal(err)
	}
	if s := ask(t, h); s[`eddy_dialer_closed_total{dialer="a",reason="b"}`] != 1 {
		t.Errorf("%v", s)
	}
	if !strings.Contains(log.String(), "metrics: scrape") || !strings.Contains(log.String(), "eddy_dialer_closed_total") {
		t.Errorf("the log says %q", log.String())
	}
}
