package websocket

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/go-eddy/eddy"
)

// broadcast is a message on its way through a hub.
type broadcast struct {
	hub  *Hub
	p    *Prepared
	left atomic.Int64 // shards that still hand it out, plus one for its submission
}

// done counts left down. The last call releases the message.
func (b *broadcast) done() {
	if b.left.Add(-1) == 0 {
		b.hub.pending.Add(-1)
		b.hub.bytes.Add(-int64(b.p.Len()))
		b.p.Release()
	}
}

// shard is the part of a hub on one loop. Fields without a note belong to the
// loop.
type shard struct {
	hub     *Hub
	loop    *eddy.Loop
	live    atomic.Int64 // members, including those about to join; any goroutine
	members []*membership
	empty   int          // free places in members
	queue   []*broadcast // the first one is being handed out
	at, end int          // the first message has yet to go to members[at:end]
	running bool
}

// membership is a connection in a hub.
type membership struct {
	hub   *Hub
	shard *shard
	conn  *Conn
	class *eddy.MessageClass
	next  *membership // next one of the connection, guarded by Conn.mu
	skip  atomic.Bool // it is leaving

	// Loop only.
	place int // in shard.members, from 1
	gone  bool
}

// join and leave carry out Hub.Join and Hub.Leave on the loop.
func (m *membership) join() {
	if !m.gone {
		m.shard.members = append(m.shard.members, m)
		m.place = len(m.shard.members)
	}
}

func (m *membership) leave() {
	m.conn.delist(m)
	m.end()
}

// end removes the member from its shard and the hub.
func (m *membership) end() {
	if m.gone {
		return
	}
	m.gone = true
	if s := m.shard; m.place > 0 {
		s.members[m.place-1] = nil
		s.empty++
		s.compact()
	}
	m.hub.mu.Lock()
	defer m.hub.mu.Unlock()
	m.hub.count(m, -1)
}

// compact closes the gaps when they are more than half of the list and no
// message is being handed out.
func (s *shard) compact() {
	if s.running || s.empty <= len(s.members)/2 {
		return
	}
	kept := s.members[:0]
	for _, m := range s.members {
		if m != nil {
			kept = append(kept, m)
			m.place = len(kept)
		}
	}
	clear(s.members[len(kept):])
	s.members, s.empty = kept, 0
}

// take queues a message, and starts to hand it out unless another one is under
// way.
func (s *shard) take(b *broadcast) {
	s.queue = append(s.queue, b)
	if !s.running {
		s.running = true
		s.end = len(s.members)
		s.run()
	}
}

// run hands messages out, hubBatch members at a time. The loop's other work
// comes in between.
func (s *shard) run() {
	for budget := hubBatch; len(s.queue) > 0; s.advance() {
		for ; s.at < s.end; s.at++ {
			if budget == 0 {
				s.later()
				return
			}
			if m := s.members[s.at]; m != nil && !m.skip.Load() {
				budget--
				m.send(s.queue[0].p)
			}
		}
	}
	s.running = false
	s.compact()
}

// advance goes on to the next message. Connections that have joined in the
// meantime get that one, but not the one before.
func (s *shard) advance() {
	s.queue[0].done()
	s.queue[0] = nil
	s.queue = s.queue[1:]
	s.at, s.end = 0, len(s.members)
	if len(s.queue) == 0 {
		s.queue = nil
	}
}

// later continues after the iteration, which flushes what was handed out. So a batch of buffers serves all members, and a
// large hub does not fill the memory of its loop.
func (s *shard) later() {
	err := s.loop.Tail(s.run)
	if errors.Is(err, eddy.ErrSaturated) {
		_, err = s.loop.After(time.Millisecond, s.run)
	}
	if err != nil { // the loop ends, and its connections with it
		for len(s.queue) > 0 {
			s.advance()
		}
	}
}

// send gives a message to the member.
func (m *membership) send(p *Prepared) {
	if err := m.conn.writePrepared(m.class, p, true); err != nil {
		m.hub.stats.failed.Add(1)
		return
	}
	m.hub.stats.sent.Add(1)
}

// enlist adds a membership to the connection's list.
func (c *Conn) enlist(m *membership) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return ErrClosed
	}
	for o := c.members; o != nil; o = o.next {
		if o.hub == m.hub {
			return ErrMember
		}
	}
	m.next = c.members
	c.members = m
	return nil
}

// delist removes a membership from the connection's list.
func (c *Conn) delist(m *membership) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for p := &c.members; *p != nil; p = &(*p).next {
		if *p == m {
			*p = m.next
			return
		}
	}
}

// memberOf returns the connection's membership of a hub, nil when there is none.
func (c *Conn) memberOf(h *Hub) *membership {
	c.mu.Lock()
	defer c.mu.Unlock()
	for m := c.members; m != nil; m = m.next {
		if m.hub == h {
			return m
		}
	}
	return nil
}

// leaveHubs ends all memberships at the end of the connection. Loop only.
func (c *Conn) leaveHubs() {
	c.mu.Lock()
	m := c.members
	c.members, c.ended = nil, true
	c.mu.Unlock()
	for m != nil {
		next := m.next
		m.end()
		m = next
	}
}
