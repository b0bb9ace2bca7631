// Package frames holds the common part of decoders that cut a stream into frames and may skip frames that are too long.
package frames

import (
	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/buf"
)

// Step is the finding of a decoder at the start of its view.
type Step struct {
	Frame    []byte // valid during the call of Pass
	Consumed int    // 0 = more bytes are needed
	Err      error
	Skipped  bool // a skipped frame has ended: Err goes to the handlers and does not end the connection
	Skipping bool // the consumed bytes are part of a frame that is skipped
}

// Pass acts on s for Decode, fires the frame in b, and returns Decode's results. A skip runs on the body deadline, which
// further bytes do not extend.
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
