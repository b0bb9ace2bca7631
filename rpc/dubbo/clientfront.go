package dubbo

import (
	"cmp"
	"fmt"
	"strconv"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/codec/frame"
	"github.com/go-eddy/eddy/rpc"
	"github.com/go-eddy/eddy/rpc/dubbo/internal/hessian"
	"github.com/go-eddy/eddy/rpc/internal/payload"
)

// ClientFront lets an rpc.Client speak the dubbo protocol:
//
//	cl, err := rpc.NewClient(rpc.ClientOptions{Addrs: []string{"127.0.0.1:20880"}, Front: dubbo.ClientFront(dubbo.Options{})})
//	user, err := dubbo.Invoke[*User](ctx, cl, key, "getUser", []any{int64(1)})
//
// Only Invoke and Send of this package reach the server. A cancelled call is not told to it: the protocol has no word for it.
// An exception is APP_ERROR with its class and text. The server's event that it takes no new calls has the client go elsewhere.
func ClientFront(o Options) func(p *eddy.Pipeline) error {
	h := &clientFront{o.withDefaults()}
	return func(p *eddy.Pipeline) error { return p.Add(frontName, h) }
}

// clientFront makes packets of frames and the other way.
type clientFront struct{ o Options }

// HandleWrite implements eddy.WriteHandler.
func (h *clientFront) HandleWrite(ctx *eddy.Context, msg any) error {
	var refused []byte
	out, err := convert(msg, func(dst []byte, f *frame.Frame) []byte {
		b, err := appendRequest(dst, f)
		if err != nil {
			refused = frame.AppendError(refused, f.ID, &frame.StatusError{Status: frame.StatusBadRequest, Message: err.Error()})
			return dst
		}
		return b
	})
	if len(refused) > 0 { // not within the write: the handler behind would be asked to read while it sends
		_ = ctx.Conn().Post(func() { ctx.FireRead(refused) }) // an error means that the connection ends
	}
	if len(out) == 0 || err != nil {
		return err
	}
	return ctx.Write(out)
}

// appendRequest appends the packet that stands for the frame of a request, which may be none.
func appendRequest(dst []byte, f *frame.Frame) ([]byte, error) {
	flags := byte(flagRequest | flagTwoWay)
	switch f.Op() {
	case frame.Ping:
		return appendEvent(dst, flags, 0, f.ID, string(null)), nil
	case frame.OneWay:
		flags = flagRequest
	case frame.Call:
	default: // the protocol has no word for it
		return dst, nil
	}
	p, err := payload.ParsePrefix(f.Payload)
	if err != nil {
		return dst, err
	}
	if len(p.Body) == 0 || p.Body[0] != callMark {
		return dst, fmt.Errorf("method %s: this connection speaks the dubbo protocol: call it by dubbo.Invoke", p.Method)
	}
	key, err := rpc.ParseKey(string(p.Key))
	if err != nil {
		return dst, err
	}
	at := len(dst)
	dst = appendHeader(dst, flags, 0, f.ID)
	for _, s := range []string{"2.0.2", key.Interface, cmp.Or(key.Version, noVersion), string(p.Method)} {
		dst = appendText(dst, s)
	}
	dst = append(append(dst, p.Body[1:]...), 'H')
	pair := func(key, value string) {
		if value != "" {
			dst = appendText(appendText(dst, key), value)
		}
	}
	for key, value := range p.Meta.All() {
		pair(string(key), string(value))
	}
	pair("path", key.Interface)
	pair("interface", key.Interface)
	pair("version", key.Version)
	pair("group", key.Group)
	if p.Timeout > 0 {
		pair("timeout", strconv.FormatUint(uint64(p.Timeout), 10))
	}
	return finish(append(dst, 'Z'), at), nil
}

// Decode implements eddy.Decoder.
func (h *clientFront) Decode(ctx *eddy.Context, view []byte) (int, error) {
	p, n, err := split(view, h.o.MaxBody)
	if n == 0 || err != nil {
		return n, err
	}
	if p.flags&flagRequest != 0 {
		return n, h.handleEvent(ctx, p)
	}
	ctx.FireRead(h.response(p))
	return n, nil
}

// handleEvent answers what a server sends by itself.
func (h *clientFront) handleEvent(ctx *eddy.Context, p packet) error {
	if p.flags&flagEvent == 0 {
		return nil // a call of the client: there is nothing to call
	}
	if text, _, err := hessian.Text(p.body); err == nil && text == readOnly {
		ctx.FireRead(frame.AppendError(nil, 0, &frame.StatusError{Status: frame.StatusGoAway, Message: "the server takes no new calls"}))
	}
	if p.flags&flagTwoWay != 0 {
		return ctx.Write(appendEvent(nil, 0, statusOK, p.id, string(null)))
	}
	return nil
}

// response returns the frame that stands for a response.
func (h *clientFront) response(p packet) []byte {
	if p.status != statusOK {
		text, _, err := hessian.Text(p.body)
		if err != nil {
			text = fmt.Sprintf("status %d", p.status)
		}
		status, ok := framed[p.status]
		if !ok {
			status = frame.StatusInternal
		}
		return frame.AppendError(nil, p.id, &frame.StatusError{Status: status, Message: text})
	}
	if p.flags&flagEvent != 0 {
		return frame.AppendResponse(nil, p.id, nil)
	}
	text := "an answer without a kind"
	if len(p.body) > 0 {
		switch kind := p.body[0] - codeInt; kind {
		case answerValue:
			return frame.AppendResponse(nil, p.id, p.body[1:])
		case answerNull:
			return frame.AppendResponse(nil, p.id, []byte{null})
		case answerValue + attached, answerNull + attached:
			return frame.AppendResponse(nil, p.id, append([]byte{answerMark, kind - attached}, p.body[1:]...))
		case answerException, answerException + attached:
			return frame.AppendError(nil, p.id, h.thrown(p.body[1:], kind >= attached))
		default:
			text = fmt.Sprintf("an answer of the kind %#02x", p.body[0])
		}
	}
	return frame.AppendError(nil, p.id, &frame.StatusError{Status: frame.StatusInternal, Message: text})
}

// thrown returns what a caller is told of an exception, with attachments behind it if follows.
func (h *clientFront) thrown(b []byte, follows bool) *frame.StatusError {
	e := &frame.StatusError{Status: frame.StatusAppError}
	t, rest, err := hessian.Exception(b, h.o.Limits)
	if err != nil {
		e.Message = err.Error()
		return e
	}
	e.Message = t.Class + ": " + t.Message
	if follows {
		e.Details = string(append(thrownHead(t.Generic), rest...))
	}
	return e
}
