package line

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/buf"
)

// Encoder is the other direction of a Decoder: a handler that ends each outbound message with LF and refuses those that
// are too long or are no single line. It holds no state: one serves any number of connections, on the loop or a pool.
type Encoder struct{ max int }

// EncodeMax returns an encoder for lines of at most max bytes (0 = DefaultMax), their ending not counted. A message is a
// string, []byte, *buf.Bytes or *Line. The write of a longer one returns a *TooLongError and the write of one with an LF
// inside an error; nothing of it is sent then. A write from another goroutine that is refused here closes the connection
// with frame_too_large or internal_error: its caller has gone on, and the peer would wait for ever.
func EncodeMax(max int) *Encoder {
	if max <= 0 {
		max = DefaultMax
	}
	return &Encoder{max: max}
}

// HandleWrite implements eddy.WriteHandler.
func (e *Encoder) HandleWrite(ctx *eddy.Context, msg any) error {
	switch m := msg.(type) {
	case string:
		if err := e.check(len(m), strings.IndexByte(m, '\n')); err != nil {
			return err
		}
		return ctx.Write(m + "\n")
	case []byte:
		return e.write(ctx, m)
	case *buf.Bytes:
		return e.write(ctx, m.Bytes())
	case *Line:
		return e.write(ctx, m.Text())
	}
	return ctx.Write(msg)
}

func (e *Encoder) write(ctx *eddy.Context, text []byte) error {
	if err := e.check(len(text), bytes.IndexByte(text, '\n')); err != nil {
		return err
	}
	b := make([]byte, len(text)+1)
	b[copy(b, text)] = '\n'
	return ctx.Write(b)
}

func (e *Encoder) check(n, lf int) error {
	switch {
	case n > e.max:
		return eddy.WithReason(eddy.CloseFrameTooLarge, &TooLongError{Max: e.max, Seen: n})
	case lf >= 0:
		return fmt.Errorf("line: a message of %d bytes has a line feed at %d and is not one line", n, lf)
	}
	return nil
}
