package transport

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/go-eddy/eddy/buf"
)

// TestCutAgainstModel: what is cut out of a queue of own and adopted segments and files is gone, and nothing else; segments
// that nothing is left of are handed back.
func TestCutAgainstModel(t *testing.T) {
	const file = '#' // in the model, the place of a file
	pool := buf.NewPool(0)
	for seed := range uint64(500) {
		rnd := rand.New(rand.NewPCG(seed, 4))
		var q Queue
		var model []byte
		whole := map[int]bool{0: true} // offsets at which a cut may begin and end
		for range rnd.IntN(8) {
			text := []byte(strings.Repeat(string(rune('a'+rnd.IntN(26))), 1+rnd.IntN(5)))
			switch rnd.IntN(3) {
			case 0:
				q.Push(pool.Adopt(nil))
				text = []byte{file}
			case 1:
				q.Push(pool.Adopt(slices.Clone(text)))
			default:
				s := pool.Get(len(text))
				s.Append(text)
				q.Push(s)
				for i := range text {
					whole[len(model)+i] = true
				}
			}
			model = append(model, text...)
			whole[len(model)] = true
		}
		if n := q.extent(); n != int64(len(model)) {
			t.Fatalf("seed %d: %q has the length %d", seed, model, n)
		}
		places := slices.Sorted(func(yield func(int) bool) {
			for at := range whole {
				if !yield(at) {
					return
				}
			}
		})
		i := rnd.IntN(len(places))
		from := places[i]
		to := places[i+rnd.IntN(len(places)-i)]
		bytes, out := q.cut(int64(from), int64(to-from))
		if want := to - from - strings.Count(string(model[from:to]), string(file)); bytes != want {
			t.Fatalf("seed %d: %d bytes cut out of %q[%d:%d], want %d", seed, bytes, model, from, to, want)
		}
		var got []byte
		last := q.Head
		for s := q.Head; s != nil; s = s.Next {
			if got = append(got, s.Bytes()...); s.Len() == 0 {
				got = append(got, file)
			}
			last = s
		}
		if want := slices.Delete(slices.Clone(model), from, to); !slices.Equal(got, want) || last != q.Tail {
			t.Fatalf("seed %d: %q[%d:%d] is cut and leaves %q", seed, model, from, to, got)
		}
		for out.Head != nil {
			pool.Put(out.Pop())
		}
		if out.Tail != nil {
			t.Fatalf("seed %d: the list of what is left over has no head and a tail", seed)
		}
	}
}

// TestMovedOffsets: what was before a stretch that has left moves up to its end, and what is behind it stays.
func TestMovedOffsets(t *testing.T) {
	out := Span{10, 14}
	for at, want := range map[int64]int64{3: 7, 10: 14, 11: 14, 14: 14, 15: 15, 40: 40} {
		if got := out.moved(at); got != want {
			t.Errorf("the offset %d becomes %d, want %d", at, got, want)
		}
	}
}

// TestReach: a call takes one file, or bytes up to a file, of as many segments as one call gathers.
func TestReach(t *testing.T) {
	pool := buf.NewPool(0)
	var q Queue
	expect := func(what string, want int64) {
		t.Helper()
		if n := q.reach(); n != want {
			t.Errorf("%s: a call takes %d, want %d", what, n, want)
		}
	}
	expect("empty", 0)
	for range MaxGather + 1 {
		q.Push(pool.Adopt([]byte("ab")))
	}
	expect("many segments", 2*MaxGather)
	for range MaxGather - 3 {
		pool.Put(q.Pop())
	}
	q.Push(pool.Adopt(nil))
	q.Push(pool.Adopt([]byte("behind")))
	expect("before a file", 8)
	for range 4 {
		pool.Put(q.Pop())
	}
	expect("a file", 1)
}
