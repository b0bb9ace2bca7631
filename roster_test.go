package eddy

import (
	"math/rand/v2"
	"testing"
)

type guest struct{ name, place int }

func (g *guest) seat() *int { return &g.place }

// TestRoster compares a roster with a map under random joining and leaving, strangers and leavers included, and ends
// everybody while going through.
func TestRoster(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	var all roster[*guest]
	in := map[*guest]bool{}
	guests := make([]*guest, 20)
	for i := range guests {
		guests[i] = &guest{name: i}
	}
	for range 2000 {
		g := guests[r.IntN(len(guests))]
		if in[g] || r.IntN(4) == 0 {
			all.leave(g)
			delete(in, g)
		} else {
			all.join(g)
			in[g] = true
		}
		seen := map[*guest]bool{}
		all.each(func(g *guest) { seen[g] = true })
		if len(all) != len(in) || len(seen) != len(in) {
			t.Fatalf("%d members, %d seen, want %d", len(all), len(seen), len(in))
		}
		for g := range in {
			if !seen[g] {
				t.Fatalf("guest %d is missing", g.name)
			}
		}
	}
	all.each(func(g *guest) { all.leave(g) })
	if len(all) != 0 {
		t.Errorf("%d are left", len(all))
	}
}
