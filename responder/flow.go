package responder

import (
	"context"
	"sync"
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/internal/list"
)

// flow is what a Responder knows of one connection. The loop owns it, except what mu guards.
type flow[Req any] struct {
	r    *Responder[Req]
	ctx  *eddy.Context
	conn *eddy.Conn
	loop *eddy.Loop
	room int64 // bytes that the connection's queue takes beyond its high watermark

	calls      list.List[call[Req]] // in order of arrival; each stays until it was answered and its function has returned
	turn       *call[Req]           // the oldest that was not answered
	count      int
	owed       int // unanswered calls, without one-way ones
	size       int // bytes of an answer, a moving average
	paused     bool
	byID       map[uint64]*call[Req]
	strand     *executor.Strand[*call[Req]] // under Serial on one pool
	starting   bool                         // the calls that wait are being looked at
	timer      *eddy.Timer                  // comes at timerAt, no later than the first timeout
	timerAt    time.Time
	expireFunc func()
	back       eddy.Signal // collects what the pool has brought

	mu   sync.Mutex
	done *call[Req] // calls that come back from the pool, first and last
	tail *call[Req]
	over bool // nothing will collect them
}

// strandExtra is how many calls a strand takes beyond Options.InFlight: more than reads bring, because the pool is the bound.
const strandExtra = 1024

func newFlow[Req any](r *Responder[Req], ctx *eddy.Context) *flow[Req] {
	c := ctx.Conn()
	marks := c.Watermarks()
	f := &flow[Req]{r: r, ctx: ctx, conn: c, loop: c.Loop(), room: int64(marks.Max - marks.High)}
	f.expireFunc = f.expire
	f.back.Init(c, f.collect)
	if r.o.Ordering == Serial && r.o.Route == nil {
		f.strand = executor.NewStrand(r.o.Pool, r.o.InFlight+strandExtra, (*call[Req]).Run).DropWith((*call[Req]).Drop)
	}
	return f
}

// take begins a request, or answers it at once.
func (f *flow[Req]) take(req Req) error {
	o := &f.r.o
	if o.Cancels != nil {
		if id, ok := o.Cancels(req); ok {
			f.cancel(id)
			release(req)
			return nil
		}
	}
	oneWay := o.OneWay != nil && o.OneWay(req)
	if o.Ordering == NoPipelining && f.owed > 0 {
		return f.violated(req, oneWay)
	}
	var id uint64
	if o.ID != nil {
		id = o.ID(req)
	}
	switch {
	case f.conn.Draining():
		f.refuse(req, oneWay, ErrDraining)
	case id != 0 && f.byID[id] != nil:
		f.refuse(req, oneWay, ErrDuplicate)
	case o.Local != nil && o.Local(req):
		f.answerOnLoop(req, id, oneWay, nil)
	case o.Route == nil:
		f.submit(f.begin(req, id, oneWay, o.Pool))
	default:
		f.route(req, id, oneWay)
	}
	return nil
}

// route begins a request where Options.Route says.
func (f *flow[Req]) route(req Req, id uint64, oneWay bool) {
	pool, err := f.r.o.Route(req)
	if err != nil {
		f.refuse(req, oneWay, err)
		return
	}
	c := f.begin(req, id, oneWay, pool)
	c.routed = true
	if f.r.o.Ordering == Serial {
		c.waiting = true
		f.startNext()
		return
	}
	f.start(c)
}

// start runs a routed call on the loop or hands it to its pool.
func (f *flow[Req]) start(c *call[Req]) {
	if c.pool == nil {
		c.runOnLoop()
		return
	}
	f.submit(c)
}

// startNext starts the first waiting call when those before it have come back: one at a time, whatever their pools.
func (f *flow[Req]) startNext() {
	if f.starting {
		return
	}
	f.starting = true
	defer func() { f.starting = false }() // also if a function on the loop ends the goroutine
	for c := f.calls.First(); c != nil && c.waiting; c = f.calls.First() {
		c.waiting = false
		if c.ready { // ended while it waited; finish has it when it is its turn
			return
		}
		f.start(c)
	}
}

// submit hands a call to its pool.
func (f *flow[Req]) submit(c *call[Req]) {
	c.running = true
	wake, err := true, error(nil)
	if f.strand != nil {
		wake, err = f.strand.Enqueue(c)
	} else {
		err = c.pool.Enqueue(c)
	}
	if err == nil {
		if wake {
			f.loop.WakeLater(c.pool)
		}
		return
	}
	c.running = false
	f.r.rejected.Add(1)
	f.decide(c, nil, err)
}

// violated ends the connection of a client that does not wait for its response.
func (f *flow[Req]) violated(req Req, oneWay bool) error {
	f.r.refused.Add(1)
	if !oneWay {
		f.writeNow(f.r.o.Answer(req, nil, ErrPipelined))
	}
	release(req)
	return eddy.WithReason(eddy.CloseProtocolError, ErrPipelined)
}

// refuse answers a request that is not taken.
func (f *flow[Req]) refuse(req Req, oneWay bool, err error) {
	f.r.refused.Add(1)
	f.answerOnLoop(req, 0, oneWay, err)
}

// answerOnLoop answers a request that goes to no pool: with err, or if that is nil with what its function returns. The answer
// leaves at once if no other response has to leave before.
func (f *flow[Req]) answerOnLoop(req Req, id uint64, oneWay bool, err error) {
	if f.r.o.Ordering.inOrder() && f.turn != nil {
		c := f.begin(req, id, oneWay, nil)
		c.refusal = err
		if c.local = true; err != nil || f.r.o.Ordering != Serial {
			f.decideLocal(c)
		}
		return
	}
	resp, err := f.runLocal(req, err)
	if oneWay {
		release(resp)
		if err != nil {
			f.r.dropped.Add(1)
		}
	} else {
		f.writeNow(f.r.o.Answer(req, resp, err))
	}
	release(req)
}

func (f *flow[Req]) runLocal(req Req, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	return f.r.o.Run(f.conn.BaseContext(), req)
}

// decideLocal decides the end of a call that goes to no pool and has its place among others.
func (f *flow[Req]) decideLocal(c *call[Req]) {
	c.local = false
	c.ran = c.refusal == nil
	resp, err := f.runLocal(c.req, c.refusal)
	f.decide(c, resp, err)
}

// begin makes a call of a request and gives it its place. A request that is run and answered before this message is over
// borrows the memory of the loop.
func (f *flow[Req]) begin(req Req, id uint64, oneWay bool, pool *executor.Pool) *call[Req] {
	c := f.r.calls.Get().(*call[Req])
	if pool != nil || f.r.o.Ordering.inOrder() {
		if d, ok := any(req).(eddy.Detacher); ok {
			req = d.Detach().(Req)
		}
	}
	c.flow, c.req, c.id, c.oneWay, c.pool = f, req, id, oneWay, pool
	f.conn.BeginRequest(&c.request)
	f.append(c)
	if f.r.o.Timeout != nil {
		if d := f.r.o.Timeout(req); d > 0 {
			now := f.loop.Now()
			c.due = now.Add(d)
			f.watch(now, c.due)
		}
	}
	c.newContext()
	return c
}

func (f *flow[Req]) append(c *call[Req]) {
	f.calls.Push(&c.place, c)
	if f.turn == nil {
		f.turn = c
	}
	if !c.oneWay {
		f.owed++
	}
	if c.id != 0 {
		if f.byID == nil {
			f.byID = make(map[uint64]*call[Req])
		}
		f.byID[c.id] = c
	}
	f.count++
	f.pace()
}

// full reports whether no further request may begin: InFlight of them have begun, or their answers would pass what the
// connection's queue takes beyond its high watermark. Answers are taken to be as long as those before. A single request may
// always begin.
func (f *flow[Req]) full() bool {
	return f.count >= f.r.o.InFlight || f.owed > 0 && int64(f.owed)*int64(f.size) >= f.room
}

// pace pauses or resumes requests after one has begun, was answered or came back.
func (f *flow[Req]) pace() {
	switch full := f.full(); {
	case full && !f.paused:
		f.paused = true
		f.ctx.HoldReads()
	case !full && f.paused && f.count <= f.r.low:
		f.paused = false
		f.ctx.ReleaseReads()
	}
}

// remove forgets a call that was answered and has come back.
func (f *flow[Req]) remove(c *call[Req]) {
	f.calls.Remove(&c.place)
	f.count--
	f.pace()
	c.recycle()
}

// decide ends a request on the loop, unless its end was decided before. Its function may still run; the result is then
// dropped.
func (f *flow[Req]) decide(c *call[Req], resp any, err error) bool {
	if !c.claim() {
		return false
	}
	c.ctx.end(err)
	c.makeAnswer(resp, err)
	f.ready(c)
	return true
}

// ready handles a request whose end is decided: its response leaves as soon as its turn comes.
func (f *flow[Req]) ready(c *call[Req]) {
	c.ready = true
	if c.failure != nil { // even out of turn, or its client would wait forever
		f.ctx.Fail(c.failure)
	}
	if !f.r.o.Ordering.inOrder() {
		f.finish(c)
		return
	}
	for f.turn != nil && f.turn.ready {
		f.finish(f.turn)
	}
	if f.turn != nil && f.turn.local { // a serial one, whose turn it is
		f.decideLocal(f.turn)
	}
	f.startNext()
}

// finish writes a response and ends its request.
func (f *flow[Req]) finish(c *call[Req]) {
	for f.turn != nil && (f.turn == c || f.turn.answered) {
		f.turn = f.turn.place.Next()
	}
	c.answered = true
	size := c.answer.Len()
	f.write(&c.answer)
	if !c.oneWay {
		f.owed--
		f.size += (size - f.size) / 4
	}
	if c.id != 0 {
		delete(f.byID, c.id)
	}
	c.request.End()
	if !c.running {
		f.remove(c)
	} else {
		f.pace()
	}
}

// write passes a response to the connection, whatever is queued there, because the response exists and its request was allowed
// to begin. A response that cannot be queued ends the connection, or its client would wait forever.
func (f *flow[Req]) write(answer *eddy.Reserved) {
	if err := answer.Write(f.ctx); err != nil {
		f.ctx.Fail(err)
	}
}

// writeNow writes a response that was made just now, nil for none.
func (f *flow[Req]) writeNow(msg any) {
	if msg != nil {
		var answer eddy.Reserved
		answer.Init(f.conn, msg)
		f.write(&answer)
	}
}

// cancel ends the request with that id, if it is in flight.
func (f *flow[Req]) cancel(id uint64) {
	if c := f.byID[id]; c != nil && f.decide(c, nil, context.Canceled) {
		f.r.canceled.Add(1)
	}
}

// watch makes sure that expire is called at due.
func (f *flow[Req]) watch(now, due time.Time) {
	if f.timer != nil && !f.timerAt.After(due) {
		return
	}
	if f.timer != nil {
		f.timer.Stop()
	}
	f.timer, _ = f.ctx.After(max(0, due.Sub(now)), f.expireFunc) // no timer once the handlers were told the close
	f.timerAt = due
}

// expire ends the requests whose time is over.
func (f *flow[Req]) expire() {
	f.timer = nil
	now, next := f.loop.Now(), time.Time{}
	for c := f.calls.First(); c != nil; {
		behind := c.place.Next() // c may be the first to go; those behind it go with their own turn
		switch {
		case c.due.IsZero() || c.ready:
		case c.due.After(now):
			if next.IsZero() || c.due.Before(next) {
				next = c.due
			}
		case f.decide(c, nil, context.DeadlineExceeded):
			f.r.expired.Add(1)
			c = f.calls.First() // decide may have removed any: begin anew, what is done is skipped
			next = time.Time{}
			continue
		}
		c = behind
	}
	if !next.IsZero() {
		f.watch(now, next)
	}
}
