package metrics

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/http1"
	"github.com/go-eddy/eddy/internal/testkit"
	"github.com/go-eddy/eddy/websocket"
)

// silent takes messages and says nothing.
type silent struct{}

func (silent) HandleOpen(*websocket.Conn) error                              { return nil }
func (silent) HandleMessage(*websocket.Conn, websocket.Opcode, []byte) error { return nil }
func (silent) HandleClose(*websocket.Conn, int, string)                      {}

// visit is a client: it opens a WebSocket connection, sends messages, and leaves with the code.
func visit(t *testing.T, addr string, messages int, code uint16) {
	t.Helper()
	c := dial(t, addr)
	if err := c.SetDeadline(time.Now().Add(testkit.Patience)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"+
		"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(c)
	answer, err := http.ReadResponse(in, nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	if answer.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("status %s", answer.Status)
	}
	var frames []byte
	for range messages {
		frames = append(frames, 0x81, 0x81, 0, 0, 0, 0, 'm') // masked with zeros
	}
	if _, err := c.Write(append(frames, 0x88, 0x82, 0, 0, 0, 0, byte(code>>8), byte(code))); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(in, make([]byte, 4)); err != nil { // the server's close frame
		t.Fatal(err)
	}
	_ = c.Close()
}

// TestWebSocketNumbers: connections are exposed by their close codes, those of libraries and applications by the class.
func TestWebSocketNumbers(t *testing.T) {
	st := &websocket.Stats{}
	pool := fixed(t, executor.Options{Workers: 1})
	web := http1.NewHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = websocket.Upgrade(w, r, silent{}, websocket.Options{Stats: st}) // who is refused has been answered
	}), pool, http1.Options{})
	addr := listen(t, &eddy.Server{Init: web.Init, Loops: 1})
	want := samples{`eddy_websocket_closed_total{code="other"}`: 0, "eddy_websocket_dropped_pongs_total": 0}
	for code := 1000; code <= 1015; code++ {
		want[fmt.Sprintf(`eddy_websocket_closed_total{code="%d"}`, code)] = 0
	}
	conns, messages := 0, 0
	for _, ends := range []struct {
		code  string
		codes []uint16
	}{
		{"1000", []uint16{1000}}, {"1001", []uint16{1001, 1001}}, {"3xxx", []uint16{3000, 3001, 3999}}, {"4xxx", []uint16{4000, 4001, 4401, 4999}},
	} {
		for _, code := range ends.codes {
			visit(t, addr, 2, code)
		}
		conns, messages = conns+len(ends.codes), messages+2*len(ends.codes)
		want[`eddy_websocket_closed_total{code="`+ends.code+`"}`] = float64(len(ends.codes))
	}
	for range 3 {
		plain, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+addr, nil)
		if err != nil {
			t.Fatal(err)
		}
		plain.Close = true
		answer, err := http.DefaultClient.Do(plain)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
	}
	want["eddy_websocket_opened_total"], want["eddy_websocket_messages_total"], want["eddy_websocket_refused_total"] = float64(conns), float64(messages), 3
	testkit.Eventually(t, "the last connection's end", func() bool { return st.Closed(4000) == 4 })
	tells(t, "websocket", WebSocket("x", st), want)
}
