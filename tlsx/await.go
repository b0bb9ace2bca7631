package tlsx

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"

	"github.com/go-eddy/eddy"
)

// ErrOther is returned by Await for a connection without a handshake of this layer.
var ErrOther = errors.New("tlsx: the connection is not one of this client's layer, or has ended")

// Await waits for the end of the handshake of a connection that an eddy.Dialer made with this layer. It blocks its
// goroutine, which must not be a loop's. The error says why the handshake failed and the connection closed: a
// *HandshakeError, ErrBusy or an eddy.ErrClosed. When ctx ends first, it is the error of ctx.
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
