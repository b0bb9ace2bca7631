package eddy

import (
	"errors"
	"fmt"
	"strings"

	"github.com/go-eddy/eddy/internal/sample"
)

// This file tells the mistakes of programs that would otherwise be silent: one line each, sampled, with the handler's name
// and what to do. All of it runs where something has gone wrong already.

// warn logs a line of a kind that a faulty handler can cause at will.
func (l *loop) warn(s *sample.Lines, text string, args ...any) {
	if ok, held := s.Allow(l.clock.Now()); ok {
		l.log.Warn(text, append(args, "loop", l.name, "held_back", held)...)
	}
}

// currentName is the name of the handler that runs, "" when none does.
func (l *loop) currentName() string {
	if l.current == nil {
		return ""
	}
	return l.current.node.name
}

// handlers are the names of the pipeline's handlers, head to tail.
func (c *Conn) handlers() string {
	var names []string
	for ctx := c.head; ctx != nil; ctx = ctx.onward() {
		names = append(names, ctx.node.name)
	}
	return strings.Join(names, " ")
}

// unhandled ends a message that passed the tail.
func (c *Conn) unhandled(msg any) {
	l := c.loop
	l.counters[countUnhandled]++
	l.warn(&l.logs.unhandled, "eddy: no handler took a message: one for its type must stand behind the decoder that makes it",
		"type", typeName(msg), "handlers", c.handlers(), "conn", c.ID())
	release(msg)
}

// headError is the fate of a message that no handler has made bytes of.
type headError struct{ text string }

func (e *headError) Error() string { return e.text }

// unencoded ends a message that reached the head and is nothing that a socket takes.
func (c *Conn) unencoded(msg any) error {
	l := c.loop
	l.warn(&l.logs.unencoded, "eddy: a message cannot be written: its encoder must stand in front of the handler that writes, or write []byte, [][]byte, string, *File or a type of package buf",
		"type", typeName(msg), "handler", l.currentName(), "handlers", c.handlers(), "conn", c.ID())
	release(msg)
	err := &headError{fmt.Sprintf("eddy: message of type %T reached the head of the pipeline: want []byte, [][]byte, string, *File or one of package buf", msg)}
	c.refused(err)
	return err
}

// logTail tells an error of a handler that no ErrorHandler has handled and nobody has classified. The others are answers
// to what a peer or the load does: their connections are counted by reason.
func (ctx *Context) logTail(err error) {
	l := ctx.conn.loop
	if _, told := errors.AsType[*headError](err); told || ctx.conn.phase >= PhaseClosing || reasonOf(err) != CloseInternalError {
		return
	}
	l.warn(&l.logs.tail, "eddy: an error of a handler closes its connection: handle it, or name the reason of the close by WithReason",
		"handler", ctx.node.name, "err", causeText(err), "conn", ctx.conn.ID())
}

// logStill tells that a decoder has passed on a message without consuming a byte of it.
func (ctx *Context) logStill() {
	l := ctx.conn.loop
	l.warn(&l.logs.still, "eddy: a decoder fired a message and consumed nothing: return the message's length, or the same bytes come again",
		"handler", ctx.node.name, "conn", ctx.conn.ID())
}

// offLoop returns ErrOffLoop, and tells so, when a handler of a loop calls a method of its Context on another goroutine. That
// the loop sleeps costs nothing to see; while it runs, the goroutine cannot be told from the loop's for less than a microsecond.
func (ctx *Context) offLoop() error {
	l := ctx.conn.loop
	if l.busyFrom.Load() != 0 {
		return nil
	}
	l.warn(&l.logs.offLoop, "eddy: a Context of a loop was used on another goroutine, where nothing was written: call Conn.Write there",
		"handler", ctx.node.name, "conn", ctx.conn.ID())
	return ErrOffLoop
}
