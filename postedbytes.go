package eddy

import "sync"

// postedBytes is what WriteBytes of a handler on a pool hands to the loop: a copy whose memory serves the next one when the
// loop has queued the bytes. No handler meets it. It goes to one owner at a time: the writer, the task, the loop.
type postedBytes struct {
	bytes []byte // the front of the room
	pool  *sync.Pool
}

// Sizes of the rooms, as of buf.Copy.
var postedRooms = [...]struct {
	size int
	pool *sync.Pool
}{{64, newPostedRoom(64)}, {256, newPostedRoom(256)}, {1024, newPostedRoom(1024)}}

func newPostedRoom(size int) *sync.Pool {
	p := new(sync.Pool)
	p.New = func() any { return &postedBytes{bytes: make([]byte, 0, size), pool: p} }
	return p
}

// newPosted returns postedBytes with a copy of b, nil if b is longer than any room.
func newPosted(b []byte) *postedBytes {
	for i := range postedRooms {
		if len(b) <= postedRooms[i].size {
			m := postedRooms[i].pool.Get().(*postedBytes)
			m.bytes = append(m.bytes[:0], b...)
			return m
		}
	}
	return nil
}

// Release implements Releaser.
func (m *postedBytes) Release() { m.pool.Put(m) }

// postBytes hands a copy of p to the loop for WriteBytes of a handler on a pool. done is false where Write has to do it:
// another handler on the pool comes first, or the message has a class or a Future.
func (ctx *Context) postBytes(p []byte) (done bool, err error) {
	at := ctx.place()
	if ctx.onLoop() || at == ctx && !ctx.straight() {
		return false, nil
	}
	m := newPosted(p)
	if m == nil {
		return false, nil
	}
	if err = ctx.conn.submitWrite(at, m); err != nil {
		m.Release()
	}
	return true, err
}

// straight reports whether what an ordered handler on a pool writes goes to the loop next, as it is.
func (ctx *Context) straight() bool {
	s := ctx.findStrand()
	return (s == nil || s.class == nil && s.future == nil) && ctx.writeTo() == nil && ctx.heir() == nil
}

// takePosted carries out the write of m on the loop.
func (ctx *Context) takePosted(m *postedBytes) error {
	defer m.Release()
	return ctx.writeBytes(m.bytes)
}
