package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/go-eddy/eddy/cmd/eddy/internal/measured"
	"github.com/go-eddy/eddy/internal/testkit"
)

// TestServeLine uses the line server the way a person with nc does.
func TestServeLine(t *testing.T) {
	p := startServer(t, "serve", "line", "--addr", "127.0.0.1:0", "--loops", "2")
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
		if got := talk(t, p.addr, c.send); got != c.want {
			t.Errorf("%s: answer %q, want %q", c.name, got, c.want)
		}
	}
	p.stop()
}

// TestServeLineByteByByte sends a line as slowly as a terminal does.
func TestServeLineByteByByte(t *testing.T) {
	p := startServer(t, "serve", "line", "--addr", "127.0.0.1:0", "--max-line", "5")
	c := connect(t, p.addr)
	c.(*net.TCPConn).SetNoDelay(true)
	r := bufio.NewReader(c)
	for range 3 {
		for _, b := range []byte("howdy\n") {
			if _, err := c.Write([]byte{b}); err != nil {
				t.Fatal(err)
			}
		}
		if got := readLine(t, r); got != "5: howdy" {
			t.Errorf("answer %q", got)
		}
	}
	c.Close()
	p.stop()
}

func TestServeEcho(t *testing.T) {
	p := startServer(t, "serve", "echo", "--addr", "127.0.0.1:0", "--poller", "poll")
	c := connect(t, p.addr)
	sent := strings.Repeat("any bytes \x00\xff\n", 20_000)
	go io.WriteString(c, sent)
	got := make([]byte, len(sent))
	if _, err := io.ReadFull(c, got); err != nil || string(got) != sent {
		t.Errorf("the echo of %d bytes differs (%v)", len(sent), err)
	}
	c.Close()
	p.stop()
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
	p := startServer(t, append([]string{"serve", "ws", "--addr", "127.0.0.1:0"}, flags...)...)
	ctx := testkit.Context(t)
	c, resp, err := websocket.Dial(ctx, "ws://"+p.addr+"/any/path", &websocket.DialOptions{CompressionMode: mode, CompressionThreshold: 1})
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
	if status, _ := get(t, "http://"+p.addr+"/"); status != http.StatusUpgradeRequired && status != http.StatusBadRequest {
		t.Errorf("a request without Upgrade is answered %d", status)
	}
	p.signal(syscall.SIGTERM)
	_, _, err = c.Read(ctx)
	if code := websocket.CloseStatus(err); code != websocket.StatusGoingAway {
		t.Errorf("told %v (%v) when the server stops, want %v", code, err, websocket.StatusGoingAway)
	}
	if code := p.wait(); code != 0 {
		t.Errorf("exit code %d; stderr %q", code, p.errs)
	}
}

// TestMaxConns shows that the limit holds and that a place becomes free again.
func TestMaxConns(t *testing.T) {
	p := startServer(t, "serve", "line", "--addr", "127.0.0.1:0", "--max-conns", "1")
	first := connect(t, p.addr)
	io.WriteString(first, "in\n")
	if got := readLine(t, bufio.NewReader(first)); got != "2: in" {
		t.Fatalf("answer %q", got)
	}
	if answer := refused(t, p.addr); answer != "busy: the server takes no more connections: max_conns; try again in 1s\n" {
		t.Errorf("the second connection got %q", answer)
	}
	first.Close()
	for { // the place is free as soon as the server has seen the end of the first one
		c := connect(t, p.addr)
		io.WriteString(c, "in\nbye\n")
		answer, _ := io.ReadAll(c)
		c.Close()
		if string(answer) == "2: in\n" {
			break
		}
	}
	p.stop()
}

// refused returns what a client is told for whom there is no room.
func refused(t *testing.T, addr string) string {
	t.Helper()
	c := connect(t, addr)
	defer c.Close()
	answer, err := io.ReadAll(c)
	if err != nil {
		t.Errorf("after %q: %v", answer, err)
	}
	return string(answer)
}

// TestRefusedAreTold: whom --max-conns keeps out is told so in the protocol of every server command; before a handshake of
// TLS there is nobody who could read it.
func TestRefusedAreTold(t *testing.T) {
	data, _ := madeDesk(t)
	ports := filepath.Join(t.TempDir(), "ports.yaml")
	if err := os.WriteFile(ports, []byte("protocols:\n  a: {host: 127.0.0.1, port: 0, accepts: 1}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	const line, busy, http503 = `^busy: .*max_conns.*\n$`, `(?s)^..\x01\x00+\x05.*max_conns$`, `^HTTP/1.1 503 Service Unavailable\r\n(.+\r\n)*Retry-After: 1\r\n(.+\r\n)*Connection: close\r\n`
	for _, c := range []struct{ args, want string }{
		{"serve echo", line}, {"serve line", line}, {"serve lanes", line}, {"serve frame", busy}, {"serve rpc", busy}, {"serve rpc --config " + ports, busy},
		{"serve http", http503}, {"serve ws", http503}, {"desk --data " + data, http503}, {"serve http --tls-self-signed", "^$"}, {"serve rpc --tls-self-signed", "^$"},
	} {
		t.Run(c.args, func(t *testing.T) {
			t.Parallel()
			args := strings.Fields(c.args)
			if !strings.Contains(c.args, "--config") {
				args = append(args, "--addr", "127.0.0.1:0", "--max-conns", "1")
			}
			p := startServer(t, args...)
			first := connect(t, p.addr)
			if answer := refused(t, p.addr); !regexp.MustCompile(c.want).MatchString(answer) {
				t.Errorf("told %q, want %s", answer, c.want)
			}
			first.Close()
			p.stop()
		})
	}
}

// TestIdleTimeout: with --idle-timeout a silent client's connection ends, in servers whose protocol has no limit of its own.
func TestIdleTimeout(t *testing.T) {
	for _, name := range []string{"echo", "line", "lanes"} {
		p := startServer(t, "serve", name, "--addr", "127.0.0.1:0", "--idle-timeout", "10ms")
		if answer, err := io.ReadAll(connect(t, p.addr)); err != nil || len(answer) > 0 {
			t.Errorf("%s: %q, %v; want the end", name, answer, err)
		}
		p.stop()
	}
}

var reportDraining = regexp.MustCompile(`draining`)

var reportPattern = regexp.MustCompile(`stopped after \S+: (\d+) connections drained, (\d+) forced, (\d+) requests dropped\n`)

// TestShutdownUnderLoad stops the line server while clients talk: it drains all of them, and no client sees a wrong or torn answer.
func TestShutdownUnderLoad(t *testing.T) {
	t.Parallel()
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		p := startServer(t, "serve", "line", "--addr", "127.0.0.1:0")
		const clients, before = 20, 2000
		var answers atomic.Int64
		enough := make(chan struct{})
		var talkers, served sync.WaitGroup // a connection that nobody has accepted yet is not drained
		served.Add(clients)
		for i := range clients {
			c := connect(t, p.addr)
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
		p.signal(sig)
		talkers.Wait()
		if code := p.wait(); code != 0 {
			t.Errorf("%v: exit code %d; stderr %q", sig, code, p.errs)
		}
		report := p.waitOutput(p.errs, reportPattern)
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
	p := startServer(t, "serve", "line", "--addr", "127.0.0.1:0")
	c := connect(t, p.addr)
	io.WriteString(c, "whole\nhal")
	if got := readLine(t, bufio.NewReader(c)); got != "5: whole" {
		t.Fatalf("answer %q", got)
	}
	p.signal(syscall.SIGTERM)
	p.waitOutput(p.errs, reportDraining)
	p.signal(syscall.SIGTERM)
	if code := p.wait(); code != 0 {
		t.Errorf("exit code %d; stderr %q", code, p.errs)
	}
	if report := p.waitOutput(p.errs, reportPattern); report[1] != "0" || report[2] != "1" {
		t.Errorf("report %q, want the connection forced", report[0])
	}
}

// runBench measures for longer and longer until there is an answer: a busy machine may answer nothing in a short time.
func runBench(t *testing.T, d time.Duration, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	for ; ; d *= 4 {
		stdout, stderr, code = runToEnd(t, append(args, "--duration", d.String())...)
		if d > 30*time.Second || !strings.Contains(stderr, "no answer from") || !strings.Contains(stderr, " within ") {
			return stdout, stderr, code
		}
	}
}

// TestBench measures each example server with the load generator and finds its figures in text and JSON.
func TestBench(t *testing.T) {
	t.Parallel()
	for _, protocol := range []string{"echo", "line", "frame", "http", "ws"} {
		p := startServer(t, "serve", protocol, "--addr", "127.0.0.1:0")
		args := []string{"bench", protocol, "--addr", p.addr, "--conns", "8", "--inflight", "4", "--warmup", "0s"}
		stdout, stderr, code := runBench(t, 300*time.Millisecond, args...)
		if code != 0 || stderr != "" {
			t.Errorf("%s: exit code %d, stderr %q", protocol, code, stderr)
		}
		for _, want := range []string{"requests/s", "p50", "p99", "p99.9", "max", "errors      0"} {
			if !strings.Contains(stdout, want) {
				t.Errorf("%s: no %q in %q", protocol, want, stdout)
			}
		}
		stdout, _, code = runBench(t, 300*time.Millisecond, append(args, "--json")...)
		var r measured.Run
		if err := json.Unmarshal([]byte(stdout), &r); err != nil || code != 0 {
			t.Fatalf("%s: %v, exit code %d, stdout %q", protocol, err, code, stdout)
		}
		if r.Protocol != protocol || r.Requests == 0 || r.Errors != 0 || r.Latency.P50 <= 0 || r.Latency.Max < r.Latency.P999 || r.Latency.P999 < r.Latency.P50 {
			t.Errorf("%s: implausible figures %+v", protocol, r)
		}
		p.stop()
	}
}

// TestBenchProgress shows the progress line of a run that takes longer than two seconds, and that Ctrl+C ends it with a result.
func TestBenchProgress(t *testing.T) {
	t.Parallel()
	server := startServer(t, "serve", "echo", "--addr", "127.0.0.1:0")
	b := startCommand(t, program("bench", "echo", "--addr", server.addr, "--conns", "2", "--duration", "1h", "--warmup", "0s"))
	b.waitOutput(b.errs, regexp.MustCompile(`(?m)^eddy: \d+ of 3600 s: \d+ requests/s, p99 .* 0 errors$`))
	b.signal(syscall.SIGINT)
	if code := b.wait(); code != 0 || !strings.Contains(b.out.String(), "errors      0") {
		t.Errorf("exit code %d, stdout %q, stderr %q", code, b.out, b.errs)
	}
	server.stop()
}
