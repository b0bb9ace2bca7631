package eddy

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/go-eddy/eddy/buf"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/internal/meter"
)

// blocked returns a connection whose socket takes nothing for now and whose queue begins with "first", of which "f" is
// sent.
func blocked(t *testing.T, srv *Server) (*stage, *loop, *actor) {
	t.Helper()
	st, l := newStage(t, srv)
	a := st.connect(l)
	a.room = 1
	submit(t, l, a, "first")
	return st, l, a
}

func submit(t *testing.T, l *loop, a *actor, msg any) {
	t.Helper()
	if err := a.conn.Write(msg); err != nil {
		t.Fatalf("Write(%v) = %v", msg, err)
	}
	l.Iterate()
}

// drain lets the socket take everything and checks that the queue has counted right.
func (a *actor) drain(t *testing.T, l *loop) string {
	t.Helper()
	a.room = 1 << 40
	for range 3 {
		l.Iterate()
	}
	c := a.conn
	if q := c.QueuedBytes(); q != 0 || c.out.Head != nil || c.out.Tail != nil || c.has(marked) {
		t.Fatalf("after the queue was sent: %d bytes counted, head %v, marks %v", q, c.out.Head, c.has(marked))
	}
	return string(a.out)
}

func echoServer() *Server { return cutServer(func(*Context, string) error { return nil }) }

// TestDropPolicies: what each policy leaves of five messages of a class of which two may wait, among ordinary messages
// that all arrive, in order.
func TestDropPolicies(t *testing.T) {
	for _, c := range []struct {
		policy  OverflowPolicy
		want    string
		dropped uint64
		counts  func(*loop) uint64
	}{
		{OverflowDropNewest, "first[1]a[2]bc", 3, func(l *loop) uint64 { return l.Counters[meter.DroppedNewest] }},
		{OverflowDropOldest, "firstab[4]c[5]", 3, func(l *loop) uint64 { return l.Counters[meter.DroppedOldest] }},
		// 3 supersedes 1 and 2, 5 supersedes 3 and 4
		{OverflowKeepLatest, "firstabc[5]", 4, func(l *loop) uint64 { return l.Counters[meter.Superseded] }},
	} {
		_, l, a := blocked(t, echoServer())
		k := &MessageClass{Name: "ticks", Policy: c.policy, MaxMessages: 2}
		for _, msg := range []any{k.Wrap("[1]"), "a", k.Wrap("[2]"), "b", k.Wrap("[3]"), k.Wrap("[4]"), "c", k.Wrap("[5]")} {
			submit(t, l, a, msg)
		}
		if got := a.drain(t, l); got != c.want {
			t.Errorf("policy %d: sent %q, want %q", c.policy, got, c.want)
		}
		if n := c.counts(l); n != c.dropped || k.Stats().Dropped != c.dropped {
			t.Errorf("policy %d: loop counted %d drops, class %d, want %d", c.policy, n, k.Stats().Dropped, c.dropped)
		}
		for i := range 5 { // and everything goes while the peer keeps up
			submit(t, l, a, k.Wrap(fmt.Sprint(i)))
		}
		if got := a.drain(t, l); got != c.want+"01234" {
			t.Errorf("policy %d: later %q", c.policy, got)
		}
	}
}

// TestBegunMessageIsNotDropped: a message of which a byte was sent is sent whole.
func TestBegunMessageIsNotDropped(t *testing.T) {
	_, l, a := blocked(t, echoServer())
	k := &MessageClass{Policy: OverflowKeepLatest, MaxMessages: 1}
	submit(t, l, a, k.Wrap("[one]"))
	a.room = len("irst[on")
	l.Iterate()
	submit(t, l, a, k.Wrap("[two]"))
	submit(t, l, a, k.Wrap("[three]"))
	if got := a.drain(t, l); got != "first[one][three]" {
		t.Errorf("sent %q", got)
	}
}

// TestDropAtTheHead: a message whose predecessor was sent to its last byte is dropped like any other.
func TestDropAtTheHead(t *testing.T) {
	_, l, a := blocked(t, echoServer())
	k := &MessageClass{Policy: OverflowKeepLatest, MaxMessages: 1}
	submit(t, l, a, k.Wrap("[one]"))
	a.room = len("irst")
	l.Iterate()
	submit(t, l, a, k.Wrap("[two]"))
	if got := a.drain(t, l); got != "first[two]" {
		t.Errorf("sent %q", got)
	}
}

// TestClassRefuses: close and reject tell the writer; on the loop at once.
func TestClassRefuses(t *testing.T) {
	reject := &MessageClass{Name: "picky", Policy: OverflowReject, MaxBytes: 8}
	var got error
	srv := cutServer(func(ctx *Context, msg string) error { got = ctx.Write(reject.Wrap(msg)); return nil })
	_, l, a := blocked(t, srv)
	a.send("12345678;1;")
	l.Iterate()
	var re *ClassError
	if !errors.Is(got, ErrBackpressure) || !errors.As(got, &re) || re.Dropped || re.Class != reject || !strings.Contains(got.Error(), "refused: ") || !strings.Contains(got.Error(), "limit 8") {
		t.Errorf("Write = %v", got)
	}
	submit(t, l, a, reject.Wrap("x")) // from elsewhere the loop refuses it, and the connection lives
	if n := reject.Stats().Rejected; n != 2 {
		t.Errorf("%d refused, want 2", n)
	}
	if out := a.drain(t, l); out != "first12345678" {
		t.Errorf("sent %q", out)
	}
	a.room = 0
	strict := &MessageClass{Policy: OverflowClose, MaxMessages: 1}
	submit(t, l, a, strict.Wrap("1"))
	submit(t, l, a, strict.Wrap("2"))
	a.wantEnd(t, "after a second message", CloseBackpressureLimit)
}

// TestClassBeyondMax: Watermarks.Max is a bound of every class; the ordinary messages' policy stays its own.
func TestClassBeyondMax(t *testing.T) {
	srv := echoServer()
	srv.Watermarks = Watermarks{Low: 10, High: 20, Max: 30}
	_, l, a := blocked(t, srv)
	k := &MessageClass{Policy: OverflowDropOldest}
	submit(t, l, a, k.Wrap("[1 123456]"))
	submit(t, l, a, "0123456789")
	submit(t, l, a, k.Wrap("[2 123456]")) // 34 bytes: the first one goes
	if q := a.conn.QueuedBytes(); q != 24 {
		t.Errorf("%d bytes queued, want 24", q)
	}
	if err := a.conn.Write(k.Wrap(strings.Repeat("x", 40))); !errors.Is(err, ErrBackpressure) {
		t.Errorf("Write beyond twice Max = %v", err)
	}
	if got := a.drain(t, l); got != "first0123456789[2 123456]" {
		t.Errorf("sent %q", got)
	}
	a.wantEnd(t, "in the end", CloseUnset)
}

// inner writes the parts of a message as messages of a class of their own.
type inner struct{ class *MessageClass }

func (h inner) HandleWrite(ctx *Context, msg any) error {
	if err := ctx.Write(h.class.Wrap("{")); err != nil {
		return err
	}
	return ctx.Write(msg)
}

// TestClassInsideAClass: what is part of a message stays with it, whatever class it has itself.
func TestClassInsideAClass(t *testing.T) {
	srv := cutServer(func(*Context, string) error { return nil })
	add := srv.Init
	part := &MessageClass{Name: "part", Policy: OverflowDropNewest, MaxMessages: 1}
	srv.Init = func(p *Pipeline) error { _ = add(p); return p.Add("inner", inner{part}) }
	_, l, a := blocked(t, srv)
	k := &MessageClass{Policy: OverflowDropOldest, MaxMessages: 2}
	for _, m := range []string{"1", "2", "3"} {
		submit(t, l, a, k.Wrap(m))
	}
	if got := a.drain(t, l); got != "{first{2{3" {
		t.Errorf("sent %q", got)
	}
}

// framing puts head and tail around a message, in three writes; where it runs on a pool, there.
type framing struct{}

func (framing) HandleWrite(ctx *Context, msg any) error {
	for _, part := range []any{"<", msg, ">"} {
		if err := ctx.Write(part); err != nil {
			return err
		}
	}
	return nil
}

// TestClassThroughThePipeline: encoders see the bare message; all they write for it is queued and dropped as one, on the
// loop.
func TestClassThroughThePipeline(t *testing.T) {
	srv := cutServer(func(*Context, string) error { return nil })
	add := srv.Init
	srv.Init = func(p *Pipeline) error { _ = add(p); return p.Add("framing", framing{}) }
	_, l, a := blocked(t, srv)
	k := &MessageClass{Policy: OverflowKeepLatest, MaxMessages: 1}
	for _, m := range []string{"1", "2", "3"} {
		submit(t, l, a, k.Wrap(m))
	}
	if got := a.drain(t, l); got != "<first><3>" {
		t.Errorf("sent %q", got)
	}
}

// TestClassSurvivesAPool: a message keeps its class on its way through an encoder on a pool.
func TestClassSurvivesAPool(t *testing.T) {
	pool, err := executor.NewFixed(executor.Options{Name: "encoders", Workers: 1, Queue: 4})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pool.Close() })
	srv := cutServer(func(*Context, string) error { return nil })
	add := srv.Init
	srv.Init = func(p *Pipeline) error { _ = add(p); return p.Add("upper", upper{}, On(pool)) }
	st, l := newStage(t, srv)
	a := st.connect(l)
	a.room = 0
	k := &MessageClass{Policy: OverflowKeepLatest, MaxMessages: 1}
	for _, m := range []any{"a", k.Wrap("b"), k.Wrap("c")} {
		submit(t, l, a, m)
		for c := a.conn; c.counts.encoding.Load() > 0 || l.Tasks.Depth() > 0; {
			l.Iterate()
		}
	}
	if got := a.drain(t, l); got != "AC" || k.Stats().Dropped != 1 {
		t.Errorf("sent %q, %d dropped", got, k.Stats().Dropped)
	}
}

type upper struct{}

func (upper) HandleWrite(ctx *Context, msg any) error {
	return ctx.Write(strings.ToUpper(msg.(string)))
}

// TestBadClass: a class that makes no sense is refused by name, and the message released.
func TestBadClass(t *testing.T) {
	var got error
	var k *MessageClass
	srv := cutServer(func(ctx *Context, msg string) error { got = ctx.Write(k.Wrap(msg)); return nil })
	st, l := newStage(t, srv)
	for field, bad := range map[string]*MessageClass{"Policy": {Policy: 99}, "MaxMessages": {MaxMessages: -1}, "MaxBytes": {MaxBytes: -1}} {
		k = bad
		st.connect(l).send("x;")
		l.Iterate()
		if got == nil || !strings.Contains(got.Error(), "MessageClass."+field) {
			t.Errorf("%s: %v", field, got)
		}
	}
	if err := (&Server{Init: func(*Pipeline) error { return nil }, Overflow: OverflowDropOldest}).Listen("tcp", "127.0.0.1:0"); err == nil || !strings.Contains(err.Error(), "Server.Overflow") {
		t.Errorf("Listen = %v", err)
	}
}

// TestDropsAgainstModel: with messages of every kind and size and a socket that takes a random number of bytes now and
// then, what arrives is whole messages in the order of writing, every ordinary one of them, and the bytes are counted
// exactly.
func TestDropsAgainstModel(t *testing.T) {
	for seed := range uint64(60) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		_, l, a := blocked(t, echoServer())
		classes := []*MessageClass{
			nil,
			{Name: "o", Policy: OverflowDropOldest, MaxMessages: 3},
			{Name: "k", Policy: OverflowKeepLatest, MaxBytes: 4000},
			{Name: "n", Policy: OverflowDropNewest, MaxMessages: 2},
		}
		type sent struct {
			k    *MessageClass
			text string
		}
		written := []sent{{nil, "first"}}
		for i := range 200 {
			k := classes[rnd.IntN(len(classes))]
			text := fmt.Sprintf("<%d %s>", i, strings.Repeat("x", rnd.IntN(3)*rnd.IntN(3000)))
			var msg any = text
			switch rnd.IntN(3) {
			case 0:
				msg = []byte(text)
			case 1:
				msg = [][]byte{[]byte(text[:2]), []byte(text[2:])}
			}
			if k != nil {
				msg = k.Wrap(msg)
			}
			written = append(written, sent{k, text})
			if err := a.conn.Write(msg); err != nil {
				t.Fatal(err)
			}
			if rnd.IntN(2) == 0 {
				l.Iterate()
			}
			if rnd.IntN(4) == 0 {
				a.room = rnd.IntN(3000)
				l.Iterate()
			}
			if rnd.IntN(4) == 0 {
				l.Iterate()
				if q, n := a.conn.QueuedBytes(), queueLen(a.conn); q != int64(n) {
					t.Fatalf("seed %d: %d bytes counted, %d queued", seed, q, n)
				}
			}
		}
		out, lost := a.drain(t, l), 0
		for _, w := range written {
			if rest, ok := strings.CutPrefix(out, w.text); ok {
				out = rest
			} else if w.k == nil {
				t.Fatalf("seed %d: the ordinary message %.20q is not next in %.40q", seed, w.text, out)
			} else {
				lost++
			}
		}
		dropped := 0
		for _, k := range classes[1:] {
			dropped += int(k.Stats().Dropped)
		}
		if out != "" || lost != dropped || lost == 0 {
			t.Fatalf("seed %d: %q left over, %d lost, %d counted", seed, out, lost, dropped)
		}
	}
}

func queueLen(c *Conn) (n int) {
	for s := c.out.Head; s != nil; s = s.Next {
		n += s.Len()
	}
	return n
}

// TestDroppedBuffersAreReleased: counted memory of a dropped message is given back at once, that of a closed connection
// with it.
func TestDroppedBuffersAreReleased(t *testing.T) {
	_, l, a := blocked(t, echoServer())
	k := &MessageClass{Policy: OverflowKeepLatest, MaxMessages: 1}
	pool := buf.NewSharedPool(0, nil)
	var all []*buf.Shared
	for range 4 {
		m := pool.Get(2000)
		all = append(all, m)
		submit(t, l, a, k.Wrap(m.Retain()))
	}
	for i, m := range all {
		if want := 1 + i/3; m.Refs() != want {
			t.Errorf("message %d has %d references, want %d", i, m.Refs(), want)
		}
	}
	a.conn.Close(CloseNormal)
	l.Iterate()
	if n := all[3].Refs(); n != 1 {
		t.Errorf("the last message has %d references after the close", n)
	}
}

// gossip writes each of its connection's messages, with a class, to another connection as well.
type gossip struct {
	class *MessageClass
	to    *Context
	own   *Context
}

func (g *gossip) HandleOpen(ctx *Context) error { g.own = ctx; return nil }

func (g *gossip) HandleWrite(ctx *Context, msg any) error {
	if g.to != nil {
		if err := g.to.Write(g.class.Wrap("[" + msg.(string) + "]")); err != nil {
			return err
		}
	}
	return ctx.Write(msg)
}

// TestClassesOfTwoConnections: a message of a class that a handler writes to another connection, while one of its own
// connection is on its way, has the policy of its class there, and neither takes the other's bytes.
func TestClassesOfTwoConnections(t *testing.T) {
	var made []*gossip
	ticks := &MessageClass{Name: "ticks", Policy: OverflowDropNewest, MaxMessages: 1}
	srv := echoServer()
	srv.Init = func(p *Pipeline) error {
		made = append(made, &gossip{class: ticks})
		return p.Add("gossip", made[len(made)-1])
	}
	st, l := newStage(t, srv)
	a, b := st.connect(l), st.connect(l)
	b.room = 0
	made[0].to = made[1].own
	submit(t, l, b, "first")
	mine := &MessageClass{Name: "mine", Policy: OverflowDropOldest, MaxMessages: 5}
	for _, m := range []string{"1", "2", "3"} {
		submit(t, l, a, mine.Wrap(m))
	}
	if got := a.drain(t, l); got != "123" {
		t.Errorf("the first connection sent %q", got)
	}
	if got := b.drain(t, l); got != "first[1]" || b.conn.CloseError() != nil || ticks.Stats().Dropped != 2 {
		t.Errorf("the second one sent %q, dropped %d, end %v", got, ticks.Stats().Dropped, b.conn.CloseError())
	}
}
