package http2

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2/hpack"

	"github.com/go-eddy/eddy"
)

// clientStream is one request and its response on a connection. The loop owns it, except out and the atomic fields.
type clientStream struct {
	cc     *clientConn
	id     uint32
	call   *call
	timer  *eddy.Timer // of 100 Continue
	posted bool        // in clientConn.posted, under its mutex

	begun    bool // its header section was sent
	sentEnd  bool
	recvEnd  bool
	answered bool // the header of the response has come
	gone     bool
	informal int // 1xx responses

	out     outgoing
	window  int // what the server takes
	queued  bool
	starved bool
	sentAt  time.Duration // when the last byte of the request was sent
	stuck   time.Duration // since when a window lets nothing through; 0 while none does

	length     int64 // Content-Length of the response, -1 when there is none
	empty      bool  // the response has no body whatever its fields say
	tunnel     bool  // the other direction goes on behind the end of the response
	recvWindow int
	received   int64

	credit   atomic.Int64 // bytes that the reader has taken, and the window has not got back
	fault    atomic.Pointer[error]
	unwanted atomic.Bool // the reader has closed the body
}

// errUnwanted ends a stream whose response nobody wants any more.
var errUnwanted = http.ErrBodyReadAfterClose

var errComplete = errors.New("http2: the response is complete")

// begin opens a stream for a request. The pool has counted it already.
func (cc *clientConn) begin(c *call) {
	if cc.state == stateOver || cc.away != nil || cc.nextID > maxWindow {
		cc.t.retire(cc)
		cc.t.release(cc)
		c.lost(cc, ErrStale, surely)
		return
	}
	cc.final = cc.final || c.plan.close
	var err error
	switch {
	case c.plan.size > cc.peer.header:
		err = fmt.Errorf("http2: the header section of the request has %d bytes, the server takes %d", c.plan.size, cc.peer.header)
	case c.plan.extended && !cc.peer.protocol:
		err = errors.New("http2: the server takes no CONNECT with a :protocol")
	}
	st := c.spare
	if c.spare = nil; st == nil {
		st = new(clientStream)
	}
	st.cc, st.call, st.window, st.recvWindow, st.length = cc, c, cc.out.initial, cc.t.BodyBuffer, -1
	if err == nil {
		err = c.enter(stageStream, st)
	}
	if err != nil {
		cc.t.release(cc)
		c.fail(err)
		cc.leave()
		return
	}
	st.id = cc.nextID
	cc.nextID += 2
	cc.streams[st.id] = st
	cc.conn.Begin()
	c.of.send(st)
	if cc.watch.asked == 0 && len(cc.streams) == 1 {
		cc.watch.heard = cc.ctx.Now()
	}
	cc.arm()
	cc.offer(st)
}

// onData takes bytes of a response body (RFC 9113 section 6.1).
func (cc *clientConn) onData(f frame, p []byte) *ConnError {
	if f.stream == 0 {
		return connError(CodeProtocol, "DATA without a stream")
	}
	if cc.recvWindow -= f.length; cc.recvWindow < 0 {
		return connError(CodeFlowControl, "DATA beyond the window of the connection")
	}
	if cc.recvWindow <= connWindow/2 {
		cc.control(appendWindowUpdate(nil, 0, connWindow-cc.recvWindow))
		cc.recvWindow = connWindow
	}
	data, _, err := f.unpad(p)
	if err != nil {
		return err
	}
	if len(data) == 0 && !f.has(flagEndStream) {
		if err := cc.charge("DATA frames without bytes"); err != nil {
			return err
		}
	}
	st := cc.streams[f.stream]
	if st == nil || !st.begun {
		if err := cc.onPast(f); err != nil || cc.past.has(f.stream) {
			return err
		}
		return cc.charge("DATA frames on closed streams")
	}
	st.recvWindow -= f.length
	st.received += int64(len(data))
	switch {
	case st.recvEnd:
		return cc.malformed(st, CodeStreamClosed, "DATA behind the end of the response")
	case st.recvWindow < 0:
		return cc.malformed(st, CodeFlowControl, "DATA beyond the window of the stream")
	case !st.answered:
		return cc.malformed(st, CodeProtocol, "DATA before the header of the response")
	case st.empty && len(data) > 0:
		return cc.malformed(st, CodeProtocol, "a body in a response that has none")
	case st.length >= 0 && st.received > st.length && !st.empty:
		return cc.malformed(st, CodeProtocol, "a body longer than its Content-Length")
	}
	return cc.addBody(st, data, f)
}

// addBody gives the bytes of a DATA frame to the reader.
func (cc *clientConn) addBody(st *clientStream, data []byte, f frame) *ConnError {
	dropped, err := st.call.of.add(data)
	if err != nil {
		cc.abort(st, CodeCancel, err)
		return nil
	}
	if f.has(flagEndStream) {
		return cc.bodyEnd(st, nil)
	}
	if back := dropped + f.length - len(data); back > 0 { // with the padding
		st.credit.Add(int64(back))
	}
	cc.grant(st)
	return nil
}

// bodyEnd ends the response. A request that is still being sent is of no use any more, but that of a tunnel.
func (cc *clientConn) bodyEnd(st *clientStream, trailer []hpack.HeaderField) *ConnError {
	st.recvEnd = true
	if st.length >= 0 && st.received != st.length && !st.empty {
		return cc.malformed(st, CodeProtocol, "a body shorter than its Content-Length")
	}
	cc.flood.earn(1)
	st.call.of.received(trailer)
	switch {
	case st.sentEnd:
		cc.end(st, io.EOF, never)
	case !st.tunnel:
		cc.abort(st, CodeNo, io.EOF)
	}
	return nil
}

// Took implements httpserve.Taker: the reader has taken n bytes. It is called on the reader's goroutine with the body
// locked, or on the loop. The server goes on when half of the window is free.
func (st *clientStream) Took(n int) {
	if st.credit.Add(int64(n)) >= int64(st.cc.t.BodyBuffer/2) {
		st.cc.post(st)
	}
}

// grant opens the window of a stream by what its reader has taken.
func (cc *clientConn) grant(st *clientStream) {
	if n := st.credit.Load(); n == 0 || n < int64(cc.t.BodyBuffer/2) || st.recvEnd {
		return
	}
	n := int(st.credit.Swap(0))
	st.recvWindow += n
	cc.control(appendWindowUpdate(nil, st.id, n))
}

// malformed ends a stream for a fault of the server (RFC 9113 section 8.1.1).
func (cc *clientConn) malformed(st *clientStream, code ErrCode, why string) *ConnError {
	cc.abort(st, code, &StreamError{Stream: st.id, Code: code, Text: why})
	return cc.charge("malformed responses")
}

// abort ends a stream with RST_STREAM.
func (cc *clientConn) abort(st *clientStream, code ErrCode, err error) {
	if st.gone {
		return
	}
	if st.begun {
		cc.past.add(st.id, 2*mostStreams)
		cc.control(appendReset(nil, st.id, code))
	}
	cc.end(st, err, never)
}

// end takes the stream from the connection and tells its call why: io.EOF when the response is complete.
func (cc *clientConn) end(st *clientStream, err error, again chance) {
	if st.gone {
		return
	}
	st.gone = true
	delete(cc.streams, st.id)
	cc.queue.remove(st)
	if st.timer != nil {
		st.timer.Stop()
	}
	c := st.call
	if isEOF(err) {
		st.out.fail(errComplete)
	} else {
		st.out.fail(err)
	}
	cc.t.release(cc)
	cc.conn.End()
	cause := c.enter(stageOver, nil)
	switch {
	case !st.answered:
		c.lost(cc, err, again)
	case cause != nil && !isEOF(err):
		c.of.over(cause)
	default:
		c.of.over(err)
	}
	cc.leave()
}

// sendQueue holds the streams of a connection that have something to send. They take turns frame by frame.
type sendQueue struct {
	ready   []*clientStream
	memory  []*clientStream // of ready, when that was last empty or has grown
	starved []*clientStream // have data and a window, and wait for that of the connection
	pumping bool
}

func (q *sendQueue) remove(st *clientStream) {
	is := func(o *clientStream) bool { return o == st }
	if st.queued {
		q.ready = slices.DeleteFunc(q.ready, is)
	}
	if st.starved {
		q.starved = slices.DeleteFunc(q.starved, is)
	}
}

func (q *sendQueue) add(st *clientStream) {
	if len(q.ready) == 0 {
		q.ready = q.memory[:0]
	}
	q.ready = append(q.ready, st)
	if cap(q.ready) > cap(q.memory) {
		q.memory = q.ready
	}
}

// offer notes that st may have something to send; pump sends it.
func (cc *clientConn) offer(st *clientStream) {
	if !st.gone && !st.sentEnd && !st.queued && !st.starved {
		st.queued = true
		cc.queue.add(st)
	}
}

// unstarve offers the streams that have waited for the window of the connection.
func (cc *clientConn) unstarve() {
	list := cc.queue.starved
	cc.queue.starved = nil
	for _, st := range list {
		st.starved = false
		cc.offer(st)
	}
}

// pump sends what the streams have, as far as the windows and the connection's queue have room.
func (cc *clientConn) pump() {
	q := &cc.queue
	if q.pumping || cc.state != stateFrames {
		return
	}
	q.pumping = true
	for len(q.ready) > 0 && cc.conn.Writable() { // else HandleWritability comes back
		st := q.ready[0]
		q.ready[0] = nil
		q.ready = q.ready[1:]
		st.queued = false
		if cc.sendPiece(st) {
			cc.offer(st)
		}
	}
	q.pumping = false
}

// sendPiece sends one frame of st, or one header section, and reports whether there may be more.
func (cc *clientConn) sendPiece(st *clientStream) bool {
	p := st.out.next(min(maxFrame, st.window, cc.out.window))
	switch {
	case p.waits:
		if st.stuck == 0 {
			st.stuck = cc.ctx.Now()
		}
		if st.window > 0 {
			st.starved = true
			cc.queue.starved = append(cc.queue.starved, st)
		}
		return false
	case p.head != nil:
		st.begun = true
		cc.out.sendSection(cc.ctx, st.id, p.head, p.end)
		cc.flood.earn(1)
	case len(p.data) > 0 || p.end:
		cc.sendData(st, p.data, p.end)
		p.last.release()
	default:
		st.stuck = 0
		return false
	}
	if !p.end {
		return true
	}
	st.sentEnd, st.sentAt = true, max(cc.ctx.Now(), 1)
	if st.recvEnd {
		cc.end(st, io.EOF, never)
	}
	return false
}

// sendData sends one DATA frame, and counts it against the windows.
func (cc *clientConn) sendData(st *clientStream, data []byte, end bool) {
	flags, n := uint8(0), len(data)
	if end {
		flags = flagEndStream
	}
	var head [frameHeaderLen]byte
	_ = cc.ctx.WriteParts(appendFrame(head[:0], n, frameData, flags, st.id), data) // an error means that the connection is ending
	st.window -= n
	cc.out.window -= n
	st.stuck = 0
	cc.flood.earn(2 + float64(n/512)) // for the updates of two windows, by servers that give them back in small pieces
}
