package websocket

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	coder "github.com/coder/websocket"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/buf"
	"github.com/go-eddy/eddy/internal/testkit"
)

func newHub(t testing.TB, o HubOptions) *Hub {
	t.Helper()
	h, err := NewHub(o)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// wantEmpty waits until nothing of the hub's memory is held.
func (h *Hub) wantEmpty(t testing.TB) {
	t.Helper()
	testkit.Eventually(t, "nothing to be pending", func() bool {
		return h.pool.Live() == 0 && h.pending.Load() == 0 && h.bytes.Load() == 0
	})
}

// joiner puts its connections into a hub.
func joiner(h *Hub, class *eddy.MessageClass) *echo {
	e := newEcho()
	e.open = func(c *Conn) error { return h.Join(c, class) }
	return e
}

// Uncompressed messages keep their place among compressed ones, also with
// context takeover, where messages are submitted.
func TestWriteBytesKeepsOrder(t *testing.T) {
	z := newCompression(t, CompressionOptions{ContextTakeover: true})
	e := newEcho()
	want := []string{strings.Repeat("large ", 1000), "small", "", strings.Repeat("again ", 1000), "last"}
	e.open = func(c *Conn) error {
		for _, text := range want {
			if err := c.WriteBytes(Text, []byte(text)); err != nil {
				return err
			}
		}
		return nil
	}
	s := startWith(t, e, nil, Options{Compression: z}, eddy.Watermarks{})
	c := s.dial(&coder.DialOptions{CompressionMode: coder.CompressionContextTakeover})
	ctx := testkit.Context(t)
	for i, text := range want {
		if _, got, err := c.Read(ctx); err != nil || string(got) != text {
			t.Fatalf("message %d: %.20q, %v, want %.20q", i, got, err, text)
		}
	}
	if st := z.Stats(); st.Sent != 2 {
		t.Errorf("%d messages compressed, want 2", st.Sent)
	}
	_ = c.CloseNow()
}

// Members on several loops get every message, in order, whole, and in the form
// that each has negotiated; nothing is left behind.
func TestHub(t *testing.T) {
	h := newHub(t, HubOptions{})
	z := newCompression(t, CompressionOptions{ContextTakeover: true})
	s := startWith(t, joiner(h, nil), nil, Options{Compression: z}, eddy.Watermarks{})
	ctx := testkit.Context(t)
	var clients []*coder.Conn
	for i := range 30 {
		mode := []coder.CompressionMode{coder.CompressionDisabled, coder.CompressionContextTakeover, coder.CompressionNoContextTakeover}[i%3]
		clients = append(clients, s.dial(&coder.DialOptions{CompressionMode: mode}))
		s.conn()
	}
	own := newMessages() // the client's side of a connection is a member, too: its server echoes
	client := start(t, Options{}).client(own, Options{})
	if err := h.Join(client, nil); err != nil {
		t.Fatal(err)
	}
	if st := h.Stats(); st.Members != 31 {
		t.Fatalf("%+v", st)
	}
	var want []string
	for i := range 20 {
		want = append(want, strings.Repeat(fmt.Sprintf("message %d é ", i), 1+i*i))
		if err := h.Broadcast(Text, []byte(want[i])); err != nil {
			t.Fatal(err)
		}
	}
	for i, c := range clients {
		c.SetReadLimit(1 << 20)
		for k, text := range want {
			if _, got, err := c.Read(ctx); err != nil || string(got) != text {
				t.Fatalf("client %d, message %d: %.50q, %v", i, k, got, err)
			}
		}
	}
	for _, text := range want {
		own.want(t, "text "+text)
	}
	h.wantEmpty(t)
	if st := h.Stats(); st.Sent != 31*20 || st.Failed != 0 || st.Broadcasts != 20 {
		t.Errorf("%+v", st)
	}
	// Two windows, those of 4 KiB for context takeover and those of 4 KiB without
	// it, are one form; each message above the threshold was compressed once.
	if st := z.Stats(); st.Sent == 0 || st.Sent > 20 {
		t.Errorf("compressed %d times", st.Sent)
	}
	for _, c := range clients {
		_ = c.CloseNow()
	}
	_ = client.Close(1000, "")
	testkit.Eventually(t, "the members to leave", func() bool { return h.Stats().Members == 0 })
	if err := h.Broadcast(Text, []byte("to nobody")); err != nil {
		t.Error(err)
	}
	h.wantEmpty(t)
	for i, f := range h.forms {
		if f.members != 0 {
			t.Errorf("%d members are still counted for windows of %d bits", f.members, i)
		}
	}
}

func TestHubMembership(t *testing.T) {
	h := newHub(t, HubOptions{})
	s := start(t, Options{})
	m := newMessages()
	s.client(m, Options{})
	c := s.conn()
	if err := h.Join(c, nil); err != nil {
		t.Fatal(err)
	}
	if err := h.Join(c, nil); !errors.Is(err, ErrMember) {
		t.Errorf("second Join: %v", err)
	}
	other := newHub(t, HubOptions{})
	if err := other.Join(c, nil); err != nil {
		t.Errorf("second hub: %v", err)
	}
	if err := h.Broadcast(Text, []byte("one")); err != nil {
		t.Fatal(err)
	}
	m.want(t, "text one")
	h.Leave(c)
	h.Leave(c)
	testkit.Eventually(t, "the member to leave", func() bool { return h.Stats().Members == 0 })
	if err := h.Broadcast(Text, []byte("two")); err != nil {
		t.Fatal(err)
	}
	if err := h.Join(c, nil); err != nil {
		t.Fatal(err)
	}
	if err := h.Broadcast(Text, []byte("three")); err != nil {
		t.Fatal(err)
	}
	m.want(t, "text three")
	if err := c.Close(1000, ""); err != nil {
		t.Fatal(err)
	}
	<-s.echo.closed
	testkit.Eventually(t, "the members to leave", func() bool { return h.Stats().Members+other.Stats().Members == 0 })
	if err := h.Join(c, nil); !errors.Is(err, eddy.ErrClosed) {
		t.Errorf("Join after the end: %v", err)
	}
	for _, err := range []error{h.Broadcast(opPing, nil), h.Broadcast(Opcode(7), nil)} {
		if err == nil {
			t.Error("a message with another opcode was taken")
		}
	}
	h.wantEmpty(t)
	if _, err := NewHub(HubOptions{MaxPending: -1}); err == nil || !strings.Contains(err.Error(), "MaxPending") {
		t.Errorf("%v", err)
	}
}

// Members come and go while messages are sent. Permanent members get every
// message once, in order.
func TestHubUnderChurn(t *testing.T) {
	h := newHub(t, HubOptions{})
	s := startWith(t, joiner(h, nil), nil, Options{}, eddy.Watermarks{})
	var stay []*messages
	d := newDialer(t, Options{})
	for range 5 {
		m := newMessages()
		if _, err := d.Dial(t.Context(), "ws://"+s.addr, m); err != nil {
			t.Fatal(err)
		}
		s.conn()
		stay = append(stay, m)
	}
	var stop atomic.Bool
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for !stop.Load() {
				c, err := d.Dial(t.Context(), "ws://"+s.addr, newEcho())
				if err != nil {
					t.Error(err)
					return
				}
				c.Abort(eddy.CloseNormal, nil)
			}
		})
	}
	const count = 300
	for i := range count {
		testkit.Eventually(t, "room", func() bool {
			err := h.Broadcast(Text, fmt.Append(nil, i))
			if err != nil && !errors.Is(err, eddy.ErrBackpressure) {
				t.Fatal(err)
			}
			return err == nil
		})
	}
	for _, m := range stay {
		for i := range count {
			m.want(t, fmt.Sprint("text ", i))
		}
	}
	stop.Store(true)
	wg.Wait()
	h.wantEmpty(t)
	testkit.Eventually(t, "the others to leave", func() bool { return h.Stats().Members == 5 })
}

// A member that does not read is treated as its class says, and holds up nobody.
func TestHubWithSlowMembers(t *testing.T) {
	for _, tt := range []struct {
		policy eddy.OverflowPolicy
		last   bool // the newest message arrives in the end
		closed bool
	}{
		{eddy.OverflowDropNewest, false, false},
		{eddy.OverflowDropOldest, true, false},
		{eddy.OverflowKeepLatest, true, false},
		{eddy.OverflowClose, false, true},
	} {
		t.Run(fmt.Sprint(tt.policy), func(t *testing.T) {
			class := &eddy.MessageClass{Name: "news", Policy: tt.policy, MaxMessages: 4}
			h := newHub(t, HubOptions{MaxPendingBytes: 1 << 30})
			s := startWith(t, newEcho(), nil, Options{}, eddy.Watermarks{}, narrow)
			slow := s.rawDial("")
			sc := s.conn()
			if err := h.Join(sc, class); err != nil {
				t.Fatal(err)
			}
			m := newMessages()
			s.client(m, Options{})
			if err := h.Join(s.conn(), nil); err != nil {
				t.Fatal(err)
			}
			const count, size = 150, 16 << 10
			for i := range count {
				text := fmt.Sprintf("%06d", i) + strings.Repeat("x", size)
				if err := h.Broadcast(Text, []byte(text)); err != nil {
					t.Fatal(err)
				}
				m.want(t, "text "+text)
			}
			if tt.closed {
				s.waitClosed(eddy.CloseBackpressureLimit, 1)
				h.wantEmpty(t)
				return
			}
			if st := class.Stats(); st.Dropped < 50 {
				t.Errorf("%d dropped of %d", st.Dropped, count)
			}
			if err := h.Broadcast(Text, []byte("end")); err != nil { // the class drops this one, or an older one
				t.Fatal(err)
			}
			testkit.Eventually(t, "it to be handed out", func() bool { return h.Stats().Pending == 0 })
			got, last := 0, ""
			for got < count+1-int(class.Stats().Dropped) {
				_, p, err := slow.frame()
				if err != nil {
					t.Fatalf("after %d messages, the last %s: %v; %+v, %d bytes queued", got, last, err, class.Stats(), sc.conn.QueuedBytes())
				}
				if len(p) != size+6 && p != "end" {
					t.Fatalf("a message of %d bytes", len(p))
				}
				if got++; p != "end" && p[:6] <= last {
					t.Fatalf("%s behind %s", p[:6], last)
				}
				last = p[:min(6, len(p))]
			}
			if (last == "end") != tt.last {
				t.Errorf("the last message is %q", last)
			}
			h.wantEmpty(t)
		})
	}
}

// Too many pending messages are refused. The counts are right again afterwards.
func TestHubIsBounded(t *testing.T) {
	h := newHub(t, HubOptions{MaxPending: 3, MaxPendingBytes: 1000})
	s := startWith(t, joiner(h, nil), nil, Options{}, eddy.Watermarks{})
	m := newMessages()
	s.client(m, Options{})
	c := s.conn()
	release, blocked := make(chan struct{}), make(chan struct{})
	if err := c.Eddy().Post(func() { close(blocked); <-release }); err != nil { // the loop takes no tasks
		t.Fatal(err)
	}
	<-blocked
	if err := h.Broadcast(Text, make([]byte, 900)); err != nil {
		t.Fatal(err)
	}
	if err := h.Broadcast(Text, make([]byte, 101)); !errors.Is(err, eddy.ErrBackpressure) || !strings.Contains(err.Error(), "limit 1000") {
		t.Errorf("bytes: %v", err)
	}
	for range 2 {
		if err := h.Broadcast(Text, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := h.Broadcast(Text, nil); !errors.Is(err, eddy.ErrBackpressure) || !strings.Contains(err.Error(), "limit 3") {
		t.Errorf("messages: %v", err)
	}
	if st := h.Stats(); st.Pending != 3 || st.Refused != 2 || st.Broadcasts != 3 {
		t.Errorf("%+v", st)
	}
	close(release)
	m.want(t, "text "+string(make([]byte, 900)))
	h.wantEmpty(t)
	if err := h.Broadcast(Text, make([]byte, 5000)); err != nil { // one may always go
		t.Error(err)
	}
	h.wantEmpty(t)
}

// A server that stops in the middle of broadcasts leaves nothing behind.
func TestHubWhenServerStops(t *testing.T) {
	h := newHub(t, HubOptions{})
	s := startWith(t, joiner(h, nil), nil, Options{}, eddy.Watermarks{})
	for range 20 {
		s.rawDial("")
		s.conn()
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for h.Stats().Members > 0 {
			_ = h.Broadcast(Binary, make([]byte, 3000))
		}
	}()
	if err := s.srv.Close(); err != nil {
		t.Fatal(err)
	}
	<-done
	_ = h.Broadcast(Binary, nil)
	h.wantEmpty(t)
}

func TestPreparedCounts(t *testing.T) {
	pool := buf.NewSharedPool(1<<20, nil)
	p, err := Prepare(pool, Text, []byte("text"))
	if err != nil || p.Len() != 4 {
		t.Fatal(p, err)
	}
	s := start(t, Options{})
	m := newMessages()
	s.client(m, Options{})
	c := s.conn()
	for range 3 {
		if err := c.WritePrepared(nil, p); err != nil {
			t.Fatal(err)
		}
		m.want(t, "text text")
	}
	p.Retain().Release()
	p.Release()
	testkit.Eventually(t, "the memory to come back", func() bool { return pool.Live() == 0 })
	defer func() {
		if recover() == nil {
			t.Error("a second final release went unnoticed")
		}
	}()
	p.Release()
}

// BenchmarkBroadcast sends to members whose clients read and discard, as one
// prepared message and one by one.
func BenchmarkBroadcast(b *testing.B) {
	for _, prepared := range []bool{true, false} {
		b.Run(fmt.Sprintf("prepared=%v", prepared), func(b *testing.B) { benchBroadcast(b, prepared) })
	}
}

func benchBroadcast(b *testing.B, prepared bool) {
	const members = 200
	h := newHub(b, HubOptions{})
	e := joiner(h, nil)
	s := benchServer(b, e)
	var got atomic.Int64
	for range members {
		c, err := net.Dial("tcp", s)
		if err != nil {
			b.Fatal(err)
		}
		defer func() { _ = c.Close() }()
		if _, err := c.Write([]byte(handshake + "\r\n")); err != nil {
			b.Fatal(err)
		}
		go func() {
			p := make([]byte, 64<<10)
			for {
				n, err := c.Read(p)
				if err != nil {
					return
				}
				got.Add(int64(n))
			}
		}()
	}
	conns := make([]*Conn, members)
	for i := range conns {
		conns[i] = <-e.conns
	}
	msg := make([]byte, 2048)
	b.ReportAllocs()
	for b.Loop() {
		if prepared {
			if err := h.Broadcast(Binary, msg); err != nil && !errors.Is(err, eddy.ErrBackpressure) {
				b.Fatal(err)
			}
			for h.pending.Load() > 8 {
				time.Sleep(50 * time.Microsecond) // the loops are behind
			}
			continue
		}
		for _, c := range conns {
			for c.Write(Binary, msg) != nil {
				time.Sleep(50 * time.Microsecond)
			}
		}
	}
}
