package websocket

import (
	"context"
	crand "crypto/rand"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/internal/clienttls"
	"github.com/go-eddy/eddy/tlsx"
)

// Dialer makes WebSocket connections to servers and runs their handlers on the
// loops of an eddy.Dialer. Fill the fields before the first Dial. Any goroutine
// may call the methods.
type Dialer struct {
	// Engine makes the connections. Its fields choose the loops, the local
	// address, bounds and deadlines. The Dialer sets its Init. It also sets
	// HandshakeTimeout, the time until the handshake is done, to 10 s when that
	// is 0. Nothing else may use the Engine. nil = an eddy.Dialer with one loop
	// of its own.
	Engine *eddy.Dialer
	// Options apply to all connections.
	Options Options
	// Header is added to the request of the handshake. It must not hold fields
	// that belong to the handshake.
	Header http.Header
	// TLS configures wss; nil = the certificates that the system trusts, TLS 1.2
	// or later. Handshakes run on a pool of the Dialer. Do not change the config
	// afterwards.
	TLS *tls.Config
	// Secure takes the place of TLS. It adds to p the handlers that speak TLS to
	// the named server, such as those of tlsx.Secure on a pool of one's own; the
	// Dialer's own handlers follow them. It runs on the connection's loop. ready
	// must be called once, on the loop, when the TLS handshake is over or has
	// failed.
	Secure func(p *eddy.Pipeline, serverName string, ready func(error)) error
	// MaskKeys returns the source of a connection's masking keys. nil = ChaCha8
	// with a seed of crypto/rand.
	MaskKeys func() MaskKeys

	tls clienttls.TLS

	mu      sync.Mutex
	cfg     *config
	closed  bool
	waiting map[*eddy.Conn]*handshaker // connected, but Dial has not taken them yet
}

// defaultHandshakeTimeout is that of an Engine without one.
const defaultHandshakeTimeout = 10 * time.Second

// start checks the fields at the first use.
func (d *Dialer) start() (*config, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, eddy.ErrDialerClosed
	}
	if d.cfg != nil {
		return d.cfg, nil
	}
	cfg, err := newConfig(d.Options, true)
	if err != nil {
		return nil, err
	}
	for name := range d.Header {
		if ownField(name) {
			return nil, fmt.Errorf("websocket: Dialer.Header has %s, which is the handshake's own", name)
		}
	}
	if d.Engine == nil {
		d.Engine = new(eddy.Dialer)
	}
	d.Engine.Init = d.init
	if d.Engine.HandshakeTimeout == 0 {
		d.Engine.HandshakeTimeout = defaultHandshakeTimeout
	}
	if d.MaskKeys == nil {
		d.MaskKeys = newMaskKeys
	}
	d.waiting = make(map[*eddy.Conn]*handshaker)
	d.cfg = cfg
	return cfg, nil
}

// newMaskKeys returns a generator with a secret seed.
func newMaskKeys() MaskKeys {
	var seed [32]byte
	_, _ = crand.Read(seed[:]) // it never fails
	return rand.NewChaCha8(seed)
}

// init builds the pipeline of a new connection, whose request comes later.
func (d *Dialer) init(p *eddy.Pipeline) error {
	hs := &handshaker{d: d, conn: p.Conn()}
	d.mu.Lock()
	d.waiting[hs.conn] = hs
	d.mu.Unlock()
	return p.Add(handlerName, hs)
}

// take removes and returns the handshaker of a connection, or returns nil if it
// is gone.
func (d *Dialer) take(c *eddy.Conn) *handshaker {
	d.mu.Lock()
	defer d.mu.Unlock()
	hs := d.waiting[c]
	delete(d.waiting, c)
	return hs
}

// Dial connects to an address such as ws://host:port/path?query and makes the
// handshake (RFC 6455 section 4.1). ctx bounds both. h handles the connection;
// h.HandleOpen has run when Dial returns a connection. Dial blocks the calling
// goroutine. On a loop of the Engine it returns eddy.ErrOnLoop. Other errors:
// those of eddy.Dialer.Dial; *HandshakeError when the server refuses or answers
// wrongly.
func (d *Dialer) Dial(ctx context.Context, address string, h Handler) (*Conn, error) {
	cfg, err := d.start()
	if err != nil {
		return nil, err
	}
	if h == nil {
		return nil, errors.New("websocket: Dial without a Handler")
	}
	u, err := parseAddress(address)
	if err != nil {
		return nil, err
	}
	if u.Scheme == "wss" {
		if err := d.prepareTLS(); err != nil {
			return nil, err
		}
	}
	conn, err := d.Engine.Dial(ctx, "tcp", u.Host)
	if err != nil {
		return nil, fmt.Errorf("websocket: %w", err)
	}
	hs := d.take(conn)
	if hs == nil { // the connection has ended already
		return nil, endError(conn)
	}
	hs.prepare(cfg, u, h)
	if err := conn.Post(hs.begin); err != nil {
		conn.CloseWith(eddy.CloseHandshakeFailed, err)
		return nil, fmt.Errorf("websocket: %w", err)
	}
	select {
	case err = <-hs.outcome:
	case <-ctx.Done():
		conn.CloseWith(eddy.CloseHandshakeFailed, ctx.Err())
		if err = <-hs.outcome; err == nil { // the handshake has just succeeded
			err = ctx.Err()
		}
	}
	if err != nil {
		return nil, err
	}
	return hs.c, nil
}

// parseAddress reads the address of a server (RFC 6455 section 3). Host of the
// result has a port.
func parseAddress(address string) (*url.URL, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, fmt.Errorf("websocket: %w", err)
	}
	port := map[string]string{"ws": "80", "wss": "443"}[u.Scheme]
	switch {
	case port == "":
		return nil, fmt.Errorf("websocket: scheme of %q: want ws or wss", address)
	case u.Hostname() == "":
		return nil, fmt.Errorf("websocket: %q names no host", address)
	case u.Fragment != "" || u.User != nil:
		return nil, fmt.Errorf("websocket: %q: a fragment or a user is not part of a WebSocket address", u.Redacted())
	}
	if u.Port() == "" {
		u.Host = net.JoinHostPort(u.Hostname(), port)
	}
	return u, nil
}

// Shutdown closes the connections with 1001 and waits until their servers have
// answered, at most until ctx ends. See eddy.Dialer.Shutdown.
func (d *Dialer) Shutdown(ctx context.Context) (eddy.DrainReport, error) {
	e := d.stop()
	if e == nil {
		return eddy.DrainReport{}, eddy.ErrDialerClosed
	}
	r, err := e.Shutdown(ctx)
	d.ended(err)
	return r, err
}

// Close ends the dialer and its connections at once. See eddy.Dialer.Close.
func (d *Dialer) Close() error {
	e := d.stop()
	if e == nil {
		return nil
	}
	err := e.Close()
	d.ended(err)
	return err
}

// prepareTLS makes what wss needs, once.
func (d *Dialer) prepareTLS() error {
	if d.Secure != nil {
		return nil
	}
	return d.tls.Prepare(d.TLS, []string{"http/1.1"}, "websocket-tls", tlsx.Options{Timeout: d.Engine.HandshakeTimeout, Logger: d.Engine.Logger})
}

// secure returns what adds the handlers of TLS to a connection for wss.
func (d *Dialer) secure() clienttls.Layer {
	if d.Secure != nil {
		return d.Secure
	}
	return d.tls.Layer()
}

// ended gives back what wss was made of, unless the Engine has refused to end.
func (d *Dialer) ended(err error) {
	if !errors.Is(err, eddy.ErrOnLoop) && !errors.Is(err, eddy.ErrOnPool) {
		d.tls.Close(eddy.ErrDialerClosed)
	}
}

// stop refuses further use. It returns the Engine to end, or nil if there is
// none.
func (d *Dialer) stop() *eddy.Dialer {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	return d.Engine
}

// challenge is a key of the handshake with the answer that it requires.
type challenge struct{ key, answer string }

func newChallenge(random io.Reader) (challenge, error) {
	var nonce [16]byte
	if _, err := io.ReadFull(random, nonce[:]); err != nil {
		return challenge{}, err
	}
	key := base64.StdEncoding.EncodeToString(nonce[:])
	return challenge{key, acceptKey(key)}, nil
}
