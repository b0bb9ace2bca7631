package front

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/go-eddy/eddy/desk/hub"
	"github.com/go-eddy/eddy/desk/perm"
	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/store"
)

const (
	wallPlaces    = 4
	reportPlaces  = 4                // two of them read, the others wait for those
	wallTimeout   = 3 * time.Second  // for the numbers of the day, from the background
	reportTimeout = 20 * time.Second // of one report
	wallKeep      = time.Second      // how long all watchers share one reading of the day
	wallHour      = time.Hour
	maxWallDay    = 48 * time.Hour
)

// wallRoutes adds the wall and the reports.
func (f *Front) wallRoutes(mux *http.ServeMux) {
	mux.HandleFunc("GET /wall", f.staff(perm.ViewWall, f.staffPage("wall.html")))
	mux.HandleFunc("GET /wall/reports", f.staff(anyStaff, f.staffPage("reports.html")))
	mux.HandleFunc("GET /api/v1/supervisor/wall", f.staffIn(f.places.wall, f.within(wallTimeout), perm.ViewWall, f.wall))
	mux.HandleFunc("GET /api/v1/supervisor/reports", f.staffIn(f.places.reports, f.within(reportTimeout), anyStaff, f.report))
	mux.HandleFunc("GET /api/v1/supervisor/reports/choices", f.staffIn(f.places.reports, f.within(reportTimeout), anyStaff, f.reportChoice))
	mux.HandleFunc("POST /api/v1/supervisor/agents/{id}/status", f.staff(perm.ForceState, f.forceStatus))
}

func (f *Front) staffPage(name string) staffHandler {
	return func(w http.ResponseWriter, r *http.Request, _ store.AgentSession) { f.sendPage(w, r, name) }
}

// wallMe is the agent who looks at the wall.
type wallMe struct {
	Name  string            `json:"name"`
	Perms []perm.Permission `json:"perms"`
}

// wallInfo is the wall with the numbers of the day and of the last hour. Partial means that those could not be read in
// time.
type wallInfo struct {
	hub.Wall
	Day     *store.ReportRow `json:"day,omitempty"`
	Minutes []minuteInfo     `json:"minutes"`
	Partial bool             `json:"partial,omitempty"`
	Servers []serverInfo     `json:"servers,omitempty"` // on one database, where there may be several
	Me      wallMe           `json:"me"`
}

// serverInfo is one of several servers. Times are Unix milliseconds, lag is in milliseconds.
type serverInfo struct {
	Name      string   `json:"name"`
	Version   string   `json:"version"`
	Since     int64    `json:"since"`
	Bus       string   `json:"bus,omitempty"` // up or down
	Lag       int64    `json:"lag"`
	Behind    int64    `json:"behind"`
	Agents    int      `json:"agents"`
	Customers int      `json:"customers"`
	Duties    []string `json:"duties"`
	Here      bool     `json:"here"` // it has answered
}

// servers returns the servers that share the database.
func (f *Front) servers(ctx context.Context, now time.Time) ([]serverInfo, error) {
	if f.store.Node() == "" {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, wallTimeout/4)
	defer cancel()
	all, err := f.store.Hot().Servers(ctx, now)
	infos := make([]serverInfo, 0, len(all))
	for _, s := range all {
		infos = append(infos, serverInfo{
			Name: s.Name, Version: s.Version, Since: s.Since, Bus: s.Bus, Lag: s.Lag.Milliseconds(), Behind: s.Behind, Agents: s.Agents, Customers: s.Customers,
			Duties: append([]string{}, s.Leases...), Here: s.Node == f.store.Node(),
		})
	}
	return infos, err
}

// minuteInfo is what happened in one minute in all groups.
type minuteInfo struct {
	At      int64 `json:"at"`
	Arrived int64 `json:"arrived"`
	Left    int64 `json:"left"`
	Waited  int64 `json:"waited"`
}

// dayNumbers are the numbers that the wall reads from the background. All watchers share them.
type dayNumbers struct {
	turn    chan struct{} // holds one element while a request reads or looks
	since   int64
	at      time.Time
	day     *store.ReportRow
	minutes []minuteInfo
}

func (f *Front) wall(w http.ResponseWriter, r *http.Request, s store.AgentSession) {
	now := f.o.Now()
	since, err := strconv.ParseInt(r.URL.Query().Get("since"), 10, 64)
	if err != nil || since > now.UnixMilli() || since < now.Add(-maxWallDay).UnixMilli() {
		y, m, day := now.Date()
		since = time.Date(y, m, day, 0, 0, 0, 0, now.Location()).UnixMilli()
	}
	info := wallInfo{Wall: f.hub.Wall(), Me: wallMe{s.Agent.Name, s.Agent.Role.Permissions()}}
	if !s.Agent.Role.Can(perm.Private) {
		info.Mask()
	}
	var late error
	info.Day, info.Minutes, err = f.today(r.Context(), now, since)
	if info.Servers, late = f.servers(r.Context(), now); err == nil {
		err = late
	}
	if err != nil {
		info.Partial = true
		if r.Context().Err() == nil {
			f.o.Logger.Warn("desk: the numbers of the day could not be read", "err", err)
		}
	}
	if info.Minutes == nil {
		info.Minutes = []minuteInfo{}
	}
	answer(w, info)
}

// today reads the numbers of the day and of the last hour, unless another request has just done so. When they cannot be
// read in time, it returns those read before.
func (f *Front) today(ctx context.Context, now time.Time, since int64) (*store.ReportRow, []minuteInfo, error) {
	n := &f.numbers
	ctx, cancel := context.WithTimeout(ctx, wallTimeout/2) // the answer has to be sent, too
	defer cancel()
	select {
	case n.turn <- struct{}{}:
		defer func() { <-n.turn }()
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	}
	if n.since != since {
		n.since, n.at, n.day, n.minutes = since, time.Time{}, nil, nil
	}
	if age := now.Sub(n.at); age < wallKeep && age >= 0 {
		return n.day, n.minutes, nil
	}
	rows, err := f.store.Background().Report(ctx, store.ReportQuery{From: since, To: now.UnixMilli() + store.SlotQuarter, By: store.ByAll})
	var minutes []store.Minute
	if err == nil {
		minutes, err = f.store.Background().Minutes(ctx, now.Add(-wallHour).UnixMilli())
	}
	if err != nil {
		return n.day, n.minutes, err
	}
	n.at, n.day, n.minutes = now, &store.ReportRow{}, allGroups(minutes)
	if len(rows) > 0 {
		n.day = &rows[0]
	}
	return n.day, n.minutes, nil
}

// allGroups adds up the groups of each minute.
func allGroups(minutes []store.Minute) []minuteInfo {
	all := []minuteInfo{}
	for _, m := range minutes {
		if len(all) == 0 || all[len(all)-1].At != m.At {
			all = append(all, minuteInfo{At: m.At})
		}
		last := &all[len(all)-1]
		last.Arrived, last.Left, last.Waited = last.Arrived+m.Arrived, last.Left+m.Left, last.Waited+m.Waited
	}
	return all
}

// forceStatus sets the status of another agent.
func (f *Front) forceStatus(w http.ResponseWriter, r *http.Request, s store.AgentSession) {
	var in struct {
		Status    store.Status
		Accepting *bool
	}
	if !decode(w, r, &in) {
		return
	}
	if !in.Status.Valid() {
		problem(w, http.StatusBadRequest, &proto.Error{Code: proto.CodeBadRequest, Text: "status must be online, busy, away, finishing or offline."})
		return
	}
	agent := r.PathValue("id")
	_, err := f.store.Cold().AgentByID(r.Context(), agent)
	if err == nil {
		err = f.audit(r.Context(), s.Agent.Actor(), store.AuditForceState, "agent "+agent, string(in.Status), f.address(r))
	}
	var now *proto.AgentStatus
	if err == nil {
		now, err = f.hub.SetStatus(r.Context(), agent, in.Status, in.Accepting)
	}
	switch {
	case errors.Is(err, store.ErrNotFound):
		problem(w, http.StatusNotFound, &proto.Error{Code: proto.CodeNotFound, Text: "There is no such agent."})
	case err != nil:
		f.storeProblem(w, err)
	default:
		answer(w, now)
	}
}
