package httpserve

import (
	"context"
	"net/http"

	"github.com/go-eddy/eddy"
)

// Tunneler is a ResponseWriter whose request asks for a tunnel, such as an extended CONNECT of HTTP/2 (RFC 8441).
type Tunneler interface {
	// Tunnel answers 200 with the header and gives what follows in both directions to the handler that install returns, which
	// runs on the loop. It returns after Open has run. If Open panics, Tunnel returns an error and the stream ends. An error that is http.ErrNotSupported means that the request asks
	// for no tunnel; nothing was answered then.
	Tunnel(header http.Header, install func(Tunnel) TunnelHandler) error
}

// Link carries a stream of bytes: an eddy.Conn, or a Tunnel. Any goroutine.
type Link interface {
	Post(f func()) error
	Write(msg any) error // to a Tunnel a []byte, [][]byte or *buf.Shared
	WriteContext(ctx context.Context, msg any) error
	Writable() bool
	QueuedBytes() int64
	PauseRead()
	ResumeRead()
	Begin()
	End()
	CloseWith(reason eddy.CloseReason, err error)
	CloseAfterFlush(reason eddy.CloseReason)
	CloseError() *eddy.CloseError
}

// Tunnel is a stream of bytes inside a connection that others share. The methods of Link mean what they mean for an
// eddy.Conn. A close ends the stream only.
type Tunnel interface {
	Link
	WriteClass(class *eddy.MessageClass, msg any) error

	// Conn returns the connection that the tunnel is in.
	Conn() *eddy.Conn
	// Context returns the place of the protocol in the pipeline of Conn, for timers. Loop only.
	Context() *eddy.Context
}

// TunnelHandler receives what happens in a Tunnel, on its loop. After a panic Failed runs, what it writes is sent, and the
// tunnel ends; the connection goes on.
type TunnelHandler interface {
	Open()
	Decode(view []byte) (n int) // as that of an eddy.Decoder; the handler may change the bytes
	Writability(writable bool)
	InputClosed()
	Drain()
	Failed()
	Closed() // once, the last
}
