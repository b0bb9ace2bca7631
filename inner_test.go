package eddy

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-eddy/eddy/buf"
	"github.com/go-eddy/eddy/internal/meter"
	"github.com/go-eddy/eddy/internal/testkit"
)

// envelopes is an outer protocol: the bytes of the inner one in pieces, each behind its length.
type envelopes struct{ msg buf.Bytes }

func (d *envelopes) Decode(ctx *Context, view []byte) (int, error) {
	if len(view) < 2 {
		return 0, nil
	}
	n := 2 + int(binary.BigEndian.Uint16(view))
	if len(view) < n {
		return 0, nil
	}
	d.msg.Reset(view[2:n])
	ctx.FireRead(&d.msg)
	return n, nil
}

func envelope(s string) string {
	return string(binary.BigEndian.AppendUint16(nil, uint16(len(s)))) + s
}

// innerServer gives each message of a protocol inside envelopes, n of them in each other, to f.
func innerServer(n int, f func(ctx *Context, msg string) error) *Server {
	return &Server{Loops: 1, Logger: slog.New(slog.DiscardHandler), Init: func(p *Pipeline) error {
		for i := range n {
			p.Add(fmt.Sprint("envelopes", i), &envelopes{})
		}
		p.Add("cut", &cut{})
		return p.Add("app", Handle(func(ctx *Context, m *buf.Bytes) error { return f(ctx, string(m.Bytes())) }))
	}}
}

func echoCut(ctx *Context, msg string) error { return ctx.Write([]byte(msg + ";")) }

// TestInnerDecoder: however the pieces are cut, on the wire and in their envelopes, the inner decoder sees its own stream.
func TestInnerDecoder(t *testing.T) {
	var words []string
	for i := range 100 {
		words = append(words, strings.Repeat("x", i%50)+fmt.Sprint(i)+";")
	}
	plain := strings.Join(words, "")
	for _, depth := range []int{1, 2, 3} {
		for _, piece := range []int{1, 3, 7, 1000, 60000} {
			for _, read := range []int{1, 5, 1 << 20} {
				if piece == 1 && read == 1 && depth > 1 {
					continue
				}
				st, l := newStage(t, innerServer(depth, echoCut))
				a := st.connect(l)
				wire := plain
				for d := range depth {
					wire = inPieces(wire, piece+d, envelope)
				}
				inPieces(wire, read, func(s string) string { a.send(s); return "" })
				for i := 0; len(a.in) > 0 || len(l.lists.ready) > 0 || len(a.out) < len(plain); i++ {
					if i > 200_000 {
						break
					}
					l.Iterate()
				}
				if string(a.out) != plain {
					t.Fatalf("depth %d, pieces of %d, reads of %d: %d bytes came back, want %d", depth, piece, read, len(a.out), len(plain))
				}
				if c := a.conn; c.in.Held() || c.innerBytes() != 0 || c.held.in != 0 || c.paused != 0 {
					t.Fatalf("depth %d, pieces of %d, reads of %d: the idle connection holds %d bytes, pauses %b", depth, piece, read, c.held.in, c.paused)
				}
				if n := l.Counters[meter.Messages]; n != uint64(len(words)) {
					t.Fatalf("%d messages counted, want %d", n, len(words))
				}
			}
		}
	}
}

func inPieces(s string, n int, f func(string) string) string {
	var b strings.Builder
	for len(s) > 0 {
		k := min(n, len(s))
		b.WriteString(f(s[:k]))
		s = s[k:]
	}
	return b.String()
}

// TestInnerDecoderOnSockets: the same on the backend that the environment names, a byte at a time.
func TestInnerDecoderOnSockets(t *testing.T) {
	srv := innerServer(2, echoCut)
	if err := srv.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	defer srv.Close()
	c, err := net.Dial("tcp", srv.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	wire := inPieces(inPieces("hello;world;", 1, envelope), 5, envelope)
	for i := range wire {
		if _, err := io.WriteString(c, wire[i:i+1]); err != nil {
			t.Fatal(err)
		}
	}
	_ = c.SetReadDeadline(time.Now().Add(testkit.Patience))
	got := make([]byte, len("hello;world;"))
	if _, err := io.ReadFull(c, got); err != nil || string(got) != "hello;world;" {
		t.Errorf("got %q, %v", got, err)
	}
}

// TestInnerFrameBudget: the frames of an envelope are within the budget of the connection; the rest goes on in the next
// iteration without new bytes, and what comes behind the envelope waits for it.
func TestInnerFrameBudget(t *testing.T) {
	var got []string
	srv := innerServer(1, func(_ *Context, msg string) error { got = append(got, msg); return nil })
	st, l := newStage(t, srv)
	a := st.connect(l)
	a.send(envelope(strings.Repeat("a;", 3*frameBudget)) + envelope("b;") + envelope("c"))
	l.Serve(l.Wait())
	if len(got) != frameBudget-1 { // the envelope is one of them
		t.Fatalf("%d messages at once, want %d", len(got), frameBudget-1)
	}
	if c := a.conn; !c.has(listedReady) || c.held.in == 0 || int(c.held.in) != c.in.Len()+c.innerBytes() {
		t.Fatalf("the rest is not continued, or %d bytes are counted", c.held.in)
	}
	for range 4 {
		l.Iterate()
	}
	if len(got) != 3*frameBudget+1 || got[len(got)-1] != "b" {
		t.Fatalf("%d messages, the last %q", len(got), got[len(got)-1])
	}
	if a.conn.has(listedReady) {
		t.Error("it is continued with nothing to do")
	}
	a.send(envelope(";"))
	l.Iterate()
	if got[len(got)-1] != "c" {
		t.Errorf("the last message is %q, want c", got[len(got)-1])
	}
}

// TestInnerPause: a pause stops the inner messages after the current one. What has come stays, is counted, and goes on
// when the pause ends, without new bytes and before those behind it.
func TestInnerPause(t *testing.T) {
	var got []string
	srv := innerServer(2, func(ctx *Context, msg string) error {
		got = append(got, msg)
		if msg == "stop" {
			ctx.Conn().PauseRead()
		}
		return nil
	})
	st, l := newStage(t, srv)
	a := st.connect(l)
	a.send(envelope(envelope("a;stop;b;c;") + envelope("d;")))
	a.send(envelope(envelope("e;")))
	for range 3 {
		l.Iterate()
	}
	if !slices.Equal(got, []string{"a", "stop"}) {
		t.Fatalf("paused, and handled %q", got)
	}
	if a.conn.held.in == 0 || a.conn.idle() || a.conn.interest != 0 {
		t.Fatalf("paused: %d bytes counted, idle %v, interest %d", a.conn.held.in, a.conn.idle(), a.conn.interest)
	}
	a.conn.ResumeRead()
	for range 3 {
		l.Iterate()
	}
	if want := []string{"a", "stop", "b", "c", "d", "e"}; !slices.Equal(got, want) {
		t.Fatalf("handled %q, want %q", got, want)
	}
	if !a.conn.idle() {
		t.Error("it holds bytes after the last message")
	}
}

// TestInnerWatermark: the outbound queue's pause ends inner frames, too, also when a budget had stopped them before.
func TestInnerWatermark(t *testing.T) {
	srv := innerServer(1, func(ctx *Context, _ string) error { return ctx.Write(make([]byte, 1<<10)) })
	srv.Watermarks = Watermarks{Low: 1 << 10, High: 10 << 10, Max: 20 << 10}
	st, l := newStage(t, srv)
	a := st.connect(l)
	a.room = 0
	a.send(envelope(strings.Repeat("m;", 100)))
	for range 5 {
		l.Iterate()
	}
	if q := a.conn.QueuedBytes(); q != 10<<10 {
		t.Fatalf("%d bytes queued, want the high watermark", q)
	}
	for range 200 {
		a.room += 4 << 10
		l.Iterate()
	}
	if len(a.out) != 100<<10 {
		t.Errorf("%d bytes came, want %d", len(a.out), 100<<10)
	}
}

// TestInnerEnd: the peer's end inside a message is an incomplete request, whichever decoder has a part of one.
func TestInnerEnd(t *testing.T) {
	for in, want := range map[string]CloseReason{
		envelope("whole;"):                     ClosePeerClosed,
		envelope("part"):                       CloseIncompleteRequest,
		envelope("whole;") + "\x00":            CloseIncompleteRequest,
		envelope("whole;") + envelope("p")[:2]: CloseIncompleteRequest,
	} {
		for _, half := range []bool{false, true} {
			srv := innerServer(1, echoCut)
			srv.CloseOnEOF = !half
			st, l := newStage(t, srv)
			a := st.connect(l)
			a.send(in)
			l.Iterate()
			a.eof = true
			for range 3 {
				l.Iterate()
			}
			a.wantEnd(t, fmt.Sprintf("%q, half-close %v", in, half), want)
		}
	}
}

// TestInnerReadDeadline: an inner message has to be complete within ReadTimeout of its first byte; complete envelopes do
// not extend that, and its own end does.
func TestInnerReadDeadline(t *testing.T) {
	srv := innerServer(1, func(*Context, string) error { return nil })
	srv.ReadTimeout = time.Second
	st, l := newStage(t, srv)
	drip, quick := st.connect(l), st.connect(l)
	for range 8 {
		drip.send(envelope("x"))
		quick.send(envelope("x;y"))
		st.pass(l, 200*time.Millisecond, 50*time.Millisecond)
	}
	drip.wantEnd(t, "a message in many envelopes", CloseReadTimeout)
	quick.wantEnd(t, "a message in each envelope", CloseUnset)
	st.pass(l, 1500*time.Millisecond, 50*time.Millisecond)
	quick.wantEnd(t, "the rest did not come", CloseReadTimeout)
}

// TestInnerBeforeEnd: frames in hand come before the peer's end.
func TestInnerBeforeEnd(t *testing.T) {
	got := 0
	st, l := newStage(t, innerServer(1, func(*Context, string) error { got++; return nil }))
	a := st.connect(l)
	a.send(envelope(strings.Repeat("m;", 3*frameBudget)))
	a.eof = true
	for range 6 {
		l.Iterate()
	}
	a.wantEnd(t, "after the last message", ClosePeerClosed)
	if got != 3*frameBudget {
		t.Errorf("%d messages before the end, want %d", got, 3*frameBudget)
	}
}

// rushed pauses reads at the first look at a message and takes nothing, and who resumes them is faster than its return. It
// takes the message at the second look.
type rushed struct {
	cut
	paused bool
}

func (d *rushed) Decode(ctx *Context, view []byte) (int, error) {
	if d.paused = !d.paused; d.paused {
		ctx.Conn().PauseRead()
		ctx.Conn().ResumeRead() // as another goroutine would
		return 0, nil
	}
	return d.cut.Decode(ctx, view)
}

// TestResumeInsideDecode: a decoder that pauses reads is asked again when they are resumed, also if that was before it
// returned, and also if nothing more comes from the peer.
func TestResumeInsideDecode(t *testing.T) {
	for depth := range 3 {
		srv := innerServer(depth, echoCut)
		inner := srv.Init
		srv.Init = func(p *Pipeline) error { return errors.Join(inner(p), p.Replace("cut", "cut", &rushed{})) }
		st, l := newStage(t, srv)
		a := st.connect(l)
		wire := "one;"
		for range depth {
			wire = envelope(wire)
		}
		a.send(wire)
		for range 10 {
			l.Iterate()
		}
		if string(a.out) != "one;" {
			t.Errorf("depth %d: %q came back", depth, a.out)
		}
		if c := a.conn; c.in.Held() || c.innerBytes() != 0 || c.held.in != 0 || c.paused != 0 {
			t.Errorf("depth %d: the idle connection holds %d bytes, pauses %b", depth, c.held.in, c.paused)
		}
	}
}

// bodied says that everything behind an "h" is a body.
type bodied struct{}

func (bodied) Decode(ctx *Context, view []byte) (int, error) {
	if view[0] == 'h' {
		ctx.Conn().SetPhase(PhaseReadingBody)
	}
	if view[0] == ';' {
		ctx.Conn().SetPhase(PhaseReadingHeader)
	}
	return 1, nil
}

// TestInnerBodyDeadline: an inner decoder tells header from body as the first one does.
func TestInnerBodyDeadline(t *testing.T) {
	srv := innerServer(1, nil)
	srv.Init = func(p *Pipeline) error {
		p.Add("envelopes", &envelopes{})
		p.Add("pass", pushes(0, nil))
		return p.Add("bodied", bodied{})
	}
	srv.BodyTimeout = time.Second
	st, l := newStage(t, srv)
	a, b := st.connect(l), st.connect(l)
	a.send(envelope("h1"))
	b.send(envelope("h1;"))
	l.Iterate()
	if a.conn.Phase() != PhaseReadingBody || b.conn.Phase() != PhaseReadingHeader {
		t.Fatalf("phases %v and %v", a.conn.Phase(), b.conn.Phase())
	}
	for range 4 {
		a.send(envelope("2"))
		st.pass(l, 300*time.Millisecond, 50*time.Millisecond)
	}
	a.wantEnd(t, "a long body", CloseBodyTimeout)
	b.wantEnd(t, "a complete one", CloseUnset)
}

// TestInnerReplace: what an inner decoder has left goes to the one that takes its place, as with an upgrade, also when the
// place is empty for a while, and to a handler that is no decoder as it is.
func TestInnerReplace(t *testing.T) {
	raw := Handle(func(ctx *Context, m *buf.Bytes) error { return ctx.Write("<" + string(m.Bytes()) + ">") })
	for name, change := range map[string]func(p *Pipeline) error{
		"replaced by a decoder": func(p *Pipeline) error { return p.Replace("cut", "bars", &bars{}) },
		"removed, then added": func(p *Pipeline) error {
			return errors.Join(p.Remove("app"), p.Remove("cut"), p.Add("bars", &bars{}), p.Add("app2", raw))
		},
		"replaced by a handler": func(p *Pipeline) error { return errors.Join(p.Remove("app"), p.Replace("cut", "raw", raw)) },
		"removed":               func(p *Pipeline) error { return p.Remove("cut") },
		"removed with all": func(p *Pipeline) error {
			return errors.Join(p.Remove("envelopes0"), p.Remove("app"), p.Remove("cut"), p.Add("raw", raw))
		},
	} {
		srv := innerServer(1, func(ctx *Context, msg string) error {
			if msg == "up" {
				return change(ctx.Pipeline())
			}
			return ctx.Write("<" + msg + ">")
		})
		st, l := newStage(t, srv)
		a := st.connect(l)
		rest := "new|er|"
		a.send(envelope("old;up;" + rest))
		for range 3 {
			l.Iterate()
		}
		want := "<old><" + rest + ">"
		if strings.Contains(name, "dec") || strings.Contains(name, "added") {
			want = "<old><new><er>"
		}
		if string(a.out) != want {
			t.Errorf("%s: %q, want %q", name, a.out, want)
		}
		if a.ended() != CloseUnset || !a.conn.idle() {
			t.Errorf("%s: ended with %v, idle %v", name, a.ended(), a.conn.idle())
		}
	}
}

// TestInnerReplaceBetweenReads: a part that waits for its rest is offered to the new decoder at once.
func TestInnerReplaceBetweenReads(t *testing.T) {
	st, l := newStage(t, innerServer(1, func(ctx *Context, msg string) error { return ctx.Write("<" + msg + ">") }))
	a := st.connect(l)
	a.send(envelope("one;two|thr"))
	l.Iterate()
	p := a.conn.head.Pipeline()
	if err := p.Replace("cut", "bars", &bars{}); err != nil {
		t.Fatal(err)
	}
	l.Iterate()
	a.send(envelope("ee|"))
	l.Iterate()
	if want := "<one><two><three>"; string(a.out) != want {
		t.Errorf("%q, want %q", a.out, want)
	}
	for i := range 10 {
		if err := p.Replace([]string{"bars", "more"}[i%2], []string{"more", "bars"}[i%2], &bars{}); err != nil {
			t.Fatal(err)
		}
		a.send(envelope("x"))
		l.Iterate()
	}
	if n := len(connInner(a.conn)); n > 2 {
		t.Errorf("%d entries are kept after many decoders", n)
	}
}

func connInner(c *Conn) (all []*innerInput) {
	for e := c.firstInner(); e != nil; e = e.next {
		all = append(all, e)
	}
	return all
}

// bars is cut for messages that end with a bar.
type bars struct{ msg buf.Bytes }

func (d *bars) Decode(ctx *Context, view []byte) (int, error) {
	i := strings.IndexByte(string(view), '|')
	if i < 0 {
		return 0, nil
	}
	d.msg.Reset(view[:i])
	ctx.FireRead(&d.msg)
	return i + 1, nil
}

// TestInnerErrors: an inner decoder's error ends the connection with its reason, and so does one that is given bytes
// without end while nobody may take them.
func TestInnerErrors(t *testing.T) {
	big := buf.Own(make([]byte, innerBound/2))
	for name, c := range map[string]struct {
		outer ReadHandler
		inner Decoder
		want  CloseReason
	}{
		"error": {pushes(0, nil), decodeFunc(func(*Context, []byte) (int, error) {
			return 0, WithReason(CloseProtocolError, errors.New("no"))
		}), CloseProtocolError},
		"too many bytes consumed": {pushes(0, nil), decodeFunc(func(_ *Context, v []byte) (int, error) { return len(v) + 1, nil }), CloseInternalError},
		"flood while paused": {pushes(4, big), decodeFunc(func(ctx *Context, _ []byte) (int, error) {
			ctx.Conn().PauseRead()
			return 1, nil
		}), CloseBackpressureLimit},
		"bytes in its own call": {pushes(0, nil), decodeFunc(func(ctx *Context, v []byte) (int, error) {
			ctx.prev.Load().fireRead([]byte("more"))
			return len(v), nil
		}), CloseInternalError},
	} {
		srv := innerServer(0, nil)
		srv.Init = func(p *Pipeline) error {
			p.Add("outer", c.outer)
			return p.Add("inner", c.inner)
		}
		st, l := newStage(t, srv)
		a := st.connect(l)
		a.send("some")
		for range 3 {
			l.Iterate()
		}
		a.eof = true
		l.Iterate()
		a.wantEnd(t, name, c.want)
	}
}

type decodeFunc func(*Context, []byte) (int, error)

func (f decodeFunc) Decode(ctx *Context, view []byte) (int, error) { return f(ctx, view) }

// pushes passes on what it reads, and then n times m.
func pushes(n int, m any) ReadHandler {
	return Handle(func(ctx *Context, b *buf.Bytes) error {
		ctx.FireRead(b)
		for range n {
			ctx.FireRead(m)
		}
		return nil
	})
}

// TestInnerOtherMessages: what is no bytes passes an inner decoder, or reaches its own HandleRead.
func TestInnerOtherMessages(t *testing.T) {
	var got []any
	srv := innerServer(0, nil)
	srv.Init = func(p *Pipeline) error {
		p.Add("outer", Handle(func(ctx *Context, b *buf.Bytes) error {
			ctx.FireRead(42)
			ctx.FireRead([]byte("a;b"))
			ctx.FireRead(ctx.Conn().Buffers().Copy([]byte(";")))
			return nil
		}))
		p.Add("cut", &cut{})
		return p.Add("app", Handle(func(_ *Context, m any) error {
			if b, ok := m.(*buf.Bytes); ok {
				m = string(b.Bytes())
			}
			got = append(got, m)
			return nil
		}))
	}
	st, l := newStage(t, srv)
	a := st.connect(l)
	a.send("x")
	l.Iterate()
	if want := []any{42, "a", "b"}; !slices.Equal(got, want) {
		t.Errorf("the tail was given %v, want %v", got, want)
	}
	if n := st.crew.shared.Live(); n != 0 {
		t.Errorf("%d counted buffers are left", n)
	}
}

// TestInnerClose: a connection that ends gives the inner leftovers back.
func TestInnerClose(t *testing.T) {
	st, l := newStage(t, innerServer(1, echoCut))
	a := st.connect(l)
	a.send(envelope(strings.Repeat("x", 5000)))
	l.Iterate()
	if a.conn.held.in != 5000 {
		t.Fatalf("%d bytes counted, want 5000", a.conn.held.in)
	}
	free := l.mem.segments.Retained()
	a.conn.beginClose(CloseNormal, nil)
	l.Iterate()
	if l.mem.segments.Retained() <= free || l.Stats.Value(meter.HeldIn) != 0 {
		t.Errorf("%d bytes are back, %d counted", l.mem.segments.Retained()-free, l.Stats.Value(meter.HeldIn))
	}
}

// TestInnerAllocatesNothing: neither whole messages nor parts of them cost an allocation.
func TestInnerAllocatesNothing(t *testing.T) {
	srv := innerServer(0, nil)
	srv.Init = func(p *Pipeline) error {
		p.Add("envelopes", &envelopes{})
		p.Add("cut", &cut{})
		return p.Add("app", Handle(func(*Context, *buf.Bytes) error { return nil }))
	}
	st, l := newStage(t, srv)
	a := st.connect(l)
	whole, part, rest := []byte(envelope("a;b;c;")), []byte(envelope("part")), []byte(envelope("y;"))
	n := testing.AllocsPerRun(200, func() {
		for _, b := range [][]byte{whole, part, rest} {
			a.conn.frames = frameBudget
			a.conn.decodeScratch(append(l.mem.scratch[:0], b...))
		}
	})
	if n > 0 {
		t.Errorf("%v allocations per round", n)
	}
}
