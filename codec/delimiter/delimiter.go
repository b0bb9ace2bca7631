// Package delimiter cuts a byte stream into frames that end with one of several delimiters.
package delimiter

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/buf"
	"github.com/go-eddy/eddy/codec/internal/frames"
)

// DefaultMax is the longest frame, without its delimiter, if Options.Max is 0.
const DefaultMax = 8 << 10

// MaxDelimiter bounds the length of a delimiter.
const MaxDelimiter = 256

// Options say how frames end. Delimiters is required.
type Options struct {
	// Delimiters end a frame. The delimiter that is complete first ends it; of several complete at the same byte, the
	// longest. With CR LF and LF a line ends at either. Frames do not depend on how the bytes arrive.
	Delimiters [][]byte

	Max  int  // longest frame in bytes, its delimiter not counted; 0 = DefaultMax
	Keep bool // the delimiter is part of the frame

	// Discard makes the connection outlive a frame that is too long. The frame is skipped, and then a *TooLongError goes to
	// the handlers' HandleError. During the skip the connection is in eddy.PhaseReadingBody, which Server.BodyTimeout
	// bounds. Without Discard the connection closes as soon as the frame is certain to be too long.
	Discard bool
}

// Decoder fires a *buf.Bytes for each frame of its connection. The frame borrows the loop's memory, so it is valid only
// during the call; a hop to an executor detaches it. A Decoder belongs to one connection and runs on its loop. Each
// byte is searched once, even if the bytes arrive one by one.
type Decoder struct {
	o       Options
	longest int // length of the longest delimiter
	scanned int // bytes of an unfinished frame in which no delimiter ends
	skipped int // bytes already skipped of a frame that is too long, 0 when none is skipped
	frame   buf.Bytes
}

// Codec returns the decoder of one connection. The error names the option that is out of range.
func Codec(o Options) (*Decoder, error) {
	if len(o.Delimiters) == 0 {
		return nil, errors.New("delimiter: Options.Delimiters is empty")
	}
	if o.Max < 0 || o.Max > 1<<30 {
		return nil, fmt.Errorf("delimiter: Options.Max is %d: it must be from 0 to %d", o.Max, 1<<30)
	}
	if o.Max == 0 {
		o.Max = DefaultMax
	}
	d := &Decoder{o: o}
	for _, x := range o.Delimiters {
		if len(x) == 0 || len(x) > MaxDelimiter {
			return nil, fmt.Errorf("delimiter: delimiter %.20q of %d bytes: the length must be from 1 to %d", x, len(x), MaxDelimiter)
		}
		d.longest = max(d.longest, len(x))
	}
	return d, nil
}

// Decode implements eddy.Decoder.
func (d *Decoder) Decode(ctx *eddy.Context, view []byte) (consumed int, err error) {
	frame, consumed, err := d.next(view)
	var long *TooLongError
	skipped := d.o.Discard && errors.As(err, &long)
	return frames.Pass(ctx, &d.frame, frames.Step{Frame: frame, Consumed: consumed, Err: err, Skipped: skipped, Skipping: d.skipped > 0})
}

// next finds the first frame of view. With consumed == 0 and no error it needs more bytes. A *TooLongError with consumed > 0
// is the end of a skipped frame.
func (d *Decoder) next(view []byte) (frame []byte, consumed int, err error) {
	start, end := d.find(view)
	switch {
	case d.skipped > 0:
		return d.skip(view, end)
	case end == 0 && len(view) < d.o.Max+d.longest, end > 0 && start <= d.o.Max:
		if end == 0 {
			d.scanned = len(view)
			return nil, 0, nil
		}
		d.scanned = 0
		if d.o.Keep {
			start = end
		}
		return view[:start:start], end, nil
	case !d.o.Discard:
		return nil, 0, d.tooLong(len(view), end, start)
	}
	return d.skip(view, end)
}

// skip consumes the bytes in view of a frame that is too long, except the last ones, which may be the start of its
// delimiter.
func (d *Decoder) skip(view []byte, end int) ([]byte, int, error) {
	if end == 0 {
		keep := min(d.longest-1, len(view))
		d.scanned = keep
		d.skipped += len(view) - keep
		return nil, len(view) - keep, nil
	}
	err := d.tooLong(d.skipped+end, 0, 0)
	d.scanned, d.skipped = 0, 0
	return nil, end, err
}

func (d *Decoder) tooLong(seen, end, start int) error {
	if end > 0 {
		seen = start
	}
	return eddy.WithReason(eddy.CloseFrameTooLarge, &TooLongError{Max: d.o.Max, Seen: seen})
}

// firstWindow is the size of the first search window. Each further window is twice as large, so a delimiter that does not
// occur costs no more than the frame is long.
const firstWindow = 64

// find returns the start and the end of the delimiter that is complete first. end is 0 if none is complete.
func (d *Decoder) find(view []byte) (start, end int) {
	for low, size := d.scanned, firstWindow; low < len(view); size *= 2 {
		high := min(len(view), low+size)
		for _, x := range d.o.Delimiters {
			from := max(0, low-len(x)+1)
			i := bytes.Index(view[from:high], x)
			if i < 0 {
				continue
			}
			s, e := from+i, from+i+len(x)
			if end == 0 || e < end || e == end && s < start {
				start, end = s, e
			}
		}
		if end > 0 {
			return start, end
		}
		low = high
	}
	return 0, 0
}

// TooLongError says that a peer sent a longer frame than the decoder accepts.
type TooLongError struct {
	Max  int // the limit, in bytes
	Seen int // bytes of the frame seen when it was refused; it may have been longer
}

// Error names the limit and the length.
func (e *TooLongError) Error() string {
	return fmt.Sprintf("delimiter: a frame of at least %d bytes exceeds the limit of %d", e.Seen, e.Max)
}
