package http1

import (
	"github.com/go-eddy/eddy/internal/clienttls"
	"github.com/go-eddy/eddy/tlsx"
)

// prepareTLS makes what https needs, once.
func (t *Transport) prepareTLS() error {
	if t.Secure != nil {
		return nil
	}
	return t.tls.Prepare(t.TLS, []string{"http/1.1"}, "http1-tls", tlsx.Options{Timeout: t.ConnectTimeout, Logger: t.Logger})
}

// secure returns what adds the handlers of TLS to a connection for https.
func (t *Transport) secure() clienttls.Layer {
	if t.Secure != nil {
		return t.Secure
	}
	return t.tls.Layer()
}
