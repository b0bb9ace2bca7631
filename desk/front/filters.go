package front

import (
	"errors"
	"net/http"

	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/store"
)

// filters answers with the filters that an agent has kept.
func (f *Front) filters(w http.ResponseWriter, r *http.Request, s store.AgentSession) {
	all, err := f.store.Cold().SavedFilters(r.Context(), s.Agent.ID)
	if err != nil {
		f.storeProblem(w, err)
		return
	}
	answer(w, struct {
		Filters []store.SavedFilter `json:"filters"`
	}{append([]store.SavedFilter{}, all...)})
}

// saveFilter keeps a filter under its name, in place of an earlier one.
func (f *Front) saveFilter(w http.ResponseWriter, r *http.Request, s store.AgentSession) {
	var in store.SavedFilter
	if !decode(w, r, &in) {
		return
	}
	err := f.store.SaveFilter(r.Context(), s.Agent.ID, in)
	if invalid, ok := errors.AsType[store.Invalid](err); ok {
		problem(w, http.StatusUnprocessableEntity, &proto.Error{Code: proto.CodeBadRequest, Text: invalid.Error()})
		return
	}
	f.filtersChanged(w, r, s, err)
}

// dropFilter forgets a filter. One that is not there is forgotten already.
func (f *Front) dropFilter(w http.ResponseWriter, r *http.Request, s store.AgentSession) {
	var in struct{ Name string }
	if !decode(w, r, &in) {
		return
	}
	err := f.store.DropFilter(r.Context(), s.Agent.ID, in.Name)
	if errors.Is(err, store.ErrNotFound) {
		err = nil
	}
	f.filtersChanged(w, r, s, err)
}

func (f *Front) filtersChanged(w http.ResponseWriter, r *http.Request, s store.AgentSession, err error) {
	if err != nil {
		f.storeProblem(w, err)
		return
	}
	f.filters(w, r, s)
}
