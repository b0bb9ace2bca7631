package eddy

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-eddy/eddy/executor"
)

// encodedBy is a server whose connections have one WriteHandler.
func encodedBy(f writeFunc, opts ...AddOption) *Server {
	return countedServer(func(p *Pipeline) error { return p.Add("encoder", f, opts...) })
}

// batcher keeps messages until there are three.
type batcher struct {
	held []byte
	let  []*FutureHold
}

func (b *batcher) HandleWrite(ctx *Context, msg any) error {
	b.held = append(b.held, msg.(string)...)
	b.let = append(b.let, ctx.HoldFuture())
	if len(b.let) < 3 {
		return nil
	}
	let, held := b.let, b.held
	*b = batcher{}
	err := let[0].Write(func() error { return ctx.Write(held) })
	let[0].Release(errEncoder) // is too late
	if err != nil {
		return err
	}
	ctx.WriteFuture("!").OnDone(func(f *Future) {
		let[1].Release(f.Err())
		let[2].Release(f.Err())
		let[2].Release(errEncoder)
	})
	return nil
}

// TestHeldFutures: a handler that keeps messages keeps their futures, on the loop and on a pool; they end with what it makes of
// them, or with the connection.
func TestHeldFutures(t *testing.T) {
	pool, err := executor.NewFixed(executor.Options{Name: "encoders", Workers: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pool.Close() })
	for name, opts := range map[string][]AddOption{"loop": nil, "pool": {On(pool)}} {
		b := &batcher{}
		st, l := newStage(t, encodedBy(b.HandleWrite, opts...))
		a := st.connect(l)
		c := a.conn
		a.room = 0
		var fs []*Future
		step := func() {
			stepUntil(t, "the pool", func() bool { l.Iterate(); return c.counts.encoding.Load() == 0 && !l.Tasks.Waiting() })
		}
		states := func(want string) {
			t.Helper()
			got := ""
			for _, f := range fs {
				got += f.standing().String()[:1]
			}
			if got != want {
				t.Errorf("%s: the futures are %s, want %s", name, got, want)
			}
		}
		for i := range 5 {
			fs = append(fs, c.WriteFuture(fmt.Sprint(i)))
			step()
		}
		states("ppppp")
		a.room = 1 << 20
		step()
		step()
		states("ssspp")
		c.Close(CloseProtocolError)
		step()
		states("sssff")
		if out := string(a.out); out != "012!" || !closedFor(CloseProtocolError)(fs[4].Err()) {
			t.Errorf("%s: sent %q; what was kept failed with %v", name, out, fs[4].Err())
		}
		b.let[0].Release(nil) // too late
		if hold := c.head.HoldFuture(); hold != nil || hold.Write(func() error { return errEncoder }) != errEncoder {
			t.Errorf("%s: outside HandleWrite there is %v", name, hold)
		}
	}
}

// TestPartsOfAFuture: what a handler writes with futures of its own is part of the one it works for, which fails with the first
// of them.
func TestPartsOfAFuture(t *testing.T) {
	pool, err := executor.NewFixed(executor.Options{Name: "encoders", Workers: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pool.Close() })
	for name, opts := range map[string][]AddOption{"loop": nil, "pool": {On(pool)}} {
		for _, fail := range []bool{false, true} {
			var parts []*Future
			st, l := newStage(t, encodedBy(func(ctx *Context, msg any) error {
				for _, b := range []string{"<", msg.(string), ">"} {
					parts = append(parts, ctx.WriteFuture(b))
				}
				if fail {
					parts = append(parts, ctx.WriteFuture(42))
				}
				return nil
			}, opts...))
			a := st.connect(l)
			c := a.conn
			a.room = 0
			f := c.WriteFuture("message")
			step := func() {
				stepUntil(t, "the pool", func() bool { l.Iterate(); return c.counts.encoding.Load() == 0 && !l.Tasks.Waiting() })
			}
			step()
			if want := map[bool]futureState{false: futurePending, true: futureFailed}[fail]; f.standing() != want || len(parts) < 3 {
				t.Errorf("%s: with %d parts in the queue it is %v, %v", name, len(parts), f.standing(), f.Err())
			}
			a.room = len("<messag")
			l.Iterate()
			if parts[0].standing() != futureSucceeded || parts[1].standing() != futurePending {
				t.Errorf("%s: inside the second part the parts are %v and %v", name, parts[0].standing(), parts[1].standing())
			}
			a.room = 1 << 20
			step()
			if want := map[bool]futureState{false: futureSucceeded, true: futureFailed}[fail]; f.standing() != want || string(a.out) != "<message>" {
				t.Errorf("%s: in the end it is %v, %q was sent", name, f.standing(), a.out)
			}
			if fail && (parts[3].standing() != futureFailed || f.Err() != parts[3].Err()) {
				t.Errorf("%s: failed with %v, its part with %v", name, f.Err(), parts[3].Err())
			}
		}
	}
}

// TestFuturesInAClass: futures that a handler has for parts of a message of a class share its fate.
func TestFuturesInAClass(t *testing.T) {
	var parts []*Future
	srv := encodedBy(func(ctx *Context, msg any) error {
		parts = append(parts, ctx.WriteFuture("<"), ctx.WriteFuture(msg))
		return ctx.Write(">")
	})
	st, l := newStage(t, srv)
	a := st.connect(l)
	a.room = 1
	submit(t, l, a, "first")
	k := &MessageClass{Name: "ticks", Policy: OverflowKeepLatest, MaxMessages: 1}
	fs := []*Future{a.conn.WriteFuture(k.Wrap("1")), a.conn.WriteFuture(k.Wrap("2")), a.conn.WriteFuture(k.Wrap("3"))}
	l.Iterate()
	submit(t, l, a, "last")
	if fs[2].Cancel() {
		t.Error("a message whose handler uses futures was cancelled")
	}
	if got := a.drain(t, l); got != "<first><3><last>" {
		t.Errorf("sent %q", got)
	}
	for i, f := range fs {
		if want := []func(error) bool{droppedBy("ticks"), droppedBy("ticks"), is(nil)}[i]; !want(f.Err()) {
			t.Errorf("message %d: %v", i, f.Err())
		}
		for j, p := range parts[2+2*i : 4+2*i] {
			if want := []func(error) bool{droppedBy("ticks"), droppedBy("ticks"), is(nil)}[i]; !want(p.Err()) {
				t.Errorf("part %d of message %d: %v", j, i, p.Err())
			}
		}
	}
	last := a.conn.WriteFuture(k.Wrap("4"))
	for range 3 {
		l.Iterate()
	}
	if n := len(parts); last.standing() != futureSucceeded || parts[n-1].standing() != futureSucceeded || parts[n-2].standing() != futureSucceeded {
		t.Errorf("the last one is %v, %v", last.standing(), last.Err())
	}
}

// TestErrorOfAFutureIsItsOwn: it reaches no ErrorHandler and leaves the connection open, unlike that of a Write.
func TestErrorOfAFutureIsItsOwn(t *testing.T) {
	pool, err := executor.NewFixed(executor.Options{Name: "encoders", Workers: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pool.Close() })
	for name, opts := range map[string][]AddOption{"loop": nil, "pool": {On(pool)}} {
		for _, future := range []bool{true, false} {
			st, l := newStage(t, encodedBy(func(*Context, any) error { return errEncoder }, opts...))
			a := st.connect(l)
			c := a.conn
			if future {
				f := c.WriteFuture("x")
				stepUntil(t, "the failure", func() bool { l.Iterate(); return f.standing() == futureFailed })
				wantErr(t, f.Err(), errEncoder)
			} else {
				write(t, c, "x")
				stepUntil(t, "the close", func() bool { l.Iterate(); return c.closedError() != nil })
			}
			for range 3 {
				l.Iterate()
			}
			if closed := c.closedError() != nil; closed == future {
				t.Errorf("%s: after the failure of a write with a future (%v): %v", name, future, c.closedError())
			}
		}
	}
}

// gatherer makes one piece of all that is written in a batch.
type gatherer struct {
	held string
	fail error
}

func (g *gatherer) HandleWrite(ctx *Context, msg any) error {
	g.held += msg.(string)
	ctx.FlushLater()
	return nil
}

func (g *gatherer) HandleFlush(ctx *Context) error {
	held := g.held
	g.held = ""
	if g.fail != nil || held == "" {
		return g.fail
	}
	return ctx.Write("(" + held + ")")
}

func (g *gatherer) HandleFinish(ctx *Context, _ CloseReason) { _ = g.HandleFlush(ctx) }

// TestFuturesOfGatheredWrites: the future of a message that a FlushHandler gathers completes with the bytes of the piece it went
// into, also when that is the last one of an orderly end, and fails with the handler.
func TestFuturesOfGatheredWrites(t *testing.T) {
	for name, fail := range map[string]error{"flushed": nil, "farewell": nil, "cut": nil, "failed": errEncoder} {
		outer, inner := &gatherer{fail: fail}, &gatherer{}
		st, l := newStage(t, countedServer(func(p *Pipeline) error { _ = p.Add("outer", outer); return p.Add("inner", inner) }))
		a := st.connect(l)
		a.room = 0
		fs := []*Future{a.conn.WriteFuture("1"), a.conn.WriteFuture("2")}
		switch name {
		case "farewell":
			a.conn.CloseAfterFlush(CloseNormal)
		case "cut":
			a.conn.Close(CloseProtocolError)
		}
		l.Iterate()
		for i, f := range fs {
			if done := name == "failed" || name == "cut"; (f.standing() != futurePending) != done || f.Cancel() {
				t.Errorf("%s: before it was sent message %d is %v, %v", name, i, f.standing(), f.Err())
			}
		}
		a.room = len("((12)")
		l.Iterate()
		if s := fs[1].standing(); fail == nil && name != "cut" && s != futurePending {
			t.Errorf("%s: before its last byte was sent a message is %v", name, s)
		}
		a.room = 1 << 20
		for range 3 {
			l.Iterate()
		}
		want, out := is(nil), "((12))"
		switch name {
		case "cut":
			want, out = closedFor(CloseProtocolError), ""
		case "failed":
			want, out = is(errEncoder), ""
		}
		for i, f := range fs {
			if !want(f.Err()) || f.standing() == futurePending {
				t.Errorf("%s: message %d is %v, %v", name, i, f.standing(), f.Err())
			}
		}
		if string(a.out) != out {
			t.Errorf("%s: sent %q, want %q", name, a.out, out)
		}
	}
}

// TestCancelInsideAHandler: what a WriteHandler is working on cannot be cancelled; when it is done, and all is still in one
// place, it can.
func TestCancelInsideAHandler(t *testing.T) {
	var f *Future
	inside := true
	st, l := newStage(t, encodedBy(func(ctx *Context, msg any) error {
		inside = f != nil && f.Cancel()
		return severalWrites(ctx, msg)
	}))
	a := st.connect(l)
	a.room = 1
	submit(t, l, a, "first")
	f = a.conn.WriteFuture("second")
	l.Iterate()
	if inside || f.standing() != futurePending || !f.Cancel() {
		t.Errorf("cancelled inside the handler: %v; it is %v", inside, f.standing())
	}
	if got := a.drain(t, l); got != "<first>" {
		t.Errorf("sent %q", got)
	}
}

// TestCancelMovesTheWatermarks: the bytes of a cancelled write leave the counters, and the connection becomes writable.
func TestCancelMovesTheWatermarks(t *testing.T) {
	var told []bool
	srv := countedServer(func(p *Pipeline) error {
		return p.Add("marks", writabilityFunc(func(_ *Context, w bool) error { told = append(told, w); return nil }))
	})
	srv.Watermarks = Watermarks{Low: 100, High: 1000, Max: 10_000}
	_, l, a := blocked(t, srv)
	f := a.conn.WriteFuture(make([]byte, 2000))
	l.Iterate()
	if a.conn.Writable() || len(told) != 1 || told[0] {
		t.Fatalf("above the mark: writable %v, told %v", a.conn.Writable(), told)
	}
	if !f.Cancel() || f.Cancel() {
		t.Error("it can be cancelled never, or twice")
	}
	l.Iterate()
	if q := a.conn.QueuedBytes(); q != 4 || !a.conn.Writable() || len(told) != 2 || !told[1] {
		t.Errorf("after the cancel %d bytes are queued, writable %v, told %v", q, a.conn.Writable(), told)
	}
	last := a.conn.WriteFuture("last")
	l.Iterate()
	a.room = 2
	l.Iterate() // offers everything
	if last.Cancel() {
		t.Error("what was offered to the kernel was cancelled")
	}
	if got := a.drain(t, l); got != "firstlast" {
		t.Errorf("sent %q", got)
	}
}

type writabilityFunc func(ctx *Context, writable bool) error

func (f writabilityFunc) HandleWritability(ctx *Context, writable bool) error {
	return f(ctx, writable)
}

// TestCancelTakesNothingOfOthers: what handlers write while they are told of a watermark, in the middle of another message, is
// not part of that.
func TestCancelTakesNothingOfOthers(t *testing.T) {
	srv := countedServer(func(p *Pipeline) error {
		return p.Add("marks", writabilityFunc(func(ctx *Context, w bool) error {
			if !w {
				_ = ctx.Write(42) // refused
				return ctx.Write("[full]")
			}
			return nil
		}))
	})
	srv.Watermarks = Watermarks{Low: 100, High: 1000, Max: 10_000}
	_, l, a := blocked(t, srv)
	f := a.conn.WriteFuture(strings.Repeat("x", 1500))
	l.Iterate()
	if f.standing() != futurePending {
		t.Errorf("a refused write of another handler made it %v, %v", f.standing(), f.Err())
	}
	canceled := f.Cancel()
	want := "first[full]"
	if !canceled {
		want = "first" + strings.Repeat("x", 1500) + "[full]"
	}
	if got := a.drain(t, l); got != want {
		t.Errorf("cancelled: %v, sent %d bytes: %.30q", canceled, len(got), got)
	}
}

// TestCancelEmptiesTheQueue: a cancel that leaves nothing to write leaves the connection as if nothing had been written,
// whether the loop meets it in its task or on its way to the socket.
func TestCancelEmptiesTheQueue(t *testing.T) {
	for name, step := range map[string]func(l *loop, c *Conn){
		"task":  func(l *loop, _ *Conn) { l.Iterate() },
		"flush": func(_ *loop, c *Conn) { c.flush() },
	} {
		st, l := newStage(t, countedServer(nil))
		a := st.connect(l)
		c := a.conn
		f, g := c.head.WriteFuture("one"), c.head.WriteFuture(make([]byte, 5000))
		if c.phase != PhaseWriting || !g.Cancel() || !f.Cancel() {
			t.Fatalf("%s: in phase %v the futures are %v and %v", name, c.phase, f.standing(), g.standing())
		}
		step(l, c)
		if c.phase != PhaseReadingHeader || c.QueuedBytes() != 0 || c.out.Head != nil || c.out.Tail != nil || c.has(marked) || len(a.writes) > 0 {
			t.Errorf("%s: phase %v, %d bytes queued, %d writes", name, c.phase, c.QueuedBytes(), len(a.writes))
		}
		write(t, c, "two")
		for range 2 {
			l.Iterate()
		}
		if string(a.out) != "two" {
			t.Errorf("%s: then %q was sent", name, a.out)
		}
	}
}

// TestCancelRacesWithTheLoop: with cancels and writes from several goroutines and a peer that reads in bursts, exactly the
// messages whose futures succeeded arrive, each whole and in the order of its writer.
func TestCancelRacesWithTheLoop(t *testing.T) {
	ctx, peer := opened(t, &Server{Loops: 1, SendBuffer: 64 << 10, FlushTimeout: 5 * time.Minute}, nil)
	c := ctx.conn
	const writers, each = 3, 600
	all := make([][]*Future, writers)
	var wg sync.WaitGroup
	var told atomic.Int32
	for k := range writers {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(k), 3))
			for i := range each {
				n := 8 + rnd.IntN(pickSize(rnd))
				b := make([]byte, n)
				binary.BigEndian.PutUint32(b, uint32(n))
				binary.BigEndian.PutUint16(b[4:], uint16(k))
				binary.BigEndian.PutUint16(b[6:], uint16(i))
				f := c.WriteFuture(b)
				f.OnDone(func(*Future) { told.Add(1) })
				all[k] = append(all[k], f)
				for range rnd.IntN(3) {
					all[k][max(0, i-rnd.IntN(20))].Cancel()
				}
				if i%50 == 0 {
					_ = f.Wait(t.Context())
				}
			}
		})
	}
	got := make([]map[int]bool, writers)
	last := make([]int, writers)
	for k := range got {
		got[k], last[k] = map[int]bool{}, -1
	}
	read := make(chan error, 1)
	go func() {
		head, body := make([]byte, 8), make([]byte, 1<<20)
		for {
			if _, err := io.ReadFull(peer, head); err != nil {
				read <- err
				return
			}
			n, k, i := int(binary.BigEndian.Uint32(head)), int(binary.BigEndian.Uint16(head[4:])), int(binary.BigEndian.Uint16(head[6:]))
			if k >= writers || i <= last[k] || n < 8 || n > len(body) {
				read <- fmt.Errorf("message %d of writer %d, %d bytes, behind %d", i, k, n, last[k])
				return
			}
			last[k], got[k][i] = i, true
			if _, err := io.ReadFull(peer, body[:n-8]); err != nil {
				read <- errors.New("the stream ended inside a message")
				return
			}
		}
	}()
	wg.Wait()
	c.CloseAfterFlush(CloseNormal)
	if err := <-read; err != io.EOF {
		t.Fatal(err)
	}
	peer.Close()
	<-c.CloseFuture().Done()
	until(t, "the listeners", func() bool { return told.Load() == writers*each })
	canceled := 0
	for k := range all {
		for i, f := range all[k] {
			switch st := f.standing(); {
			case st == futureCanceled:
				canceled++
				fallthrough
			case st == futureFailed:
				if got[k][i] {
					t.Errorf("message %d of writer %d arrived, and its future is %v", i, k, st)
				}
			case !got[k][i]:
				t.Errorf("message %d of writer %d did not arrive, and its future is %v", i, k, st)
			}
		}
	}
	if q := c.QueuedBytes(); q != 0 || canceled == 0 {
		t.Errorf("%d bytes are counted at the end; %d cancelled", q, canceled)
	}
}

func pickSize(rnd *rand.Rand) int { return []int{1, 100, 3000, 30_000}[rnd.IntN(4)] }

// TestWriteNeedsNoFuture: a connection that is written to without futures has none, nor an extension for them.
func TestWriteNeedsNoFuture(t *testing.T) {
	st, l := newStage(t, countedServer(nil))
	a := st.connect(l)
	write(t, a.conn, "from elsewhere")
	if err := a.conn.head.Write("from a handler"); err != nil {
		t.Fatal(err)
	}
	l.Iterate()
	if a.conn.ext.Load() != nil || a.conn.has(marked) {
		t.Error("plain writes have made an extension")
	}
}
