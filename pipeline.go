package eddy

import (
	"errors"
	"fmt"
	"reflect"

	"github.com/go-eddy/eddy/executor"
)

// Pipeline is the chain of handlers of one connection. Inbound events go head to tail, outbound messages tail to head.
// It is built by Server.Init and may be changed later, always on the connection's loop. Once the handlers have been
// told the close, changes return ErrClosed.
type Pipeline struct {
	conn  *Conn
	build *pipelineBuilder // nil once the connection is open
}

// AddOption says how a handler is added.
type AddOption func(*node)

// On runs the handler on pool instead of the loop, where it may block. Each connection has one strand per pool: the
// connection's events run one at a time and in order. Messages are detached from the loop's memory before they cross. See
// also OnUnordered and OnReject.
func On(pool *executor.Pool) AddOption { return func(n *node) { n.pool, n.unordered = pool, false } }

// node is one handler as it stands in a pipeline. Immutable once added; connections whose Init adds the same handler
// value share it.
type node struct {
	name    string
	handler any
	ops     ops
	pool    *executor.Pool
	reject  *RejectPolicy
	decoder Decoder
	read    ReadHandler

	unordered bool // messages run side by side on pool
}

// fill makes n the node of a handler.
func (n *node) fill(name string, handler any, opts []AddOption) error {
	*n = node{name: name, handler: handler, ops: opsOf(handler)}
	if n.ops == 0 {
		return fmt.Errorf("eddy: handler %q of type %T implements no handler interface", name, handler)
	}
	for _, o := range opts {
		o(n)
	}
	n.decoder, _ = handler.(Decoder)
	n.read, _ = handler.(ReadHandler)
	if n.decoder == nil {
		return nil
	}
	if n.pool != nil {
		return fmt.Errorf("eddy: decoder %q cannot run on a pool", name)
	}
	n.read, n.ops = feeder{}, n.ops|opRead
	return nil
}

// same reports whether two nodes can be one: same name, same handler value, same executor.
func (n *node) same(m *node) bool {
	if n.name != m.name || n.pool != m.pool || n.unordered != m.unordered || n.reject != m.reject {
		return false
	}
	t := reflect.TypeOf(n.handler)
	return t == reflect.TypeOf(m.handler) && t.Comparable() && n.handler == m.handler
}

// pipelineBuilder collects what one Init adds. A loop has one and remembers the last connection's nodes, so that
// connections with the same handlers share them.
type pipelineBuilder struct {
	draft node
	nodes []*node
	last  []*node
	err   error
}

// build runs Init for c and links the contexts.
func (b *pipelineBuilder) build(c *Conn) error {
	b.nodes, b.err = b.nodes[:0], nil
	p := &Pipeline{conn: c, build: b}
	err := c.set.init(p)
	p.build = nil // whoever kept p changes an open connection from now on
	if err != nil {
		return err
	}
	if b.err != nil {
		return b.err
	}
	if len(b.nodes) == 0 {
		return errors.New("eddy: Server.Init added no handler")
	}
	ctxs := make([]Context, len(b.nodes))
	for i, n := range b.nodes {
		ctx := &ctxs[i]
		ctx.conn, ctx.node = c, n
		c.link(ctx)
	}
	b.last, b.nodes = b.nodes, b.last
	return nil
}

// add takes the draft over.
func (b *pipelineBuilder) add() error {
	i, n := len(b.nodes), &b.draft
	for _, o := range b.nodes {
		if o.name == n.name {
			return fmt.Errorf("eddy: duplicate handler name %q", n.name)
		}
	}
	if i < len(b.last) && b.last[i].same(n) {
		b.nodes = append(b.nodes, b.last[i])
	} else {
		own := *n
		b.nodes = append(b.nodes, &own)
	}
	return nil
}

// Conn returns the pipeline's connection.
func (p *Pipeline) Conn() *Conn { return p.conn }

// Add appends a handler at the tail. Inside Init the first error also fails Init, so Init may ignore it. A handler that
// is added to an open connection is told HandleOpen at once.
func (p *Pipeline) Add(name string, handler any, opts ...AddOption) error {
	if p.build != nil {
		err := p.build.draft.fill(name, handler, opts)
		if err == nil {
			err = p.build.add()
		}
		if p.build.err == nil {
			p.build.err = err
		}
		return err
	}
	n := new(node)
	err := n.fill(name, handler, opts)
	if err == nil {
		err = p.checkNew(n, nil)
	}
	if err != nil {
		return err
	}
	ctx := &Context{conn: p.conn, node: n}
	p.conn.link(ctx)
	ctx.deliverOpen()
	return nil
}

// Remove takes a handler out. An event that is inside it goes on to its old neighbours. If it was a decoder, bytes
// that it left go to what stands in its place now.
func (p *Pipeline) Remove(name string) error {
	ctx, err := p.find(name)
	if err != nil {
		return err
	}
	prev, next := ctx.prev.Load(), ctx.next.Load()
	p.conn.join(prev, next)
	p.conn.decodeAgain()
	return nil
}

// Replace puts a new handler in the place of an old one and tells it HandleOpen. Bytes that a replaced
// decoder left go to the new handler.
func (p *Pipeline) Replace(name, newName string, handler any, opts ...AddOption) error {
	old, err := p.find(name)
	if err != nil {
		return err
	}
	n := new(node)
	if err = n.fill(newName, handler, opts); err == nil {
		err = p.checkNew(n, old)
	}
	if err != nil {
		return err
	}
	ctx := &Context{conn: p.conn, node: n}
	prev, next := old.prev.Load(), old.next.Load()
	p.conn.join(prev, ctx)
	p.conn.join(ctx, next)
	ctx.deliverOpen()
	p.conn.decodeAgain()
	return nil
}

// decodeAgain offers what decoders left to whoever stands in their places in the changed pipeline.
func (c *Conn) decodeAgain() {
	if c.in != nil {
		c.clear(partial)
		c.markReady()
	}
	c.innerAgain()
}

// find returns the context of a handler of an open connection.
func (p *Pipeline) find(name string) (*Context, error) {
	if p.build != nil {
		return nil, fmt.Errorf("eddy: handler %q: a pipeline under construction can only be added to", name)
	}
	if p.conn.phase == PhaseClosed {
		return nil, p.conn.closedError()
	}
	for ctx := p.conn.head; ctx != nil; ctx = ctx.next.Load() {
		if ctx.node.name == name {
			return ctx, nil
		}
	}
	return nil, fmt.Errorf("eddy: no handler named %q", name)
}

// checkNew checks name and place of a handler that is added to an open connection, in the place of old if that is set.
func (p *Pipeline) checkNew(n *node, old *Context) error {
	if p.conn.phase == PhaseClosed {
		return p.conn.closedError()
	}
	for ctx := p.conn.head; ctx != nil; ctx = ctx.next.Load() {
		if ctx != old && ctx.node.name == n.name {
			return fmt.Errorf("eddy: duplicate handler name %q", n.name)
		}
	}
	return nil
}

// link appends ctx at the tail.
func (c *Conn) link(ctx *Context) {
	c.join(c.tail, ctx)
	c.join(ctx, nil)
}

// join makes b follow a; nil stands for the ends. A context that is taken out keeps its own links.
func (c *Conn) join(a, b *Context) {
	if a == nil {
		c.head = b
	} else {
		a.next.Store(b)
	}
	if b == nil {
		c.tail = a
	} else {
		b.prev.Store(a)
	}
}
