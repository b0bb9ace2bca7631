package interop

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/http1"
	"github.com/go-eddy/eddy/http2"
	"github.com/go-eddy/eddy/internal/testkit"
)

// pattern is the body of /big.
func pattern(n int) []byte {
	p := make([]byte, n)
	for i := range p {
		p[i] = byte(i % 251)
	}
	return p
}

// pages are what the clients of others ask for: answers of every size, an echo with a trailer, and a request that only
// its client ends.
func pages() http.Handler {
	big, over := pattern(8<<20), make(chan struct{}, 1)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /hello", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello\n") })
	mux.HandleFunc("GET /big", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", fmt.Sprint(len(big)))
		_, _ = w.Write(big)
	})
	mux.HandleFunc("POST /echo", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", "X-Length")
		n, _ := io.Copy(w, r.Body)
		w.Header().Set("X-Length", fmt.Sprint(n))
	})
	mux.HandleFunc("GET /late", func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		over <- struct{}{}
	})
	mux.HandleFunc("GET /over", func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-over:
			_, _ = io.WriteString(w, "over\n")
		case <-r.Context().Done():
		}
	})
	return mux
}

// serveHTTP serves pages by both versions of HTTP on one port, with TLS if there is a certificate, and returns its address.
func serveHTTP(t *testing.T, cert *tls.Certificate) string {
	t.Helper()
	pool, err := executor.NewFixed(executor.Options{Name: "http", Workers: 32, Queue: 256})
	if err != nil {
		t.Fatal(err)
	}
	h := pages()
	return serveBoth(t, pool, http1.NewHandler(h, pool, http1.Options{}), http2.NewHandler(h, pool, http2.Options{}), cert)
}

// TestHTTP2Clients: clients that others wrote ask our server, plain and with TLS. Each needs its program.
func TestHTTP2Clients(t *testing.T) {
	id := newIdentity(t)
	for name, ask := range map[string]func(t *testing.T, addr string, id *identity){
		"curl": askByCurl, "node": askByNode, "nghttp": askByNghttp, "h2load": askByH2load, "java": askByJava,
	} {
		t.Run(name, func(t *testing.T) {
			t.Run("plain", func(t *testing.T) { ask(t, serveHTTP(t, nil), nil) })
			t.Run("TLS", func(t *testing.T) { ask(t, serveHTTP(t, &id.cert), &id) })
		})
	}
}

func askByNode(t *testing.T, addr string, id *identity) {
	args := []string{"testdata/client.mjs", "http://" + addr}
	if id != nil {
		args = []string{"testdata/client.mjs", "https://" + addr, id.certFile}
	}
	run(t, testkit.Tool(t, "node"), args...)
}

// askByJava: Java speaks HTTP/2 only behind TLS here. On a plain port it asks for an upgrade, which RFC 9113 has dropped,
// and goes on by HTTP/1.1.
func askByJava(t *testing.T, addr string, id *identity) {
	args := []string{"testdata/Client.java", "http://" + addr, "HTTP_1_1"}
	if id != nil {
		args = []string{"testdata/Client.java", "https://" + addr, "HTTP_2", id.certFile}
	}
	run(t, testkit.Tool(t, "java"), args...)
}

func askByCurl(t *testing.T, addr string, id *identity) {
	curl := testkit.Tool(t, "curl")
	base, version := "http://"+addr, []string{"-sS", "--http2-prior-knowledge"}
	if id != nil {
		base, version = "https://"+addr, []string{"-sS", "--http2", "--cacert", id.certFile}
	}
	says := func(want string, args ...string) {
		t.Helper()
		if got := run(t, curl, append(version, args...)...); got != want {
			t.Errorf("%q: %q, want %q", args, got[max(0, len(got)-300):], want)
		}
	}
	says("hello\n2 200", "-w", "%{http_version} %{http_code}", base+"/hello")
	says("404", "-o", os.DevNull, "-w", "%{http_code}", base+"/nothing")
	says("200 0", "-I", "-o", os.DevNull, "-w", "%{http_code} %{size_download}", base+"/big")
	if id != nil { // by prior knowledge curl 7.88 fails at this, with every server
		says(strings.Repeat("hello\n", 40), "-Z", "--parallel-max", "20", base+"/hello?[1-40]")
	}
	sent, back := pattern(1<<20), filepath.Join(t.TempDir(), "back")
	says("200", "--data-binary", "@"+write(t, "sent", sent), "-o", back, "-w", "%{http_code}", base+"/echo")
	if got, err := os.ReadFile(back); err != nil || !bytes.Equal(got, sent) {
		t.Errorf("%d bytes came back (%v)", len(got), err)
	}
}

func askByNghttp(t *testing.T, addr string, id *identity) {
	nghttp := testkit.Tool(t, "nghttp")
	base := "http://" + addr
	if id != nil {
		base = "https://" + addr
	}
	if got := run(t, nghttp, "-m", "50", base+"/hello"); got != strings.Repeat("hello\n", 50) {
		t.Errorf("%q", got)
	}
	sent := pattern(1 << 20)
	if got := run(t, nghttp, "-d", write(t, "sent", sent), base+"/echo"); got != string(sent) {
		t.Errorf("%d bytes came back", len(got))
	}
	if got := run(t, nghttp, "-w", "16", "-W", "20", base+"/big"); got != string(pattern(8<<20)) { // windows of 64 KiB and 1 MiB
		t.Errorf("%d bytes", len(got))
	}
}

func askByH2load(t *testing.T, addr string, id *identity) {
	h2load := testkit.Tool(t, "h2load")
	base := "http://" + addr
	if id != nil {
		base = "https://" + addr
	}
	for _, args := range [][]string{{"-n", "2000", "-c", "8", "-m", "32", base + "/hello"}, {"-n", "40", "-c", "4", "-m", "4", "-d", write(t, "sent", pattern(1<<20)), base + "/echo"}} {
		got := run(t, h2load, args...)
		if !strings.Contains(got, fmt.Sprintf("%s succeeded, 0 failed, 0 errored, 0 timeout", args[1])) || !strings.Contains(got, "Application protocol: h2") {
			t.Errorf("%q:\n%s", args, got)
		}
	}
}
