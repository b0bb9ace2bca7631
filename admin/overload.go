package admin

import (
	"errors"
	"slices"

	"github.com/go-eddy/eddy/overload"
)

// Overload is the argument of WatchOverload. *overload.Manager implements it.
type Overload interface {
	// Stats returns the numbers of the last look. Any goroutine may call Stats, which must not block.
	Stats() overload.Stats
}

// watchedOverload is a manager added with WatchOverload.
type watchedOverload struct {
	name    string
	manager Overload
}

// WatchOverload adds an overload manager under a name of its own. An overload does not make the program not ready: its server does
// what it can. WatchOverload returns an error if the name or the manager is missing, if the name is taken, or if 64 are watched
// already.
func (s *Server) WatchOverload(name string, m Overload) error {
	if name == "" || m == nil {
		return errors.New("admin: WatchOverload needs a name and a manager")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := admits(s.overloads, "overload manager", name, func(w watchedOverload) string { return w.name }); err != nil {
		return err
	}
	s.overloads = append(s.overloads, watchedOverload{name, m})
	return nil
}

// OverloadStats are the numbers of one overload manager; see overload.Stats.
type OverloadStats struct {
	Name    string           `json:"name"`
	Grade   string           `json:"grade"`  // the strongest action in force, or none
	Source  string           `json:"source"` // the one that is nearest to its limit; "" without pressure
	Sources []OverloadSource `json:"sources"`
	Actions []OverloadAction `json:"actions"`
}

// OverloadSource is how near a source is to its limit, which is 1.
type OverloadSource struct {
	Name     string  `json:"name"`
	Pressure float64 `json:"pressure"`
	Errors   uint64  `json:"errors"`
	Err      string  `json:"error,omitempty"` // why it cannot be read now
}

// OverloadAction is what was done about it.
type OverloadAction struct {
	Name   string `json:"name"`
	Active bool   `json:"active"`
	Began  uint64 `json:"began"`
	Ended  uint64 `json:"ended"`
}

// overloadStats returns the numbers of all overload managers.
func (s *Server) overloadStats() []OverloadStats {
	s.mu.Lock()
	managers := slices.Clone(s.overloads)
	s.mu.Unlock()
	all := []OverloadStats{} // an empty list in JSON, not null
	for _, w := range managers {
		st := w.manager.Stats()
		o := OverloadStats{Name: w.name, Grade: st.Grade.String(), Source: st.Source, Sources: []OverloadSource{}, Actions: []OverloadAction{}}
		for _, n := range st.Sources {
			from := OverloadSource{Name: n.Name, Pressure: n.Pressure, Errors: n.Errors}
			if n.Err != nil {
				from.Err = n.Err.Error()
			}
			o.Sources = append(o.Sources, from)
		}
		for _, a := range st.Actions {
			o.Actions = append(o.Actions, OverloadAction{a.Action.String(), a.Active, a.Began, a.Ended})
		}
		all = append(all, o)
	}
	return all
}
