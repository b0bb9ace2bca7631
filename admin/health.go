package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/executor"
)

const (
	healthEvery  = time.Second
	staleHealth  = 10 * time.Second // without a new result for so long, the program is not ready
	fullFor      = 5 * time.Second  // how long a pool counts as full after it had no room
	checkTimeout = 2 * time.Second
	maxTimeout   = 8 * time.Second // less than staleHealth
	reasonBytes  = 300
)

// Reason says why a program is not ready.
type Reason struct {
	Check string `json:"check"`
	Why   string `json:"why"`
}

// Readiness is the body of /readyz.
type Readiness struct {
	Ready   bool     `json:"ready"`
	Reasons []Reason `json:"reasons,omitempty"` // left out for requests that lack the token
}

// Check adds a function that returns an error when the program cannot do its work, for example because a database does not
// answer. f is called once a second, and never before its last call has returned. f runs on a goroutine of its own, with a
// context that ends after timeout (0 = 2 s, at most 8 s). While f is late the program is not ready.
func (s *Server) Check(name string, timeout time.Duration, f func(ctx context.Context) error) error {
	if timeout == 0 {
		timeout = checkTimeout
	}
	if name == "" || f == nil || timeout < 0 || timeout > maxTimeout {
		return fmt.Errorf("admin: Check %.40q with a timeout of %v: it needs a name, a function and a timeout up to %v", name, timeout, maxTimeout)
	}
	h := s.health
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := admits(h.checks, "check", name, func(c *check) string { return c.name }); err != nil {
		return err
	}
	h.checks = append(h.checks, &check{name: name, timeout: timeout, f: f})
	return nil
}

// check is a function that was added with Check.
type check struct {
	name    string
	timeout time.Duration
	f       func(context.Context) error
	pending pending
}

// pending is a call of a check, or a probe of a loop, that may not have returned.
type pending struct {
	since time.Time
	done  chan error // receives the result; nil = no call
}

// health determines once a second whether the program is ready.
type health struct {
	s      *Server
	probes map[*eddy.Loop]*pending
	drains atomic.Bool

	mu      sync.Mutex
	checks  []*check
	at      time.Time // of the latest result
	reasons []Reason

	exhausted map[*executor.Pool]exhaustion
}

// exhaustion says when a pool last had no room.
type exhaustion struct {
	count uint64
	at    time.Time
}

func newHealth(s *Server) *health {
	return &health{s: s, probes: make(map[*eddy.Loop]*pending), exhausted: make(map[*executor.Pool]exhaustion)}
}

// run calls look every second until ctx ends.
func (h *health) run(ctx context.Context) {
	tick := time.NewTicker(healthEvery)
	defer tick.Stop()
	for {
		h.look(ctx)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// look finds all present reasons and stores them.
func (h *health) look(ctx context.Context) {
	servers, pools, _ := h.s.watching()
	var all []Reason
	for _, w := range servers {
		all = append(all, h.lag(w)...)
	}
	all = append(all, h.probe(ctx, servers)...)
	all = append(all, h.rooms(time.Now(), pools)...)
	all = append(all, h.ask(ctx)...)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.at, h.reasons = time.Now(), all
}

// Drain makes the program not ready from now on, for programs that end in steps. A watched server that drains makes the
// program not ready by itself.
func (s *Server) Drain() { s.health.drains.Store(true) }

// draining returns the reasons of servers that drain. Each request calls draining, so an ending program is not ready at
// once.
func draining(servers []watched) (all []Reason) {
	for _, w := range servers {
		if w.srv.Draining() {
			all = append(all, Reason{w.name, "draining"})
		}
	}
	return all
}

// result returns the reasons as of now.
func (h *health) result(now time.Time) []Reason {
	servers, _, _ := h.s.watching()
	all := draining(servers)
	if h.drains.Load() && len(all) == 0 {
		all = append(all, Reason{"program", "draining"})
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	switch age := now.Sub(h.at); {
	case h.at.IsZero():
		all = append(all, Reason{"checks", "they have not been done yet"})
	case age > staleHealth:
		all = append(all, Reason{"checks", fmt.Sprintf("they were last done %v ago", age.Round(time.Second))})
	}
	return append(all, h.reasons...)
}

// lag returns the reasons that the loops' own numbers give.
func (h *health) lag(w watched) (all []Reason) {
	if w.srv.Draining() {
		return nil // draining is a reason already, and the loops may have ended
	}
	for _, l := range w.srv.Stats().Loops {
		if !l.Healthy {
			all = append(all, Reason{w.name + " " + l.Name, "its poller fails"})
		}
		if l.Lag.P99 > h.s.o.MaxLag {
			all = append(all, Reason{w.name + " " + l.Name, fmt.Sprintf("its lag was %v at the 99th percentile of the last minute, limit %v", l.Lag.P99, h.s.o.MaxLag)})
		}
	}
	return all
}

// probe posts a task to each loop and waits up to MaxLag for all of them together.
func (h *health) probe(ctx context.Context, servers []watched) (all []Reason) {
	late := time.NewTimer(h.s.o.MaxLag)
	defer late.Stop()
	over := false
	seen := make(map[*eddy.Loop]bool)
	names := make(map[*eddy.Loop]string)
	var order []*eddy.Loop
	for _, w := range servers {
		if w.srv.Draining() {
			continue
		}
		for _, l := range w.srv.Workers() {
			if !seen[l] {
				seen[l], names[l] = true, w.name+" "+l.Name()
				order = append(order, l)
			}
		}
	}
	for _, l := range order {
		if err := h.send(l); err != nil {
			all = append(all, Reason{names[l], err.Error()})
		}
	}
	for _, l := range order {
		p := h.probes[l]
		if p == nil {
			continue
		}
		if over = over || !wait(ctx, late, p.done); over {
			select {
			case <-p.done:
			default:
				all = append(all, Reason{names[l], fmt.Sprintf("it has not answered for %v, limit %v", time.Since(p.since).Round(time.Millisecond), h.s.o.MaxLag)})
				continue
			}
		}
		delete(h.probes, l)
	}
	for l, p := range h.probes { // answered probes of loops that are no longer watched
		if !seen[l] {
			select {
			case <-p.done:
				delete(h.probes, l)
			default:
			}
		}
	}
	return all
}

// send posts a probe to a loop, unless the previous probe is not answered yet.
func (h *health) send(l *eddy.Loop) error {
	if h.probes[l] != nil {
		return nil
	}
	p := &pending{since: time.Now(), done: make(chan error, 1)}
	if err := l.Post(func() { p.done <- nil }); err != nil {
		if errors.Is(err, eddy.ErrClosed) {
			return errors.New("it has ended")
		}
		return err
	}
	h.probes[l] = p
	return nil
}

// wait reports whether done received before late fired or ctx ended, and drops the received value.
func wait(ctx context.Context, late *time.Timer, done chan error) bool {
	select {
	case <-done:
		return true
	default:
	}
	select {
	case <-done:
		return true
	case <-late.C:
	case <-ctx.Done():
	}
	return false
}

// rooms returns the reasons of pools that have no room, or had none within fullFor. A pool at its limit of parked runners has
// no room, even if its workers are free.
func (h *health) rooms(now time.Time, pools []*executor.Pool) (all []Reason) {
	for _, p := range pools {
		st := p.Stats()
		workers, queue := p.Limits()
		e, known := h.exhausted[p]
		if known && st.Exhausted > e.count {
			e.at = now
		}
		e.count = st.Exhausted
		h.exhausted[p] = e
		full := st.Running >= workers && st.Queued >= queue && queue > 0 || st.MaxParked > 0 && st.Parked >= st.MaxParked
		if full || !e.at.IsZero() && now.Sub(e.at) < fullFor {
			all = append(all, Reason{"pool " + p.Name(), fmt.Sprintf("it has no room, or had none a moment ago: %d of %d workers run, %d of %d wait, %d of %d are parked", st.Running, workers, st.Queued, queue, st.Parked, st.MaxParked)})
		}
	}
	return all
}

// ask calls the checks concurrently and returns their reasons.
func (h *health) ask(ctx context.Context) (all []Reason) {
	h.mu.Lock()
	checks := slices.Clone(h.checks)
	h.mu.Unlock()
	reasons := make([]string, len(checks))
	var wg sync.WaitGroup
	for i, c := range checks {
		wg.Go(func() { reasons[i] = c.call(ctx) })
	}
	wg.Wait()
	for i, why := range reasons {
		if why != "" {
			all = append(all, Reason{checks[i].name, why})
		}
	}
	return all
}

// call runs the check, or waits for its last call, and returns what is wrong, "" if nothing is.
func (c *check) call(ctx context.Context) string {
	if c.pending.done == nil {
		c.pending = pending{since: time.Now(), done: make(chan error, 1)}
		done := c.pending.done
		limited, cancel := context.WithTimeout(ctx, c.timeout)
		go func() {
			defer cancel()
			defer func() {
				if v := recover(); v != nil {
					done <- fmt.Errorf("the check panicked: %v", v)
				}
			}()
			done <- c.f(limited)
		}()
	}
	timer := time.NewTimer(time.Until(c.pending.since.Add(c.timeout)))
	defer timer.Stop()
	var err error
	select {
	case err = <-c.pending.done:
	case <-timer.C:
		select {
		case err = <-c.pending.done:
		default:
			return fmt.Sprintf("it has not returned for %v, limit %v", time.Since(c.pending.since).Round(time.Millisecond), c.timeout)
		}
	case <-ctx.Done():
		return "the operator's server ends"
	}
	c.pending.done = nil
	if err == nil {
		return ""
	}
	return fmt.Sprintf("%.*s", reasonBytes, err.Error())
}

func (s *Server) healthz(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = w.Write([]byte("ok\n"))
}

// readiness returns the body of /readyz with all reasons.
func (s *Server) readiness() Readiness {
	reasons := s.health.result(time.Now())
	return Readiness{Ready: len(reasons) == 0, Reasons: reasons}
}

func (s *Server) readyz(w http.ResponseWriter, r *http.Request) {
	all, status := s.readiness(), http.StatusOK
	if !all.Ready {
		status = http.StatusServiceUnavailable
	}
	if !s.guard.trusts(r) {
		all.Reasons = nil
	}
	reply(w, status, all)
}
