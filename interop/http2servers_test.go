package interop

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/http2"
	"github.com/go-eddy/eddy/internal/testkit"
	"github.com/go-eddy/eddy/tlsx"
)

// transport is our client, which trusts the identity. It ends with the test.
func transport(t *testing.T, id identity) *http2.Transport {
	t.Helper()
	pool, err := executor.NewFixed(executor.Options{Name: "handshakes", Queue: 64})
	if err != nil {
		t.Fatal(err)
	}
	secure, err := tlsx.Secure(&tls.Config{RootCAs: id.roots, NextProtos: []string{"h2"}}, pool, tlsx.Options{})
	if err != nil {
		t.Fatal(err)
	}
	tr := &http2.Transport{Secure: secure}
	t.Cleanup(func() {
		if err := tr.Close(); err != nil {
			t.Error(err)
		}
		pool.Close()
	})
	return tr
}

// asked asks for one page and returns its status, its body and its trailer.
func asked(t *testing.T, tr http.RoundTripper, method, url string, body io.Reader) (string, []byte, http.Header) {
	t.Helper()
	req, err := http.NewRequestWithContext(testkit.Context(t), method, url, body)
	if err != nil {
		t.Error(err)
		return "", nil, nil
	}
	resp, err := tr.RoundTrip(req)
	if err != nil {
		t.Errorf("%s %s: %v", method, url, err)
		return "", nil, nil
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err != nil || resp.ProtoMajor != 2 {
		t.Errorf("%s %s: %v, %s", method, url, err, resp.Proto)
	}
	return resp.Status, got, resp.Trailer
}

// TestHTTP2Servers: our client asks servers that others wrote, plain and with TLS. Each needs its program.
func TestHTTP2Servers(t *testing.T) {
	id := newIdentity(t)
	for name, serve := range map[string]func(t *testing.T, id *identity) (base string){"node": serveByNode, "nghttpd": serveByNghttpd, "nginx": serveByNginx} {
		t.Run(name, func(t *testing.T) {
			for _, c := range []struct {
				name string
				id   *identity
			}{{"plain", nil}, {"TLS", &id}} {
				t.Run(c.name, func(t *testing.T) {
					base := serve(t, c.id)
					pagesOf(t, transport(t, id), base, name == "node")
				})
			}
		})
	}
}

// pagesOf asks a server for many pages at once. One that is written for this test has more.
func pagesOf(t *testing.T, tr *http2.Transport, base string, ours bool) {
	var wg sync.WaitGroup
	for range 100 {
		wg.Go(func() {
			if status, body, _ := asked(t, tr, "GET", base+"/hello", nil); !strings.HasPrefix(status, "200") || string(body) != "hello\n" {
				t.Errorf("%s %q", status, body)
			}
		})
	}
	big := pattern(8 << 20)
	for range 4 {
		wg.Go(func() {
			if status, body, _ := asked(t, tr, "GET", base+"/big", nil); !strings.HasPrefix(status, "200") || !bytes.Equal(body, big) {
				t.Errorf("%s, %d bytes", status, len(body))
			}
		})
	}
	wg.Wait()
	if status, _, _ := asked(t, tr, "GET", base+"/nothing", nil); !strings.HasPrefix(status, "404") {
		t.Error(status)
	}
	if !ours {
		return
	}
	sent := big[:1<<20]
	for range 8 {
		wg.Go(func() {
			if _, body, trailer := asked(t, tr, "POST", base+"/echo", bytes.NewReader(sent)); !bytes.Equal(body, sent) || trailer.Get("X-Length") != fmt.Sprint(len(sent)) {
				t.Errorf("%d bytes, trailer %v", len(body), trailer)
			}
		})
	}
	wg.Wait()
	for range 20 { // each ends its connection, and the next goes on another
		if status, body, _ := asked(t, tr, "GET", base+"/goodbye", nil); !strings.HasPrefix(status, "200") || string(body) != "bye\n" {
			t.Errorf("%s %q", status, body)
		}
	}
	hints(t, tr, base+"/hello")
}

// hints asks for a page that comes behind a 103.
func hints(t *testing.T, tr *http2.Transport, url string) {
	t.Helper()
	var codes []int
	ctx := httptrace.WithClientTrace(testkit.Context(t), &httptrace.ClientTrace{Got1xxResponse: func(code int, _ textproto.MIMEHeader) error {
		codes = append(codes, code)
		return nil
	}})
	req, err := http.NewRequestWithContext(ctx, "GET", url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := tr.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if fmt.Sprint(codes) != "[103]" {
		t.Errorf("informational responses %v", codes)
	}
}

func serveByNode(t *testing.T, id *identity) string {
	args, scheme := []string{"testdata/server.mjs"}, "http"
	if id != nil {
		args, scheme = append(args, id.keyFile, id.certFile), "https"
	}
	out := start(t, testkit.Tool(t, "node"), args...)
	testkit.Eventually(t, "the port of node's server", func() bool { return strings.Contains(out.String(), "\n") })
	return scheme + "://127.0.0.1:" + strings.TrimSpace(out.String())
}

// files is a folder with the pages.
func files(t *testing.T) string {
	t.Helper()
	dir := filepath.Dir(write(t, "hello", []byte("hello\n")))
	if err := os.WriteFile(filepath.Join(dir, "big"), pattern(8<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

func serveByNghttpd(t *testing.T, id *identity) string {
	path, port := testkit.Tool(t, "nghttpd"), freePort(t)
	args, scheme := []string{"-a", "127.0.0.1", "-d", files(t)}, "http"
	if id != nil {
		args, scheme = append(args, port, id.keyFile, id.certFile), "https"
	} else {
		args = append(args, "--no-tls", port)
	}
	start(t, path, args...)
	listening(t, "127.0.0.1:"+port)
	return scheme + "://127.0.0.1:" + port
}

func serveByNginx(t *testing.T, id *identity) string {
	port, secure, scheme := freePort(t), "", "http"
	if id != nil {
		secure, scheme = " ssl; ssl_certificate "+id.certFile+"; ssl_certificate_key "+id.keyFile, "https"
	}
	startNginx(t, "server { listen 127.0.0.1:"+port+" http2"+secure+"; root "+files(t)+"; }", "127.0.0.1:"+port)
	return scheme + "://127.0.0.1:" + port
}

// startNginx starts nginx with servers, as its configuration writes them, the last at addr.
func startNginx(t *testing.T, servers, addr string) {
	t.Helper()
	path, dir := testkit.Tool(t, "nginx"), t.TempDir()
	var temp strings.Builder
	for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		fmt.Fprintf(&temp, "%s_temp_path %s/%s; ", kind, dir, kind)
	}
	conf := "daemon off; master_process off; pid " + dir + "/pid; error_log stderr; events {} http { access_log off; client_max_body_size 0; " + temp.String() + servers + " }\n"
	start(t, path, "-e", "stderr", "-c", write(t, "nginx.conf", []byte(conf)))
	listening(t, addr)
}
