package sim_test

import (
	"errors"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/executor"
)

// promises counts the futures of a trial and the calls of their listeners.
type promises struct {
	all   []*eddy.Future
	told  int
	ended []int // how often, by number
}

// promise checks the life of f: it completes once, with success when sent says so, or with an error that a write can
// end with.
func (t *trial) promise(f *eddy.Future, sent func()) {
	p := &t.promises
	i := len(p.all)
	p.all = append(p.all, f)
	p.ended = append(p.ended, 0)
	f.OnDone(func(g *eddy.Future) {
		if p.ended[i]++; p.ended[i] > 1 || f != g {
			t.w.Failf("future %d was told %d times", i, p.ended[i])
		}
		p.told++
		t.w.Progress()
		err := f.Err()
		switch {
		case !f.Completed():
			t.w.Failf("future %d was told and is pending", i)
		case err == nil:
			sent()
		case !errors.Is(err, eddy.ErrCanceled):
			refused := errors.Is(err, eddy.ErrBackpressure) || errors.Is(err, eddy.ErrSaturated) || errors.Is(err, executor.ErrRejected)
			if !refused && !errors.Is(err, eddy.ErrClosed) && !errors.Is(err, executor.ErrClosed) {
				t.w.Failf("future %d failed with %v", i, err)
			}
		}
	})
}

// write calls c.Write, or c.WriteFuture with a promise, as the seed says.
func (t *trial) write(c *eddy.Conn, msg any, sent func()) (*eddy.Future, error) {
	if t.once(2) {
		return nil, c.Write(msg)
	}
	f := c.WriteFuture(msg)
	t.promise(f, sent)
	return f, f.Err()
}

// answer calls ctx.Write or ctx.WriteFuture. With both, an answer that is refused later ends its connection.
func (t *trial) answer(ctx *eddy.Context, msg []byte) error {
	if t.once(2) {
		return ctx.Write(msg)
	}
	p := t.peers[ctx.Conn().RemoteAddr()]
	f := ctx.WriteFuture(msg)
	t.promise(f, func() {
		if p != nil && p.p.Taken() < len(msg) {
			t.w.Failf("a write of %d bytes succeeded when %d were taken", len(msg), p.p.Taken())
		}
	})
	if err := f.Err(); err != nil {
		return err
	}
	f.OnDone(func(f *eddy.Future) {
		if err := f.Err(); err != nil {
			f.Conn().CloseWith(eddy.CloseBackpressureLimit, err)
		}
	})
	return nil
}

// kept checks that every future was completed and its listener was called once.
func (p *promises) kept(t *trial) {
	for i, f := range p.all {
		if !f.Completed() || p.ended[i] != 1 {
			t.w.Failf("future %d of %d is completed at the end: %v; it was told %d times", i, len(p.all), f.Completed(), p.ended[i])
		}
	}
}
