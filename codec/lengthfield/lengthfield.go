// Package lengthfield cuts a byte stream into frames that have a length field.
package lengthfield

import (
	"errors"
	"fmt"
	"math"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/buf"
	"github.com/go-eddy/eddy/codec/internal/frames"
)

// DefaultMax is the longest frame if Options.Max is 0.
const DefaultMax = 1 << 20

// Options say where the length field of a frame stands and which bytes it counts. The length of a whole frame is the field's
// value, plus Adjustment, plus Offset and Length, the bytes up to the end of the field. Length is required.
type Options struct {
	Offset       int  // bytes before the field
	Length       int  // bytes of the field: 1, 2, 3, 4 or 8
	LittleEndian bool // else the field is big-endian
	Adjustment   int  // -(Offset + Length) when the field counts the whole frame
	Strip        int  // bytes cut from the start of the frame before it is passed on
	Max          int  // longest whole frame in bytes; 0 = DefaultMax

	// Discard makes the connection outlive a frame that is too long. The frame is skipped, and then a *TooLongError goes to
	// the handlers' HandleError. During the skip the connection is in eddy.PhaseReadingBody, which Server.BodyTimeout
	// bounds. Without Discard the connection closes when the length is known, before any of the rest is read.
	Discard bool
}

// Decoder fires a *buf.Bytes for each frame of its connection. The frame borrows the loop's memory, so it is valid only
// during the call; a hop to an executor detaches it. An impossible length is a *CorruptedError and closes the connection
// with protocol_error, because the start of the next frame is unknown. A Decoder belongs to one connection and runs on its
// loop.
type Decoder struct {
	o     Options
	left  uint64 // bytes still to skip of a frame that is too long, 0 when none is skipped
	total uint64 // length of that frame
	frame buf.Bytes
}

// bound is the largest value of an option.
const bound = 1 << 30

// Codec returns the decoder of one connection. The error names the option that is out of range.
func Codec(o Options) (*Decoder, error) {
	if o.Max == 0 {
		o.Max = DefaultMax
	}
	switch o.Length {
	case 1, 2, 3, 4, 8:
	default:
		return nil, fmt.Errorf("lengthfield: Options.Length is %d: it must be 1, 2, 3, 4 or 8", o.Length)
	}
	for _, f := range []struct {
		name               string
		value, least, most int
	}{
		{"Offset", o.Offset, 0, bound}, {"Adjustment", o.Adjustment, -bound, bound}, {"Strip", o.Strip, 0, bound},
		{"Max", o.Max, o.Offset + o.Length, bound},
	} {
		if f.value < f.least || f.value > f.most {
			return nil, fmt.Errorf("lengthfield: Options.%s is %d: it must be from %d to %d", f.name, f.value, f.least, f.most)
		}
	}
	return &Decoder{o: o}, nil
}

// Decode implements eddy.Decoder.
func (d *Decoder) Decode(ctx *eddy.Context, view []byte) (consumed int, err error) {
	frame, consumed, err := d.next(view)
	var long *TooLongError
	skipped := d.o.Discard && errors.As(err, &long)
	return frames.Pass(ctx, &d.frame, frames.Step{Frame: frame, Consumed: consumed, Err: err, Skipped: skipped, Skipping: d.left > 0})
}

// next finds the first frame of view. With consumed == 0 and no error it needs more bytes. A *TooLongError with consumed > 0
// is the end of a skipped frame.
func (d *Decoder) next(view []byte) (frame []byte, consumed int, err error) {
	if d.left > 0 {
		return d.skip(view)
	}
	end := d.o.Offset + d.o.Length
	if len(view) < end {
		return nil, 0, nil
	}
	total, err := d.measure(d.value(view[d.o.Offset:end]))
	switch {
	case err != nil:
		return nil, 0, err
	case total > uint64(d.o.Max) && !d.o.Discard:
		return nil, 0, d.tooLong(total)
	case total > uint64(d.o.Max):
		d.left, d.total = total, total
		return d.skip(view)
	case uint64(len(view)) < total:
		return nil, 0, nil
	}
	return view[d.o.Strip:total:total], int(total), nil
}

// value reads the length field.
func (d *Decoder) value(field []byte) uint64 {
	var v uint64
	for i := range field {
		if d.o.LittleEndian {
			v = v<<8 | uint64(field[len(field)-1-i])
		} else {
			v = v<<8 | uint64(field[i])
		}
	}
	return v
}

// measure returns the length of a whole frame whose field holds value.
func (d *Decoder) measure(value uint64) (uint64, error) {
	end := int64(d.o.Offset + d.o.Length)
	more := end + int64(d.o.Adjustment)
	if value > math.MaxInt64-2*bound { // negative in a signed field, or too large for the sum
		return 0, d.corrupted(value, "is no length")
	}
	total := int64(value) + more
	switch {
	case total < end:
		return 0, d.corrupted(value, fmt.Sprintf("makes a frame of %d bytes, which ends before its field at %d", total, end))
	case total < int64(d.o.Strip):
		return 0, d.corrupted(value, fmt.Sprintf("makes a frame of %d bytes, of which %d are to be stripped", total, d.o.Strip))
	}
	return uint64(total), nil
}

// skip consumes the bytes in view of a frame that is too long, and returns a *TooLongError at its end.
func (d *Decoder) skip(view []byte) ([]byte, int, error) {
	n := min(d.left, uint64(len(view)))
	if d.left -= n; d.left > 0 {
		return nil, int(n), nil
	}
	return nil, int(n), d.tooLong(d.total)
}

func (d *Decoder) tooLong(total uint64) error {
	return eddy.WithReason(eddy.CloseFrameTooLarge, &TooLongError{Max: d.o.Max, Length: total})
}

func (d *Decoder) corrupted(value uint64, what string) error {
	return eddy.WithReason(eddy.CloseProtocolError, &CorruptedError{Value: value, what: what})
}

// TooLongError says that a peer sent a longer frame than the decoder accepts.
type TooLongError struct {
	Max    int    // the limit, in bytes
	Length uint64 // of the whole frame
}

// Error names the limit and the length.
func (e *TooLongError) Error() string {
	return fmt.Sprintf("lengthfield: a frame of %d bytes exceeds the limit of %d", e.Length, e.Max)
}

// CorruptedError says that a frame has an impossible length.
type CorruptedError struct {
	Value uint64 // of the length field
	what  string
}

// Error names the value and what is wrong with it.
func (e *CorruptedError) Error() string {
	return fmt.Sprintf("lengthfield: the length %d %s", e.Value, e.what)
}
