package interop

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/go-eddy/eddy/internal/testkit"
	"github.com/go-eddy/eddy/tlsx"
)

// run runs a program that others wrote to its end, which has to be a good one, and returns its output without its warnings.
func run(t *testing.T, path string, args ...string) string {
	t.Helper()
	var said testkit.Output
	cmd := exec.CommandContext(testkit.Context(t), path, args...)
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s\n%s", filepath.Base(path), args, err, out[max(0, len(out)-3000):], said.String())
	}
	return string(out)
}

// program is a program that others wrote, while it runs.
type program struct {
	out   testkit.Output
	in    io.WriteCloser
	ended chan error // one value: how it ended
}

// start starts a server that others wrote and kills it at the end of the test. What it prints is shown when the test fails.
func start(t *testing.T, path string, args ...string) *testkit.Output {
	t.Helper()
	return &begin(t, path, args...).out
}

// begin is start for a program that is given orders or ends by itself.
func begin(t *testing.T, path string, args ...string) *program {
	t.Helper()
	p := &program{ended: make(chan error, 1)}
	cmd := exec.Command(path, args...)
	cmd.Stdout, cmd.Stderr = &p.out, &p.out
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.in = in
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		p.ended <- cmd.Wait()
		close(p.ended)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		for range p.ended { //nolint:revive // its end
		}
		if t.Failed() {
			t.Logf("%s:\n%s", filepath.Base(path), &p.out)
		}
	})
	return p
}

// order writes a line to the program.
func (p *program) order(t *testing.T, line string) {
	t.Helper()
	if _, err := io.WriteString(p.in, line+"\n"); err != nil {
		t.Fatal(err)
	}
}

// ends waits for the end of a program, which has to be a good one.
func (p *program) ends(t *testing.T) {
	t.Helper()
	if err := testkit.Receive(t, "the end of the program", p.ended); err != nil {
		t.Error(err)
	}
}

// freePort is a port of this machine for programs that take no 0. Another program may take it first; then theirs ends.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return port
}

// listening waits until a server takes connections.
func listening(t *testing.T, addr string) {
	t.Helper()
	testkit.Eventually(t, "a server at "+addr, func() bool {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			return false
		}
		return c.Close() == nil
	})
}

// write writes a file of the test and returns its path.
func write(t *testing.T, name string, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// identity is a certificate for this machine: for servers of ours, and as the files that programs read.
type identity struct {
	cert      tls.Certificate
	roots     *x509.CertPool
	certFile  string
	keyFile   string
	bothFiles string // the key behind the certificate
}

func newIdentity(t *testing.T) identity {
	t.Helper()
	cert, err := tlsx.SelfSigned("127.0.0.1", "localhost")
	if err != nil {
		t.Fatal(err)
	}
	key, err := x509.MarshalPKCS8PrivateKey(cert.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	certText := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Certificate[0]})
	keyText := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})
	id := identity{cert: cert, roots: x509.NewCertPool(), certFile: write(t, "cert.pem", certText), keyFile: write(t, "key.pem", keyText)}
	id.bothFiles = write(t, "both.pem", append(certText, keyText...))
	id.roots.AppendCertsFromPEM(certText)
	return id
}
