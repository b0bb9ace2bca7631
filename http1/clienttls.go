package http1

import (
	"context"
	"crypto/tls"
	"sync"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/tlsx"
)

// transportTLS is the TLS of a Transport without Secure, made for the first https URL.
type transportTLS struct {
	once  sync.Once
	pool  *executor.Pool // of the handshakes
	layer func(p *eddy.Pipeline, serverName string, ready func(error)) error
	bad   error
}

// prepare makes what https needs, once.
func (s *transportTLS) prepare(t *Transport) error {
	s.once.Do(func() {
		config := &tls.Config{MinVersion: tls.VersionTLS12}
		if t.TLS != nil {
			config = t.TLS.Clone()
		}
		if len(config.NextProtos) == 0 {
			config.NextProtos = []string{"http/1.1"}
		}
		if s.pool, s.bad = executor.NewFixed(executor.Options{Name: "http1-tls", Queue: tlsx.DefaultMaxHandshakes, Logger: t.Logger}); s.bad == nil {
			s.layer, s.bad = tlsx.Secure(config, s.pool, tlsx.Options{Timeout: t.ConnectTimeout, Logger: t.Logger})
		}
	})
	return s.bad
}

// close ends the pool. Handshakes that run end with their connections, which are closed already.
func (s *transportTLS) close() {
	s.once.Do(func() { s.bad = ErrTransportClosed })
	if s.pool != nil {
		s.pool.Close()
		_, _ = s.pool.Shutdown(context.Background()) // nothing is left
	}
}

// secure returns what adds the handlers of TLS to a connection for https.
func (t *Transport) secure() func(p *eddy.Pipeline, serverName string, ready func(error)) error {
	if t.Secure != nil {
		return t.Secure
	}
	return t.tls.layer
}
