package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/go-eddy/eddy/rpc/discovery"
	"github.com/go-eddy/eddy/rpc/discovery/internal/keep"
)

// Center is a discovery.Center in ZooKeeper, where Dubbo keeps configuration. Make one with NewCenter. Any goroutine may call its methods.
type Center struct {
	keep *keep.Keeper
	link link
}

var _ discovery.Center = (*Center)(nil)

// NewCenter returns a center, which connects when it is first asked. Options.Root is its namespace. The error names the option that makes no sense.
func NewCenter(o Options) (*Center, error) {
	o, err := o.check()
	if err != nil {
		return nil, err
	}
	k := keep.New(name, o.Logger)
	return &Center{k, link{o: o, keep: k}}, nil
}

// Text implements discovery.Center.
func (c *Center) Text(ctx context.Context, group, key string) (text string, err error) {
	for _, part := range []string{group, key} {
		if part == "" || part == "." || part == ".." || strings.ContainsAny(part, "/\x00") {
			return "", fmt.Errorf("zookeeper: %q is no name of a text: it must be a name without /", part)
		}
	}
	path := "/" + c.link.o.Root + "/config/" + group + "/" + key
	var why error
	err = c.keep.Watch(ctx, func(ctx context.Context) error {
		for {
			s := c.link.connected()
			data, err := call(ctx, s, func() ([]byte, error) { data, _, err := s.conn.Get(path); return data, err })
			if err == nil || errors.Is(err, zk.ErrNoNode) {
				text = string(data)
				return nil
			}
			if now := s.explain(zk.ErrNoServer); why == nil || now != zk.ErrNoServer { // another session has not failed yet
				why = now
			}
			found := s.found()
			if found == nil && !s.isOver() { // there is a connection
				return fmt.Errorf("zookeeper: %s: %w", path, err)
			}
			select {
			case <-found:
			case <-s.over:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	})
	if err != nil && err == ctx.Err() && why != nil {
		err = fmt.Errorf("%w: %w", err, why)
	}
	return text, err
}

// Close implements discovery.Center.
func (c *Center) Close() error {
	c.keep.Close()
	c.link.close()
	return nil
}
