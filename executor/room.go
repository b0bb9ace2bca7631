package executor

// Room is a place in the line of those that wait until a pool has room, without a blocked goroutine for each of them. A
// Room belongs to one pool at a time.
type Room struct {
	tell       func()
	next, prev *Room // under the pool's lock
	listed     bool
}

// NewRoom returns a Room whose owner is told by a call of tell. tell runs on a worker or on the goroutine that made
// room, and must not block.
func NewRoom(tell func()) *Room { return &Room{tell: tell} }

// roomLine is the line of Rooms that wait, first come first told.
type roomLine struct {
	first, last *Room
}

// AwaitRoom puts r at the end of the line; an r that stands there already keeps its place. When there is room, or the
// pool takes nothing any more, r leaves the line and its owner is told once. That may happen before AwaitRoom returns.
// Being told is a hint, because others may have taken the room when the owner tries again. An owner that is told and
// submits nothing must call LeaveRoom, so that the next one is told. Any goroutine; AwaitRoom does not block.
func (p *Pool) AwaitRoom(r *Room) {
	p.mu.Lock()
	p.line.push(r)
	told := p.offer()
	p.mu.Unlock()
	tellAll(told)
}

// LeaveRoom gives up the place of r in the line, or the room that r's owner was told of. A call of tell that is under
// way on another goroutine still comes. Any goroutine; LeaveRoom does not block.
func (p *Pool) LeaveRoom(r *Room) {
	p.mu.Lock()
	p.line.remove(r)
	told := p.offer()
	p.mu.Unlock()
	tellAll(told)
}

// offer takes as many Rooms out of the line as there is room for, or all if the pool is closed. The caller tells them
// without the lock. p.mu is held.
func (p *Pool) offer() (told []*Room) {
	if p.line.first == nil {
		return nil
	}
	for n := p.places(); p.line.first != nil && (n > 0 || p.state != open); n-- {
		told = append(told, p.line.first)
		p.line.remove(p.line.first)
	}
	return told
}

func tellAll(told []*Room) {
	for _, r := range told {
		r.tell()
	}
}

func (l *roomLine) push(r *Room) {
	if r.listed {
		return
	}
	r.listed, r.prev, r.next = true, l.last, nil
	if l.last == nil {
		l.first = r
	} else {
		l.last.next = r
	}
	l.last = r
}

func (l *roomLine) remove(r *Room) {
	if !r.listed {
		return
	}
	if r.prev == nil {
		l.first = r.next
	} else {
		r.prev.next = r.next
	}
	if r.next == nil {
		l.last = r.prev
	} else {
		r.next.prev = r.prev
	}
	r.listed, r.prev, r.next = false, nil, nil
}
