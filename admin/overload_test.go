package admin

import (
	"errors"
	"strings"
	"testing"

	"github.com/go-eddy/eddy/overload"
)

// fixedOverload is a manager whose numbers a test knows.
type fixedOverload overload.Stats

func (f *fixedOverload) Stats() overload.Stats { return overload.Stats(*f) }

// TestOverloadManagers: the numbers of each manager are told under its own name; without one the list is empty, not null; and an overload does not
// make the program unready.
func TestOverloadManagers(t *testing.T) {
	s := newAdmin(t, nil)
	s.health.look(t.Context())
	stats := func(want string) {
		t.Helper()
		if w := ask(s, "GET", "/stats.json", ""); w.Code != 200 || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%d %s, want %s", w.Code, w.Body, want)
		}
	}
	stats(`"overload":[],`)
	m := &fixedOverload{
		Grade:   overload.StopAccepting,
		Source:  "memory",
		Sources: []overload.SourceStats{{Name: "memory", Pressure: 0.99}, {Name: "cpu", Errors: 3, Err: errors.New("not told")}},
		Actions: []overload.ActionStats{{Action: overload.StopAccepting, Active: true, Began: 2, Ended: 1}},
	}
	if err := s.WatchOverload("main", m); err != nil {
		t.Fatal(err)
	}
	stats(`"overload":[{"name":"main","grade":"stop_accepting","source":"memory","sources":[{"name":"memory","pressure":0.99,"errors":0},` +
		`{"name":"cpu","pressure":0,"errors":3,"error":"not told"}],"actions":[{"name":"stop_accepting","active":true,"began":2,"ended":1}]}],`)
	if got := s.Snapshot(-1); !got.Ready {
		t.Errorf("%+v", got.Reasons)
	}
	for _, err := range []error{s.WatchOverload("", m), s.WatchOverload("x", nil), s.WatchOverload("main", m)} {
		if err == nil {
			t.Error("no error")
		}
	}
}
