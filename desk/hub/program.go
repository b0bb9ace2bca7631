package hub

import (
	"context"
	"errors"

	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/store"
)

// Run executes a command about a conversation for a program that has no session. The caller has checked the right. Run
// blocks until the commit or the end of ctx, so do not call it on a loop. Everybody concerned is told as of any command.
// Errors are *proto.Error without a head.
func (h *Hub) Run(ctx context.Context, conv string, c store.Command) (store.Outcome, error) {
	if h.draining.Load() {
		return store.Outcome{}, unavailable("the server is shutting down")
	}
	h.mu.Lock()
	lane := "program"
	if h.queue.dir.open[conv] != nil { // an unknown id opens no lane
		lane = conv
	}
	h.mu.Unlock()
	type end struct {
		out store.Outcome
		err *proto.Error
	}
	ended := make(chan end, 1)
	tell := func(e end) {
		select {
		case ended <- e:
		default: // a second end, after a panic
		}
	}
	h.execute(lane, c, func(out store.Outcome) { tell(end{out: out}) }, func(e *proto.Error) { tell(end{err: e}) })
	select {
	case e := <-ended:
		switch {
		case e.err != nil:
			return e.out, e.err
		case e.out.Err != nil:
			return e.out, h.programError(e.out.Err)
		}
		return e.out, nil
	case <-ctx.Done():
		return store.Outcome{}, unavailable("the server did not answer in time")
	}
}

// programError turns an error of the store into the error for a program.
func (h *Hub) programError(err error) *proto.Error {
	if errors.Is(err, store.ErrNotFound) {
		return &proto.Error{Code: proto.CodeNotFound, Text: "there is no such conversation"}
	}
	return h.readError(err)
}
