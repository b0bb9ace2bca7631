package tlsx_test

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"fmt"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/codec/line"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/tlsx"
)

// A server of lines over TLS, with a certificate for trials; tlsx.LoadKeyPair reads one from files and reloads it.
func ExampleServer() {
	cert, err := tlsx.SelfSigned("localhost")
	if err != nil {
		fmt.Println(err)
		return
	}
	pool, err := executor.NewFixed(executor.Options{Name: "handshakes", Workers: 2, Queue: tlsx.DefaultMaxHandshakes})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pool.Close()
	layer, err := tlsx.Server(&tls.Config{Certificates: []tls.Certificate{cert}}, pool, tlsx.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	srv := &eddy.Server{Init: func(p *eddy.Pipeline) error {
		if err := p.Add("tls", layer); err != nil { // in front of the decoder
			return err
		}
		if err := p.Add("lines", line.Codec(4096)); err != nil {
			return err
		}
		return p.Add("greet", eddy.Handle(func(ctx *eddy.Context, name *line.Line) error {
			return ctx.Write(fmt.Sprintf("hello, %s\n", name.Text()))
		}))
	}}
	if err := srv.Listen("tcp", "127.0.0.1:0"); err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = srv.Close() }()

	roots := x509.NewCertPool()
	roots.AddCert(cert.Leaf)
	c, err := tls.Dial("tcp", srv.Addr().String(), &tls.Config{ServerName: "localhost", RootCAs: roots})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = c.Close() }()
	if _, err := c.Write([]byte("gopher\n")); err != nil {
		fmt.Println(err)
		return
	}
	answer, err := bufio.NewReader(c).ReadString('\n')
	fmt.Print(answer)
	if err != nil {
		fmt.Println(err)
	}
	// Output: hello, gopher
}
