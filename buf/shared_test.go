package buf

import (
	"bytes"
	"sync"
	"sync/atomic"
	"testing"
)

func TestSharedCount(t *testing.T) {
	p := NewSharedPool(0, nil)
	s := p.Copy([]byte("to everybody"))
	if string(s.Bytes()) != "to everybody" || s.Len() != 12 || s.Refs() != 1 || p.Live() != 1 {
		t.Fatalf("%q, %d bytes, %d references, %d live", s.Bytes(), s.Len(), s.Refs(), p.Live())
	}
	if s.Retain() != s || s.Refs() != 2 {
		t.Errorf("after Retain %d references", s.Refs())
	}
	s.Release()
	if p.Live() != 1 || p.Retained() != 0 || string(s.Bytes()) != "to everybody" {
		t.Errorf("the first release took the memory: %d live, %d retained", p.Live(), p.Retained())
	}
	memory := &s.Bytes()[0]
	s.Release()
	if p.Live() != 0 || p.Retained() != MinSegment {
		t.Errorf("after the final release %d live, %d retained", p.Live(), p.Retained())
	}
	again := p.Get(300)
	if &again.Bytes()[0] != memory || again.Len() != 300 || cap(again.Bytes()) != 300 {
		t.Errorf("the memory was not reused: %d bytes, capacity %d", again.Len(), cap(again.Bytes()))
	}
	again.Release()
	if b := p.Get(0); b.Len() != 0 {
		t.Errorf("Get(0) has %d bytes", b.Len())
	}
}

// Code that uses a buffer after its end panics at once, even when another buffer has its memory by then.
func TestSharedAfterFinalRelease(t *testing.T) {
	p := NewSharedPool(0, nil)
	for name, use := range map[string]func(*Shared){
		"Bytes":   func(s *Shared) { s.Bytes() },
		"Len":     func(s *Shared) { s.Len() },
		"Retain":  func(s *Shared) { s.Retain() },
		"Release": func(s *Shared) { s.Release() },
		"lookup":  func(s *Shared) { s.Touch("lookup") },
	} {
		s := p.Get(100)
		s.Release()
		other := p.Get(100)
		for range 2 { // one misuse does not hide the next
			mustPanic(t, "buf: "+name+" of a shared buffer of 100 bytes after its final release", func() { use(s) })
		}
		if other.Refs() != 1 || p.Live() != 1 {
			t.Errorf("%s: the memory's next user has %d references", name, other.Refs())
		}
		other.Release()
	}
}

// TestSharedAcrossGoroutines: many holders, one return.
func TestSharedAcrossGoroutines(t *testing.T) {
	p := NewSharedPool(0, nil)
	want := bytes.Repeat([]byte("x"), 5000)
	var freed atomic.Int32
	for range 100 {
		s := p.Adopt(want, func(b []byte) {
			if &b[0] != &want[0] || len(b) != len(want) {
				t.Error("another slice was given back")
			}
			freed.Add(1)
		})
		freed.Store(0)
		var wg sync.WaitGroup
		for range 8 {
			mine := s.Retain()
			wg.Go(func() {
				for range 10 {
					other := mine.Retain()
					if !bytes.Equal(other.Bytes(), want) {
						t.Error("another content")
					}
					other.Release()
				}
				if freed.Load() != 0 {
					t.Error("given back while somebody held it")
				}
				mine.Release()
			})
		}
		s.Release()
		wg.Wait()
		if freed.Load() != 1 || p.Live() != 0 {
			t.Fatalf("given back %d times, %d live", freed.Load(), p.Live())
		}
	}
	p.Adopt(want, nil).Release()
}

// Released memory goes from whatever goroutine to one bounded store.
func TestSharedPoolIsBounded(t *testing.T) {
	const limit = 100_000
	p := NewSharedPool(limit, nil)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 20 {
				var held []*Shared
				for _, size := range []int{1, 600, 3000, 40_000, 40_000, 2 << 20} {
					held = append(held, p.Get(size))
				}
				for _, s := range held {
					s.Release()
					if n := p.Retained(); n > limit {
						t.Errorf("retained %d", n)
					}
				}
			}
		})
	}
	wg.Wait()
	if p.Live() != 0 || p.Retained() == 0 {
		t.Errorf("%d live, %d retained", p.Live(), p.Retained())
	}
}

func TestAdoptShared(t *testing.T) {
	pool, home := NewPool(0), NewSharedPool(0, nil)
	s := home.Copy([]byte("header body"))
	seg := pool.AdoptShared(s.Retain().Bytes()[7:], s)
	if string(seg.Bytes()) != "body" || len(seg.Free()) != 0 {
		t.Errorf("%q, %d free", seg.Bytes(), len(seg.Free()))
	}
	s.Release()
	if home.Live() != 1 {
		t.Fatal("the segment holds no reference")
	}
	pool.Put(seg)
	if home.Live() != 0 {
		t.Error("Put did not release")
	}
	plain := pool.Adopt([]byte("same header"))
	pool.Put(plain)
	if plain != seg {
		t.Error("the header was not reused")
	}
	mustPanic(t, "AdoptShared of a shared buffer of 11 bytes after its final release", func() { pool.AdoptShared(nil, s) })
}
