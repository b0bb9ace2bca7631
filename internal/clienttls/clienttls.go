// Package clienttls is the TLS of clients whose https and wss addresses need nothing else.
package clienttls

import (
	"context"
	"crypto/tls"
	"sync"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/tlsx"
)

// Layer adds to p the handlers that speak TLS to the named server. ready is called once, on the loop, with the outcome of the handshake.
type Layer = func(p *eddy.Pipeline, serverName string, ready func(error)) error

// TLS is that of one client, made for its first address that asks for it. The zero value is ready.
type TLS struct {
	once  sync.Once
	pool  *executor.Pool // of the handshakes
	layer Layer
	bad   error
}

// Prepare makes what TLS needs, once. A nil config trusts what the system trusts, by TLS 1.2 or later; one without NextProtos
// gets protocols. Any goroutine.
func (s *TLS) Prepare(config *tls.Config, protocols []string, name string, o tlsx.Options) error {
	s.once.Do(func() {
		if config == nil {
			config = &tls.Config{MinVersion: tls.VersionTLS12}
		} else {
			config = config.Clone()
		}
		if len(config.NextProtos) == 0 {
			config.NextProtos = protocols
		}
		if s.pool, s.bad = executor.NewFixed(executor.Options{Name: name, Queue: tlsx.DefaultMaxHandshakes, Logger: o.Logger}); s.bad == nil {
			s.layer, s.bad = tlsx.Secure(config, s.pool, o)
		}
	})
	return s.bad
}

// Layer returns the handlers that Prepare has made.
func (s *TLS) Layer() Layer { return s.layer }

// Close ends the pool, and has Prepare return closed if it never ran. The connections must be closed already. A handshake gives
// its worker back when its connection has ended, whatever the peer or a callback of the config does, so Close does not wait.
func (s *TLS) Close(closed error) {
	s.once.Do(func() { s.bad = closed })
	if s.pool != nil {
		s.pool.Close()
		_, _ = s.pool.Shutdown(context.Background()) // nothing is left
	}
}
