package http1

import (
	"net/http"
	"time"
)

// A client that pipelines has several requests in hand at once. The loop makes their exchanges together with the first one, as
// a chain. The worker that runs the first handler then runs the others, so that all of them cost one hop to the pool. Each
// response is handed to the loop as soon as it is complete, and those that wait there leave in one write.

const (
	// maxChain is the most requests of a chain.
	maxChain = 16

	// chainTime is how long a worker goes on with a chain. The rest of the chain then waits in the pool's queue again, so
	// that a client that pipelines has no larger share of the pool than others.
	chainTime = 100 * time.Microsecond
)

// lookAhead chains the complete requests without a body that view begins with to ex, and returns how many bytes they are.
// Anything else is left for later.
func (sc *serverConn) lookAhead(ex *exchange, view []byte) (used int) {
	for n := 1; n < maxChain && used < len(view) && ex.chains(); n++ {
		next := sc.nextComplete(view[used:])
		if next == nil {
			break
		}
		sc.conn.BeginRequest(&next.ctx.request)
		sc.f.stats.requests.Add(1)
		used += len(next.raw)
		ex.next = next
		ex = next
	}
	return used
}

// chains reports whether the request behind ex may begin before ex is answered.
func (ex *exchange) chains() bool {
	return ex.f.chains && ex.body == nil && ex.keepAlive && ex.http11 && ex.req.Method != http.MethodConnect &&
		ex.req.Header["Upgrade"] == nil && !ex.to.Pool.Adaptive()
}

// nextComplete returns the exchange of the request that view begins with, nil unless it is complete, valid and without a body.
func (sc *serverConn) nextComplete(view []byte) *exchange {
	h := sc.f.heads.Get().(*head)
	defer sc.f.heads.Put(h)
	h.reset(&sc.f.opts)
	n, err := h.feed(view)
	if n == 0 || err != nil || h.hasBody() {
		return nil
	}
	ex, err := newExchange(sc, h, view[:n])
	if err != nil {
		return nil
	}
	return ex
}

// continues reports whether the worker that has run ex, and what was before it since the given time, runs the next request of
// the chain, too.
func (ex *exchange) continues(since time.Time) bool {
	n := ex.next
	return n != nil && n.to == ex.to && !ex.rest.closing && !ex.w.hijacked && !ex.w.streams && ex.conn.CloseError() == nil &&
		time.Since(since) < ex.f.chainTime
}

// restartChain lets the handler deadlines of the requests behind ex, none of which runs, begin anew. Loop only.
func (ex *exchange) restartChain() {
	ex.conn.Begin() // a draining connection with nothing in flight ends
	for n := ex.next; n != nil; n = n.next {
		n.ctx.request.End()
		ex.conn.BeginRequest(&n.ctx.request)
	}
	ex.conn.End()
}

// unread returns the requests behind ex as the client has sent them, for a handler that takes the connection over.
func (ex *exchange) unread() (b []byte) {
	for n := ex.next; n != nil; n = n.next {
		b = append(b, n.raw...)
	}
	return b
}

// dropChain ends the requests behind ex, which nobody will answer. Loop only.
func (ex *exchange) dropChain() {
	for n := ex.next; n != nil; n = n.next {
		n.disconnected()
	}
}
