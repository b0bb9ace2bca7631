package buf

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/iotest"
)

// TestCompositeJoinsWithoutCopying: header and body read as one and are still the caller's memory.
func TestCompositeJoinsWithoutCopying(t *testing.T) {
	p := NewSharedPool(0, nil)
	header, body := []byte("HEAD"), p.Copy([]byte("the body"))
	var c Composite
	if err := c.Append(header); err != nil {
		t.Fatal(err)
	}
	if err := c.Append(nil); err != nil {
		t.Fatal(err)
	}
	if err := c.AppendShared(body.Retain()); err != nil {
		t.Fatal(err)
	}
	list := c.Buffers(nil)
	if len(list) != 2 || &list[0][0] != &header[0] || &list[1][0] != &body.Bytes()[0] {
		t.Fatalf("%d buffers, or copies of them", len(list))
	}
	if c.Len() != 12 || c.Parts() != 2 || c.Index([]byte("Dth"), 0) != 3 {
		t.Errorf("%d bytes, %d parts, Index %d", c.Len(), c.Parts(), c.Index([]byte("Dth"), 0))
	}
	if s, err := io.ReadAll(c.Reader()); string(s) != "HEADthe body" || err != nil {
		t.Errorf("read %q, %v", s, err)
	}
	part := c.Slice(2, 7)
	if l := part.Buffers(nil); len(l) != 2 || &l[0][0] != &header[2] || &l[1][0] != &body.Bytes()[0] {
		t.Error("Slice copied")
	}
	if body.Refs() != 3 {
		t.Errorf("%d references, want those of the test, the composite and its slice", body.Refs())
	}
	c.Release()
	if s, _ := io.ReadAll(part.Reader()); string(s) != "ADthe" || body.Refs() != 2 {
		t.Errorf("after the composite's release its slice reads %q; %d references", s, body.Refs())
	}
	part.Release()
	body.Release()
	if p.Live() != 0 {
		t.Error("a reference is left")
	}
}

// TestCompositeReadsLikeASlice compares every way to read with the same bytes in one slice.
func TestCompositeReadsLikeASlice(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	p := NewSharedPool(0, nil)
	for range 300 {
		var flat []byte
		c := &Composite{MaxParts: 2 + rng.IntN(12)}
		for range rng.IntN(15) {
			b := make([]byte, rng.IntN(6))
			for i := range b {
				b[i] = "abc"[rng.IntN(3)]
			}
			flat = append(flat, b...)
			var err error
			if rng.IntN(2) == 0 {
				err = c.Append(b)
			} else {
				err = c.AppendShared(p.Copy(b))
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if c.Parts() > c.MaxParts {
			t.Fatalf("%d parts, limit %d", c.Parts(), c.MaxParts)
		}
		compare(t, rng, c, flat)
		from := rng.IntN(len(flat) + 1)
		to := from + rng.IntN(len(flat)-from+1)
		s := c.Slice(from, to)
		compare(t, rng, s, flat[from:to])
		c.Release()
		compare(t, rng, s, flat[from:to])
		s.Release()
	}
	if p.Live() != 0 {
		t.Errorf("%d references are left", p.Live())
	}
}

func compare(t *testing.T, rng *rand.Rand, c *Composite, flat []byte) {
	t.Helper()
	if c.Len() != len(flat) || !bytes.Equal(bytes.Join(c.Buffers(nil), nil), flat) {
		t.Fatalf("%d bytes %q, want %q", c.Len(), c.Buffers(nil), flat)
	}
	for i, b := range flat {
		if c.At(i) != b {
			t.Fatalf("At(%d) = %q in %q", i, c.At(i), flat)
		}
	}
	if err := iotest.TestReader(c.Reader(), flat); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	r := c.Reader()
	if b, err := r.ReadByte(); (err == io.EOF) != (len(flat) == 0) {
		t.Fatalf("ReadByte = %q, %v", b, err)
	} else if err == nil {
		out.WriteByte(b)
	}
	if n, err := r.WriteTo(&out); err != nil || int(n) != max(0, len(flat)-1) || r.Len() != 0 || !bytes.Equal(out.Bytes(), flat) {
		t.Fatalf("WriteTo = %d, %v: %q, want %q", n, err, out.Bytes(), flat)
	}
	from := rng.IntN(len(flat) + 1)
	dst := make([]byte, rng.IntN(len(flat)+2))
	want := make([]byte, len(dst))
	if n, m := c.CopyTo(dst, from), copy(want, flat[from:]); n != m || !bytes.Equal(dst, want) {
		t.Fatalf("CopyTo(%d bytes, %d) = %d %q, want %d %q", len(dst), from, n, dst, m, want)
	}
	sep := []byte("abcabc"[:rng.IntN(4)])
	at := bytes.Index(flat[from:], sep)
	if at >= 0 {
		at += from
	}
	if got := c.Index(sep, from); got != at {
		t.Fatalf("Index(%q, %d) = %d in %q, want %d", sep, from, got, flat, at)
	}
}

// TestCompositeIsBounded: the last part collects within its bound, what was joined is not copied, and an append beyond the
// bound is refused by name without a reference left over.
func TestCompositeIsBounded(t *testing.T) {
	p := NewSharedPool(0, nil)
	small := func(c *Composite, n int) {
		t.Helper()
		for range n {
			if err := c.AppendShared(p.Copy([]byte("small"))); err != nil {
				t.Fatal(err)
			}
		}
	}
	refused := func(c *Composite, n int, want ...string) {
		t.Helper()
		before := c.Len()
		err := c.AppendShared(p.Get(n))
		if !errors.Is(err, ErrTooManyParts) || c.Len() != before {
			t.Fatalf("append of %d bytes: %v, %d bytes joined", n, err, c.Len()-before)
		}
		for _, w := range want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("error %q does not say %q", err, w)
			}
		}
	}

	var c Composite
	small(&c, DefaultMaxParts-1)
	kept := &c.Buffers(nil)[0][0]
	small(&c, 1000)
	if c.Parts() != DefaultMaxParts || c.Len() != (DefaultMaxParts-1+1000)*5 || &c.Buffers(nil)[0][0] != kept {
		t.Errorf("%d parts, %d bytes, or a copy of the first", c.Parts(), c.Len())
	}
	if p.Live() != DefaultMaxParts-1 {
		t.Errorf("%d references held, want %d: what was copied is released", p.Live(), DefaultMaxParts-1)
	}
	refused(&c, MaxCollected, "65536 bytes behind 64 parts and 5315 bytes", "limit 64 parts", "at most 65536 bytes")
	small(&c, 1) // a refusal is not the end
	c.Release()

	c2 := &Composite{MaxParts: 2}
	if err := c2.Append(make([]byte, 1<<20)); err != nil {
		t.Fatal(err)
	}
	long := make([]byte, MaxCollected+1)
	if err := c2.Append(long); err != nil || &c2.Buffers(nil)[1][0] != &long[0] {
		t.Errorf("a long last part: %v, or it was copied", err)
	}
	refused(c2, 1)
	s := c2.Slice(0, c2.Len())
	refused(s, 1)
	refused(&Composite{MaxParts: 1}, 1, "MaxParts is 1, the least is 2")
	refused(&Composite{MaxParts: -1}, 1, "MaxParts is -1")
	if p.Live() != 0 {
		t.Errorf("%d references are left", p.Live())
	}
}

func TestCompositeEnds(t *testing.T) {
	p := NewSharedPool(0, nil)
	for name, end := range map[string]func(*Composite){
		"Release": (*Composite).Release,
		"Take": func(c *Composite) {
			for _, part := range c.Take() {
				if part.Owner != nil {
					part.Owner.Release()
				}
			}
		},
	} {
		var c Composite
		c.Append([]byte("a"))
		c.AppendShared(p.Copy([]byte("b")))
		r := c.Reader()
		end(&c)
		if p.Live() != 0 {
			t.Errorf("%s: a reference is left", name)
		}
		for what, use := range map[string]func(){
			"Append": func() { c.Append([]byte("c")) }, "Len": func() { c.Len() }, "Parts": func() { c.Parts() },
			"At": func() { c.At(0) }, "Index": func() { c.Index(nil, 0) }, "CopyTo": func() { c.CopyTo(nil, 0) },
			"Buffers": func() { c.Buffers(nil) }, "Slice": func() { c.Slice(0, 0) }, "Reader": func() { c.Reader() },
			"Read": func() { r.ReadByte() }, "Release": c.Release, "Take": func() { c.Take() },
		} {
			mustPanic(t, "buf: "+what+" of a composite that was written or released", use)
		}
	}
	var c Composite
	c.Append([]byte("abc"))
	for _, use := range []func(){
		func() { c.At(3) }, func() { c.At(-1) }, func() { c.CopyTo(nil, 4) }, func() { c.Index([]byte("a"), 4) },
		func() { c.Slice(2, 1) }, func() { c.Slice(0, 4) }, func() { c.Slice(-1, 0) },
	} {
		mustPanic(t, "of 3 bytes", use)
	}
}

// failing takes some bytes and fails.
type failing struct{ n, takes int }

func (f *failing) Write(p []byte) (int, error) {
	n := min(f.takes, len(p))
	f.n += n
	if n < len(p) {
		return n, errors.New("full")
	}
	return n, nil
}

func TestReaderStopsWhereTheWriterFailed(t *testing.T) {
	var c Composite
	c.Append([]byte("abc"))
	c.Append([]byte("defgh"))
	r := c.Reader()
	if n, err := r.WriteTo(&failing{takes: 4}); n != 7 || err == nil {
		t.Errorf("WriteTo = %d, %v", n, err)
	}
	if rest, _ := io.ReadAll(r); string(rest) != "h" {
		t.Errorf("left %q", rest)
	}
}
