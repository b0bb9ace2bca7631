package main

import (
	"bytes"
	"context"
	"fmt"
	"net/netip"
	"runtime"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"golang.org/x/sys/unix"
)

// load is an echo client. In a closed loop every connection keeps pipeline requests of size bytes in flight and sends the
// next one when an answer has come. With a rate, requests are due at fixed times. It runs one epoll loop on one thread, so that it costs about as much as the server and
// not several times as much.
type load struct {
	addr     string
	conns    int
	size     int
	pipeline int
	rate     float64 // requests a second of all connections together; 0 = closed loop
	warmup   time.Duration
	duration time.Duration
	cpus     []int // processors of the client thread

	// For protocols whose answers are not their requests, which are then size bytes long:
	request []byte
	same    func(at int, data []byte) bool // reports whether data is what answers contain from the offset at on

	script *script // greeting on a new connection, nil for none
}

// script is what goes over the wire for a protocol that is not plain bytes.
type script struct {
	greeting        []byte // sent once
	until           []byte // ends the answer to it
	request, answer []byte
}

// greet makes the greeting of the protocol on a new connection.
func (x *script) greet(fd int) error {
	if x == nil || len(x.greeting) == 0 {
		return nil
	}
	if err := unix.SetNonblock(fd, false); err != nil {
		return err
	}
	if _, err := unix.Write(fd, x.greeting); err != nil {
		return err
	}
	var got []byte
	var one [1]byte
	for !bytes.HasSuffix(got, x.until) { // byte by byte, because what follows is no part of the greeting
		n, err := unix.Read(fd, one[:])
		if err == unix.EINTR {
			continue
		}
		if err != nil || n == 0 || len(got) > 4096 {
			return fmt.Errorf("greeting: %q, %v", got, err)
		}
		got = append(got, one[0])
	}
	return unix.SetNonblock(fd, true)
}

// result is what one round of load measured between the two marks.
type result struct {
	requests  int64
	warmup    int64 // requests before the window
	elapsed   time.Duration
	latencies *hdrhistogram.Histogram // nanoseconds

	// For a client process of the server's own kind, whose work counts too:
	used    time.Duration // processor time in the window
	mallocs uint64        // objects allocated in the window
}

// client is one connection of a load.
type client struct {
	fd     int
	at     int     // bytes received of the answer that is arriving
	phase  int     // offset in the payload pattern of the next byte to receive
	owed   int     // bytes that are due but not written
	stuck  bool    // write interest is on: the socket took less than it was given
	sent   []int64 // ring of send times of the requests in flight
	oldest int     // place of the oldest in sent

	waiting int // at a rate: requests in flight
}

// round connects, runs the warm-up and the measured window, and disconnects. It calls mark at both ends of the window,
// on the client's thread.
func (l *load) round(ctx context.Context, mark func() error) (res *result, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked: the bound thread ends with this goroutine
		if err = bind(l.cpus); err != nil {
			return
		}
		r := &runner{load: l, ctx: ctx, base: time.Now(), each: l.size}
		if l.request != nil {
			r.pattern, r.each = bytes.Repeat(l.request, l.pipeline+1), len(l.request)
		} else {
			r.pattern = pattern(l.size, l.pipeline)
		}
		defer r.close()
		if err = r.connect(); err != nil {
			return
		}
		res, err = r.run(mark)
	}()
	<-done
	return res, err
}

// runner is the state of one round.
type runner struct {
	*load
	ctx     context.Context // ends a round early
	base    time.Time       // origin of the clock
	ep      int
	clients []*client
	each    int    // bytes of a request
	pattern []byte // the payload repeated, so that any stretch of the stream can be compared or sent at once
	scratch [64 << 10]byte
	res     *result
	due     int64 // at a rate: when the first request was due
	sent    int   // requests since
}

// pattern returns size distinct bytes repeated often enough for a whole read at any offset.
func pattern(size, pipeline int) []byte {
	one := make([]byte, size)
	for i := range one {
		one[i] = byte('a' + i%26)
	}
	return bytes.Repeat(one, pipeline+1)
}

func (r *runner) connect() (err error) {
	target, err := netip.ParseAddrPort(r.addr)
	if err != nil {
		return err
	}
	if r.ep, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return err
	}
	for i := range r.conns {
		fd, err := dial(target)
		if err != nil {
			return fmt.Errorf("connection %d of %d to %s: %w", i+1, r.conns, r.addr, err)
		}
		r.clients = append(r.clients, &client{fd: fd, sent: make([]int64, r.pipeline)})
		if err := r.script.greet(fd); err != nil {
			return fmt.Errorf("connection %d of %d to %s: %w", i+1, r.conns, r.addr, err)
		}
		if err := r.watch(unix.EPOLL_CTL_ADD, i, unix.EPOLLIN); err != nil {
			return err
		}
	}
	return nil
}

// dial opens a blocking connection and makes it non-blocking once it is there.
func dial(target netip.AddrPort) (int, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	err = unix.Connect(fd, &unix.SockaddrInet4{Port: int(target.Port()), Addr: target.Addr().As4()})
	if err == nil {
		err = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
	}
	if err == nil { // for a greeting, which blocks
		timeout := unix.NsecToTimeval(int64(patience))
		err = unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &timeout)
	}
	if err == nil {
		err = unix.SetNonblock(fd, true)
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

func (r *runner) watch(op, i int, events uint32) error {
	return unix.EpollCtl(r.ep, op, r.clients[i].fd, &unix.EpollEvent{Events: events, Fd: int32(i)})
}

func (r *runner) close() {
	for _, c := range r.clients {
		// A reset instead of TIME_WAIT: rounds would otherwise use up the ephemeral ports.
		unix.SetsockoptLinger(c.fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})
		unix.Close(c.fd)
	}
	if r.ep > 0 {
		unix.Close(r.ep)
	}
}

func (r *runner) run(mark func() error) (*result, error) {
	discard := &result{latencies: newHistogram()}
	r.res = discard
	now := r.now()
	r.due = now
	for i := range r.clients {
		if r.rate > 0 {
			break
		}
		if err := r.send(i, r.pipeline, now); err != nil {
			return nil, err
		}
	}
	if err := r.until(now + r.warmup.Nanoseconds()); err != nil {
		return nil, err
	}
	r.res = &result{latencies: newHistogram(), warmup: discard.requests}
	if err := mark(); err != nil {
		return nil, err
	}
	from := r.now()
	if err := r.until(from + r.duration.Nanoseconds()); err != nil {
		return nil, err
	}
	now = r.now()
	r.res.elapsed = time.Duration(now - from)
	if r.rate > 0 {
		r.unanswered(now)
	}
	return r.res, mark()
}

// maxLatency is the longest latency that is told apart. Longer ones count as maxLatency.
const maxLatency = time.Minute

func newHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(1000, int64(maxLatency), 3)
}

// until serves readiness until the clock reaches end.
func (r *runner) until(end int64) error {
	var events [256]unix.EpollEvent
	for {
		if err := r.ctx.Err(); err != nil {
			return err
		}
		now := r.now()
		left := end - now
		if left <= 0 {
			return nil
		}
		if r.rate > 0 {
			if err := r.sendDue(now); err != nil {
				return err
			}
		}
		n, err := unix.EpollWait(r.ep, events[:], r.waitMillis(left))
		if err != nil && err != unix.EINTR {
			return err
		}
		for i := range n {
			if err := r.ready(int(events[i].Fd), events[i].Events); err != nil {
				return err
			}
		}
	}
}

func (r *runner) ready(i int, events uint32) error {
	c := r.clients[i]
	if events&unix.EPOLLOUT != 0 {
		return r.flush(i)
	}
	n, err := unix.Read(c.fd, r.scratch[:min(len(r.scratch), r.size*r.pipeline)])
	if err == unix.EAGAIN || err == unix.EINTR {
		return nil
	}
	if err != nil || n == 0 {
		return fmt.Errorf("connection %d: closed by the server (%v)", i, err)
	}
	if !r.expected(c.phase, r.scratch[:n]) {
		return fmt.Errorf("connection %d: the answer differs from what it should be", i)
	}
	c.phase = (c.phase + n) % r.size
	c.at += n
	answers := c.at / r.size
	if answers == 0 {
		return nil
	}
	c.at %= r.size
	now := r.now()
	for range answers {
		_ = r.res.latencies.RecordValue(min(now-c.sent[c.oldest], int64(maxLatency))) // in range, so it cannot fail
		c.oldest = (c.oldest + 1) % r.pipeline
	}
	r.res.requests += int64(answers)
	if r.rate > 0 {
		c.waiting -= answers
		return nil
	}
	return r.send(i, answers, now)
}

// expected reports whether data is what answers contain from the offset at on.
func (r *runner) expected(at int, data []byte) bool {
	if r.same != nil {
		return r.same(at, data)
	}
	return bytes.Equal(data, r.pattern[at:at+len(data)])
}

// send puts n more requests on the wire. Requests are always whole, so every send starts the pattern anew behind what is
// owed.
func (r *runner) send(i, n int, now int64) error {
	c := r.clients[i]
	for k := range n { // the n youngest places of the ring
		c.sent[(c.oldest+r.pipeline-n+k)%r.pipeline] = now
	}
	if c.owed > 0 {
		c.owed += n * r.each
		return nil
	}
	c.owed = n * r.each
	return r.flush(i)
}

// flush writes what is owed and asks for writability only while something is left.
func (r *runner) flush(i int) error {
	c := r.clients[i]
	from := (r.each - c.owed%r.each) % r.each
	n, err := unix.Write(c.fd, r.pattern[from:from+c.owed])
	if err == unix.EAGAIN || err == unix.EINTR {
		n, err = 0, nil
	}
	if err != nil {
		return fmt.Errorf("connection %d: %w", i, err)
	}
	c.owed -= n
	if stuck := c.owed > 0; stuck != c.stuck {
		c.stuck = stuck
		events := uint32(unix.EPOLLIN)
		if stuck {
			events |= unix.EPOLLOUT
		}
		return r.watch(unix.EPOLL_CTL_MOD, i, events)
	}
	return nil
}

// now returns the monotonic time in nanoseconds.
func (r *runner) now() int64 { return int64(time.Since(r.base)) }
