package http1

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/buf"
	"github.com/go-eddy/eddy/internal/testkit"
)

// tunnels is a proxy of this package's own parts: CONNECT by Hijack, other requests by a Transport.
type tunnels struct {
	through   *Transport
	auth      string // that it wants
	connected atomic.Int32
	forwarded atomic.Int32
}

func (p *tunnels) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Proxy-Authorization") != p.auth {
		http.Error(w, "who are you", http.StatusProxyAuthRequired)
		return
	}
	if r.Method != http.MethodConnect {
		p.forwarded.Add(1)
		p.forward(w, r)
		return
	}
	p.connected.Add(1)
	far, err := net.DialTimeout("tcp", r.Host, testkit.Patience)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer func() { _ = far.Close() }()
	near, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer func() { _ = near.Close() }()
	if _, err := io.WriteString(near, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(near, far)
		_ = near.Close()
	}()
	_, _ = io.Copy(far, near)
	_ = far.Close()
	<-done
}

func (p *tunnels) forward(w http.ResponseWriter, r *http.Request) {
	r.RequestURI = ""
	r.Header.Del("Proxy-Authorization")
	resp, err := p.through.RoundTrip(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer func() { _ = resp.Body.Close() }()
	w.WriteHeader(resp.StatusCode)
	_, _ = io.Copy(w, resp.Body)
}

// shift stands for TLS in these tests: every byte is changed on its way, both ways.
type shift struct {
	by    byte
	ready func(error)
}

func (s *shift) HandleOpen(ctx *eddy.Context) error {
	if s.ready != nil {
		_, err := ctx.After(time.Millisecond, func() { s.ready(nil) })
		return err
	}
	return nil
}

func (s *shift) HandleRead(ctx *eddy.Context, msg any) error {
	b := msg.(*buf.Bytes)
	out := make([]byte, b.Len())
	for i, c := range b.Bytes() {
		out[i] = c - s.by
	}
	var m buf.Bytes
	m.Reset(out)
	ctx.FireRead(&m)
	return nil
}

func (s *shift) HandleWrite(ctx *eddy.Context, msg any) error {
	var in []byte
	switch m := msg.(type) {
	case []byte:
		in = m
	case string:
		in = []byte(m)
	case *buf.Bytes:
		in = m.Bytes()
	}
	out := make([]byte, len(in))
	for i, c := range in {
		out[i] = c + s.by
	}
	return ctx.Write(out)
}

// shifted is a server behind shift.
func shifted(t *testing.T, h http.HandlerFunc) *server {
	s := prepare(t, setup{handler: h})
	s.srv.Init = func(p *eddy.Pipeline) error {
		if err := p.Add("shift", &shift{by: 7}); err != nil {
			return err
		}
		return s.f.Init(p)
	}
	s.listen()
	return s
}

// Secure puts handlers in front, on direct connections and in tunnels through a proxy; http goes through the proxy as it is.
func TestTransportSecureAndProxy(t *testing.T) {
	far := shifted(t, site().ServeHTTP)
	plain := start(t, site().ServeHTTP)
	for _, auth := range []string{"", "Basic dTpw"} {
		proxy := &tunnels{through: transport(t, &Transport{}), auth: auth}
		between := start(t, proxy.ServeHTTP)
		proxyURL := &url.URL{Scheme: "http", Host: between.addr}
		if auth != "" {
			proxyURL.User = url.UserPassword("u", "p")
		}
		use := new(atomic.Bool)
		tr := transport(t, &Transport{
			Proxy: func(*http.Request) (*url.URL, error) {
				if use.Load() {
					return proxyURL, nil
				}
				return nil, nil
			},
			Secure: func(p *eddy.Pipeline, name string, ready func(error)) error {
				if name != "127.0.0.1" {
					t.Errorf("server name %q", name)
				}
				return p.Add("shift", &shift{7, ready})
			},
		})
		for _, direct := range []bool{true, false} {
			use.Store(!direct)
			for _, base := range []string{"https://" + far.addr, "http://" + plain.addr} {
				for range 3 {
					resp, err := tr.RoundTrip(request(t, "POST", base+"/echo", strings.NewReader(big(100000))))
					if err != nil {
						t.Fatalf("%s direct=%v: %v", base, direct, err)
					}
					if b, err := io.ReadAll(resp.Body); string(b) != big(100000) || err != nil {
						t.Errorf("%s direct=%v: %d bytes, %v", base, direct, len(b), err)
					}
				}
			}
		}
		if proxy.connected.Load() != 1 || proxy.forwarded.Load() != 3 {
			t.Errorf("%d tunnels, %d requests through the proxy", proxy.connected.Load(), proxy.forwarded.Load())
		}
		use.Store(true)
		proxyURL = &url.URL{Scheme: "http", Host: between.addr, User: url.UserPassword("u", "wrong")}
		if _, err := tr.RoundTrip(request(t, "GET", "https://"+far.addr, nil)); err == nil || !strings.Contains(err.Error(), "407") {
			t.Errorf("a proxy that refuses: %v", err)
		}
		proxyURL = &url.URL{Scheme: "socks5", Host: "a"}
		if _, err := tr.RoundTrip(request(t, "GET", "https://"+far.addr, nil)); err == nil || !strings.Contains(err.Error(), "only http proxies") {
			t.Errorf("another proxy: %v", err)
		}
	}
}

// A handshake that fails, or does not end, ends the request and the connection.
func TestTransportSecureFails(t *testing.T) {
	s := start(t, hello)
	broken := errors.New("broken")
	for name, secure := range map[string]func(*eddy.Pipeline, string, func(error)) error{
		"refused": func(*eddy.Pipeline, string, func(error)) error { return broken },
		"failed":  func(_ *eddy.Pipeline, _ string, ready func(error)) error { ready(broken); return nil },
		"endless": func(*eddy.Pipeline, string, func(error)) error { return nil },
	} {
		patience := time.Hour
		if name == "endless" {
			patience = 100 * time.Millisecond
		}
		tr := transport(t, &Transport{Secure: secure, ConnectTimeout: patience})
		_, err := tr.RoundTrip(request(t, "GET", "https://"+s.addr, nil))
		var te net.Error
		if !errors.Is(err, broken) && (name != "endless" || !errors.As(err, &te) || !te.Timeout()) {
			t.Errorf("%s: %v", name, err)
		}
		testkit.Eventually(t, "the connection to end", func() bool { return tr.Stats().Open == 0 })
	}
}
