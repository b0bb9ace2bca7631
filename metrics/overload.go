package metrics

import (
	"github.com/go-eddy/eddy/metrics/internal/expo"
	"github.com/go-eddy/eddy/overload"
)

type overloadStats = overload.Stats

//nolint:gochecknoglobals // tables, never written
var (
	overloadTable = expo.Table[overloadStats]{
		expo.Level("eddy_overload_grade", "The strongest action in force: 0 none, 1 refuse_sheddable, 2 refuse_sheddable_plus, 3 end_idle, 4 end_keep_alive, 5 stop_accepting.", func(s *overloadStats) int { return int(s.Grade) }),
	}.With("overload")
	overloadPressure = expo.Gauge("eddy_overload_pressure", "How near a source is to its limit, which is 1.", "overload", "source")
	overloadErrors   = expo.Counter("eddy_overload_source_errors_total", "Times that a source could not be read.", "overload", "source")
	overloadActive   = expo.Gauge("eddy_overload_active", "1 while an action is in force.", "overload", "action")
	overloadBegan    = expo.Counter("eddy_overload_began_total", "Times that an action began.", "overload", "action")
	overloadEnded    = expo.Counter("eddy_overload_ended_total", "Times that an action was undone.", "overload", "action")
)

func overloadFamilies() []*expo.Family {
	return append(overloadTable.Families(), overloadPressure, overloadErrors, overloadActive, overloadBegan, overloadEnded)
}

// Overload returns a Source of the numbers of an overload.Manager. What the actions cost is told by its servers and pools.
func Overload[W interface {
	comparable
	Stats() overload.Stats
}](name string, m W) Source {
	return source("overload manager", name, m, func(_ *memory, scrape *expo.Scrape, st *overloadStats) { putOverload(scrape, name, st) })
}

func putOverload(scrape *expo.Scrape, name string, st *overloadStats) {
	overloadTable.Put(scrape, st, name)
	for _, s := range st.Sources {
		scrape.Put(overloadPressure, s.Pressure, name, s.Name)
		scrape.Put(overloadErrors, float64(s.Errors), name, s.Name)
	}
	for _, a := range st.Actions {
		scrape.Put(overloadActive, expo.One(a.Active), name, a.Action.String())
		scrape.Put(overloadBegan, float64(a.Began), name, a.Action.String())
		scrape.Put(overloadEnded, float64(a.Ended), name, a.Action.String())
	}
}
