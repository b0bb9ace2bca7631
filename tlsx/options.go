package tlsx

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/internal/sys"
)

// Defaults of the zero Options.
const (
	DefaultTimeout       = 10 * time.Second
	DefaultMaxHandshakes = 1024
	DefaultMaxEarly      = 64 << 10
)

// Options are the settings of a Layer. The zero value has working defaults.
type Options struct {
	Timeout       time.Duration // from the open to the end of the handshake; 0 = 10 s
	MaxHandshakes int           // handshakes under way at a time; 0 = 1024
	Rate          int           // handshakes per second; 0 = no limit
	Burst         int           // handshakes that may come at once; 0 = as many as Rate
	MaxEarly      int           // bytes that handlers may write before the handshake is over; 0 = 64 KiB
	Logger        *slog.Logger  // nil = slog.Default()

	// Established is called on the loop when the handshake is over, before any byte of the peer is delivered. It may
	// choose handlers by state.NegotiatedProtocol, for instance (see ByProtocol). An error closes the connection.
	Established func(ctx *eddy.Context, state tls.ConnectionState) error
}

func (o Options) withDefaults() (Options, error) {
	for _, f := range []struct {
		name  string
		value int64
	}{
		{"Timeout", int64(o.Timeout)}, {"MaxHandshakes", int64(o.MaxHandshakes)}, {"Rate", int64(o.Rate)},
		{"Burst", int64(o.Burst)}, {"MaxEarly", int64(o.MaxEarly)},
	} {
		if f.value < 0 {
			return o, fmt.Errorf("tlsx: Options.%s is %d: it must not be negative", f.name, f.value)
		}
	}
	if o.Timeout == 0 {
		o.Timeout = DefaultTimeout
	}
	if o.MaxHandshakes == 0 {
		o.MaxHandshakes = DefaultMaxHandshakes
	}
	if o.MaxEarly == 0 {
		o.MaxEarly = DefaultMaxEarly
	}
	if o.Burst == 0 {
		o.Burst = o.Rate
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return o, nil
}

// Server returns the layer of a server's connections. Handshakes run on pool. A pool with a queue of
// Options.MaxHandshakes never refuses a handshake that has begun. config must not be changed afterwards; KeyPair
// reloads certificates.
func Server(config *tls.Config, pool *executor.Pool, o Options) (*Layer, error) {
	if config == nil || len(config.Certificates) == 0 && config.GetCertificate == nil && config.GetConfigForClient == nil {
		return nil, errors.New("tlsx: Server needs a config with Certificates, GetCertificate or GetConfigForClient")
	}
	return newLayer(config, pool, o, false)
}

// Client returns the layer of a client's connections. config needs ServerName or InsecureSkipVerify. Connections to
// different names need different layers, which may share the pool. When a handshake fails because of the server's
// certificate, errors.As finds a *tls.CertificateVerificationError.
func Client(config *tls.Config, pool *executor.Pool, o Options) (*Layer, error) {
	switch {
	case config == nil || config.ServerName == "" && !config.InsecureSkipVerify:
		return nil, errors.New("tlsx: Client needs a config with ServerName, or with InsecureSkipVerify")
	case config.Renegotiation != tls.RenegotiateNever:
		return nil, errRenegotiation
	}
	return newLayer(config, pool, o, true)
}

var errRenegotiation = errors.New("tlsx: a client refuses renegotiation: it would be a handshake on the loop")

func newLayer(config *tls.Config, pool *executor.Pool, o Options, client bool) (*Layer, error) {
	if pool == nil {
		return nil, errors.New("tlsx: a layer needs a pool for its handshakes")
	}
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	l := &Layer{config: config, pool: pool, o: o, client: client, now: sys.NewClock().Now}
	l.rate.set(o.Rate, o.Burst)
	l.lines.set(logLines, logLines)
	return l, nil
}

// ByProtocol returns a function for Options.Established that adds the handlers of the negotiated protocol (ALPN, RFC
// 7301). The key "" is for peers that negotiate none. A protocol without handlers closes the connection with
// CloseHandshakeFailed.
func ByProtocol(add map[string]func(p *eddy.Pipeline) error) func(*eddy.Context, tls.ConnectionState) error {
	return func(ctx *eddy.Context, state tls.ConnectionState) error {
		f := add[state.NegotiatedProtocol]
		if f == nil {
			return eddy.WithReason(eddy.CloseHandshakeFailed, fmt.Errorf("tlsx: no handlers for protocol %q", state.NegotiatedProtocol))
		}
		return f(ctx.Pipeline())
	}
}
