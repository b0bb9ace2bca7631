package overload

import (
	"fmt"
	"time"
)

// Action is what a Manager does about pressure. The actions are in the order of how much they cost; the strongest one in force is the
// grade of the overload.
type Action uint8

// The actions.
const (
	None                Action = iota // there is room
	RefuseSheddable                   // adaptive pools refuse requests of class sheddable
	RefuseSheddablePlus               // and those of class sheddable_plus
	EndIdle                           // idle connections end, see eddy.Server.EndIdle
	EndKeepAlive                      // connections that work end after what is in flight, see eddy.Server.EndKeepAlive
	StopAccepting                     // new connections meet Admission.OnLimit, see eddy.Server.RefuseConns
	actions
)

var actionNames = [actions]string{"none", "refuse_sheddable", "refuse_sheddable_plus", "end_idle", "end_keep_alive", "stop_accepting"}

// String returns the action's snake_case name, the one metrics use.
func (a Action) String() string {
	if a >= actions {
		return fmt.Sprintf("action %d", uint8(a))
	}
	return actionNames[a]
}

// Actions lists every action but None, in order.
func Actions() []Action {
	return []Action{RefuseSheddable, RefuseSheddablePlus, EndIdle, EndKeepAlive, StopAccepting}
}

// Thresholds are the pressures from which on the actions are in force: 1 is a source's limit. 0 = the default, negative = never.
type Thresholds struct {
	RefuseSheddable     float64 // 0 = 0.80
	RefuseSheddablePlus float64 // 0 = 0.85
	EndIdle             float64 // 0 = 0.90
	EndKeepAlive        float64 // 0 = 0.95
	StopAccepting       float64 // 0 = 0.98
}

var defaultThresholds = [actions]float64{0, 0.80, 0.85, 0.90, 0.95, 0.98}

// list returns the thresholds by action, defaults filled in; negative ones stay.
func (t *Thresholds) list() (all [actions]float64) {
	for i, v := range []float64{0, t.RefuseSheddable, t.RefuseSheddablePlus, t.EndIdle, t.EndKeepAlive, t.StopAccepting} {
		if v == 0 {
			v = defaultThresholds[i]
		}
		all[i] = v
	}
	return all
}

const (
	// slack is how far the pressure must fall below a threshold before the action ends.
	slack = 0.05
	// hold is for how long.
	hold = 2 * time.Second
)

// latch is one action: it begins at once, and ends when the pressure has stayed below the threshold.
type latch struct {
	at           float64 // negative = never
	on           bool
	above        time.Time // when the pressure was last not well below the threshold
	began, ended uint64
}

// look updates the latch and reports whether that changed it.
func (l *latch) look(pressure float64, now time.Time) (changed bool) {
	if l.at < 0 {
		return false
	}
	if pressure >= l.at-slack && (l.on || pressure >= l.at) {
		l.above = now
	}
	switch {
	case !l.on && pressure >= l.at:
		l.on = true
		l.began++
	case l.on && now.Sub(l.above) >= hold:
		l.end()
	default:
		return false
	}
	return true
}

// end ends the action, if it is in force.
func (l *latch) end() {
	if l.on {
		l.on = false
		l.ended++
	}
}
