package websocket

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	coder "github.com/coder/websocket"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/internal/enginetest"
	"github.com/go-eddy/eddy/internal/testkit"
)

// R128: an independent client exchanges text, binary, small and large messages.
func TestEchoWithIndependentClient(t *testing.T) {
	s := start(t, Options{MaxMessage: 8 << 20})
	ctx := testkit.Context(t)
	var wg sync.WaitGroup
	const clients = 4
	for i := range clients {
		wg.Go(func() {
			c := s.dial(nil)
			for _, size := range []int{0, 1, 125, 126, 4096, 65535, 65536, 1 << 20} {
				data := make([]byte, size)
				_, _ = rand.Read(data)
				typ := coder.MessageBinary
				if i%2 == 0 {
					typ, data = coder.MessageText, []byte(strings.Repeat("é", size/2))
				}
				if err := c.Write(ctx, typ, data); err != nil {
					t.Errorf("size %d: %v", size, err)
					return
				}
				gotType, got, err := c.Read(ctx)
				if err != nil || gotType != typ || !bytes.Equal(got, data) {
					t.Errorf("size %d: %v, %d bytes, %v", size, gotType, len(got), err)
					return
				}
			}
			if err := c.Close(coder.StatusNormalClosure, "bye"); err != nil {
				t.Errorf("close: %v", err)
			}
		})
	}
	wg.Wait()
	for range clients {
		s.wantEnd(1000, "bye")
	}
	if s.stats.Opened() != clients || s.stats.Closed(1000) != clients || s.stats.Messages() != 8*clients {
		t.Errorf("opened %d, closed %d, messages %d", s.stats.Opened(), s.stats.Closed(1000), s.stats.Messages())
	}
	s.waitClosed(eddy.CloseNormal, clients)
}

func TestFragmentsFromIndependentClient(t *testing.T) {
	s := start(t, Options{})
	ctx := testkit.Context(t)
	c := s.dial(nil)
	w, err := c.Writer(ctx, coder.MessageText)
	if err != nil {
		t.Fatal(err)
	}
	var want strings.Builder
	for i := range 100 {
		part := fmt.Sprintf("part %d é %s;", i, strings.Repeat("x", i*50))
		want.WriteString(part)
		if _, err := io.WriteString(w, part); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if _, got, err := c.Read(ctx); err != nil || string(got) != want.String() {
		t.Errorf("%d bytes, %v; want %d", len(got), err, want.Len())
	}
}

func TestPingFromIndependentClient(t *testing.T) {
	s := start(t, Options{})
	ctx := testkit.Context(t)
	c := s.dial(nil)
	c.CloseRead(ctx)
	if err := c.Ping(ctx); err != nil {
		t.Error(err)
	}
}

// Frames in the packet of the handshake, and one byte at a time, are the same.
func TestFramesWithTheHandshakeAndByteByByte(t *testing.T) {
	s := start(t, Options{})
	frames := frame(0x81, "hello") + frame(0x01, "fr") + frame(0x89, "p") + frame(0x80, "ag") + frame(0x82, strings.Repeat("b", 300))
	c := s.rawDial(frames)
	for round := range 2 {
		c.want(0x81, "hello")
		c.want(0x8a, "p")
		c.want(0x81, "frag")
		c.want(0x82, strings.Repeat("b", 300))
		for i := 0; round == 0 && i < len(frames); i++ {
			c.send(frames[i : i+1])
		}
	}
	c.send(strings.Repeat(frame(0x81, "m"), 500))
	for range 500 {
		c.want(0x81, "m")
	}
	c.send(frame(0x88, "\x03\xe8bye"))
	c.wantClose(1000)
	s.wantEnd(1000, "bye")
}

// R081, R082: every violation is answered with its close code, all further input
// is discarded, and the connection ends with its reason.
func TestViolations(t *testing.T) {
	tests := []struct {
		name, in string
		code     int
		reason   eddy.CloseReason
	}{
		{"unmasked", "\x81\x02hi", 1002, eddy.CloseProtocolError},
		{"reserved bit", frame(0xc1, "x"), 1002, eddy.CloseProtocolError},
		{"reserved opcode", frame(0x83, "x"), 1002, eddy.CloseProtocolError},
		{"bad UTF-8", frame(0x81, "\xff"), 1007, eddy.CloseProtocolError},
		{"bad UTF-8 in the close reason", frame(0x88, "\x03\xe8\xff"), 1007, eddy.CloseProtocolError},
		{"too large", "\x82\xff\x00\x00\x00\x00\x7f\xff\xff\xff", 1009, eddy.CloseFrameTooLarge},
		{"fragments too large", frame(0x02, strings.Repeat("x", 600)) + frame(0x80, strings.Repeat("x", 600)), 1009, eddy.CloseFrameTooLarge},
		{"invalid close code", frame(0x88, "\x03\xed"), 1002, eddy.CloseProtocolError},
	}
	s := start(t, Options{MaxMessage: 1000})
	want := make(map[eddy.CloseReason]uint64)
	codes := make(map[int]uint64)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := s.rawDial(frame(0x81, "before") + tt.in + strings.Repeat(frame(0x81, "after"), 1000))
			c.t = t
			c.want(0x81, "before")
			c.wantClose(tt.code)
			s.wantEnd(tt.code, "")
			want[tt.reason]++
			codes[tt.code]++
			s.waitClosed(tt.reason, want[tt.reason])
			if n := s.stats.Closed(tt.code); n != codes[tt.code] {
				t.Errorf("%d connections counted for %d, want %d", n, tt.code, codes[tt.code])
			}
		})
	}
	if n := s.stats.Messages(); n != uint64(len(tests)) {
		t.Errorf("%d messages reached the handler, want %d", n, len(tests))
	}
}

func TestHandshake(t *testing.T) {
	const key = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
	base := "GET / HTTP/1.1\r\nHost: example.org\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
	s := start(t, Options{Subprotocols: []string{"b", "c"}})
	tests := []struct {
		name, in string
		status   int
		header   string // wanted header line
	}{
		{"sample of the RFC", handshake, 101, "Sec-Websocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo="},
		{"subprotocol", handshake + "Sec-WebSocket-Protocol: a, c\r\nSec-WebSocket-Protocol: b\r\n", 101, "Sec-Websocket-Protocol: c"},
		{"unknown subprotocol", handshake + "Sec-WebSocket-Protocol: x\r\n", 101, ""},
		{"same origin", handshake + "Origin: https://EXAMPLE.org\r\n", 101, ""},
		{"other origin", handshake + "Origin: https://evil.org\r\n", 403, ""},
		{"null origin", handshake + "Origin: null\r\n", 403, ""},
		{"empty origin", handshake + "Origin:\r\n", 403, ""},
		{"two origins", handshake + "Origin: https://example.org\r\nOrigin: https://evil.org\r\n", 403, ""},
		{"post", strings.Replace(handshake, "GET", "POST", 1), 400, ""},
		{"http 1.0", strings.Replace(handshake, "HTTP/1.1", "HTTP/1.0", 1), 400, ""},
		{"no upgrade token", strings.Replace(handshake, ", Upgrade", "", 1), 400, ""},
		{"no upgrade field", strings.Replace(handshake, "Upgrade: WebSocket", "X: y", 1), 400, ""},
		{"no version", base + key, 426, "Sec-Websocket-Version: 13"},
		{"version 8", base + key + "Sec-WebSocket-Version: 8\r\n", 426, "Sec-Websocket-Version: 13"},
		{"version 8, which has to be told what to upgrade to", base + key + "Sec-WebSocket-Version: 8\r\n", 426, "Upgrade: websocket"},
		{"version 8, which has to be told that Upgrade is for it", base + key + "Sec-WebSocket-Version: 8\r\n", 426, "Connection: Upgrade"},
		{"body", handshake + "Content-Length: 1\r\n", 400, ""},
		{"body in chunks", handshake + "Transfer-Encoding: chunked\r\n", 400, ""},
		{"length of no body", handshake + "Content-Length: 0\r\n", 101, ""},
		{"malformed extensions", handshake + "Sec-WebSocket-Extensions: permessage-deflate;\r\n", 400, ""},
		{"no key", base + "Sec-WebSocket-Version: 13\r\n", 400, ""},
		{"two keys", handshake + key, 400, ""},
		{"short key", base + "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub24=\r\n", 400, ""},
		{"key not base64", base + "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: !!!!IHNhbXBsZSBub25jZQ==\r\n", 400, ""},
	}
	refused := uint64(0)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := s.rawConn()
			c.send(tt.in + "\r\n")
			resp, err := http.ReadResponse(c.br, nil)
			if err != nil {
				t.Fatal(err)
			}
			if resp.StatusCode != tt.status {
				t.Errorf("status %d, want %d", resp.StatusCode, tt.status)
			}
			var lines bytes.Buffer
			_ = resp.Header.Write(&lines)
			if !strings.Contains(lines.String(), tt.header) {
				t.Errorf("header lacks %q:\n%s", tt.header, lines.String())
			}
			if tt.header == "" && resp.Header.Get("Sec-Websocket-Protocol") != "" {
				t.Errorf("subprotocol %q", resp.Header.Get("Sec-Websocket-Protocol"))
			}
			err = <-s.errs
			var he *HandshakeError
			if refusal := errors.As(err, &he); refusal != (tt.status != 101) || refusal && he.Status != tt.status {
				t.Errorf("Upgrade returned %v", err)
			}
			if tt.status != 101 {
				refused++
			}
			_ = c.Close()
		})
	}
	if n := s.stats.Refused(); n != refused {
		t.Errorf("%d refusals counted, want %d", n, refused)
	}
}

func TestRequiredSubprotocol(t *testing.T) {
	s := start(t, Options{Subprotocols: []string{"desk.v1"}, RequireSubprotocol: true})
	c := s.rawConn()
	c.send(handshake + "Sec-WebSocket-Protocol: other\r\n\r\n")
	if resp, err := http.ReadResponse(c.br, nil); err != nil || resp.StatusCode != 400 {
		t.Errorf("%v, %v", resp, err)
	}
	ws := s.dial(&coder.DialOptions{Subprotocols: []string{"desk.v1"}})
	if ws.Subprotocol() != "desk.v1" || s.conn().Subprotocol() != "desk.v1" {
		t.Errorf("client has %q", ws.Subprotocol())
	}
}

func TestServerCloses(t *testing.T) {
	s := start(t, Options{})
	c := s.rawDial("")
	sc := s.conn()
	if err := sc.Write(Text, []byte("last")); err != nil {
		t.Fatal(err)
	}
	if err := sc.Close(4001, "enough"); err != nil {
		t.Fatal(err)
	}
	if err := sc.Write(Text, []byte("late")); !errors.Is(err, ErrClosed) || !errors.Is(err, eddy.ErrClosed) {
		t.Errorf("write after Close: %v", err)
	}
	if err := sc.Close(1000, ""); !errors.Is(err, ErrClosed) {
		t.Errorf("second Close: %v", err)
	}
	c.want(0x81, "last")
	c.want(0x88, "\x0f\xa1enough")
	c.send(frame(0x81, "ignored") + frame(0x88, "\x0f\xa1"))
	c.wantEnd(nil)
	s.wantEnd(4001, "")
	s.waitClosed(eddy.CloseNormal, 1)
	if s.stats.Messages() != 0 {
		t.Error("a message after Close reached the handler")
	}
}

func TestCloseArgumentsAreChecked(t *testing.T) {
	s := start(t, Options{})
	s.rawDial("")
	c := s.conn()
	for _, err := range []error{
		c.Close(1006, ""), c.Close(999, ""), c.Close(1000, strings.Repeat("x", 124)), c.Close(1000, "\xff"),
		c.Write(opPing, nil), c.WriteBytes(opClose, nil),
	} {
		if err == nil || errors.Is(err, ErrClosed) {
			t.Errorf("error %v", err)
		}
	}
}

// A client that does not answer the close frame does not keep its connection.
func TestCloseTimeout(t *testing.T) {
	s, clock := startOnClock(t, nil, Options{CloseTimeout: answer})
	c := s.rawDial("")
	sc := s.conn()
	if err := sc.Close(1000, ""); err != nil {
		t.Fatal(err)
	}
	enginetest.Barrier(t, s.srv)
	clock.Advance(answer - tick)
	if err := sc.conn.CloseError(); err != nil {
		t.Fatalf("before the time is over: %v", err)
	}
	clock.Advance(2 * tick)
	c.want(0x88, "\x03\xe8")
	c.wantCut()
	s.wantEnd(CloseAbnormal, "")
	s.waitClosed(eddy.CloseReadTimeout, 1)
}

func TestAbnormalEnds(t *testing.T) {
	s := start(t, Options{})
	c := s.rawDial("")
	if err := c.SetLinger(0); err != nil {
		t.Fatal(err)
	}
	_ = c.Close()
	s.wantEnd(CloseAbnormal, "")
	c = s.rawDial("")
	if err := c.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	c.wantEnd(nil)
	s.wantEnd(CloseAbnormal, "")
	c = s.rawDial(frame(0x88, ""))
	c.want(0x88, "")
	c.wantEnd(nil)
	s.wantEnd(CloseNoStatus, "")
	if s.stats.Closed(CloseAbnormal) != 2 || s.stats.Closed(CloseNoStatus) != 1 {
		t.Errorf("abnormal %d, without status %d", s.stats.Closed(CloseAbnormal), s.stats.Closed(CloseNoStatus))
	}
}
