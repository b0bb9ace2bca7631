package tlsx

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"

	"github.com/go-eddy/eddy"
)

// ErrOther is what Await returns for a connection that has no handshake of this layer.
var ErrOther = errors.New("tlsx: the connection is not one of this client's layer, or has ended")

// Await waits for the end of the handshake of a connection that an eddy.Dialer made with this layer. The error is why it
// failed: a *HandshakeError, or an eddy.ErrClosed; the connection is closed then. It blocks its goroutine, which must not
// be a loop's.
func (l *Layer) Await(ctx context.Context, c *eddy.Conn) (tls.ConnectionState, error) {
	v, ok := l.outcomes.Load(c)
	if !ok {
		if e := c.CloseError(); e != nil {
			return tls.ConnectionState{}, e
		}
		return tls.ConnectionState{}, ErrOther
	}
	o := v.(*outcome)
	select {
	case <-o.done:
		return o.state, o.err
	case <-ctx.Done():
		return tls.ConnectionState{}, fmt.Errorf("tlsx: waiting for the handshake: %w", ctx.Err())
	}
}
