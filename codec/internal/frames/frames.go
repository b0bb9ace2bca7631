// Package frames is what decoders that cut a stream into frames, and may skip those that are too long, have in common.
package frames

import (
	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/buf"
)

// Step is what a decoder has found at the beginning of its view.
type Step struct {
	Frame    []byte // valid during the call of Pass
	Consumed int    // 0 asks for more
	Err      error
	Skipped  bool // Err is the end of a frame that was skipped: told to the handlers, not the end of the connection
	Skipping bool // what was consumed is part of such a frame
}

// Pass does with s what Decode has to, and returns its results. b carries the frame. Skipping runs on the time for a body,
// which bytes that keep coming do not extend.
func Pass(ctx *eddy.Context, b *buf.Bytes, s Step) (consumed int, err error) {
	switch {
	case s.Skipped:
		ctx.Conn().SetPhase(eddy.PhaseReadingHeader)
		ctx.FireError(s.Err)
	case s.Err != nil:
		return 0, s.Err
	case s.Skipping:
		ctx.Conn().SetPhase(eddy.PhaseReadingBody)
	case s.Consumed > 0:
		b.Reset(s.Frame)
		ctx.FireRead(b)
		b.Reset(nil)
	}
	return s.Consumed, nil
}
