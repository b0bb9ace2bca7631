package line

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/buf"
)

// Encoder is a handler that ends each outbound message with LF, and refuses messages that are too long or have an LF
// inside. One Encoder, which has no state, serves any number of connections, on the loop or a pool.
type Encoder struct{ max int }

// EncodeMax returns an encoder for lines of at most max bytes (0 = DefaultMax), their ending not counted. A message is a
// string, []byte, *buf.Bytes or *Line; other messages pass unchanged. Writing a longer message returns a *TooLongError, and
// writing one with an LF inside returns an error; nothing of the message is sent. If the refused write came from another
// goroutine, the connection closes with frame_too_large or internal_error. Otherwise the peer would wait for ever, because
// the caller has gone on.
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
