package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// wsServers are the WebSocket servers that the comparisons have in common.
var wsServers = []contender{
	{Name: oneLoop, binary: "eddyws"},
	{Name: "lxzan/gws", binary: "gwsws"},
	{Name: "gorilla/websocket", binary: "gorillaws"},
	{Name: "coder/websocket", binary: "coderws"},
}

// ws compares WebSocket echo servers. Ratios are to the first row.
func ws(ctx context.Context, b *binaries, s settings) (*report, error) {
	return beside(ctx, b, s, "messages", "echo", wsLoad, wsServers)
}

const (
	eddyHub = "eddy, hub: framed once"
	gwsHub  = "lxzan/gws, Broadcaster"
)

// wsBroadcast compares servers that send each message of one connection to all.
func wsBroadcast(ctx context.Context, b *binaries, s settings) (*report, error) {
	crowd := func(srv *server, s settings, c testCase) rounder {
		return &fanout{addr: srv.addr, conns: c.conns, size: s.size, warmup: s.warmup, duration: s.duration, cpus: s.clientCPU}
	}
	hub := []string{"-mode", "hub"}
	return beside(ctx, b, s, "deliveries", "hub", crowd, []contender{
		{Name: eddyHub, binary: "eddyws", args: hub},
		{Name: "eddy, a Write for each", binary: "eddyws", args: []string{"-mode", "each"}},
		{Name: gwsHub, binary: "gwsws", args: hub},
		{Name: "gorilla/websocket, PreparedMessage", binary: "gorillaws", args: hub},
	})
}

// wsIdle measures what an idle WebSocket costs.
func wsIdle(ctx context.Context, b *binaries, s settings) (*report, error) {
	return idleAfter(ctx, b, s, newWSExchange(s.size), wsServers)
}

func wsLoad(srv *server, s settings, c testCase) rounder {
	l, x := echoLoad(srv, s, c).(*load), newWSExchange(s.size)
	answers := bytes.Repeat(x.answer, c.pipeline+1)
	l.script, l.request, l.size = x, x.request, len(x.answer)
	l.same = func(at int, data []byte) bool { return bytes.Equal(data, answers[at:at+len(data)]) }
	return l
}

const wsRequest = "GET / HTTP/1.1\r\nHost: bench\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" +
	"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"

// newWSExchange returns a masked binary message of size bytes and its echo.
func newWSExchange(size int) *script {
	payload := pattern(size, 0)
	mask := [4]byte{0x37, 0xfa, 0x21, 0x3d}
	request := append(wsHeader(size, 0x80), mask[:]...)
	for i, c := range payload {
		request = append(request, c^mask[i%4])
	}
	return &script{greeting: []byte(wsRequest), until: []byte("\r\n\r\n"), request: request, answer: append(wsHeader(size, 0), payload...)}
}

func wsHeader(size int, mask byte) []byte {
	switch {
	case size < 126:
		return []byte{0x82, mask | byte(size)}
	case size < 1<<16:
		return binary.BigEndian.AppendUint16([]byte{0x82, mask | 126}, uint16(size))
	}
	return binary.BigEndian.AppendUint64([]byte{0x82, mask | 127}, uint64(size))
}

// fanout is a load of one connection that sends and many that get everything. The next message is sent when the last one
// has reached all.
type fanout struct {
	addr             string
	conns, size      int
	warmup, duration time.Duration
	cpus             []int
}

func (f *fanout) round(ctx context.Context, mark func() error) (res *result, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked: the bound thread ends with this goroutine
		if err = bind(f.cpus); err != nil {
			return
		}
		r := &runner{load: &load{addr: f.addr, conns: f.conns, size: f.size, pipeline: 1, script: newWSExchange(f.size)}, ctx: ctx, base: time.Now()}
		defer r.close()
		if err = r.connect(); err == nil {
			res, err = f.run(r, mark)
		}
	}()
	<-done
	return res, err
}

func (f *fanout) run(r *runner, mark func() error) (*result, error) {
	discard := &result{latencies: newHistogram()}
	if err := f.until(r, discard, r.now()+f.warmup.Nanoseconds()); err != nil {
		return nil, err
	}
	res := &result{latencies: newHistogram(), warmup: discard.requests}
	if err := mark(); err != nil {
		return nil, err
	}
	from := r.now()
	if err := f.until(r, res, from+f.duration.Nanoseconds()); err != nil {
		return nil, err
	}
	res.elapsed = time.Duration(r.now() - from)
	return res, mark()
}

// until broadcasts until the clock reaches end. Every byte that arrives is compared.
func (f *fanout) until(r *runner, res *result, end int64) error {
	request, answer := r.script.request, r.script.answer
	var events [256]unix.EpollEvent
	for sent := r.now(); sent < end; sent = r.now() {
		if n, err := unix.Write(r.clients[0].fd, request); err != nil || n != len(request) {
			return fmt.Errorf("sending: %d bytes, %w", n, err)
		}
		for left := f.conns; left > 0; {
			if err := r.ctx.Err(); err != nil {
				return err
			}
			n, err := unix.EpollWait(r.ep, events[:], 50)
			if err != nil && err != unix.EINTR {
				return err
			}
			for _, ev := range events[:max(n, 0)] {
				c := r.clients[ev.Fd]
				n, err := unix.Read(c.fd, r.scratch[:len(answer)-c.at])
				if err == unix.EAGAIN || err == unix.EINTR {
					continue
				}
				if err != nil || n == 0 {
					return fmt.Errorf("connection %d: closed by the server (%v)", ev.Fd, err)
				}
				if !bytes.Equal(r.scratch[:n], answer[c.at:c.at+n]) {
					return fmt.Errorf("connection %d: the message differs from what was sent", ev.Fd)
				}
				if c.at += n; c.at == len(answer) {
					c.at = 0
					left--
				}
			}
		}
		_ = res.latencies.RecordValue(min(r.now()-sent, int64(maxLatency))) // in range, so it cannot fail
		res.requests += int64(f.conns)
	}
	return nil
}
