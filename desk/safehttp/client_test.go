package safehttp

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/http1"
	"github.com/go-eddy/eddy/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// names is a resolver under the control of a test.
type names func(host string) ([]netip.Addr, error)

func (n names) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) { return n(host) }

func client(t *testing.T, o Options) *Client {
	t.Helper()
	o.Logger, o.connectTimeout = slog.New(slog.DiscardHandler), testkit.Patience
	o.Group = &eddy.Group{Name: "test", Loops: 1, Logger: o.Logger}
	pool, err := executor.NewFixed(executor.Options{Name: "handshakes", Workers: 2, Queue: 100, Logger: o.Logger})
	if err != nil {
		t.Fatal(err)
	}
	o.Handshakes = pool
	c, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		err := errors.Join(c.Close(), c.Close(), o.Group.Close())
		pool.Close()
		_, perr := pool.Shutdown(context.Background())
		if err := errors.Join(err, perr); err != nil {
			t.Error(err)
		}
	})
	return c
}

func post(t *testing.T, c *Client, address string, most int64) (Response, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(testkit.Context(t), http.MethodPost, address, strings.NewReader("body"))
	if err != nil {
		t.Fatal(err)
	}
	type outcome struct {
		resp Response
		err  error
	}
	result := make(chan outcome, 2)
	c.Do(r, most, func(resp Response, err error) { result <- outcome{resp, err} })
	got := testkit.Receive(t, "the outcome", result)
	return got.resp, got.err
}

// server counts what reaches it.
func server(t *testing.T, serve http.HandlerFunc) (*httptest.Server, *atomic.Int32) {
	var hits atomic.Int32
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		hits.Add(1)
		serve(w, r)
	}))
	t.Cleanup(s.Close)
	return s, &hits
}

func portOf(t *testing.T, s *httptest.Server) string {
	u, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	return u.Port()
}

func TestDo(t *testing.T) {
	s, _ := server(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Host", r.Host)
		w.WriteHeader(http.StatusTeapot)
		_, _ = w.Write([]byte(strings.Repeat("x", 100)))
	})
	c := client(t, Options{AllowPrivate: true, Resolver: names(func(string) ([]netip.Addr, error) {
		return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
	})})
	resp, err := post(t, c, "http://bot.example:"+portOf(t, s), 100)
	if err != nil || resp.Status != http.StatusTeapot || len(resp.Body) != 100 || resp.Header.Get("X-Host") != "bot.example:"+portOf(t, s) {
		t.Fatalf("%+v %v", resp, err)
	}
	if _, err := post(t, c, s.URL, 99); !errors.Is(err, ErrTooLong) {
		t.Errorf("a body over the limit: %v", err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if _, err := post(t, c, s.URL, 100); !errors.Is(err, http1.ErrTransportClosed) {
		t.Errorf("after Close: %v", err)
	}
}

// Nothing that must not be reached is: however its address is written, whatever its name resolves to.
func TestForbidden(t *testing.T) {
	s, hits := server(t, func(http.ResponseWriter, *http.Request) {})
	port := portOf(t, s)
	mapped := map[string][]string{
		"loopback.example": {"127.0.0.1"}, "six.example": {"::1"}, "mapped.example": {"::ffff:127.0.0.1"}, "zero.example": {"0.0.0.0"}, "metadata.example": {"169.254.169.254"},
		"nat64.example": {"64:ff9b::7f00:1"}, "mixed.example": {"8.8.8.8", "127.0.0.1"}, "unspecified.example": {"::"}, "ula.example": {"fd00::1"}, "multicast.example": {"224.0.0.1"},
		// what a resolver of the system makes of numbers
		"2130706433": {"127.0.0.1"}, "0x7f000001": {"127.0.0.1"}, "127.1": {"127.0.0.1"}, "0177.0.0.1": {"127.0.0.1"},
	}
	c := client(t, Options{Resolver: names(func(host string) (ips []netip.Addr, err error) {
		for _, a := range mapped[host] {
			ips = append(ips, netip.MustParseAddr(a))
		}
		return ips, nil
	})})
	hosts := []string{"127.0.0.1", "[::1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "0.0.0.0", "[::]", "10.0.0.1", "192.168.0.1", "172.16.0.1", "100.64.0.1", "169.254.169.254", "[fe80::1]", "[fd00::1]", "[64:ff9b::7f00:1]"}
	for h := range mapped {
		hosts = append(hosts, h)
	}
	for _, h := range hosts {
		if _, err := post(t, c, "https://"+h+":"+port+"/", 10); !errors.Is(err, ErrForbidden) {
			t.Errorf("%s: %v", h, err)
		}
	}
	if _, err := post(t, c, "http://loopback.example:"+port+"/", 10); !errors.Is(err, ErrForbidden) {
		t.Errorf("plain http: %v", err)
	}
	if _, err := post(t, c, "https://nothing.example:"+port+"/", 10); err == nil {
		t.Error("a name without an address")
	}
	if n := hits.Load(); n != 0 {
		t.Errorf("%d requests got through", n)
	}
}

// A name that is public when it is checked and private when it is looked up again: there is no second look. The address
// that was checked is the one that is connected to, once for each connection.
func TestRebinding(t *testing.T) {
	s, hits := server(t, func(http.ResponseWriter, *http.Request) {})
	var mu sync.Mutex
	asked := 0
	c := client(t, Options{Resolver: names(func(string) ([]netip.Addr, error) {
		mu.Lock()
		defer mu.Unlock()
		asked++
		if asked%2 == 1 {
			return []netip.Addr{netip.MustParseAddr("3ffe::1")}, nil // public once; nobody has been there since 2006
		}
		return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
	})})
	looked := func() int {
		mu.Lock()
		defer mu.Unlock()
		return asked
	}
	tasks := func() (n uint64) {
		for _, l := range c.o.Group.Stats() {
			n += l.Tasks
		}
		return n
	}
	for i := range 4 {
		ctx, cancel := context.WithCancel(t.Context())
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://rebind.example:"+portOf(t, s)+"/", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		done, before := make(chan error, 1), tasks()
		c.Do(r, 10, func(_ Response, err error) { done <- err })
		if i%2 == 0 {
			testkit.Eventually(t, "an attempt to connect to where nobody is", func() bool { return looked() > i && tasks() > before })
			cancel()
		}
		err = testkit.Receive(t, "the outcome", done)
		cancel()
		if err == nil || errors.Is(err, ErrForbidden) != (i%2 == 1) {
			t.Errorf("request %d: %v", i, err)
		}
		if n := looked(); n != i+1 {
			t.Errorf("request %d: the name was looked up %d times", i, n)
		}
	}
	if n := hits.Load(); n != 0 {
		t.Errorf("%d requests got through", n)
	}
}

// A redirect to a place that must not be reached is an answer and nothing else.
func TestRedirectIsNotFollowed(t *testing.T) {
	inner, hits := server(t, func(http.ResponseWriter, *http.Request) {})
	s, _ := server(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, inner.URL, http.StatusTemporaryRedirect)
	})
	c := client(t, Options{AllowPrivate: true})
	resp, err := post(t, c, s.URL, 1000)
	if err != nil || resp.Status != http.StatusTemporaryRedirect || resp.Header.Get("Location") != inner.URL {
		t.Fatalf("%+v %v", resp, err)
	}
	if n := hits.Load(); n != 0 {
		t.Error("the redirect was followed")
	}
}

// https: the certificate is checked against the name, not the address that the connection goes to.
func TestTLS(t *testing.T) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte(r.TLS.ServerName)) }))
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	s.StartTLS()
	t.Cleanup(s.Close)
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	local := names(func(string) ([]netip.Addr, error) { return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil })
	c := client(t, Options{AllowPrivate: true, Resolver: local, TLS: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}})
	port := portOf(t, s)
	if resp, err := post(t, c, "https://example.com:"+port+"/", 100); err != nil || string(resp.Body) != "example.com" {
		t.Errorf("%+v %v", resp, err)
	}
	var wrong *tls.CertificateVerificationError
	if _, err := post(t, c, "https://other.example:"+port+"/", 100); !errors.As(err, &wrong) {
		t.Errorf("a name that is not in the certificate: %v", err)
	}
	strangers := client(t, Options{AllowPrivate: true, Resolver: local})
	if _, err := post(t, strangers, "https://example.com:"+port+"/", 100); !errors.As(err, &wrong) {
		t.Errorf("an unknown authority: %v", err)
	}
}

func TestOptions(t *testing.T) {
	if _, err := New(Options{}); err == nil {
		t.Error("a client without loops")
	}
	c := client(t, Options{AllowPrivate: true})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	_ = l.Close()
	if _, err := post(t, c, "http://"+address+"/", 10); err == nil {
		t.Error("an answer from nobody")
	}
	if s := c.Stats(); s.Requests != 1 || s.Open != 0 {
		t.Errorf("%+v", s)
	}
}
