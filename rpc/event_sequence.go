package rpc

import (
	"errors"
	"fmt"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/codec/frame"
	"github.com/go-eddy/eddy/executor"
)

// This file keeps the events of one connection in order, wherever each of them runs. The loop adds events to the queue of
// the link. The first of the queue is with its executor, and the goroutine that has run it hands the next one over.

// happening is one event on its way to the Listener.
type happening struct {
	event  Event
	place  Place
	reason eddy.CloseReason // of EventDisconnected
	status frame.Status     // of EventLateResponse
	id     uint64           // of EventLateResponse, and of EventOther until that is answered
	frame  *frame.Frame     // of EventOther
	err    error            // of EventDisconnected and EventCaught
}

// linkBound is how many events of one connection wait. Beyond it all but connects and disconnects are rejected.
const linkBound = 64

// errLinkFull returns the error of an event beyond linkBound.
func (n *notifier) errLinkFull() error {
	return &executor.LimitError{Pool: n.o.name, What: "the events of a connection", Limit: linkBound, Key: true}
}

// happen runs an event or queues it. An error means that the connection must be refused. Loop only.
func (l *Link) happen(h happening) error {
	h.place = l.n.o.dispatcher.Place(h.event, l.n.o.side)
	wanted := l.n.wants[h.event]
	l.mu.Lock()
	if l.ended || !wanted {
		l.ended = l.ended || h.event == EventDisconnected
		l.mu.Unlock()
		l.drop(h)
		return nil
	}
	l.ended = h.event == EventDisconnected
	if !l.busy && h.place == PlaceLoop {
		l.busy = true
		l.mu.Unlock()
		l.runFirst(h)
		return nil
	}
	if err := l.queueable(h); err != nil {
		l.mu.Unlock()
		l.reject(h, err)
		return nil
	}
	if h.frame != nil {
		h.frame = h.frame.Detach().(*frame.Frame)
	}
	l.queue = append(l.queue, h)
	first := !l.busy
	l.busy = true
	l.mu.Unlock()
	if first {
		return l.start(h)
	}
	return nil
}

var errDuplicate = &frame.StatusError{Status: frame.StatusBadRequest, Message: "a request with this id is in flight"}

// queueable returns why an event cannot wait, or nil. l.mu is held.
func (l *Link) queueable(h happening) error {
	if len(l.queue) >= linkBound && !h.kept() {
		return l.n.errLinkFull()
	}
	if h.frame == nil || l.n.o.side == ClientSide {
		return nil
	}
	for i := range l.queue {
		if o := &l.queue[i]; o.event == EventOther && o.id == h.id {
			return errDuplicate
		}
	}
	return nil
}

// kept reports whether the event must not be lost.
func (h *happening) kept() bool { return h.event == EventConnected || h.event == EventDisconnected }

// runFirst runs an event on the loop that did not have to wait, so that it is in no queue.
func (l *Link) runFirst(h happening) {
	defer l.proceed(PlaceLoop, false)
	l.run(h)
}

// start hands over the first event of an idle link, which its executor may refuse.
func (l *Link) start(h happening) error {
	err := l.submit(h)
	if err == nil {
		return nil
	}
	full := !errors.Is(err, executor.ErrClosed)
	switch {
	case h.kept() && full && h.place == PlaceConnection:
		l.forget(true)
		return l.n.refused(l, err)
	case h.kept():
		if full {
			l.n.rejected(h.event, l, err)
		}
		if !l.handOver(h.place) {
			l.turn(h.place)
		}
	default:
		l.forget(false)
		l.reject(h, err)
	}
	return nil
}

// forget drops the event that start could not hand over. end says that nothing more is told.
func (l *Link) forget(end bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queue, l.busy, l.ended = nil, false, end
}

func (l *Link) submit(h happening) error {
	switch {
	case h.place != PlaceConnection:
		return l.strand().Submit(l)
	case h.event == EventConnected:
		return l.n.connects.take(l)
	}
	return l.n.connects.append(l)
}

// strand returns the link's strand on the shared pool. Only the goroutine that has the link's turn may call it.
func (l *Link) strand() *executor.Strand[*Link] {
	if l.turns == nil {
		l.turns = executor.NewStrand(l.n.o.shared, 1, (*Link).turnShared).DropWith((*Link).dropTurn)
	}
	return l.turns
}

func (l *Link) turnShared() { l.turn(PlaceShared) }

// handOver gives the link's turn to an executor, beyond its bound because the link was admitted. The result is false if
// the executor takes nothing any more, or is a loop whose task queue is full.
func (l *Link) handOver(p Place) bool {
	switch p {
	case PlaceLoop:
		return l.conn.Post(func() { l.turn(PlaceLoop) }) == nil
	case PlaceConnection:
		return l.n.connects.append(l) == nil
	}
	return l.strand().Append(l) == nil
}

// turn runs the first event of the queue, on the executor p.
func (l *Link) turn(p Place) {
	h := l.first()
	defer l.proceed(p, true)
	l.run(h)
}

// dropTurn runs in place of turn when the executor was stopped before, on the goroutine that stopped it.
func (l *Link) dropTurn() {
	h := l.first()
	defer l.proceed(PlaceShared, true)
	l.runHere(h)
}

func (l *Link) first() happening {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.queue[0]
}

// proceed hands the next event to its executor after one has run on p, even if that one ended its goroutine.
func (l *Link) proceed(p Place, queued bool) {
	for {
		next, more := l.next(queued)
		switch {
		case !more:
			return
		case next.place == PlaceLoop && p == PlaceLoop:
			l.turn(p)
			return
		case l.handOver(next.place):
			return
		}
		l.runHere(next)
		queued = true
	}
}

// next removes the event that was run, if it was in the queue, and returns the one behind it.
func (l *Link) next(queued bool) (h happening, more bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if queued {
		l.queue[0] = happening{}
		l.queue = l.queue[1:]
	}
	if len(l.queue) == 0 {
		l.queue, l.busy = nil, false
		return happening{}, false
	}
	return l.queue[0], true
}

// runHere runs an event that its executor no longer takes, or rejects the event if it may be lost.
func (l *Link) runHere(h happening) {
	if h.kept() || h.place == PlaceLoop {
		l.run(h)
	} else {
		l.reject(h, executor.ErrClosed)
	}
}

// reject counts and answers an event that the Listener is not told, once and without blocking.
func (l *Link) reject(h happening, err error) {
	n := l.n
	if err != errDuplicate { //nolint:errorlint // our own, passed bare
		n.rejected(h.event, l, err)
	}
	switch h.event {
	case EventOther:
		l.answer(h.frame, nil, n.told(err))
	case EventCaught:
		n.log.Warn("rpc: an error that its listener is not told", "name", n.o.name, "peer", l.conn.RemoteAddr(), "err", h.err)
	default: // a late response, whose request has ended
	}
}

// drop ends an event that the Listener is not told because it wants none or the link has ended.
func (l *Link) drop(h happening) {
	if h.frame != nil {
		h.frame.Release()
		l.over()
	}
}

// over undoes Conn.Begin, on a server.
func (l *Link) over() {
	if l.n.o.side == ServerSide {
		l.conn.End()
	}
}

// run tells the Listener.
func (l *Link) run(h happening) {
	n := l.n
	if h.event == EventOther {
		l.runReceived(h.frame)
		return
	}
	defer n.contain(h.event)
	n.counts[h.event].Add(1)
	switch h.event {
	case EventConnected:
		n.connected.Connected(l)
	case EventDisconnected:
		n.disconnected.Disconnected(l, h.reason, h.err)
	case EventCaught:
		n.caught.Caught(l, h.err)
	case EventLateResponse:
		n.late.Late(l, h.id, h.status)
	default: // no other event comes this way
	}
}

// runReceived gives the Listener a frame and answers it, also when it panics or ends its goroutine.
func (l *Link) runReceived(f *frame.Frame) {
	n := l.n
	n.counts[EventOther].Add(1)
	err := error(&frame.StatusError{Status: frame.StatusInternal, Message: "the handler panicked"})
	var payload []byte
	defer func() {
		l.answered(f.ID)
		l.answer(f, payload, err)
	}()
	defer n.contain(EventOther)
	payload, err = n.received.Received(l, f)
}

// answer ends a request of the application's own: the one response is sent, and the request counts as in flight no more.
// A client's frames are not answered.
func (l *Link) answer(f *frame.Frame, payload []byte, err error) {
	defer f.Release()
	if l.n.o.side == ClientSide {
		return
	}
	defer l.over()
	if limit := l.n.o.maxPayload; err == nil && len(payload) > limit {
		err = &frame.StatusError{Status: frame.StatusTooLarge, Message: fmt.Sprintf("response of %d bytes, limit %d", len(payload), limit)}
	}
	var msg []byte
	if err == nil {
		msg = frame.AppendResponse(nil, f.ID, payload)
	} else {
		e := toldStatus(err)
		if msg = frame.AppendError(nil, f.ID, e); len(msg) > frame.HeaderSize+l.n.o.maxPayload && e.Details != "" {
			msg = frame.AppendError(nil, f.ID, &frame.StatusError{Status: e.Status, RetryAfter: e.RetryAfter, Message: e.Message})
		}
	}
	if err := l.conn.Write(msg); err != nil && !errors.Is(err, eddy.ErrClosed) {
		l.conn.CloseWith(eddy.CloseBackpressureLimit, err) // or its client would wait for ever
	}
}

// answered frees the id of a request before its client can see the response and use the id again.
func (l *Link) answered(id uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.queue) > 0 && l.queue[0].event == EventOther && l.queue[0].id == id {
		l.queue[0].id = 0
	}
}

// told returns what a client is told of an event that was rejected.
func (n *notifier) told(err error) error {
	switch {
	case errors.Is(err, executor.ErrClosed):
		return &frame.StatusError{Status: frame.StatusUnavailable, RetryAfter: n.o.retryAfter, Message: "the server is stopping"}
	case errors.Is(err, executor.ErrRejected):
		return &frame.StatusError{Status: frame.StatusBusy, RetryAfter: n.o.retryAfter, Message: "no worker is free and no place to wait"}
	}
	return err
}

// toldStatus returns what a client is told of an error of a ReceivedListener.
func toldStatus(err error) *frame.StatusError {
	e, ok := errors.AsType[*frame.StatusError](err)
	switch {
	case !ok:
		return &frame.StatusError{Status: frame.StatusAppError, Message: err.Error()}
	case e.Status == frame.StatusOK || e.Status >= frame.StatusProtocolError:
		return &frame.StatusError{Status: frame.StatusInternal, Message: fmt.Sprintf("the handler chose the status %v", e.Status)}
	}
	return e
}
