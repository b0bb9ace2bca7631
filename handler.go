package eddy

// A handler is any value that implements one or more of the interfaces below. Its methods run on the handler's
// executor: the connection's loop, or the pool it was added with. On a loop they must not block.

// OpenHandler is told once that the connection is open. Every handler that implements it is told, head to tail.
type OpenHandler interface {
	HandleOpen(ctx *Context) error
}

// ReadHandler receives inbound messages. It forwards with ctx.FireRead; what it does not forward ends here.
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

// WritabilityHandler is told when the outbound queue crosses its watermarks. Every handler that implements it is told. true
// follows each false, and each false that Conn.Writable has said, unless the connection ends first: it may come without a
// false before it. Several changes may have happened since: Conn.Writable says how it stands now.
type WritabilityHandler interface {
	HandleWritability(ctx *Context, writable bool) error
}

// ErrorHandler receives what an inbound method of the same or an earlier handler returned, and the panics of handlers.
// nil means handled; an error goes on to the next ErrorHandler. What passes the tail closes the connection with the
// reason it classifies to (see WithReason). A panic closes the connection whatever the ErrorHandler says.
type ErrorHandler interface {
	HandleError(ctx *Context, err error) error
}

// CloseHandler is told exactly once that the connection ended. Every handler that implements it is told, head to tail.
// Nothing can be written any more.
type CloseHandler interface {
	HandleClose(ctx *Context, reason CloseReason, err error)
}

// AddHandler is told that it stands in the pipeline, on its executor, once and before anything else: for handlers that
// Init adds when the connection is registered, before HandleOpen; for others when they are added. What other handlers fire
// to it before waits. If it returns an error or panics it is taken out and told HandleRemove, and the handlers behind its
// place are given the error; a panic closes the connection. If its pool refuses the call, Add returns the error, and a
// connection that is being opened closes with CloseBackpressureLimit. Source: reference netty 1.10.
type AddHandler interface {
	HandleAdd(ctx *Context) error
}

// RemoveHandler is told that it stands in the pipeline no more, on its executor, once and as the last it hears: when it
// was taken out, behind what it was given before; when its HandleAdd failed; and when the connection ended, after
// HandleClose, tail to head among the handlers on one executor. A handler whose HandleAdd was not called is not told, and
// one whose pool has been stopped is told by the loop, or by the goroutine that stopped the pool. While the connection is
// open it may fire and write what it holds back. Source: reference netty 1.8, 1.10.
type RemoveHandler interface {
	HandleRemove(ctx *Context)
}

// Decoder turns bytes into messages. It runs on the loop. One that is the first handler decodes what the connection
// reads; one further down, behind TLS for instance, decodes the bytes that earlier handlers pass on: *buf.Bytes, []byte
// and *buf.Shared. To both the same rules, bounds, pauses and deadlines apply.
//
// view holds what earlier calls left plus what has arrived since, contiguous, valid during the call only. Decode
// consumes at most one message: it passes it on with ctx.FireRead and returns the number of bytes consumed. 0 and nil
// ask for more bytes. An error closes the connection with the reason it classifies to, after what is queued was flushed.
type Decoder interface {
	Decode(ctx *Context, view []byte) (consumed int, err error)
}

// Detacher is implemented by messages that borrow memory of the loop. Detach returns a copy that owns its memory; the
// pipeline calls it before a message leaves the loop.
type Detacher interface {
	Detach() any
}

// Releaser is implemented by messages that hold counted memory: *buf.Shared, *buf.Composite, and the user's own that carry
// such. A message is given away with every call that passes it on, whatever the call returns: from there on the handler it
// reaches owns it, and the engine releases it exactly once where it ends, be that sent, refused, dropped with its
// connection or unhandled at the tail.
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

// DrainEvent tells the handlers that the server is draining: finish what is in flight, take no new requests.
type DrainEvent struct{}

// InputClosedEvent tells that the peer will send no more but may still read, unless CloseOnEOF is set.
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

// opsOf looks up which events h handles; 0 means that h is no handler at all.
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
