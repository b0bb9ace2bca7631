package admin

import (
	"errors"
	"strings"
	"testing"

	"github.com/go-eddy/eddy/executor"
)

// fixedLanes are lanes whose numbers a test knows.
type fixedLanes []executor.LaneStats

func (f fixedLanes) Stats() []executor.LaneStats { return f }

// TestLanes: the numbers of all lanes of all sets, each under its own name; without lanes the list is empty, not null; and
// full lanes do not make the program unready.
func TestLanes(t *testing.T) {
	s := newAdmin(t, nil)
	s.health.look(t.Context())
	stats := func(want string) {
		t.Helper()
		if w := ask(s, "GET", "/stats.json", ""); w.Code != 200 || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%d %s, want %s", w.Code, w.Body, want)
		}
	}
	stats(`"pools":[],"lanes":[],`)
	one := fixedLanes{
		{Name: "light", Workers: 1},
		{Name: "heavy", Workers: 2, Queued: 3, Capacity: 11, Spilled: 4, Accepted: 5, Rejected: 6, Done: 7, Panics: 8, Waited: 9, Lost: 10, Fault: errors.New("the disk is full")},
	}
	if err := errors.Join(s.WatchLanes("one", one), s.WatchLanes("two", fixedLanes{{Name: "light"}})); err != nil {
		t.Fatal(err)
	}
	stats(`"lanes":[{"set":"one","name":"light","workers":1,"queued":0,"capacity":0,"spilled":0,"accepted":0,"rejected":0,"done":0,"panics":0,"waited":0,"lost":0},` +
		`{"set":"one","name":"heavy","workers":2,"queued":3,"capacity":11,"spilled":4,"accepted":5,"rejected":6,"done":7,"panics":8,"waited":9,"lost":10,"fault":"the disk is full"},` +
		`{"set":"two","name":"light","workers":0,`)
	if got := s.Snapshot(-1); !got.Ready || len(got.Lanes) != 3 {
		t.Errorf("%+v", got)
	}
}
