// Package balance chooses the connection that a call is offered to first.
package balance

// Loaded is a connection that says how many calls wait on it.
type Loaded interface{ Load() int32 }

// Routes are the connections that take calls. Immutable.
type Routes[C Loaded] struct {
	All    []C   // in the order of their groups
	groups [][]C // by address, none empty
}

// New returns the routes of these groups of connections, one group for each address. Empty groups are left out.
func New[C Loaded](groups ...[]C) *Routes[C] {
	r := new(Routes[C])
	for _, g := range groups {
		if len(g) > 0 {
			r.groups, r.All = append(r.groups, g), append(r.All, g...)
		}
	}
	return r
}

// InTurn returns the index in All of the connection whose turn it is: groups take turns, and so do the connections of
// each. All must not be empty.
func (r *Routes[C]) InTurn(turn uint32) int {
	if len(r.All) == 1 {
		return 0
	}
	g := int(turn % uint32(len(r.groups)))
	i := int(turn / uint32(len(r.groups)) % uint32(len(r.groups[g])))
	for _, before := range r.groups[:g] {
		i += len(before)
	}
	return i
}

// Least returns the index in All of the connection with the fewest calls, among equals the next from turn on. All must
// not be empty.
func (r *Routes[C]) Least(turn uint32) int {
	n := len(r.All)
	from := int(turn % uint32(n))
	best := from
	for i := from + 1; i < from+n; i++ {
		if r.All[i%n].Load() < r.All[best].Load() {
			best = i % n
		}
	}
	return best
}
