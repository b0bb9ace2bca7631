package buf

import (
	"fmt"
	"sync"
	"sync/atomic"
)

// Shared is an immutable run of bytes with a reference count. Use it for memory that several goroutines hold at once,
// such as one message written to many connections on several loops. A Shared comes from a SharedPool with a count of
// one. Code that keeps it beyond a call takes a reference of its own with Retain and gives it back with Release. The
// last Release returns the memory. Any use after that panics, unless it races the last Release itself.
//
// As an outbound message it carries one reference along: Conn.Write takes it over whatever it returns.
//
// Any goroutine that holds a reference may call all methods.
type Shared struct {
	b     []byte
	refs  atomic.Int32
	home  *SharedPool
	seg   *Segment     // pooled memory, nil for adopted
	free  func([]byte) // given to Adopt
	trace *trace       // nil unless leak detection watches this one
}

// Bytes returns the bytes. They are valid until the caller's reference is released. Only the goroutine that got the
// buffer from SharedPool.Get may fill them, and only until it gives a reference to anybody.
func (s *Shared) Bytes() []byte {
	s.touch("Bytes")
	return s.b
}

// Len returns the number of bytes.
func (s *Shared) Len() int {
	if s.refs.Load() <= 0 {
		s.misused("Len")
	}
	return len(s.b)
}

// Refs returns the number of references, which another goroutine may change at any time.
func (s *Shared) Refs() int { return int(s.refs.Load()) }

// Retain adds a reference and returns s, so that a reference can be handed over in the same expression:
// c.Write(s.Retain()).
func (s *Shared) Retain() *Shared {
	for {
		n := s.refs.Load()
		if n <= 0 {
			s.misused("Retain")
		}
		if s.refs.CompareAndSwap(n, n+1) {
			break
		}
	}
	if s.trace != nil {
		s.trace.touch("Retain")
	}
	return s
}

// Release gives one reference back. The last one returns the memory to where it came from.
func (s *Shared) Release() {
	if s.trace != nil {
		s.trace.touch("Release")
	}
	switch n := s.refs.Add(-1); {
	case n < 0:
		s.misused("Release")
	case n == 0:
		s.home.takeBack(s)
	}
}

// Touch notes, under the name what, that the buffer passed the caller. The report of a leak names the latest such notes.
// Touch does nothing for a buffer that leak detection does not watch.
func (s *Shared) Touch(what string) { s.touch(what) }

func (s *Shared) touch(what string) {
	if s.refs.Load() <= 0 {
		s.misused(what)
	}
	if s.trace != nil {
		s.trace.touch(what)
	}
}

// misused panics with all that is known about the buffer.
func (s *Shared) misused(what string) {
	panic(fmt.Sprintf("buf: %s of a shared buffer of %d bytes after its final release%s", what, len(s.b), s.trace.where()))
}

// SharedPool makes counted buffers and takes their memory back. It keeps a bounded amount of free memory. Any goroutine;
// the lock inside is held for a few instructions only.
type SharedPool struct {
	leaks *Leaks
	live  atomic.Int64

	mu      sync.Mutex
	pool    *Pool
	sampler sampler
}

// NewSharedPool returns a pool that keeps at most maxRetained bytes of free memory, with the rules of NewPool. leaks
// watches the buffers it gives out; nil means none.
func NewSharedPool(maxRetained int, leaks *Leaks) *SharedPool {
	return &SharedPool{leaks: leaks, pool: NewPool(maxRetained)}
}

// Get returns a buffer of size bytes with unspecified content and a count of one. The caller fills Bytes before anybody
// else gets a reference; from then on the content is immutable.
func (p *SharedPool) Get(size int) *Shared {
	seg, watched := p.segment(size)
	s := &Shared{home: p, seg: seg, b: seg.b[:size:size]}
	return p.handOut(s, watched)
}

// Copy returns a buffer with a copy of b and a count of one.
func (p *SharedPool) Copy(b []byte) *Shared {
	seg, watched := p.segment(len(b))
	s := &Shared{home: p, seg: seg, b: seg.b[:len(b):len(b)]}
	copy(s.b, b)
	return p.handOut(s, watched)
}

// Adopt returns a buffer over b, which nobody may change from now on, with a count of one. free, which may be nil, gets
// b after the final release, on the goroutine of that release, and must not block. Use Adopt for memory that has to go
// back somewhere. A slice that the garbage collector may have can be written to many connections as it is.
func (p *SharedPool) Adopt(b []byte, free func([]byte)) *Shared {
	s := &Shared{home: p, b: b, free: free}
	return p.handOut(s, p.watches())
}

// Retained returns the bytes of free memory that the pool keeps.
func (p *SharedPool) Retained() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pool.Retained()
}

// Live returns the number of buffers whose final release has not come yet.
func (p *SharedPool) Live() int { return int(p.live.Load()) }

func (p *SharedPool) segment(size int) (seg *Segment, watched bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pool.Get(size), p.leaks != nil && p.sampler.next(p.leaks)
}

func (p *SharedPool) watches() bool {
	if p.leaks == nil {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sampler.next(p.leaks)
}

func (p *SharedPool) handOut(s *Shared, watched bool) *Shared {
	s.refs.Store(1)
	p.live.Add(1)
	if watched {
		s.trace = watch(p.leaks, s, "shared buffer", len(s.b))
	}
	return s
}

// takeBack returns the memory of s after the final release.
func (p *SharedPool) takeBack(s *Shared) {
	p.live.Add(-1)
	if s.trace != nil {
		unwatch(s, s.trace)
	}
	switch {
	case s.seg != nil:
		p.mu.Lock()
		defer p.mu.Unlock()
		p.pool.Put(s.seg)
	case s.free != nil:
		s.free(s.b)
	}
}
