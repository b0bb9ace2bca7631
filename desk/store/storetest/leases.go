package storetest

import (
	"errors"
	"testing"
	"time"

	"github.com/go-eddy/eddy/desk/store"
)

// beside opens another store on the same database with the same clock, as another server would.
func (r *rig) beside() store.Store {
	r.t.Helper()
	s, err := r.b.Open(r.t.Context(), r.place, r.now)
	r.must(err)
	r.shared = true
	r.t.Cleanup(func() {
		if err := s.Close(); err != nil {
			r.t.Error(err)
		}
	})
	return s
}

const leaseLife = 10 * time.Second

// testLeases: of two servers one holds a name, as long as it says so in time. The work of a server that has lost it changes
// nothing.
func testLeases(t *testing.T, r *rig) {
	ctx, other := t.Context(), r.beside()
	r.still.Store(time.Now().UnixMilli())
	conv := r.open(r.visitor(), true)
	claim := func(by store.Store) store.Lease {
		t.Helper()
		l, err := by.Claim(ctx, "work", leaseLife)
		r.must(err)
		return l
	}
	refused := func(by store.Store) {
		t.Helper()
		if l, err := by.Claim(ctx, "work", leaseLife); !errors.Is(err, store.ErrLeased) || l != (store.Lease{}) {
			t.Errorf("%+v, %v", l, err)
		}
	}
	note := func(l store.Lease) store.Command {
		c := text(conv.ID, r.lin.Actor(), "the work of a lease")
		c.Note = true
		return l.Command(c)
	}
	works := func(by store.Store, l store.Lease, want error) {
		t.Helper()
		ticket, expires := newToken(), r.now().Add(time.Hour)
		if err := by.SpendTicket(l.Bind(ctx), ticket, expires); !errors.Is(err, want) {
			t.Errorf("a write: %v, want %v", err, want)
		}
		if err := by.SpendTicket(ctx, ticket, expires); errors.Is(err, store.ErrExists) != (want == nil) {
			t.Errorf("what the write has changed: %v", err)
		}
	}
	first := claim(r.Store)
	if again := claim(r.Store); first.Token == 0 || again != first {
		t.Errorf("%+v, then %+v", first, again)
	}
	refused(other)
	if l, err := other.Claim(ctx, "other work", leaseLife); err != nil || l.Token == 0 {
		t.Errorf("another name: %+v, %v", l, err)
	}
	works(r.Store, first, nil)
	works(other, first, store.ErrLeased)
	r.do(note(first))

	r.still.Add(leaseLife.Milliseconds() / 2)
	claim(r.Store)
	r.still.Add(leaseLife.Milliseconds() - 1)
	refused(other)
	r.still.Add(1)
	works(r.Store, first, nil) // nobody has taken it
	second := claim(other)
	if second.Token <= first.Token {
		t.Errorf("token %d after %d", second.Token, first.Token)
	}
	refused(r.Store)
	works(r.Store, first, store.ErrLeased)
	works(other, second, nil)
	r.refused(note(first), store.ErrLeased)
	if all := r.events(conv.ID, store.StaffSide); len(all) != 2 {
		t.Errorf("%d entries", len(all))
	}

	r.must(r.Release(ctx, first))
	refused(r.Store)
	r.must(other.Release(ctx, second))
	r.must(other.Release(ctx, second))
	works(other, second, store.ErrLeased)
	if l := claim(other); l.Token <= second.Token { // work of before must not go on
		t.Errorf("token %d after %d was given back", l.Token, second.Token)
	}
}

// testLeaseRace: of servers that claim a name at the same time, one gets it.
func testLeaseRace(t *testing.T, r *rig) {
	stores := []store.Store{r.Store, r.beside(), r.beside()}
	for range 20 {
		tokens := make(chan store.Lease, len(stores))
		for _, s := range stores {
			go func() {
				l, err := s.Claim(t.Context(), "race", leaseLife)
				if err != nil && !errors.Is(err, store.ErrLeased) {
					t.Error(err)
				}
				tokens <- l
			}()
		}
		var holders int
		for range stores {
			if l := <-tokens; l.Token != 0 {
				holders++
			}
		}
		if holders != 1 {
			t.Fatalf("%d servers hold the lease", holders)
		}
		r.shift.Add(int64(leaseLife))
	}
}
