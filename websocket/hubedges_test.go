package websocket

import (
	"fmt"
	"strings"
	"testing"

	coder "github.com/coder/websocket"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/internal/testkit"
)

// onLoop runs f on the loop and waits for it.
func onLoop(t *testing.T, l *eddy.Loop, f func()) {
	t.Helper()
	done := make(chan struct{})
	if err := l.Post(func() { defer close(done); f() }); err != nil {
		t.Fatal(err)
	}
	testkit.Receive(t, "the loop to run it", done)
}

// hold keeps a loop busy until the function that it returns is called.
func hold(t *testing.T, l *eddy.Loop) (letGo func()) {
	t.Helper()
	gate, entered := make(chan struct{}), make(chan struct{})
	if err := l.Post(func() { close(entered); <-gate }); err != nil {
		t.Fatal(err)
	}
	<-entered
	return func() { close(gate) }
}

// A hub keeps nothing of a member that has left, by itself or with its connection.
func TestHubForgetsMembers(t *testing.T) {
	h := newHub(t, HubOptions{})
	s := startWith(t, joiner(h, nil), nil, Options{}, eddy.Watermarks{}, func(s *eddy.Server) { s.Loops = 1 })
	var peers []*raw
	var conns []*Conn
	for range 7 {
		peers = append(peers, s.rawDial(""))
		conns = append(conns, s.conn())
	}
	h.Leave(conns[1])
	_ = peers[2].Close()
	h.Leave(conns[3])
	testkit.Eventually(t, "them to leave", func() bool { return h.Stats().Members == 4 })
	if err := h.Broadcast(Text, []byte("news")); err != nil {
		t.Fatal(err)
	}
	h.wantEmpty(t)
	if st := h.Stats(); st.Sent != 4 || st.Failed != 0 {
		t.Errorf("%+v", st)
	}
	for _, i := range []int{0, 4, 5, 6} {
		peers[i].want(0x81, "news")
	}
	h.Leave(conns[0])
	testkit.Eventually(t, "it to leave", func() bool { return h.Stats().Members == 3 })
	onLoop(t, conns[0].Eddy().Loop(), func() { // more than half are gone: the list is closed up
		if sh := h.shards[0]; len(sh.members) != 3 || sh.empty != 0 {
			t.Errorf("%d places, %d of them free, for 3 members", len(sh.members), sh.empty)
		} else {
			for i, m := range sh.members {
				if m == nil || m.place != i+1 || m.conn != conns[4+i] {
					t.Errorf("place %d is of %+v", i+1, m)
				}
			}
		}
	})
}

// Messages are handed out to a bounded number of members in one iteration, which flushes them. A member that joins in
// between gets messages that begin afterwards.
func TestHubHandsOutInBatches(t *testing.T) {
	h := newHub(t, HubOptions{})
	s := startWith(t, newEcho(), nil, Options{}, eddy.Watermarks{}, func(s *eddy.Server) { s.Loops = 1 })
	s.rawDial("")
	many := s.conn()
	late := s.rawDial("")
	sc := s.conn()
	if err := h.Join(many, nil); err != nil {
		t.Fatal(err)
	}
	const more = 44
	onLoop(t, many.Eddy().Loop(), func() { // as if it were so many members
		sh := h.shards[0]
		for range hubBatch + more - 1 {
			sh.members = append(sh.members, &membership{hub: h, conn: many, shard: sh})
		}
	})
	var sent []uint64
	letGo := hold(t, many.Eddy().Loop())
	note := func() { sent = append(sent, h.stats.sent.Load()) }
	for i, f := range []func() error{
		func() error { return h.Broadcast(Text, []byte("one")) },
		func() error { return h.Broadcast(Text, []byte("two")) },
		func() error { return h.Join(sc, nil) },
		func() error { // between two batches, and behind what the first one has posted
			return many.Eddy().Post(func() {
				note()
				if err := many.Eddy().Post(note); err != nil {
					t.Error(err)
				}
			})
		},
	} {
		if err := f(); err != nil {
			t.Fatal(i, err)
		}
	}
	letGo()
	h.wantEmpty(t)
	onLoop(t, many.Eddy().Loop(), note)
	if want := []uint64{hubBatch, hubBatch, 2*(hubBatch+more) + 1}; fmt.Sprint(sent) != fmt.Sprint(want) {
		t.Errorf("sent by then: %v, want %v", sent, want)
	}
	late.want(0x81, "two")
	if err := sc.Close(CloseNormal, ""); err != nil {
		t.Fatal(err)
	}
	if first, p, err := late.frame(); first != 0x88 || err != nil {
		t.Errorf("%#x %q %v instead of the close frame", first, p, err)
	}
	onLoop(t, many.Eddy().Loop(), func() { h.shards[0].members = h.shards[0].members[:1] })
}

// A message of a class keeps its place behind submitted ones, also with context takeover. It keeps its class: it is not
// compressed for the window, and is dropped for a peer that does not read.
func TestHubClassesWithTakeover(t *testing.T) {
	class := &eddy.MessageClass{Name: "ticks", Policy: eddy.OverflowDropNewest, MaxMessages: 4}
	plain, ticks := newHub(t, HubOptions{MaxPendingBytes: 1 << 30}), newHub(t, HubOptions{MaxPendingBytes: 1 << 30})
	z := newCompression(t, CompressionOptions{ContextTakeover: true})
	s := startWith(t, newEcho(), nil, Options{Compression: z}, eddy.Watermarks{}, narrow)
	c := s.dial(&coder.DialOptions{CompressionMode: coder.CompressionContextTakeover})
	c.SetReadLimit(1 << 20)
	sc := s.conn()
	for h, class := range map[*Hub]*eddy.MessageClass{plain: nil, ticks: class} {
		if err := h.Join(sc, class); err != nil {
			t.Fatal(err)
		}
	}
	ctx := testkit.Context(t)
	letGo := hold(t, sc.Eddy().Loop())
	first, second := strings.Repeat("compressed ", 100), strings.Repeat("tick ", 100)
	if err := plain.Broadcast(Text, []byte(first)); err != nil {
		t.Fatal(err)
	}
	if err := ticks.Broadcast(Text, []byte(second)); err != nil {
		t.Fatal(err)
	}
	letGo()
	for _, want := range []string{first, second} {
		if _, got, err := c.Read(ctx); err != nil || string(got) != want {
			t.Fatalf("%.20q, %v, want %.20q", got, err, want)
		}
	}
	if st := z.Stats(); st.Sent != 1 {
		t.Errorf("%d messages compressed, want the one without a class", st.Sent)
	}
	p, err := Prepare(sc.Eddy().Buffers(), Text, []byte(second))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Release()
	if err := sc.WritePrepared(class, p); err != nil {
		t.Fatal(err)
	}
	if _, got, err := c.Read(ctx); err != nil || string(got) != second {
		t.Fatalf("%.20q, %v, want %.20q", got, err, second)
	}
	if st := z.Stats(); st.Sent != 1 {
		t.Errorf("%d messages compressed, want the one without a class", st.Sent)
	}
	big := []byte(strings.Repeat("tick ", 10000))
	testkit.Eventually(t, "the class to drop", func() bool {
		if err := ticks.Broadcast(Text, big); err != nil {
			t.Fatal(err)
		}
		return class.Stats().Dropped > 0
	})
	_ = c.CloseNow()
	testkit.Eventually(t, "the members to leave", func() bool { return plain.Stats().Members+ticks.Stats().Members == 0 })
	plain.wantEmpty(t)
	ticks.wantEmpty(t)
}
