package tlsx

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/buf"
)

// stage is how far a session has come. The stages stand in their order. Loop only.
type stage uint8

const (
	waiting   stage = iota // a server waits for the first record
	shaking                // the handshake is under way
	open                   // the handshake is over
	finished               // our close_notify is sent
	abandoned              // the handshake failed, or the stream is broken
)

// session is the TLS of one connection.
type session struct {
	layer  *Layer
	conn   *eddy.Conn
	ctx    *eddy.Context
	wire   wire
	tls    *tls.Conn  // nil before the first record of a server's connection
	hs     *handshake // until the handshake is over
	stage  stage
	ended  bool // the peer's close_notify has come
	record []byte
	plain  buf.Bytes
	gather *gather // plaintext written in this batch

	outcome *outcome // clients only
}

// outcome is what Await waits for.
type outcome struct {
	done  chan struct{} // closed when the others are set
	state tls.ConnectionState
	err   error
	named *named // nil for a connection of a layer from Client
}

func (o *outcome) ready(err error) {
	if o.named != nil {
		o.named.ready(err)
	}
}

const (
	recordHead = 5
	maxRecord  = recordHead + 16<<10 + 2048 // RFC 5246 section 6.2.3; that of RFC 8446 is less
	maxPlain   = 16 << 10
)

// gather holds plaintext that becomes one record.
type gather struct {
	n int
	b [maxPlain]byte
}

// gathers and plains hold buffers for one call or batch. All loops share them.
var (
	gathers = sync.Pool{New: func() any { return new(gather) }}
	plains  = sync.Pool{New: func() any { return new([maxPlain]byte) }}
)

// HandleOpen implements eddy.OpenHandler.
func (l *Layer) HandleOpen(ctx *eddy.Context) error { return l.open(ctx, nil) }

func (l *Layer) open(ctx *eddy.Context, n *named) error {
	s := &session{layer: l, conn: ctx.Conn(), ctx: ctx}
	s.wire.s = s
	ctx.SetState(s)
	s.hs = &handshake{s: s}
	var err error
	if s.hs.timer, err = ctx.After(l.o.Timeout, s.late); err != nil {
		return err
	}
	if !l.client {
		return nil
	}
	s.outcome = &outcome{done: make(chan struct{}), named: n}
	l.outcomes.Store(s.conn, s.outcome)
	return s.begin()
}

func sessionOf(ctx *eddy.Context) *session {
	s, _ := ctx.State().(*session)
	return s
}

// begin starts the handshake, or refuses it when there is no room.
func (s *session) begin() error {
	l := s.layer
	if err := l.admit(); err != nil {
		return s.refuse(err)
	}
	h := s.hs
	s.wire.hs = h
	switch {
	case !l.client:
		s.tls = tls.Server(&s.wire, l.config)
	case s.outcome.named != nil:
		config := l.config.Clone()
		config.ServerName = s.outcome.named.name
		s.tls = tls.Client(&s.wire, config)
	default:
		s.tls = tls.Client(&s.wire, l.config)
	}
	h.tls = s.tls
	h.turn, h.back, h.quit = make(chan struct{}), make(chan struct{}), make(chan struct{})
	h.step.Init(s.conn, s.stepped)
	s.stage = shaking
	return s.goOn()
}

// goOn gives the handshake a turn on the pool and holds reads until the turn is over.
func (s *session) goOn() error {
	if err := s.layer.pool.Submit(s.hs); err != nil {
		return s.refuse(fmt.Errorf("%w: %w", ErrBusy, err))
	}
	s.ctx.HoldReads()
	return nil
}

// alertInternal is sent to a peer whose handshake is refused: the fatal alert internal_error (RFC 8446 section 6).
var alertInternal = []byte{21, 3, 3, 0, 2, 2, 80}

// refuse ends a connection because there is no room for its handshake.
func (s *session) refuse(err error) error {
	s.layer.stats.refused.Add(1)
	if !s.layer.client && !s.hs.started {
		_ = s.ctx.WriteAdmitted(alertInternal) // an error means that it is ending anyway
	}
	s.abandon(err)
	return eddy.WithReason(eddy.CloseAdmissionRejected, err)
}

// stepped runs on the loop after a turn of the handshake.
func (s *session) stepped() {
	h := s.hs
	if s.stage != shaking {
		return // the connection has ended meanwhile
	}
	err := h.err
	if len(h.out) > 0 {
		if werr := s.ctx.WriteAdmitted(h.out); err == nil {
			err = werr
		}
		h.out = h.out[:0]
	}
	switch {
	case err != nil:
		s.end(s.fail(err))
	case !h.over:
		s.ctx.ReleaseReads()
	default:
		if err := s.establish(); err != nil {
			s.end(err)
			return
		}
		s.ctx.ReleaseReads()
	}
}

// end closes the connection because of an error that Decode did not return.
func (s *session) end(err error) {
	s.ctx.FireError(err)
	s.ctx.CloseAfterFlush(eddy.CloseHandshakeFailed) // in case a handler took the error as handled
}

// fail ends a failed handshake and returns the error that closes the connection.
func (s *session) fail(err error) error {
	e := &HandshakeError{Err: err}
	if errors.Is(err, ErrNotTLS) {
		s.layer.stats.notTLS.Add(1)
	} else {
		s.layer.stats.failed.Add(1)
	}
	s.layer.logFailure(s.conn, err)
	s.abandon(e)
	if p := (*eddy.PanicError)(nil); errors.As(err, &p) {
		return eddy.WithReason(eddy.CloseInternalError, e)
	}
	return eddy.WithReason(eddy.CloseHandshakeFailed, e)
}

// late runs at the deadline of the handshake.
func (s *session) late() {
	if s.stage <= shaking {
		s.end(s.fail(&eddy.DeadlineError{Reason: eddy.CloseHandshakeFailed, Limit: s.layer.o.Timeout}))
	}
}

// abandon gives up TLS on the connection because of err.
func (s *session) abandon(err error) {
	s.settle(err)
	s.stage = abandoned
}

// settle ends the handshake; err is nil after success.
func (s *session) settle(err error) {
	h := s.hs
	if h == nil {
		return
	}
	s.hs = nil
	if h.timer != nil {
		h.timer.Stop()
	}
	if s.stage == shaking {
		s.layer.stats.active.Add(-1)
		if err != nil {
			close(h.quit)
		}
	}
	if o := s.outcome; o != nil {
		o.err = err
		close(o.done)
		if err != nil {
			o.ready(err)
		}
	}
}

// establish opens the session after a successful handshake.
func (s *session) establish() error {
	st := s.tls.ConnectionState()
	s.layer.stats.established.Add(1)
	if st.DidResume {
		s.layer.stats.resumed.Add(1)
	}
	if s.outcome != nil {
		s.outcome.state = st
	}
	early := s.hs.early
	s.settle(nil)
	shed(s.tls)
	s.wire.hs = nil
	s.stage = open
	if f := s.layer.o.Established; f != nil {
		if err := f(s.ctx, st); err != nil {
			return err
		}
	}
	s.ctx.FireEvent(&Established{State: st})
	if s.outcome != nil {
		s.outcome.ready(nil)
	}
	for _, e := range early {
		if s.stage != open {
			break
		}
		if err := e.hold.Write(func() error { return s.write(e.b) }); err != nil {
			return err
		}
	}
	return nil
}

// Decode implements eddy.Decoder: it takes one record.
func (l *Layer) Decode(ctx *eddy.Context, view []byte) (int, error) {
	s := sessionOf(ctx)
	if s.ended || s.stage > finished {
		return len(view), nil
	}
	if s.stage == waiting {
		if err := checkFirst(view); err != nil {
			s.answerPlain(view)
			return 0, s.fail(err)
		}
	}
	n := recordLen(view)
	if n == 0 {
		return 0, nil
	}
	if s.stage < open {
		return s.shake(view[:n])
	}
	return n, s.read(view[:n])
}

// recordLen returns the length of the first record, 0 if it is not complete. For a record over maxRecord it returns the
// length of the header, which is enough for crypto/tls to refuse it.
func recordLen(view []byte) int {
	if len(view) < recordHead {
		return 0
	}
	n := recordHead + int(view[3])<<8 + int(view[4])
	if n > maxRecord {
		return recordHead
	}
	if len(view) < n {
		return 0
	}
	return n
}

// maxRecords bounds the records of a peer's handshake, because each costs a turn on the pool and may carry a single
// byte. Messages of 64 KiB in records of 512 bytes, the smallest that RFC 6066 allows, need fewer.
const maxRecords = 1024

var errRecords = fmt.Errorf("tlsx: a handshake of more than %d records", maxRecords)

// shake gives the handshake a copy of a record.
func (s *session) shake(record []byte) (int, error) {
	if s.hs.records++; s.hs.records > maxRecords {
		return 0, s.fail(errRecords)
	}
	s.hs.in, s.hs.read = append(s.hs.in[:0], record...), 0
	if s.stage == waiting {
		return len(record), s.begin()
	}
	return len(record), s.goOn()
}

// read decrypts a record on the loop and passes its bytes on.
func (s *session) read(record []byte) error {
	s.record = record
	p := plains.Get().(*[maxPlain]byte)
	lent := lend(s.tls)
	n, err := s.tls.Read(p[:])
	takeBack(s.tls, lent)
	s.record = nil
	if n > 0 {
		s.plain.Reset(p[:n])
		s.ctx.FireRead(&s.plain)
		s.plain.Reset(nil)
		buf.Poison(p[:n])
	}
	plains.Put(p)
	switch {
	case err == nil, errors.Is(err, errWouldBlock): // no bytes when the record was for TLS itself
		return nil
	case errors.Is(err, io.EOF):
		s.ended = true
		s.ctx.EndInput()
		return nil
	}
	s.stage = abandoned // an alert was sent: nothing can follow, not even what this batch has written
	s.dropGather()
	return eddy.WithReason(eddy.CloseProtocolError, fmt.Errorf("tlsx: read: %w", err))
}

// DecodeEnd implements eddy.EndDecoder. It tells an orderly end of the stream from a truncated one, which an attacker
// may have caused.
func (l *Layer) DecodeEnd(ctx *eddy.Context, inside bool) error {
	s := sessionOf(ctx)
	switch {
	case s == nil, s.ended, s.stage == waiting && !inside && !l.client:
		return nil
	case s.stage < open:
		return s.fail(ErrAborted)
	case s.stage == open:
		l.stats.truncated.Add(1)
		if !inside {
			return eddy.WithReason(eddy.CloseIOError, ErrTruncated)
		}
	}
	return nil
}

// checkFirst checks that the first bytes of a client are those of a handshake record (RFC 8446 section 5.1).
func checkFirst(view []byte) error {
	if view[0] != 22 || len(view) > 1 && view[1] != 3 {
		if isHTTP(view) && len(view) < recordHead {
			return nil // more bytes will tell
		}
		return ErrNotTLS
	}
	return nil
}

// methods lists how requests of plain HTTP begin.
var methods = []string{"GET /", "HEAD ", "POST ", "PUT /", "OPTIO", "DELET", "PATCH", "TRACE", "CONNE"}

// isHTTP reports whether view begins, or may yet begin, like an HTTP request.
func isHTTP(view []byte) bool {
	head := string(view[:min(len(view), recordHead)])
	for _, m := range methods {
		if strings.HasPrefix(m, head) {
			return true
		}
	}
	return false
}

const plainAnswer = "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\nContent-Length: 52\r\n\r\n" +
	"This port speaks TLS: use https instead of http URLs"

// answerPlain tells a client that speaks plain HTTP to use TLS. Most peers without TLS are such clients.
func (s *session) answerPlain(view []byte) {
	if isHTTP(view) {
		_ = s.ctx.WriteAdmitted([]byte(plainAnswer)) // an error means that it is ending anyway
	}
}

// HandleEvent implements eddy.EventHandler. A server that drains does not wait for handshakes.
func (l *Layer) HandleEvent(ctx *eddy.Context, ev any) error {
	ctx.FireEvent(ev)
	if s := sessionOf(ctx); s != nil && s.stage < open && ev == (eddy.DrainEvent{}) {
		ctx.CloseAfterFlush(eddy.CloseServerShutdown)
	}
	return nil
}

// HandleClose implements eddy.CloseHandler.
func (l *Layer) HandleClose(ctx *eddy.Context, reason eddy.CloseReason, err error) {
	s := sessionOf(ctx)
	if s == nil {
		return
	}
	if l.client {
		l.outcomes.Delete(s.conn)
	}
	s.settle(&eddy.CloseError{Reason: reason, Err: err})
	s.stage = abandoned
	s.dropGather()
}
