package eddy

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"sync/atomic"

	"github.com/go-eddy/eddy/executor"
)

// AddOption says how a handler is added.
type AddOption func(*node)

// On runs the handler on pool instead of the loop. There it may block. Each connection has one strand per pool, so its
// events run one at a time and in order. Messages are detached from the loop's memory before they cross. See also
// OnUnordered and RejectClose.
func On(pool *executor.Pool) AddOption { return func(n *node) { n.pool, n.unordered = pool, false } }

// node is one handler in a pipeline. Immutable once added. Connections that add the same handler value, in Init or later,
// share the node.
type node struct {
	name    string
	handler any
	ops     ops
	pool    *executor.Pool
	reject  *rejectPolicy
	decoder Decoder
	read    ReadHandler

	unordered bool // messages run concurrently on pool
}

// fill makes n the node of a handler, which may still lack a name.
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
	if n.decoder != nil {
		if n.pool != nil {
			return fmt.Errorf("eddy: decoder %q cannot run on a pool", name)
		}
		n.read, n.ops = feeder{}, n.ops|opRead
	}
	if n.ops&opAdd != 0 && n.read != nil {
		n.read = addedFirst{n.read}
	}
	return nil
}

// same reports whether two nodes are interchangeable: same name, same handler value, same executor.
func (n *node) same(m *node) bool {
	if n.name != m.name || n.pool != m.pool || n.unordered != m.unordered || n.reject != m.reject {
		return false
	}
	t := reflect.TypeOf(n.handler)
	return t == reflect.TypeOf(m.handler) && t.Comparable() && equal(n.handler, m.handler)
}

// equal compares two values of one comparable type. Values whose interfaces hold something not comparable count as
// different.
func equal(a, b any) (same bool) {
	defer func() { _ = recover() }()
	return a == b
}

// Unshared marks a handler that keeps the state of one connection in itself: embed it in the handler's struct. Such a
// handler is added by pointer, and once: to add it again, even to another connection or after its removal, is an error. A
// handler without it may be shared by any number of connections and keeps their state in Context.State.
type Unshared struct{ added atomic.Bool }

func (u *Unshared) adding() *atomic.Bool { return &u.added }

// claim marks an Unshared handler as added.
func claim(n *node) error {
	if u, ok := n.handler.(interface{ adding() *atomic.Bool }); ok && u.adding().Swap(true) {
		return fmt.Errorf("eddy: handler %q of type %T is Unshared and was added before: each connection needs its own", n.name, n.handler)
	}
	return nil
}

// unclaimed lets an Unshared handler be added again if err, which it returns, says that adding it failed.
func unclaimed(ctx *Context, err error) error {
	if u, ok := ctx.node.handler.(interface{ adding() *atomic.Bool }); ok && err != nil {
		u.adding().Store(false)
	}
	return err
}

// pipelineBuilder collects the handlers that one Init adds. Each loop has a builder, which remembers the last
// connection's nodes, so that connections with the same handlers share them.
type pipelineBuilder struct {
	draft node
	nodes []*node
	last  []*node
	late  [lateNodes]*node // nodes added to open connections, the latest first
	names nameTable
	err   error
}

// lateNodes is how many nodes of handlers added to open connections are remembered, such as those of a protocol that
// connections switch to.
const lateNodes = 4

// build runs Init for c, links the contexts and returns them in order.
func (b *pipelineBuilder) build(c *Conn) ([]Context, error) {
	b.nodes, b.err = b.nodes[:0], nil
	p := &Pipeline{conn: c, build: b}
	err := c.set.init(p)
	p.build = nil // a p kept beyond Init changes an open connection from now on
	if err != nil {
		return nil, err
	}
	if b.err != nil {
		return nil, b.err
	}
	if len(b.nodes) == 0 {
		return nil, errors.New("eddy: Server.Init added no handler")
	}
	ctxs := make([]Context, len(b.nodes))
	for i, n := range b.nodes {
		ctx := &ctxs[i]
		ctx.conn, ctx.node = c, n
		if n.ops&opAdd != 0 {
			ctx.state = notAdded
		}
		c.join(c.tail, ctx)
		c.join(ctx, nil)
	}
	b.last, b.nodes = b.nodes, b.last
	return ctxs, nil
}

// newNode returns the node of a handler for place i. If old is not negative, the handler replaces the one at old.
func (b *pipelineBuilder) newNode(i int, name string, handler any, opts []AddOption, old int) (*node, error) {
	n := &b.draft
	if err := n.fill(name, handler, opts); err != nil {
		return nil, err
	}
	taken := func(name string) bool {
		at := b.index(name)
		return at >= 0 && at != old
	}
	if n.name == "" {
		n.name = b.names.free(handler, taken)
	} else if taken(n.name) {
		return nil, errDuplicate(n.name)
	}
	if err := claim(n); err != nil {
		return nil, err
	}
	return b.shared(i), nil
}

// shared returns the last connection's node if it is the same as the draft, and otherwise a new one.
func (b *pipelineBuilder) shared(i int) *node {
	if i < len(b.last) && b.last[i].same(&b.draft) {
		return b.last[i]
	}
	for _, n := range b.last {
		if n.same(&b.draft) {
			return n
		}
	}
	own := b.draft
	return &own
}

// again returns the remembered node of a handler added to another open connection if it is the same as n, and otherwise
// n.
func (b *pipelineBuilder) again(n *node) *node {
	at := slices.IndexFunc(b.late[:], func(m *node) bool { return m != nil && m.same(n) })
	if at < 0 {
		at = len(b.late) - 1
	} else {
		n = b.late[at]
	}
	copy(b.late[1:at+1], b.late[:at])
	b.late[0] = n
	return n
}

// index returns the place of the named handler, -1 for none.
func (b *pipelineBuilder) index(name string) int {
	for i, n := range b.nodes {
		if n.name == name {
			return i
		}
	}
	return -1
}

// nameTable holds the names that a loop has generated, so that each is made only once per loop. A type has as many names
// as one pipeline had handlers of it.
type nameTable map[reflect.Type][]string

// free returns the first of the handler type's names that is not taken.
func (t *nameTable) free(handler any, taken func(string) bool) string {
	typ := reflect.TypeOf(handler)
	for i := 0; ; i++ {
		if i == len((*t)[typ]) {
			t.grow(typ, i)
		}
		if name := (*t)[typ][i]; !taken(name) {
			return name
		}
	}
}

func (t *nameTable) grow(typ reflect.Type, i int) {
	if *t == nil {
		*t = nameTable{}
	}
	short := typ
	if typ.Kind() == reflect.Pointer {
		short = typ.Elem()
	}
	name := short.Name()
	if name == "" {
		name = "handler"
	}
	(*t)[typ] = append((*t)[typ], name+"#"+strconv.Itoa(i))
}
