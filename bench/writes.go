package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// writes compares the cost of a message from a goroutine that owns no connection. net.Conn.Write is a system call each;
// Conn.Write is a task for the loop. A case is connections x writers on each.
func writes(ctx context.Context, b *binaries, s settings) (*report, error) {
	rep := &report{Rounds: s.rounds, Duration: s.duration.String()}
	for _, c := range s.cases {
		for _, every := range []time.Duration{0, 10 * time.Millisecond} {
			g, err := writesGrid(ctx, b, s, c, every)
			if err != nil {
				return nil, err
			}
			rep.Grids = append(rep.Grids, g)
		}
	}
	rep.Note = fmt.Sprintf("%d B, %d rounds of %s each, interleaved; median over the rounds.", messageSize, s.rounds, s.duration)
	return rep, nil
}

// messageSize is the size of the messages from the server named writers.
const messageSize = 64

func writesGrid(ctx context.Context, b *binaries, s settings, c testCase, every time.Duration) (*grid, error) {
	args := []string{"-writers", strconv.Itoa(c.pipeline), "-every", every.String()}
	pace := "as fast as they can"
	if every > 0 {
		pace = "every " + every.String()
	}
	g := &grid{
		Title: fmt.Sprintf("Connections: %d, writers on each: %d, %s", c.conns, c.pipeline, pace),
		First: "server", Columns: []column{{"messages / CPU s", "%.0f"}, {"CPU ns per message", "%.0f"}, {"messages / s", "%.0f"}},
	}
	contenders := []contender{
		{Name: "net, Write from each goroutine", binary: "writers", args: append([]string{"-net"}, args...)},
		{Name: "eddy, Conn.WriteContext from each goroutine", binary: "writers", args: args},
	}
	if err := b.build(ctx, contenders); err != nil {
		return nil, err
	}
	perCPU, perSecond := make([][]float64, len(contenders)), make([][]float64, len(contenders))
	for round := range s.rounds {
		for i, w := range contenders {
			progress("%s, round %d of %d: %s", g.Title, round+1, s.rounds, w.Name)
			messages, used, elapsed, err := sinkRound(ctx, b, s, c, w.on(s, s.procs[0]))
			if err != nil {
				return nil, fmt.Errorf("%s: %w", w.Name, err)
			}
			perCPU[i] = append(perCPU[i], messages/used.Seconds())
			perSecond[i] = append(perSecond[i], messages/elapsed.Seconds())
		}
	}
	for i, w := range contenders {
		m := median(perCPU[i])
		g.add(w.Name, m, 1e9/m, median(perSecond[i]))
	}
	g.ratio(0)
	return g, nil
}

// sinkRound starts the server, whose writers live as long as a connection does, and reads what they send.
func sinkRound(ctx context.Context, b *binaries, s settings, c testCase, w contender) (messages float64, used, elapsed time.Duration, err error) {
	srv, err := start(b, w)
	if err != nil {
		return 0, 0, 0, err
	}
	defer func() { err = errors.Join(err, srv.stop()) }()
	k := &sink{addr: srv.addr, conns: c.conns, warmup: s.warmup, duration: s.duration, cpus: s.clientCPU}
	var marks []time.Duration
	got, elapsed, err := k.round(ctx, func() error {
		t, err := srv.cpuTime()
		marks = append(marks, t)
		return err
	})
	if err != nil {
		return 0, 0, 0, err
	}
	if got == 0 {
		return 0, 0, 0, errors.New("no message arrived in the window")
	}
	return float64(got) / messageSize, marks[1] - marks[0], elapsed, nil
}

// sink is a client that reads from its connections and counts the bytes.
type sink struct {
	addr             string
	conns            int
	warmup, duration time.Duration
	cpus             []int
}

func (k *sink) round(ctx context.Context, mark func() error) (got int64, elapsed time.Duration, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked: the bound thread ends with this goroutine
		if err = bind(k.cpus); err == nil {
			got, elapsed, err = k.drain(ctx, mark)
		}
	}()
	<-done
	return got, elapsed, err
}

func (k *sink) drain(ctx context.Context, mark func() error) (int64, time.Duration, error) {
	target, err := netip.ParseAddrPort(k.addr)
	if err != nil {
		return 0, 0, err
	}
	ep, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return 0, 0, err
	}
	defer unix.Close(ep)
	for range k.conns {
		fd, err := dial(target)
		if err != nil {
			return 0, 0, err
		}
		defer reset(fd)
		if err := unix.EpollCtl(ep, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)}); err != nil {
			return 0, 0, err
		}
	}
	if _, err := k.until(ctx, ep, k.warmup); err != nil {
		return 0, 0, err
	}
	if err := mark(); err != nil {
		return 0, 0, err
	}
	from := time.Now()
	got, err := k.until(ctx, ep, k.duration)
	if err != nil {
		return 0, 0, err
	}
	elapsed := time.Since(from)
	return got, elapsed, mark()
}

// until reads for the time d and returns how many bytes came.
func (k *sink) until(ctx context.Context, ep int, d time.Duration) (got int64, err error) {
	var events [256]unix.EpollEvent
	scratch := make([]byte, 256<<10)
	for end := time.Now().Add(d); ; {
		left := time.Until(end)
		if left <= 0 {
			return got, nil
		}
		if err := ctx.Err(); err != nil {
			return got, err
		}
		n, err := unix.EpollWait(ep, events[:], int(min(left/time.Millisecond+1, 50)))
		if err != nil && err != unix.EINTR {
			return got, err
		}
		for i := range max(n, 0) {
			m, err := unix.Read(int(events[i].Fd), scratch)
			switch {
			case err == unix.EAGAIN || err == unix.EINTR:
			case err != nil || m == 0:
				return got, fmt.Errorf("closed by the server (%v)", err)
			default:
				got += int64(m)
			}
		}
	}
}

// reset closes a connection without TIME_WAIT.
func reset(fd int) {
	unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})
	unix.Close(fd)
}
