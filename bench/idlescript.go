package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
)

// idleAfter measures what an idle connection of each contender costs after the exchange x. Memory that the connections
// hold and garbage that the handshakes left are reported apart.
func idleAfter(ctx context.Context, b *binaries, s settings, x *script, contenders []contender) (*report, error) {
	if err := b.build(ctx, contenders); err != nil {
		return nil, err
	}
	g := &grid{First: "server", Columns: []column{{"resident bytes per connection", "%.0f"}, {"before a garbage collection", "%.0f"}}}
	for _, c := range contenders {
		progress("%d idle connections: %s", s.idleConns, c.Name)
		held, before, err := idleScript(ctx, b, s, c.on(s, s.procs[0]), x)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.Name, err)
		}
		g.add(c.Name, held, before)
	}
	return &report{Size: s.size, Grids: []*grid{g}, Note: fmt.Sprintf(
		"%d connections, each after one exchange; the first figure is measured after a garbage collection, the second just before it.", s.idleConns)}, nil
}

func idleScript(ctx context.Context, b *binaries, s settings, c contender, x *script) (held, before float64, err error) {
	srv, err := start(b, c)
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, srv.stop()) }()
	if err := srv.settle(); err != nil {
		return 0, 0, err
	}
	base, _, err := srv.memory()
	if err != nil {
		return 0, 0, err
	}
	crowd, err := gatherScript(srv.addr, s.idleConns, x)
	defer crowd.close()
	if err != nil {
		return 0, 0, err
	}
	per := func() (float64, error) {
		now, _, err := srv.memory()
		return float64(now-base) / float64(s.idleConns), err
	}
	if err := wait(ctx, s.duration); err != nil {
		return 0, 0, err
	}
	if before, err = per(); err != nil {
		return 0, 0, err
	}
	if err := srv.settle(); err != nil {
		return 0, 0, err
	}
	held, err = per()
	return held, before, err
}

// gatherScript is gather for protocols that are not plain bytes.
func gatherScript(addr string, n int, x *script) (crowd, error) {
	var c crowd
	answer := make([]byte, len(x.answer))
	for i := range n {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			return c, fmt.Errorf("connection %d of %d: %w", i+1, n, err)
		}
		c = append(c, conn)
		if err := x.greetConn(conn); err != nil {
			return c, fmt.Errorf("connection %d: %w", i+1, err)
		}
		if _, err := conn.Write(x.request); err != nil {
			return c, fmt.Errorf("connection %d: %w", i+1, err)
		}
		if _, err := io.ReadFull(conn, answer); err != nil {
			return c, fmt.Errorf("connection %d: %w", i+1, err)
		}
	}
	return c, nil
}

// greetConn is greet over package net.
func (x *script) greetConn(c net.Conn) error {
	raw, err := c.(*net.TCPConn).SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	if err := raw.Control(func(fd uintptr) { failed = x.greet(int(fd)) }); err != nil {
		return err
	}
	return failed
}
