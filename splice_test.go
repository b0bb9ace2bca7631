package eddy

import (
	"errors"
	"strings"
	"syscall"
	"testing"

	"github.com/go-eddy/eddy/buf"
	"github.com/go-eddy/eddy/internal/meter"
	"github.com/go-eddy/eddy/internal/sys"
)

// spliceRig is a loop with pairs of connections, of which each first one is relayed to the second.
type spliceRig struct {
	t     *testing.T
	st    *stage
	l     *loop
	pairs []*splicePair
}

type splicePair struct {
	from, to *actor
	ctx, out *Context
	read     int // bytes that HandleRead was given
	moved    int // and that it was not
	sent     strings.Builder
}

// spliceEnd is the only handler of a connection.
type spliceEnd struct {
	ctx *Context
	p   *splicePair
}

func (e *spliceEnd) HandleOpen(ctx *Context) error {
	e.ctx = ctx
	return nil
}

func (e *spliceEnd) HandleRead(_ *Context, msg any) error {
	if e.p == nil {
		return nil
	}
	b := msg.(*buf.Bytes).Bytes()
	e.p.read += len(b)
	return e.p.out.WriteBytes(b)
}

func newSpliceRig(t *testing.T) *spliceRig {
	r := &spliceRig{t: t}
	r.st, r.l = newStage(t, &Server{Loops: 1, Init: func(p *Pipeline) error { return p.Add("end", new(spliceEnd)) }})
	return r
}

// pair makes one whose bulk has begun: what comes next may be spliced.
func (r *spliceRig) pair() *splicePair {
	p := &splicePair{from: r.st.connect(r.l), to: r.st.connect(r.l)}
	e := p.from.conn.head.node.handler.(*spliceEnd)
	e.p, p.ctx, p.out = p, p.from.conn.head, p.to.conn.head
	p.ctx.SpliceTo(p.out, func(n int) { p.moved += n })
	r.send(p, spliceFrom)
	r.l.Iterate()
	if r.l.Iterate(); p.moved != 0 || p.read != spliceFrom {
		r.t.Fatalf("the first bytes: %d moved, %d read", p.moved, p.read)
	}
	r.pairs = append(r.pairs, p)
	return p
}

func (r *spliceRig) send(p *splicePair, n int) {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte('a' + (p.sent.Len()+i)%23)
	}
	p.sent.Write(b)
	p.from.send(string(b))
}

// settled checks that all bytes have come, in order, and that no pipe is left with any.
func (r *spliceRig) settled(p *splicePair) {
	r.t.Helper()
	if got := p.to.drain(r.t, r.l); got != p.sent.String() || p.read+p.moved != len(got) {
		r.t.Errorf("%d bytes have come of %d, or others; %d were read and %d moved", len(got), p.sent.Len(), p.read, p.moved)
	}
	if n := r.l.mem.pipes.lent; n != 0 || p.from.conn.paused != 0 {
		r.t.Errorf("%d pipes are lent, paused %b", n, p.from.conn.paused)
	}
}

// TestSplice: bulk goes past the handler, in order with what is written, and counts everywhere as if it had not. Few
// bytes go to the handler again.
func TestSplice(t *testing.T) {
	r := newSpliceRig(t)
	p := r.pair()
	p.to.room = 100
	r.send(p, 50_000)
	r.l.Iterate()
	c, l := p.to.conn, r.l
	if p.moved != 50_000 || p.from.conn.paused != pauseSplice || c.QueuedBytes() != 50_000-100 || l.Counters[meter.Spliced] != 50_000 {
		t.Errorf("%d moved, paused %b, %d queued, %d counted", p.moved, p.from.conn.paused, c.QueuedBytes(), l.Counters[meter.Spliced])
	}
	if in := l.Counters[meter.BytesIn]; in != uint64(p.sent.Len()) {
		t.Errorf("%d bytes in, want %d", in, p.sent.Len())
	}
	if err := p.out.WriteBytes([]byte("between")); err != nil {
		t.Fatal(err)
	}
	p.sent.WriteString("between")
	p.read += len("between")
	r.send(p, 100)
	l.Iterate()
	if p.moved != 50_000 {
		t.Error("bytes were moved before the pipe was empty")
	}
	p.to.room = 1 << 40
	for range 3 {
		l.Iterate()
	}
	if p.moved != 50_100 {
		t.Errorf("%d moved", p.moved)
	}
	r.send(p, 100)
	r.l.Iterate()
	if p.moved != 50_100 {
		t.Error("few bytes behind few bytes were moved")
	}
	r.settled(p)
	if n := len(r.st.pipes); n != 1 {
		t.Errorf("%d pipes are open, want the idle one", n)
	}
	l.Stopping = true
	if l.Iterate(); len(r.st.pipes) != 0 {
		t.Error("the loop has ended and keeps a pipe")
	}
}

// TestSpliceNot: bytes come to the handler while anything forbids that they pass it by, and are moved again afterwards.
func TestSpliceNot(t *testing.T) {
	reader := Handle(func(ctx *Context, m *buf.Bytes) error { ctx.FireRead(m); return nil })
	add := func(a *actor, h any) {
		if err := a.conn.head.Pipeline().AddFirst("first", h); err != nil {
			t.Fatal(err)
		}
	}
	remove := func(a *actor) {
		if err := a.conn.head.Pipeline().Remove("first"); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		forbid, allow func(r *spliceRig, p *splicePair)
	}{
		"a reader in front": {func(_ *spliceRig, p *splicePair) { add(p.from, reader) }, func(_ *spliceRig, p *splicePair) { remove(p.from) }},
		"a writer in front": {func(_ *spliceRig, p *splicePair) { add(p.to, new(passing)) }, func(_ *spliceRig, p *splicePair) { remove(p.to) }},
		"no pipe": {
			func(r *spliceRig, _ *splicePair) { r.st.pipeErr = syscall.EMFILE },
			func(r *spliceRig, _ *splicePair) { r.st.pipeErr = nil; r.st.now.Add(int64(pipeRetry)) },
		},
		"no splice": {
			func(r *spliceRig, _ *splicePair) { r.st.spliceErr = errors.ErrUnsupported },
			func(r *spliceRig, p *splicePair) {
				r.st.spliceErr = nil
				p.ctx.SpliceTo(p.out, func(n int) { p.moved += n })
			},
		},
		"ended": {
			func(_ *spliceRig, p *splicePair) { p.ctx.SpliceTo(nil, nil) },
			func(_ *spliceRig, p *splicePair) { p.ctx.SpliceTo(p.out, func(n int) { p.moved += n }) },
		},
		"another loop": {
			func(r *spliceRig, p *splicePair) {
				p.ctx.SpliceTo(r.st.connect(r.st.loop("worker-1")).conn.head, func(n int) { p.moved += n })
			},
			func(_ *spliceRig, p *splicePair) { p.ctx.SpliceTo(p.out, func(n int) { p.moved += n }) },
		},
		"unwritable": {
			func(_ *spliceRig, p *splicePair) { p.to.room = 0; _ = p.out.Write(make([]byte, p.to.conn.high())) },
			func(_ *spliceRig, p *splicePair) { p.to.room = 1 << 40 },
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newSpliceRig(t)
			p := r.pair()
			c.forbid(r, p)
			for range 3 {
				r.send(p, 20_000)
				r.l.Iterate()
			}
			if p.moved != 0 || p.read != spliceFrom+60_000 {
				t.Errorf("%d bytes were moved, %d read", p.moved, p.read)
			}
			c.allow(r, p)
			for range 3 {
				r.l.Iterate()
				r.send(p, 20_000)
			}
			if r.l.Iterate(); p.moved == 0 {
				t.Error("nothing was moved when it was allowed again")
			}
			if name != "unwritable" {
				r.settled(p)
			}
		})
	}
}

// passing is a handler that sees what is written.
type passing struct{}

func (*passing) HandleWrite(ctx *Context, msg any) error { return ctx.Write(msg) }

// TestSpliceToTheEnd: whatever becomes of the bytes in a pipe, their source waits for as long as they are there and then
// goes on, and the pipe is kept or closed.
func TestSpliceToTheEnd(t *testing.T) {
	for name, c := range map[string]struct {
		end   func(p *splicePair)
		come  bool // the bytes come all the same
		pipes int  // open in the end
		goes  bool // the source goes on
	}{
		"sent":                   {func(p *splicePair) { p.to.room = 1 << 40 }, true, 1, true},
		"the target is closed":   {func(p *splicePair) { p.to.conn.Close(CloseNormal) }, false, 0, true},
		"the target fails":       {func(p *splicePair) { p.to.room, p.to.writeErr = 1, syscall.ECONNRESET }, false, 0, true},
		"the target ends":        {func(p *splicePair) { p.to.conn.CloseAfterFlush(CloseNormal); p.to.room = 1 << 40 }, true, 1, true},
		"its side ends":          {func(p *splicePair) { _ = p.to.conn.CloseWrite(); p.to.room = 1 << 40 }, true, 1, true},
		"the source is closed":   {func(p *splicePair) { p.from.conn.Close(CloseNormal); p.to.room = 1 << 40 }, true, 1, false},
		"both are closed":        {func(p *splicePair) { p.from.conn.Close(CloseNormal); p.to.conn.Close(CloseNormal) }, false, 0, false},
		"the source's peer ends": {func(p *splicePair) { p.from.eof, p.to.room = true, 1<<40 }, true, 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := newSpliceRig(t)
			p := r.pair()
			p.to.room = 0
			r.send(p, 20_000)
			r.l.Iterate()
			reads := p.from.reads
			for range 3 {
				r.l.Iterate()
			}
			if p.moved != 20_000 || p.from.reads != reads || p.from.conn.paused != pauseSplice {
				t.Fatalf("%d moved; %d reads while they wait, paused %b", p.moved, p.from.reads-reads, p.from.conn.paused)
			}
			c.end(p)
			for range 4 {
				r.l.Iterate()
			}
			if got := string(p.to.out) == p.sent.String(); got != c.come {
				t.Errorf("the bytes have come: %v, want %v", got, c.come)
			}
			if n := len(r.st.pipes); n != c.pipes || r.l.mem.pipes.lent != 0 {
				t.Errorf("%d pipes are open, want %d, %d lent", n, c.pipes, r.l.mem.pipes.lent)
			}
			if c.goes {
				reads = p.from.reads
				p.from.send("more")
				r.l.Iterate()
				if p.from.conn.paused != 0 || p.from.reads == reads {
					t.Errorf("the source does not go on, paused %b", p.from.conn.paused)
				}
			} else if p.from.conn.CloseError() == nil {
				t.Error("the source has not ended")
			}
		})
	}
}

// TestPipesAreBounded: at most maxPipes hold bytes. Others are read as ever. In the end a few pipes are kept.
func TestPipesAreBounded(t *testing.T) {
	r := newSpliceRig(t)
	for range maxPipes + 6 {
		p := r.pair()
		p.to.room = 0
		r.send(p, 20_000)
		r.l.Iterate()
	}
	moved := 0
	for _, p := range r.pairs {
		if p.moved > 0 {
			moved++
		}
	}
	if n := len(r.st.pipes); n != maxPipes || moved != maxPipes || r.l.mem.pipes.lent != maxPipes {
		t.Errorf("%d pipes are open, %d lent, for %d pairs", n, r.l.mem.pipes.lent, moved)
	}
	for _, p := range r.pairs {
		p.to.room = 1 << 40
	}
	for range 3 {
		r.l.Iterate()
	}
	for _, p := range r.pairs {
		r.settled(p)
	}
	if n := len(r.st.pipes); n != maxIdlePipes || len(r.l.mem.pipes.idle) != n {
		t.Errorf("%d pipes are open afterwards, want %d", n, maxIdlePipes)
	}
}

// TestSpliceAllocatesNothing: moved bulk costs no memory of the process.
func TestSpliceAllocatesNothing(t *testing.T) {
	r := newSpliceRig(t)
	p := r.pair()
	p.ctx.SpliceTo(p.out, func(n int) { p.moved += n })
	r.l.sock = noSockets{r.l.sock}
	p.from.endless = true
	if n := testing.AllocsPerRun(100, func() {
		p.from.conn.frames = frameBudget
		r.l.processConn(p.from.conn, sys.Readable)
		r.l.flushDirty()
		r.l.resumeReady()
	}); n != 0 || p.moved < 100*spliceFrom {
		t.Errorf("%v allocations for each piece, %d bytes moved", n, p.moved)
	}
}

// noSockets takes and gives without looking.
type noSockets struct{ sys.Sockets }

func (noSockets) SpliceIn(_ int, _ sys.Pipe, n int) (int, error)  { return n, nil }
func (noSockets) SpliceOut(_ int, _ sys.Pipe, n int) (int, error) { return n, nil }
func (noSockets) ClosePipe(sys.Pipe) error                        { return nil }
