package zookeeper

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"
)

// node is an ephemeral node that is kept while its instance is registered.
type node struct {
	r            *Registry
	parent, name string
	data         []byte
	contest      *contest
}

const (
	contested = 5 * time.Second // within which a node that is taken away again is contested
	mostTakes = 5
)

// contest is how often a node of somebody else was taken away. Two programs with the same address would do nothing else.
type contest struct {
	takes int
	last  time.Time
}

// again counts, and returns an error when it has happened too often.
func (c *contest) again(now time.Time, path string) error {
	if now.Sub(c.last) > contested {
		c.takes = 0
	}
	c.last = now
	if c.takes++; c.takes > mostTakes {
		return fmt.Errorf("zookeeper: somebody else makes %s again and again: another program has the same address", path)
	}
	return nil
}

func (n *node) path() string { return n.parent + "/" + n.name }

// keep is that of keep.Holding. Who takes the node away, or its session, has it made anew.
func (n *node) keep(ctx context.Context, has func()) error {
	return hold(ctx, n.r.connected(), has, n.place)
}

// hold has nodes made with a session, and again after each change and when the connection was lost.
func hold(ctx context.Context, s *session, has func(), place func(context.Context, *session) (<-chan zk.Event, error)) error {
	for {
		changed, err := place(ctx, s)
		if err != nil {
			return err
		}
		lost := s.lost()
		if lost == nil {
			return s.explain(zk.ErrConnectionClosed)
		}
		has()
		if err := await(ctx, changed, lost); err != nil {
			return err
		}
		if s.lost() == nil {
			return s.explain(zk.ErrConnectionClosed)
		}
	}
}

// content is what a node has, and the session that it belongs to.
type content struct {
	data  []byte
	owner int64
}

// place makes the node, if it is not there as ours and as it should be, and returns what is told when it changes.
func (n *node) place(ctx context.Context, s *session) (<-chan zk.Event, error) {
	for range 4 { // the node is read, made, read; once more, if somebody else works on it, too
		found, changed, err := watched(ctx, s, "node "+n.path(),
			func() (content, error) {
				data, st, err := s.conn.Get(n.path())
				return contentOf(data, st, err), err
			},
			func() (content, <-chan zk.Event, error) {
				data, st, changed, err := s.conn.GetW(n.path())
				return contentOf(data, st, err), changed, err
			})
		switch ours := found.owner == s.conn.SessionID(); {
		case errors.Is(err, zk.ErrNoNode):
			err = n.create(ctx, s)
		case err == nil && ours && bytes.Equal(found.data, n.data):
			return changed, nil
		case err == nil && ours:
			err = n.set(ctx, s)
		case err == nil: // of an earlier session, which has not expired yet, or somebody's by hand
			if err = n.contest.again(time.Now(), n.path()); err == nil {
				err = n.delete(ctx, s)
			}
		}
		if err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("zookeeper: somebody else makes and removes %s, too", n.path())
}

// create makes the node and those above it. It does nothing if the node is there.
func (n *node) create(ctx context.Context, s *session) error {
	create := func() (string, error) { return s.conn.Create(n.path(), n.data, zk.FlagEphemeral, s.acl) }
	_, err := call(ctx, s, create)
	if errors.Is(err, zk.ErrNoNode) {
		if err := s.ensure(ctx, n.parent); err != nil {
			return err
		}
		_, err = call(ctx, s, create)
	}
	if err != nil && !errors.Is(err, zk.ErrNodeExists) {
		return fmt.Errorf("zookeeper: making %s: %w", n.path(), err)
	}
	return nil
}

// set writes what the node has. It does nothing if the node is not there.
func (n *node) set(ctx context.Context, s *session) error {
	_, err := call(ctx, s, func() (*zk.Stat, error) { return s.conn.Set(n.path(), n.data, -1) })
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		return fmt.Errorf("zookeeper: writing %s: %w", n.path(), err)
	}
	return nil
}

// delete removes the node. It does nothing if the node is not there.
func (n *node) delete(ctx context.Context, s *session) error {
	_, err := call(ctx, s, func() (struct{}, error) { return struct{}{}, s.conn.Delete(n.path(), -1) })
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		return fmt.Errorf("zookeeper: removing %s: %w", n.path(), err)
	}
	return nil
}

// remove is that of keep.Holding.
func (n *node) remove(ctx context.Context) error { return n.delete(ctx, n.r.connected()) }

func contentOf(data []byte, st *zk.Stat, err error) content {
	if err != nil {
		return content{}
	}
	return content{data, st.EphemeralOwner}
}
