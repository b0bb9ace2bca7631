package websocket

import (
	"bytes"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	coder "github.com/coder/websocket"
	gorilla "github.com/gorilla/websocket"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/internal/enginetest"
	"github.com/go-eddy/eddy/internal/testkit"
)

// modes are the ways to compress.
func modes() map[string]CompressionOptions {
	return map[string]CompressionOptions{
		"alone":             {Threshold: 1},
		"takeover":          {Threshold: 1, ContextTakeover: true, WindowBits: 15},
		"takeover, 512 B":   {Threshold: 1, ContextTakeover: true, WindowBits: 9, PeerWindowBits: 9},
		"takeover, no room": {Threshold: 1, ContextTakeover: true, Memory: 1},
	}
}

// R128: independent clients exchange compressed messages, each the way it compresses.
func TestCompressedEchoWithIndependentClients(t *testing.T) {
	for name, o := range modes() {
		t.Run(name, func(t *testing.T) {
			z := newCompression(t, o)
			s := start(t, Options{Compression: z, MaxMessage: 1 << 20})
			var wg sync.WaitGroup
			for _, m := range []coder.CompressionMode{coder.CompressionContextTakeover, coder.CompressionNoContextTakeover} {
				wg.Go(func() { s.echoCoder(m) })
			}
			wg.Go(s.echoGorilla)
			wg.Wait()
			if st := z.Stats(); st.Received < 20 || st.Sent < 20 || st.SentWire >= st.SentBytes || st.ReceivedWire >= st.ReceivedBytes {
				t.Errorf("%+v", st)
			}
			for range 3 {
				s.wantEnd(1000, "")
			}
			testkit.Eventually(t, "the windows to be given back", func() bool { return z.Stats().Windows == 0 })
		})
	}
}

func (s *server) echoCoder(m coder.CompressionMode) {
	ctx := testkit.Context(s.t)
	c := s.dial(&coder.DialOptions{CompressionMode: m, CompressionThreshold: 1})
	for round := range 3 {
		for i, msg := range samples() {
			if err := c.Write(ctx, coder.MessageBinary, []byte(msg)); err != nil {
				s.t.Errorf("coder, round %d, message %d: %v", round, i, err)
				return
			}
			if _, got, err := c.Read(ctx); err != nil || string(got) != msg {
				s.t.Errorf("coder, round %d, message %d: %d bytes, %v", round, i, len(got), err)
				return
			}
		}
	}
	if err := c.Close(coder.StatusNormalClosure, ""); err != nil {
		s.t.Errorf("coder: %v", err)
	}
}

func (s *server) echoGorilla() {
	d := gorilla.Dialer{EnableCompression: true, HandshakeTimeout: testkit.Patience}
	c, resp, err := d.Dial("ws://"+s.addr+"/", nil)
	if err != nil {
		s.t.Errorf("gorilla: %v", err)
		return
	}
	defer func() { _ = c.Close() }()
	if ext := resp.Header.Get("Sec-Websocket-Extensions"); !strings.HasPrefix(ext, "permessage-deflate") {
		s.t.Errorf("gorilla got %q", ext)
	}
	_ = c.SetReadDeadline(time.Now().Add(testkit.Patience))
	for i, msg := range samples() {
		if err := c.WriteMessage(gorilla.BinaryMessage, []byte(msg)); err != nil {
			s.t.Errorf("gorilla, message %d: %v", i, err)
			return
		}
		if _, got, err := c.ReadMessage(); err != nil || string(got) != msg {
			s.t.Errorf("gorilla, message %d: %d bytes, %v", i, len(got), err)
			return
		}
	}
	_ = c.WriteMessage(gorilla.CloseMessage, gorilla.FormatCloseMessage(1000, ""))
	if _, _, err := c.ReadMessage(); !gorilla.IsCloseError(err, 1000) {
		s.t.Errorf("gorilla at the end: %v", err)
	}
}

// This package's client and server, in every pair of modes.
func TestCompressedEchoWithItself(t *testing.T) {
	for name, so := range modes() {
		s := start(t, Options{Compression: newCompression(t, so)})
		for with, co := range modes() {
			t.Run(name+" with "+with, func(t *testing.T) {
				z := newCompression(t, co)
				m := newMessages()
				c := s.client(m, Options{Compression: z})
				if !c.Compressed() {
					t.Fatal("nothing was negotiated")
				}
				for range 2 {
					for _, msg := range samples() {
						if err := c.Write(Binary, []byte(msg)); err != nil {
							t.Fatal(err)
						}
						m.want(t, "binary "+msg)
					}
				}
				if st := z.Stats(); st.Sent < 8 || st.Received < 8 {
					t.Errorf("%+v", st)
				}
				if err := c.Close(1000, ""); err != nil {
					t.Fatal(err)
				}
				<-m.closed
				if n := z.Stats().Windows; n != 0 {
					t.Errorf("%d bytes stay reserved", n)
				}
			})
		}
	}
}

// deflateHandshake is the request of a raw client that compresses.
const deflateHandshake = handshake + "Sec-WebSocket-Extensions: permessage-deflate\r\n"

func (s *server) rawDeflate(more string) *raw {
	s.t.Helper()
	c := s.rawConn()
	c.send(deflateHandshake + "\r\n" + more)
	resp, err := http.ReadResponse(c.br, nil)
	if err != nil || resp.StatusCode != http.StatusSwitchingProtocols || resp.Header.Get("Sec-Websocket-Extensions") == "" {
		s.t.Fatalf("handshake: %v, %v", resp, err)
	}
	return c
}

// Every violation that needs compression, with its close code.
func TestCompressedViolations(t *testing.T) {
	s := start(t, Options{MaxMessage: 100 << 10, Compression: newCompression(t, CompressionOptions{})})
	zip := func(text string) string { return string(packed(t, text)) }
	bomb := zip(strings.Repeat("a", 2<<20))
	half := zip("some text that is compressed")
	for _, tt := range []struct {
		name, in string
		code     int
		reason   eddy.CloseReason
	}{
		{"not deflate", frame(0xc1, "\xff\xff\xff\xff"), 1007, eddy.CloseProtocolError},
		{"reserved block type", frame(0xc2, "\x06"), 1007, eddy.CloseProtocolError},
		{"cut short", frame(0xc1, half[:len(half)-3]), 1007, eddy.CloseProtocolError},
		{"reference to an earlier message, which was not agreed on", frame(0xc1, "\xf2\x00\x11\x00\x00"), 1007, eddy.CloseProtocolError},
		{"bad UTF-8 once inflated", frame(0xc1, zip("ok \xff")), 1007, eddy.CloseProtocolError},
		{"cut rune once inflated", frame(0xc1, zip("ok \xe2\x82")), 1007, eddy.CloseProtocolError},
		{"bomb", frame(0xc2, bomb), 1009, eddy.CloseFrameTooLarge},
		{"bomb in fragments", frame(0x42, bomb[:100]) + frame(0x80, bomb[100:]), 1009, eddy.CloseFrameTooLarge},
		{"one byte too many", frame(0xc2, zip(strings.Repeat("b", 100<<10+1))), 1009, eddy.CloseFrameTooLarge},
		{"compressed ping", frame(0xc9, "x"), 1002, eddy.CloseProtocolError},
		{"compressed close", frame(0xc8, "\x03\xe8"), 1002, eddy.CloseProtocolError},
		{"compressed continuation", frame(0x41, half[:5]) + frame(0xc0, half[5:]), 1002, eddy.CloseProtocolError},
		{"reserved bit 2", frame(0xe1, half), 1002, eddy.CloseProtocolError},
	} {
		t.Run(tt.name, func(t *testing.T) {
			was := s.srv.Stats().Closed[tt.reason]
			c := s.rawDeflate(frame(0xc1, zip("before")) + tt.in + strings.Repeat(frame(0x81, "after"), 100))
			c.t = t
			c.want(0x81, "before")
			c.wantClose(tt.code)
			s.wantEnd(tt.code, "")
			s.waitClosed(tt.reason, was+1)
		})
	}
	// Exactly the limit is no violation.
	c := s.rawDeflate(frame(0xc2, zip(strings.Repeat("b", 100<<10))))
	first, p, err := c.frame()
	if err != nil || first != 0xc2 || len(p) > 5000 {
		t.Errorf("%#x, %d bytes, %v", first, len(p), err)
	}
}

// Compressed messages byte by byte, in fragments with a ping between, empty, and
// with one that is not compressed among them.
func TestCompressedInPieces(t *testing.T) {
	s := start(t, Options{Compression: newCompression(t, CompressionOptions{})})
	text := string(packed(t, "a compressed text é"))
	frames := frame(0xc1, text) + frame(0x41, text[:4]) + frame(0x89, "p") + frame(0x00, "") + frame(0x80, text[4:]) +
		frame(0xc2, "\x00") + frame(0x81, "plain")
	c := s.rawDeflate(frames)
	for round := range 2 {
		c.want(0x81, "a compressed text é")
		c.want(0x8a, "p")
		c.want(0x81, "a compressed text é")
		c.want(0x82, "")
		c.want(0x81, "plain")
		for i := 0; round == 0 && i < len(frames); i++ {
			c.send(frames[i : i+1])
		}
	}
}

// A large message is inflated in steps. Later messages stay behind it, a pause of the application in the middle is
// kept, and other connections are served in between.
func TestInflateInSteps(t *testing.T) {
	e := newEcho()
	type message struct {
		op   Opcode
		size int
	}
	got := make(chan message, 10)
	e.message = func(c *Conn, op Opcode, data []byte) error {
		got <- message{op, len(data)}
		return nil
	}
	const size = 4 << 20
	s := startWith(t, e, nil, Options{MaxMessage: size, Compression: newCompression(t, CompressionOptions{})}, eddy.Watermarks{})
	large := string(packed(t, strings.Repeat("0123456789abcdef", size/16)))
	c := s.rawDeflate(frame(0xc2, large) + frame(0x81, "behind") + frame(0x89, "ping"))
	sc := s.conn()
	if m := <-got; m != (message{Binary, size}) {
		t.Fatalf("%+v", m)
	}
	if m := <-got; m != (message{Text, 6}) {
		t.Fatalf("%+v", m)
	}
	c.want(0x8a, "ping")
	sc.PauseRead()
	c.send(frame(0xc2, large) + frame(0x81, "behind"))
	for range 3 {
		enginetest.Barrier(t, s.srv)
	}
	select {
	case m := <-got:
		t.Fatalf("%+v although reads are paused", m)
	default: // a failure can be missed by this
	}
	sc.ResumeRead()
	if m := <-got; m != (message{Binary, size}) {
		t.Fatalf("%+v", m)
	}
	if m := <-got; m != (message{Text, 6}) {
		t.Fatalf("%+v", m)
	}
	// The end may come in the middle of it.
	c.send(frame(0xc2, large))
	_ = c.Close()
	s.wantEnd(CloseAbnormal, "")
}

// Only a few large messages are inflated at a time. The others wait in compressed form and in their order. Smaller
// messages of other connections do not wait. A connection that has ended takes no place.
func TestInflatersAreBounded(t *testing.T) {
	e := newEcho()
	got := make(chan int, 100)
	e.message = func(_ *Conn, _ Opcode, data []byte) error {
		got <- len(data)
		return nil
	}
	const size = 2 << 20
	z := newCompression(t, CompressionOptions{Inflaters: 1})
	s := startWith(t, e, nil, Options{MaxMessage: size + 10, Compression: z}, eddy.Watermarks{})
	taken := new(Conn)
	if !z.large.take(taken) { // the only place
		t.Fatal("no place is free")
	}
	var peers []*raw
	var conns []*Conn
	for i := range 4 {
		large := string(packed(t, strings.Repeat("0123456789abcdef", size/16)+strings.Repeat("+", i)))
		peers = append(peers, s.rawDeflate(frame(0xc2, large)+frame(0x82, "behind")))
		conns = append(conns, s.conn())
		testkit.Eventually(t, "it to wait", func() bool { return z.Stats().Waiting == i+1 })
		onLoop(t, conns[i].Eddy().Loop(), func() {
			if d := conns[i].deflate; d.work != nil || len(d.parked) != len(large) || cap(d.parked) > 64<<10 {
				t.Errorf("a message of %d bytes waits with %d, an inflater: %v", len(large), cap(d.parked), d.work != nil)
			}
		})
	}
	s.rawDeflate(frame(0xc2, string(packed(t, strings.Repeat("small", 1000)))))
	if n := <-got; n != 5000 {
		t.Fatalf("%d bytes instead of the small message", n)
	}
	select {
	case n := <-got:
		t.Fatalf("%d bytes without a place", n)
	default:
	}
	_ = peers[1].Close() // while it waits
	conns[1].Abort(eddy.CloseNormal, nil)
	s.wantEnd(CloseAbnormal, "")
	z.large.leave()
	for _, want := range []int{size, size + 2, size + 3} {
		for n := <-got; n != want; n = <-got {
			if n != len("behind") {
				t.Fatalf("%d bytes, want %d", n, want)
			}
		}
	}
	testkit.Eventually(t, "the place to be free", func() bool {
		z.large.mu.Lock()
		defer z.large.mu.Unlock()
		return z.large.free == 1 && len(z.large.queue) == 0
	})
	for _, p := range peers {
		_ = p.Close()
	}
}

// A connection that cannot be heard because its message waits for others is not taken for dead.
func TestKeepAliveOfWaitingMessage(t *testing.T) {
	z := newCompression(t, CompressionOptions{Inflaters: 1})
	s, clock := startOnClock(t, nil, Options{Compression: z, PingInterval: interval, PongTimeout: answer})
	if !z.large.take(new(Conn)) {
		t.Fatal("no place is free")
	}
	c := s.rawDeflate(frame(0xc2, string(packed(t, strings.Repeat("x", 512<<10)))))
	sc := s.conn()
	testkit.Eventually(t, "it to wait", func() bool { return z.Stats().Waiting == 1 })
	clock.Pass(5*interval, answer/2)
	if err := sc.conn.CloseError(); err != nil {
		t.Fatal(err)
	}
	z.large.leave()
	testkit.Eventually(t, "it to come", func() bool { return s.stats.Messages() == 1 })
	_ = c.Close()
}

// With context takeover, messages of many goroutines and of the loop itself are compressed in the order in which they
// are sent. Messages that may be dropped are not part of that order.
func TestTakeoverKeepsOrder(t *testing.T) {
	class := &eddy.MessageClass{Name: "ticks", Policy: eddy.OverflowDropOldest, MaxMessages: 2}
	z := newCompression(t, CompressionOptions{Threshold: 1, ContextTakeover: true, WindowBits: 10})
	s := start(t, Options{Compression: z})
	ctx := testkit.Context(t)
	c := s.dial(&coder.DialOptions{CompressionMode: coder.CompressionContextTakeover, CompressionThreshold: 1})
	sc := s.conn()
	const writers, each = 4, 200
	p, err := Prepare(sc.Eddy().Buffers(), Text, []byte(strings.Repeat("prepared ", 40)))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Release()
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				var err error
				switch text := []byte(strings.Repeat("message of a writer ", 1+i%20)); {
				case w == 0:
					err = c.Write(ctx, coder.MessageText, text) // the loop answers
				case i%3 == 0:
					err = sc.WriteClass(class, Text, text)
				case i%3 == 1:
					err = sc.WritePrepared(nil, p)
				default:
					err = sc.Write(Text, text)
				}
				if err != nil {
					t.Errorf("writer %d: %v", w, err)
					return
				}
			}
		})
	}
	sure := writers*each - (writers-1)*(each+2)/3
	counts := map[string]int{}
	for n := 0; n < sure; {
		_, got, err := c.Read(ctx)
		if err != nil {
			t.Fatalf("after %d messages: %v", n, err)
		}
		word, _, _ := bytes.Cut(got, []byte(" "))
		counts[string(word)]++
		n = counts["prepared"] + counts["message"]
	}
	if len(counts) != 2 || counts["prepared"] > (writers-1)*each/2 {
		t.Errorf("%v", counts)
	}
	wg.Wait()
}
