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
			for message := pattern(c.size, 0); !over.Load(); {
				from := int64(time.Since(base))
				if err := visit(target, message); err != nil {
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

// visit makes one connection and one exchange, with blocking calls. It leaves with a reset, so that the ports suffice.
func visit(target netip.AddrPort, message []byte) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	timeout := unix.NsecToTimeval(int64(patience))
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &timeout); err != nil {
		return err
	}
	if err := unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1}); err != nil {
		return err
	}
	if err := unix.Connect(fd, &unix.SockaddrInet4{Port: int(target.Port()), Addr: target.Addr().As4()}); err != nil {
		return fmt.Errorf("connect to %v: %w", target, err)
	}
	if _, err := unix.Write(fd, message); err != nil {
		return fmt.Errorf("visit: %w", err)
	}
	answer := make([]byte, len(message))
	for at := 0; at < len(answer); {
		n, err := unix.Read(fd, answer[at:])
		if err == unix.EINTR {
			continue
		}
		if err != nil || n == 0 {
			return fmt.Errorf("visit: %d of %d bytes of the answer (%w)", at, len(answer), err)
		}
		at += n
	}
	if !bytes.Equal(answer, message) {
		return fmt.Errorf("visit: the echo differs from what was sent")
	}
	return nil
}
