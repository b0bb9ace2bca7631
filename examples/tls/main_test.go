package main

import (
	"crypto/tls"
	"crypto/x509"
	"testing"

	"go.uber.org/goleak"

	"github.com/go-eddy/eddy/examples/internal/try"
	"github.com/go-eddy/eddy/tlsx"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestTLS runs the example with a client that checks the certificate.
func TestTLS(t *testing.T) {
	cert, err := tlsx.SelfSigned("localhost")
	if err != nil {
		t.Fatal(err)
	}
	srv, err := server(&tls.Config{Certificates: []tls.Certificate{cert}})
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(cert.Leaf)
	c := try.DialTLS(t, try.Serve(t, srv), &tls.Config{ServerName: "localhost", RootCAs: roots})
	try.Talk(t, c, "hello\nis anybody there?\n", "HELLO", "IS ANYBODY THERE?")
}
