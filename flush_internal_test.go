package eddy

import (
	"errors"
	"testing"
)

// TestEndFromWritability: a handler that is told of room, writes and ends the connection in order. Everything that it has
// written goes out before the end of the stream, also when the kernel takes a part of it.
func TestEndFromWritability(t *testing.T) {
	for _, room := range []int{0, 300, 1 << 20} {
		srv := &Server{Watermarks: Watermarks{Low: 100, High: 200, Max: 1 << 20}, Init: func(p *Pipeline) error {
			return p.Add("late", writabilityFunc(func(ctx *Context, writable bool) error {
				if !writable || ctx.Conn().CloseError() != nil {
					return nil
				}
				err := ctx.WriteBytes(make([]byte, 1000))
				ctx.CloseAfterFlush(CloseNormal)
				return err
			}))
		}}
		st, l := newStage(t, srv)
		a := st.connect(l)
		a.room = 100
		if err := a.conn.Write(make([]byte, 500)); err != nil {
			t.Fatal(err)
		}
		l.Iterate()
		a.room = 400 + room
		l.Iterate()
		if rest := 1500 - len(a.out); a.shutdown != (rest == 0) {
			t.Errorf("with room for %d: %d bytes are not sent, and the end of the stream %v", room, rest, a.shutdown)
		}
		a.room = 1 << 20
		for range 3 {
			l.Iterate()
		}
		if len(a.out) != 1500 || !a.shutdown {
			t.Errorf("with room for %d: %d bytes were sent, the end of the stream %v, closed %d times", room, len(a.out), a.shutdown, a.closed)
		}
		if err := a.conn.CloseError(); !errors.Is(err, ErrClosed) || err.Reason != CloseNormal {
			t.Errorf("with room for %d: %v", room, err)
		}
	}
}
