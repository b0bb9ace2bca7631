package rpc

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-eddy/eddy/internal/enginetest"
	"github.com/go-eddy/eddy/internal/testkit"
)

var quiet = slog.New(slog.DiscardHandler)

// stub is a server made of nothing but docs/frame.md: bytes over package net.
type stub struct {
	t     testing.TB
	l     net.Listener
	serve func(*stubConn)
	wg    sync.WaitGroup
	seen  atomic.Int64 // connections

	mu     sync.Mutex
	conns  map[net.Conn]bool
	closed bool
}

// newDeaf makes a stub that reads nothing until cut is closed; the system takes little on its behalf.
func newDeaf(t testing.TB, cut <-chan struct{}) *stub {
	t.Helper()
	return newStub(t, func(c *stubConn) {
		if err := c.Conn.(*net.TCPConn).SetReadBuffer(enginetest.Buffer); err != nil && !errors.Is(err, net.ErrClosed) { // the stub may end at any time
			t.Error(err)
		}
		<-cut
	})
}

// stubConn is one connection of a stub.
type stubConn struct {
	net.Conn
	r  *bufio.Reader
	n  int64 // which one, from 1
	mu sync.Mutex
}

// request is what a stub has read.
type request struct {
	id      uint64
	op      byte
	payload string
	timeout uint32
	key     string
	method  string
	body    string
}

func newStub(t testing.TB, serve func(*stubConn)) *stub { return newStubAt(t, "127.0.0.1:0", serve) }

func newStubAt(t testing.TB, addr string, serve func(*stubConn)) *stub {
	t.Helper()
	l, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	s := &stub{t: t, l: l, serve: serve, conns: map[net.Conn]bool{}}
	s.wg.Add(1)
	go s.accept()
	t.Cleanup(s.close)
	return s
}

func (s *stub) addr() string { return s.l.Addr().String() }

func (s *stub) accept() {
	defer s.wg.Done()
	for {
		c, err := s.l.Accept()
		if err != nil {
			return
		}
		s.mu.Lock()
		s.conns[c] = true
		if s.closed { // meanwhile
			c.Close()
		}
		s.mu.Unlock()
		s.wg.Add(1)
		sc := &stubConn{Conn: c, r: bufio.NewReader(c), n: s.seen.Add(1)}
		go func() {
			defer s.wg.Done()
			s.serve(sc)
			c.Close()
			s.mu.Lock()
			delete(s.conns, c)
			s.mu.Unlock()
		}()
	}
}

func (s *stub) close() {
	s.l.Close()
	s.mu.Lock()
	s.closed = true
	for c := range s.conns {
		c.Close()
	}
	s.mu.Unlock()
	s.wg.Wait()
}

// next reads one request, nil at the end.
func (c *stubConn) next() *request {
	h := make([]byte, 16)
	if _, err := io.ReadFull(c.r, h); err != nil {
		return nil
	}
	p := make([]byte, binary.BigEndian.Uint32(h[12:]))
	if _, err := io.ReadFull(c.r, p); err != nil {
		return nil
	}
	q := &request{id: binary.BigEndian.Uint64(h[3:]), op: h[11], payload: string(p)}
	if q.op == 2 || q.op == 3 {
		q.timeout = binary.BigEndian.Uint32(p)
		at := 6
		field := func() string {
			n := int(binary.BigEndian.Uint16(p[at:]))
			f := string(p[at+2 : at+2+n])
			at += 2 + n
			return f
		}
		q.key, q.method = field(), field()
		pairs := int(binary.BigEndian.Uint16(p[at:]))
		at += 2
		for range 2 * pairs {
			field()
		}
		q.body = string(p[at:])
	}
	return q
}

func rawResponse(id uint64, status byte, payload string) []byte {
	b := make([]byte, 16, 16+len(payload))
	b[0], b[1], b[2], b[11] = 0xED, 0xD1, 1, status
	binary.BigEndian.PutUint64(b[3:], id)
	binary.BigEndian.PutUint32(b[12:], uint32(len(payload)))
	return append(b, payload...)
}

// rawError is the payload of a status other than OK.
func rawError(retry uint32, message string) string {
	b := binary.BigEndian.AppendUint32(nil, retry)
	b = binary.BigEndian.AppendUint16(b, uint16(len(message)))
	return string(b) + message
}

func (c *stubConn) answer(id uint64, status byte, payload string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.Write(rawResponse(id, status, payload)) // the client sees what becomes of it
}

// echoes answers everything with its body.
func echoes(c *stubConn) {
	for q := c.next(); q != nil; q = c.next() {
		c.echo(q)
	}
}

func (c *stubConn) echo(q *request) {
	switch q.op {
	case 0:
		c.answer(q.id, 0, q.payload)
	case 2:
		c.answer(q.id, 0, q.body)
	}
}

func client(t testing.TB, o ClientOptions, addrs ...string) *Client {
	t.Helper()
	if o.Resolver == nil {
		o.Addrs = addrs
	}
	o.Logger = quiet
	if o.Timeout == 0 {
		o.Timeout = testkit.Patience
	}
	if o.DialTimeout == 0 { // nor does the time of a connect run out, or a server seem dead, because this machine is busy
		o.DialTimeout = testkit.Patience
	}
	if o.Heartbeat == 0 {
		o.Heartbeat = -1
	}
	if o.Backoff == (Backoff{}) {
		o.Backoff = Backoff{Min: 5 * time.Millisecond, Max: 50 * time.Millisecond}
	}
	cl, err := NewClient(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cl.Close(); err != nil {
			t.Error(err)
		}
		if n := cl.Stats().Active; n != 0 {
			t.Errorf("%d calls have not ended", n)
		}
	})
	return cl
}

var testKey = Key{Group: "g", Interface: "demo.Echo", Version: "1.0"}

func text(s string) *[]byte { b := []byte(s); return &b }
