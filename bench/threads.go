package main

import (
	"context"
	"errors"
	"fmt"
)

// threads measures the cost of a connection by what waits for it (requirement R244): a thread each, a goroutine each, or
// one loop for all.
func threads(ctx context.Context, b *binaries, s settings) (*report, error) {
	g := &grid{First: "server", Columns: []column{
		{"threads", "%.0f"}, {"goroutines", "%.0f"}, {"resident bytes per connection", "%.0f"}, {"kernel stacks, KiB", "%.0f"},
	}}
	contenders := []contender{
		{Name: "a thread for each connection", binary: "net", args: []string{"-threads"}},
		{Name: "a goroutine for each connection", binary: "net"},
		{Name: "eddy, one loop for all", binary: "eddy"},
	}
	if err := b.build(ctx, contenders); err != nil {
		return nil, err
	}
	conns := s.cases[0].conns
	for _, c := range contenders {
		progress("%d connections: %s", conns, c.Name)
		values, err := threadsRow(ctx, b, s, c.on(s, s.procs[0]), conns)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.Name, err)
		}
		g.add(c.Name, values...)
	}
	return &report{Size: s.size, Grids: []*grid{g}, Note: fmt.Sprintf(
		"%d connections, each after one exchange of %d B, measured after a garbage collection. A thread has a stack in the kernel, too (%d KiB each on Linux for amd64 and arm64), which no process is charged for.", conns, s.size, kernelStack)}, nil
}

// kernelStack is the size of a thread's stack in the kernel, in KiB.
const kernelStack = 16

func threadsRow(ctx context.Context, b *binaries, s settings, c contender, conns int) (values []float64, err error) {
	srv, err := start(b, c)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, srv.stop()) }()
	if err := srv.settle(); err != nil {
		return nil, err
	}
	before, _, err := srv.memory()
	if err != nil {
		return nil, err
	}
	crowd, err := gather(srv.addr, conns, s.size)
	defer crowd.close()
	if err != nil {
		return nil, err
	}
	if err := wait(ctx, s.duration); err != nil {
		return nil, err
	}
	if err := srv.settle(); err != nil {
		return nil, err
	}
	now, _, err := srv.memory()
	if err != nil {
		return nil, err
	}
	count, err := srv.status("Threads:")
	if err != nil {
		return nil, err
	}
	goroutines, err := srv.goroutines()
	return []float64{float64(count), goroutines, float64(now-before) / float64(conns), float64(count * kernelStack)}, err
}
