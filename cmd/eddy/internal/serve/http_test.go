package serve

import (
	"bufio"
	"crypto/sha256"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/go-eddy/eddy/cmd/eddy/internal/cmdtest"
	"github.com/go-eddy/eddy/internal/testkit"
)

// TestServeHTTP asks every path of the example site with the standard client.
func TestServeHTTP(t *testing.T) {
	p := cmdtest.StartServer(t, "serve", "http", "--addr", "127.0.0.1:0", "--max-body", "300000")
	client := &http.Client{Timeout: testkit.Patience}
	t.Cleanup(client.CloseIdleConnections)
	up := strings.Repeat("0123456789", 25_000)
	for _, c := range []struct {
		method, path, body string
		status             int
		want               string
	}{
		{"GET", "/", "", 200, "OK"},
		{"HEAD", "/", "", 200, ""},
		{"OPTIONS", "/", "", 200, "OK"},
		{"POST", "/", "any bytes \x00\xff", 200, "any bytes \x00\xff"},
		{"POST", "/", up, 200, up},
		{"POST", "/", "", 200, ""},
		{"POST", "/", up + up, 413, ""},
		{"DELETE", "/", "", 405, ""},
		{"BREW", "/", "", 501, ""},
		{"BREW", "/nowhere", "", 501, ""},
		{"GET", "/nowhere", "", 404, ""},
		{"GET", "/echo", "", 200, "Accept-Encoding: gzip\nCookie: a=1; b=\"2\"; c=\nHost: " + p.Addr + "\nUser-Agent: test\nX-Many: 1\nX-Many: 2\n"},
		{"GET", "/cookie", "", 200, "a=1\nb=2\nc=\n"},
		{"GET", "/bytes?n=123456", "", 200, strings.Repeat("0123456789", 12346)[:123456]},
		{"HEAD", "/bytes?n=123456", "", 200, ""},
		{"GET", "/bytes?n=0", "", 200, ""},
		{"GET", "/bytes?n=-1", "", 400, ""},
		{"GET", "/bytes", "", 400, ""},
		{"POST", "/upload", up, 200, fmt.Sprintf("%x\n", sha256.Sum256([]byte(up)))},
		{"GET", "/upload", "", 405, ""},
		{"GET", "/slow?ms=1", "", 200, "OK"},
		{"GET", "/slow?ms=60001", "", 400, ""},
		{"GET", "/events?ms=9", "", 400, ""},
	} {
		r, err := http.NewRequest(c.method, "http://"+p.Addr+c.path, strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header = http.Header{"User-Agent": {"test"}, "X-Many": {"1", "2"}, "Cookie": {`a=1; b="2"; c=`}}
		res, err := client.Do(r)
		if err != nil {
			t.Errorf("%s %s: %v", c.method, c.path, err)
			continue
		}
		got, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil || res.StatusCode != c.status || c.status == 200 && string(got) != c.want {
			t.Errorf("%s %s: %d %.60q, %v; want %d %.60q", c.method, c.path, res.StatusCode, got, err, c.status, c.want)
		}
		if allowed := res.Header.Get("Allow"); (allowed != "") != (c.status == 405 || c.method == "OPTIONS") {
			t.Errorf("%s %s: Allow %q with status %d", c.method, c.path, allowed, c.status)
		}
	}
	p.Stop()
}

// TestServeHTTPWithCurl uses the server as a person does, in both versions of HTTP.
func TestServeHTTPWithCurl(t *testing.T) {
	curl := testkit.Tool(t, "curl")
	p := cmdtest.StartServer(t, "serve", "http", "--addr", "127.0.0.1:0")
	base := "http://" + p.Addr
	for _, c := range []struct{ args, stdin, want string }{
		{base + "/ " + base + "/", "", "OKOK"}, // one connection
		{"--data-binary @- " + base + "/", strings.Repeat("x", 100_000), strings.Repeat("x", 100_000)},
		{"-H Expect:100-continue -T - " + base + "/upload", "abc", fmt.Sprintf("%x\n", sha256.Sum256([]byte("abc")))}, // chunked
		{"-o /dev/null -w %{size_download} " + base + "/bytes?n=30000000", "", "30000000"},
		{"--http1.0 -w %{http_version}%{http_code} " + base + "/", "", "OK1.1200"},
		{"-X OPTIONS --request-target * -w %{http_code} " + base, "", "200"},
		{"-I -o /dev/null -w %{http_code}%{size_download} " + base + "/bytes?n=10", "", "2000"},
		{"-b a=1;b=2 " + base + "/cookie", "", "a=1\nb=2\n"},
	} {
		for _, version := range []string{"--http1.1", "--http2-prior-knowledge"} {
			switch {
			case strings.Contains(c.args, "--http1.0"):
				version = "--http1.0"
			case version == "--http2-prior-knowledge" && strings.Count(c.args, base) > 1: // curl 7.88 fails at a second request, whoever serves
				continue
			}
			cmd := exec.CommandContext(testkit.Context(t), curl, append([]string{"-sS", "--max-time", "200", version}, strings.Fields(c.args)...)...)
			cmd.Stdin = strings.NewReader(c.stdin)
			got, err := cmd.CombinedOutput()
			if err != nil || string(got) != c.want {
				t.Errorf("curl %s %s: %.80q, %v; want %.80q", version, c.args, got, err, c.want)
			}
		}
	}
	p.Stop()
}

// TestServeHTTPWaiters: clients that listen to events, that stall in their bodies, or that do not read, hold no worker; beyond
// the bound of those that wait, and a quarter of it for one address, the answer is 503.
func TestServeHTTPWaiters(t *testing.T) {
	p := cmdtest.StartServer(t, "serve", "http", "--addr", "127.0.0.1:0", "--workers", "2", "--parked", "64")
	status := func() int {
		res, err := http.Get("http://" + p.Addr + "/")
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		return res.StatusCode
	}
	var clients []net.Conn
	begin := func(head string, want string) {
		c := cmdtest.Connect(t, p.Addr)
		clients = append(clients, c)
		io.WriteString(c, head)
		got := make([]byte, len(want))
		if _, err := io.ReadFull(c, got); err != nil || string(got) != want {
			t.Fatalf("%q, %v, want %q", got, err, want)
		}
	}
	for range 5 {
		begin("GET /events?ms=10 HTTP/1.1\r\nHost: a\r\n\r\n", "HTTP/1.1 200")
		begin("POST /upload HTTP/1.1\r\nHost: a\r\nContent-Length: 30\r\nExpect: 100-continue\r\n\r\n", "HTTP/1.1 100")
		begin("GET /bytes?n=1000000000 HTTP/1.1\r\nHost: a\r\n\r\n", "HTTP/1.1 200")
		if got := status(); got != 200 {
			t.Fatalf("beside those that wait: status %d", got)
		}
	}
	begin("GET /events?ms=10 HTTP/1.1\r\nHost: a\r\n\r\n", "HTTP/1.1 200")
	testkit.Eventually(t, "503 beyond a quarter of 64", func() bool { return status() == 503 })
	for _, c := range clients { // a drain would wait for those that listen
		c.Close()
	}
	p.Stop()
}

// TestServeHTTPDrains stops the server while a request is being handled, which is still answered.
func TestServeHTTPDrains(t *testing.T) {
	p := cmdtest.StartServer(t, "serve", "http", "--addr", "127.0.0.1:0")
	c := cmdtest.Connect(t, p.Addr)
	io.WriteString(c, "POST /upload HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n")
	if _, err := io.ReadFull(c, make([]byte, len("HTTP/1.1 100 Continue\r\n\r\n"))); err != nil { // the handler reads
		t.Fatal(err)
	}
	p.Signal(syscall.SIGTERM)
	p.WaitOutput(p.Errs, reportDraining)
	io.WriteString(c, "abc")
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(res.Body); res.StatusCode != 200 || string(got) != fmt.Sprintf("%x\n", sha256.Sum256([]byte("abc"))) {
		t.Errorf("%d %q, %v", res.StatusCode, got, err)
	}
	c.Close()
	if code := p.Wait(); code != 0 {
		t.Errorf("exit code %d; stderr %q", code, p.Errs)
	}
}

// TestServeHTTPPerAddress: with --max-per-ip one address has no more connections than that, and is told so; when one ends there
// is room again. With TLS there is nobody to tell.
func TestServeHTTPPerAddress(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{"": "HTTP/1.1 503 Service Unavailable\r\n", "--tls-self-signed": ""} {
		p := cmdtest.StartServer(t, append([]string{"serve", "http", "--addr", "127.0.0.1:0", "--max-per-ip", "2"}, strings.Fields(args)...)...)
		first := cmdtest.Connect(t, p.Addr)
		cmdtest.Connect(t, p.Addr)
		told := cmdtest.Talk(t, p.Addr, "")
		if !strings.HasPrefix(told, want) || (want == "") != (told == "") {
			t.Errorf("%s: a third connection is told %q", args, told)
		}
		if args == "" {
			first.Close()
			client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: testkit.Patience}
			testkit.Eventually(t, "room for another", func() bool {
				res, err := client.Get("http://" + p.Addr)
				if err == nil {
					res.Body.Close()
				}
				return err == nil && res.StatusCode == http.StatusOK
			})
		}
		p.Stop()
	}
}
