// Package fixed cuts a byte stream into frames of one length.
package fixed

import (
	"fmt"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/buf"
)

// MaxLength is the largest frame length. A frame is held in memory until it is complete.
const MaxLength = 1 << 30

// Decoder fires a *buf.Bytes for each frame of its connection. The frame borrows the loop's memory, so it is valid only
// during the call; a hop to an executor detaches it. A Decoder belongs to one connection and runs on its loop.
type Decoder struct {
	length int
	frame  buf.Bytes
}

// Codec returns the decoder of one connection, for frames of length bytes, or an error unless length is from 1 to
// MaxLength.
func Codec(length int) (*Decoder, error) {
	if length < 1 || length > MaxLength {
		return nil, fmt.Errorf("fixed: frames of %d bytes: the length must be from 1 to %d", length, MaxLength)
	}
	return &Decoder{length: length}, nil
}

// Decode implements eddy.Decoder.
func (d *Decoder) Decode(ctx *eddy.Context, view []byte) (consumed int, err error) {
	frame := d.next(view)
	if frame == nil {
		return 0, nil
	}
	d.frame.Reset(frame)
	ctx.FireRead(&d.frame)
	d.frame.Reset(nil)
	return len(frame), nil
}

// next returns the first frame of view, nil if it is incomplete.
func (d *Decoder) next(view []byte) []byte {
	if len(view) < d.length {
		return nil
	}
	return view[:d.length:d.length]
}
