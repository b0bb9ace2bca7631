package metrics

import (
	"testing"

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
