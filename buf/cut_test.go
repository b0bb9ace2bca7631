package buf

import (
	"slices"
	"testing"
)

// TestCut: taking bytes out leaves the others in order; what is not readable, or lies inside an
// adopted slice, cannot be taken out.
func TestCut(t *testing.T) {
	const text = "0123456789"
	for _, adopted := range []bool{false, true} {
		for from := 0; from <= len(text); from++ {
			for to := from; to <= len(text); to++ {
				p := NewPool(0)
				var s *Segment
				if adopted {
					s = p.Adopt([]byte(text))
				} else {
					s = p.Get(len(text))
					s.Append([]byte(text))
				}
				s.Consume(2)
				valid := from >= 2 && (!adopted || from == 2 || to == len(text))
				if panicked := panics(func() { s.Cut(from-2, to-2) }); panicked == valid {
					t.Fatalf("adopted %v: Cut(%d, %d) panicked: %v", adopted, from-2, to-2, panicked)
				} else if panicked {
					continue
				}
				want := text[2:from] + text[to:]
				if got := string(s.Bytes()); got != want || s.Len() != len(want) {
					t.Fatalf("adopted %v: Cut(%d, %d) leaves %q, want %q", adopted, from-2, to-2, got, want)
				}
				if !adopted && s.Append([]byte("xyz")) != 3 || adopted && slices.Equal(s.Bytes(), []byte(text)) && from != to {
					t.Fatalf("adopted %v: after Cut(%d, %d) it reads %q", adopted, from-2, to-2, s.Bytes())
				}
				p.Put(s)
			}
		}
	}
	s := NewPool(0).Adopt([]byte(text))
	if !panics(func() { s.Cut(3, 2) }) || !panics(func() { s.Cut(0, 11) }) {
		t.Error("a cut of bytes that are not there was made")
	}
}

func panics(f func()) (did bool) {
	defer func() { did = recover() != nil }()
	f()
	return false
}
