package cmdtest

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-eddy/eddy/internal/testkit"
)

// BusyAddr returns an address another listener holds, which accepts and never answers.
func BusyAddr(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l.Addr().String()
}

// Connect opens a TCP connection with the test's deadline on it.
func Connect(t *testing.T, addr string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	c.SetDeadline(time.Now().Add(testkit.Patience))
	t.Cleanup(func() { c.Close() })
	return c
}

// Talk sends text on a fresh connection and returns everything the server answers until it closes.
func Talk(t *testing.T, addr, text string) string {
	t.Helper()
	c := Connect(t, addr)
	defer c.Close()
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(c)
	if err != nil {
		t.Fatalf("after %q: %v", answer, err)
	}
	return string(answer)
}

// ReadLine reads one line without its ending.
func ReadLine(t *testing.T, r *bufio.Reader) string {
	t.Helper()
	s, err := r.ReadString('\n')
	if err != nil {
		t.Fatalf("after %q: %v", s, err)
	}
	return strings.TrimSuffix(s, "\n")
}

// Get fetches a page without keeping the connection.
func Get(t *testing.T, url string) (status int, body string) {
	t.Helper()
	return Ask(t, http.MethodGet, url, "")
}

// Ask sends a request of JSON on a connection of its own, with header fields in pairs, and returns the answer.
func Ask(t *testing.T, method, url, body string, header ...string) (status int, answer string) {
	t.Helper()
	req, err := http.NewRequestWithContext(testkit.Context(t), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// Pinned is a client that trusts the certificate of that fingerprint.
func Pinned(fingerprint string) *tls.Config {
	return &tls.Config{InsecureSkipVerify: true, VerifyConnection: func(st tls.ConnectionState) error {
		if got := fmt.Sprintf("%x", sha256.Sum256(st.PeerCertificates[0].Raw)); got != fingerprint {
			return fmt.Errorf("fingerprint %s, want %s", got, fingerprint)
		}
		return nil
	}}
}

// WritePair stores a certificate and its key.
func WritePair(t *testing.T, c tls.Certificate, certFile, keyFile string) {
	t.Helper()
	key, err := x509.MarshalECPrivateKey(c.PrivateKey.(*ecdsa.PrivateKey))
	if err != nil {
		t.Fatal(err)
	}
	for file, b := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: c.Certificate[0]}, keyFile: {Type: "EC PRIVATE KEY", Bytes: key}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(b), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// Scheme is a protocol's name in addresses of a server with these flags.
func Scheme(name string, flags []string) string {
	if strings.Contains(strings.Join(flags, " "), "--tls") {
		name += "s"
	}
	return name + "://"
}
