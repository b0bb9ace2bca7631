package sim_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/buf"
	"github.com/go-eddy/eddy/internal/sys/sim"
)

// A tick is a length of two bytes, a kind of one, a number of four and filling that follows from the number.
const tickHead = 7

func tick(kind byte, number uint32, n int) []byte {
	b := make([]byte, tickHead+n)
	binary.BigEndian.PutUint16(b, uint16(len(b)))
	b[2] = kind
	binary.BigEndian.PutUint32(b[3:], number)
	copy(b[tickHead:], streamAt(int(number), 0, n))
	return b
}

// classes: messages that may be dropped, by every policy, among others that may not.
func classes(t *trial) {
	srv := &eddy.Server{Watermarks: t.marks(), Overflow: eddy.OverflowReject}
	srv.Watermarks.Max = srv.Watermarks.High + t.n(20<<10)
	srv.Init = func(p *eddy.Pipeline) error {
		return p.Add("drop", eddy.Handle(func(*eddy.Context, *buf.Bytes) error { return nil }))
	}
	addr := t.listen(srv)
	kinds := []*eddy.MessageClass{
		nil, // ordinary messages
		{Name: "reject", Policy: eddy.OverflowReject},
		{Name: "newest", Policy: eddy.OverflowDropNewest},
		{Name: "oldest", Policy: eddy.OverflowDropOldest},
		{Name: "latest", Policy: eddy.OverflowKeepLatest},
	}
	for _, k := range kinds[1:] {
		k.MaxMessages, k.MaxBytes = pick(t, 0, 1, 3), pick(t, 0, 0, 500)
	}
	sent := map[*eddy.Conn]*ticker{}
	t.disturb(&crowd{srv: srv, mild: true, push: func(l *life) {
		s := sent[l.conn]
		if s == nil {
			s = &ticker{}
			sent[l.conn] = s
		}
		s.write(t, l.conn, kinds, byte(t.n(len(kinds))))
	}})
	readers := map[*client]*tickReader{}
	for range 1 + t.n(12) {
		r := &tickReader{t: t}
		c := t.join(addr, &client{out: stream(1, t.n(50)), take: r.take, most: -1, ending: pick(t, stay, stay, stay, closeEarly, resetEarly, vanish)})
		readers[c] = r
	}
	t.w.Always(sim.OffLoopWrite)
	if t.load(8000) {
		t.finish()
	}
	if t.w.Err() != nil {
		return
	}
	for _, l := range t.lives {
		c, s := t.peers[l.conn.RemoteAddr()], sent[l.conn]
		if c != nil && s != nil && c.eof && c.whole() && !c.ended && l.reason == eddy.CloseServerShutdown && t.calmEnd {
			readers[c].verdict(c, s)
		}
	}
}

// ticker numbers the messages of a connection.
type ticker struct {
	next  uint32
	taken [5][]uint32 // by kind
	fates [5]map[uint32]*eddy.Future
	last  []*eddy.Future
}

func (s *ticker) write(t *trial, c *eddy.Conn, kinds []*eddy.MessageClass, kind byte) {
	s.next++
	b := tick(kind, s.next, t.n(pick(t, 20, 400, 3000)))
	var msg any = b
	if kind > 0 {
		msg = kinds[kind].Wrap(b)
	}
	f, err := t.write(c, msg, func() {})
	switch {
	case err == nil:
		s.taken[kind] = append(s.taken[kind], s.next)
		if f != nil {
			s.watch(t, f, kind)
		}
	case errors.Is(err, eddy.ErrBackpressure), errors.Is(err, eddy.ErrSaturated), errors.Is(err, eddy.ErrClosed):
	default:
		t.w.Failf("write: %v", err)
	}
}

// watch remembers a future, and sometimes cancels one of the last.
func (s *ticker) watch(t *trial, f *eddy.Future, kind byte) {
	if s.fates[kind] == nil {
		s.fates[kind] = map[uint32]*eddy.Future{}
	}
	s.fates[kind][s.next] = f
	if s.last = append(s.last, f); len(s.last) > 5 {
		s.last = s.last[1:]
	}
	if t.once(3) {
		s.last[t.n(len(s.last))].Cancel()
	}
}

// sent returns the numbers of messages that were not cancelled.
func (s *ticker) sent(kind int) (numbers []uint32) {
	for _, n := range s.taken[kind] {
		if f := s.fates[kind][n]; f == nil || !errors.Is(f.Err(), eddy.ErrCanceled) {
			numbers = append(numbers, n)
		}
	}
	return numbers
}

// tickReader parses the ticks that come back.
type tickReader struct {
	t    *trial
	part []byte
	last uint32
	got  [5][]uint32
}

func (r *tickReader) take(p []byte) {
	r.part = append(r.part, p...)
	for len(r.part) >= tickHead {
		n := int(binary.BigEndian.Uint16(r.part))
		kind, number := r.part[2], binary.BigEndian.Uint32(r.part[3:])
		if n < tickHead || int(kind) >= len(r.got) || number <= r.last {
			r.t.w.Failf("a message of %d bytes, kind %d, number %d behind %d", n, kind, number, r.last)
			return
		}
		if len(r.part) < n {
			return
		}
		if !bytes.Equal(r.part[tickHead:n], streamAt(int(number), 0, n-tickHead)) {
			r.t.w.Failf("message %d is not whole", number)
			return
		}
		r.last = number
		r.got[kind] = append(r.got[kind], number)
		r.part = r.part[n:]
	}
}

// verdict compares the received ticks with the accepted ones, for a connection that was ended in order.
func (r *tickReader) verdict(c *client, s *ticker) {
	if len(r.part) > 0 {
		r.t.w.Failf("%s: the connection ended in order inside a message", c.name)
	}
	if sent := s.sent(0); !slices.Equal(r.got[0], sent) {
		r.t.w.Failf("%s: %d ordinary messages were taken and not cancelled, %d came", c.name, len(sent), len(r.got[0]))
	}
	all := s.taken[4]
	if n := len(all); n > 0 && slices.Contains(s.sent(4), all[n-1]) && !slices.Contains(r.got[4], all[n-1]) {
		r.t.w.Failf("%s: the latest message, %d, did not come", c.name, all[n-1])
	}
	for kind, fates := range s.fates {
		for number, f := range fates {
			if came := slices.Contains(r.got[kind], number); came != (f.Completed() && f.Err() == nil) {
				r.t.w.Failf("%s: message %d of kind %d came: %v, and its future %v, %v", c.name, number, kind, came, f.Completed(), f.Err())
			}
		}
	}
}
