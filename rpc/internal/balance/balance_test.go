package balance

import (
	"slices"
	"testing"
)

type conn int32

func (c conn) Load() int32 { return int32(c) }

// TestInTurn: addresses get the same number of calls, and so do the connections of each, however many they are.
func TestInTurn(t *testing.T) {
	for _, x := range []struct {
		groups [][]conn
		want   []int // of 60 calls
	}{
		{[][]conn{{1, 2}, {3, 4}}, []int{15, 15, 15, 15}},
		{[][]conn{{1}, nil, {2, 3, 4}}, []int{30, 10, 10, 10}},
		{[][]conn{nil, {1}}, []int{60}},
	} {
		r := New(x.groups...)
		used := make([]int, len(r.All))
		for turn := range uint32(60) {
			used[r.InTurn(turn)]++
		}
		if !slices.Equal(used, x.want) {
			t.Errorf("%v: %v, want %v", x.groups, used, x.want)
		}
	}
}

// TestLeast: the connection with the fewest calls is chosen, and equals take turns.
func TestLeast(t *testing.T) {
	r := New([]conn{5, 1}, []conn{3, 1})
	used := make([]int, 4)
	for turn := range uint32(40) {
		used[r.Least(turn)]++
	}
	if used[0] != 0 || used[2] != 0 || used[1] == 0 || used[3] == 0 {
		t.Errorf("%v", used)
	}
	if i := New([]conn{9}).Least(7); i != 0 {
		t.Errorf("%d of one", i)
	}
}
