package desk

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/desk/desktest"
	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/internal/testkit"
)

// wire is a native client made of nothing but a connection and the layout of frames.
type wire struct {
	t *testing.T
	net.Conn
}

// nativeDesk is a Desk with a port for native clients.
func nativeDesk(t *testing.T, o Options) *served {
	o.Frames = "127.0.0.1:0"
	return serve(t, o)
}

func (s *served) dial() *wire {
	s.t.Helper()
	c, err := net.Dial("tcp", s.desk.FramesAddr().String())
	s.ok(err)
	s.t.Cleanup(func() { _ = c.Close() })
	return &wire{s.t, c}
}

// framed is one frame: magic, version, id, operation, length, payload.
func framed(id uint64, op byte, payload string) []byte {
	b := []byte{0xED, 0xD1, 1}
	b = binary.BigEndian.AppendUint64(b, id)
	b = append(b, op)
	b = binary.BigEndian.AppendUint32(b, uint32(len(payload)))
	return append(b, payload...)
}

func (w *wire) send(b []byte) {
	w.t.Helper()
	if _, err := w.Write(b); err != nil {
		w.t.Fatal(err)
	}
}

func (w *wire) command(json string) { w.t.Helper(); w.send(framed(1, 3, json)) }

// next reads one frame; ok is false at the orderly end.
func (w *wire) next() (id uint64, status byte, payload []byte, ok bool) {
	w.t.Helper()
	head := make([]byte, 16)
	if _, err := io.ReadFull(w, head); errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) {
		return 0, 0, nil, false
	} else if err != nil {
		w.t.Fatal(err)
	}
	if head[0] != 0xED || head[1] != 0xD1 || head[2] != 1 {
		w.t.Fatalf("head % x", head)
	}
	payload = make([]byte, binary.BigEndian.Uint32(head[12:]))
	if _, err := io.ReadFull(w, payload); err != nil {
		w.t.Fatal(err)
	}
	return binary.BigEndian.Uint64(head[3:]), head[11], payload, true
}

// until reads events until one of a type.
func (w *wire) until(typ string) desktest.Frame {
	w.t.Helper()
	for {
		id, status, payload, ok := w.next()
		if !ok {
			w.t.Fatalf("the connection ended before %s", typ)
		}
		if id != 0 || status != 0 {
			continue
		}
		var f desktest.Frame
		if err := json.Unmarshal(payload, &f); err != nil {
			w.t.Fatal(err)
		}
		if f.T == typ {
			return f
		}
	}
}

// ends reads up to the end and returns the close code that came last, 0 if none, and the last status that is not OK.
func (w *wire) ends() (code int, status byte) {
	w.t.Helper()
	for {
		_, st, payload, ok := w.next()
		if !ok {
			return code, status
		}
		var f struct {
			T string
			D struct{ Code int }
		}
		if st != 0 {
			status = st
		} else if json.Unmarshal(payload, &f) == nil && f.T == "close" {
			code = f.D.Code
		}
	}
}

// A customer and an agent chat natively: the token and the ticket come by HTTP, everything else by frames. One of them is cut
// off, and resumes by the number of its last event.
func TestNativeClientsChat(t *testing.T) {
	s := nativeDesk(t, testOptions(t))
	token := s.visitor()
	ann := s.dial()
	ann.command(hello(token))
	ann.until("welcome")
	ann.command(`{"t":"conv.open","id":"2","d":{"wants":"human"}}`)
	conv := ann.until("ok").C
	web := s.newWeb()
	s.ok(web.Post(s.ctx, "/api/v1/agent/login", map[string]string{"login": "agent", "password": s.pass}, nil))
	var k struct{ Ticket string }
	s.ok(web.Post(s.ctx, "/api/v1/agent/ticket", nil, &k))
	lin := s.dial()
	lin.command(fmt.Sprintf(`{"t":"hello","id":"1","d":{"ticket":%q}}`, k.Ticket))
	lin.until("welcome")
	lin.command(fmt.Sprintf(`{"t":"take","id":"2","c":%q,"d":{}}`, conv))
	lin.until("ev.conv")
	lin.command(fmt.Sprintf(`{"t":"msg.send","id":"3","c":%q,"d":{"client_id":"00000000-0000-4000-8000-000000000001","body":"hello from lin"}}`, conv))
	var last uint64
	for {
		f := ann.until("ev.msg")
		last = f.S
		if strings.Contains(string(f.D), "hello from lin") {
			break
		}
	}
	_ = ann.Close()
	lin.command(fmt.Sprintf(`{"t":"msg.send","id":"4","c":%q,"d":{"client_id":"00000000-0000-4000-8000-000000000002","body":"while you were away"}}`, conv))
	ann = s.dial()
	ann.command(fmt.Sprintf(`{"t":"hello","id":"1","d":{"token":%q,"seen":{%q:%d}}}`, token, conv, last))
	if f := ann.until("ev.msg"); f.S != last+1 || !strings.Contains(string(f.D), "while you were away") {
		t.Errorf("%d %s after %d", f.S, f.D, last)
	}
	again := s.dial()
	again.command(fmt.Sprintf(`{"t":"hello","id":"1","d":{"ticket":%q}}`, k.Ticket))
	if code, _ := again.ends(); code != proto.CloseUnauthorized {
		t.Errorf("a ticket that was spent: closed with %d", code)
	}
}

// What breaks the protocol is answered and ends the connection; what is not served is answered and does not.
func TestNativeClientsThatMisbehave(t *testing.T) {
	s := nativeDesk(t, testOptions(t))
	w := s.dial()
	w.send(framed(7, 0, "hi"))
	if id, status, payload, _ := w.next(); id != 7 || status != 0 || string(payload) != "hi" {
		t.Errorf("PING: %d %d %q", id, status, payload)
	}
	w.send(framed(8, 2, "{}"))
	if id, status, _, _ := w.next(); id != 8 || status != 2 {
		t.Errorf("CALL: %d %d", id, status)
	}
	w.send(framed(9, 4, ""))
	for _, b := range framed(10, 3, `{"t":"ping","id":"x","d":{"time":1}}`) { // in pieces
		w.send([]byte{b})
	}
	w.until("pong")
	for name, c := range map[string]struct {
		bytes  []byte
		code   int
		status byte
	}{
		"magic":              {[]byte("GET / HTTP/1.1\r\n\r\n"), 0, 64},
		"version":            {[]byte{0xED, 0xD1, 2}, 0, 64},
		"id 0":               {framed(0, 3, "{}"), 0, 64},
		"reserved operation": {framed(1, 9, "{}"), 0, 64},
		"length":             {framed(1, 3, strings.Repeat("x", proto.MaxAgentBytes+1))[:16], 0, 9},
		"not UTF-8":          {framed(1, 3, "{\"t\":\"\xff\"}"), 1007, 0},
		"a hello too large":  {framed(1, 3, strings.Repeat("x", proto.MaxHelloBytes+1)), proto.CloseTooLarge, 0},
		"nonsense": {func() (b []byte) {
			for range 10 {
				b = append(b, framed(1, 3, "nonsense")...)
			}
			return b
		}(), proto.CloseProtocolError, 0},
	} {
		w := s.dial()
		w.send(c.bytes)
		if code, status := w.ends(); code != c.code || status != c.status {
			t.Errorf("%s: closed with %d, status %d; want %d and %d", name, code, status, c.code, c.status)
		}
		_ = w.Close()
	}
	w.command(`{"t":"ping","id":"y","d":{"time":1}}`) // the first one lives
	w.until("pong")
	testkit.Eventually(t, "the ends of the others", func() bool { return s.desk.Stats().Sessions == 1 })
}

func TestNativeClientThatDoesNotRead(t *testing.T) {
	o := testOptions(t)
	o.Limits.CustomerOutbound = 64 << 10 // the writer is shown its own messages, and may be late
	s := nativeDesk(t, o)
	token := s.visitor()
	slow, writer := s.dial(), s.poll(nil)
	s.ok(slow.Conn.(*net.TCPConn).SetReadBuffer(4 << 10))
	s.asked(writer, 200, "POST", "?n=1", hello(token))
	_, after := s.until(writer, 0, "welcome")
	s.asked(writer, 200, "POST", "?n=2", `{"t":"conv.open","id":"1","d":{"wants":"human"}}`)
	opened, after := s.until(writer, after, "ok")
	slow.command(hello(token))
	slow.until("welcome")
	for n := 3; s.desk.Stats().Closes["4008"] == 0; n++ { // the kernel takes some megabytes first
		s.asked(writer, 200, "POST", fmt.Sprintf("?n=%d", n),
			fmt.Sprintf(`{"t":"msg.send","id":"%d","c":%q,"d":{"client_id":"00000000-0000-4000-8000-%012d","body":%q}}`, n, opened.C, n, strings.Repeat("x", 8000)))
		_, after = s.until(writer, after, "ok")
	}
	if code, _ := slow.ends(); code != proto.CloseSlow {
		t.Errorf("closed with %d", code)
	}
}

// A drain says bye, the close code and GOAWAY, and does not wait for clients.
func TestDrainOfNativeClients(t *testing.T) {
	s := nativeDesk(t, testOptions(t))
	w := s.dial()
	w.command(hello(s.visitor()))
	w.until("welcome")
	ended := make(chan error, 1)
	go func() { ended <- s.desk.Shutdown(s.ctx) }()
	w.until("bye")
	if code, status := w.ends(); code != proto.CloseDraining || status != 65 {
		t.Errorf("closed with %d, status %d", code, status)
	}
	_ = w.Close()
	s.ok(testkit.Receive(t, "the end of the drain", ended))
	if n := s.desk.native.Stats().Closed[eddy.CloseServerShutdown]; n != 1 {
		t.Errorf("%d closed because of the shutdown", n)
	}
	s.start()
}
