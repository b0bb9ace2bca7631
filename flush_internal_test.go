package eddy

import (
	"errors"
	"testing"

	"github.com/go-eddy/eddy/internal/sys"
)

// TestEndFromWritability: a handler that is told of room, writes and ends the connection in order. Everything that it has
// written goes out before the end of the stream, also when the kernel takes a part of it.
func TestEndFromWritability(t *testing.T) {
	const first, second = 500, 1000
	for _, x := range []struct {
		took int // of the first write, when the handler is told
		room int // for the second one
	}{{500, 0}, {500, 300}, {500, second}, {450, 0}, {450, 300}, {450, second + 50}} {
		var a *actor
		srv := &Server{Watermarks: Watermarks{Low: 100, High: 200, Max: 1 << 20}, Init: func(p *Pipeline) error {
			return p.Add("late", writabilityFunc(func(ctx *Context, writable bool) error {
				if !writable || ctx.Conn().CloseError() != nil {
					return nil
				}
				a.room = x.room
				err := ctx.WriteBytes(make([]byte, second))
				ctx.CloseAfterFlush(CloseNormal)
				return err
			}))
		}}
		st, l := newStage(t, srv)
		a = st.connect(l)
		a.room = 100
		if err := a.conn.Write(make([]byte, first)); err != nil {
			t.Fatal(err)
		}
		l.Iterate()
		a.room = x.took - 100
		l.Iterate()
		rest := first + second - len(a.out)
		if waits := st.nextPoller.regs[a.fd].in&sys.Write != 0; a.shutdown != (rest == 0) || waits != (rest > 0) {
			t.Errorf("%+v: %d bytes are not sent, the end of the stream %v, waits for room %v", x, rest, a.shutdown, waits)
		}
		a.room = 1 << 20
		for range 3 {
			l.Iterate()
		}
		if len(a.out) != first+second || !a.shutdown {
			t.Errorf("%+v: %d bytes were sent, the end of the stream %v", x, len(a.out), a.shutdown)
		}
		if err := a.conn.CloseError(); !errors.Is(err, ErrClosed) || err.Reason != CloseNormal {
			t.Errorf("%+v: %v", x, err)
		}
	}
}
