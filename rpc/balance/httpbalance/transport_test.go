package httpbalance

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/go-eddy/eddy/http1"
	"github.com/go-eddy/eddy/http2"
	"github.com/go-eddy/eddy/internal/testkit"
	"github.com/go-eddy/eddy/rpc/balance"
	"github.com/go-eddy/eddy/rpc/discovery"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// duo is a client of two servers, of which the first does what the test says.
type duo struct {
	*Transport
	client http.Client
	mode   atomic.Value // "" = serve
	asked  atomic.Int64 // the first server
	addrs  [2]string
	seen   atomic.Pointer[http.Request] // by the first server
}

func (d *duo) first(w http.ResponseWriter, r *http.Request) {
	d.asked.Add(1)
	text, _ := io.ReadAll(r.Body)
	d.seen.Store(r)
	switch mode := d.mode.Load().(string); mode {
	case "":
		_, _ = io.WriteString(w, "first"+string(text))
	case "hold":
		<-r.Context().Done()
	case "cut":
		panic(http.ErrAbortHandler)
	case "advice":
		w.Header().Set("Retry-After", "0")
		w.WriteHeader(http.StatusServiceUnavailable)
	default:
		status, _ := strconv.Atoi(mode)
		w.WriteHeader(status)
	}
}

// bases are the transports below.
func bases(t *testing.T) map[string]func() http.RoundTripper {
	return map[string]func() http.RoundTripper{
		"net/http": func() http.RoundTripper {
			tr := &http.Transport{}
			t.Cleanup(tr.CloseIdleConnections)
			return tr
		},
		"http1": func() http.RoundTripper {
			tr := &http1.Transport{}
			t.Cleanup(func() { _ = tr.Close() })
			return tr
		},
		"http2": func() http.RoundTripper {
			tr := &http2.Transport{}
			t.Cleanup(func() { _ = tr.Close() })
			return tr
		},
	}
}

// duos runs a test over each transport.
func duos(t *testing.T, o Options, run func(t *testing.T, d *duo)) {
	for name, base := range bases(t) {
		t.Run(name, func(t *testing.T) {
			d := &duo{}
			d.mode.Store("")
			for i, h := range []http.HandlerFunc{d.first, func(w http.ResponseWriter, r *http.Request) {
				text, _ := io.ReadAll(r.Body)
				_, _ = io.WriteString(w, "second"+string(text))
			}} {
				s := httptest.NewUnstartedServer(h)
				s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
				s.Config.Protocols = new(http.Protocols)
				s.Config.Protocols.SetHTTP1(true)
				s.Config.Protocols.SetUnencryptedHTTP2(true)
				s.Start()
				t.Cleanup(s.Close)
				d.addrs[i] = s.Listener.Addr().String()
			}
			o := o
			if o.Resolver == nil {
				o.Resolver = discovery.Static(discovery.Addrs(d.addrs[:]...)...)
			}
			o.Base, o.Logger = base(), slog.New(slog.DiscardHandler)
			var err error
			if d.Transport, err = New(o); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = d.Close() })
			d.client.Transport = d
			run(t, d)
		})
	}
}

// ask makes a request and returns the text of the answer, "error" or the status.
func (d *duo) ask(t *testing.T, method, text string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(testkit.Context(t), method, "http://orders/x", strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := d.client.Do(r)
	if err != nil {
		return "error"
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return strconv.Itoa(resp.StatusCode)
	}
	got, err := io.ReadAll(resp.Body)
	if err != nil {
		return "error"
	}
	return string(got)
}

func (d *duo) count(t *testing.T, n int, method string) map[string]int {
	got := map[string]int{}
	for range n {
		got[d.ask(t, method, "")]++
	}
	return got
}

// TestTurns: requests are spread, the Host is the service, and nothing stays in flight.
func TestTurns(t *testing.T) {
	duos(t, Options{DeadlineHeader: "X-Left"}, func(t *testing.T, d *duo) {
		if got := d.count(t, 40, http.MethodGet); got["first"] != 20 || got["second"] != 20 {
			t.Error(got)
		}
		r := d.seen.Load()
		if left, err := strconv.Atoi(r.Header.Get("X-Left")); r.Host != "orders" || err != nil || left <= 0 {
			t.Errorf("host %s, header %v", r.Host, r.Header)
		}
		testkit.Eventually(t, "nothing in flight", func() bool { return d.book.Nodes()[0].InFlight()+d.book.Nodes()[1].InFlight() == 0 })
	})
}

// TestEject: a server that fails is left out, however it fails.
func TestEject(t *testing.T) {
	for _, mode := range []string{"500", "503", "cut"} {
		duos(t, Options{Balance: balance.Options{Eject: balance.Ejection{Trip: balance.Trip{Failures: 3, Open: time.Hour}}}}, func(t *testing.T, d *duo) {
			d.mode.Store(mode)
			if got := d.count(t, 40, http.MethodPost); got["second"] < 36 {
				t.Errorf("%s: %v", mode, got)
			}
			if s := d.Stats(); s.Ejected != 1 {
				t.Errorf("%s: %+v", mode, s)
			}
		})
	}
}

// TestRetry: what is idempotent is made again, with its body; what is not is made once.
func TestRetry(t *testing.T) {
	for _, mode := range []string{"502", "429", "503", "504", "advice", "cut"} {
		duos(t, Options{Attempts: balance.Attempts{Max: 3, Pause: 1, Reserve: 100}}, func(t *testing.T, d *duo) {
			d.mode.Store(mode)
			for range 20 {
				if got := d.ask(t, http.MethodPut, " text"); got != "second text" {
					t.Errorf("%s: %s", mode, got)
				}
			}
			if s := d.Stats(); s.Retries == 0 {
				t.Errorf("%s: %+v", mode, s)
			}
			before := d.Stats().Retries
			if got := d.count(t, 20, http.MethodPost); got["second"] != 10 || d.Stats().Retries != before {
				t.Errorf("%s: POST: %v, %+v", mode, got, d.Stats())
			}
		})
	}
}

// TestHedge: a late request is made at the other server too, and the first answer counts.
func TestHedge(t *testing.T) {
	duos(t, Options{Attempts: balance.Attempts{Hedge: time.Millisecond, Reserve: 100}}, func(t *testing.T, d *duo) {
		d.mode.Store("hold")
		for range 10 {
			if got := d.ask(t, http.MethodGet, ""); got != "second" {
				t.Error(got)
			}
		}
		if s := d.Stats(); s.HedgesWon == 0 {
			t.Errorf("%+v", s)
		}
		testkit.Eventually(t, "nothing in flight", func() bool { return d.book.Nodes()[0].InFlight()+d.book.Nodes()[1].InFlight() == 0 })
	})
}

// TestBreaker: requests to a service that fails end at once.
func TestBreaker(t *testing.T) {
	duos(t, Options{Attempts: balance.Attempts{Breaker: balance.Trip{Failures: 3, Open: time.Hour}}, Balance: balance.Options{Policy: balance.Hash}, Key: func(r *http.Request) string { return r.Header.Get("Key") }}, func(t *testing.T, d *duo) {
		ask := func(key string) error {
			r, err := http.NewRequestWithContext(testkit.Context(t), http.MethodGet, "http://orders/", nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Key", key)
			resp, err := d.client.Do(r)
			if err == nil {
				resp.Body.Close()
			}
			return err
		}
		key := 0
		for ; d.asked.Load() == 0; key++ {
			if err := ask(strconv.Itoa(key)); err != nil {
				t.Fatal(err)
			}
		}
		d.mode.Store("500")
		var err error
		for range 10 {
			err = ask(strconv.Itoa(key - 1))
		}
		if !errors.Is(err, ErrBroken) || d.asked.Load() != 4 {
			t.Errorf("%v, asked %d times", err, d.asked.Load())
		}
	})
}

// later is a Resolver that answers when it is let.
type later struct {
	gate chan error
	list []discovery.Instance
}

func (l later) Watch(ctx context.Context, tell func([]discovery.Instance)) error {
	select {
	case err := <-l.gate:
		if err != nil {
			return err
		}
		tell(l.list)
		<-ctx.Done()
	case <-ctx.Done():
	}
	return ctx.Err()
}

// TestResolver: requests wait for the first answer; an error of it, and the end, are theirs.
func TestResolver(t *testing.T) {
	for what, x := range map[string]struct {
		let  func(d *duo, gate chan error)
		want error
	}{
		"an error": {func(_ *duo, gate chan error) { gate <- errors.New("away") }, ErrUnavailable},
		"none":     {func(_ *duo, gate chan error) { gate <- nil }, ErrUnavailable},
		"the end":  {func(d *duo, _ chan error) { _ = d.Close() }, ErrClosed},
	} {
		gate := make(chan error)
		duos(t, Options{Resolver: later{gate: gate}}, func(t *testing.T, d *duo) {
			ctx, cancel := context.WithCancel(t.Context())
			failed := make(chan error, 1)
			closed := &closes{Reader: strings.NewReader("")}
			r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://orders/", closed)
			if err != nil {
				t.Fatal(err)
			}
			go func() {
				_, err := d.RoundTrip(r) //nolint:bodyclose // there is none
				failed <- err
			}()
			x.let(d, gate)
			if err := testkit.Receive(t, "an error", failed); !errors.Is(err, x.want) || !closed.closed.Load() {
				t.Errorf("%s: %v, closed %v", what, err, closed.closed.Load())
			}
			cancel()
		})
	}
}

// closes is a body that knows whether it was closed.
type closes struct {
	io.Reader
	closed atomic.Bool
}

func (c *closes) Close() error {
	c.closed.Store(true)
	return nil
}

// TestRefused: an error names the option that makes no sense.
func TestRefused(t *testing.T) {
	some := discovery.Static()
	for want, o := range map[string]Options{
		"Resolver is nil":     {},
		"Options.Policy is 9": {Resolver: some, Balance: balance.Options{Policy: 9}},
		"Attempts.Max is 99":  {Resolver: some, Attempts: balance.Attempts{Max: 99}},
	} {
		if _, err := New(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
