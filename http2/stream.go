package http2

import (
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-eddy/eddy/http1"
	"github.com/go-eddy/eddy/trace"
)

// stream is one request and its response as the loop sees them. The loop owns it, except out and what exchange says.
type stream struct {
	sc *serverConn
	id uint32
	exchange

	recvEnd    bool // the client has sent the last byte
	sentEnd    bool // so has the server
	gone       bool // the stream is not among serverConn.streams any more
	returned   bool // its handler has, or never began
	recvWindow int  // what the client may send
	padding    int  // used up by padding, and not given back
	received   int64
	kept       int // bytes counted by KeepInput

	window      int // what the client takes
	urgency     uint8
	incremental bool
	queued      bool          // in a list of sender.ready
	starved     bool          // in sender.starved
	next        *stream       // in that list
	stuck       time.Duration // time of the loop since which a window lets nothing through; 0 while none does
	out         outgoing
	tunnel      *tunnel // nil while the stream is a request
}

// The urgency of a request that names none (RFC 9218 section 4.1).
const defaultUrgency = 3

// prioritize applies a Priority field. Requests without one take turns with those of the same urgency, as if they were
// incremental: who names no priority has no order in mind either.
func (st *stream) prioritize(field string) {
	st.urgency, st.incremental = defaultUrgency, field == ""
	for item := range strings.SplitSeq(field, ",") {
		switch item = strings.TrimSpace(item); {
		case len(item) == 3 && item[:2] == "u=" && '0' <= item[2] && item[2] <= '7':
			st.urgency = item[2] - '0'
		case item == "i", item == "i=?1":
			st.incremental = true
		}
	}
}

// onRequest begins a stream with the header section that was decoded last.
func (sc *serverConn) onRequest(id uint32, end bool) *ConnError {
	h := &sc.headers
	if len(sc.streams) >= sc.f.opts.MaxStreams || sc.running >= sc.f.opts.MaxStreams {
		sc.f.stats.refused.Add(1)
		return sc.resetID(id, CodeRefusedStream, tooMany)
	}
	sc.f.stats.requests.Add(1)
	st := &stream{sc: sc, id: id, recvEnd: end, recvWindow: sc.f.opts.BodyBuffer, window: sc.out.initial, returned: true}
	st.out.init(sc.f.opts.ResponseBuffer)
	if sc.streams == nil {
		sc.streams = make(map[uint32]*stream)
	}
	sc.streams[id] = st
	sc.conn.Begin()
	st.prioritize("")
	for _, f := range h.fields {
		st.w.isHead = st.w.isHead || f.Name == ":method" && f.Value == http.MethodHead
	}
	var head requestHead
	switch {
	case h.self:
		return sc.malformed(st, "a stream that depends on itself")
	case h.large:
		sc.f.stats.protocolErrors.Add(1)
		sc.answer(st, http.StatusRequestHeaderFieldsTooLarge, "the header section is over the limit of "+strconv.Itoa(sc.f.opts.MaxHeaderBytes)+
			" bytes or "+strconv.Itoa(sc.f.opts.MaxHeaderCount)+" fields")
		return sc.charge("requests with a header section over the limit")
	}
	if bad := head.parse(h.fields); bad != "" {
		return sc.malformed(st, bad)
	}
	if end && head.length > 0 {
		return sc.malformed(st, "a Content-Length without a body")
	}
	st.prioritize(head.priority)
	return sc.begin(st, &head)
}

// malformed resets a stream whose request is malformed (RFC 9113 section 8.1.1).
func (sc *serverConn) malformed(st *stream, why string) *ConnError {
	sc.f.stats.protocolErrors.Add(1)
	return sc.reset(st, CodeProtocol, why)
}

// begin makes the request of a complete header section and runs its handler, unless its route awaits the body.
func (sc *serverConn) begin(st *stream, head *requestHead) *ConnError {
	st.exchange.init(st)
	to, lean := sc.follow(st, head)
	if !lean {
		if !st.exchange.makeRequest(head) {
			return sc.malformed(st, "a malformed :path")
		}
		to = sc.f.route(st.req)
	}
	st.to, st.ctx.Class = to, to.Class
	most := sc.f.opts.MaxBody
	if head.method == http.MethodConnect {
		most, to.Await = -1, 0 // a tunnel
	}
	if to.Await > 0 && !st.recvEnd {
		most = int64(to.Await)
	}
	if most >= 0 && head.length > most {
		sc.f.stats.protocolErrors.Add(1)
		sc.answer(st, http.StatusRequestEntityTooLarge, tooLong(most))
		return nil
	}
	whole := !lean && sc.f.wholeFor(head, st.recvEnd)
	if st.recvEnd {
		if !whole || !sc.onLoop(st, head, nil) {
			return sc.run(st)
		}
		return nil
	}
	if whole {
		to.Await, st.forLoop = max(int(head.length), 1), head
	}
	st.initBody(head, most, to)
	sc.watch.arm(sc)
	if !st.body.await {
		return sc.run(st)
	} else if st.expect {
		sc.goOn(st)
	}
	return nil
}

// route asks Options.Route about r and fills in the default pool.
func (f *Factory) route(r *http.Request) (to http1.Route) {
	if f.opts.Route != nil {
		to = f.opts.Route(r)
	}
	if to.Pool == nil {
		to.Pool = f.pool
	}
	return to
}

// run hands the request to its pool. The request is answered 503 when the pool takes no more. It is refused if too many
// handlers run by now, which requests can bring about that the client has reset while this one waited for its body.
func (sc *serverConn) run(st *stream) *ConnError {
	if sc.f.handler == nil && st.call == nil {
		sc.answer(st, http.StatusNotFound, "there is nothing here")
		return nil
	}
	if sc.running >= sc.f.opts.MaxStreams {
		sc.f.stats.refused.Add(1)
		return sc.reset(st, CodeRefusedStream, tooMany)
	}
	st.returned = false
	sc.running++
	if st.inline {
		st.out.limit = math.MaxInt32 // a loop waits for nothing
		st.exchange.Run()
		return nil
	}
	if err := st.to.Pool.Submit(&st.exchange); err != nil {
		st.returned = true
		sc.running--
		sc.f.stats.busy.Add(1)
		st.retryAfter = true
		sc.answer(st, http.StatusServiceUnavailable, busyText)
		return nil
	}
	if sc.watch.handler > 0 {
		sc.watch.arm(sc)
	}
	return nil
}

// onData takes bytes of a request body (RFC 9113 section 6.1).
func (sc *serverConn) onData(f frame, p []byte) *ConnError {
	if f.stream == 0 {
		return connError(CodeProtocol, "DATA without a stream")
	}
	if sc.recvWindow -= f.length; sc.recvWindow < 0 {
		return connError(CodeFlowControl, "DATA beyond the window of the connection")
	}
	if sc.recvWindow <= connWindow/2 {
		sc.control(appendWindowUpdate(nil, 0, connWindow-sc.recvWindow))
		sc.recvWindow = connWindow
	}
	data, _, err := f.unpad(p)
	if err != nil {
		return err
	}
	st := sc.streams[f.stream]
	if len(data) == 0 && (st == nil || !f.has(flagEndStream)) {
		if err := sc.charge("DATA frames without bytes"); err != nil {
			return err
		}
	}
	if st == nil {
		if err := sc.onPast(f); err != nil || sc.unheard(f.stream) {
			return err
		}
		return sc.resetID(f.stream, CodeStreamClosed, "DATA on a closed stream")
	}
	switch st.recvWindow -= f.length; {
	case st.recvEnd:
		return sc.reset(st, CodeStreamClosed, "DATA behind the end of the request")
	case st.recvWindow < 0:
		return sc.reset(st, CodeFlowControl, "DATA beyond the window of the stream")
	case st.answered: // its body is not wanted
		return nil
	}
	return sc.addBody(st, data, f)
}

// addBody gives the bytes of a DATA frame to the handler.
func (sc *serverConn) addBody(st *stream, data []byte, f frame) *ConnError {
	if st.tunnel != nil {
		return st.tunnel.take(data, f)
	}
	b := st.body
	st.received += int64(len(data))
	switch {
	case b.length >= 0 && st.received > b.length:
		return sc.malformed(st, "a body longer than its Content-Length")
	case b.most >= 0 && st.received > b.most:
		sc.f.stats.protocolErrors.Add(1)
		sc.answer(st, http.StatusRequestEntityTooLarge, tooLong(b.most))
		return nil
	}
	if b.gathers {
		b.whole = append(b.whole, data...)
		sc.keep(st, len(data))
	} else if dropped := b.Put(data); dropped == 0 {
		sc.keep(st, len(data))
	} else if !f.has(flagEndStream) {
		st.Took(dropped)
	}
	b.silent = 0
	if f.has(flagEndStream) {
		return sc.bodyEnd(st, nil)
	}
	if st.recvWindow < sc.f.opts.BodyBuffer/2 {
		st.widen()
	}
	sc.padded(st, f.length-len(data))
	return nil
}

// padded counts the padding of a DATA frame, which the client gets back.
func (sc *serverConn) padded(st *stream, bytes int) {
	st.padding += bytes
	if n := st.padding; n > 0 && n >= st.recvWindow { // not before, or tiny frames would each be answered
		st.padding = 0
		st.recvWindow += n
		sc.control(appendWindowUpdate(nil, st.id, n))
	}
}

// bodyEnd ends the body of a request.
func (sc *serverConn) bodyEnd(st *stream, trailer http.Header) *ConnError {
	st.recvEnd = true
	if st.tunnel != nil {
		st.tunnel.inputEnds()
		return nil
	}
	b := st.body
	if b == nil {
		return nil
	}
	if b.length >= 0 && st.received != b.length {
		return sc.malformed(st, "a body shorter than its Content-Length")
	}
	b.End(io.EOF, trailer)
	if b.await && !st.gone && !sc.wholeOnLoop(st) {
		if st.ctx.Trace != nil {
			st.ctx.Trace.Enter(trace.QueueWait, st.to.Pool.Name())
		}
		return sc.run(st)
	}
	return nil
}

// keep counts n more bytes that the stream holds, fewer when n is negative, against the server's memory budget.
func (sc *serverConn) keep(st *stream, n int) {
	if n != 0 {
		st.kept += n
		sc.ctx.KeepInput(n)
	}
}

// Took implements httpserve.Taker: the handler has taken n bytes of its body. It is called on the handler's goroutine with the
// body locked, or on the loop. A stream of the client's goes on when half of its window is free.
func (st *stream) Took(n int) {
	if st.credit.Add(int64(n)) >= int64(st.sc.f.opts.BodyBuffer/2) {
		st.sc.post(st)
	}
}

// grant opens the window of a stream by what its handler has taken.
func (sc *serverConn) grant(st *stream) {
	n := int(st.credit.Swap(0))
	if n == 0 || st.gone {
		return
	}
	sc.keep(st, -min(n, st.kept))
	if !st.recvEnd {
		st.recvWindow += n
		sc.control(appendWindowUpdate(nil, st.id, n))
	}
}

// reset ends a stream with RST_STREAM, for a fault of the client.
func (sc *serverConn) reset(st *stream, code ErrCode, why string) *ConnError {
	sc.abort(st, &StreamError{Stream: st.id, Code: code, Text: why})
	return sc.charge("requests that had to be reset")
}

// resetID is reset for a stream that is not open.
func (sc *serverConn) resetID(id uint32, code ErrCode, why string) *ConnError {
	if st := sc.streams[id]; st != nil {
		return sc.reset(st, code, why)
	}
	sc.past.add(id, 2*sc.f.opts.MaxStreams)
	sc.control(appendReset(nil, id, code))
	return sc.charge("requests that had to be reset")
}

// abort ends a stream with RST_STREAM.
func (sc *serverConn) abort(st *stream, err *StreamError) {
	if st.gone {
		return
	}
	sc.past.add(st.id, 2*sc.f.opts.MaxStreams)
	sc.control(appendReset(nil, st.id, err.Code))
	sc.close(st, err)
}

// sent follows the last byte of a response. A client that still sends its request is told to stop (RFC 9113 section 8.1).
func (sc *serverConn) sent(st *stream) {
	sc.flood.earn(1)
	st.sentEnd = true
	switch {
	case st.recvEnd:
		sc.close(st, errReturned)
	case st.tunnel != nil:
		st.tunnel.linger()
	default:
		sc.abort(st, &StreamError{Stream: st.id, Code: CodeNo, Text: "the response is complete"})
	}
}

// close takes the stream from the connection, and tells a handler that is not over why.
func (sc *serverConn) close(st *stream, err error) {
	st.gone = true
	delete(sc.streams, st.id)
	sc.out.remove(st)
	sc.keep(st, -st.kept)
	sc.ctx.KeepInput(-st.keptOut)
	st.keptOut = 0
	st.out.fail(err)
	if st.body != nil {
		st.body.End(err, nil)
	}
	if st.st != nil {
		st.ctx.Cancel()
	}
	if st.tunnel != nil {
		st.tunnel.closed(err)
	}
	sc.over(st)
}

// over ends the accounting of a stream that is closed and whose handler has returned.
func (sc *serverConn) over(st *stream) {
	if !st.gone || !st.returned || st.counted {
		return
	}
	st.counted = true
	if st.limit != nil {
		st.limit.Stop()
	}
	if st.call != nil {
		st.call.Over()
	} else if st.ctx.Trace != nil {
		st.ctx.Trace.Written(sc.conn)
	}
	sc.leave()
	if bufs := st.out.last; bufs != nil { // nobody else has st.out any more
		st.out.last = nil
		sc.f.buffers.Put(bufs)
	}
	sc.conn.End()
}

// goOn tells the client to send its body (RFC 9110 section 10.1.1).
func (sc *serverConn) goOn(st *stream) {
	sc.f.countStatus(http.StatusContinue)
	st.out.inform(&fields{list: continueFields})
	sc.offer(st)
	sc.pump()
}
