package websocket

import (
	"bytes"
	"compress/flate"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
)

// packed compresses with the standard library, as another implementation would.
func packed(t testing.TB, data string) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := flate.NewWriter(&b, 6)
	if err == nil {
		_, err = io.WriteString(w, data)
	}
	if err == nil {
		err = w.Flush()
	}
	if err != nil {
		t.Fatal(err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte(syncTail))
}

// inflateAll runs an inflater to its end.
func inflateAll(z *Compression, msg, dict []byte, limit int) (string, error) {
	f := z.getInflater(msg, dict)
	defer z.putInflater(f)
	for {
		done, err := f.step(limit, dict)
		if err != nil {
			return "", err
		}
		if done {
			return string(f.out), nil
		}
	}
}

// RFC 7692 section 7.2.3: the examples, and what the section says about them.
func TestInflateExamples(t *testing.T) {
	z := newCompression(t, CompressionOptions{})
	for _, tt := range []struct{ name, in, dict, want string }{
		{"one block", "\xf2\x48\xcd\xc9\xc9\x07\x00", "", "Hello"},
		{"sharing the window", "\xf2\x00\x11\x00\x00", "Hello", "Hello"},
		{"no compression", "\x00\x05\x00\xfa\xff\x48\x65\x6c\x6c\x6f\x00", "", "Hello"},
		{"a block that ends the stream", "\xf3\x48\xcd\xc9\xc9\x07\x00\x00", "", "Hello"},
		{"that, without a byte behind it", "\xf3\x48\xcd\xc9\xc9\x07\x00", "", "Hello"},
		{"two blocks", "\xf2\x48\x05\x00\x00\x00\xff\xff\xca\xc9\xc9\x07\x00", "", "Hello"},
		{"two streams", "\xf3\x48\xcd\xc9\xc9\x07\x00\xf2\x48\xcd\xc9\xc9\x07\x00", "", "HelloHello"},
		{"a stream that refers to the one before", "\xf3\x48\xcd\xc9\xc9\x07\x00\xf2\x00\x11\x00\x00", "", "HelloHello"},
		{"empty", "\x00", "", ""},
	} {
		got, err := inflateAll(z, []byte(tt.in), []byte(tt.dict), 100)
		if err != nil || got != tt.want {
			t.Errorf("%s: %q, %v", tt.name, got, err)
		}
	}
}

func TestInflateRefuses(t *testing.T) {
	z := newCompression(t, CompressionOptions{})
	long := packed(t, strings.Repeat("hello world ", 5000))
	for name, in := range map[string]string{
		"reserved block type":                                    "\x06",
		"stored length does not match":                           "\x00\x05\x00\x00\x00Hello",
		"cut in a stored block":                                  "\x00\x05\x00\xfa\xffHel",
		"cut in a compressed block":                              string(long[:len(long)/2]),
		"reference before the start":                             "\xf2\x00\x11\x00\x00",
		"nothing at all, not even the block of an empty message": "",
		"too many streams":                                       strings.Repeat("\x03\x00", 100),
		"nothing but empty blocks":                               strings.Repeat("\x00\x00\x00\xff\xff", 40000),
		"text":                                                   "not compressed at all",
		"the tail is eaten by the data":                          "\x00\xff\x00\x00\xff",
	} {
		if got, err := inflateAll(z, []byte(in), nil, 1<<20); err == nil {
			t.Errorf("%s: %.100q", name, got)
		}
	}
}

// Inflating empty blocks stops after a bounded number of bytes.
func TestInflateReadsLittleForNothing(t *testing.T) {
	z := newCompression(t, CompressionOptions{})
	f := z.getInflater([]byte(strings.Repeat("\x00\x00\x00\xff\xff", 80000)), nil)
	done, err := f.step(1<<20, nil)
	if done || !errors.Is(err, errSparse) || f.in.at > inputPerRead {
		t.Errorf("done %v, %v, after %d bytes, limit %d", done, err, f.in.at, inputPerRead)
	}
	z.putInflater(f)
}

// Inflating a small message that never ends stops at the limit, with no more memory than that. A message of exactly the
// limit passes.
func TestInflateBomb(t *testing.T) {
	z := newCompression(t, CompressionOptions{})
	bomb := packed(t, strings.Repeat("\x00", 4<<20))
	if len(bomb) > 10<<10 {
		t.Fatalf("the bomb has %d bytes", len(bomb))
	}
	for _, limit := range []int{1, 1000, 1 << 20} {
		f := z.getInflater(bomb, nil)
		steps := 0
		for {
			done, err := f.step(limit, nil)
			if steps++; done || steps > limit/inflateStep+2 {
				t.Fatalf("limit %d: done %v after %d steps", limit, done, steps)
			}
			if errors.Is(err, errBomb) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if cap(f.out) > limit+64 { // the allocator rounds up
			t.Errorf("limit %d: %d bytes reserved", limit, cap(f.out))
		}
		if got, err := inflateAll(z, packed(t, strings.Repeat("x", limit)), nil, limit); err != nil || len(got) != limit {
			t.Errorf("limit %d: %d bytes, %v", limit, len(got), err)
		}
		if _, err := inflateAll(z, packed(t, strings.Repeat("x", limit+1)), nil, limit); !errors.Is(err, errBomb) {
			t.Errorf("limit %d, one more: %v", limit, err)
		}
		z.putInflater(f)
	}
}

// A step is bounded in what it produces and in what it reads.
func TestInflateSteps(t *testing.T) {
	z := newCompression(t, CompressionOptions{})
	rng := rand.New(rand.NewPCG(1, 2))
	noise := make([]byte, 1<<20)
	for i := range noise {
		noise[i] = byte(rng.Uint32())
	}
	for name, data := range map[string]string{"dense": strings.Repeat("abc", 300<<10), "noise": string(noise)} {
		f := z.getInflater(packed(t, data), nil)
		for done := false; !done; {
			was, at := len(f.out), f.in.at
			var err error
			if done, err = f.step(1<<30, nil); err != nil {
				t.Fatal(name, err)
			}
			if made, took := len(f.out)-was, f.in.at-at; made > inflateStep+32<<10 || took > inputPerStep+inputPerRead {
				t.Fatalf("%s: a step made %d bytes of %d", name, made, took)
			}
		}
		if string(f.out) != data {
			t.Errorf("%s: differs", name)
		}
		z.putInflater(f)
	}
}

// samples are messages of several kinds and sizes.
var samples = sync.OnceValue(func() []string {
	rng := rand.New(rand.NewPCG(7, 7))
	var words []string
	for range 400 {
		words = append(words, fmt.Sprintf(`{"id":%d,"name":"user%d","score":%d},`, rng.IntN(1e6), rng.IntN(50), rng.IntN(100)))
	}
	noise := make([]byte, 5000)
	for i := range noise {
		noise[i] = byte(rng.Uint32())
	}
	return []string{
		"", "a", "hello hello hello hello", strings.Join(words[:20], ""), strings.Join(words, ""),
		strings.Repeat("x", 300), strings.Repeat("0123456789abcdef", 3000), string(noise), strings.Join(words, "\n") + string(noise) + strings.Join(words, "\t"),
	}
})

// For every window and level, with and without context, compressed messages are shorter and refer no further back than
// the window. This package and the standard library inflate them to the original.
func TestCompressWithinWindow(t *testing.T) {
	for bits := minWindowBits; bits <= maxWindowBits; bits++ {
		for _, level := range []int{1, 6, 9} {
			z := newCompression(t, CompressionOptions{Level: level})
			sent := window{size: 1 << bits}
			shorter := 0
			for i, msg := range slices.Concat(samples(), samples()) {
				d := z.getDeflater(bits)
				frame, n := d.compress(Binary, []byte(msg), sent.b)
				if frame == nil {
					z.putDeflater(d, bits)
					continue
				}
				shorter++
				body := bytes.Clone(frame[len(frame)-n:])
				head := appendHeader(nil, 0xc2, n)
				if !bytes.Equal(frame[:len(frame)-n], head) || n >= len(msg) {
					t.Fatalf("bits %d, message %d: header %x, want %x; %d bytes of %d", bits, i, frame[:len(frame)-n], head, n, len(msg))
				}
				z.putDeflater(d, bits)
				if far := farthest(t, body); far > 1<<bits {
					t.Errorf("bits %d, message %d: a reference %d bytes back", bits, i, far)
				}
				if got, err := inflateAll(z, body, sent.b, len(msg)); err != nil || got != msg {
					t.Fatalf("bits %d, level %d, message %d: %d bytes, %v", bits, level, i, len(got), err)
				}
				std, err := io.ReadAll(flate.NewReaderDict(io.MultiReader(bytes.NewReader(body), strings.NewReader(inflateTail)), sent.b))
				if err != nil || string(std) != msg {
					t.Fatalf("bits %d, message %d: the standard library says %v", bits, i, err)
				}
				sent.slide([]byte(msg))
			}
			if shorter < 8 {
				t.Errorf("bits %d, level %d: only %d messages were compressed", bits, level, shorter)
			}
			if level != 1 && bits < maxWindowBits {
				break // levels do not apply
			}
		}
	}
}

func TestWindowSlides(t *testing.T) {
	for _, size := range []int{256, 512, 1 << 15} {
		w := window{size: size}
		var all []byte
		rng := rand.New(rand.NewPCG(3, uint64(size)))
		for range 300 {
			p := make([]byte, rng.IntN(size/2+rng.IntN(size)))
			for i := range p {
				p[i] = byte(rng.Uint32())
			}
			w.slide(p)
			all = append(all, p...)
			if want := all[max(0, len(all)-size):]; !bytes.Equal(w.b, want) {
				t.Fatalf("size %d: the window is not the last bytes", size)
			}
		}
	}
}

// Beyond Compressors a message is not compressed, and the kept memory is bounded.
func TestCompressorsAreBounded(t *testing.T) {
	z := newCompression(t, CompressionOptions{Compressors: 2})
	a, b := z.getDeflater(15), z.getDeflater(15)
	if a == nil || b == nil || z.getDeflater(15) != nil || z.getDeflater(9) != nil {
		t.Fatal("want two compressors and no more")
	}
	if n := z.Stats().Skipped; n != 2 {
		t.Errorf("%d skipped", n)
	}
	z.putDeflater(a, 15)
	if c := z.getDeflater(15); c != a {
		t.Error("a compressor was not reused")
	}
}

// farthest returns the longest distance that a deflate stream refers back to; it
// ends with the stream.
func farthest(t *testing.T, b []byte) int {
	t.Helper()
	s := &bitReader{b: append(bytes.Clone(b), inflateTail...)}
	far := 0
	for final := false; !final; {
		final = s.bits(1) == 1
		var lit, dist []int
		switch s.bits(2) {
		case 0:
			s.stored()
			continue
		case 1:
			lit, dist = fixedLengths()
		case 2:
			lit, dist = s.dynamic()
		default:
			t.Fatal("block type 3")
		}
		far = max(far, s.block(codes(lit), codes(dist)))
	}
	return far
}

type bitReader struct {
	b  []byte
	at int // bits
}

func (s *bitReader) bits(n int) (v int) {
	for i := range n {
		v |= int(s.b[s.at>>3]>>(s.at&7)&1) << i
		s.at++
	}
	return v
}

func (s *bitReader) stored() {
	s.at = (s.at + 7) &^ 7
	n := s.bits(16)
	s.at += 16 + 8*n
}

func fixedLengths() (lit, dist []int) {
	for i := range 288 {
		n := 8
		switch {
		case i >= 144 && i < 256:
			n = 9
		case i >= 256 && i < 280:
			n = 7
		}
		lit = append(lit, n)
	}
	for range 30 {
		dist = append(dist, 5)
	}
	return lit, dist
}

func (s *bitReader) dynamic() (lit, dist []int) {
	nlit, ndist, ncode := s.bits(5)+257, s.bits(5)+1, s.bits(4)+4
	order := []int{16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15}
	lengths := make([]int, 19)
	for _, i := range order[:ncode] {
		lengths[i] = s.bits(3)
	}
	table := codes(lengths)
	var all []int
	for len(all) < nlit+ndist {
		switch v := s.symbol(table); v {
		case 16:
			for range 3 + s.bits(2) {
				all = append(all, all[len(all)-1])
			}
		case 17:
			all = append(all, make([]int, 3+s.bits(3))...)
		case 18:
			all = append(all, make([]int, 11+s.bits(7))...)
		default:
			all = append(all, v)
		}
	}
	return all[:nlit], all[nlit:]
}

// huffman is a canonical code: how many symbols have each length, and the symbols in their order.
type huffman struct {
	count   [16]int
	symbols []int
}

// codes returns the code whose symbols have these lengths.
func codes(lengths []int) (h huffman) {
	for n := 1; n < len(h.count); n++ {
		for sym, l := range lengths {
			if l == n {
				h.count[n]++
				h.symbols = append(h.symbols, sym)
			}
		}
	}
	return h
}

func (s *bitReader) symbol(h huffman) int {
	code, first, index := 0, 0, 0
	for n := 1; ; n++ {
		code |= s.bits(1)
		count := h.count[n]
		if code < first+count {
			return h.symbols[index+code-first]
		}
		index, first, code = index+count, (first+count)<<1, code<<1
	}
}

// block reads a compressed block and returns the longest distance.
func (s *bitReader) block(lit, dist huffman) (far int) {
	for {
		v := s.symbol(lit)
		switch {
		case v < 256:
			continue
		case v == 256:
			return far
		case v >= 265 && v < 285:
			s.bits((v - 261) / 4)
		}
		d := s.symbol(dist)
		base, extra := d+1, 0
		if d >= 4 {
			extra = d/2 - 1
			base = (2+d&1)<<extra + 1
		}
		far = max(far, base+s.bits(extra))
	}
}

// With any input, inflating ends, holds no more than the limit, and agrees with the standard library about validity and
// content.
func FuzzInflate(f *testing.F) {
	for _, s := range samples() {
		if len(s) < 2000 {
			f.Add(packed(f, s), "")
		}
	}
	f.Add([]byte("\xf2\x00\x11\x00\x00"), "Hello")
	f.Add([]byte("\xf3\x48\xcd\xc9\xc9\x07\x00\x00"), "")
	z := newCompression(f, CompressionOptions{})
	f.Fuzz(func(t *testing.T, msg []byte, dict string) {
		const limit = 1 << 16
		got, err := inflateAll(z, msg, []byte(dict), limit)
		r := flate.NewReaderDict(io.MultiReader(bytes.NewReader(msg), strings.NewReader(inflateTail)), []byte(dict))
		std, stdErr := io.ReadAll(io.LimitReader(r, limit+1))
		if err != nil {
			// The standard library stops at the end of the first stream.
			if stdErr == nil && len(std) <= limit && !bytes.Contains(msg, []byte("\x03")) && errors.Is(err, errBomb) {
				t.Fatalf("refused with %v what inflates to %d bytes", err, len(std))
			}
			return
		}
		if len(got) > limit {
			t.Fatalf("%d bytes, limit %d", len(got), limit)
		}
		if stdErr == nil && !strings.HasPrefix(got, string(std)) {
			t.Fatalf("%q differs from the standard library's %q", got, std)
		}
	})
}

// A message is the same after compression and inflation, with the window of earlier messages.
func FuzzDeflate(f *testing.F) {
	f.Add([]byte("hello hello hello"), []byte("hello"), uint8(3))
	f.Add([]byte(strings.Repeat("abcdefgh", 200)), []byte(strings.Repeat("bcd", 500)), uint8(0))
	z := newCompression(f, CompressionOptions{})
	f.Fuzz(func(t *testing.T, msg, before []byte, b uint8) {
		bits := minWindowBits + int(b)%(maxWindowBits-minWindowBits+1)
		w := window{size: 1 << bits}
		w.slide(before)
		d := z.getDeflater(bits)
		defer z.putDeflater(d, bits)
		frame, n := d.compress(Binary, msg, w.b)
		if frame == nil {
			return
		}
		if got, err := inflateAll(z, frame[len(frame)-n:], w.b, len(msg)); err != nil || got != string(msg) {
			t.Fatalf("%q becomes %q, %v", msg, got, err)
		}
	})
}

func BenchmarkCompress(b *testing.B) {
	msg := []byte(samples()[3])
	for _, c := range []struct {
		name string
		bits int
		dict int
	}{{"alone", 15, 0}, {"window 4 KiB", 12, 1 << 12}, {"window 32 KiB", 15, 1 << 15}} {
		b.Run(c.name, func(b *testing.B) {
			z := newCompression(b, CompressionOptions{})
			dict := bytes.Repeat(msg, 1+c.dict/len(msg))[:c.dict]
			b.SetBytes(int64(len(msg)))
			b.ReportAllocs()
			for b.Loop() {
				d := z.getDeflater(c.bits)
				if _, n := d.compress(Text, msg, dict); n == 0 {
					b.Fatal("not compressed")
				}
				z.putDeflater(d, c.bits)
			}
		})
	}
}

func BenchmarkInflate(b *testing.B) {
	msg := samples()[3]
	in := packed(b, msg)
	z := newCompression(b, CompressionOptions{})
	b.SetBytes(int64(len(msg)))
	b.ReportAllocs()
	for b.Loop() {
		f := z.getInflater(in, nil)
		if done, err := f.step(1<<20, nil); !done || err != nil {
			b.Fatal(done, err)
		}
		z.putInflater(f)
	}
}
