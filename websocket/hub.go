package websocket

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/buf"
)

// HubOptions configure a Hub. A zero field takes the default named beside it.
type HubOptions struct {
	// MaxPending bounds the messages that were broadcast and not yet handed to all
	// connections. Default 1024.
	MaxPending int
	// MaxPendingBytes bounds their bytes. Default 64 MiB.
	MaxPendingBytes int64
}

const (
	defaultPending      = 1024
	defaultPendingBytes = 64 << 20
	hubBatch            = 256     // connections that get a message in one task of a loop
	hubRetained         = 4 << 20 // free memory that a hub keeps for messages
)

// Hub sends messages to a set of connections. A message is framed and
// compressed once, and each loop hands it to its own connections. No method
// blocks. A connection that reads too slowly is treated as its class says, or
// without a class as its server says. A connection leaves the hub when it ends.
// A hub has no goroutine and needs no closing. Any goroutine may use it.
type Hub struct {
	most      int
	mostBytes int64
	pool      *buf.SharedPool
	pending   atomic.Int64
	bytes     atomic.Int64
	members   atomic.Int64
	stats     hubCounters

	mu     sync.Mutex // never held for longer than it takes to post to each loop
	shards []*shard
	forms  [maxWindowBits + 1]form // compressed forms in use
}

// form counts the members that take messages compressed for a window.
type form struct {
	members int
	z       *Compression
}

type hubCounters struct{ broadcasts, refused, sent, failed atomic.Uint64 }

// HubStats are the numbers of a Hub. A class counts the messages that it drops
// in its own numbers.
type HubStats struct {
	Members    int64  // connections
	Pending    int64  // messages not yet handed to all of them
	Broadcasts uint64 // messages accepted
	Refused    uint64 // messages refused because of MaxPending or MaxPendingBytes
	Sent       uint64 // messages given to a connection
	Failed     uint64 // messages that a connection did not accept
}

// NewHub returns an empty Hub. The error names the invalid option.
func NewHub(o HubOptions) (*Hub, error) {
	if o.MaxPending < 0 || o.MaxPendingBytes < 0 {
		return nil, fmt.Errorf("websocket: HubOptions has MaxPending %d and MaxPendingBytes %d, want 0 (default %d and %d) or more",
			o.MaxPending, o.MaxPendingBytes, defaultPending, defaultPendingBytes)
	}
	if o.MaxPending == 0 {
		o.MaxPending = defaultPending
	}
	if o.MaxPendingBytes == 0 {
		o.MaxPendingBytes = defaultPendingBytes
	}
	return &Hub{most: o.MaxPending, mostBytes: o.MaxPendingBytes, pool: buf.NewSharedPool(hubRetained, nil)}, nil
}

// Stats returns the numbers so far.
func (h *Hub) Stats() HubStats {
	s := &h.stats
	return HubStats{
		Members: h.members.Load(), Pending: h.pending.Load(), Broadcasts: s.broadcasts.Load(),
		Refused: s.refused.Load(), Sent: s.sent.Load(), Failed: s.failed.Load(),
	}
}

// ErrMember is returned by Join for a connection that is a member, or is still
// leaving.
var ErrMember = errors.New("websocket: the connection is in the hub")

// Join adds a connection, which gets what is broadcast after Join has returned.
// class says what happens to messages that the connection is too slow for. nil
// leaves that to the OverflowPolicy of its server or dialer. Errors: ErrMember,
// eddy.ErrClosed, eddy.ErrSaturated.
func (h *Hub) Join(c *Conn, class *eddy.MessageClass) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	m := &membership{hub: h, conn: c, class: class, shard: h.shardOf(c.Eddy().Loop())}
	if err := c.enlist(m); err != nil {
		return err
	}
	h.count(m, 1)
	if err := c.conn.Post(m.join); err != nil {
		c.delist(m)
		h.count(m, -1)
		return err
	}
	return nil
}

// Leave removes a connection, on its loop. Pending messages may or may not
// reach it. Leave does nothing for a connection that is not a member.
func (h *Hub) Leave(c *Conn) {
	if m := c.memberOf(h); m != nil {
		m.skip.Store(true)
		_ = c.conn.Post(m.leave) // after an error the member leaves at the end of its connection
	}
}

// Broadcast sends a message, op Text or Binary, to all members. data is copied.
// It never blocks. Errors: eddy.ErrBackpressure when too much is pending.
func (h *Hub) Broadcast(op Opcode, data []byte) error {
	p, err := Prepare(h.pool, op, data)
	if err != nil {
		return err
	}
	defer p.Release()
	return h.BroadcastPrepared(p)
}

// BroadcastPrepared is Broadcast for a prepared message. The caller keeps its
// reference to p. Errors: eddy.ErrBackpressure when too much is pending;
// eddy.ErrSaturated when the task queue of a loop is full, so that its members
// do not get the message.
func (h *Hub) BroadcastPrepared(p *Prepared) error {
	h.mu.Lock()
	err := h.admit(int64(p.Len()))
	forms := h.forms
	h.mu.Unlock()
	if err != nil {
		h.stats.refused.Add(1)
		return err
	}
	h.stats.broadcasts.Add(1)
	p.compressFor(forms)
	msg := &broadcast{hub: h, p: p.Retain()}
	msg.left.Store(1)
	defer msg.done()
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.submit(msg)
}

// admit counts a message of n bytes, or returns which limit refuses it. mu is
// held.
func (h *Hub) admit(n int64) error {
	if pending := h.pending.Load(); pending >= int64(h.most) {
		return fmt.Errorf("websocket: %w: %d messages of the hub wait, limit %d", eddy.ErrBackpressure, pending, h.most)
	}
	if waiting := h.bytes.Load(); waiting > 0 && waiting+n > h.mostBytes {
		return fmt.Errorf("websocket: %w: %d bytes of the hub wait, %d more, limit %d", eddy.ErrBackpressure, waiting, n, h.mostBytes)
	}
	h.pending.Add(1)
	h.bytes.Add(n)
	return nil
}

// submit gives a message to every loop that has members, and forgets the other
// loops. mu is held.
func (h *Hub) submit(msg *broadcast) error {
	var failed error
	h.shards = slices.DeleteFunc(h.shards, func(s *shard) bool {
		if s.live.Load() == 0 {
			return false
		}
		msg.left.Add(1)
		err := s.loop.Post(func() { s.take(msg) })
		if err == nil {
			return false
		}
		msg.done()
		if errors.Is(err, eddy.ErrClosed) {
			return true
		}
		failed = fmt.Errorf("websocket: members on loop %s: %w", s.loop.Name(), err)
		return false
	})
	return failed
}

// compressFor makes the forms that members need. It runs on the caller's
// goroutine, so that the loops only have to send.
func (p *Prepared) compressFor(forms [maxWindowBits + 1]form) {
	for bits, f := range forms {
		if f.members == 0 {
			continue
		}
		if s := p.compress(f.z, bits, true); s != nil {
			s.Release()
		}
	}
}

// count adds n members, 1 or -1. mu is held.
func (h *Hub) count(m *membership, n int) {
	h.members.Add(int64(n))
	m.shard.live.Add(int64(n))
	d := m.conn.deflate
	if d == nil || m.conn.keys != nil || d.outTakeover && m.class != nil {
		return
	}
	f := &h.forms[d.outBits]
	f.members += n
	f.z = d.Compression
}

// shardOf returns the part of the hub on a loop. mu is held.
func (h *Hub) shardOf(l *eddy.Loop) *shard {
	for _, s := range h.shards {
		if s.loop == l {
			return s
		}
	}
	s := &shard{hub: h, loop: l}
	h.shards = append(h.shards, s)
	return s
}
