package admin

import (
	"fmt"
	"io"
	"net/http"
	"runtime/pprof"
	"runtime/trace"
	"slices"
	"strconv"
	"strings"
	"time"
)

// net/http/pprof is not used because it adds its pages to http.DefaultServeMux, which the program may serve to everybody.

const (
	profileSeconds    = 10
	maxProfileSeconds = 60
)

// alone runs f, or answers 503 if another profile is being taken. Profiles are costly, so only one is taken at a time.
func (s *Server) alone(w http.ResponseWriter, f func()) {
	select {
	case s.profile <- struct{}{}:
	default:
		busy(w, "another profile or dump is being taken; one at a time")
		return
	}
	defer func() { <-s.profile }()
	f()
}

// goroutines writes the stacks of all goroutines as text. The program pauses while they are collected.
func (s *Server) goroutines(w http.ResponseWriter, _ *http.Request) {
	s.alone(w, func() {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_ = pprof.Lookup("goroutine").WriteTo(w, 2) // a client that has gone needs no dump
	})
}

// profiles lists the names of the profiles.
func (s *Server) profiles(w http.ResponseWriter, _ *http.Request) {
	names := []string{"profile", "trace"}
	for _, p := range pprof.Profiles() {
		names = append(names, p.Name())
	}
	slices.Sort(names)
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = fmt.Fprintf(w, "%s\n", strings.Join(names, "\n"))
}

// takeProfile serves one profile, in the format of go tool pprof or, with ?debug=1, as text.
func (s *Server) takeProfile(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	if name == "profile" || name == "trace" {
		s.record(w, r, name)
		return
	}
	p := pprof.Lookup(name)
	if p == nil {
		fail(w, http.StatusNotFound, "no such profile; /debug/pprof/ lists them")
		return
	}
	debug, err := number(r, "debug", 0, 0, 2)
	if err != nil {
		fail(w, http.StatusBadRequest, err.Error())
		return
	}
	s.alone(w, func() {
		w.Header().Set("Content-Type", "application/octet-stream")
		if debug > 0 {
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		}
		_ = p.WriteTo(w, debug)
	})
}

// record serves a recording of some seconds: a CPU profile or an execution trace.
func (s *Server) record(w http.ResponseWriter, r *http.Request, what string) {
	seconds, err := number(r, "seconds", profileSeconds, 1, maxProfileSeconds)
	if err != nil {
		fail(w, http.StatusBadRequest, err.Error())
		return
	}
	begin, end := pprof.StartCPUProfile, pprof.StopCPUProfile
	if what == "trace" {
		begin, end = trace.Start, trace.Stop
	}
	s.alone(w, func() {
		late := &lateWriter{w: w}
		if err := begin(late); err != nil {
			busy(w, "the program records one already: "+err.Error())
			return
		}
		timer := time.NewTimer(time.Duration(seconds) * time.Second)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-r.Context().Done():
		case <-s.ended:
		}
		end()
	})
}

// lateWriter sets the Content-Type at the first Write. Until then the request can still be answered with an error.
type lateWriter struct {
	w    http.ResponseWriter
	once bool
}

func (l *lateWriter) Write(p []byte) (int, error) {
	if !l.once {
		l.once = true
		l.w.Header().Set("Content-Type", "application/octet-stream")
	}
	return l.w.Write(p)
}

var _ io.Writer = (*lateWriter)(nil)

// number returns a parameter of the query, or otherwise if the query does not have it.
func number[N int | int64](r *http.Request, name string, otherwise, least, most N) (N, error) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return otherwise, nil
	}
	read, err := strconv.ParseInt(text, 10, 64)
	n := N(read)
	if err != nil || int64(n) != read || n < least || n > most {
		return 0, fmt.Errorf("%s is %.40q, want a number from %d to %d", name, text, least, most)
	}
	return n, nil
}
