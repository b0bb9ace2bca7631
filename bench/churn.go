package main

import (
	"bytes"
	"context"
	"fmt"
	"net/netip"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// churn is a load of visitors. Each connects, exchanges one message and leaves, again and again. The latency is that of
// a whole visit.
type churn struct {
	addr             string
	visitors, size   int
	fin              bool // a visit ends by FIN on both sides, instead of a reset
	warmup, duration time.Duration
	cpus             []int
}

// patience is how long a visitor waits for its server.
const patience = 10 * time.Second

func (c *churn) round(ctx context.Context, mark func() error) (*result, error) {
	target, err := netip.ParseAddrPort(c.addr)
	if err != nil {
		return nil, err
	}
	var over atomic.Bool
	var first, last atomic.Int64 // of the window, by the clock of base
	last.Store(int64(maxLatency))
	base := time.Now()
	parts := make([]*result, c.visitors)
	errs := make(chan error, c.visitors)
	var all sync.WaitGroup
	for i := range parts {
		parts[i] = &result{latencies: newHistogram()}
		all.Go(func() {
			runtime.LockOSThread() // never unlocked: the bound thread ends with this goroutine
			if err := bind(c.cpus); err != nil {
				errs <- err
				return
			}
			v := &visitor{target: target, message: pattern(c.size, 0), fin: c.fin, from: byte(i)}
			for !over.Load() {
				from := int64(time.Since(base))
				if err := v.visit(); err != nil {
					errs <- err
					return
				}
				parts[i].note(from, int64(time.Since(base)), first.Load(), last.Load())
			}
		})
	}
	res := &result{latencies: newHistogram()}
	err = c.window(ctx, mark, base, &first, &last, res, errs)
	over.Store(true)
	all.Wait()
	if err == nil && len(errs) > 0 { // the error of a visit that ended after the window
		err = <-errs
	}
	for _, p := range parts {
		res.requests += p.requests
		res.warmup += p.warmup
		res.latencies.Merge(p.latencies)
	}
	return res, err
}

// note counts a visit that ended in the window. first is 0 until the window has begun.
func (r *result) note(from, to, first, last int64) {
	if first == 0 || to < first || to > last {
		r.warmup++
		return
	}
	r.requests++
	_ = r.latencies.RecordValue(min(to-from, int64(maxLatency))) // in range, so it cannot fail
}

// window waits for the warm-up and then for the measured window, and calls mark at both ends of the window.
func (c *churn) window(ctx context.Context, mark func() error, base time.Time, first, last *atomic.Int64, res *result, errs <-chan error) error {
	for i, d := range []time.Duration{c.warmup, c.duration} {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-errs:
			return err
		case <-time.After(d):
		}
		if err := mark(); err != nil {
			return err
		}
		if now := int64(time.Since(base)); i == 0 {
			first.Store(now)
		} else {
			last.Store(now)
			res.elapsed = time.Duration(now - first.Load())
		}
	}
	return nil
}

// visitor makes visits, one after the other.
type visitor struct {
	target  netip.AddrPort
	message []byte
	fin     bool
	from    byte // which of the loopback addresses it comes from, if by FIN
}

// visit makes one connection and one exchange, with blocking calls. It leaves with a reset, so that the ports suffice, or by
// FIN, and then waits for the server's.
func (v *visitor) visit() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	timeout := unix.NsecToTimeval(int64(patience))
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &timeout); err != nil {
		return err
	}
	if err := v.prepare(fd); err != nil {
		return err
	}
	if err := unix.Connect(fd, &unix.SockaddrInet4{Port: int(v.target.Port()), Addr: v.target.Addr().As4()}); err != nil {
		return fmt.Errorf("connect to %v: %w", v.target, err)
	}
	if _, err := unix.Write(fd, v.message); err != nil {
		return fmt.Errorf("visit: %w", err)
	}
	answer := make([]byte, len(v.message)+1)
	n, err := receive(fd, answer[:len(v.message)])
	if err != nil || n < len(v.message) {
		return fmt.Errorf("visit: %d of %d bytes of the answer (%w)", n, len(v.message), err)
	}
	if !bytes.Equal(answer[:n], v.message) {
		return fmt.Errorf("visit: the echo differs from what was sent")
	}
	if !v.fin {
		return nil
	}
	if err := unix.Shutdown(fd, unix.SHUT_WR); err != nil {
		return fmt.Errorf("visit: shutdown: %w", err)
	}
	if n, err := receive(fd, answer); err != nil || n > 0 {
		return fmt.Errorf("visit: %d bytes behind the answer (%w)", n, err)
	}
	return nil
}

// prepare makes the socket end by a reset. A socket that ends by FIN keeps its port for a minute in TIME_WAIT: each visitor
// of this kind has a loopback address, and thus ports, of its own.
func (v *visitor) prepare(fd int) error {
	if !v.fin {
		return unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})
	}
	if err := unix.SetsockoptInt(fd, unix.SOL_IP, unix.IP_BIND_ADDRESS_NO_PORT, 1); err != nil {
		return err
	}
	return unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 1, v.from}})
}

// receive reads until answer is full or the stream ends.
func receive(fd int, answer []byte) (at int, err error) {
	for at < len(answer) {
		n, err := unix.Read(fd, answer[at:])
		if err == unix.EINTR {
			continue
		}
		if err != nil || n == 0 {
			return at, err
		}
		at += n
	}
	return at, nil
}
