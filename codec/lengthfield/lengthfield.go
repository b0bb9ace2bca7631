// Package lengthfield cuts a byte stream into frames that say how long they are.
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

// Options say where a frame's length stands and what it counts (reference 1.18). A frame is as long as the field says, plus
// Adjustment, plus what comes up to the end of the field. Length is required.
type Options struct {
	Offset       int  // bytes before the field
	Length       int  // bytes of the field: 1, 2, 3, 4 or 8
	LittleEndian bool // else the field is big-endian
	Adjustment   int  // -(Offset + Length) when the field counts the whole frame
	Strip        int  // bytes of the frame's beginning that are not passed on
	Max          int  // longest frame in bytes, all of it; 0 = DefaultMax

	// Discard makes a frame that is too long an error the connection can outlive: it is skipped, and then a *TooLongError
	// goes to the handlers' HandleError. While it is skipped the connection is in eddy.PhaseReadingBody, which
	// Server.BodyTimeout bounds. Without it the connection closes when the length is known, before any of the rest is read.
	Discard bool
}

// Decoder fires a *buf.Bytes for each frame of its connection. A frame is borrowed from the loop: it is valid during the
// call, and a hop to an executor detaches it. A length that makes no sense is a *CorruptedError and closes the connection
// with protocol_error: nobody knows where the next frame begins. A Decoder belongs to one connection and runs on its loop.
type Decoder struct {
	o     Options
	left  uint64 // bytes of the frame that is being skipped
	total uint64 // of them all
	frame buf.Bytes
}

// bound is the largest number an option may be.
const bound = 1 << 30

// Codec returns the decoder of one connection. The error names the option that makes no sense.
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

// next finds the first frame of view. 0 consumed bytes ask for more. A *TooLongError with consumed bytes is the end of a
// frame that was skipped.
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

// value reads the field.
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

// measure returns the length of a whole frame whose field holds that value.
func (d *Decoder) measure(value uint64) (uint64, error) {
	end := int64(d.o.Offset + d.o.Length)
	more := end + int64(d.o.Adjustment)
	if value > math.MaxInt64-2*bound { // what a signed field calls negative, and what would overflow
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

// skip passes over what is there of a frame that is too long.
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
	Length uint64 // of the frame
}

// Error names the limit and the length.
func (e *TooLongError) Error() string {
	return fmt.Sprintf("lengthfield: a frame of %d bytes exceeds the limit of %d", e.Length, e.Max)
}

// CorruptedError says that a length makes no sense.
type CorruptedError struct {
	Value uint64 // of the field
	what  string
}

// Error names the value and what is wrong with it.
func (e *CorruptedError) Error() string {
	return fmt.Sprintf("lengthfield: the length %d %s", e.Value, e.what)
}
