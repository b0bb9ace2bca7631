package list

import (
	"math/rand/v2"
	"slices"
	"testing"
)

type guest struct {
	name  int
	place Place[guest]
}

// TestListAgainstModel compares a list with a slice under random joining and leaving, strangers and leavers included, and
// ends everybody while going through.
func TestListAgainstModel(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 1))
	var l List[guest]
	var model []*guest
	guests := make([]*guest, 20)
	for i := range guests {
		guests[i] = &guest{name: i}
	}
	for range 5000 {
		g := guests[rnd.IntN(len(guests))]
		at := slices.Index(model, g)
		if rnd.IntN(2) == 0 {
			if g.place.Taken() != (at >= 0) || l.Remove(&g.place) != (at >= 0) {
				t.Fatalf("guest %d was in the list: %v", g.name, at < 0)
			}
			if at >= 0 {
				model = slices.Delete(model, at, at+1)
			}
		} else if l.Push(&g.place, g); at < 0 {
			model = append(model, g)
		}
		if got := slices.Collect(l.All()); !slices.Equal(got, model) || l.Len() != len(model) {
			t.Fatalf("the list holds %v, want %v", got, model)
		}
		var got []*guest
		for g := l.First(); g != nil; g = g.place.Next() {
			got = append(got, g)
		}
		if !slices.Equal(got, model) {
			t.Fatalf("one by one the list holds %v, want %v", got, model)
		}
	}
	for g := range l.All() {
		if g != l.First() {
			t.Errorf("guest %d is not the first", g.name)
		}
		l.Remove(&g.place)
	}
	if l != (List[guest]{}) {
		t.Errorf("an emptied list is %v", l)
	}
	l.Push(&guests[0].place, guests[0])
	l.Push(&guests[1].place, guests[1])
	for range l.All() {
		break
	}
}
