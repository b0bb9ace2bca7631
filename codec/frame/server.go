package frame

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/limit"
	"github.com/go-eddy/eddy/responder"
)

// The deadlines of a connection if Options does not name others.
const (
	DefaultReadTimeout = 10 * time.Second // from the first byte of a frame to its last
	// DefaultBackpressureTimeout ends a client that takes next to nothing while its responses exceed the high watermark.
	DefaultBackpressureTimeout = 30 * time.Second
	DefaultIdleTimeout         = 5 * time.Minute
)

// Options say how a Server serves. Pool or Route is required.
type Options struct {
	// Pool runs ECHO and the application's requests.
	Pool *executor.Pool
	// Route chooses, on the loop, the pool that runs a request. A nil pool is the loop itself, where Handle must not block.
	// With an error the request is not run, and is answered as if Handle had returned the error. See responder.Options.
	Route func(req *Frame) (*executor.Pool, error)
	// Class says how much a request matters to an adaptive pool. See responder.Options.
	Class func(req *Frame) limit.Class
	// Done is called once for each request that Route let pass, when the request is over. See responder.Options.
	Done func(req *Frame)
	// Value returns the values of a request's context. See responder.Options.
	Value func(req *Frame, key any) any

	// Handle executes a CALL, a ONEWAY or one of the application's own operations, on the pool. The result is the payload
	// of the response or an error. The payload may be (part of) the request's, and must not be changed afterwards. A
	// *StatusError names the status; any other error becomes APP_ERROR with its text. The request and its payload are valid
	// until Handle returns. ctx ends with the request, see responder.Options. nil = NOT_FOUND, unless Append is set.
	Handle func(ctx context.Context, req *Frame) (payload []byte, err error)
	// Append replaces Handle for responses that are built. The function appends the payload to dst, memory of the request,
	// and returns the result as append does. At most one of Handle and Append may be set.
	Append func(ctx context.Context, req *Frame, dst []byte) (payload []byte, err error)

	Ordering   responder.Ordering
	InFlight   int // see responder.Options
	MaxPayload int // longest payload of requests and responses in bytes; 0 = DefaultMaxPayload

	// Timeout returns how long a request may take, 0 for no limit. A request that takes longer is answered
	// DEADLINE_EXCEEDED. nil = no limit.
	Timeout func(req *Frame) time.Duration

	// RetryAfter is the advice to clients in BUSY, UNAVAILABLE and GOAWAY. 0 and less = none.
	RetryAfter time.Duration

	// DrainGrace is how long a connection stays open after GOAWAY. Requests already on their way are then answered
	// UNAVAILABLE and not lost. The grace ends early when the client ends its side. 0 and less = the connection closes after
	// its last response.
	DrainGrace time.Duration

	ReadTimeout time.Duration // 0 = DefaultReadTimeout, negative = none
	IdleTimeout time.Duration // 0 = DefaultIdleTimeout, negative = none
}

// Server serves the frame protocol on the connections of an eddy.Server. PING is answered on the loop; other requests are
// executed on a pool. Every request but ONEWAY and CANCEL is answered once, in the order that Options.Ordering promises.
// When the eddy.Server drains, Server sends GOAWAY once and answers later requests UNAVAILABLE.
type Server struct {
	o         Options
	decoder   eddy.Decoder
	responder *responder.Responder[*Frame]
	answered  tally
}

// NewServer returns a server for Configure. The error names the option that is out of range.
func NewServer(o Options) (*Server, error) {
	if o.MaxPayload < 0 || o.MaxPayload > maxLength {
		return nil, fmt.Errorf("frame: Options.MaxPayload is %d: it must be from 0 to %d", o.MaxPayload, maxLength)
	}
	if o.Handle != nil && o.Append != nil {
		return nil, errors.New("frame: Options.Handle and Append are set: one of them handles the requests")
	}
	if o.MaxPayload == 0 {
		o.MaxPayload = DefaultMaxPayload
	}
	s := &Server{o: o, decoder: Decoder(MaxPayload(o.MaxPayload))}
	var err error
	s.responder, err = responder.New(responder.Options[*Frame]{
		Pool:     o.Pool,
		Route:    o.Route,
		Class:    o.Class,
		Done:     o.Done,
		Value:    o.Value,
		Run:      s.run,
		Answer:   s.answer,
		Ordering: o.Ordering,
		InFlight: o.InFlight,
		ID:       func(f *Frame) uint64 { return f.ID },
		Cancels:  func(f *Frame) (uint64, bool) { return f.ID, f.Op() == Cancel },
		OneWay:   func(f *Frame) bool { return f.Op() == OneWay },
		Local:    func(f *Frame) bool { return f.Op() == Ping },
		Timeout:  o.Timeout,
	})
	return s, err
}

// Configure makes srv serve the protocol. Call Configure before srv listens. Configure sets Init, ReadTimeout and
// IdleTimeout, and BackpressureTimeout to DefaultBackpressureTimeout if that is not set.
func (s *Server) Configure(srv *eddy.Server) {
	srv.Init = s.Init
	if srv.BackpressureTimeout == 0 {
		srv.BackpressureTimeout = DefaultBackpressureTimeout
	}
	srv.ReadTimeout = within(s.o.ReadTimeout, DefaultReadTimeout)
	srv.IdleTimeout = within(s.o.IdleTimeout, DefaultIdleTimeout)
}

func within(d, def time.Duration) time.Duration {
	switch {
	case d == 0:
		return def
	case d < 0:
		return 0
	}
	return d
}

// Init adds the protocol's handlers to a pipeline. The caller sets the deadlines.
func (s *Server) Init(p *eddy.Pipeline) error {
	if err := p.Add("frames", s.decoder); err != nil {
		return err
	}
	if err := p.Add("goaway", goAway{s}); err != nil {
		return err
	}
	return p.Add("requests", s.responder)
}

// Withdraw removes what Init has added, from a connection on which no frame has come. On the loop only. Errors: those of
// eddy.Pipeline.Remove.
func Withdraw(p *eddy.Pipeline) error {
	for _, name := range []string{"requests", "goaway", "frames"} {
		if err := p.Remove(name); err != nil {
			return err
		}
	}
	return nil
}

// Stats returns the counts of requests that were not executed and answered in the usual way. Any goroutine.
func (s *Server) Stats() responder.Stats { return s.responder.Stats() }

// Answered returns the number of responses by status. The map has every status that can answer a request, also those with
// no response yet. Any goroutine.
func (s *Server) Answered() map[Status]uint64 { return s.answered.counts() }

// run executes a request on its pool, or a PING on the loop.
func (s *Server) run(ctx context.Context, f *Frame) (any, error) {
	switch op := f.Op(); {
	case op == Ping || op == Echo:
		return nil, nil
	case s.o.Append != nil:
		return nil, s.append(ctx, f)
	case s.o.Handle == nil:
		return nil, &StatusError{Status: StatusNotFound, Message: fmt.Sprintf("operation %v is not served", op)}
	}
	payload, err := s.o.Handle(ctx, f)
	if err == nil { // after an error, another goroutine may be answering with f
		f.result = payload
	}
	return nil, err
}

// append executes a request with Options.Append. The payload of the response is made in the frame's memory, behind room for
// its header.
func (s *Server) append(ctx context.Context, f *Frame) error {
	made, err := s.o.Append(ctx, f, f.makeRoom())
	if err == nil { // as in run
		f.made = made
		f.result = made[HeaderSize:]
	}
	return err
}

// answer returns the response to a request, as a message to write.
func (s *Server) answer(f *Frame, _ any, err error) any {
	payload := f.Payload
	if err == nil {
		if op := f.Op(); op != Ping && op != Echo {
			payload = f.result
		}
		if len(payload) > s.o.MaxPayload {
			err = &StatusError{Status: StatusTooLarge, Message: fmt.Sprintf("response of %d bytes, limit %d", len(payload), s.o.MaxPayload)}
		}
	}
	if err != nil {
		e := s.status(err)
		if e.Details != "" && errorHead+len(message(e.Message))+len(e.Details) > s.o.MaxPayload {
			e.Details = ""
		}
		s.answered.of(e.Status).Add(1)
		return f.encodedError(f.ID, &e)
	}
	s.answered.of(StatusOK).Add(1)
	return f.encoded(f.ID, uint8(StatusOK), payload)
}

// status returns the status and message that answer a request which ended with err.
func (s *Server) status(err error) StatusError {
	if e, ok := errors.AsType[*StatusError](err); ok {
		if e.Status == StatusOK || e.Status >= StatusProtocolError {
			return StatusError{Status: StatusInternal, Message: fmt.Sprintf("the handler chose the status %v", e.Status)}
		}
		return *e
	}
	if _, ok := errors.AsType[*eddy.PanicError](err); ok {
		return StatusError{Status: StatusInternal, Message: "the handler panicked"} // the log has the details
	}
	if errors.Is(err, responder.ErrExited) {
		return StatusError{Status: StatusInternal, Message: "the handler ended its goroutine"}
	}
	for _, known := range []struct {
		err     error
		status  Status
		advised bool
		message string
	}{
		{executor.ErrRejected, StatusBusy, true, "no worker is free and no place to wait"},
		{executor.ErrClosed, StatusUnavailable, true, "the server is stopping"},
		{responder.ErrDraining, StatusUnavailable, true, "the server is draining"},
		{responder.ErrDuplicate, StatusBadRequest, false, "a request with this id is in flight"},
		{responder.ErrPipelined, StatusProtocolError, false, "a request before the response to the one before it"},
		{context.DeadlineExceeded, StatusDeadlineExceeded, false, ""},
		{context.Canceled, StatusCanceled, false, ""},
	} {
		if errors.Is(err, known.err) {
			e := StatusError{Status: known.status, Message: known.message}
			if known.advised {
				e.RetryAfter = s.o.RetryAfter
			}
			if full, ok := errors.AsType[*executor.LimitError](err); ok && full.RetryAfter > 0 {
				e.RetryAfter = full.RetryAfter
			}
			return e
		}
	}
	return StatusError{Status: StatusAppError, Message: err.Error()}
}

// goAway is the handler that sends GOAWAY when the server drains.
type goAway struct{ s *Server }

// HandleEvent implements eddy.EventHandler.
func (g goAway) HandleEvent(ctx *eddy.Context, ev any) error {
	switch ev.(type) {
	case eddy.DrainEvent:
		e := StatusError{Status: StatusGoAway, RetryAfter: g.s.o.RetryAfter, Message: "the server is draining"}
		if err := ctx.Write(AppendError(nil, 0, &e)); err != nil {
			return err
		}
		g.linger(ctx)
	case eddy.InputClosedEvent: // nothing can cross GOAWAY any more
		if grace, ok := ctx.State().(*eddy.Timer); ok && grace.Stop() {
			ctx.Conn().End()
		}
		ctx.SetState(inputClosed)
	}
	ctx.FireEvent(ev)
	return nil
}

// inputClosed is the state of goAway on a connection whose client has ended its side.
var inputClosed any = struct{}{}

// linger keeps a draining connection open for DrainGrace, as a request in flight would.
func (g goAway) linger(ctx *eddy.Context) {
	if g.s.o.DrainGrace <= 0 || ctx.State() == inputClosed {
		return
	}
	c := ctx.Conn()
	c.Begin()
	grace, err := ctx.After(g.s.o.DrainGrace, c.End)
	if err != nil { // the connection is ending
		c.End()
		return
	}
	ctx.SetState(grace)
}
