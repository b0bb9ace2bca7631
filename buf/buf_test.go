package buf

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

func mustPanic(t *testing.T, want string, f func()) {
	t.Helper()
	defer func() {
		t.Helper()
		if v := recover(); !strings.Contains(fmt.Sprint(v), want) {
			t.Errorf("panic %v, want %q", v, want)
		}
	}()
	f()
}

func TestGetClasses(t *testing.T) {
	p := NewPool(0)
	for _, c := range []struct{ size, want int }{
		{-1, 512}, {0, 512}, {1, 512}, {512, 512}, {513, 1024}, {1024, 1024}, {1025, 2048},
		{65536, 65536}, {65537, 131072}, {1<<20 - 1, 1 << 20}, {1 << 20, 1 << 20}, {1<<20 + 1, 1<<20 + 1},
	} {
		s := p.Get(c.size)
		if s.Cap() != c.want || len(s.Free()) != c.want || s.Len() != 0 {
			t.Errorf("Get(%d): cap %d, free %d, len %d, want %d", c.size, s.Cap(), len(s.Free()), s.Len(), c.want)
		}
		before := p.Retained()
		p.Put(s)
		want := c.want
		if c.want > MaxSegment {
			want = 0 // dropped
		}
		if got := p.Retained() - before; got != want {
			t.Errorf("Put of %d bytes retained %d", c.want, got)
		}
	}
}

func TestSegmentIsReused(t *testing.T) {
	p := NewPool(0)
	a := p.Get(1000)
	a.Append([]byte("old"))
	p.Put(a)
	b := p.Get(600)
	if a != b {
		t.Error("the free segment was not reused")
	}
	if b.Len() != 0 || b.Next != nil || p.Retained() != 0 {
		t.Errorf("Len %d, Next %v, retained %d", b.Len(), b.Next, p.Retained())
	}
	if c := p.Get(600); c == b {
		t.Error("one segment given twice")
	}
}

func TestSegmentReadWrite(t *testing.T) {
	p := NewPool(0)
	s := p.Get(512)
	copy(s.Free(), "hello world")
	s.Commit(11)
	s.Consume(6)
	if string(s.Bytes()) != "world" || s.Len() != 5 || len(s.Free()) != 501 {
		t.Errorf("%q, len %d, free %d", s.Bytes(), s.Len(), len(s.Free()))
	}
	s.Compact()
	if string(s.Bytes()) != "world" || len(s.Free()) != 507 {
		t.Errorf("after Compact %q, free %d", s.Bytes(), len(s.Free()))
	}
	big := bytes.Repeat([]byte{'x'}, 600)
	if n := s.Append(big); n != 507 || s.Len() != 512 || len(s.Free()) != 0 {
		t.Errorf("Append took %d, len %d", n, s.Len())
	}
	mustPanic(t, "commit of 1 bytes, 0 free", func() { s.Commit(1) })
	mustPanic(t, "commit of -1 bytes", func() { s.Commit(-1) })
	mustPanic(t, "consume of 513 bytes, 512 readable", func() { s.Consume(513) })
	mustPanic(t, "consume of -1 bytes", func() { s.Consume(-1) })
	s.Consume(512)
	if s.Len() != 0 || len(s.Free()) != 512 {
		t.Errorf("emptied: len %d, free %d", s.Len(), len(s.Free()))
	}
	s.Append([]byte("abc"))
	s.Reset()
	if s.Len() != 0 || len(s.Free()) != 512 {
		t.Errorf("reset: len %d, free %d", s.Len(), len(s.Free()))
	}
}

func TestAdopt(t *testing.T) {
	p := NewPool(0)
	msg := []byte("immutable")
	whole := msg[:9:9]
	s := p.Adopt(whole)
	if string(s.Bytes()) != "immutable" || len(s.Free()) != 0 {
		t.Errorf("%q, free %d", s.Bytes(), len(s.Free()))
	}
	mustPanic(t, "commit of 1 bytes, 0 free", func() { s.Commit(1) })
	s.Consume(2)
	s.Compact()
	if n := s.Append([]byte("zz")); n != 0 || string(s.Bytes()) != "mutable" {
		t.Errorf("appended %d: %q", n, s.Bytes())
	}
	s.Consume(7)
	if n := s.Append([]byte("zz")); n != 0 || len(s.Free()) != 0 {
		t.Error("a consumed adopted segment can be written")
	}
	p.Put(s)
	if string(msg) != "immutable" || p.Retained() != 0 {
		t.Errorf("after Put the foreign slice is %q, retained %d", msg, p.Retained())
	}
	r := p.Adopt(msg)
	if r != s {
		t.Error("the header was not reused")
	}
	r.Reset()
	if r.Len() != 0 || len(r.Free()) != 0 {
		t.Errorf("reset: len %d, free %d", r.Len(), len(r.Free()))
	}
	p.Put(r)
	if s := p.Get(100); string(msg) != "immutable" || &s.Free()[0] == &msg[0] {
		t.Error("Get gave out adopted memory")
	}
}

// A foreign slice whose length is a size class stays foreign.
func TestAdoptedMemoryOfAClassIsNotRecycled(t *testing.T) {
	p := NewPool(0)
	foreign := make([]byte, 1024)
	p.Put(p.Adopt(foreign))
	if s := p.Get(1024); &s.Free()[0] == &foreign[0] || p.Retained() != 0 {
		t.Error("adopted memory was recycled")
	}
}

func TestDoublePut(t *testing.T) {
	p := NewPool(0)
	kept, none := NewPool(0), NewPool(-1)
	for _, s := range []*Segment{p.Get(1), p.Get(2 << 20), p.Adopt([]byte("x"))} {
		kept.Put(s)
		mustPanic(t, "put back twice", func() { kept.Put(s) })
		mustPanic(t, "put back twice", func() { none.Put(s) })
	}
}

func TestRetainedIsBounded(t *testing.T) {
	for _, c := range []struct{ limit, most int }{{0, DefaultRetained}, {-1, 0}, {100_000, 100_000}} {
		p := NewPool(c.limit)
		for _, size := range []int{512, 4096, 65536, 1 << 20, 1 << 20, 2048} {
			var all []*Segment
			for range min(200, 8<<20/size) {
				all = append(all, p.Get(size))
			}
			for _, s := range all {
				p.Put(s)
				if p.Retained() > c.most {
					t.Fatalf("limit %d: retained %d", c.limit, p.Retained())
				}
			}
		}
		sum := 0
		for class, s := range p.free {
			inClass := 0
			for ; s != nil; s = s.Next {
				inClass += s.Cap()
			}
			if inClass != p.held[class] || inClass > c.most/2 {
				t.Errorf("limit %d, class %d: %d bytes, counted %d", c.limit, class, inClass, p.held[class])
			}
			sum += inClass
		}
		if sum != p.Retained() || p.nHeaders > maxHeaders {
			t.Errorf("limit %d: %d bytes in lists, Retained %d, %d headers", c.limit, sum, p.Retained(), p.nHeaders)
		}
	}
}

func TestPoolAllocatesNothing(t *testing.T) {
	p := NewPool(0)
	foreign := make([]byte, 100)
	if n := testing.AllocsPerRun(100, func() {
		a, b, c := p.Get(100), p.Get(70_000), p.Adopt(foreign)
		p.Put(a)
		p.Put(b)
		p.Put(c)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestBytes(t *testing.T) {
	scratch := []byte("borrowed")
	var b Bytes
	if b.Len() != 0 || b.Bytes() != nil {
		t.Error("zero value is not empty")
	}
	b.Reset(scratch)
	d := b.Detach().(*Bytes)
	copy(scratch, "XXXXXXXX")
	if string(b.Bytes()) != "XXXXXXXX" || string(d.Bytes()) != "borrowed" || d.Len() != 8 {
		t.Errorf("borrowed %q, detached %q", b.Bytes(), d.Bytes())
	}
	if d.Detach() != any(d) {
		t.Error("an owned message was copied")
	}
	if o := Own(scratch); o.Detach() != any(o) || &o.Bytes()[0] != &scratch[0] {
		t.Error("Own copied")
	}
	if n := testing.AllocsPerRun(100, func() { b.Reset(scratch) }); n != 0 {
		t.Errorf("Reset allocates %v", n)
	}
}

// TestDetachKeepsTheMessageOnly: a message that leaves the loop takes none of the buffer along that it arrived in.
func TestDetachKeepsTheMessageOnly(t *testing.T) {
	scratch := bytes.Repeat([]byte("0123456789"), 10_000)
	var b Bytes
	b.Reset(scratch[5:25])
	d := b.Detach().(*Bytes)
	if n := cap(d.Bytes()); n > 2*20 {
		t.Errorf("20 detached bytes hold %d", n)
	}
	clear(scratch)
	if string(d.Bytes()) != "56789012345678901234" {
		t.Errorf("detached %q", d.Bytes())
	}
}

// TestCopy: the copy is as long as the original, owns its memory alone, and is one allocation while it is short.
func TestCopy(t *testing.T) {
	for _, n := range []int{0, 1, 64, 65, 256, 257, 1024, 1025, 70000} {
		p := bytes.Repeat([]byte{'a'}, n)
		c := Copy(p)
		for i := range p {
			p[i] = 'b'
		}
		if c.Len() != n || len(bytes.Trim(c.Bytes(), "a")) != 0 || cap(c.Bytes()) != n {
			t.Errorf("copy of %d bytes: %d bytes, capacity %d", n, c.Len(), cap(c.Bytes()))
		}
		if c.Detach() != any(c) {
			t.Errorf("a copy of %d bytes does not own its memory", n)
		}
		if got := testing.AllocsPerRun(100, func() { kept = Copy(p) }); n <= 1024 && got > 1 {
			t.Errorf("a copy of %d bytes takes %v allocations", n, got)
		}
	}
}

var kept *Bytes // makes the compiler allocate
