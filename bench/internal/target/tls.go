package target

import (
	"crypto/tls"
	"log/slog"

	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/tlsx"
)

// TLS returns the TLS layer of the engine's servers, whose certificate is made now, and the pool of its handshakes. The
// server closes the pool.
func TLS() (*tlsx.Layer, *executor.Pool, error) {
	cert, err := tlsx.SelfSigned("localhost")
	if err != nil {
		return nil, nil, err
	}
	pool, err := executor.NewFixed(executor.Options{Name: "tls", Queue: tlsx.DefaultMaxHandshakes})
	if err != nil {
		return nil, nil, err
	}
	config := &tls.Config{Certificates: []tls.Certificate{cert}}
	layer, err := tlsx.Server(config, pool, tlsx.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		pool.Close()
	}
	return layer, pool, err
}
