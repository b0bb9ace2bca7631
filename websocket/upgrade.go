package websocket

import (
	"crypto/sha1"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/http1"
	"github.com/go-eddy/eddy/trace"
)

// handlerName is the name of this package's handler in a pipeline.
const handlerName = "websocket"

// HandshakeError tells why a handshake failed. Upgrade returns it for a request
// that it answered with Status, Dial for a response that it did not accept.
type HandshakeError struct {
	Status int
	Msg    string
	Header http.Header // of the response; Dial only
	Err    error       // the cause on this server, which the client is not told; Upgrade only
}

// Error implements error.
func (e *HandshakeError) Error() string {
	why := e.Msg
	if e.Err != nil {
		why += ": " + e.Err.Error()
	}
	return fmt.Sprintf("websocket: handshake failed: %s (status %d)", why, e.Status)
}

// Unwrap returns Err.
func (e *HandshakeError) Unwrap() error { return e.Err }

// Upgrader turns HTTP requests into WebSocket connections, which share its
// options. Any goroutine may use it.
type Upgrader struct{ cfg *config }

// NewUpgrader returns an Upgrader. The error names the invalid option.
func NewUpgrader(o Options) (*Upgrader, error) {
	cfg, err := newConfig(o, false)
	if err != nil {
		return nil, err
	}
	return &Upgrader{cfg}, nil
}

// Upgrade checks the handshake in r and turns its connection into a WebSocket
// connection with the handler h (RFC 6455 section 4.2). By HTTP/2 the request is
// a CONNECT with the :protocol websocket, and its stream becomes the connection
// (RFC 8441); see http2.Options.Connect. Call Upgrade inside ServeHTTP of a
// handler that package http1 or http2 runs, before anything was written.
// h.HandleOpen has run when Upgrade returns a connection.
//
// A *HandshakeError means that the request was refused. It was answered with
// Status, which is 500 when the server cannot upgrade, and Stats.Refused has
// counted it. After any other error no answer is possible, because the
// connection has ended, was taken over, or the response has begun.
func (u *Upgrader) Upgrade(w http.ResponseWriter, r *http.Request, h Handler) (*Conn, error) {
	if h == nil {
		return nil, unable(errors.New("websocket: Upgrade without a Handler")).answer(w, u.cfg.Stats)
	}
	c := &Conn{handler: h, cfg: u.cfg, request: trace.FromContext(r.Context())}
	header, refusal := c.handshake(r)
	if refusal != nil {
		return nil, refusal.answer(w, u.cfg.Stats)
	}
	var err error
	if r.ProtoMajor == 2 {
		err = c.throughTunnel(w, header)
	} else {
		err = http1.Upgrade(w, r, header, func(p *eddy.Pipeline) error {
			c.conn = p.Conn()
			return c.enter(func(e endpoint) error { return p.Add(handlerName, e) })
		})
	}
	if err == nil {
		return c, nil
	}
	if !c.opened { // else HandleClose does it
		c.releaseDeflate()
	}
	if errors.Is(err, http.ErrNotSupported) {
		return nil, unable(err).answer(w, u.cfg.Stats)
	}
	return nil, fmt.Errorf("websocket: %w", err)
}

// Upgrade is Upgrader.Upgrade with a new Upgrader, for servers with few
// connections. Otherwise keep an Upgrader: its options are checked once, and
// its connections share them.
func Upgrade(w http.ResponseWriter, r *http.Request, h Handler, o Options) (*Conn, error) {
	u, err := NewUpgrader(o)
	if err != nil {
		return nil, unable(err).answer(w, o.Stats)
	}
	return u.Upgrade(w, r, h)
}

// unable returns the refusal of a server that cannot upgrade, with its cause.
func unable(err error) *HandshakeError {
	return &HandshakeError{Status: http.StatusInternalServerError, Msg: "this server cannot upgrade the connection", Err: err}
}

// answer refuses the request, counts that unless s is nil, and returns e.
func (e *HandshakeError) answer(w http.ResponseWriter, s *Stats) error {
	if s != nil {
		s.refused.Add(1)
	}
	if e.Status == http.StatusUpgradeRequired { // RFC 6455 section 4.4, RFC 9110 section 15.5.22
		w.Header().Set("Sec-WebSocket-Version", "13")
		w.Header().Set("Upgrade", "websocket")
	}
	http.Error(w, e.Msg, e.Status)
	return e
}

// handshake checks the request and returns the header of the response, or the
// refusal.
func (c *Conn) handshake(r *http.Request) (http.Header, *HandshakeError) {
	bad := func(status int, msg string) (http.Header, *HandshakeError) {
		return nil, &HandshakeError{Status: status, Msg: msg}
	}
	header, refusal := asked(r)
	if refusal != nil {
		return nil, refusal
	}
	offers, malformed := parseExtensions(r.Header["Sec-Websocket-Extensions"])
	switch {
	case malformed != nil:
		return bad(http.StatusBadRequest, malformed.Error())
	case len(r.Header["Origin"]) > 1 || !c.cfg.CheckOrigin(r):
		return bad(http.StatusForbidden, "this origin may not connect")
	}
	c.subprotocol = choose(r.Header["Sec-Websocket-Protocol"], c.cfg.Subprotocols)
	if c.subprotocol != "" {
		header["Sec-Websocket-Protocol"] = []string{c.subprotocol}
	} else if c.cfg.RequireSubprotocol {
		return bad(http.StatusBadRequest, "none of the offered subprotocols is spoken")
	}
	if z := c.cfg.Compression; z != nil {
		if d, answer := z.accept(offers); answer != "" {
			c.deflate = newDeflateState(z, d)
			header["Sec-Websocket-Extensions"] = []string{answer}
		}
	}
	return header, nil
}

// asked checks that the request asks for a WebSocket, by HTTP/1.1 or by HTTP/2
// (RFC 8441 section 5), and returns the fields that say yes.
func asked(r *http.Request) (http.Header, *HandshakeError) {
	bad := func(msg string) (http.Header, *HandshakeError) {
		return nil, &HandshakeError{Status: http.StatusBadRequest, Msg: msg}
	}
	second := r.ProtoMajor == 2
	switch {
	case second && (r.Method != http.MethodConnect || !slices.Equal(r.Header[":protocol"], []string{"websocket"})):
		return bad("a WebSocket handshake of HTTP/2 is a CONNECT with the :protocol websocket")
	case second && r.Body == http.NoBody:
		return bad("the client has ended its stream")
	case !second && (r.Method != http.MethodGet || !r.ProtoAtLeast(1, 1)):
		return bad("a WebSocket handshake is a GET of HTTP/1.1")
	case !second && (!hasToken(r.Header["Connection"], "upgrade") || !hasToken(r.Header["Upgrade"], "websocket")):
		return bad("not a WebSocket handshake")
	case !second && r.ContentLength != 0:
		return bad("a WebSocket handshake has no body")
	case !slices.Equal(r.Header["Sec-Websocket-Version"], []string{"13"}):
		return nil, &HandshakeError{Status: http.StatusUpgradeRequired, Msg: "only version 13 is spoken"}
	case second:
		return http.Header{}, nil
	case !validKey(r.Header["Sec-Websocket-Key"]):
		return bad("malformed Sec-WebSocket-Key")
	}
	return http.Header{
		"Upgrade":              {"websocket"},
		"Sec-Websocket-Accept": {acceptKey(r.Header["Sec-Websocket-Key"][0])},
	}, nil
}

// hasToken reports whether one of the comma-separated lists holds the token,
// without regard to case.
func hasToken(lists []string, token string) bool {
	for _, list := range lists {
		for item := range strings.SplitSeq(list, ",") {
			if strings.EqualFold(strings.Trim(item, " \t"), token) {
				return true
			}
		}
	}
	return false
}

// validKey reports whether there is exactly one key, of 16 bytes in base64.
func validKey(keys []string) bool {
	if len(keys) != 1 || len(keys[0]) != 24 {
		return false
	}
	b, err := base64.StdEncoding.Strict().DecodeString(keys[0])
	return err == nil && len(b) == 16
}

// acceptKey computes Sec-WebSocket-Accept (RFC 6455 section 4.2.2).
func acceptKey(key string) string {
	sum := sha1.Sum([]byte(key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	return base64.StdEncoding.EncodeToString(sum[:])
}

// choose returns the client's first offer that the server supports, "" if there
// is none. Names are compared exactly.
func choose(offers, supported []string) string {
	for _, list := range offers {
		for item := range strings.SplitSeq(list, ",") {
			if i := slices.Index(supported, strings.Trim(item, " \t")); i >= 0 {
				return supported[i] // not the client's string, which would keep its whole request in memory
			}
		}
	}
	return ""
}

// sameOrigin allows requests without Origin and those whose Origin has the host
// that the request was sent to.
func sameOrigin(r *http.Request) bool {
	origin := r.Header.Get("Origin")
	if origin == "" {
		return len(r.Header["Origin"]) == 0
	}
	u, err := url.Parse(origin)
	return err == nil && u.Host != "" && strings.EqualFold(u.Host, r.Host)
}
