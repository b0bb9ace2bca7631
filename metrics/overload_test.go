package metrics

import (
	"reflect"
	"strings"
	"testing"

	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/overload"
)

// TestOverloadNumbers: the grade, each source's pressure and each action are exposed under their own names.
func TestOverloadNumbers(t *testing.T) {
	st := overload.Stats{
		Grade:    overload.EndIdle,
		Sources:  []overload.SourceStats{{Name: "memory", Pressure: 0.5, Errors: 1}, {Name: "cpu", Pressure: 0.25, Errors: 2}},
		Actions:  []overload.ActionStats{{Action: overload.EndIdle, Active: true, Began: 4, Ended: 3}, {Action: overload.StopAccepting, Began: 6, Ended: 6}},
		Pressure: 9, Source: "memory",
	}
	tells(t, "overload", Overload("x", &told[overload.Stats]{st}), samples{
		"eddy_overload_grade":                                3,
		`eddy_overload_pressure{source="memory"}`:            0.5,
		`eddy_overload_pressure{source="cpu"}`:               0.25,
		`eddy_overload_source_errors_total{source="memory"}`: 1,
		`eddy_overload_source_errors_total{source="cpu"}`:    2,
		`eddy_overload_active{action="end_idle"}`:            1,
		`eddy_overload_active{action="stop_accepting"}`:      0,
		`eddy_overload_began_total{action="end_idle"}`:       4,
		`eddy_overload_began_total{action="stop_accepting"}`: 6,
		`eddy_overload_ended_total{action="end_idle"}`:       3,
		`eddy_overload_ended_total{action="stop_accepting"}`: 6,
	})
}

// TestOverloadAlerts: a manager and a pool in trouble set off the rules about them, and only the parts that are.
func TestOverloadAlerts(t *testing.T) {
	near := &told[overload.Stats]{overload.Stats{Grade: overload.RefuseSheddablePlus, Sources: []overload.SourceStats{{Name: "memory", Pressure: 0.9}, {Name: "cpu", Pressure: 0.91}}}}
	beyond := &told[overload.Stats]{overload.Stats{Grade: overload.EndIdle, Sources: []overload.SourceStats{{Name: "memory", Pressure: 0.5, Errors: 1}, {Name: "cpu", Errors: 1}}}}
	busy, idle, fine := &told[executor.Stats]{}, &told[executor.Stats]{}, &told[executor.Stats]{}
	c := collecting(t, Overload("near", near), Overload("beyond", beyond), Pool("busy", busy), Pool("idle", idle), Pool("fine", fine))
	h := history{scrape(t, c)}
	beyond.st.Sources = []overload.SourceStats{{Name: "memory", Pressure: 0.5, Errors: 1}, {Name: "cpu", Errors: 2}}
	busy.st = executor.Stats{Completed: 200, Wasted: 50}
	idle.st = executor.Stats{Completed: 100, Wasted: 100}
	fine.st = executor.Stats{Completed: 200, Wasted: 20}
	h = append(h, scrape(t, c))
	want := map[string]series{
		"EddyOverload":                {`{overload="near",source="cpu"}`: 0.91},
		"EddyOverloadEndsConnections": {`{overload="beyond"}`: 3},
		"EddyOverloadBlind":           {`{overload="beyond",source="cpu"}`: 1},
		"EddyPoolWasted":              {`{instance="",job="",pool="busy"}`: 0.25},
	}
	got := map[string]series{}
	for _, g := range alerts(t).Groups {
		for _, r := range g.Rules {
			if strings.HasPrefix(r.Alert, "EddyOverload") || r.Alert == "EddyPoolWasted" {
				got[r.Alert] = h.eval(t, r.Expr)
			}
		}
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
