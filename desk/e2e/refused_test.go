package e2e

import (
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	product "github.com/go-eddy/eddy/desk"
	"github.com/go-eddy/eddy/desk/auth"
	"github.com/go-eddy/eddy/desk/hub"
	"github.com/go-eddy/eddy/internal/testkit"
)

// fastTime gives a page a clock that runs as fast as the page does: when no answer is awaited, the next timer is due.
// calls are the times at which the page has asked for a session.
const fastTime = `
window.fast = {now: 0, calls: [], timers: [], asking: 0, last: 0};
window.setTimeout = (f, ms = 0, ...args) => (fast.timers.push({id: ++fast.last, at: fast.now + ms, f: () => f(...args)}), fast.last);
window.clearTimeout = (id) => { fast.timers = fast.timers.filter((t) => t.id !== id); };
setInterval(() => {
	const next = fast.timers.reduce((a, b) => (b.at < a.at ? b : a), {at: Infinity});
	if (fast.asking > 0 || next.at === Infinity) return;
	fast.now = next.at;
	clearTimeout(next.id);
	next.f();
}, 1);
window.fetch = ((real) => async (url, ...rest) => {
	fast.calls.push(fast.now);
	fast.asking++;
	try { return await real(url, ...rest); } finally { fast.asking--; }
})(window.fetch);
Math.random = () => 0.5;
`

// TestRefusedPageAsksSeldom opens the page of a site whose rate of new visitors is used up, and which always has room
// in 20 ms. The page waits for as long as the server asks, and for a back-off that grows.
func TestRefusedPageAsksSeldom(t *testing.T) {
	b := startBrowser(t, "en")
	now := time.Now()
	d, err := product.Open(testkit.Context(t), product.Options{
		DataDir: t.TempDir(), Addr: "127.0.0.1:0", Logger: slog.New(slog.DiscardHandler), Passwords: auth.Params{MemoryKiB: 8, Passes: 1, Lanes: 1},
		NewVisitors: hub.Rate{PerSecond: 50, Burst: 1}, Now: func() time.Time { return now },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := d.Start(testkit.Context(t)); err != nil {
		t.Fatal(err)
	}
	base := "http://" + d.Addr().String()
	client := &http.Client{Timeout: testkit.Patience, Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Post(base+"/api/v1/widget/session", "application/json", strings.NewReader(`{"site":"demo"}`))
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("the visitor for whom there is room: %v, %v", res, err)
	}
	res.Body.Close()

	p := b.open("customer", phone, 740, "about:blank")
	p.before(fastTime)
	p.navigate(base + "/chat/demo")
	p.until("two minutes have passed", `window.fast?.now > 120_000 && fast.calls.length > 3`)
	calls := value[[]float64](p, `fast.calls.slice(0, fast.calls.length - fast.asking)`) // those that were answered
	refused := d.Stats().VisitorsRefused
	first, pause := 0, calls[1]-calls[0]
	for _, at := range calls {
		if at < calls[0]+60_000 {
			first++
		}
	}
	if pause < 500 { // 250 ms that the server asks for, and half of the first step of the back-off
		t.Errorf("the page asked again after %v ms", pause)
	}
	if first > 10 || refused < uint64(len(calls)) {
		t.Errorf("the page asked %d times in its first minute, at %v; the server refused %d", first, calls, refused)
	}
}
