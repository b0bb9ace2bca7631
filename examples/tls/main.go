// Command tls is shout behind TLS. The handshakes run on a pool, never on the loop; crypto/tls itself reads the records on the loop. Try it with: go
// run ./examples/tls, then openssl s_client -quiet -connect 127.0.0.1:7000
package main

import (
	"bytes"
	"crypto/tls"
	"log"
	"os"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/codec/line"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/tlsx"
)

func server(config *tls.Config) (*eddy.Server, error) {
	pool, err := executor.NewFixed(executor.Options{Name: "handshakes", Queue: tlsx.DefaultMaxHandshakes})
	if err != nil {
		return nil, err
	}
	layer, err := tlsx.Server(config, pool, tlsx.Options{})
	if err != nil {
		return nil, err
	}
	return &eddy.Server{
		Init: func(p *eddy.Pipeline) error {
			p.Add("tls", layer) // in front of the decoder
			p.Add("lines", line.Codec(1024))
			return p.Add("shout", eddy.Handle(func(ctx *eddy.Context, l *line.Line) error {
				return ctx.WriteBytes(append(bytes.ToUpper(l.Text()), '\n'))
			}))
		},
		Pools: []*executor.Pool{pool},
	}, nil
}

// certificate returns the certificate of the two files named as arguments, or a new one for this machine.
func certificate() (tls.Certificate, error) {
	if len(os.Args) == 3 {
		return tls.LoadX509KeyPair(os.Args[1], os.Args[2])
	}
	return tlsx.SelfSigned("localhost", "127.0.0.1")
}

func main() {
	cert, err := certificate()
	if err != nil {
		log.Fatal(err)
	}
	srv, err := server(&tls.Config{Certificates: []tls.Certificate{cert}})
	if err == nil {
		err = srv.ListenAndServe("tcp", "127.0.0.1:7000")
	}
	log.Fatal(err)
}
