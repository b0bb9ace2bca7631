package eddy

import (
	"errors"
	"fmt"
	"strings"

	"github.com/go-eddy/eddy/internal/meter"
	"github.com/go-eddy/eddy/internal/sample"
)

// A handler is any value that implements one or more of the interfaces below. Its methods run on the handler's
// executor: the connection's loop, or the pool it was added with. On a loop they must not block.

// OpenHandler is told once that the connection is open. Every handler that implements it is told, head to tail.
type OpenHandler interface {
	HandleOpen(ctx *Context) error
}

// ReadHandler receives inbound messages. It forwards with ctx.FireRead; a message that is not forwarded ends here.
type ReadHandler interface {
	HandleRead(ctx *Context, msg any) error
}

// WriteHandler receives outbound messages on their way to the head and passes what it makes of them on with ctx.Write.
type WriteHandler interface {
	HandleWrite(ctx *Context, msg any) error
}

// EventHandler receives events such as DrainEvent, InputClosedEvent and the user's own. It forwards with ctx.FireEvent.
type EventHandler interface {
	HandleEvent(ctx *Context, ev any) error
}

// WritabilityHandler is told when the outbound queue crosses its watermarks. Every handler that implements it is told.
// Unless the connection ends first, a true follows each false, and each false that Conn.Writable has returned. Therefore a
// true may come without a false before it. Several changes may lie behind one call; Conn.Writable returns the present state.
type WritabilityHandler interface {
	HandleWritability(ctx *Context, writable bool) error
}

// ErrorHandler receives the errors that inbound methods of the same or an earlier handler returned, and the panics of
// handlers. Returning nil handles the error; a returned error goes on to the next ErrorHandler. An error that passes the
// tail closes the connection with the reason it classifies to (see WithReason). A panic closes the connection whatever the
// ErrorHandler returns.
type ErrorHandler interface {
	HandleError(ctx *Context, err error) error
}

// CloseHandler is told exactly once that the connection ended. Every handler that implements it is told, head to tail.
// Nothing can be written any more.
type CloseHandler interface {
	HandleClose(ctx *Context, reason CloseReason, err error)
}

// AddHandler is told that it stands in the pipeline, once, on its executor and before any other call. Handlers that Init
// adds are told when the connection is registered, before HandleOpen; others are told when they are added. Events that other
// handlers fire to it before HandleAdd wait.
//
// If HandleAdd returns an error or panics, the handler is taken out and told HandleRemove. The error goes to the handlers
// behind its place; a panic closes the connection. If the handler's pool refuses the call, Add returns the pool's error, and
// a connection that is being opened closes with CloseBackpressureLimit.
type AddHandler interface {
	HandleAdd(ctx *Context) error
}

// RemoveHandler is told that it no longer stands in the pipeline, once, on its executor and as the last call:
//
//   - when the handler was taken out, behind the events it was given before,
//   - when its HandleAdd failed,
//   - when the connection ended, after HandleClose, tail to head among the handlers on one executor.
//
// A handler whose HandleAdd was not called is not told. If the handler's pool has been stopped, the loop makes the call, or
// the goroutine that stopped the pool. While the connection is open, HandleRemove may fire and write what the handler
// holds back.
type RemoveHandler interface {
	HandleRemove(ctx *Context)
}

// Decoder turns bytes into messages. It runs on the loop. As the first handler it decodes what the connection reads.
// Further down, behind TLS for instance, it decodes the bytes that earlier handlers pass on: *buf.Bytes, []byte and
// *buf.Shared. The same rules, bounds, pauses and deadlines apply to both.
//
// view holds the bytes that earlier calls left and those that have arrived since, contiguous, valid during the call only.
// Decode consumes at most one message: it passes the message on with ctx.FireRead and returns the number of bytes consumed.
// 0 and nil ask for more bytes. An error closes the connection with the reason it classifies to, after what is queued was
// flushed.
type Decoder interface {
	Decode(ctx *Context, view []byte) (consumed int, err error)
}

// Detacher is implemented by messages that borrow memory of the loop. Detach returns a copy that owns its memory; the
// pipeline calls it before a message leaves the loop.
type Detacher interface {
	Detach() any
}

// Releaser is implemented by messages that hold counted memory: *buf.Shared, *buf.Composite, and your own that carry such.
// Every call that passes a message on gives it away, whatever the call returns: from there on the handler it reaches owns
// the message. The engine releases a message exactly once, where it ends: sent, refused, dropped with its connection or
// unhandled at the tail.
type Releaser interface {
	Release()
}

// release ends a message that goes no further.
func release(msg any) {
	if r, ok := msg.(Releaser); ok {
		r.Release()
	}
}

// given releases a message that was not taken.
func given(msg any, err error) error {
	if err != nil {
		release(msg)
	}
	return err
}

// DrainEvent tells the handlers that the server is draining, or that it ends this connection because it has too much to do: finish
// what is in flight, take no new requests.
type DrainEvent struct{}

// InputClosedEvent tells the handlers that the peer will send no more but may still read. With CloseOnEOF the connection
// ends instead.
type InputClosedEvent struct{}

// Handle makes a ReadHandler of a typed function. Messages of another type are forwarded.
func Handle[T any](f func(ctx *Context, m T) error) ReadHandler { return &typedHandler[T]{f: f} }

type typedHandler[T any] struct {
	f func(ctx *Context, m T) error
}

func (h *typedHandler[T]) HandleRead(ctx *Context, msg any) error {
	m, ok := msg.(T)
	if !ok {
		ctx.FireRead(msg)
		return nil
	}
	return h.f(ctx, m)
}

// ops is a set of the events a handler takes part in.
type ops uint16

const (
	opDecode ops = 1 << iota
	opOpen
	opRead
	opWrite
	opEvent
	opWritability
	opError
	opClose
	opFlush
	opFinish
	opAdd
	opRemove
	opBarrier  // keeps a place, see rewire.go
	opOutbound // of a barrier that inbound events do not pass
	opFarewell // of a context for HandleRemove, see rewire.go
)

// opsOf returns the events that h handles; 0 means that h is no handler at all.
func opsOf(h any) ops {
	var m ops
	set := func(ok bool, op ops) {
		if ok {
			m |= op
		}
	}
	_, ok := h.(Decoder)
	set(ok, opDecode)
	_, ok = h.(OpenHandler)
	set(ok, opOpen)
	_, ok = h.(ReadHandler)
	set(ok, opRead)
	_, ok = h.(WriteHandler)
	set(ok, opWrite)
	_, ok = h.(EventHandler)
	set(ok, opEvent)
	_, ok = h.(WritabilityHandler)
	set(ok, opWritability)
	_, ok = h.(ErrorHandler)
	set(ok, opError)
	_, ok = h.(CloseHandler)
	set(ok, opClose)
	_, ok = h.(FlushHandler)
	set(ok, opFlush)
	_, ok = h.(FinishHandler)
	set(ok, opFinish)
	_, ok = h.(AddHandler)
	set(ok, opAdd)
	_, ok = h.(RemoveHandler)
	set(ok, opRemove)
	return m
}

// What follows logs programming mistakes that would otherwise be silent. Each is one sampled line with the handler's name
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

func typeName(v any) string { return fmt.Sprintf("%T", v) }
