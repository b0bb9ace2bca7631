package http2

import (
	"math"
	"os"
	"sync"
	"time"

	"golang.org/x/net/http2/hpack"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/buf"
	"github.com/go-eddy/eddy/executor"
)

// fields is a header section that is ready for the encoder.
type fields struct {
	list   []hpack.HeaderField
	pooled bool // goes back to Factory.sections
}

// newFields returns an empty section out of the pool.
func (f *Factory) newFields() *fields { return f.sections.Get().(*fields) }

// maxKeptFields is the capacity up to which a section goes back to the pool.
const maxKeptFields = 64

// recycle takes back a section that was sent.
func (f *Factory) recycle(h *fields) {
	if h.pooled && cap(h.list) <= maxKeptFields {
		clear(h.list)
		f.sections.Put(h)
	}
}

// outgoing is what a handler has made and the loop has not sent yet.
type outgoing struct {
	mu      sync.Mutex
	room    sync.Cond
	limit   int32 // of n, for those who wait
	low     int32 // where there is room again after the limit was met
	full    bool  // a tunnel was told that there is no room
	owner   owner
	heads   []*fields // informational ones, and that of the response as the last
	chunks  []chunk
	n       int      // bytes in chunks
	trailer *fields  // nil for none
	ended   bool     // nothing follows
	apart   bool     // a DATA frame ends the stream, and not the header section
	short   bool     // the handler has ended without a whole response
	err     error    // why nothing more goes out
	last    *buffers // memory of the last chunk that goes back to the pool; the loop's once ended
}

// chunk is bytes that wait.
type chunk struct {
	b []byte // what was not sent
	m *memory
}

// memory is what is special about the bytes of a chunk. Usual ones are in memory of their own, and have none.
type memory struct {
	frame  *[maxFrame]byte    // out of chunkPool
	shared *buf.Shared        // counted
	class  *eddy.MessageClass // of a message of which nothing was sent
}

// release gives back what is counted or out of the pool.
func (m *memory) release() {
	switch {
	case m == nil:
	case m.shared != nil:
		m.shared.Release()
	case m.frame != nil:
		chunkPool.Put(m)
	}
}

// chunkPool has the memory of chunks that messages of a stream share, each a frame long.
var chunkPool = sync.Pool{New: func() any { return &memory{frame: new([maxFrame]byte)} }} //nolint:gochecknoglobals // memory for all connections

// class returns the class of a message of which nothing was sent, nil for none.
func (c *chunk) class() *eddy.MessageClass {
	if c.m == nil {
		return nil
	}
	return c.m.class
}

// room returns how many bytes can be added to c.
func (c *chunk) room() int { return cap(c.b) - len(c.b) }

// owner says which side answers the request and is decided once.
type owner uint8

const (
	nobody  owner = iota
	handler       // the handler's status is fixed
	loop          // the loop answered
)

func (o *outgoing) init(limit int) {
	o.bound(limit, limit/2)
	o.room.L = &o.mu
}

// bound sets where the queue is full, and where it has room again.
func (o *outgoing) bound(limit, low int) {
	o.limit, o.low = int32(min(limit, math.MaxInt32)), int32(min(low, math.MaxInt32))
}

// met reports whether as much waits as the limit says. mu is held.
func (o *outgoing) met() bool { return o.n >= int(o.limit) }

// take makes who the owner of the answer, unless an owner is decided or the stream is over.
func (o *outgoing) take(who owner) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.owner != nobody || o.err != nil {
		return false
	}
	o.owner = who
	return true
}

// begun reports whether an owner is decided.
func (o *outgoing) begun() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.owner != nobody
}

// inform adds an informational header section, unless the final one is there.
func (o *outgoing) inform(head *fields) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.owner == nobody && o.err == nil {
		o.heads = append(o.heads, head)
	}
}

// head adds the header section of the response.
func (o *outgoing) head(head *fields) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err == nil {
		o.heads = append(o.heads, head)
	}
}

// add adds p, which belongs to the buffer from then on, whatever the limit is.
func (o *outgoing) add(p []byte) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err == nil && len(p) > 0 {
		o.chunks = append(o.chunks, chunk{b: p})
		o.n += len(p)
	}
	return o.err
}

// send adds a copy of p, unless as much as the limit waits: then it is full. Messages share chunks, and with them frames.
func (o *outgoing) send(p []byte) (full bool, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err != nil || o.met() || len(p) == 0 {
		return o.met(), o.err
	}
	o.join(p)
	return false, nil
}

// join adds a copy of p. mu is held.
func (o *outgoing) join(p []byte) {
	i := len(o.chunks) - 1
	switch {
	case i >= 0 && o.chunks[i].room() >= len(p):
		o.chunks[i].b = append(o.chunks[i].b, p...)
	case i >= 0 && len(p) < maxFrame/2: // the loop is behind: more will come before it has sent this
		c := chunk{m: chunkPool.Get().(*memory)}
		c.b = append(c.m.frame[:0], p...)
		o.chunks = append(o.chunks, c)
	default:
		o.chunks = append(o.chunks, chunk{b: append(make([]byte, 0, len(p)), p...)})
	}
	o.n += len(p)
}

// chunkSize is the capacity of a chunk that small writes share.
const chunkSize = 2 << 10

// put adds a copy of as much of p as there is room for, and returns how much that was.
func put[S []byte | string](o *outgoing, p S) (n int, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err != nil {
		return 0, o.err
	}
	k := min(len(p), int(o.limit)-o.n)
	if k <= 0 {
		return 0, nil
	}
	if i := len(o.chunks) - 1; i >= 0 && o.chunks[i].room() >= k {
		o.chunks[i].b = append(o.chunks[i].b, p[:k]...)
	} else {
		o.chunks = append(o.chunks, chunk{b: append(make([]byte, 0, max(k, min(chunkSize, 2*k))), p[:k]...)})
	}
	o.n += k
	return k, nil
}

// await waits until there is room, until by if that is set, and gives up the place meanwhile. The caller has told the loop
// what there is.
func (o *outgoing) await(by *time.Time, place *executor.Place) error {
	place.Leave()
	defer place.Return()
	o.mu.Lock()
	defer o.mu.Unlock()
	late := false
	if by != nil {
		t := time.AfterFunc(time.Until(*by), func() {
			o.mu.Lock()
			defer o.mu.Unlock()
			late = true
			o.room.Broadcast()
		})
		defer t.Stop()
	}
	for o.err == nil && o.met() && !late {
		o.room.Wait()
	}
	if o.err == nil && o.met() {
		return os.ErrDeadlineExceeded
	}
	return o.err
}

// end says that nothing follows but the trailer. rest is the end of the body, in the memory of bufs.
func (o *outgoing) end(rest []byte, bufs *buffers, trailer *fields) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ended {
		return
	}
	o.ended, o.trailer, o.last = true, trailer, bufs
	if len(rest) > 0 && o.err == nil {
		o.chunks = append(o.chunks, chunk{b: rest})
		o.n += len(rest)
	}
}

// finish cuts a response that has not ended.
func (o *outgoing) finish() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.short = o.short || !o.ended
}

// cut ends a response that is not whole; the stream has to be reset.
func (o *outgoing) cut(bufs *buffers) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.short, o.last = true, bufs
}

// isCut reports whether the response was cut. It is not once the loop has answered.
func (o *outgoing) isCut() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.short && o.owner != loop
}

// failure returns why nothing goes out any more.
func (o *outgoing) failure() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
}

// size returns how many bytes wait.
func (o *outgoing) size() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.n
}

// fail drops what was not sent, and wakes a Write that waits. The first reason stands.
func (o *outgoing) fail(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err == nil {
		o.err = err
	}
	for i := range o.chunks {
		o.chunks[i].m.release()
	}
	o.heads, o.chunks, o.n, o.trailer = nil, nil, 0, nil
	o.room.Broadcast()
}

// whole makes heads and the one chunk all that goes out. The loop calls it before others know the buffer.
func (o *outgoing) whole(heads []*fields, body []chunk) {
	o.heads, o.ended = heads, true
	if o.n = len(body[0].b); o.n > 0 {
		o.chunks = body
	}
}

// replace drops what was not sent and makes the answer of the loop the only one.
func (o *outgoing) replace(head *fields, body []byte, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.owner, o.err = loop, err
	o.heads, o.chunks, o.n, o.trailer, o.ended = []*fields{head}, nil, len(body), nil, true
	if len(body) > 0 {
		o.chunks = []chunk{{b: body}}
	}
	o.room.Broadcast()
}

// piece is what goes into one frame.
type piece struct {
	head  *fields // a header section, or the trailer
	data  []byte
	end   bool // nothing follows
	waits bool // there is data, and no window for it

	copied bool    // the memory of data is used again
	roomy  bool    // there is room in a tunnel again
	last   *memory // of data, when that was its rest
}

// next takes what can be sent next: a header section, or at most n bytes. The result is empty when there is nothing.
func (o *outgoing) next(n int) (p piece) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case len(o.heads) > 0:
		p.head = o.heads[0]
		o.heads = o.heads[1:]
		p.end = o.ended && len(o.heads) == 0 && o.n == 0 && o.trailer == nil && !o.apart
	case o.n > 0 && n <= 0:
		p.waits = true
	case o.n > 0:
		c := &o.chunks[0]
		p.data = c.b[:min(n, len(c.b))]
		if c.m != nil {
			c.m.class = nil
			p.copied = c.m.frame != nil || c.m.shared != nil
		}
		if len(p.data) == len(c.b) {
			p.last = c.m
			*c = chunk{}
			o.chunks = o.chunks[1:]
		} else {
			c.b = c.b[len(p.data):]
		}
		was := o.n
		o.n -= len(p.data)
		if low := int(o.low); was > low && o.n <= low { // not before, or the rest would go out in ever smaller pieces
			o.room.Broadcast()
			p.roomy, o.full = o.full, false
		}
		p.end = o.ended && o.n == 0 && o.trailer == nil
	case o.ended && o.trailer != nil:
		p.head, p.end = o.trailer, true
		o.trailer = nil
	case o.ended:
		p.end = true
	}
	return p
}
