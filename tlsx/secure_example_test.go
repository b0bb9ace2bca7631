package tlsx_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"

	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/http1"
	"github.com/go-eddy/eddy/tlsx"
)

// Secure makes the function that the clients of this module take for https and
// wss.
func ExampleSecure() {
	srv := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") }))
	defer srv.Close()
	roots := x509.NewCertPool()
	roots.AddCert(srv.Certificate())
	pool, err := executor.NewFixed(executor.Options{Name: "handshakes", Workers: 2, Queue: tlsx.DefaultMaxHandshakes})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _, _ = pool.Shutdown(context.Background()) }()
	secure, err := tlsx.Secure(&tls.Config{RootCAs: roots}, pool, tlsx.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	tr := &http1.Transport{Secure: secure}
	defer tr.Close()
	resp, err := (&http.Client{Transport: tr}).Get(srv.URL)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	fmt.Println(string(body), err)
	// Output: hello <nil>
}
