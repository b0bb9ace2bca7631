package limit

const (
	vain       = 0.9 // share of a window for nothing that begins a descent
	evidence   = 20  // work in that window, at least: a few late requests say nothing
	descend    = 4   // times less is tried next
	restUseful = 32  // windows until the next descent, if less at once did harm
	restDead   = 4   // and if nothing was of use at any limit
)

// descent looks for a limit at which work is of use, while hardly any is. Where there is none, what the work waits for is gone, or many clients ask for what cannot be done in
// their time. Then the limit goes back to where it was, because a low one would only keep the others from their work.
type descent struct {
	on   bool
	from float64 // the middle before
	rate float64 // useful work per second then
	rest int     // windows until the next one
}

// goesOn chooses the middle after a window in which a share of count pieces of work was lost, and rate of them per second useful. False means that there is no descent.
func (d *descent) goesOn(c *Concurrency, count int, lost, work, rate float64) bool {
	switch {
	case d.on:
	case lost <= vain:
		d.rest = 0
		return false
	case d.rest > 0:
		d.rest--
		return false
	case count < evidence:
		return false
	default:
		d.on, d.from, d.rate = true, c.middle, rate
		c.middle = min(c.middle, work)
	}
	least := float64(c.o.Min)
	switch {
	case rate < d.rate/2:
		d.on, d.rest, c.middle = false, restUseful, d.from
	case lost <= vain:
		d.on = false
	case c.middle <= least:
		d.on, d.rest, c.middle = false, restDead, d.from
	default:
		c.middle = max(c.middle/descend, least)
	}
	return true
}
