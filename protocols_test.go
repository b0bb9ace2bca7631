package eddy_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	coder "github.com/coder/websocket"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/codec/line"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/http1"
	"github.com/go-eddy/eddy/internal/testkit"
	"github.com/go-eddy/eddy/websocket"
)

// packets is a protocol of this test only: the length in two bytes, then so many bytes. The engine knows nothing of it.
type packets struct{}

type packet []byte

// Detach makes a packet outlive its callback.
func (p packet) Detach() any { return packet(bytes.Clone(p)) }

func (packets) Decode(ctx *eddy.Context, view []byte) (int, error) {
	if len(view) < 2 {
		return 0, nil
	}
	n := 2 + int(binary.BigEndian.Uint16(view))
	if n > 1024 {
		return 0, eddy.WithReason(eddy.CloseFrameTooLarge, fmt.Errorf("packet of %d bytes", n))
	}
	if len(view) < n {
		return 0, nil
	}
	ctx.FireRead(packet(view[2:n]))
	return n, nil
}

// HandleWrite puts the length before outgoing packets and lets everything else pass.
func (packets) HandleWrite(ctx *eddy.Context, msg any) error {
	if p, ok := msg.(packet); ok {
		msg = frame(p)
	}
	return ctx.Write(msg)
}

func frame(p []byte) []byte {
	return append(binary.BigEndian.AppendUint16(nil, uint16(len(p))), p...)
}

func capitals() eddy.ReadHandler {
	return eddy.Handle(func(ctx *eddy.Context, p packet) error { return ctx.Write(packet(bytes.ToUpper(p))) })
}

// serveLines answers lines, and after the line "packets" speaks the other protocol on the same connection.
func serveLines(p *eddy.Pipeline) error {
	p.Add("protocol", line.Codec(256))
	return p.Add("answer", eddy.Handle(func(ctx *eddy.Context, l *line.Line) error {
		if string(l.Text()) != "packets" {
			return ctx.WriteBytes(append(bytes.ToUpper(l.Text()), '\n'))
		}
		p := ctx.Pipeline()
		return errors.Join(ctx.WriteBytes([]byte("packets from here\n")),
			p.Replace("protocol", "protocol", packets{}), p.Replace("answer", "answer", capitals()))
	}))
}

func servePackets(p *eddy.Pipeline) error {
	return errors.Join(p.Add("protocol", packets{}), p.Add("answer", capitals()))
}

// shouting answers WebSocket messages.
type shouting struct{}

func (shouting) HandleOpen(*websocket.Conn) error { return nil }
func (shouting) HandleMessage(c *websocket.Conn, op websocket.Opcode, data []byte) error {
	return c.Write(op, bytes.ToUpper(data))
}
func (shouting) HandleClose(*websocket.Conn, int, string) {}

// TestProtocolsSideBySide: one group of loops serves four protocols at the same time, of which the engine has none built
// in: lines, HTTP/1.1, WebSocket and one that only this test knows. Connections change from one to another under the
// traffic of all: HTTP to WebSocket, and lines to packets with the first packets right behind the last line.
func TestProtocolsSideBySide(t *testing.T) {
	group := &eddy.Group{Name: "shared", Loops: 2}
	pool, err := executor.NewFixed(executor.Options{Name: "http", Workers: 8})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := pool.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		group.Close()
	})
	web := http.NewServeMux()
	web.HandleFunc("/shout", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		_, _ = w.Write(bytes.ToUpper(body))
	})
	web.HandleFunc("/ws", func(w http.ResponseWriter, r *http.Request) {
		_, _ = websocket.Upgrade(w, r, shouting{}, websocket.Options{})
	})
	listen := func(init func(*eddy.Pipeline) error) *eddy.Server {
		srv := &eddy.Server{Group: group, Init: init, LingerTimeout: 20 * time.Millisecond}
		if err := srv.Listen("tcp", "127.0.0.1:0"); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { srv.Close() })
		return srv
	}
	lines, raw := listen(serveLines), listen(servePackets)
	pages := listen(http1.NewHandler(web, pool, http1.Options{}).Init)

	const clients, each = 4, 50
	var wg sync.WaitGroup
	run := func(talk func(words []string) error) {
		for c := range clients {
			words := make([]string, each)
			for i := range words {
				words[i] = fmt.Sprintf("word %d of client %d %s", i, c, strings.Repeat("x", i))
			}
			wg.Go(func() {
				if err := talk(words); err != nil {
					t.Error(err)
				}
			})
		}
	}
	run(func(words []string) error { return talkLines(lines.Addr().String(), words) })
	run(func(words []string) error { return talkPackets(raw.Addr().String(), words) })
	run(func(words []string) error { return talkHTTP("http://"+pages.Addr().String()+"/shout", words) })
	run(func(words []string) error { return talkWebSocket("ws://"+pages.Addr().String()+"/ws", words) })
	run(func(words []string) error { return talkBoth(lines.Addr().String(), words) })
	wg.Wait()

	if len(group.Stats()) != 2 {
		t.Fatalf("%d loops", len(group.Stats()))
	}
	for _, l := range group.Stats() {
		if l.Opened == 0 || l.Messages == 0 || l.PhaseViolations != 0 || l.Panics != 0 {
			t.Errorf("loop %s: %d connections, %d messages, %d phase violations, %d panics", l.Name, l.Opened, l.Messages, l.PhaseViolations, l.Panics)
		}
	}
}

// want compares an answer.
func want(protocol, word, answer string, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %q: %w", protocol, word, err)
	}
	if answer != strings.ToUpper(word) {
		return fmt.Errorf("%s: answer to %q is %q", protocol, word, answer)
	}
	return nil
}

// wire is a connection whose reads and writes have a deadline.
func wire(addr string) (net.Conn, *bufio.Reader, error) {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, nil, err
	}
	return c, bufio.NewReader(c), c.SetDeadline(time.Now().Add(testkit.Patience))
}

func talkLines(addr string, words []string) error {
	c, r, err := wire(addr)
	if err != nil {
		return err
	}
	defer c.Close()
	for _, w := range words {
		fmt.Fprintln(c, w)
		answer, err := r.ReadString('\n')
		if err := want("lines", w, strings.TrimSuffix(answer, "\n"), err); err != nil {
			return err
		}
	}
	return nil
}

func readPacket(r io.Reader) (string, error) {
	var head [2]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return "", err
	}
	body := make([]byte, binary.BigEndian.Uint16(head[:]))
	_, err := io.ReadFull(r, body)
	return string(body), err
}

func talkPackets(addr string, words []string) error {
	c, r, err := wire(addr)
	if err != nil {
		return err
	}
	defer c.Close()
	for _, w := range words {
		if _, err := c.Write(frame([]byte(w))); err != nil {
			return err
		}
		answer, err := readPacket(r)
		if err := want("packets", w, answer, err); err != nil {
			return err
		}
	}
	return nil
}

// talkBoth speaks lines, and in the middle of a write goes over to packets.
func talkBoth(addr string, words []string) error {
	c, r, err := wire(addr)
	if err != nil {
		return err
	}
	defer c.Close()
	half := len(words) / 2
	var all bytes.Buffer
	for _, w := range words[:half] {
		fmt.Fprintln(&all, w)
	}
	fmt.Fprintln(&all, "packets")
	for _, w := range words[half:] {
		all.Write(frame([]byte(w)))
	}
	if _, err := c.Write(all.Bytes()); err != nil {
		return err
	}
	for _, w := range words[:half] {
		answer, err := r.ReadString('\n')
		if err := want("lines before packets", w, strings.TrimSuffix(answer, "\n"), err); err != nil {
			return err
		}
	}
	if answer, err := r.ReadString('\n'); answer != "packets from here\n" || err != nil {
		return fmt.Errorf("the change is announced by %q, %w", answer, err)
	}
	for _, w := range words[half:] {
		answer, err := readPacket(r)
		if err := want("packets behind lines", w, answer, err); err != nil {
			return err
		}
	}
	return nil
}

func talkHTTP(url string, words []string) error {
	client := &http.Client{Transport: &http.Transport{}, Timeout: time.Minute}
	defer client.CloseIdleConnections()
	for _, w := range words {
		resp, err := client.Post(url, "text/plain", strings.NewReader(w))
		if err != nil {
			return err
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err := want(resp.Proto, w, string(body), err); err != nil {
			return err
		}
	}
	return nil
}

func talkWebSocket(url string, words []string) error {
	ctx, cancel := context.WithTimeout(context.Background(), testkit.Patience)
	defer cancel()
	c, _, err := coder.Dial(ctx, url, nil)
	if err != nil {
		return err
	}
	defer c.CloseNow()
	for _, w := range words {
		if err := c.Write(ctx, coder.MessageText, []byte(w)); err != nil {
			return err
		}
		_, answer, err := c.Read(ctx)
		if err := want("WebSocket", w, string(answer), err); err != nil {
			return err
		}
	}
	return c.Close(coder.StatusNormalClosure, "")
}
