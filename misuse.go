package eddy

import (
	"errors"
	"fmt"
	"strings"

	"github.com/go-eddy/eddy/internal/meter"
	"github.com/go-eddy/eddy/internal/sample"
)

// This file logs programming mistakes that would otherwise be silent. Each is one sampled line with the handler's name
// and the remedy. All of it runs only after something has gone wrong.

// warn logs a sampled line, for mistakes that a faulty handler can repeat at will.
func (l *loop) warn(s *sample.Lines, text string, args ...any) {
	if ok, held := s.Allow(l.Clock.Now()); ok {
		l.Log.Warn(text, append(args, "loop", l.Name, "held_back", held)...)
	}
}

// currentName returns the name of the running handler, "" for none.
func (l *loop) currentName() string {
	if l.inHand.ctx == nil {
		return ""
	}
	return l.inHand.ctx.node.name
}

// handlers returns the names of the pipeline's handlers, head to tail.
func (c *Conn) handlers() string {
	var names []string
	for ctx := c.head; ctx != nil; ctx = ctx.onward() {
		names = append(names, ctx.node.name)
	}
	return strings.Join(names, " ")
}

// unhandled counts, reports and releases a message that passed the tail.
func (c *Conn) unhandled(msg any) {
	l := c.loop
	l.Counters[meter.Unhandled]++
	l.warn(&l.logs.unhandled, "eddy: no handler took a message: one for its type must stand behind the decoder that makes it",
		"type", typeName(msg), "handlers", c.handlers(), "conn", c.ID())
	release(msg)
}

// headError is the error for a message that no handler has encoded to bytes.
type headError struct{ text string }

func (e *headError) Error() string { return e.text }

// unencoded refuses a message that reached the head in a form that no socket takes.
func (c *Conn) unencoded(msg any) error {
	l := c.loop
	l.warn(&l.logs.unencoded, "eddy: a message cannot be written: its encoder must stand in front of the handler that writes, or write []byte, [][]byte, string, *File or a type of package buf",
		"type", typeName(msg), "handler", l.currentName(), "handlers", c.handlers(), "conn", c.ID())
	release(msg)
	err := &headError{fmt.Sprintf("eddy: message of type %T reached the head of the pipeline: want []byte, [][]byte, string, *File or one of package buf", msg)}
	c.refused(err)
	return err
}

// logTail logs a handler's error that no ErrorHandler has handled and nothing has classified. Other errors answer to what
// a peer or the load does; their connections are counted by reason.
func (ctx *Context) logTail(err error) {
	l := ctx.conn.loop
	if _, told := errors.AsType[*headError](err); told || ctx.conn.phase >= PhaseClosing || reasonOf(err) != CloseInternalError {
		return
	}
	l.warn(&l.logs.tail, "eddy: an error of a handler closes its connection: handle it, or name the reason of the close by WithReason",
		"handler", ctx.node.name, "err", causeText(err), "conn", ctx.conn.ID())
}

// logStill reports a decoder that has passed on a message without consuming a byte.
func (ctx *Context) logStill() {
	l := ctx.conn.loop
	l.warn(&l.logs.still, "eddy: a decoder fired a message and consumed nothing: return the message's length, or the same bytes come again",
		"handler", ctx.node.name, "conn", ctx.conn.ID())
}

// offLoop returns ErrOffLoop, and logs it, when a Context of a loop is used on another goroutine while the loop sleeps.
// The check costs nothing. While the loop runs, telling the goroutines apart would cost a microsecond or more, so offLoop
// returns nil.
func (ctx *Context) offLoop() error {
	l := ctx.conn.loop
	if l.Vitals.BusyFrom.Load() != 0 {
		return nil
	}
	l.warn(&l.logs.offLoop, "eddy: a Context of a loop was used on another goroutine, where nothing was written: call Conn.Write there",
		"handler", ctx.node.name, "conn", ctx.conn.ID())
	return ErrOffLoop
}
