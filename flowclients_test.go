package eddy_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	coder "github.com/coder/websocket"

	"github.com/go-eddy/eddy"
	frames "github.com/go-eddy/eddy/codec/frame"
	"github.com/go-eddy/eddy/http1"
	"github.com/go-eddy/eddy/internal/testkit"
	"github.com/go-eddy/eddy/rpc"
	"github.com/go-eddy/eddy/tlsx"
	"github.com/go-eddy/eddy/websocket"
)

// flowListen starts the server of a cell.
func flowListen(t *testing.T, srv *eddy.Server, tune func(*eddy.Server)) string {
	t.Helper()
	tune(srv)
	return start(t, srv)
}

func flowFrameServer(t *testing.T, c *flowCell, tune func(*eddy.Server)) string {
	s, err := frames.NewServer(frames.Options{Pool: newPool(t, 16, 1024), MaxPayload: c.largest(), ReadTimeout: -1, IdleTimeout: -1,
		Handle: func(_ context.Context, req *frames.Frame) ([]byte, error) { return c.respond(req.Payload) }})
	if err != nil {
		t.Fatal(err)
	}
	srv := &eddy.Server{}
	s.Configure(srv)
	srv.BackpressureTimeout = time.Hour
	return flowListen(t, srv, tune)
}

// flowFrameCalls asks for as many answers as there are callers in one write, and again when it has them.
func flowFrameCalls(t *testing.T, c *flowCell, addr string) error {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	answers := bufio.NewReaderSize(conn, 64<<10)
	for range c.calls() {
		var all []byte
		for id := range c.callers {
			all = flowFrame(all, uint64(id+1), c.request())
		}
		sent := make(chan error, 1)
		go func() {
			_, err := conn.Write(all)
			sent <- err
		}()
		for n := range c.callers {
			if err := c.flowAnswer(answers); err != nil {
				_ = conn.Close()
				return errors.Join(fmt.Errorf("after %d answers: %w", n, err), <-sent)
			}
		}
		if err := <-sent; err != nil {
			return err
		}
	}
	return nil
}

// flowAnswer reads a response and checks it.
func (c *flowCell) flowAnswer(r io.Reader) error {
	var head [frames.HeaderSize]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return err
	}
	payload := make([]byte, binary.BigEndian.Uint32(head[12:]))
	if _, err := io.ReadFull(r, payload); err != nil {
		return err
	}
	if head[11] != 0 {
		return fmt.Errorf("status %d: %q", head[11], payload)
	}
	return c.check(payload)
}

func flowFrame(b []byte, id uint64, payload []byte) []byte {
	b = append(b, 0xED, 0xD1, 1)
	b = binary.BigEndian.AppendUint64(b, id)
	b = append(b, byte(frames.Call))
	b = binary.BigEndian.AppendUint32(b, uint32(len(payload)))
	return append(b, payload...)
}

var flowKey = rpc.Key{Interface: "flow"}

func flowRPCServer(t *testing.T, c *flowCell, tune func(*eddy.Server)) string {
	port := rpc.PortOptions{Name: "flow", Addr: "127.0.0.1:0", MaxPayload: c.largest(), ReadTimeout: -1, IdleTimeout: -1, Tune: func(srv *eddy.Server) {
		tune(srv)
		srv.BackpressureTimeout = time.Hour
	}}
	if c.protocol.tls {
		cert, err := tlsx.SelfSigned("localhost")
		if err != nil {
			t.Fatal(err)
		}
		layer, err := tlsx.Server(&tls.Config{Certificates: []tls.Certificate{cert}}, newPool(t, 2, 64), tlsx.Options{Logger: quiet(), Timeout: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		port.Front = func(p *eddy.Pipeline) error { return p.Add("tls", layer) }
	}
	s, err := rpc.NewServer(rpc.ServerOptions{Logger: quiet(), Ports: []rpc.PortOptions{port}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	svc, err := rpc.NewService(flowKey, rpc.Raw("Call", func(_ context.Context, body []byte) ([]byte, error) { return c.respond(body) }))
	if err := errors.Join(err, s.Register(svc), s.Listen()); err != nil {
		t.Fatal(err)
	}
	return s.Addr("flow").String()
}

// flowRPCCalls makes the calls on one connection. All requests together may be more than the client lets wait by default,
// 64 MiB: calls beyond end with ErrClientFull and are not sent.
func flowRPCCalls(t *testing.T, c *flowCell, addr string) error {
	o := rpc.ClientOptions{Addrs: []string{addr}, Timeout: -1, MaxPayload: c.largest(), Logger: quiet()}
	if all := c.callers * c.size; c.upload && all > 64<<20 {
		o.MaxWaiting = all
	}
	cl, err := rpc.NewClient(o)
	if err != nil {
		return err
	}
	ctx := testkit.Context(t)
	err = c.together(func() error {
		answer, err := rpc.Invoke[[]byte](ctx, cl, flowKey, "Call", c.request())
		if err != nil {
			return err
		}
		return c.check(*answer)
	})
	return errors.Join(err, cl.Close())
}

// together makes the calls of all callers.
func (c *flowCell) together(call func() error) error {
	failed := make([]error, c.callers)
	var all sync.WaitGroup
	for i := range failed {
		all.Go(func() {
			for n := range c.calls() {
				if err := call(); err != nil {
					failed[i] = fmt.Errorf("call %d of caller %d: %w", n, i, err)
					return
				}
			}
		})
	}
	all.Wait()
	return errors.Join(failed...)
}

func flowHTTPServer(t *testing.T, c *flowCell, tune func(*eddy.Server)) string {
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		request, err := io.ReadAll(r.Body)
		if err == nil {
			request, err = c.respond(request)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		_, _ = w.Write(request) // the client misses what is not written
	})
	f := http1.NewHandler(h, newPool(t, 16, 64), http1.Options{HeaderTimeout: -1, BodyTimeout: -1, IdleTimeout: -1, WriteTimeout: -1})
	return flowListen(t, &eddy.Server{Init: f.Init}, tune)
}

// flowHTTPCalls gives each caller a connection.
func flowHTTPCalls(t *testing.T, c *flowCell, addr string) error {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: c.callers}}
	defer client.CloseIdleConnections()
	ctx := testkit.Context(t)
	return c.together(func() error {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+addr, bytes.NewReader(c.request()))
		if err != nil {
			return err
		}
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		answer, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != http.StatusOK {
			return fmt.Errorf("%s after %d bytes: %w", resp.Status, len(answer), err)
		}
		return c.check(answer)
	})
}

// flowSocket answers the messages of a WebSocket.
type flowSocket struct{ c *flowCell }

func (flowSocket) HandleOpen(*websocket.Conn) error { return nil }
func (s flowSocket) HandleMessage(c *websocket.Conn, op websocket.Opcode, data []byte) error {
	answer, err := s.c.respond(data)
	if err != nil {
		return err
	}
	return c.Write(op, bytes.Clone(answer))
}
func (flowSocket) HandleClose(*websocket.Conn, int, string) {}

func flowWebSocketServer(t *testing.T, c *flowCell, tune func(*eddy.Server)) string {
	up := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = websocket.Upgrade(w, r, flowSocket{c}, websocket.Options{MaxMessage: c.largest(), PingInterval: -1, MessageTimeout: -1}) // answered
	})
	f := http1.NewHandler(up, newPool(t, 2, 64), http1.Options{HeaderTimeout: -1, IdleTimeout: -1, WriteTimeout: -1})
	return flowListen(t, &eddy.Server{Init: f.Init}, tune)
}

// flowWebSocketCalls sends the messages of all callers on one connection and reads their answers beside that.
func flowWebSocketCalls(t *testing.T, c *flowCell, addr string) error {
	ctx := testkit.Context(t)
	conn, _, err := coder.Dial(ctx, "ws://"+addr, nil)
	if err != nil {
		return err
	}
	conn.SetReadLimit(-1)
	sent := make(chan error, 1)
	go func() {
		for range c.callers * c.calls() {
			if err := conn.Write(ctx, coder.MessageBinary, c.request()); err != nil {
				sent <- err
				return
			}
		}
		sent <- nil
	}()
	for i := range c.callers * c.calls() {
		_, answer, err := conn.Read(ctx)
		if err == nil {
			err = c.check(answer)
		}
		if err != nil {
			_ = conn.CloseNow()
			return errors.Join(fmt.Errorf("%d answers of %d: %w", i, c.callers*c.calls(), err), <-sent)
		}
	}
	return errors.Join(<-sent, conn.CloseNow())
}
