package http2

import "time"

// bucket counts what costs the server more than the client. It leaks, so that what is rare is never too much.
type bucket struct {
	most, rate float64
	left       float64
	at         time.Duration // when left was counted
}

func (b *bucket) init(o *Options, now time.Duration) {
	b.most, b.rate = float64(o.ControlBurst), float64(o.ControlRate)
	b.left, b.at = b.most, now
}

// spend takes one, and reports whether there was one.
func (b *bucket) spend(now time.Duration) bool {
	if b.left < b.most {
		b.left = min(b.most, b.left+(now-b.at).Seconds()*b.rate)
	}
	b.at = now
	if b.left < 1 {
		return false
	}
	b.left--
	return true
}

// earnedBursts is how many bursts a client may have earned. Its updates for many small frames may all come later.
const earnedBursts = 16

// earn gives n back, because the client has got an answer.
func (b *bucket) earn(n float64) { b.left = min(earnedBursts*b.most, b.left+n) }

// pastStreams remembers the last streams that this side has reset. Frames that were on their way to one are no error.
type pastStreams struct {
	ids  map[uint32]struct{}
	ring []uint32
	next int
}

// add remembers id, and forgets the oldest beyond most.
func (p *pastStreams) add(id uint32, most int) {
	if p.ids == nil {
		p.ids = make(map[uint32]struct{})
	}
	if len(p.ring) < most {
		p.ring = append(p.ring, id)
	} else {
		delete(p.ids, p.ring[p.next])
		p.ring[p.next] = id
		p.next = (p.next + 1) % most
	}
	p.ids[id] = struct{}{}
}

// forget removes id, so that a further frame is an error.
func (p *pastStreams) forget(id uint32) { delete(p.ids, id) }

func (p *pastStreams) has(id uint32) bool {
	_, ok := p.ids[id]
	return ok
}
