package interop

import (
	"testing"

	"github.com/go-eddy/eddy/internal/testkit"
	"github.com/go-eddy/eddy/rpc"
)

// TestProxies: the gRPC project's cases, and clients of HTTP/2, go through proxies that others wrote: in front of our
// servers, and behind our clients. Each needs its program.
func TestProxies(t *testing.T) {
	for name, front := range map[string]func(t *testing.T, backend string) (addr string){"nginx": frontByNginx, "haproxy": haproxyOfHTTP2} {
		t.Run(name, func(t *testing.T) {
			t.Run("in front of our server", func(t *testing.T) { runCases(t, front(t, serve(t, rpc.PortOptions{Name: "p"})), "") })
			t.Run("behind our client", func(t *testing.T) { serverCases(t, client(t, front(t, foreign(t)), false)) })
		})
	}
	for name, front := range map[string]func(t *testing.T, backend string) (addr string){"nginx, HTTP/1.1 behind it": pagesByNginx, "haproxy, HTTP/2 behind it": haproxyOfHTTP2} {
		// nghttp and node send on while the answer comes: then haproxy 2.6 can stand still, with node's server behind it, too.
		t.Run(name, func(t *testing.T) { askByCurl(t, front(t, serveHTTP(t, nil)), nil) })
	}
}

func frontByNginx(t *testing.T, backend string) string {
	addr := "127.0.0.1:" + freePort(t)
	startNginx(t, "server { listen "+addr+" http2; location / { grpc_pass grpc://"+backend+"; } }", addr)
	return addr
}

func pagesByNginx(t *testing.T, backend string) string {
	addr := "127.0.0.1:" + freePort(t)
	startNginx(t, "upstream b { server "+backend+"; keepalive 8; } server { listen "+addr+" http2; location / { "+
		"proxy_pass http://b; proxy_http_version 1.1; proxy_set_header Connection \"\"; proxy_request_buffering off; } }", addr)
	return addr
}

func haproxyOfHTTP2(t *testing.T, backend string) string { return frontByHaproxy(t, backend, "h2") }

// frontByHaproxy takes the protocol in front, h1 or h2.
func frontByHaproxy(t *testing.T, backend, proto string) string {
	path, addr := testkit.Tool(t, "haproxy"), "127.0.0.1:"+freePort(t)
	conf := "defaults\n mode http\n timeout connect 10s\n timeout client 60s\n timeout server 60s\n" +
		"frontend f\n bind " + addr + " proto " + proto + "\n default_backend b\nbackend b\n server s " + backend + " proto h2\n"
	start(t, path, "-db", "-f", write(t, "haproxy.cfg", []byte(conf)))
	listening(t, addr)
	return addr
}
