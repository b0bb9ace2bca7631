package tlsx_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/buf"
	"github.com/go-eddy/eddy/internal/enginetest"
	"github.com/go-eddy/eddy/internal/testkit"
	"github.com/go-eddy/eddy/tlsx"
)

// TestALPN: handlers are chosen by the negotiated protocol. TLS itself refuses a client that speaks none of the
// server's protocols. The layer refuses a client that negotiates none where handlers need one.
func TestALPN(t *testing.T) {
	config := serverConfig()
	config.NextProtos = []string{"loud", "quiet"}
	says := func(s string) func(p *eddy.Pipeline) error {
		return func(p *eddy.Pipeline) error {
			return p.Add(s, eddy.Handle(func(ctx *eddy.Context, b *buf.Bytes) error { return ctx.Write(s + " " + string(b.Bytes())) }))
		}
	}
	r := newRig(t, setup{
		config: config,
		o:      tlsx.Options{Established: tlsx.ByProtocol(map[string]func(*eddy.Pipeline) error{"loud": says("loud"), "quiet": says("quiet")})},
		add:    func(*eddy.Pipeline) error { return nil },
	})
	for _, name := range config.NextProtos {
		cc := clientConfig()
		cc.NextProtos = []string{name}
		c := r.dial(cc)
		io.WriteString(c, "x")
		got := make([]byte, len(name)+2)
		if _, err := io.ReadFull(c, got); err != nil || string(got) != name+" x" {
			t.Errorf("%s: %q, %v", name, got, err)
		}
		c.Close()
		r.wantEnd(eddy.ClosePeerClosed)
	}
	cc := clientConfig()
	cc.NextProtos = []string{"other"}
	if err := tls.Client(r.raw(), cc).Handshake(); err == nil || !strings.Contains(err.Error(), "no application protocol") {
		t.Errorf("another protocol: %v", err)
	}
	r.wantEnd(eddy.CloseHandshakeFailed)
	c := tls.Client(r.raw(), clientConfig())
	_ = c.Handshake()
	if _, err := io.ReadAll(c); err != nil {
		t.Errorf("no protocol: %v", err)
	}
	c.Close()
	if e := r.wantEnd(eddy.CloseHandshakeFailed); !strings.Contains(e.Error(), `no handlers for protocol ""`) {
		t.Errorf("%v", e)
	}
}

// TestEstablishedEvent: handlers receive the state before the first byte, also without importing the package.
func TestEstablishedEvent(t *testing.T) {
	r := newRig(t, setup{add: func(p *eddy.Pipeline) error { return p.Add("app", &teller{}) }})
	cc := clientConfig()
	cc.MaxVersion = tls.VersionTLS12
	c := r.dial(cc)
	io.WriteString(c, "x")
	got := make([]byte, len("TLS 1.2 localhost"))
	if _, err := io.ReadFull(c, got); err != nil || string(got) != "TLS 1.2 localhost" {
		t.Errorf("%q, %v", got, err)
	}
}

type teller struct{ state tls.ConnectionState }

func (h *teller) HandleEvent(ctx *eddy.Context, ev any) error {
	if e, ok := ev.(interface{ ConnectionState() tls.ConnectionState }); ok {
		h.state = e.ConnectionState()
	}
	return nil
}

func (h *teller) HandleRead(ctx *eddy.Context, _ any) error {
	return ctx.Write(tls.VersionName(h.state.Version) + " " + h.state.ServerName)
}

// TestSNI: the certificate by the name the client asks for.
func TestSNI(t *testing.T) {
	other, err := tlsx.SelfSigned("other.example")
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, setup{config: &tls.Config{Certificates: []tls.Certificate{cert(), other}}})
	for name, want := range map[string]tls.Certificate{"localhost": cert(), "other.example": other} {
		c := r.dial(&tls.Config{ServerName: name, RootCAs: roots(want)})
		echoed(t, c, []byte(name))
	}
}

// TestResumption: a second connection is resumed by a ticket.
func TestResumption(t *testing.T) {
	for name, config := range versions() {
		r := newRig(t, setup{})
		config.ClientSessionCache = tls.NewLRUClientSessionCache(10)
		for i := range 3 {
			c := r.dial(config)
			echoed(t, c, []byte("x")) // in 1.3 the ticket comes behind the handshake
			if c.ConnectionState().DidResume != (i > 0) {
				t.Errorf("%s: connection %d was resumed: %v", name, i, i == 0)
			}
			c.Close()
		}
		if n := r.layer.Stats().Resumed; n != 2 {
			t.Errorf("%s: %d resumed, want 2", name, n)
		}
	}
}

// TestClientCertificates: a client without a trusted certificate is refused with an alert.
func TestClientCertificates(t *testing.T) {
	mine, err := tlsx.SelfSigned("client")
	if err != nil {
		t.Fatal(err)
	}
	stranger, err := tlsx.SelfSigned("stranger")
	if err != nil {
		t.Fatal(err)
	}
	for name, config := range versions() {
		server := serverConfig()
		server.ClientAuth, server.ClientCAs = tls.RequireAndVerifyClientCert, roots(mine)
		names := make(chan string, 1)
		r := newRig(t, setup{config: server, o: tlsx.Options{Established: func(_ *eddy.Context, st tls.ConnectionState) error {
			names <- st.PeerCertificates[0].DNSNames[0]
			return nil
		}}})
		good := config.Clone()
		good.Certificates = []tls.Certificate{mine}
		echoed(t, r.dial(good), []byte("hello"))
		if n := <-names; n != "client" {
			t.Errorf("%s: the server sees %q", name, n)
		}
		for _, certs := range [][]tls.Certificate{nil, {stranger}} {
			bad := config.Clone()
			bad.Certificates = certs
			c := tls.Client(r.raw(), bad)
			err := c.Handshake()
			if err == nil { // in 1.3 the client is done before the server looks
				_, err = c.Read(make([]byte, 1))
			}
			if err == nil || !strings.Contains(err.Error(), "remote error: tls:") {
				t.Errorf("%s, %d certificates: %v", name, len(certs), err)
			}
			c.Close()
			r.wantEnd(eddy.CloseHandshakeFailed)
		}
	}
}

// store writes a certificate and its key.
func store(t *testing.T, c tls.Certificate, certFile, keyFile string) {
	t.Helper()
	key, err := x509.MarshalPKCS8PrivateKey(c.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{
		certFile: {Type: "CERTIFICATE", Bytes: c.Certificate[0]}, keyFile: {Type: "PRIVATE KEY", Bytes: key},
	} {
		if file == "" {
			continue
		}
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// TestReload: new connections get a new certificate, established ones are not affected, and wrong files change nothing.
func TestReload(t *testing.T) {
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	store(t, cert(), certFile, keyFile)
	pair, err := tlsx.LoadKeyPair(certFile, keyFile)
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, setup{config: &tls.Config{GetCertificate: pair.GetCertificate}})
	next, err := tlsx.SelfSigned("localhost")
	if err != nil {
		t.Fatal(err)
	}
	any := &tls.Config{ServerName: "localhost", RootCAs: roots(cert(), next)}

	var failed atomic.Int64
	var traffic sync.WaitGroup
	stop := make(chan struct{})
	for range 4 {
		c := r.dial(any)
		traffic.Go(func() {
			b := make([]byte, 5)
			for {
				select {
				case <-stop:
					return
				default:
				}
				if _, err := c.Write([]byte("hello")); err != nil {
					failed.Add(1)
					return
				}
				if _, err := io.ReadFull(c, b); err != nil {
					failed.Add(1)
					return
				}
			}
		})
	}
	used := func() []byte {
		c := r.dial(any)
		defer c.Close()
		return c.ConnectionState().PeerCertificates[0].Raw
	}
	if changed, err := pair.Reload(); err != nil || changed {
		t.Errorf("the same files: changed %v, %v", changed, err)
	}
	store(t, next, "", keyFile)
	if changed, err := pair.Reload(); err == nil || changed || !strings.Contains(err.Error(), certFile) || !strings.Contains(err.Error(), keyFile) {
		t.Errorf("a key of another certificate: %v, %v", changed, err)
	}
	if !bytes.Equal(used(), cert().Certificate[0]) {
		t.Error("wrong files changed the certificate")
	}
	store(t, next, certFile, keyFile)
	if changed, err := pair.Reload(); err != nil || !changed {
		t.Errorf("new files: changed %v, %v", changed, err)
	}
	if !bytes.Equal(used(), next.Certificate[0]) || pair.Fingerprint() != tlsx.Fingerprint(&next) {
		t.Error("the new certificate is not in use")
	}
	close(stop)
	traffic.Wait()
	if n := failed.Load(); n > 0 {
		t.Errorf("%d connections were dropped", n)
	}
	if _, err := tlsx.LoadKeyPair(filepath.Join(dir, "none"), keyFile); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
}

// TestOptions: an invalid option is refused by name.
func TestOptions(t *testing.T) {
	pool := newPool(t, 1)
	for want, f := range map[string]func() (*tlsx.Layer, error){
		"needs a config with Certificates": func() (*tlsx.Layer, error) { return tlsx.Server(&tls.Config{}, pool, tlsx.Options{}) },
		"needs a pool":                     func() (*tlsx.Layer, error) { return tlsx.Server(serverConfig(), nil, tlsx.Options{}) },
		"Options.Rate is -1":               func() (*tlsx.Layer, error) { return tlsx.Server(serverConfig(), pool, tlsx.Options{Rate: -1}) },
		"needs a config with ServerName":   func() (*tlsx.Layer, error) { return tlsx.Client(&tls.Config{}, pool, tlsx.Options{}) },
		"a client refuses renegotiation": func() (*tlsx.Layer, error) {
			return tlsx.Client(&tls.Config{ServerName: "x", Renegotiation: tls.RenegotiateFreelyAsClient}, pool, tlsx.Options{})
		},
	} {
		if _, err := f(); err == nil || !strings.HasPrefix(err.Error(), "tlsx: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// client is a Dialer with a layer, whose connections put what they get into a channel.
func client(t *testing.T, config *tls.Config, o tlsx.Options) (*eddy.Dialer, *tlsx.Layer, chan string) {
	t.Helper()
	o.Logger = quiet()
	if o.Timeout == 0 {
		o.Timeout = time.Hour
	}
	layer, err := tlsx.Client(config, newPool(t, 2), o)
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan string, 100)
	d := &eddy.Dialer{LingerTimeout: linger, Init: func(p *eddy.Pipeline) error {
		p.Add("tls", layer)
		return p.Add("app", eddy.Handle(func(_ *eddy.Context, b *buf.Bytes) error { got <- string(b.Bytes()); return nil }))
	}}
	enginetest.RelaxDialer(d)
	t.Cleanup(func() { d.Close() })
	return d, layer, got
}

// TestClient: the engine on both sides, written to at once, in both versions.
func TestClient(t *testing.T) {
	for name, config := range versions() {
		r := newRig(t, setup{})
		d, layer, got := client(t, config, tlsx.Options{})
		ctx := testkit.Context(t)
		c, err := d.Dial(ctx, "tcp", r.addr)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Write("early"); err != nil {
			t.Fatal(err)
		}
		st, err := layer.Await(ctx, c)
		if err != nil || tls.VersionName(st.Version) != "TLS "+name || len(st.VerifiedChains) == 0 {
			t.Fatalf("%s: %v, %v", name, st, err)
		}
		if s := <-got; s != "early" {
			t.Errorf("%s: got %q", name, s)
		}
		c.CloseAfterFlush(eddy.CloseNormal)
		<-c.CloseFuture().Done()
		r.wantEnd(eddy.ClosePeerClosed)
		if _, err := layer.Await(ctx, c); !errors.Is(err, eddy.ErrClosed) {
			t.Errorf("after the end: %v", err)
		}
	}
}

// TestClientRefuses: a client's handshake fails with an error that says why, by type.
func TestClientRefuses(t *testing.T) {
	r := newRig(t, setup{})
	wrongName := clientConfig()
	wrongName.ServerName = "elsewhere.example"
	stranger := clientConfig()
	stranger.RootCAs = roots()
	for name, c := range map[string]struct {
		config *tls.Config
		is     func(error) bool
	}{
		"name":      {wrongName, func(err error) bool { _, ok := errors.AsType[x509.HostnameError](err); return ok }},
		"authority": {stranger, func(err error) bool { _, ok := errors.AsType[*tls.CertificateVerificationError](err); return ok }},
	} {
		d, layer, _ := client(t, c.config, tlsx.Options{})
		conn, err := d.Dial(t.Context(), "tcp", r.addr)
		if err != nil {
			t.Fatal(err)
		}
		_, err = layer.Await(t.Context(), conn)
		if _, ok := errors.AsType[*tlsx.HandshakeError](err); err != nil && !ok && !errors.Is(err, eddy.ErrClosed) || !c.is(err) {
			t.Errorf("%s: %v", name, err)
		}
		<-conn.CloseFuture().Done()
		if e := conn.CloseError(); e.Reason != eddy.CloseHandshakeFailed || !c.is(e) {
			t.Errorf("%s: %v", name, e)
		}
		r.wantEnd(eddy.CloseHandshakeFailed)
	}
}

// TestClientOfOthers: a peer that is no TLS server, or that never answers, ends the client's handshake, too.
func TestClientOfOthers(t *testing.T) {
	for name, serve := range map[string]func(net.Conn){
		"plain":  func(c net.Conn) { io.WriteString(c, "220 ready\r\n"); io.Copy(io.Discard, c) },
		"closed": func(c net.Conn) {},
		"silent": func(c net.Conn) { io.Copy(io.Discard, c) },
	} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		served := make(chan struct{})
		go func() {
			defer close(served)
			if c, err := l.Accept(); err == nil {
				serve(c)
				c.Close()
			}
		}()
		d, layer, _ := client(t, clientConfig(), tlsx.Options{Timeout: timeout})
		clock := enginetest.NewClock(t, d)
		conn, err := d.Dial(t.Context(), "tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		over := make(chan error, 1)
		go func() {
			_, err := layer.Await(t.Context(), conn)
			over <- err
		}()
		if name != "closed" { // the text, too, is no whole record
			clock.Advance(timeout - tick)
			if e := conn.CloseError(); e != nil {
				t.Errorf("%s: ended early with %v", name, e)
			}
			clock.Advance(2 * tick)
		}
		if err := testkit.Receive(t, "the outcome", over); err == nil {
			t.Errorf("%s: the handshake succeeded", name)
		}
		clock.Advance(0) // it has begun to end
		clock.Advance(linger + tick)
		testkit.Receive(t, "the end", conn.CloseFuture().Done())
		if e := conn.CloseError(); e.Reason != eddy.CloseHandshakeFailed && e.Reason != eddy.CloseIOError {
			t.Errorf("%s: %v", name, e)
		}
		<-served
		l.Close()
	}
}

// TestAwaitEnds with its context.
func TestAwaitEnds(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	d, layer, _ := client(t, clientConfig(), tlsx.Options{})
	conn, err := d.Dial(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	go cancel()
	if _, err := layer.Await(ctx, conn); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// TestBehindAnotherHandler: the layer need not be first. It may follow a preamble that names the original client.
func TestBehindAnotherHandler(t *testing.T) {
	for name, config := range versions() {
		r := newRig(t, setup{before: preamble{}})
		raw := r.raw()
		io.WriteString(raw, "PROXY\n")
		c := tls.Client(raw, config)
		for _, n := range []int{1, 5000, 100000} {
			echoed(t, c, pattern(n))
		}
		c.Close()
		if e := r.end(); e.Reason != eddy.ClosePeerClosed {
			t.Errorf("%s: %v", name, e)
		}
	}
}

// preamble removes a first line and then passes on all bytes.
type preamble struct{}

func (preamble) Decode(ctx *eddy.Context, view []byte) (int, error) {
	if ctx.State() == nil {
		i := bytes.IndexByte(view, '\n')
		if i >= 0 {
			ctx.SetState(true)
		}
		return i + 1, nil
	}
	ctx.FireRead(buf.Own(bytes.Clone(view)))
	return len(view), nil
}
