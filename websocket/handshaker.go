package websocket

import (
	"bufio"
	"bytes"
	crand "crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"net/textproto"
	"net/url"
	"slices"
	"strings"

	"github.com/go-eddy/eddy"
)

// maxResponseHead is the largest head of a response to the handshake.
const maxResponseHead = 16 << 10

var (
	errSpokeFirst = errors.New("websocket: the server spoke before it was asked")
	errEnded      = errors.New("websocket: the connection ended in the handshake")
)

// handshaker is the first handler of a client connection. It sends the request
// and, after a valid response, replaces itself with the endpoint.
type handshaker struct {
	d       *Dialer
	conn    *eddy.Conn
	c       *Conn
	url     *url.URL
	want    challenge
	offered deflation
	outcome chan error // for Dial; one value

	// Loop only.
	ctx   *eddy.Context
	asked bool // Dial waits for the outcome
	sent  bool // the request was sent
	over  bool
}

// prepare makes the Conn and the challenge of the handshake.
func (hs *handshaker) prepare(cfg *config, u *url.URL, h Handler) {
	hs.c = &Conn{conn: hs.conn, handler: h, cfg: cfg, keys: &maskKeys{hs.d.MaskKeys()}}
	hs.url = u
	hs.want, _ = newChallenge(crand.Reader) // it never fails
	hs.outcome = make(chan error, 1)
}

// HandleOpen implements eddy.OpenHandler.
func (hs *handshaker) HandleOpen(ctx *eddy.Context) error {
	hs.ctx = ctx
	return nil
}

// begin sends the request; for wss it first establishes TLS. Loop only.
func (hs *handshaker) begin() {
	hs.asked = true
	switch {
	case hs.over: // the connection has ended
		hs.outcome <- endError(hs.conn)
	case hs.url.Scheme == "wss":
		if err := hs.secure(); err != nil {
			hs.secured(err)
		}
	default:
		hs.send()
	}
}

func (hs *handshaker) send() {
	hs.sent = true
	_ = hs.ctx.Write(hs.request()) // after an error HandleClose follows
}

// secure puts the handlers of TLS in front of this one.
func (hs *handshaker) secure() error {
	p := hs.ctx.Pipeline()
	if err := p.Remove(handlerName); err != nil {
		return err
	}
	if err := hs.d.secure()(p, hs.url.Hostname(), hs.secured); err != nil {
		return err
	}
	return p.Add(handlerName, hs)
}

// secured runs when the TLS handshake is over or has failed.
func (hs *handshaker) secured(err error) {
	switch {
	case hs.over || hs.sent:
	case err != nil:
		hs.fail(fmt.Errorf("websocket: %w", err))
		hs.conn.CloseWith(eddy.CloseHandshakeFailed, err)
	default:
		hs.send()
	}
}

// request builds the request of the handshake (RFC 6455 section 4.1).
func (hs *handshaker) request() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "GET %s HTTP/1.1\r\nHost: %s\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: %s\r\n",
		hs.url.RequestURI(), hs.hostField(), hs.want.key)
	o := &hs.c.cfg.Options
	if len(o.Subprotocols) > 0 {
		fmt.Fprintf(&b, "Sec-WebSocket-Protocol: %s\r\n", strings.Join(o.Subprotocols, ", "))
	}
	if z := o.Compression; z != nil {
		var field string
		hs.offered, field = z.offer()
		fmt.Fprintf(&b, "Sec-WebSocket-Extensions: %s\r\n", field)
	}
	_ = hs.d.Header.Write(&b) // to memory
	b.WriteString("\r\n")
	return b.Bytes()
}

// hostField returns the host with its port, unless that is the default of the
// scheme.
func (hs *handshaker) hostField() string {
	host, own := hs.url.Host, map[string]string{"ws": ":80", "wss": ":443"}[hs.url.Scheme]
	return strings.TrimSuffix(host, own)
}

// ownField reports whether a header field is the handshake's own.
func ownField(name string) bool {
	switch name = textproto.CanonicalMIMEHeaderKey(name); name {
	case "Host", "Upgrade", "Connection", "Content-Length", "Transfer-Encoding":
		return true
	}
	return strings.HasPrefix(name, "Sec-Websocket-")
}

// Decode implements eddy.Decoder. It waits for the whole head of the response
// and checks that.
func (hs *handshaker) Decode(ctx *eddy.Context, view []byte) (int, error) {
	if !hs.sent {
		return 0, eddy.WithReason(eddy.CloseHandshakeFailed, errSpokeFirst)
	}
	end := bytes.Index(view, []byte("\r\n\r\n"))
	if end < 0 && len(view) < maxResponseHead {
		return 0, nil
	}
	if end < 0 || end+4 > maxResponseHead {
		return 0, hs.refuse(&HandshakeError{Msg: fmt.Sprintf("head of the response over the limit of %d bytes", maxResponseHead)})
	}
	end += 4
	if err := hs.judge(view[:end]); err != nil {
		return 0, hs.refuse(err)
	}
	return end, hs.switchOver(ctx)
}

// switchOver gives the connection to the endpoint.
func (hs *handshaker) switchOver(ctx *eddy.Context) error {
	hs.conn.HandshakeDone()
	hs.over = true
	err := hs.c.enter(func(e endpoint) error { return ctx.Pipeline().Replace(handlerName, endpointName, e) })
	if err != nil {
		hs.c.releaseDeflate()
		err = eddy.WithReason(eddy.CloseInternalError, err)
	}
	hs.outcome <- err
	return err
}

// endpointName is the name of a client's endpoint in the pipeline.
const endpointName = "websocket-endpoint"

// refuse ends the connection because of the response.
func (hs *handshaker) refuse(err *HandshakeError) error {
	hs.fail(err)
	return eddy.WithReason(eddy.CloseHandshakeFailed, err)
}

// fail ends the Dial with err, unless it has ended.
func (hs *handshaker) fail(err error) {
	if !hs.over {
		hs.over = true
		hs.abandon()
		hs.outcome <- err
	}
}

// abandon gives back the memory that was reserved for the offer.
func (hs *handshaker) abandon() {
	if z := hs.c.cfg.Compression; z != nil {
		z.giveBack(hs.offered.window())
		hs.offered = deflation{}
	}
}

// judge checks the response (RFC 6455 section 4.1) and stores what was agreed
// on.
func (hs *handshaker) judge(head []byte) *HandshakeError {
	r, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(head)), nil)
	if err != nil {
		return &HandshakeError{Msg: "malformed response: " + err.Error()}
	}
	bad := func(msg string) *HandshakeError {
		return &HandshakeError{Status: r.StatusCode, Msg: msg, Header: r.Header}
	}
	accept := r.Header["Sec-Websocket-Accept"]
	switch {
	case r.StatusCode != http.StatusSwitchingProtocols:
		return bad("the server answered " + r.Status)
	case !hasToken(r.Header["Upgrade"], "websocket") || !hasToken(r.Header["Connection"], "upgrade"):
		return bad("the response does not upgrade to websocket")
	case len(accept) != 1 || accept[0] != hs.want.answer:
		return bad("the response has the wrong Sec-WebSocket-Accept")
	}
	if msg := hs.subprotocol(r.Header["Sec-Websocket-Protocol"]); msg != "" {
		return bad(msg)
	}
	if msg := hs.extensions(r.Header["Sec-Websocket-Extensions"]); msg != "" {
		return bad(msg)
	}
	return nil
}

// subprotocol stores the server's choice, or returns what is wrong with that.
func (hs *handshaker) subprotocol(fields []string) string {
	o := &hs.c.cfg.Options
	switch {
	case len(fields) == 0 && o.RequireSubprotocol:
		return "the server chose no subprotocol"
	case len(fields) == 0:
		return ""
	case len(fields) > 1 || !slices.Contains(o.Subprotocols, fields[0]):
		return fmt.Sprintf("the server chose the subprotocols %q, which were not offered", fields)
	}
	hs.c.subprotocol = fields[0]
	return ""
}

// extensions stores what the server has accepted, or returns what is wrong with
// that.
func (hs *handshaker) extensions(fields []string) string {
	list, err := parseExtensions(fields)
	if err != nil {
		return err.Error()
	}
	z := hs.c.cfg.Compression
	if z == nil {
		if len(list) > 0 {
			return fmt.Sprintf("the server chose the extension %q, which was not offered", list[0].name)
		}
		return ""
	}
	d, on, ok := z.settle(hs.offered, list)
	hs.offered = deflation{} // settled, or given back
	switch {
	case !ok:
		return fmt.Sprintf("the server's Sec-WebSocket-Extensions %q do not fit the offer", fields)
	case on:
		hs.c.deflate = newDeflateState(z, d)
	}
	return ""
}

// HandleClose implements eddy.CloseHandler.
func (hs *handshaker) HandleClose(_ *eddy.Context, _ eddy.CloseReason, _ error) {
	hs.d.take(hs.conn) // it is still there when the connection ended before Dial took it
	if hs.asked {
		hs.fail(endError(hs.conn))
	}
	hs.over = true
}

// endError returns why a connection ended in the handshake.
func endError(c *eddy.Conn) error {
	if ce := c.CloseError(); ce != nil {
		return fmt.Errorf("%w: %w", errEnded, ce)
	}
	return errEnded
}

var _ eddy.Decoder = (*handshaker)(nil)
