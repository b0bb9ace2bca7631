package serve

import (
	"bufio"
	"crypto/tls"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/go-eddy/eddy/cmd/eddy/internal/cmdtest"
	"github.com/go-eddy/eddy/internal/testkit"
	"github.com/go-eddy/eddy/tlsx"
)

// TestServeTLS: every example server speaks TLS with a certificate made at its start, whose fingerprint it prints.
func TestServeTLS(t *testing.T) {
	for _, name := range []string{"echo", "line", "lanes", "frame", "http", "ws"} {
		t.Run(name, func(t *testing.T) {
			p := cmdtest.StartServer(t, "serve", name, "--addr", "127.0.0.1:0", "--tls-self-signed")
			config := cmdtest.Pinned(p.Fingerprint())
			switch name {
			case "http":
				tr := &http.Transport{TLSClientConfig: config}
				resp, err := (&http.Client{Transport: tr}).Get("https://" + p.Addr + "/")
				if err != nil {
					t.Fatal(err)
				}
				b, err := io.ReadAll(resp.Body)
				resp.Body.Close()
				if err != nil || resp.StatusCode != 200 || !strings.HasPrefix(string(b), "OK") {
					t.Errorf("%d %q, %v", resp.StatusCode, b, err)
				}
				tr.CloseIdleConnections()
			case "frame":
				c, err := tls.Dial("tcp", p.Addr, config)
				if err != nil {
					t.Fatal(err)
				}
				f := &frameClient{c, t, bufio.NewReader(c)}
				f.ask(7, fEcho, "hello")
				if a, _ := f.read(); a.id != 7 || a.status != sOK || a.text != "hello" {
					t.Errorf("%+v", a)
				}
				c.Close()
			case "ws":
				ctx := testkit.Context(t)
				tr := &http.Transport{TLSClientConfig: config}
				c, _, err := websocket.Dial(ctx, "wss://"+p.Addr+"/", &websocket.DialOptions{HTTPClient: &http.Client{Transport: tr}})
				if err != nil {
					t.Fatal(err)
				}
				if err := c.Write(ctx, websocket.MessageText, []byte("hello")); err != nil {
					t.Fatal(err)
				}
				if _, b, err := c.Read(ctx); err != nil || string(b) != "hello" {
					t.Errorf("%q, %v", b, err)
				}
				c.Close(websocket.StatusNormalClosure, "")
			default:
				c, err := tls.Dial("tcp", p.Addr, config)
				if err != nil {
					t.Fatal(err)
				}
				io.WriteString(c, "hello\n")
				if line, err := bufio.NewReader(c).ReadString('\n'); err != nil || name != "lanes" && !strings.HasSuffix(line, "hello\n") {
					t.Errorf("%q, %v", line, err)
				}
				c.Close()
			}
			p.Stop()
		})
	}
}

// TestServeTLSFiles: a certificate from files, a pair that does not match, and SIGHUP, which keeps what stands and tells.
func TestServeTLSFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	var certs [2]tls.Certificate
	for i := range certs {
		var err error
		if certs[i], err = tlsx.SelfSigned("localhost"); err != nil {
			t.Fatal(err)
		}
	}
	otherKey := filepath.Join(dir, "other.pem")
	cmdtest.WritePair(t, certs[1], filepath.Join(dir, "other-cert.pem"), otherKey)
	cmdtest.WritePair(t, certs[0], certFile, keyFile)
	cmdtest.ExpectFailure(t, []string{"serve", "echo", "--addr", "127.0.0.1:0", "--tls-cert", certFile, "--tls-key", otherKey}, "are no pair of certificate and key", "does not match")

	p := cmdtest.StartServer(t, "serve", "echo", "--addr", "127.0.0.1:0", "--tls-cert", certFile, "--tls-key", keyFile)
	old, err := tls.Dial("tcp", p.Addr, cmdtest.Pinned(tlsx.Fingerprint(&certs[0])))
	if err != nil {
		t.Fatal(err)
	}
	defer old.Close()
	cmdtest.WritePair(t, certs[1], certFile, keyFile)
	p.Signal(syscall.SIGHUP)
	p.WaitOutput(p.Errs, regexp.MustCompile(`is new, SHA-256 `+tlsx.Fingerprint(&certs[1])))
	c, err := tls.Dial("tcp", p.Addr, cmdtest.Pinned(tlsx.Fingerprint(&certs[1])))
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	_ = old.SetDeadline(time.Now().Add(testkit.Patience))
	io.WriteString(old, "still here")
	if _, err := io.ReadFull(old, make([]byte, 10)); err != nil {
		t.Errorf("the connection that stood: %v", err)
	}
	old.Close()
	if err := os.WriteFile(certFile, []byte("no certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	p.Signal(syscall.SIGHUP)
	p.WaitOutput(p.Errs, regexp.MustCompile(`the certificate in use stays: .*cert\.pem`))
	if c, err = tls.Dial("tcp", p.Addr, cmdtest.Pinned(tlsx.Fingerprint(&certs[1]))); err != nil {
		t.Fatal(err)
	}
	c.Close()
	p.Stop()
}
