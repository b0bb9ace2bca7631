package tlsx

import (
	"crypto/tls"
	"errors"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/executor"
)

// Secure is for clients that dial many servers by name, such as http1.Transport and websocket.Dialer. It returns a
// function that adds the TLS of a connection to the named server. That function calls ready once, on the loop, with the
// outcome of the handshake. config is used with the name as its ServerName. Errors: those of Client.
func Secure(config *tls.Config, pool *executor.Pool, o Options) (func(p *eddy.Pipeline, serverName string, ready func(error)) error, error) {
	if config == nil {
		config = &tls.Config{}
	}
	if config.Renegotiation != tls.RenegotiateNever {
		return nil, errRenegotiation
	}
	l, err := newLayer(config, pool, o, true)
	if err != nil {
		return nil, err
	}
	return func(p *eddy.Pipeline, serverName string, ready func(error)) error {
		if serverName == "" && !config.InsecureSkipVerify {
			return errors.New("tlsx: Secure needs the name of the server")
		}
		return p.Add("tls", &named{Layer: l, name: serverName, ready: ready})
	}, nil
}

// named is the Layer of one connection to the server with that name.
type named struct {
	*Layer
	name  string
	ready func(error)
}

// HandleOpen implements eddy.OpenHandler.
func (n *named) HandleOpen(ctx *eddy.Context) error { return n.open(ctx, n) }
