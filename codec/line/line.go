// Package line cuts a byte stream into lines of text, for protocols that a person can type.
package line

import (
	"bytes"
	"fmt"

	"github.com/go-eddy/eddy"
)

// DefaultMax is the longest line, without its ending, that Codec(0) accepts.
const DefaultMax = 256

// A Line is one decoded line. A handler on the connection's loop only borrows the Line: the decoder reuses it and its text for
// the next line after the call. A hop to an executor detaches the Line first.
type Line struct {
	text []byte
}

// Text returns the line without its ending. The bytes belong to the Line; to use them after the call, copy them or call Detach.
func (l *Line) Text() []byte { return l.text }

// Detach returns a *Line with its own copy of the text, safe on any goroutine for any time.
func (l *Line) Detach() any { return &Line{text: bytes.Clone(l.text)} }

// Decoder splits the bytes of one connection at LF, with or without a CR before it. Each line becomes a *Line, also an
// empty one. A Decoder belongs to one connection and runs on its loop.
type Decoder struct {
	max     int
	scanned int // bytes of an unfinished line already searched, so that each byte is searched once
	line    Line
}

// Codec returns the decoder of one connection. A line of more than max bytes (0 = DefaultMax), its ending not counted, ends
// the connection with a *TooLongError and the close reason frame_too_large. The decoder refuses the line as soon as it is
// certain to be too long, not when it is complete.
func Codec(max int) *Decoder {
	if max <= 0 {
		max = DefaultMax
	}
	return &Decoder{max: max}
}

// Decode implements eddy.Decoder and fires at most one line.
func (d *Decoder) Decode(ctx *eddy.Context, view []byte) (consumed int, err error) {
	text, consumed, err := d.next(view)
	if err != nil || consumed == 0 {
		return 0, err
	}
	d.line.text = text
	ctx.FireRead(&d.line)
	d.line.text = nil
	return consumed, nil
}

// next finds the first line of view. With consumed == 0 and no error the line is not complete yet.
func (d *Decoder) next(view []byte) (text []byte, consumed int, err error) {
	end := bytes.IndexByte(view[d.scanned:], '\n')
	if end < 0 {
		d.scanned = len(view)
		if d.tooLong(view) {
			return nil, 0, d.refuse(len(view))
		}
		return nil, 0, nil
	}
	end += d.scanned
	d.scanned = 0
	text = trimCR(view[:end])
	if len(text) > d.max {
		return nil, 0, d.refuse(len(text))
	}
	return text, end + 1, nil
}

// tooLong reports whether an unfinished line is too long already. A CR at its end may belong to the ending.
func (d *Decoder) tooLong(open []byte) bool { return len(trimCR(open)) > d.max }

func trimCR(b []byte) []byte { return bytes.TrimSuffix(b, []byte{'\r'}) }

func (d *Decoder) refuse(seen int) error {
	return eddy.WithReason(eddy.CloseFrameTooLarge, &TooLongError{Max: d.max, Seen: seen})
}

// TooLongError says that a peer sent a longer line than the decoder accepts.
type TooLongError struct {
	Max  int // the limit, in bytes
	Seen int // bytes of the line seen when it was refused; it may have been longer
}

// Error names the limit and the length.
func (e *TooLongError) Error() string {
	return fmt.Sprintf("line: a line of at least %d bytes exceeds the limit of %d", e.Seen, e.Max)
}
