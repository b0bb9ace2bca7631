package interop

import (
	"bytes"
	"crypto/tls"
	"net/http"
	"testing"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/http1"
	"github.com/go-eddy/eddy/http2"
	"github.com/go-eddy/eddy/internal/testkit"
	"github.com/go-eddy/eddy/tlsx"
	"github.com/go-eddy/eddy/websocket"
)

// echo sends every message back, or gives it to got.
type echo struct{ got chan []byte }

func (e echo) HandleOpen(*websocket.Conn) error { return nil }

func (e echo) HandleMessage(c *websocket.Conn, op websocket.Opcode, data []byte) error {
	if e.got == nil {
		return c.WriteBytes(op, data)
	}
	e.got <- bytes.Clone(data)
	return nil
}

func (e echo) HandleClose(*websocket.Conn, int, string) {
	if e.got != nil {
		close(e.got)
	}
}

// serveEcho serves WebSockets by both versions of HTTP on one port, with TLS if there is a certificate.
func serveEcho(t *testing.T, cert *tls.Certificate) (addr string) {
	t.Helper()
	pool, err := executor.NewFixed(executor.Options{Name: "handshakes", Workers: 4, Queue: 256})
	if err != nil {
		t.Fatal(err)
	}
	h := http.NewServeMux()
	h.HandleFunc("/echo", func(w http.ResponseWriter, r *http.Request) {
		_, _ = websocket.Upgrade(w, r, echo{}, websocket.Options{}) // a refusal is answered
	})
	return serveBoth(t, pool, http1.NewHandler(h, pool, http1.Options{}), http2.NewHandler(h, pool, http2.Options{Connect: true}), cert)
}

// serveBoth serves both versions of HTTP on one port, with TLS if there is a certificate.
func serveBoth(t *testing.T, pool *executor.Pool, h1 *http1.Factory, h2 *http2.Factory, cert *tls.Certificate) (addr string) {
	t.Helper()
	srv := &eddy.Server{Init: http2.Either(h1.Init, h2.Init), Pools: []*executor.Pool{pool}}
	if cert != nil {
		layer, err := tlsx.Server(&tls.Config{Certificates: []tls.Certificate{*cert}, NextProtos: []string{"h2", "http/1.1"}}, pool, tlsx.Options{
			Established: tlsx.ByProtocol(map[string]func(*eddy.Pipeline) error{"h2": h2.Init, "http/1.1": h1.Init, "": h1.Init}),
		})
		if err != nil {
			t.Fatal(err)
		}
		srv.Init = func(p *eddy.Pipeline) error { return p.Add("tls", layer) }
	}
	if err := srv.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := srv.Shutdown(testkit.Context(t)); err != nil {
			t.Error(err)
		}
	})
	return srv.Addr().String()
}

// TestWebSocketOverHTTP2: node opens WebSockets as streams of HTTP/2, plain and with TLS.
func TestWebSocketOverHTTP2(t *testing.T) {
	id := newIdentity(t)
	node := testkit.Tool(t, "node")
	run(t, node, "testdata/websocket.mjs", "http://"+serveEcho(t, nil))
	run(t, node, "testdata/websocket.mjs", "https://"+serveEcho(t, &id.cert), id.certFile)
}

// TestWebSocketProxies: haproxy passes WebSockets on as streams of HTTP/2. It takes them as such, from node, or by HTTP/1.1.
func TestWebSocketProxies(t *testing.T) {
	testkit.Tool(t, "haproxy")
	t.Run("streams in front", func(t *testing.T) {
		run(t, testkit.Tool(t, "node"), "testdata/websocket.mjs", "http://"+frontByHaproxy(t, serveEcho(t, nil), "h2"))
	})
	t.Run("HTTP/1.1 in front", func(t *testing.T) {
		addr := frontByHaproxy(t, serveEcho(t, nil), "h1")
		d := &websocket.Dialer{}
		t.Cleanup(func() {
			if err := d.Close(); err != nil {
				t.Error(err)
			}
		})
		var all []*websocket.Conn
		var got []echo
		for i := range 20 {
			e := echo{make(chan []byte, 1)}
			c, err := d.Dial(testkit.Context(t), "ws://"+addr+"/echo", e)
			if err != nil {
				t.Fatalf("%d: %v", i, err)
			}
			all, got = append(all, c), append(got, e)
		}
		for i, c := range all {
			msg := bytes.Repeat([]byte{byte(i)}, 1+i*10_000)
			if err := c.Write(websocket.Binary, msg); err != nil {
				t.Fatal(err)
			}
			if b := testkit.Receive(t, "the message", got[i].got); !bytes.Equal(b, msg) {
				t.Errorf("%d: %d bytes", i, len(b))
			}
			if err := c.Close(websocket.CloseNormal, ""); err != nil {
				t.Error(err)
			}
			for range got[i].got { // until it is closed
			}
		}
	})
}
