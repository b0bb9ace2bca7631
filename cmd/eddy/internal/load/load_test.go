package load

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve runs handle for every connection of a fresh loopback listener until the test ends, and closes those that are left.
func serve(t *testing.T, handle func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(context.Background())
	var all sync.WaitGroup
	t.Cleanup(func() { end(); l.Close(); all.Wait() })
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer c.Close()
				defer context.AfterFunc(ctx, func() { c.Close() })()
				handle(c)
			})
		}
	})
	return l.Addr().String()
}

func echoServer(t *testing.T) string {
	return serve(t, func(c net.Conn) { io.Copy(c, c) })
}

func lineServer(t *testing.T) string {
	return serve(t, func(c net.Conn) {
		for s := bufio.NewScanner(c); s.Scan(); {
			fmt.Fprintf(c, "%d: %s\n", len(s.Text()), s.Text())
		}
	})
}

// frameServer answers ECHOs, the last of what has come first.
func frameServer(t *testing.T) string {
	return serve(t, func(c net.Conn) {
		r := bufio.NewReaderSize(c, 1<<20)
		for {
			var answers []byte
			for n := 0; n == 0 || r.Buffered() >= 16; n++ {
				h := make([]byte, 16)
				if _, err := io.ReadFull(r, h); err != nil || h[11] != 1 {
					return
				}
				h[11] = 0
				p := make([]byte, binary.BigEndian.Uint32(h[12:]))
				if _, err := io.ReadFull(r, p); err != nil {
					return
				}
				answers = append(append(h, p...), answers...)
			}
			if _, err := c.Write(answers); err != nil {
				return
			}
		}
	})
}

// socketServer echoes with an independent WebSocket implementation and, if asked, pings before every answer.
func socketServer(t *testing.T, ping bool) string {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		defer c.CloseNow()
		for {
			op, data, err := c.Read(r.Context())
			if err != nil {
				return
			}
			if ping {
				go c.Ping(r.Context())
			}
			if err := c.Write(r.Context(), op, data); err != nil {
				return
			}
		}
	}))
	t.Cleanup(srv.Close)
	return srv.Listener.Addr().String()
}

// webServer echoes bodies; long ones come in chunks.
func webServer(t *testing.T) string {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.Copy(w, r.Body) }))
	t.Cleanup(srv.Close)
	return srv.Listener.Addr().String()
}

// enough runs the load for longer and longer until there is an answer or an error: a loaded machine may answer nothing in a short time.
func enough(t *testing.T, o Options) (*Result, Options) {
	t.Helper()
	for {
		r, err := Run(context.Background(), o, nil)
		if err != nil {
			t.Fatal(err)
		}
		if r.Requests+r.Errors > 0 || o.Duration > time.Minute {
			return r, o
		}
		o.Duration *= 4
	}
}

func TestRun(t *testing.T) {
	for _, c := range []struct {
		name, protocol string
		addr           string
		conns, size    int
		pipeline       int
	}{
		{"echo", "echo", echoServer(t), 10, 64, 1},
		{"echo pipelined", "echo", echoServer(t), 3, 100, 16},
		{"echo larger than a read", "echo", echoServer(t), 2, 200_000, 2},
		{"line", "line", lineServer(t), 10, 64, 1},
		{"line pipelined", "line", lineServer(t), 2, 9, 8},
		{"frame", "frame", frameServer(t), 5, 64, 1},
		{"frame pipelined", "frame", frameServer(t), 2, 100, 7},
		{"frame larger than a read", "frame", frameServer(t), 1, 200_000, 3},
		{"rpc", "rpc", callServer(t, 0), 5, 64, 1},
		{"rpc pipelined", "rpc", callServer(t, 0), 2, 100, 7},
		{"http", "http", webServer(t), 5, 0, 1},
		{"http with a body, pipelined", "http", webServer(t), 2, 10, 8},
		{"http chunked", "http", webServer(t), 2, 9_000, 2},
		{"ws", "ws", socketServer(t, false), 5, 64, 1},
		{"ws pipelined", "ws", socketServer(t, false), 2, 10, 8},
		{"ws 16-bit length", "ws", socketServer(t, false), 1, 5_000, 2},
		{"ws with pings", "ws", socketServer(t, true), 1, 64, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := Options{Protocol: c.protocol, Addr: c.addr, Conns: c.conns, Size: c.size, InFlight: c.pipeline, Duration: 50 * time.Millisecond}
			o.Service, o.Method = "/s:", "m"
			r, o := enough(t, o)
			if r.Requests == 0 || r.Errors != 0 || r.Latencies.TotalCount() != r.Requests {
				t.Errorf("%d requests, %d errors (%v), %d latencies", r.Requests, r.Errors, r.FirstError, r.Latencies.TotalCount())
			}
			if r.Elapsed <= 0 || r.Elapsed > o.Duration {
				t.Errorf("elapsed %v of %v", r.Elapsed, o.Duration)
			}
		})
	}
}

// TestWrongAnswersAreErrors shows that a server which answers wrongly or hangs up does not count as fast.
func TestWrongAnswersAreErrors(t *testing.T) {
	for _, c := range []struct{ name, protocol, answer, want string }{
		{"hangs up", "echo", "", "closed the connection"},
		{"other bytes", "echo", strings.Repeat("z", 64), "wrong answer"},
		{"frame of another kind", "frame", strings.Repeat("z", 64), "wrong answer"},
		{"frame with a status", "frame", "\xed\xd1\x01\x00\x00\x00\x00\x00\x00\x00\x01\x05\x00\x00\x00\x00", "status 5"},
		{"frame to nothing", "frame", "\xed\xd1\x01\x00\x00\x00\x00\x00\x00\x00\x02\x00\x00\x00\x00\x40" + strings.Repeat("a", 64), "not in flight"},
		{"frame of another length", "frame", "\xed\xd1\x01\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x41", "payload of 65 bytes"},
		{"frame with another payload", "frame", "\xed\xd1\x01\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x40" + strings.Repeat("a", 64), "another payload"},
		{"more answers than requests", "http", strings.Repeat("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 2), "2 answers to 1 requests"},
		{"http not found", "http", "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", "status 404"},
		{"http of another kind", "http", "SSH-2.0-x\r\n\r\n", "no HTTP/1 status line"},
		{"http without an end", "http", "HTTP/1.1 200 OK\r\n\r\n", "its end cannot be told"},
		{"http with a bad length", "http", "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", "Content-Length"},
		{"http with a bad chunk", "http", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nabc\r\n", "longer than its size"},
		{"http with an endless header", "http", "HTTP/1.1 200 OK\r\n" + strings.Repeat("a: b\r\n", 300), "more than 200 header fields"},
		{"line without its length", "line", strings.Repeat("a", 64) + "\n", "wrong answer"},
	} {
		addr := serve(t, func(conn net.Conn) {
			io.ReadFull(conn, make([]byte, 64))
			io.WriteString(conn, c.answer)
		})
		r, err := Run(context.Background(), Options{Protocol: c.protocol, Addr: addr, Conns: 2, Size: 64, InFlight: 1, Duration: time.Minute}, nil)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if r.Requests != 0 || r.Errors != 2 || r.FirstError == nil || !strings.Contains(r.FirstError.Error(), c.want) {
			t.Errorf("%s: %d requests, %d errors, first %v; want 2 errors with %q", c.name, r.Requests, r.Errors, r.FirstError, c.want)
		}
	}
}

// TestNothingToMeasure shows that Run fails at once when the server is not there or speaks something else.
func TestNothingToMeasure(t *testing.T) {
	closed := serve(t, func(net.Conn) {})
	o := Options{Protocol: "ws", Addr: closed, Conns: 1, Size: 1, InFlight: 1, Duration: time.Minute}
	if _, err := Run(context.Background(), o, nil); err == nil || !strings.Contains(err.Error(), "no WebSocket handshake") {
		t.Errorf("server without WebSocket: %v", err)
	}
	o.Addr, o.Protocol = "127.0.0.1:1", "echo"
	if _, err := Run(context.Background(), o, nil); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("no server: %v", err)
	}
}

func TestCheckNamesTheFlag(t *testing.T) {
	good := Options{Protocol: "echo", Addr: "127.0.0.1:7000", Conns: 1, Size: 1, InFlight: 1, Duration: time.Second}
	if err := good.Check(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		want   string
		change func(*Options)
	}{
		{`unknown protocol "smtp"`, func(o *Options) { o.Protocol = "smtp" }},
		{`--addr "here"`, func(o *Options) { o.Addr = "here" }},
		{"--conns 0 is out of range", func(o *Options) { o.Conns = 0 }},
		{"--conns 20001 is out of range", func(o *Options) { o.Conns = MaxConns + 1 }},
		{"--size 0 is out of range", func(o *Options) { o.Size = 0 }},
		{"--inflight -1 is out of range", func(o *Options) { o.InFlight = -1 }},
		{"bytes in flight", func(o *Options) { o.Size, o.InFlight = 1<<20, 2 }},
		{"--duration 0s must be positive", func(o *Options) { o.Duration = 0 }},
	} {
		o := good
		c.change(&o)
		if err := o.Check(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want %q", err, c.want)
		}
	}
}

// TestCancelEndsEarly shows that a run ends with its context, keeps what it measured and reports progress meanwhile.
func TestCancelEndsEarly(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	o := Options{Protocol: "echo", Addr: echoServer(t), Conns: 4, Size: 16, InFlight: 1, Duration: time.Hour}
	r, err := Run(ctx, o, func(r *Result) {
		if r.Requests > 0 {
			cancel()
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if r.Requests == 0 || r.Errors != 0 || r.Elapsed > time.Minute {
		t.Errorf("%d requests, %d errors (%v) in %v", r.Requests, r.Errors, r.FirstError, r.Elapsed)
	}
}
