package http2

import (
	"bytes"
	"slices"
	"time"

	"golang.org/x/net/http2/hpack"

	"github.com/go-eddy/eddy"
)

// maxTable bounds the dynamic table of either direction, in bytes.
const maxTable = 4096

// minRate is the rate, in bytes per second, that keeps a client's stream clear of WriteTimeout.
const minRate = 256

// sender decides which stream is sent next, and keeps the windows.
type sender struct {
	enc      *hpack.Encoder
	block    bytes.Buffer // of enc
	sections *sections    // of a client; nil = every section is encoded anew

	window  int // what the client takes on all streams together
	initial int // first window of a stream
	ready   [8]streamList
	starved []*stream // have data and a window, and wait for that of the connection
	settled bool      // the client has ended its side, and opens no window any more
	pumping bool
}

func (o *sender) init() {
	o.enc = hpack.NewEncoder(&o.block)
	o.enc.SetMaxDynamicTableSizeLimit(maxTable)
	o.window, o.initial = firstWindow, firstWindow
}

// streamList is streams of one urgency that may have something to send.
type streamList struct{ head, tail *stream }

func (l *streamList) pushBack(st *stream) {
	st.queued, st.next = true, nil
	if l.tail == nil {
		l.head = st
	} else {
		l.tail.next = st
	}
	l.tail = st
}

func (l *streamList) pushFront(st *stream) {
	st.queued, st.next = true, l.head
	if l.head == nil {
		l.tail = st
	}
	l.head = st
}

func (l *streamList) pop() *stream {
	st := l.head
	if st == nil {
		return nil
	}
	if l.head = st.next; l.head == nil {
		l.tail = nil
	}
	st.queued, st.next = false, nil
	return st
}

// remove takes st out of the list that it is on.
func (o *sender) remove(st *stream) {
	if st.starved {
		at := slices.Index(o.starved, st)
		o.starved = slices.Delete(o.starved, at, at+1)
		st.starved = false
	}
	if !st.queued {
		return
	}
	l := &o.ready[st.urgency]
	var before *stream
	for s := l.head; s != st; s = s.next {
		before = s
	}
	if before == nil {
		l.pop()
		return
	}
	if before.next = st.next; before.next == nil {
		l.tail = before
	}
	st.queued, st.next = false, nil
}

// offer notes that st may have something to send; pump sends it.
func (sc *serverConn) offer(st *stream) {
	if !st.gone && !st.queued && !st.starved && !st.sentEnd {
		sc.out.ready[st.urgency].pushBack(st)
	}
}

// unstarve offers the streams that have waited for the window of the connection.
func (sc *serverConn) unstarve() {
	for i, st := range sc.out.starved {
		sc.out.starved[i] = nil
		st.starved = false
		sc.offer(st)
	}
	sc.out.starved = sc.out.starved[:0]
}

// pump sends what the streams have, as far as the windows and the connection's queue have room. Streams of a higher urgency
// come first; incremental ones of the same urgency take turns frame by frame (RFC 9218 section 10).
func (sc *serverConn) pump() {
	if sc.out.pumping || sc.state == stateOver {
		return
	}
	sc.out.pumping = true
	for i := range sc.out.ready {
		l := &sc.out.ready[i]
		for l.head != nil {
			if !sc.conn.Writable() { // HandleWritability comes back
				sc.out.pumping = false
				return
			}
			st := l.pop()
			if !sc.sendPiece(st) || st.gone {
				continue
			}
			if st.incremental {
				l.pushBack(st)
			} else {
				l.pushFront(st)
			}
		}
	}
	sc.out.pumping = false
}

// sendPiece sends one frame of st, or one header section, and reports whether there may be more.
func (sc *serverConn) sendPiece(st *stream) bool {
	p := st.out.next(min(maxFrame, st.window, sc.out.window))
	switch {
	case p.waits:
		sc.stall(st)
		return false
	case p.head != nil:
		sc.out.sendSection(sc.ctx, st.id, p.head, p.end)
		sc.f.recycle(p.head)
	case len(p.data) > 0 || p.end:
		sc.sendData(st, p)
		if p.last.release(); p.roomy {
			sc.post(st)
		}
	default:
		st.stuck = 0
		return false
	}
	if len(p.data) > 0 {
		sc.flood.earn(2 + float64(len(p.data)/512)) // for the updates of two windows, by clients that give them back in small pieces
	}
	if p.end {
		sc.sent(st)
		return false
	}
	return true
}

// settle ends what waits for a window of a client that has ended its side: now, and whatever comes to wait.
func (sc *serverConn) settle() {
	sc.out.settled = true
	sc.unstarve()
	for st := range sc.inOrder() {
		if st.recvEnd {
			sc.offer(st)
			continue
		}
		sc.abort(st, &StreamError{Stream: st.id, Code: CodeCancel, Text: "the client has ended its side inside the request"})
	}
	sc.pump()
}

// stall notes that a window lets nothing of st through.
func (sc *serverConn) stall(st *stream) {
	if sc.out.settled {
		sc.abort(st, &StreamError{Stream: st.id, Code: CodeCancel, Text: errSettled.Error()})
		return
	}
	if st.stuck == 0 {
		st.stuck = sc.ctx.Now()
		sc.watch.arm(sc)
	}
	if st.window > 0 {
		st.starved = true
		sc.out.starved = append(sc.out.starved, st)
	}
}

// sendSection sends a header section in as many frames as it needs (RFC 9113 section 4.3).
func (o *sender) sendSection(ctx *eddy.Context, id uint32, h *fields, end bool) {
	o.encode(h.list)
	typ, flags := frameHeaders, uint8(0)
	if end {
		flags = flagEndStream
	}
	var head [frameHeaderLen]byte
	for {
		part := o.block.Next(maxFrame)
		if o.block.Len() == 0 {
			flags |= flagEndHeaders
		}
		_ = ctx.WriteParts(appendFrame(head[:0], len(part), typ, flags, id), part) // an error means that the connection is ending
		if flags&flagEndHeaders != 0 {
			return
		}
		typ, flags = frameContinuation, 0
	}
}

// byReference is the length from which bytes of a response are queued without a copy. It is longer than a chunk that goes
// back to the pool.
const byReference = bodyBuffer + 1

// sendData sends one DATA frame, and counts it against the windows.
func (sc *serverConn) sendData(st *stream, p piece) {
	flags := uint8(0)
	if p.end {
		flags = flagEndStream
	}
	data, n := p.data, len(p.data)
	if n < byReference || p.copied {
		var head [frameHeaderLen]byte
		_ = sc.ctx.WriteParts(appendFrame(head[:0], n, frameData, flags, st.id), data) // an error means that the connection is ending
	} else {
		_ = sc.ctx.Write([][]byte{appendFrame(nil, n, frameData, flags, st.id), data})
	}
	st.window -= n
	sc.out.window -= n
	sc.keepOut(st)
	switch now := sc.ctx.Now(); {
	case st.stuck == 0:
	case st.window > 0 && sc.out.window > 0:
		st.stuck = 0
	default: // a client that opens its window byte by byte gains little time
		st.stuck = min(now, st.stuck+time.Duration(n)*time.Second/minRate)
	}
}

// keepOut counts what of the response waits in the stream against the server's memory budget.
func (sc *serverConn) keepOut(st *stream) {
	n := st.out.size()
	if n != st.keptOut {
		sc.ctx.KeepInput(n - st.keptOut)
		st.keptOut = n
	}
}
