package rpc

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/internal/enginetest"
	"github.com/go-eddy/eddy/internal/testkit"
)

// This client knows the specification of the protocol and nothing of this module: raw bytes on a plain connection.

type rawClient struct {
	net.Conn
	t testing.TB
	r *bufio.Reader
}

type rawAnswer struct {
	id      uint64
	status  byte
	payload []byte
}

// The statuses of the specification.
const (
	ok               = 0
	badRequestStatus = 1
	notFound         = 2
	appError         = 3
	internalError    = 4
	busy             = 5
	deadlineExceeded = 6
	canceled         = 7
	unavailable      = 8
	tooLarge         = 9
	goAwayStatus     = 65
)

func dialRaw(t testing.TB, addr net.Addr) *rawClient {
	t.Helper()
	c, err := net.Dial("tcp", addr.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(testkit.Patience))
	return &rawClient{c, t, bufio.NewReader(c)}
}

func rawFrame(id uint64, op byte, payload []byte) []byte {
	b := []byte{0xED, 0xD1, 1}
	b = binary.BigEndian.AppendUint64(b, id)
	b = append(b, op)
	b = binary.BigEndian.AppendUint32(b, uint32(len(payload)))
	return append(b, payload...)
}

// rawCall is the payload of a CALL or ONEWAY without metadata.
func rawCall(timeout uint32, codec byte, key, method, body string) []byte {
	b := binary.BigEndian.AppendUint32(nil, timeout)
	b = append(b, codec, 0)
	b = binary.BigEndian.AppendUint16(b, uint16(len(key)))
	b = append(b, key...)
	b = binary.BigEndian.AppendUint16(b, uint16(len(method)))
	b = append(b, method...)
	b = append(b, 0, 0)
	return append(b, body...)
}

func (c *rawClient) send(b []byte) {
	c.t.Helper()
	if _, err := c.Write(b); err != nil {
		c.t.Fatal(err)
	}
}

// call sends a CALL with a raw body.
func (c *rawClient) call(id uint64, timeout uint32, key, method, body string) {
	c.t.Helper()
	c.send(rawFrame(id, 2, rawCall(timeout, 0, key, method, body)))
}

func (c *rawClient) json(id uint64, key, method, body string) {
	c.t.Helper()
	c.send(rawFrame(id, 2, rawCall(0, 1, key, method, body)))
}

func (c *rawClient) cancel(id uint64) { c.t.Helper(); c.send(rawFrame(id, 4, nil)) }

func (c *rawClient) read() (rawAnswer, error) {
	var head [16]byte
	if _, err := io.ReadFull(c.r, head[:]); err != nil {
		return rawAnswer{}, err
	}
	if head[0] != 0xED || head[1] != 0xD1 || head[2] != 1 {
		return rawAnswer{}, fmt.Errorf("header %X", head)
	}
	a := rawAnswer{binary.BigEndian.Uint64(head[3:]), head[11], make([]byte, binary.BigEndian.Uint32(head[12:]))}
	_, err := io.ReadFull(c.r, a.payload)
	return a, err
}

func (c *rawClient) next() rawAnswer {
	c.t.Helper()
	a, err := c.read()
	if err != nil {
		c.t.Fatal(err)
	}
	return a
}

// expect reads an answer with this id and status, and returns its payload, or the message of an error.
func (c *rawClient) expect(id uint64, status byte) string {
	c.t.Helper()
	a := c.next()
	if a.id != id || a.status != status {
		c.t.Fatalf("answer %d with status %d and %q, want %d with %d", a.id, a.status, a.payload, id, status)
	}
	if status == ok {
		return string(a.payload)
	}
	return a.message(c.t)
}

// message returns the message of an answer that is no OK, with the details if there are any.
func (a rawAnswer) message(t testing.TB) string {
	t.Helper()
	end := 6
	if len(a.payload) >= 6 {
		end += int(binary.BigEndian.Uint16(a.payload[4:]))
	}
	if len(a.payload) < end {
		t.Fatalf("status %d with payload %X", a.status, a.payload)
	}
	message, details := string(a.payload[6:end]), string(a.payload[end:])
	if details != "" {
		message += "|" + details
	}
	return message
}

// retryAfter returns the advice of an answer that is no OK, in ms.
func (a rawAnswer) retryAfter() uint32 { return binary.BigEndian.Uint32(a.payload) }

// silent fails if an answer comes before that of a PING: what was sent before it has none.
func (c *rawClient) silent(ping uint64) {
	c.t.Helper()
	c.send(rawFrame(ping, 0, []byte("ping")))
	if got := c.expect(ping, ok); got != "ping" {
		c.t.Fatalf("PING answers %q", got)
	}
}

// leave ends the connection when the server has ended its direction, for which it would linger.
func (c *rawClient) leave() {
	_, _ = io.Copy(io.Discard, c.r)
	c.Close()
}

// rawKey is the service that the tests' servers have.
const rawKey = "/test:1"

// newServer returns a server that is closed with the test.
func newServer(t testing.TB, o ServerOptions) *Server {
	t.Helper()
	if o.Logger == nil {
		o.Logger = quiet
	}
	for i := range o.Ports {
		if o.Ports[i].Addr == "" {
			o.Ports[i].Addr = "127.0.0.1:0"
		}
		if o.Ports[i].Loops == 0 {
			o.Ports[i].Loops = 1
		}
		if o.Ports[i].ReadTimeout == 0 {
			o.Ports[i].ReadTimeout = -1
		}
		if tune := o.Ports[i].Tune; tune == nil {
			o.Ports[i].Tune = enginetest.Relax
		} else {
			o.Ports[i].Tune = func(srv *eddy.Server) { enginetest.Relax(srv); tune(srv) }
		}
	}
	s, err := NewServer(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// serve registers the services and listens.
func serve(t testing.TB, s *Server, services ...*Service) *Server {
	t.Helper()
	for _, svc := range services {
		if err := s.Register(svc); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Listen(); err != nil {
		t.Fatal(err)
	}
	return s
}

func newService(t testing.TB, key string, methods ...Method) *Service {
	t.Helper()
	k, err := ParseKey(key)
	if err != nil {
		t.Fatal(err)
	}
	svc, err := NewService(k, methods...)
	if err != nil {
		t.Fatal(err)
	}
	return svc
}

// userPool returns a pool that is ended with the test.
func userPool(t testing.TB, name string, o PoolOptions) *executor.Pool {
	t.Helper()
	p, err := o.NewPool(name, executor.Options{Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Shutdown(t.Context()) })
	return p
}

// gate is where methods wait until the test lets them go on.
type gate struct {
	open    chan struct{}
	waiting atomic.Int64
}

func newGate() *gate { return &gate{open: make(chan struct{})} }

func (g *gate) wait() {
	g.waiting.Add(1)
	<-g.open
	g.waiting.Add(-1)
}
