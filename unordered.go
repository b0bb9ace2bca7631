package eddy

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/go-eddy/eddy/executor"
)

// OnUnordered runs the handler's HandleRead on pool, where it may block, with one task for each message. Messages of one
// connection run concurrently and end in any order. Use it for messages that do not depend on each other and whose
// answers carry an id.
//
// Each message has its own Context until HandleRead returns, with its own Context.Context, deadline and trace. Writes and
// FireRead from there are valid and take their place in the order of the calls. Two unordered neighbours on the same pool
// run a message on one goroutine. State and SetState belong to the handler and are safe for concurrent use; what the
// state points to needs its own lock.
//
// At most 64 messages of a connection run or wait for a worker, over all its unordered handlers on the pool. At that
// number its reads pause, until 48 are left. The pool may have room for fewer, see RejectClose.
//
// Everything else runs in order, one at a time. HandleOpen returns before the first message starts. Outbound messages,
// events, changes of writability and errors of other handlers keep their order, but have no order relative to messages.
// HandleClose comes when the last message has returned. The handler's own errors are handled where they arise.
func OnUnordered(pool *executor.Pool) AddOption {
	return func(n *node) { n.pool, n.unordered = pool, true }
}

// Bounds for the messages of a connection under way through unordered handlers on one pool. At looseHigh its reads pause,
// at looseLow they resume; looseLow is high so that a few hanging messages do not hold up the others. strandBound limits
// messages that do not come from reading.
const (
	looseHigh = 64
	looseLow  = 48
	keptLoose = 8 // spare ones of a connection without messages
)

// loose is one message on its way to and through an unordered handler, with its own Context.
type loose struct {
	ctx     Context  // with the loose itself as its state
	origin  *Context // the handler's place in the pipeline
	strand  *strand
	onLoop  bool  // made for a reject policy; the fields below are unused
	at      int64 // when it was dispatched
	msg     any
	trace   context.Context
	request *requestContext // its goroutine only

	older, younger *loose // in its crowd
	seq            uint64 // of the dispatch
}

// loose returns the message that ctx was made for, nil if ctx is the handler's place in the pipeline.
func (ctx *Context) loose() *loose {
	m, _ := ctx.state.(*loose)
	return m
}

// onLoop reports whether the methods of ctx are called on the loop. Its handler is there, or ctx was made for a reject
// policy.
func (ctx *Context) onLoop() bool {
	if ctx.node.pool == nil {
		return true
	}
	m := ctx.loose()
	return m != nil && m.onLoop
}

// shares reports whether n handles op on the same executor, a pool, that ctx's methods are called on.
func (ctx *Context) shares(n *Context, op ops) bool {
	return n.node.pool == ctx.node.pool && (ctx.loose() != nil) == (op == opRead && n.node.unordered)
}

// place returns the handler's place in the pipeline.
func (ctx *Context) place() *Context {
	if m := ctx.loose(); m != nil {
		return m.origin
	}
	return ctx
}

// crowd is a strand's record of the messages under way through unordered handlers on its pool.
type crowd struct {
	opening atomic.Int32 // pending calls of HandleOpen, which messages wait for
	n       atomic.Int32 // messages on their way; written under mu

	mu          sync.Mutex
	first, last *loose // on their way, in the order of dispatch
	spare       *loose // linked by younger
	spares      int
	end         hop // the close, if over
	over        bool
	states      map[*Context]any // of the handlers
	seq         uint64           // of last
	removals    []lateRemoval    // of handlers that messages may be in
}

// crowdMade returns the strand's crowd, made if necessary. Any goroutine.
func (s *strand) crowdMade() *crowd {
	if k := s.crowd.Load(); k != nil {
		return k
	}
	s.crowd.CompareAndSwap(nil, new(crowd))
	return s.crowd.Load()
}

// running returns how many messages are on their way through unordered handlers. Any goroutine.
func (s *strand) running() int {
	if k := s.crowd.Load(); k != nil {
		return int(k.n.Load())
	}
	return 0
}

// submitLoose enqueues a message as a task of its own.
func (ctx *Context) submitLoose(s *strand, h *hop) error {
	k, pool := s.crowdMade(), ctx.node.pool
	switch {
	case k.opening.Load() > 0:
		return errOpening
	case k.n.Load() >= strandBound:
		return &executor.LimitError{Pool: pool.Name(), What: "the unordered messages of a connection", Limit: strandBound, Key: true}
	}
	m := k.take(ctx, s, h)
	k.join(m)
	if err := pool.Enqueue(m); err != nil {
		k.leave(m)
		return err
	}
	ctx.conn.loop.wakeLater(pool)
	return nil
}

// Run is the message's task.
func (m *loose) Run() {
	defer func() {
		if v := recover(); v != nil {
			m.ctx.conn.hopPanicked(&m.ctx, v)
		}
		m.finish()
	}()
	var msg any
	m.trace, msg = takeTrace(m.msg, m.ctx.node.name)
	m.msg = nil
	m.ctx.result(m.ctx.read(msg))
}

// Drop ends a message whose pool was stopped before it could run.
func (m *loose) Drop() {
	c, name := m.ctx.conn, m.ctx.node.name
	release(m.msg)
	m.finish()
	c.droppedByPool(name)
}

// Context returns the message's trace, for the pool's hook.
func (m *loose) Context() context.Context {
	if t, ok := m.msg.(*traced); ok {
		return t.trace
	}
	return m.ctx.Trace()
}

// finish follows a message on its goroutine. The last message may have to bring the close.
func (m *loose) finish() {
	c, s := m.ctx.conn, m.strand
	m.endRequest()
	if m.trace != nil {
		left(m.trace, c) // before leave, which gives m to another message
	}
	end, over := s.crowd.Load().leave(m)
	s.dismissLate()
	c.finished(&c.counts.inflight)
	c.checkStrand(s)
	if over && s.Finish(end) != nil {
		c.finished(&c.counts.transit)
		c.endOn(s.pool, (*Conn).guardOnPool)
	}
}

func (m *loose) endRequest() {
	if m.request != nil {
		m.request.end(context.Canceled)
		m.request = nil
	}
}

// readNext runs a message's next handler, which is unordered and on the same pool.
func (ctx *Context) readNext(before *loose, msg any) {
	k := before.strand.crowd.Load()
	m := k.take(ctx, before.strand, &hop{at: before.at, msg: msg})
	m.trace = before.trace
	defer func() {
		m.endRequest()
		k.give(m)
	}()
	m.msg = nil
	m.ctx.result(m.ctx.read(msg))
}

// closeAfter keeps the close until the last message has returned, and returns false if there is none.
func (s *strand) closeAfter(h hop) bool {
	k := s.crowd.Load()
	if k == nil {
		return false
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.end, k.over = h, k.n.Load() > 0
	return k.over
}

// opened follows HandleOpen of an unordered handler, whose end messages may wait for.
func (ctx *Context) opened(s *strand) {
	if ctx.node.unordered && s.crowd.Load().opening.Add(-1) == 0 {
		ctx.conn.postReadState()
	}
}

// take returns a loose for origin, with the message of h.
func (k *crowd) take(origin *Context, s *strand, h *hop) *loose {
	k.mu.Lock()
	m := k.spare
	if m != nil {
		k.spare, m.younger = m.younger, nil
		k.spares--
	}
	k.mu.Unlock()
	if m == nil {
		m = new(loose)
		m.ctx.conn, m.ctx.state = origin.conn, m
	}
	m.ctx.node = origin.node
	m.origin, m.strand, m.at = origin, s, h.at
	m.msg = h.msg
	return m
}

// join counts m as on its way.
func (k *crowd) join(m *loose) {
	k.mu.Lock()
	m.older = k.last
	if k.last == nil {
		k.first = m
	} else {
		k.last.younger = m
	}
	k.last = m
	k.seq++
	m.seq = k.seq
	k.n.Add(1)
	k.mu.Unlock()
}

// leave undoes join. If the close has waited for m, leave returns it.
func (k *crowd) leave(m *loose) (end hop, over bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if m.older == nil {
		k.first = m.younger
	} else {
		m.older.younger = m.younger
	}
	if m.younger == nil {
		k.last = m.older
	} else {
		m.younger.older = m.older
	}
	n := k.n.Add(-1)
	k.keep(m)
	return k.end, k.over && n == 0
}

// lateRemoval is the HandleRemove of an unordered handler, which waits for the messages up to seq.
type lateRemoval struct {
	hop hop
	seq uint64
}

// removeAfter keeps the removal of an unordered handler until the messages under way have returned, and returns false if
// there are none.
func (s *strand) removeAfter(h hop) bool {
	k := s.crowd.Load()
	if k == nil {
		return false
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.first == nil {
		return false
	}
	k.removals = append(k.removals, lateRemoval{h, k.seq})
	return true
}

// dismissLate tells HandleRemove to removed handlers that no message is in any more.
func (s *strand) dismissLate() {
	k := s.crowd.Load()
	k.mu.Lock()
	n := 0
	for n < len(k.removals) && (k.first == nil || k.first.seq > k.removals[n].seq) {
		n++
	}
	due := k.removals[:n]
	k.removals = k.removals[n:]
	k.mu.Unlock()
	for _, r := range due {
		if s.Append(r.hop) != nil {
			runHop(r.hop)
		}
	}
}

// give undoes take.
func (k *crowd) give(m *loose) {
	k.mu.Lock()
	k.keep(m)
	k.mu.Unlock()
}

// keep saves m for another message of the same connection, because a Context used after its time must not meet another
// connection. k.mu is held.
func (k *crowd) keep(m *loose) {
	m.msg, m.trace, m.older = nil, nil, nil
	m.younger = k.spare
	k.spare = m
	if k.spares++; k.spares > keptLoose && k.n.Load() == 0 {
		k.trim()
	}
}

func (k *crowd) trim() {
	last := k.spare
	for range keptLoose - 1 {
		last = last.younger
	}
	last.younger = nil
	k.spares = keptLoose
}

// oldest returns when the oldest message on its way was dispatched, 0 for none.
func (k *crowd) oldest() int64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.first == nil {
		return 0
	}
	return k.first.at
}

// sharedState returns the state of an unordered handler.
func (ctx *Context) sharedState() any {
	s := ctx.findStrand()
	if s == nil || s.crowd.Load() == nil {
		return nil
	}
	k := s.crowd.Load()
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.states[ctx.place()]
}

func (ctx *Context) setSharedState(v any) {
	s := ctx.findStrand()
	if s == nil { // the pool was never given anything, and the connection has ended
		return
	}
	k := s.crowdMade()
	k.mu.Lock()
	defer k.mu.Unlock()
	if v == nil {
		delete(k.states, ctx.place())
		return
	}
	if k.states == nil {
		k.states = make(map[*Context]any)
	}
	k.states[ctx.place()] = v
}
