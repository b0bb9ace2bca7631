// Package try has servers and clients for the examples' tests, in a few lines.
package try

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"testing"
	"time"

	"github.com/go-eddy/eddy"
)

// patience bounds waits for what hangs; nothing here takes long.
const patience = 60 * time.Second

// Serve lets srv listen on a free port until the end of the test, when it must drain in order, and returns the address.
func Serve(t *testing.T, srv *eddy.Server) string {
	t.Helper()
	if err := srv.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if _, err := srv.Shutdown(ctx); err != nil {
			t.Error(err)
		}
	})
	return srv.Addr().String()
}

// Dial connects to addr until the end of the test.
func Dial(t *testing.T, addr string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	return guard(t, c)
}

// DialTLS is Dial with TLS, as config says.
func DialTLS(t *testing.T, addr string, config *tls.Config) net.Conn {
	t.Helper()
	c, err := tls.Dial("tcp", addr, config)
	if err != nil {
		t.Fatal(err)
	}
	return guard(t, c)
}

func guard(t *testing.T, c net.Conn) net.Conn {
	t.Cleanup(func() { _ = c.Close() })
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	return c
}

// Talk sends text and reads the lines of want, in that order, and not a byte more.
func Talk(t *testing.T, c net.Conn, text string, want ...string) {
	t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
	for _, w := range want {
		got := make([]byte, len(w)+1)
		if n, err := io.ReadFull(c, got); string(got) != w+"\n" {
			t.Fatalf("%q (%v), want %q", got[:n], err, w)
		}
	}
}
