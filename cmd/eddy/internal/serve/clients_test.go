package serve

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/gorilla/websocket"

	"github.com/go-eddy/eddy/cmd/eddy/internal/cmdtest"
	"github.com/go-eddy/eddy/internal/testkit"
	"github.com/go-eddy/eddy/tlsx"
)

// pairFlags stores a certificate for localhost and returns the flags that serve it and the file that makes clients trust it.
func pairFlags(t *testing.T) (flags []string, authority string) {
	t.Helper()
	c, err := tlsx.SelfSigned("localhost", "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	cmdtest.WritePair(t, c, cert, key)
	return []string{"--tls-cert", cert, "--tls-key", key}, cert
}

var wrkTotal = regexp.MustCompile(`TOTAL right=(\d+) wrong=0 connect=0 read=0 write=0 timeout=0 status=0\n`)

// TestServeHTTPWithWrk: the load generator of other people finds every response as it must be, also to pipelined requests
// and over TLS, and no error of a socket. All loads run side by side.
func TestServeHTTPWithWrk(t *testing.T) {
	wrk := testkit.Tool(t, "wrk")
	var loads sync.WaitGroup
	var servers []*cmdtest.Process
	for _, flags := range [][]string{nil, {"--tls-self-signed"}} {
		p := cmdtest.StartServer(t, append([]string{"serve", "http", "--addr", "127.0.0.1:0", "--queue", "4096"}, flags...)...)
		servers = append(servers, p)
		for _, c := range []struct{ name, method, path, body, depth, want string }{
			{"one at a time", "GET", "/", "", "1", "OK"},
			{"pipelined", "GET", "/", "", "16", "OK"},
			{"pipelined with bodies", "POST", "/", "a body", "8", "a body"},
			{"large", "GET", "/bytes?n=100000", "", "2", "100000"},
		} {
			loads.Go(func() {
				// A machine that is busy may not finish a request in the shortest time.
				for seconds := 1; ; seconds *= 4 {
					out, err := exec.CommandContext(testkit.Context(t), wrk, "-t", "1", "-c", "20", "-d", fmt.Sprint(seconds), "--timeout", "60s", "-s", "testdata/wrk.lua",
						cmdtest.Scheme("http", flags)+p.Addr, "--", c.method, c.path, c.body, c.depth, c.want).CombinedOutput()
					m := wrkTotal.FindSubmatch(out)
					none := m != nil && string(m[1]) == "0"
					if none && seconds < 60 {
						continue
					}
					if err != nil || m == nil || none || bytes.Contains(out, []byte("Non-2xx")) || bytes.Contains(out, []byte("Socket errors")) {
						t.Errorf("%s %v: %v\n%s", c.name, flags, err, out)
					}
					return
				}
			})
		}
	}
	loads.Wait()
	for _, p := range servers {
		p.Stop()
	}
}

// TestServeTLSWithCurl: curl believes the certificate, keeps its connection, and is refused where it must be.
func TestServeTLSWithCurl(t *testing.T) {
	curl := testkit.Tool(t, "curl")
	flags, authority := pairFlags(t)
	site := cmdtest.StartServer(t, append([]string{"serve", "http", "--addr", "127.0.0.1:0"}, flags...)...)
	sockets := cmdtest.StartServer(t, append([]string{"serve", "ws", "--addr", "127.0.0.1:0"}, flags...)...)
	base, body := "https://localhost:"+portOf(t, site.Addr), strings.Repeat("0123456789", 30_000)
	for _, c := range []struct{ args, stdin, want string }{
		{"--tlsv1.2 --tls-max 1.2 -w %{http_version}:%{num_connects}; " + base + "/ " + base + "/", "", "OK2:1;OK2:0;"},
		{"--tlsv1.3 -w %{http_version}:%{num_connects}; " + base + "/ " + base + "/", "", "OK2:1;OK2:0;"},
		{"--http1.1 -w %{http_version}:%{num_connects}; " + base + "/ " + base + "/", "", "OK1.1:1;OK1.1:0;"},
		{"--http1.1 --data-binary @- " + base + "/", body, body},
		{"--data-binary @- " + base + "/", body, body},
		{"-T - " + base + "/upload", body, fmt.Sprintf("%x\n", sha256.Sum256([]byte(body)))},
		{"-o /dev/null -w %{size_download} " + base + "/bytes?n=10000000", "", "10000000"},
		{"-I -o /dev/null -w %{http_code} " + base + "/", "", "200"},
		{"-o /dev/null -w %{http_code} https://localhost:" + portOf(t, sockets.Addr) + "/", "", "400"},
	} {
		cmd := exec.CommandContext(testkit.Context(t), curl, append([]string{"-sS", "--ipv4", "--max-time", "200", "--cacert", authority}, strings.Fields(c.args)...)...)
		cmd.Stdin = strings.NewReader(c.stdin)
		if got, err := cmd.CombinedOutput(); err != nil || string(got) != c.want {
			t.Errorf("curl %s: %.80q, %v; want %.80q", c.args, got, err, c.want)
		}
	}
	// Without the authority there is no connection, and plain HTTP to the TLS port is told what is wrong.
	ask := func(url string) (string, error) {
		got, err := exec.CommandContext(testkit.Context(t), curl, "-sS", "--ipv4", "--max-time", "200", "-w", " %{http_code}", url).CombinedOutput()
		return string(got), err
	}
	if got, err := ask(base + "/"); err == nil {
		t.Errorf("curl believes anybody: %q", got)
	}
	if got, err := ask("http://localhost:" + portOf(t, site.Addr) + "/"); err != nil || !strings.Contains(got, "speaks TLS") || !strings.HasSuffix(got, " 400") {
		t.Errorf("plain HTTP to the TLS port: %q, %v", got, err)
	}
	site.Stop()
	sockets.Stop()
}

func portOf(t *testing.T, addr string) string {
	t.Helper()
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// TestServeTLSWithOpenSSL: every example server over the other TLS there is, 1.2 and 1.3.
func TestServeTLSWithOpenSSL(t *testing.T) {
	openssl := testkit.Tool(t, "openssl")
	flags, authority := pairFlags(t)
	const upgrade = "GET /any HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n" +
		"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
	for _, c := range []struct{ name, say, want string }{
		{"echo", "hello\n", "^hello\n$"},
		{"line", "hello\n", "hello\n$"},
		{"lanes", "hello\n", "\n$"},
		{"frame", string(frameOf(7, fEcho, "hello")), "hello$"},
		{"http", "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", "^HTTP/1.1 200 OK\r\n(?s:.*)\r\n\r\nOK$"},
		{"ws", upgrade + "\x81\x85\x00\x00\x00\x00hello", "^HTTP/1.1 101 (?s:.*)s3pPLMBiTxaQ9kYGzzhZRbK\\+xOo=(?s:.*)\r\n\r\n(?s:.)\x05hello$"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := cmdtest.StartServer(t, append([]string{"serve", c.name, "--addr", "127.0.0.1:0"}, flags...)...)
			for _, version := range []string{"-tls1_2", "-tls1_3"} {
				ctx, cancel := context.WithCancel(testkit.Context(t))
				cmd := exec.CommandContext(ctx, openssl, "s_client", "-quiet", version, "-connect", p.Addr, "-servername", "localhost",
					"-verify_return_error", "-verify_hostname", "localhost", "-CAfile", authority)
				in, err := cmd.StdinPipe()
				if err != nil {
					t.Fatal(err)
				}
				client := cmdtest.StartCommand(t, cmd)
				if _, err := in.Write([]byte(c.say)); err != nil {
					t.Error(err)
				}
				client.WaitOutput(client.Out, regexp.MustCompile(c.want))
				cancel()
				<-client.Ended
			}
			p.Stop()
		})
	}
}

// TestServeWSWithGorilla: a second independent client, with and without compression and TLS; close codes come back.
func TestServeWSWithGorilla(t *testing.T) {
	t.Parallel()
	for _, flags := range [][]string{nil, {"--compress"}, {"--tls-self-signed", "--compress", "--compress-takeover"}} {
		t.Run(strings.Join(flags, " "), func(t *testing.T) {
			p := cmdtest.StartServer(t, append([]string{"serve", "ws", "--addr", "127.0.0.1:0", "--max-message", "1000000"}, flags...)...)
			d := websocket.Dialer{EnableCompression: true, HandshakeTimeout: testkit.Patience}
			if strings.Contains(strings.Join(flags, " "), "--tls") {
				d.TLSClientConfig = cmdtest.Pinned(p.Fingerprint())
			}
			open := func() *websocket.Conn {
				c, resp, err := d.DialContext(testkit.Context(t), cmdtest.Scheme("ws", flags)+p.Addr+"/any", http.Header{"Origin": {"https://elsewhere.example"}})
				if err != nil {
					t.Fatal(err)
				}
				if ext := resp.Header.Get("Sec-WebSocket-Extensions"); (ext != "") != (len(flags) > 0) {
					t.Errorf("extensions %q with %v", ext, flags)
				}
				return c
			}
			c := open()
			for _, m := range []string{"", "hello 人工", strings.Repeat("large ", 100_000), string(bytes.Repeat([]byte{0, 1, 254}, 300_000))} {
				kind := websocket.TextMessage
				if strings.ContainsRune(m, 0) {
					kind = websocket.BinaryMessage
				}
				if err := c.WriteMessage(kind, []byte(m)); err != nil {
					t.Fatal(err)
				}
				if got, b, err := c.ReadMessage(); err != nil || got != kind || string(b) != m {
					t.Fatalf("echo of %d bytes of kind %d: %d bytes of kind %d, %v", len(m), kind, len(b), got, err)
				}
			}
			if err := c.WriteMessage(websocket.BinaryMessage, make([]byte, 1_000_001)); err != nil {
				t.Fatal(err)
			}
			expectCloseCode(t, c, websocket.CloseMessageTooBig)
			c = open()
			if err := c.WriteMessage(websocket.TextMessage, []byte("not UTF-8: \xff")); err != nil {
				t.Fatal(err)
			}
			expectCloseCode(t, c, websocket.CloseInvalidFramePayloadData)
			for _, code := range []int{websocket.CloseNormalClosure, 3001, 4999} {
				c = open()
				if err := c.WriteMessage(websocket.CloseMessage, websocket.FormatCloseMessage(code, "why")); err != nil {
					t.Fatal(err)
				}
				expectCloseCode(t, c, code)
			}
			p.Stop()
		})
	}
}

func expectCloseCode(t *testing.T, c *websocket.Conn, code int) {
	t.Helper()
	defer c.Close()
	if _, _, err := c.ReadMessage(); !websocket.IsCloseError(err, code) {
		t.Errorf("%v, want close code %d", err, code)
	}
}

// TestServeTLSVersions: crypto/tls with each version that it and the server have, resumption included.
func TestServeTLSVersions(t *testing.T) {
	p := cmdtest.StartServer(t, "serve", "echo", "--addr", "127.0.0.1:0", "--tls-self-signed")
	config := cmdtest.Pinned(p.Fingerprint())
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		config.MinVersion, config.MaxVersion = version, version
		config.ClientSessionCache = tls.NewLRUClientSessionCache(1)
		for i := range 2 {
			c, err := tls.DialWithDialer(&net.Dialer{Timeout: testkit.Patience}, "tcp", p.Addr, config)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := c.Write([]byte("hello")); err != nil {
				t.Fatal(err)
			}
			b := make([]byte, 5)
			if _, err := io.ReadFull(c, b); err != nil || string(b) != "hello" {
				t.Errorf("%q, %v", b, err)
			}
			if st := c.ConnectionState(); st.Version != version || st.DidResume != (i > 0) {
				t.Errorf("version %x resumed %v, want %x and %v", st.Version, st.DidResume, version, i > 0)
			}
			c.Close()
		}
	}
	p.Stop()
}
