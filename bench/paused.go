package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// paused measures what clients cost that keep sending to a server which does not read. The cost is the server's
// processor time while every buffer in between is full, and the memory it holds for them.
func paused(ctx context.Context, b *binaries, s settings) (*report, error) {
	g := &grid{First: "server", Columns: []column{
		{"CPU % of the server", "%.3f"}, {"resident bytes per connection", "%.0f"}, {"attempts to send / s", "%.0f"}, {"of which refused %", "%.1f"},
	}}
	contenders := []contender{
		{Name: "net, a goroutine each that waits", binary: "net", args: []string{"-pause"}},
		{Name: "eddy, Conn.PauseRead", binary: "eddy", args: []string{"-pause"}},
	}
	if err := b.build(ctx, contenders); err != nil {
		return nil, err
	}
	conns := s.cases[0].conns
	for _, c := range contenders {
		progress("%d senders against paused readers: %s", conns, c.Name)
		values, err := pausedRow(ctx, b, s, c.on(s, s.procs[0]), conns)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.Name, err)
		}
		g.add(c.Name, values...)
	}
	return &report{Grids: []*grid{g}, Note: fmt.Sprintf(
		"%d connections, paused after one exchange of %d B; each tries to send 4 KiB every %v, measured over %s.", conns, s.size, nag, s.duration)}, nil
}

// nag is how often each sender tries again.
const nag = 10 * time.Millisecond

func pausedRow(ctx context.Context, b *binaries, s settings, c contender, conns int) (values []float64, err error) {
	srv, err := start(b, c)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, srv.stop()) }()
	before, _, err := srv.memory()
	if err != nil {
		return nil, err
	}
	crowd, err := gather(srv.addr, conns, s.size)
	defer crowd.close()
	if err != nil {
		return nil, err
	}
	fds, err := crowd.descriptors()
	if err != nil {
		return nil, err
	}
	chunk := make([]byte, 4<<10)
	if _, _, err := pester(ctx, fds, chunk, max(s.warmup, time.Second)); err != nil { // fills the buffers
		return nil, err
	}
	from, err := srv.cpuTime()
	if err != nil {
		return nil, err
	}
	started := time.Now()
	attempts, refused, err := pester(ctx, fds, chunk, s.duration)
	if err != nil {
		return nil, err
	}
	elapsed := time.Since(started)
	to, err := srv.cpuTime()
	if err != nil {
		return nil, err
	}
	now, _, err := srv.memory()
	return []float64{
		100 * (to - from).Seconds() / elapsed.Seconds(), float64(now-before) / float64(conns),
		float64(attempts) / elapsed.Seconds(), 100 * float64(refused) / float64(max(attempts, 1)),
	}, err
}

// pester tries to send on every descriptor, again and again, without waiting for room.
func pester(ctx context.Context, fds []int, chunk []byte, d time.Duration) (attempts, refused int, err error) {
	tick := time.NewTicker(nag)
	defer tick.Stop()
	for end := time.Now().Add(d); time.Now().Before(end); {
		for _, fd := range fds {
			attempts++
			_, err := unix.SendmsgN(fd, chunk, nil, nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
			switch {
			case err == unix.EAGAIN:
				refused++
			case err != nil:
				return attempts, refused, fmt.Errorf("a paused connection broke: %w", err)
			}
		}
		select {
		case <-ctx.Done():
			return attempts, refused, ctx.Err()
		case <-tick.C:
		}
	}
	return attempts, refused, nil
}

// descriptors returns the descriptors of the connections and makes their send buffers small.
func (c crowd) descriptors() ([]int, error) {
	var fds []int
	for _, conn := range c {
		tcp := conn.(*net.TCPConn)
		if err := tcp.SetWriteBuffer(32 << 10); err != nil {
			return nil, err
		}
		raw, err := tcp.SyscallConn()
		if err != nil {
			return nil, err
		}
		if err := raw.Control(func(fd uintptr) { fds = append(fds, int(fd)) }); err != nil {
			return nil, err
		}
	}
	return fds, nil
}
