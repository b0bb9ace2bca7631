package admin

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/go-eddy/eddy/trace"
)

// watchedTraces is a Recorder added with WatchTraces.
type watchedTraces struct {
	name string
	rec  *trace.Recorder
}

// WatchTraces adds a Recorder under a name of its own: the page lists its slowest requests and leads to the stages of each.
// WatchTraces returns an error if the name or the Recorder is missing, if the name is taken, or if 64 are watched already.
func (s *Server) WatchTraces(name string, rec *trace.Recorder) error {
	if name == "" || rec == nil {
		return errors.New("admin: WatchTraces needs a name and a Recorder")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := admits(s.traces, "Recorder", name, func(w watchedTraces) string { return w.name }); err != nil {
		return err
	}
	s.traces = append(s.traces, watchedTraces{name, rec})
	return nil
}

// maxTraces is how many requests of each Recorder the list has.
const maxTraces = 50

// Trace is a slow request.
type Trace struct {
	Recorder string       `json:"recorder"` // the name that WatchTraces was given
	Number   uint64       `json:"number"`
	Trace    string       `json:"trace"` // id in the tracing system, 32 hexadecimal digits
	Protocol string       `json:"protocol"`
	Name     string       `json:"name"`
	Peer     string       `json:"peer"` // "" if it is not recorded
	Began    time.Time    `json:"began"`
	Seconds  float64      `json:"seconds"`
	Reason   string       `json:"reason"` // the stage that has taken the longest
	Failed   string       `json:"failed,omitempty"`
	Stages   []TraceStage `json:"stages,omitempty"` // of a single request only
}

// TraceStage is a part of a request's time.
type TraceStage struct {
	Stage   string  `json:"stage"`
	Where   string  `json:"where,omitempty"` // the pool or the handler
	At      float64 `json:"at"`              // seconds from the begin
	Seconds float64 `json:"seconds"`
}

func traceOf(recorder string, s *trace.Summary) Trace {
	peer := ""
	if s.About.Peer.IsValid() {
		peer = s.About.Peer.String()
	}
	return Trace{
		Recorder: recorder, Number: s.Number, Trace: s.Self.Trace.String(), Protocol: s.About.Protocol, Name: s.About.Name,
		Peer: peer, Began: s.Began, Seconds: s.Took.Seconds(), Reason: s.Reason(), Failed: s.Failed,
	}
}

// listTraces answers with the slowest requests of all Recorders, Recorder by Recorder.
func (s *Server) listTraces(w http.ResponseWriter, _ *http.Request) {
	list := []Trace{} // an empty list in JSON, not null
	for _, r := range s.recorders() {
		slowest := r.rec.Slowest()
		for _, sum := range slowest[:min(len(slowest), maxTraces)] {
			list = append(list, traceOf(r.name, sum))
		}
	}
	reply(w, http.StatusOK, struct {
		Watched bool    `json:"watched"`
		Traces  []Trace `json:"traces"`
	}{len(s.recorders()) > 0, list})
}

func (s *Server) recorders() []watchedTraces {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.traces)
}

// findTrace returns the request of a path, or answers why there is none.
func (s *Server) findTrace(w http.ResponseWriter, r *http.Request) (t Trace, ok bool) {
	name := r.PathValue("recorder")
	number, err := strconv.ParseUint(r.PathValue("number"), 10, 64)
	if err != nil {
		fail(w, http.StatusBadRequest, fmt.Sprintf("number is %.50q, want a number", r.PathValue("number")))
		return t, false
	}
	for _, rec := range s.recorders() {
		if rec.name != name {
			continue
		}
		sum := rec.rec.Find(number)
		if sum == nil {
			break
		}
		t = traceOf(name, sum)
		for _, p := range sum.Stages {
			t.Stages = append(t.Stages, TraceStage{p.Stage.String(), p.Where, p.At.Seconds(), p.Took.Seconds()})
		}
		return t, true
	}
	fail(w, http.StatusNotFound, fmt.Sprintf("%.50q has no request %d among its slowest", name, number))
	return t, false
}

// oneTrace answers with a request and its stages.
func (s *Server) oneTrace(w http.ResponseWriter, r *http.Request) {
	if t, ok := s.findTrace(w, r); ok {
		reply(w, http.StatusOK, t)
	}
}

// tracePage shows a request and its stages.
func (s *Server) tracePage(w http.ResponseWriter, r *http.Request) {
	if t, ok := s.findTrace(w, r); ok {
		s.show(w, http.StatusOK, "trace.html", struct {
			Program string
			Trace
		}{s.program(), t})
	}
}

// Micros returns a time in seconds as the page has it.
func (Trace) Micros(seconds float64) string {
	return time.Duration(seconds * float64(time.Second)).Round(time.Microsecond).String()
}
