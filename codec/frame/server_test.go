package frame

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/internal/enginetest"
	"github.com/go-eddy/eddy/internal/testkit"
	"github.com/go-eddy/eddy/responder"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is a server whose application does what the payload says.
type rig struct {
	t     testing.TB
	srv   *eddy.Server
	clock *enginetest.Clock // with set.clock
	pool  *executor.Pool
	s     *Server
	gate  chan struct{}
	began chan uint64
	runs  atomic.Int64

	mu   sync.Mutex
	ends []eddy.CloseReason
	errs []error
}

type set struct {
	workers, queue int
	o              Options
	srv            eddy.Server
	clock          bool // the server's time is the test's
}

func newRig(t testing.TB, c *set) *rig {
	t.Helper()
	r := &rig{t: t, gate: make(chan struct{}), began: make(chan uint64, 1000)}
	var err error
	r.pool, err = executor.NewFixed(executor.Options{Name: t.Name(), Workers: max(1, c.workers), Queue: cmp.Or(c.queue, 100)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.pool.Shutdown(context.Background()) })
	o := c.o
	if o.Route == nil {
		o.Pool = r.pool
	}
	if o.Handle == nil && o.Append == nil {
		o.Handle = r.handle
	}
	if r.s, err = NewServer(o); err != nil {
		t.Fatal(err)
	}
	r.srv = &c.srv
	r.srv.Loops = 1
	r.s.Configure(r.srv)
	if o.ReadTimeout == 0 {
		r.srv.ReadTimeout = time.Hour // the client of a busy machine is slow
	}
	if c.clock {
		r.clock = enginetest.NewClock(t, r.srv)
	}
	init := r.srv.Init
	r.srv.Init = func(p *eddy.Pipeline) error {
		if err := init(p); err != nil {
			return err
		}
		return p.Add("ends", r)
	}
	enginetest.Serve(t, r.srv)
	return r
}

func (r *rig) HandleClose(_ *eddy.Context, reason eddy.CloseReason, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ends, r.errs = append(r.ends, reason), append(r.errs, err)
}

// ended waits for the end of a connection and returns why.
func (r *rig) ended() (eddy.CloseReason, error) {
	r.t.Helper()
	testkit.Eventually(r.t, "the close", func() bool { r.mu.Lock(); defer r.mu.Unlock(); return len(r.ends) > 0 })
	r.mu.Lock()
	defer r.mu.Unlock()
	reason, err := r.ends[0], r.errs[0]
	r.ends, r.errs = r.ends[1:], r.errs[1:]
	return reason, err
}

func (r *rig) handle(ctx context.Context, f *Frame) ([]byte, error) {
	r.runs.Add(1)
	word, rest, _ := strings.Cut(string(f.Payload), " ")
	switch word {
	case "wait":
		r.began <- f.ID
		select {
		case <-r.gate:
			return []byte("waited"), nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	case "status":
		var s int
		fmt.Sscan(rest, &s)
		return nil, fmt.Errorf("wrapped: %w", &StatusError{Status: Status(s), RetryAfter: 1500 * time.Millisecond, Message: "as asked"})
	case "error":
		return nil, errors.New("my error")
	case "details":
		var n int
		fmt.Sscan(rest, &n)
		return nil, &StatusError{Status: StatusAppError, Message: "no", Details: strings.Repeat("d", n)}
	case "panic":
		panic("secret")
	case "big":
		var n int
		fmt.Sscan(rest, &n)
		return bytes.Repeat([]byte("b"), n), nil
	case "part":
		return f.Payload[len("part "):], nil
	case "none":
		return nil, nil
	}
	return []byte(f.Op().String() + " " + string(f.Payload)), nil
}

// raw is a client that knows the specification and nothing of the package's encoding.
type raw struct {
	net.Conn
	t testing.TB
	r *bufio.Reader
}

func (r *rig) dial() *raw {
	r.t.Helper()
	return newRaw(r.t, enginetest.Dial(r.t, r.srv.Addr().String()))
}

// dialNarrow connects with little room in the kernel: what is not read soon stays with the server.
func (r *rig) dialNarrow() *raw {
	r.t.Helper()
	return newRaw(r.t, enginetest.DialNarrow(r.t, r.srv.Addr().String()))
}

func newRaw(t testing.TB, c net.Conn) *raw { return &raw{c, t, bufio.NewReader(c)} }

func rawFrame(id uint64, op byte, payload string) []byte {
	b := make([]byte, 16+len(payload))
	b[0], b[1], b[2], b[11] = 0xED, 0xD1, 1, op
	binary.BigEndian.PutUint64(b[3:], id)
	binary.BigEndian.PutUint32(b[12:], uint32(len(payload)))
	copy(b[16:], payload)
	return b
}

func (c *raw) send(frames ...[]byte) {
	c.t.Helper()
	if _, err := c.Write(bytes.Join(frames, nil)); err != nil {
		c.t.Fatal(err)
	}
}

// sendPieces sends b in pieces that mostly arrive alone at the server.
func (r *rig) sendPieces(c *raw, b []byte, size int) {
	r.t.Helper()
	for ; len(b) > 0; b = b[min(size, len(b)):] {
		c.send(b[:min(size, len(b))])
		enginetest.Barrier(r.t, r.srv)
	}
}

func (c *raw) ask(id uint64, op byte, payload string) {
	c.t.Helper()
	c.send(rawFrame(id, op, payload))
}

type answer struct {
	id      uint64
	status  byte
	payload string
}

// read returns the next response. Of an error it leaves the retry time and the message, as "1500 text".
func (c *raw) read() answer {
	c.t.Helper()
	h := make([]byte, 16)
	if _, err := io.ReadFull(c.r, h); err != nil {
		c.t.Fatal(err)
	}
	if !bytes.Equal(h[:3], []byte{0xED, 0xD1, 1}) {
		c.t.Fatalf("header %X", h)
	}
	p := make([]byte, binary.BigEndian.Uint32(h[12:]))
	if _, err := io.ReadFull(c.r, p); err != nil {
		c.t.Fatal(err)
	}
	a := answer{binary.BigEndian.Uint64(h[3:]), h[11], string(p)}
	if a.status != 0 {
		end := 6
		if len(p) >= 6 {
			end += int(binary.BigEndian.Uint16(p[4:]))
		}
		if len(p) < end {
			c.t.Fatalf("status %d with %X", a.status, p)
		}
		a.payload = fmt.Sprintf("%d %s", binary.BigEndian.Uint32(p), p[6:end])
		if details := p[end:]; len(details) > 0 {
			a.payload += "|" + string(details)
		}
	}
	return a
}

func (c *raw) expect(want ...answer) {
	c.t.Helper()
	for _, w := range want {
		if got := c.read(); got != w {
			c.t.Fatalf("answer %.200v, want %.200v", got, w)
		}
	}
}

func (c *raw) expectEnd() {
	c.t.Helper()
	if rest, err := io.ReadAll(c.r); err != nil || len(rest) > 0 {
		c.t.Fatalf("%X, %v, want the end", rest, err)
	}
	c.Close()
}

// TestViolationsOnTheWire: a real server answers each violation with exactly the bytes of the vector and ends the
// connection with its reason, however the bytes arrive, and although no payload ever does.
func TestViolationsOnTheWire(t *testing.T) {
	r := newRig(t, &set{})
	for _, v := range vectors(t, "violations") {
		for _, slow := range []bool{false, true} {
			t.Run(fmt.Sprint(v.name, slow), func(t *testing.T) {
				c := r.dial()
				c.ask(1, 0, "first") // what came before is answered
				if slow {
					r.sendPieces(c, v.frame, 1)
				} else {
					c.send(v.frame)
				}
				c.expect(answer{1, 0, "first"})
				got, err := io.ReadAll(c.r)
				if err != nil || !bytes.Equal(got, v.answer) {
					t.Errorf("answer %X, %v, want\n%X", got, err, v.answer)
				}
				c.Close()
				reason, cause := r.ended()
				if _, ok := errors.AsType[*ViolationError](cause); !ok || reason.String() != v.fields["reason"] {
					t.Errorf("closed with %v, %v, want %v", reason, cause, v.fields["reason"])
				}
			})
		}
	}
}

// TestNothingIsAllocatedForLengths: a thousand connections that announce the longest payload make the server hold
// nothing but what they sent.
func TestNothingIsAllocatedForLengths(t *testing.T) {
	r := newRig(t, &set{})
	head := rawFrame(1, 1, "")
	binary.BigEndian.PutUint32(head[12:], 1<<20)
	const n = 200
	for range n {
		r.dial().send(head)
	}
	testkit.Eventually(t, "the headers", func() bool { return r.srv.Stats().Loops[0].BytesIn >= n*HeaderSize })
	if held := enginetest.Stats(t, r.srv).Memory.Inbound; held > n*1024 {
		t.Errorf("%d bytes are held for %d headers", held, n)
	}
}

// TestOperations: what each operation answers.
func TestOperations(t *testing.T) {
	r := newRig(t, &set{o: Options{MaxPayload: 1000}})
	c := r.dial()
	for _, x := range []struct {
		op      byte
		payload string
		status  byte
		want    string
	}{
		{0, "hi", 0, "hi"},
		{0, "", 0, ""},
		{1, "echo", 0, "echo"},
		{1, "", 0, ""},
		{2, "x", 0, "CALL x"},
		{16, "y", 0, "OP 16 y"},
		{255, "", 0, "OP 255 "},
		{2, "none", 0, ""},
		{2, "part of it", 0, "of it"},
		{2, "big 1000", 0, strings.Repeat("b", 1000)},
		{2, "big 1001", 9, "0 response of 1001 bytes, limit 1000"},
		{2, "error", 3, "0 my error"},
		{2, "details 992", 3, "0 no|" + strings.Repeat("d", 992)},
		{2, "details 993", 3, "0 no"},
		{2, "panic", 4, "0 the handler panicked"},
		{2, "status 1", 1, "1500 as asked"},
		{2, "status 10", 10, "1500 as asked"},
		{2, "status 5", 5, "1500 as asked"},
		{2, "status 0", 4, "0 the handler chose the status OK"},
		{2, "status 64", 4, "0 the handler chose the status PROTOCOL_ERROR"},
		{1, strings.Repeat("e", 1000), 0, strings.Repeat("e", 1000)},
	} {
		c.ask(42, x.op, x.payload)
		c.expect(answer{42, x.status, x.want})
	}
	c.ask(1, 1, strings.Repeat("e", 1001))
	c.expect(answer{1, 9, "0 payload of 1001 bytes, limit 1000"})
	c.expectEnd()
	if reason, _ := r.ended(); reason != eddy.CloseFrameTooLarge {
		t.Errorf("closed with %v", reason)
	}
}

// TestWithoutHandler: a server without an application knows PING and ECHO.
func TestWithoutHandler(t *testing.T) {
	c := &set{}
	r := newRig(t, c)
	s, err := NewServer(Options{Pool: r.pool})
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.run(t.Context(), &Frame{ID: 1, Code: 16})
	if e, ok := errors.AsType[*StatusError](err); !ok || e.Status != StatusNotFound {
		t.Errorf("%v", err)
	}
	if p, err := s.run(t.Context(), &Frame{ID: 1, Code: uint8(Echo)}); p != nil || err != nil {
		t.Errorf("%v, %v", p, err)
	}
}

// TestByteByByte: requests that arrive in pieces of every size are answered like whole ones.
func TestByteByByte(t *testing.T) {
	r := newRig(t, &set{o: Options{Ordering: responder.ByRequest}})
	all := bytes.Join([][]byte{rawFrame(1, 0, "ping"), rawFrame(2, 1, "echo"), rawFrame(3, 3, "oneway"), rawFrame(4, 2, "call"), rawFrame(5, 0, "")}, nil)
	for _, size := range []int{1, 2, 7, 15, 16, 17, len(all)} {
		c := r.dial()
		r.sendPieces(c, all, size)
		c.expect(answer{1, 0, "ping"}, answer{2, 0, "echo"}, answer{4, 0, "CALL call"}, answer{5, 0, ""})
		c.Close()
	}
}

// TestLargestPayloads: payloads around the size of kept buffers, and the longest, go both ways unchanged.
func TestLargestPayloads(t *testing.T) {
	r := newRig(t, &set{workers: 2})
	c := r.dial()
	for _, n := range []int{keptBuffer - HeaderSize - 1, keptBuffer - HeaderSize, keptBuffer - HeaderSize + 1, 100_000, DefaultMaxPayload} {
		p := bytes.Repeat([]byte("0123456789abcdef"), n/16+1)[:n]
		go c.Write(bytes.Join([][]byte{rawFrame(1, 0, string(p)), rawFrame(2, 1, string(p)), rawFrame(3, 2, "part "+string(p[:n-5]))}, nil))
		got := map[uint64]string{}
		for range 3 {
			a := c.read()
			if a.status != 0 {
				t.Fatalf("%.100v", a)
			}
			got[a.id] = a.payload
		}
		if got[1] != string(p) || got[2] != string(p) || got[3] != string(p[:n-5]) {
			t.Errorf("payloads of %d bytes came back changed", n)
		}
	}
}

// TestFullPool: a full pool answers BUSY with advice, while PING is answered. A refused ONEWAY gets no answer.
func TestFullPool(t *testing.T) {
	r := newRig(t, &set{workers: 1, queue: 1, o: Options{RetryAfter: 250 * time.Millisecond}})
	c := r.dial()
	c.ask(1, 2, "wait")
	<-r.began
	c.send(rawFrame(2, 1, "queued"), rawFrame(3, 1, "refused"), rawFrame(4, 3, "refused"), rawFrame(5, 0, "alive"))
	c.expect(answer{3, 5, "250 no worker is free and no place to wait"}, answer{5, 0, "alive"})
	close(r.gate)
	c.expect(answer{1, 0, "waited"}, answer{2, 0, "queued"})
	if n := r.s.Stats().Rejected; n != 2 {
		t.Errorf("%d rejections counted, want 2", n)
	}
}

// TestIDs: a reused id is refused while the first is in flight, whatever the second is, and welcome afterwards.
func TestIDs(t *testing.T) {
	r := newRig(t, &set{workers: 2})
	c := r.dial()
	c.ask(7, 2, "wait")
	<-r.began
	const text = "0 a request with this id is in flight"
	c.send(rawFrame(7, 2, "x"), rawFrame(7, 0, "x"), rawFrame(7, 1, "x"), rawFrame(7, 3, "x"), rawFrame(8, 0, ""))
	c.expect(answer{7, 1, text}, answer{7, 1, text}, answer{7, 1, text}, answer{8, 0, ""})
	close(r.gate)
	c.expect(answer{7, 0, "waited"})
	c.ask(7, 2, "again")
	c.expect(answer{7, 0, "CALL again"})
	if n := r.runs.Load(); n != 2 {
		t.Errorf("%d requests ran, want 2", n)
	}
}

// TestCancel: a cancelled request is answered CANCELLED, once. A CANCEL without its request has no effect.
func TestCancel(t *testing.T) {
	r := newRig(t, &set{workers: 1, queue: 4})
	c := r.dial()
	c.send(rawFrame(1, 2, "wait"), rawFrame(2, 2, "waits for it"))
	<-r.began
	c.send(rawFrame(2, 4, ""), rawFrame(2, 4, ""), rawFrame(99, 4, ""), rawFrame(1, 4, "payloads of it are ignored"))
	c.expect(answer{2, 7, "0 "}, answer{1, 7, "0 "})
	c.ask(1, 2, "x")
	c.expect(answer{1, 0, "CALL x"})
	if n := r.runs.Load(); n != 2 {
		t.Errorf("%d requests ran, want 2: the cancelled one that waited is not run", n)
	}
}

// TestOneWay: ONEWAY is run and never answered, not even when it fails.
func TestOneWay(t *testing.T) {
	r := newRig(t, &set{o: Options{Ordering: responder.Serial}})
	c := r.dial()
	c.send(rawFrame(1, 3, "x"), rawFrame(2, 3, "error"), rawFrame(3, 3, "panic"), rawFrame(4, 3, "big 100"), rawFrame(5, 1, "after them"))
	c.expect(answer{5, 0, "after them"})
	if n := r.runs.Load(); n != 4 {
		t.Errorf("%d requests ran, want 4", n)
	}
}

// TestOrderings: the option's four values, as a client sees them.
func TestOrderings(t *testing.T) {
	for o, want := range map[responder.Ordering][]uint64{
		responder.ByCompletion: {2, 3, 1}, responder.ByRequest: {1, 2, 3}, responder.Serial: {1, 2, 3},
	} {
		r := newRig(t, &set{workers: 2, o: Options{Ordering: o}})
		c := r.dial()
		c.ask(1, 2, "wait")
		<-r.began
		c.ask(2, 0, "")
		if o == responder.ByCompletion {
			c.expect(answer{2, 0, ""})
		}
		c.ask(3, 1, "")
		if o == responder.ByCompletion {
			c.expect(answer{3, 0, ""})
			want = want[2:]
		}
		close(r.gate)
		for _, id := range want {
			if a := c.read(); a.id != id || a.status != 0 {
				t.Errorf("%v: answer %v, want that to %d", o, a, id)
			}
		}
	}
	r := newRig(t, &set{o: Options{Ordering: responder.NoPipelining}})
	c := r.dial()
	c.ask(1, 2, "wait")
	<-r.began
	c.ask(2, 0, "")
	c.expect(answer{2, 64, "0 a request before the response to the one before it"})
	c.expectEnd()
	if reason, _ := r.ended(); reason != eddy.CloseProtocolError {
		t.Errorf("closed with %v", reason)
	}
}

// TestDeadlines: an incomplete frame, an idle connection and a request each have their time.
func TestDeadlines(t *testing.T) {
	const limited, tick = time.Minute, 20 * time.Millisecond
	t.Run("defaults", func(t *testing.T) {
		s, err := NewServer(Options{Pool: new(executor.Pool)})
		if err != nil {
			t.Fatal(err)
		}
		var srv eddy.Server
		s.Configure(&srv)
		if srv.ReadTimeout != 10*time.Second || srv.IdleTimeout != 5*time.Minute {
			t.Errorf("%v, %v", srv.ReadTimeout, srv.IdleTimeout)
		}
		if within(-1, time.Second) != 0 || within(2, time.Second) != 2 {
			t.Error("limits")
		}
	})
	t.Run("frame", func(t *testing.T) {
		r := newRig(t, &set{clock: true, o: Options{ReadTimeout: limited}})
		c := r.dial()
		for i, b := range rawFrame(1, 1, "x")[:4] { // bytes keep coming, too slowly
			r.stays()
			c.send([]byte{b})
			testkit.Eventually(t, "the server to read", func() bool { return r.srv.Stats().Loops[0].BytesIn > uint64(i) })
			r.clock.Advance(limited/4 + tick)
		}
		c.expectEnd()
		if reason, _ := r.ended(); reason != eddy.CloseReadTimeout {
			t.Errorf("closed with %v", reason)
		}
	})
	t.Run("idle", func(t *testing.T) {
		r := newRig(t, &set{clock: true, o: Options{IdleTimeout: limited}})
		c := r.dial()
		c.ask(1, 2, "wait")
		<-r.began
		r.clock.Advance(2 * limited) // a request in flight is not idleness
		r.stays()
		close(r.gate)
		c.expect(answer{1, 0, "waited"})
		enginetest.Barrier(t, r.srv)
		r.clock.Advance(limited - tick)
		r.stays()
		r.clock.Advance(2 * tick)
		c.expectEnd()
		if reason, _ := r.ended(); reason != eddy.CloseIdleTimeout {
			t.Errorf("closed with %v", reason)
		}
	})
	t.Run("request", func(t *testing.T) {
		r := newRig(t, &set{clock: true, o: Options{Timeout: func(f *Frame) time.Duration {
			if string(f.Payload) == "wait" {
				return limited
			}
			return time.Hour
		}}})
		c := r.dial()
		c.ask(1, 2, "wait")
		<-r.began
		r.clock.Advance(limited - tick)
		c.ask(2, 0, "nothing yet")
		c.expect(answer{2, 0, "nothing yet"})
		r.clock.Advance(2 * tick)
		c.expect(answer{1, 6, "0 "})
		c.ask(1, 0, "goes on")
		c.expect(answer{1, 0, "goes on"})
	})
}

// stays fails the test if a connection has ended.
func (r *rig) stays() {
	r.t.Helper()
	enginetest.Barrier(r.t, r.srv)
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.ends) > 0 {
		r.t.Fatalf("ended early with %v", r.ends)
	}
}

// TestDrain: GOAWAY once, what is in flight is answered, what comes later is refused, and then the end.
func TestDrain(t *testing.T) {
	r := newRig(t, &set{o: Options{RetryAfter: time.Second}})
	c, idle := r.dial(), r.dial()
	idle.ask(1, 0, "")
	idle.expect(answer{1, 0, ""})
	c.ask(1, 2, "wait")
	<-r.began
	done := make(chan eddy.DrainReport)
	go func() {
		report, err := r.srv.Shutdown(context.Background())
		if err != nil {
			t.Error(err)
		}
		done <- report
	}()
	goaway := answer{0, 65, "1000 the server is draining"}
	idle.expect(goaway)
	idle.expectEnd()
	c.expect(goaway)
	c.send(rawFrame(2, 2, "late"), rawFrame(3, 0, "late"), rawFrame(4, 3, "late"))
	c.expect(answer{2, 8, "1000 the server is draining"}, answer{3, 8, "1000 the server is draining"})
	close(r.gate)
	c.expect(answer{1, 0, "waited"})
	c.expectEnd()
	if report := <-done; report.Drained != 2 || report.Forced != 0 {
		t.Errorf("%+v", report)
	}
	if n := r.runs.Load(); n != 1 {
		t.Errorf("%d requests ran, want 1", n)
	}
}

// TestStoppedPool: a pool that has ended is UNAVAILABLE, and the connection lives.
func TestStoppedPool(t *testing.T) {
	r := newRig(t, &set{})
	c := r.dial()
	r.pool.Close()
	c.send(rawFrame(1, 1, ""), rawFrame(2, 0, "alive"))
	c.expect(answer{1, 8, "0 the server is stopping"}, answer{2, 0, "alive"})
}

// TestManyFrames: thousands of frames in one write, more than the budget of a read, are answered one by one.
func TestManyFrames(t *testing.T) {
	r := newRig(t, &set{workers: 2, queue: 100, o: Options{Ordering: responder.ByRequest}})
	c := r.dial()
	var all []byte
	const n = 3000
	for i := range n {
		all = append(all, rawFrame(uint64(i+1), byte(i%2), fmt.Sprint(i))...)
	}
	go c.Write(all)
	for i := range n {
		if a := c.read(); a != (answer{uint64(i + 1), 0, fmt.Sprint(i)}) {
			t.Fatalf("answer %d is %v", i, a)
		}
	}
}

// TestFramesAllocateNothing: neither PING on the loop nor ECHO over the pool.
func TestFramesAllocateNothing(t *testing.T) {
	r := newRig(t, &set{workers: 2})
	c := r.dial()
	for name, op := range map[string]byte{"PING": 0, "ECHO": 1} {
		req, resp := rawFrame(1, op, strings.Repeat("x", 128)), make([]byte, 16+128)
		turn := func(n int) {
			for range n {
				c.Write(req)
				if _, err := io.ReadFull(c.Conn, resp); err != nil {
					t.Fatal(err)
				}
			}
		}
		turn(500)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		const n = 3000
		turn(n)
		runtime.ReadMemStats(&after)
		per := float64(after.Mallocs-before.Mallocs) / n
		t.Logf("%s: %.3f allocations", name, per)
		if per > 0.2 && !raceDetector {
			t.Errorf("%s: %.3f allocations per request", name, per)
		}
	}
}

func TestOptions(t *testing.T) {
	if _, err := NewServer(Options{}); err == nil || !strings.Contains(err.Error(), "Pool") {
		t.Errorf("without a pool: %v", err)
	}
	for _, n := range []int{-1, maxLength + 1} {
		if _, err := NewServer(Options{MaxPayload: n}); err == nil || !strings.Contains(err.Error(), "MaxPayload") {
			t.Errorf("%d: %v", n, err)
		}
	}
}

// TestSlowReaderOfPings: a client that reads late gets back its own payloads, not bytes that the loop has since read into
// the same memory.
func TestSlowReaderOfPings(t *testing.T) {
	narrow := &set{}
	enginetest.Narrow(&narrow.srv)
	r := newRig(t, narrow)
	c := r.dialNarrow()
	payload := func(i int) string { return strings.Repeat(string(rune('a'+i%26)), 40_000) }
	const n = 50
	go func() {
		for i := range n {
			if _, err := c.Write(rawFrame(uint64(i+1), 0, payload(i))); err != nil {
				return
			}
		}
	}()
	testkit.Eventually(t, "a queue", func() bool { return r.srv.Stats().Loops[0].OutboundBytes > 100_000 })
	for i := range n {
		if a := c.read(); a != (answer{uint64(i + 1), 0, payload(i)}) {
			t.Fatalf("answer %d is to %d, status %d, %d bytes: %.20q", i, a.id, a.status, len(a.payload), a.payload)
		}
	}
}
