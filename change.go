package eddy

import "errors"

var errChangePanic = errors.New("eddy: Conn.Change: the function panicked")

// change is one submitted change of a pipeline.
type change struct {
	f    func(p *Pipeline) error
	done func(error)
}

// Change runs f with the connection's pipeline on its loop, where f may use every method of the pipeline. Nothing else happens
// to the connection meanwhile, so several changes are seen as one. Change does not block; any goroutine may call it. On the
// loop f runs at once. Elsewhere f is queued, and until it runs the pipeline is as before.
//
// done, if it is not nil, tells that f has run. If Change returns nil, done is called exactly once, on the loop, with what f
// returned. If the connection ended before f could run, the error is ErrClosed to errors.Is. If f panics, done is given
// an error and the connection closes as after a panic of a handler.
// Errors, after which neither f nor done is called: ErrClosed, ErrSaturated (the loop's task queue), f is nil.
func (c *Conn) Change(f func(p *Pipeline) error, done func(error)) error {
	if f == nil {
		return errNilFunc("Conn.Change")
	}
	if err := c.closedError(); err != nil {
		return err
	}
	ch := &change{f: f, done: done}
	if c.loop.handle.In() {
		ch.run(c)
		return nil
	}
	return c.loop.Tasks.Push(task{kind: taskChange, conn: c, msg: ch})
}

// run carries the change out.
func (ch *change) run(c *Conn) {
	err := errChangePanic
	if ch.done != nil {
		defer func() { ch.done(err) }()
	}
	if c.phase == PhaseClosed {
		err = c.closedError()
		return
	}
	err = ch.f(&Pipeline{conn: c, from: callerOnLoop})
}
