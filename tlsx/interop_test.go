package tlsx_test

import (
	"bufio"
	"context"
	"encoding/pem"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/http1"
	"github.com/go-eddy/eddy/internal/testkit"
)

// authority writes the server's certificate to a file.
func authority(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert().Certificate[0]}), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// process is a program at work.
type process struct {
	t   *testing.T
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
	all strings.Builder
}

func run(t *testing.T, name string, args ...string) *process {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience)
	p := &process{t: t, cmd: exec.CommandContext(ctx, name, args...)}
	var err error
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.cmd.Stderr = p.cmd.Stdout
	p.out = bufio.NewReader(out)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.in.Close(); cancel(); _ = p.cmd.Wait() })
	return p
}

// until reads lines until one begins with the prefix.
func (p *process) until(prefix string) {
	p.t.Helper()
	for {
		line, err := p.out.ReadString('\n')
		p.all.WriteString(line)
		if strings.HasPrefix(line, prefix) {
			return
		}
		if err != nil {
			p.t.Fatalf("no line that begins with %q: %v\n%s", prefix, err, p.all.String())
		}
	}
}

func (p *process) say(line string) {
	p.t.Helper()
	if _, err := io.WriteString(p.in, line+"\n"); err != nil {
		p.t.Fatal(err)
	}
}

// TestOpenSSL: s_client in both versions, certificate checked, and with 1.3 key updates: one that asks for ours, which
// changes both directions, one that does not, and many.
func TestOpenSSL(t *testing.T) {
	openssl, ca := testkit.Tool(t, "openssl"), authority(t)
	for _, version := range []string{"-tls1_2", "-tls1_3"} {
		t.Run(version, func(t *testing.T) {
			r := newRig(t, setup{})
			p := run(t, openssl, "s_client", "-connect", r.addr, "-servername", "localhost", "-CAfile", ca, "-verify_return_error", version)
			p.say("first")
			p.until("first")
			if version == "-tls1_3" {
				for _, order := range []string{"K", "k", "K", "K", "k", "k", "K"} {
					p.say(order)
					p.until("KEYUPDATE")
					p.say("after " + order)
					p.until("after " + order)
				}
			}
			p.say("Q")
			if e := r.end(); e.Reason != eddy.ClosePeerClosed {
				t.Errorf("%v\n%s", e, p.all.String())
			}
		})
	}
}

// TestKeyUpdates: a client that only updates its keys is closed and delays no other one.
func TestKeyUpdates(t *testing.T) {
	openssl, ca := testkit.Tool(t, "openssl"), authority(t)
	r := newRig(t, setup{})
	p := run(t, openssl, "s_client", "-connect", r.addr, "-servername", "localhost", "-CAfile", ca, "-tls1_3")
	p.say("first")
	p.until("first")
	for range 16 { // what crypto/tls bears without data
		p.say("K")
		p.until("KEYUPDATE")
	}
	p.say("data")
	p.until("data")
	for range 17 {
		p.say("K")
		p.until("KEYUPDATE")
	}
	if e := r.end(); e.Reason != eddy.CloseProtocolError || !strings.Contains(e.Error(), "too many") {
		t.Errorf("%v", e)
	}
	echoed(t, r.dial(clientConfig()), []byte("others go on"))
}

// TestRenegotiation: TLS 1.2 clients that ask for a second handshake are closed; there is none on the loop.
func TestRenegotiation(t *testing.T) {
	openssl, ca := testkit.Tool(t, "openssl"), authority(t)
	r := newRig(t, setup{})
	p := run(t, openssl, "s_client", "-connect", r.addr, "-servername", "localhost", "-CAfile", ca, "-tls1_2")
	p.say("first")
	p.until("first")
	p.say("R")
	p.until("RENEGOTIATING")
	e := r.end()
	if e.Reason != eddy.CloseProtocolError {
		t.Errorf("%v", e)
	}
	if st := r.layer.Stats(); st.Established != 1 || st.Active != 0 {
		t.Errorf("%+v", st)
	}
	rest, _ := io.ReadAll(p.out)
	if !strings.Contains(string(rest), "alert") {
		t.Errorf("the client was told %q", rest)
	}
}

// TestCurl against http1 behind the layer: keep-alive, a large body both ways.
func TestCurl(t *testing.T) {
	curl, ca := testkit.Tool(t, "curl"), authority(t)
	pages := http1.NewHandler(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if b, err := io.ReadAll(q.Body); err == nil {
			_, _ = w.Write(b)
		}
	}), newPool(t, 2), http1.Options{HeaderTimeout: time.Hour})
	r := newRig(t, setup{add: pages.Init})
	_, port, _ := strings.Cut(r.addr, ":")
	file := filepath.Join(t.TempDir(), "body")
	if err := os.WriteFile(file, pattern(3<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	url := "https://localhost:" + port + "/"
	out := filepath.Join(t.TempDir(), "out")
	p := run(t, curl, "-sS", "-f", "--ipv4", "--max-time", "240", "--cacert", ca, "--data-binary", "@"+file, "-o", out, url, "--next",
		"-sS", "-f", "--ipv4", "--cacert", ca, "--data-binary", "small", "-w", "connects %{num_connects}\\n", "-o", "/dev/null", url)
	p.until("connects 0")
	if b, err := os.ReadFile(out); err != nil || string(b) != string(pattern(3<<20)) {
		t.Errorf("%d bytes came back, %v", len(b), err)
	}
	if e := r.end(); e.Reason != eddy.ClosePeerClosed {
		t.Errorf("%v", e)
	}
}
