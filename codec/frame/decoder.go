package frame

import (
	"encoding/binary"
	"fmt"
	"sync"

	"github.com/go-eddy/eddy"
)

// Option is a setting of a decoder.
type Option func(*decoder)

// MaxPayload sets the longest payload that a decoder accepts, in bytes. n below 1 stands for DefaultMaxPayload.
func MaxPayload(n int) Option {
	return func(d *decoder) {
		if n > 0 {
			d.max = n
		}
	}
}

// Decoder returns the decoder of a server, which fires a *Frame for each request. One decoder serves any number of
// connections, each on its loop, and keeps no state for any.
//
// The decoder finds a violation of the protocol at the first byte that shows it, before any payload is read. The answer to
// a payload beyond the limit is TOO_LARGE, to any other violation PROTOCOL_ERROR. Then the connection ends with
// frame_too_large or protocol_error and a *ViolationError.
func Decoder(opts ...Option) eddy.Decoder { return newDecoder(request, opts) }

// ResponseDecoder returns the decoder of a client, which fires a *Frame for each response. A violation of the protocol ends
// the connection as for Decoder, but is not answered.
func ResponseDecoder(opts ...Option) eddy.Decoder { return newDecoder(response, opts) }

// role says whether a decoder's frames are requests or responses.
type role uint8

const (
	request role = iota
	response
)

type decoder struct {
	role   role
	max    int
	frames *sync.Pool
}

func newDecoder(r role, opts []Option) *decoder {
	d := &decoder{role: r, max: DefaultMaxPayload, frames: new(sync.Pool)}
	d.frames.New = func() any { return &Frame{home: d.frames} }
	for _, o := range opts {
		o(d)
	}
	return d
}

// Decode implements eddy.Decoder.
func (d *decoder) Decode(ctx *eddy.Context, view []byte) (int, error) {
	total, v := d.measure(view)
	if v != nil {
		return 0, d.refuse(ctx, v)
	}
	if total == 0 || len(view) < total {
		return 0, nil
	}
	f := d.frame(view[:total:total])
	f.conn = ctx.Conn()
	ctx.FireRead(f)
	return total, nil
}

// frame returns a Frame that borrows the bytes of view, one whole frame.
func (d *decoder) frame(view []byte) *Frame {
	f := d.frames.Get().(*Frame)
	f.ID = binary.BigEndian.Uint64(view[atID:])
	f.Code = view[atCode]
	f.Payload = view[HeaderSize:]
	return f
}

// measure returns the length of the frame at the start of view, 0 while its header is incomplete. Each field is checked as
// soon as it is there, so that the result does not depend on how the bytes arrive.
func (d *decoder) measure(view []byte) (total int, v *ViolationError) {
	n := len(view)
	switch {
	case n > 0 && view[0] != Magic>>8:
		return 0, &ViolationError{What: BadMagic, Value: uint64(view[0]), Limit: Magic >> 8}
	case n > 1 && view[1] != Magic&0xff:
		return 0, &ViolationError{What: BadMagic, Value: uint64(view[1]), Limit: Magic & 0xff}
	case n > atVersion && view[atVersion] != Version:
		return 0, &ViolationError{What: BadVersion, Value: uint64(view[atVersion])}
	case n < atCode:
		return 0, nil
	}
	id := binary.BigEndian.Uint64(view[atID:])
	switch {
	case d.role == request && id == 0:
		return 0, &ViolationError{What: ZeroID}
	case d.role == request && n > atCode && Op(view[atCode]).reserved():
		return 0, &ViolationError{What: ReservedOp, ID: id, Value: uint64(view[atCode])}
	case n < HeaderSize:
		return 0, nil
	}
	length := binary.BigEndian.Uint32(view[atLength:])
	if uint64(length) > uint64(d.max) {
		return 0, &ViolationError{What: PayloadTooLong, ID: id, Value: uint64(length), Limit: uint64(d.max)}
	}
	return HeaderSize + int(length), nil
}

// refuse returns the error that ends the connection after a violation. A server's decoder answers the violation first.
func (d *decoder) refuse(ctx *eddy.Context, v *ViolationError) error {
	if d.role == request {
		_ = ctx.Write(AppendError(nil, v.ID, &StatusError{Status: v.status(), Message: v.text()})) // the connection ends in any case
	}
	return eddy.WithReason(v.reason(), v)
}

// Violation is a way to break the protocol.
type Violation uint8

// The violations.
const (
	BadMagic Violation = iota
	BadVersion
	ZeroID
	ReservedOp
	PayloadTooLong
)

// ViolationError says how a peer broke the protocol.
type ViolationError struct {
	What  Violation
	ID    uint64 // of the request, 0 if unknown
	Value uint64 // of the wrong field; for BadMagic, of the wrong byte
	Limit uint64 // for PayloadTooLong, the longest payload; for BadMagic, the right byte
}

// Error implements error.
func (e *ViolationError) Error() string { return "frame: " + e.text() }

func (e *ViolationError) text() string {
	switch e.What {
	case BadMagic:
		return fmt.Sprintf("magic byte %#02x, want %#02x", e.Value, e.Limit)
	case BadVersion:
		return fmt.Sprintf("version %d, want %d", e.Value, Version)
	case ZeroID:
		return "request id 0"
	case ReservedOp:
		return fmt.Sprintf("operation %d is reserved", e.Value)
	}
	return fmt.Sprintf("payload of %d bytes, limit %d", e.Value, e.Limit)
}

func (e *ViolationError) status() Status {
	if e.What == PayloadTooLong {
		return StatusTooLarge
	}
	return StatusProtocolError
}

func (e *ViolationError) reason() eddy.CloseReason {
	if e.What == PayloadTooLong {
		return eddy.CloseFrameTooLarge
	}
	return eddy.CloseProtocolError
}
