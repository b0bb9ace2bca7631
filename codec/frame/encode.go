package frame

import (
	"errors"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/buf"
)

// Encoder is a handler that writes each outbound *Frame with its header and releases the frame. Other messages pass
// unchanged. One Encoder, which has no state, serves any number of connections, on the loop or on a pool. After the write,
// do not change the payload of a frame that no decoder made.
type Encoder struct{}

// HandleWrite implements eddy.WriteHandler.
func (Encoder) HandleWrite(ctx *eddy.Context, msg any) error {
	f, ok := msg.(*Frame)
	if !ok {
		return ctx.Write(msg)
	}
	if len(f.Payload) > maxLength {
		f.Release()
		return errTooLong
	}
	defer f.Release()
	switch m := f.encoded(f.ID, f.Code, f.Payload).(type) {
	case *buf.Bytes:
		return ctx.WriteBytes(m.Bytes()) // copies, because the frame is reused
	default:
		return ctx.Write(m)
	}
}

// maxLength is the longest payload that the engine writes in one piece.
const maxLength = 1<<30 - HeaderSize

var errTooLong = errors.New("frame: payload of more than 1 GiB")

// encoded returns the message that sends a frame. A short message is a *buf.Bytes in f's memory, which has to be copied when
// it is written. A payload longer than f keeps goes out by reference, unless the payload lies in the memory of the loop.
func (f *Frame) encoded(id uint64, code uint8, payload []byte) any {
	whole := f.inPlace(id, code, payload)
	if whole == nil {
		if len(payload) > keptBuffer-HeaderSize && !f.borrows(payload) {
			return [][]byte{AppendHeader(nil, id, code, len(payload)), payload}
		}
		whole = AppendHeader(resized(f.reply, 0, HeaderSize+len(payload)), id, code, len(payload))
		whole = append(whole, payload...)
		f.reply = whole
	}
	if len(whole) > keptBuffer { // f does not reuse the memory
		return whole
	}
	f.out.Reset(whole)
	return &f.out
}

// inPlace puts a header in front of the payload and returns both, if the payload is the frame's own or was made in makeRoom's
// memory. Both have room for a header. Otherwise inPlace returns nil.
func (f *Frame) inPlace(id uint64, code uint8, payload []byte) []byte {
	switch {
	case len(payload) == 0:
	case f.owned && len(payload) == len(f.Payload) && &payload[0] == &f.data[HeaderSize]:
		AppendHeader(f.data[:0], id, code, len(payload))
		return f.data[:HeaderSize+len(payload)]
	case len(f.made) == HeaderSize+len(payload) && &payload[0] == &f.made[HeaderSize]:
		AppendHeader(f.made[:0], id, code, len(payload))
		return f.made
	}
	return nil
}

// firstMade is the least capacity of makeRoom's memory.
const firstMade = 256

// makeRoom returns memory to append the response's payload to, behind room for a header.
func (f *Frame) makeRoom() []byte {
	f.made = resized(f.made, HeaderSize, firstMade)
	return f.made
}

// borrows reports whether payload starts at f.Payload and lies in the memory of a loop.
func (f *Frame) borrows(payload []byte) bool {
	return f.home != nil && !f.owned && len(f.Payload) > 0 && len(payload) > 0 && &payload[0] == &f.Payload[0]
}

// encodedError is encoded for a status other than OK.
func (f *Frame) encodedError(id uint64, e *StatusError) any {
	f.reply = AppendError(f.reply[:0], id, e)
	f.out.Reset(f.reply)
	return &f.out
}
