package eddy

import (
	"fmt"
	"slices"
)

// Pipeline is the chain of handlers of one connection. Inbound events go head to tail, outbound messages tail to head.
// Server.Init builds it; later it may be changed while events pass through it.
//
// After Init its methods belong to the connection's loop, where a change takes effect at once. Called elsewhere they
// return ErrOffLoop and change nothing. Conn.Change brings a change to the loop from any goroutine. Once the handlers
// have been told the close, all methods return ErrClosed.
//
// Names are unique within a pipeline. An empty name is replaced by a generated one: the name of the handler's type, "#"
// and the smallest free number, from 0.
type Pipeline struct {
	conn  *Conn
	build *pipelineBuilder // nil once the connection is open
	from  caller
}

// caller says where a Pipeline is used.
type caller uint8

const (
	callerUnknown caller = iota
	callerOnLoop
	callerOnPool
)

// spot is a place in a pipeline.
type spot struct {
	kind spotKind
	base string // for spotBefore and spotAfter
}

type spotKind uint8

const (
	spotLast spotKind = iota
	spotFirst
	spotBefore
	spotAfter
)

// Conn returns the pipeline's connection. Any goroutine.
func (p *Pipeline) Conn() *Conn { return p.conn }

// Add appends a handler at the tail. Inside Init the first error of any method also fails Init, so Init may ignore it.
//
// A handler added to an open connection is told HandleAdd and then HandleOpen, on its executor, before any other event.
// If its pool refuses HandleAdd, nothing has changed and Add returns the pool's error.
//
// Errors: a duplicate name, no handler, a handler with Unshared that was added before, a decoder on a pool, a refusing
// pool (executor.ErrRejected, executor.ErrClosed), ErrOffLoop, ErrClosed.
func (p *Pipeline) Add(name string, handler any, opts ...AddOption) error {
	return p.insert(spot{kind: spotLast}, name, handler, opts)
}

// AddFirst is Add at the head.
func (p *Pipeline) AddFirst(name string, handler any, opts ...AddOption) error {
	return p.insert(spot{kind: spotFirst}, name, handler, opts)
}

// AddBefore is Add on the head's side of the handler named base; an absent base is a further error.
func (p *Pipeline) AddBefore(base, name string, handler any, opts ...AddOption) error {
	return p.insert(spot{spotBefore, base}, name, handler, opts)
}

// AddAfter is Add on the tail's side of the handler named base; an absent base is a further error.
func (p *Pipeline) AddAfter(base, name string, handler any, opts ...AddOption) error {
	return p.insert(spot{spotAfter, base}, name, handler, opts)
}

// insert adds a handler to a pipeline under construction or an open one.
func (p *Pipeline) insert(at spot, name string, handler any, opts []AddOption) error {
	if p.build != nil {
		return p.build.note(p.build.insert(at, name, handler, opts))
	}
	if err := p.usable(); err != nil {
		return err
	}
	prev, next, err := p.conn.spot(at)
	if err != nil {
		return err
	}
	ctx, err := p.newContext(name, handler, opts, nil)
	if err != nil {
		return err
	}
	return unclaimed(ctx, p.conn.introduce(ctx, prev, next))
}

// Remove takes a handler out. The handler gets no new events; HandleRemove is its last one. Events that it was given
// before are still handled and go on from its place; on a pool they stay ahead of later ones. Bytes that a removed
// decoder did not decode go to the handler that now stands in its place.
//
// Errors: no such handler; ErrSaturated when 64 removed handlers of the connection still have events on their pools;
// ErrOffLoop, ErrClosed.
func (p *Pipeline) Remove(name string) error {
	if p.build != nil {
		return p.build.note(p.build.remove(name))
	}
	ctx, err := p.find(name)
	if err == nil {
		err = p.conn.roomForLeaving(ctx)
	}
	if err != nil {
		return err
	}
	p.conn.expel(ctx)
	p.conn.decodeAgain()
	return nil
}

// Replace puts a new handler in the place of an old one, whose name it may have. The new handler is told HandleAdd and
// HandleOpen; when its HandleAdd has returned, the old one is told HandleRemove. Events and messages that the old handler
// fires or writes in HandleRemove go through the new one. Events that were inside the old handler before go on to its old
// neighbours. On one executor, both of these stay ahead of everything that comes later. Bytes that a replaced decoder did
// not decode go to the new handler.
//
// Errors: those of Add and Remove; after an error the old handler stays.
func (p *Pipeline) Replace(name, newName string, handler any, opts ...AddOption) error {
	if p.build != nil {
		return p.build.note(p.build.replace(name, newName, handler, opts))
	}
	old, err := p.find(name)
	if err == nil {
		err = p.conn.roomForLeaving(old)
	}
	if err != nil {
		return err
	}
	ctx, err := p.newContext(newName, handler, opts, old)
	if err != nil {
		return err
	}
	if err = unclaimed(ctx, p.conn.exchange(old, ctx)); err != nil {
		return err
	}
	p.conn.decodeAgain()
	return nil
}

// Names returns the names of the handlers, head to tail; nil where a change would fail with ErrOffLoop or ErrClosed.
func (p *Pipeline) Names() []string {
	var names []string
	if p.build != nil {
		for _, n := range p.build.nodes {
			names = append(names, n.name)
		}
		return names
	}
	if p.usable() != nil {
		return nil
	}
	for ctx := p.conn.head; ctx != nil; ctx = ctx.next.Load() {
		if ctx.node.ops&opBarrier == 0 {
			names = append(names, ctx.node.name)
		}
	}
	return names
}

// Context returns the place of the named handler of an open connection. The result is nil inside Init, if there is no
// such handler, and where a change would fail with ErrOffLoop or ErrClosed. The handler's executor decides which methods
// may be called on the Context, see there.
func (p *Pipeline) Context(name string) *Context {
	if p.build != nil || p.usable() != nil {
		return nil
	}
	return p.conn.named(name)
}

// usable returns the error why an open connection's pipeline cannot be used here and now, nil if it can.
func (p *Pipeline) usable() error {
	switch {
	case p.from == callerOnPool, p.from == callerUnknown && !p.conn.loop.handle.In():
		return ErrOffLoop
	case p.conn.phase == PhaseClosed:
		return p.conn.closedError()
	}
	return nil
}

// find returns the context of the named handler of an open connection.
func (p *Pipeline) find(name string) (*Context, error) {
	if err := p.usable(); err != nil {
		return nil, err
	}
	return found(p.conn.named(name), name)
}

func found(ctx *Context, name string) (*Context, error) {
	if ctx == nil {
		return nil, errNoHandler(name)
	}
	return ctx, nil
}

// named returns the context of that name, nil for none. Loop only.
func (c *Conn) named(name string) *Context {
	for ctx := c.head; ctx != nil; ctx = ctx.next.Load() {
		if ctx.node.name == name && ctx.node.ops&opBarrier == 0 {
			return ctx
		}
	}
	return nil
}

// spot returns the contexts between which a handler added at that spot comes.
func (c *Conn) spot(at spot) (prev, next *Context, err error) {
	switch at.kind {
	case spotLast:
		return c.tail, nil, nil
	case spotFirst:
		return nil, c.head, nil
	}
	base, err := found(c.named(at.base), at.base)
	switch {
	case err != nil:
		return nil, nil, err
	case at.kind == spotBefore:
		return base.prev.Load(), base, nil
	}
	return base, base.next.Load(), nil
}

// newContext makes the context of a handler that is added to an open connection. If old is set, the handler takes its
// place.
func (p *Pipeline) newContext(name string, handler any, opts []AddOption, old *Context) (*Context, error) {
	c, n := p.conn, new(node)
	if err := n.fill(name, handler, opts); err != nil {
		return nil, err
	}
	taken := func(name string) bool {
		ctx := c.named(name)
		return ctx != nil && ctx != old
	}
	if n.name == "" {
		n.name = c.loop.builder.names.free(handler, taken)
	} else if taken(n.name) {
		return nil, errDuplicate(n.name)
	}
	if err := claim(n); err != nil {
		return nil, err
	}
	return &Context{conn: c, node: c.loop.builder.again(n)}, nil
}

// decodeAgain offers undecoded bytes to the handlers that now stand in their decoders' places.
func (c *Conn) decodeAgain() {
	if c.in.Held() {
		c.clear(partial)
		c.markReady()
	}
	c.innerAgain()
}

func errNoHandler(name string) error { return fmt.Errorf("eddy: no handler named %q", name) }
func errDuplicate(name string) error { return fmt.Errorf("eddy: duplicate handler name %q", name) }

// note keeps the first error of an Init.
func (b *pipelineBuilder) note(err error) error {
	if b.err == nil {
		b.err = err
	}
	return err
}

// insert adds a handler to the pipeline that Init builds.
func (b *pipelineBuilder) insert(at spot, name string, handler any, opts []AddOption) error {
	i := len(b.nodes)
	if at.kind == spotFirst {
		i = 0
	} else if at.kind != spotLast {
		base := b.index(at.base)
		if base < 0 {
			return errNoHandler(at.base)
		}
		i = base + int(at.kind-spotBefore)
	}
	n, err := b.newNode(i, name, handler, opts, -1)
	if err == nil {
		b.nodes = slices.Insert(b.nodes, i, n)
	}
	return err
}

func (b *pipelineBuilder) remove(name string) error {
	i := b.index(name)
	if i < 0 {
		return errNoHandler(name)
	}
	b.nodes = slices.Delete(b.nodes, i, i+1)
	return nil
}

func (b *pipelineBuilder) replace(name, newName string, handler any, opts []AddOption) error {
	i := b.index(name)
	if i < 0 {
		return errNoHandler(name)
	}
	n, err := b.newNode(i, newName, handler, opts, i)
	if err == nil {
		b.nodes[i] = n
	}
	return err
}
