package executor

import "github.com/go-eddy/eddy/internal/list"

// Room is a place in the line of those that wait until a pool has room, without a blocked goroutine for each of them. A
// Room belongs to one pool at a time.
type Room struct {
	tell  func()
	place list.Place[Room] // in Pool.line, under the pool's lock
}

// NewRoom returns a Room whose owner is told by a call of tell. tell runs on a worker or on the goroutine that made
// room, and must not block.
func NewRoom(tell func()) *Room { return &Room{tell: tell} }

// AwaitRoom puts r at the end of the line; an r that stands there already keeps its place. When there is room, or the
// pool takes nothing any more, r leaves the line and its owner is told once. That may happen before AwaitRoom returns.
// Being told is a hint, because others may have taken the room when the owner tries again. An owner that is told and
// submits nothing must call LeaveRoom, so that the next one is told. Any goroutine; AwaitRoom does not block.
func (p *Pool) AwaitRoom(r *Room) {
	p.mu.Lock()
	p.line.Push(&r.place, r)
	told := p.offer()
	p.mu.Unlock()
	tellAll(told)
}

// LeaveRoom gives up the place of r in the line, or the room that r's owner was told of. A call of tell that is under
// way on another goroutine still comes. Any goroutine; LeaveRoom does not block.
func (p *Pool) LeaveRoom(r *Room) {
	p.mu.Lock()
	p.line.Remove(&r.place)
	told := p.offer()
	p.mu.Unlock()
	tellAll(told)
}

// offer takes as many Rooms out of the line as there is room for, or all if the pool is closed. The caller tells them
// without the lock. p.mu is held.
func (p *Pool) offer() (told []*Room) {
	if p.line.First() == nil {
		return nil
	}
	for n := p.places(); p.line.First() != nil && (n > 0 || p.state != open); n-- {
		r := p.line.First()
		told = append(told, r)
		p.line.Remove(&r.place)
	}
	return told
}

func tellAll(told []*Room) {
	for _, r := range told {
		r.tell()
	}
}
