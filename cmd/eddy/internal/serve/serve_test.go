package serve

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/coder/websocket"

	"github.com/go-eddy/eddy/cmd/eddy/internal/cmdtest"
	"github.com/go-eddy/eddy/internal/testkit"
)

// TestServeLine uses the line server the way a person with nc does.
func TestServeLine(t *testing.T) {
	p := cmdtest.StartServer(t, "serve", "line", "--addr", "127.0.0.1:0", "--loops", "2")
	for _, c := range []struct{ name, send, want string }{
		{"one line", "hello\nexit\n", "5: hello\n"},
		{"telnet endings", "hello\r\nbye\r\n", "5: hello\n"},
		{"empty line", "\nbye\n", "0: \n"},
		{"length counts bytes", "人工\nbye\n", "6: 人工\n"},
		{"nothing after the goodbye", "a\nbye\nb\n", "1: a\n"},
		{"at the limit", strings.Repeat("x", 256) + "\nbye\n", "256: " + strings.Repeat("x", 256) + "\n"},
		{"too long", "ok\n" + strings.Repeat("x", 257) + "\nbye\n", "2: ok\nerror: line too long: the limit is 256 bytes\n"},
		{"too long and unfinished", strings.Repeat("x", 5000), "error: line too long: the limit is 256 bytes\n"},
	} {
		if got := cmdtest.Talk(t, p.Addr, c.send); got != c.want {
			t.Errorf("%s: answer %q, want %q", c.name, got, c.want)
		}
	}
	p.Stop()
}

// TestServeLineByteByByte sends a line as slowly as a terminal does.
func TestServeLineByteByByte(t *testing.T) {
	p := cmdtest.StartServer(t, "serve", "line", "--addr", "127.0.0.1:0", "--max-line", "5")
	c := cmdtest.Connect(t, p.Addr)
	c.(*net.TCPConn).SetNoDelay(true)
	r := bufio.NewReader(c)
	for range 3 {
		for _, b := range []byte("howdy\n") {
			if _, err := c.Write([]byte{b}); err != nil {
				t.Fatal(err)
			}
		}
		if got := cmdtest.ReadLine(t, r); got != "5: howdy" {
			t.Errorf("answer %q", got)
		}
	}
	c.Close()
	p.Stop()
}

func TestServeEcho(t *testing.T) {
	p := cmdtest.StartServer(t, "serve", "echo", "--addr", "127.0.0.1:0", "--poller", "poll")
	c := cmdtest.Connect(t, p.Addr)
	sent := strings.Repeat("any bytes \x00\xff\n", 20_000)
	go io.WriteString(c, sent)
	got := make([]byte, len(sent))
	if _, err := io.ReadFull(c, got); err != nil || string(got) != sent {
		t.Errorf("the echo of %d bytes differs (%v)", len(sent), err)
	}
	c.Close()
	p.Stop()
}

// TestServeWS talks to the WebSocket server with an independent client, and is told when the server goes away.
func TestServeWS(t *testing.T) {
	t.Run("plain", func(t *testing.T) { serveWS(t, websocket.CompressionDisabled) })
	t.Run("compressed", func(t *testing.T) {
		serveWS(t, websocket.CompressionNoContextTakeover, "--compress", "--compress-threshold", "1")
	})
	t.Run("takeover", func(t *testing.T) {
		serveWS(t, websocket.CompressionContextTakeover, "--compress", "--compress-takeover")
	})
}

func serveWS(t *testing.T, mode websocket.CompressionMode, flags ...string) {
	p := cmdtest.StartServer(t, append([]string{"serve", "ws", "--addr", "127.0.0.1:0"}, flags...)...)
	ctx := testkit.Context(t)
	c, resp, err := websocket.Dial(ctx, "ws://"+p.Addr+"/any/path", &websocket.DialOptions{CompressionMode: mode, CompressionThreshold: 1})
	if err != nil {
		t.Fatal(err)
	}
	if ext := resp.Header.Get("Sec-WebSocket-Extensions"); (ext != "") != (len(flags) > 0) {
		t.Errorf("extensions %q with %v", ext, flags)
	}
	defer c.CloseNow()
	c.SetReadLimit(1 << 20)
	for _, m := range []struct {
		op   websocket.MessageType
		data string
	}{{websocket.MessageText, "hello 人工"}, {websocket.MessageBinary, "\x00\xff"}, {websocket.MessageText, ""}, {websocket.MessageBinary, strings.Repeat("x", 300_000)}} {
		if err := c.Write(ctx, m.op, []byte(m.data)); err != nil {
			t.Fatal(err)
		}
		op, data, err := c.Read(ctx)
		if err != nil || op != m.op || string(data) != m.data {
			t.Errorf("echo of %v %.20q is %v %.20q (%v)", m.op, m.data, op, data, err)
		}
	}
	if status, _ := cmdtest.Get(t, "http://"+p.Addr+"/"); status != http.StatusUpgradeRequired && status != http.StatusBadRequest {
		t.Errorf("a request without Upgrade is answered %d", status)
	}
	p.Signal(syscall.SIGTERM)
	_, _, err = c.Read(ctx)
	if code := websocket.CloseStatus(err); code != websocket.StatusGoingAway {
		t.Errorf("told %v (%v) when the server stops, want %v", code, err, websocket.StatusGoingAway)
	}
	if code := p.Wait(); code != 0 {
		t.Errorf("exit code %d; stderr %q", code, p.Errs)
	}
}

// TestMaxConns shows that the limit holds and that a place becomes free again.
func TestMaxConns(t *testing.T) {
	p := cmdtest.StartServer(t, "serve", "line", "--addr", "127.0.0.1:0", "--max-conns", "1")
	first := cmdtest.Connect(t, p.Addr)
	io.WriteString(first, "in\n")
	if got := cmdtest.ReadLine(t, bufio.NewReader(first)); got != "2: in" {
		t.Fatalf("answer %q", got)
	}
	if answer := cmdtest.Talk(t, p.Addr, ""); answer != "busy: the server takes no more connections: max_conns; try again in 1s\n" {
		t.Errorf("the second connection got %q", answer)
	}
	first.Close()
	for { // the place is free as soon as the server has seen the end of the first one
		c := cmdtest.Connect(t, p.Addr)
		io.WriteString(c, "in\nbye\n")
		answer, _ := io.ReadAll(c)
		c.Close()
		if string(answer) == "2: in\n" {
			break
		}
	}
	p.Stop()
}

// TestRefusalsAreTold: a server without room says so in the words of its protocol, and when to come back.
func TestRefusalsAreTold(t *testing.T) {
	const line, frame, get = "busy: the server takes no more connections: max_conns; try again in 1s\n", "the server takes no more connections: max_conns", "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
	inMillis := func(ms uint32) string { return string(binary.BigEndian.AppendUint32(nil, ms)) }
	for name, want := range map[string]struct{ ask, begins, has, ends string }{
		"echo":  {"", line, "", ""},
		"line":  {"", line, "", ""},
		"lanes": {"", line, "", ""},
		"frame": {"", "\xed\xd1\x01", inMillis(1000), frame},
		"rpc":   {"", "\xed\xd1\x01", inMillis(50), frame},
		"http":  {get, "HTTP/1.1 503 Service Unavailable\r\n", "\r\nRetry-After: 1\r\n", "the server is busy\n"},
		"ws":    {get, "HTTP/1.1 503 Service Unavailable\r\n", "\r\nRetry-After: 1\r\n", "the server is busy\n"},
	} {
		t.Run(name, func(t *testing.T) {
			p := cmdtest.StartServer(t, "serve", name, "--addr", "127.0.0.1:0", "--max-conns", "1")
			first := cmdtest.Connect(t, p.Addr) // accepted before the next one, of the same listener
			got := cmdtest.Talk(t, p.Addr, want.ask)
			if !strings.HasPrefix(got, want.begins) || !strings.Contains(got, want.has) || !strings.HasSuffix(got, want.ends) {
				t.Errorf("told %q", got)
			}
			first.Close()
			p.Stop()
		})
	}
}

// TestIdleTimeout: with --idle-timeout a silent client's connection ends, in servers whose protocol has no limit of its own.
func TestIdleTimeout(t *testing.T) {
	for _, name := range []string{"echo", "line", "lanes"} {
		p := cmdtest.StartServer(t, "serve", name, "--addr", "127.0.0.1:0", "--idle-timeout", "10ms")
		if answer, err := io.ReadAll(cmdtest.Connect(t, p.Addr)); err != nil || len(answer) > 0 {
			t.Errorf("%s: %q, %v; want the end", name, answer, err)
		}
		p.Stop()
	}
}

var reportDraining = regexp.MustCompile(`draining`)

var reportPattern = regexp.MustCompile(`stopped after \S+: (\d+) connections drained, (\d+) forced, (\d+) requests dropped\n`)

// TestShutdownUnderLoad stops the line server while clients talk: it drains all of them, and no client sees a wrong or torn answer.
func TestShutdownUnderLoad(t *testing.T) {
	t.Parallel()
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		p := cmdtest.StartServer(t, "serve", "line", "--addr", "127.0.0.1:0")
		const clients, before = 20, 2000
		var answers atomic.Int64
		enough := make(chan struct{})
		var talkers, served sync.WaitGroup // a connection that nobody has accepted yet is not drained
		served.Add(clients)
		for i := range clients {
			c := cmdtest.Connect(t, p.Addr)
			first := sync.OnceFunc(served.Done)
			talkers.Go(func() {
				defer first() // one that fails has said so
				chat(t, c, i, func() {
					first()
					if answers.Add(1) == before {
						close(enough)
					}
				})
			})
		}
		<-enough
		served.Wait()
		p.Signal(sig)
		talkers.Wait()
		if code := p.Wait(); code != 0 {
			t.Errorf("%v: exit code %d; stderr %q", sig, code, p.Errs)
		}
		report := p.WaitOutput(p.Errs, reportPattern)
		if report[1] != fmt.Sprint(clients) || report[2] != "0" || report[3] != "0" {
			t.Errorf("%v: report %q, want all %d drained", sig, report[0], clients)
		}
	}
}

// chat talks until the server ends the connection; every whole answer must be right and none may be torn.
func chat(t *testing.T, c net.Conn, id int, answered func()) {
	defer c.Close()
	r := bufio.NewReader(c)
	for n := 0; ; n++ {
		text := fmt.Sprintf("client %d line %d", id, n)
		if _, err := fmt.Fprintln(c, text); err != nil {
			return // the server has gone: the line was never taken
		}
		got, err := r.ReadString('\n')
		if err != nil {
			if got != "" || !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("client %d: torn answer %q: %v", id, got, err)
			}
			return
		}
		if want := fmt.Sprintf("%d: %s\n", len(text), text); got != want {
			t.Errorf("client %d: answer %q, want %q", id, got, want)
			return
		}
		answered()
	}
}

// TestSecondSignalForces shows that a connection in the middle of a request holds the drain up, and that the second signal ends that.
func TestSecondSignalForces(t *testing.T) {
	t.Parallel()
	p := cmdtest.StartServer(t, "serve", "line", "--addr", "127.0.0.1:0")
	c := cmdtest.Connect(t, p.Addr)
	io.WriteString(c, "whole\nhal")
	if got := cmdtest.ReadLine(t, bufio.NewReader(c)); got != "5: whole" {
		t.Fatalf("answer %q", got)
	}
	p.Signal(syscall.SIGTERM)
	p.WaitOutput(p.Errs, reportDraining)
	p.Signal(syscall.SIGTERM)
	if code := p.Wait(); code != 0 {
		t.Errorf("exit code %d; stderr %q", code, p.Errs)
	}
	if report := p.WaitOutput(p.Errs, reportPattern); report[1] != "0" || report[2] != "1" {
		t.Errorf("report %q, want the connection forced", report[0])
	}
}
