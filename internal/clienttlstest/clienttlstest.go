// Package clienttlstest has the tests that the clients over package clienttls have in common.
package clienttlstest

import (
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/go-eddy/eddy/internal/testkit"
)

// Client makes https requests.
type Client interface {
	RoundTrip(*http.Request) (*http.Response, error)
	Do(*http.Request, func(*http.Response, error)) error
	Close() error
}

// Close checks that Close ends a handshake at once, whatever the handshake waits for, and its request with closed. After Close
// nothing is begun. create makes a client; open returns the number of its connections.
func Close(t *testing.T, create func(*tls.Config) (c Client, open func() int), closed error) {
	l, err := net.Listen("tcp", "127.0.0.1:0") // says nothing
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	srv := httptest.NewUnstartedServer(http.NotFoundHandler())
	srv.EnableHTTP2 = true
	srv.Config.ErrorLog = log.New(io.Discard, "", 0) // of the handshake that ends
	srv.StartTLS()
	defer srv.Close()
	asked, hang := make(chan struct{}), make(chan struct{})
	defer close(hang)
	config := &tls.Config{RootCAs: srv.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs, VerifyConnection: func(tls.ConnectionState) error {
		close(asked)
		<-hang
		return nil
	}}
	for name, url := range map[string]string{"a server that says nothing": "https://" + l.Addr().String(), "a callback that does not return": srv.URL, "no request": ""} {
		t.Run(name, func(t *testing.T) {
			c, open := create(config)
			ended := make(chan error, 1)
			if url != "" {
				if err := c.Do(request(t, url), func(_ *http.Response, err error) { ended <- err }); err != nil {
					t.Fatal(err)
				}
				testkit.Eventually(t, "the handshake", func() bool { return open() == 1 })
			}
			if url == srv.URL {
				testkit.Receive(t, "the callback", asked)
			}
			if err := c.Close(); err != nil {
				t.Fatal(err)
			}
			if url != "" {
				if err := testkit.Receive(t, "the end of the request", ended); !errors.Is(err, closed) {
					t.Errorf("ended with %v", err)
				}
			}
			if _, err := c.RoundTrip(request(t, srv.URL)); !errors.Is(err, closed) {
				t.Errorf("after Close: %v", err)
			}
		})
	}
}

func request(t *testing.T, url string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}
