package hub

import (
	"context"
	"errors"

	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/store"
	"github.com/go-eddy/eddy/trace"
)

// Run executes a command about a conversation for a program that has no session. The caller has checked the right. Run
// blocks until the commit or the end of ctx, so do not call it on a loop. Everybody concerned is told as of any command.
// Errors are *proto.Error without a head.
func (h *Hub) Run(ctx context.Context, conv string, c store.Command) (store.Outcome, error) {
	h.mu.Lock()
	lane := "program"
	if h.queue.dir.open[conv] != nil { // an unknown id opens no lane
		lane = conv
	}
	h.mu.Unlock()
	return h.run(ctx, lane, c)
}

func (h *Hub) run(ctx context.Context, lane string, c store.Command) (store.Outcome, error) {
	if h.draining.Load() {
		return store.Outcome{}, unavailable("the server is shutting down")
	}
	out, refusal := awaited(ctx, func(tell func(store.Outcome, *proto.Error)) {
		h.execute(lane, store.Trace(c, trace.FromContext(ctx)), func(out store.Outcome) { tell(out, nil) }, func(e *proto.Error) { tell(store.Outcome{}, e) })
	})
	switch {
	case refusal != nil:
		return out, refusal
	case out.Err != nil:
		return out, h.programError(out.Err)
	}
	return out, nil
}

// awaited waits for the end of what begin starts, or the end of ctx. begin's function may be called from any goroutine;
// only the first call counts.
func awaited(ctx context.Context, begin func(tell func(store.Outcome, *proto.Error))) (store.Outcome, *proto.Error) {
	type end struct {
		out store.Outcome
		err *proto.Error
	}
	ended := make(chan end, 1)
	begin(func(out store.Outcome, e *proto.Error) {
		select {
		case ended <- end{out, e}:
		default: // a second end, after a panic
		}
	})
	select {
	case e := <-ended:
		return e.out, e.err
	case <-ctx.Done():
		return store.Outcome{}, unavailable("this could not be stored now")
	}
}

// programError turns an error of the store into the error for a program.
func (h *Hub) programError(err error) *proto.Error {
	if errors.Is(err, store.ErrNotFound) {
		return &proto.Error{Code: proto.CodeNotFound, Text: "there is no such conversation"}
	}
	return h.readError(err)
}
