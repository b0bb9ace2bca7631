package dubbo

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/buf"
	"github.com/go-eddy/eddy/codec/frame"
	"github.com/go-eddy/eddy/rpc"
	"github.com/go-eddy/eddy/rpc/dubbo/internal/hessian"
	"github.com/go-eddy/eddy/rpc/internal/payload"
)

// Options are those of the dubbo protocol on a connection.
type Options struct {
	Limits  Limits // of one message
	MaxBody int    // of one message in bytes; 0 and less = frame.DefaultMaxPayload. PortOptions.MaxPayload and its like bound it, too.
}

// Front lets a port speak the dubbo protocol, beside those of PortOptions.Protocols, which must have rpc.ProtocolFrame:
//
//	rpc.PortOptions{Addr: ":20880", Front: dubbo.Front(dubbo.Options{})}
//
// Clients reach the services of NewService, by interface, version and group. Dispatchers, pools, limits, deadlines and drain
// are those of the frame protocol: a call is one of its frames. BUSY is status 100, a method's error an exception, and a
// drain sends the event that ends new calls. Attachments that are strings are CallInfo.Metadata.
//
// Connections that begin otherwise are left alone. A Front with TLS calls this one behind its own handler.
func Front(o Options) func(p *eddy.Pipeline) error {
	h := &serverFront{o.withDefaults()}
	return func(p *eddy.Pipeline) error { return p.Add(frontName, h) }
}

// Wire is the dubbo protocol for those that read the names of protocols from a file. Its ports speak the frame protocol, too, and are registered as
// dubbo.
func Wire() rpc.Wire {
	return rpc.Wire{
		Name: frontName,
		Port: func(o *rpc.PortOptions) {
			o.Front = Front(Options{MaxBody: o.MaxPayload})
			o.Protocols, o.Offers = []rpc.Protocol{rpc.ProtocolFrame}, []string{frontName}
		},
		Service: func(key rpc.Key, impl any) (*rpc.Service, error) { return NewService(key, impl, Limits{}) },
	}
}

// frontName is the name of the handlers in a pipeline.
const frontName = "dubbo"

func (o Options) withDefaults() Options {
	o.MaxBody = cmp.Or(max(o.MaxBody, 0), frame.DefaultMaxPayload)
	return o
}

// topBit is the difference between the ids of the two protocols: 0 is an id in one of them.
const topBit = 1 << 63

// serverFront makes frames of packets and the other way.
type serverFront struct{ o Options }

// spoken is the state of a connection that speaks the dubbo protocol. Before, it is nil or what waits to be written.
var spoken any = struct{}{}

// Decode implements eddy.Decoder.
func (h *serverFront) Decode(ctx *eddy.Context, view []byte) (int, error) {
	if ctx.State() != spoken {
		if ours := checkMagic(view) == nil; !ours || len(view) < 2 {
			return 0, h.leave(ctx, ours)
		}
		early, _ := ctx.State().([]byte)
		ctx.SetState(spoken)
		if err := h.HandleWrite(ctx, early); err != nil {
			return 0, err
		}
	}
	p, n, err := split(view, h.o.MaxBody)
	if err != nil {
		if p.flags&(flagRequest|flagTwoWay) == flagRequest|flagTwoWay {
			_ = ctx.Write(appendRefusal(nil, p.id, statusBadRequest, err.Error())) // the connection ends in any case
		}
		return 0, err
	}
	if n == 0 || p.flags&flagRequest == 0 { // a response to nothing that was sent
		return n, nil
	}
	if p.flags&flagEvent != 0 {
		if p.flags&flagTwoWay != 0 {
			err = ctx.Write(appendEvent(nil, 0, statusOK, p.id, string(null)))
		}
		return n, err
	}
	f, err := h.frame(p)
	switch {
	case err == nil:
		ctx.FireRead(f)
	case p.flags&flagTwoWay != 0:
		return n, ctx.Write(appendRefusal(nil, p.id, statusBadRequest, err.Error()))
	}
	return n, nil
}

// leave leaves the connection to the handlers behind, unless it may be ours.
func (h *serverFront) leave(ctx *eddy.Context, ours bool) error {
	if ours {
		return nil
	}
	if early, _ := ctx.State().([]byte); len(early) > 0 {
		if err := ctx.Write(early); err != nil {
			return err
		}
	}
	return ctx.Pipeline().Remove(frontName)
}

// frame returns the frame that stands for a request.
func (h *serverFront) frame(p packet) ([]byte, error) {
	if p.flags&serialMask != serial {
		return nil, fmt.Errorf("serialization %d: this server takes %d, Hessian 2.0", p.flags&serialMask, serial)
	}
	if p.id == topBit {
		return nil, fmt.Errorf("request id %#x is reserved", p.id)
	}
	c, err := parseCall(p.body, h.o.Limits)
	if err != nil {
		return nil, err
	}
	b := make([]byte, frame.HeaderSize, frame.HeaderSize+len(p.body)+256)
	b, err = payload.AppendPrefix(b, payload.Timeout(c.timeout), payload.Raw, c.key.String(), c.method, c.meta)
	if err != nil {
		return nil, err
	}
	b = append(append(b, callMark), c.args...)
	op := frame.OneWay
	if p.flags&flagTwoWay != 0 {
		op = frame.Call
	}
	frame.AppendHeader(b[:0], p.id^topBit, uint8(op), len(b)-frame.HeaderSize)
	return b, nil
}

// callMark begins the body of a call that has its arguments as the dubbo protocol sends them. No wrapper begins so.
const callMark = 0

// A dubboCall is what the body of a request says.
type dubboCall struct {
	key     rpc.Key
	method  string
	timeout time.Duration
	meta    rpc.Metadata
	args    []byte // their types, and the values
}

// noVersion is how Java writes that a service has no version.
const noVersion = "0.0.0"

// parseCall reads the body of a request: the version of the protocol, the path and the version of the service, the name of
// the method, the types of its arguments, these, and the attachments.
func parseCall(b []byte, l Limits) (c dubboCall, err error) {
	var head [4]string
	for i, what := range [...]string{"the version of Dubbo", "the path", "the version of the service", "the method"} {
		if len(b) > 0 && b[0] == null {
			b = b[1:]
			continue
		}
		if head[i], b, err = hessian.Text(b); err != nil {
			return c, fmt.Errorf("%s: %w", what, err)
		}
	}
	c.key, c.method = rpc.Key{Interface: head[1], Version: head[2]}, head[3]
	parts, err := hessian.Split(b, maxValues+2, l)
	if err != nil {
		return c, fmt.Errorf("the arguments: %w", err)
	}
	if len(parts) < 2 {
		return c, fmt.Errorf("%d values behind the method, want types, arguments and attachments", len(parts))
	}
	last := parts[len(parts)-1]
	c.args = b[:len(b)-len(last)]
	c.meta = rpc.Metadata{{Key: versionKey, Value: head[0]}}
	err = hessian.Strings(last, l, func(key, value string) {
		switch key {
		case "timeout":
			if ms, err := strconv.ParseInt(value, 10, 32); err == nil && ms > 0 {
				c.timeout = time.Duration(ms) * time.Millisecond
			}
		case "group":
			c.key.Group = value
		case "version":
			c.key.Version = value
		}
		c.meta = append(c.meta, rpc.Pair{Key: key, Value: value})
	})
	if err != nil {
		return c, fmt.Errorf("the attachments: %w", err)
	}
	if c.key.Version == noVersion {
		c.key.Version = ""
	}
	return c, nil
}

// HandleWrite implements eddy.WriteHandler. What the server says before the client has shown its protocol, a GOAWAY, waits
// until then.
func (h *serverFront) HandleWrite(ctx *eddy.Context, msg any) error {
	if ctx.State() != spoken {
		if b, ok := msg.([]byte); ok && ctx.State() == nil {
			ctx.SetState(b)
			return nil
		}
		return fmt.Errorf("dubbo: a %T before the client's first bytes", msg)
	}
	out, err := convert(msg, appendAnswer)
	if len(out) == 0 || err != nil {
		return err
	}
	return ctx.Write(out)
}

// convert returns what each makes of the frames of a message.
func convert(msg any, each func(dst []byte, f *frame.Frame) []byte) (out []byte, err error) {
	var in []byte
	switch m := msg.(type) {
	case *buf.Bytes:
		in = m.Bytes()
	case []byte:
		in = m
	case [][]byte:
		for _, part := range m {
			in = append(in, part...)
		}
	default:
		return nil, fmt.Errorf("dubbo: a %T in the place of frames: which handler stands behind Front?", msg)
	}
	for len(in) >= frame.HeaderSize {
		n := frame.HeaderSize + int(binary.BigEndian.Uint32(in[12:]))
		if n > len(in) {
			break
		}
		out = each(out, &frame.Frame{ID: binary.BigEndian.Uint64(in[3:]), Code: in[11], Payload: in[frame.HeaderSize:n]})
		in = in[n:]
	}
	if len(in) > 0 {
		return nil, fmt.Errorf("dubbo: %d bytes that are no frame: which handler stands behind Front?", len(in))
	}
	return out, nil
}

// appendAnswer appends the packet that stands for the frame of a response.
func appendAnswer(dst []byte, f *frame.Frame) []byte {
	switch {
	case f.ID == 0 && f.Status() == frame.StatusGoAway:
		return appendEvent(dst, flagRequest, 0, 0, string(appendText(nil, readOnly)))
	case f.ID == 0: // there is no word for what ends the connection
		return dst
	case f.Status() == frame.StatusOK:
		at := len(dst)
		dst = appendHeader(dst, 0, statusOK, f.ID^topBit)
		switch {
		case len(f.Payload) == 0 || f.Payload[0] == null:
			dst = append(dst, codeInt+answerNull)
		case len(f.Payload) > 1 && f.Payload[0] == answerMark:
			dst = append(append(dst, codeInt+attached+f.Payload[1]), f.Payload[2:]...)
		default:
			dst = append(append(dst, codeInt+answerValue), f.Payload...)
		}
		return finish(append(dst, null), at)
	}
	err := f.Err()
	text, details := err.Error(), ""
	if e, ok := errors.AsType[*frame.StatusError](err); ok {
		text, details = e.Message, e.Details
	}
	if f.Status() == frame.StatusAppError {
		return appendException(dst, f.ID^topBit, text, details)
	}
	return appendRefusal(dst, f.ID^topBit, cmp.Or(statuses[f.Status()], statusServerError), cmp.Or(text, f.Status().String()))
}

// appendRefusal appends the response to a request that has no answer.
func appendRefusal(dst []byte, id uint64, status byte, text string) []byte {
	at := len(dst)
	dst = appendText(appendHeader(dst, 0, status, id), text)
	return finish(append(dst, null), at)
}
