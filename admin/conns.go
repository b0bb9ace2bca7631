package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-eddy/eddy"
)

const (
	defaultPage = 100
	maxPage     = 1000
	maxOffset   = 20_000
	walkTimeout = 2 * time.Second
)

// Connection is a row of /connections. The connection is open or has ended a short time ago.
type Connection struct {
	Server string `json:"server"`
	ID     string `json:"id"`
	Peer   string `json:"peer"`
	Tenant string `json:"tenant,omitempty"`

	Loop       string  `json:"loop,omitempty"`
	Local      string  `json:"local,omitempty"`
	State      string  `json:"state,omitempty"` // the eddy.Phase
	Queued     int64   `json:"queued"`          // bytes queued for the peer
	Unread     int64   `json:"unread"`          // bytes received and not decoded yet
	InFlight   int     `json:"in_flight"`
	Idle       float64 `json:"idle_seconds"` // since the last byte
	ReadPaused bool    `json:"read_paused,omitempty"`
	Unwritable bool    `json:"unwritable,omitempty"`

	Reason string  `json:"reason,omitempty"` // why the connection ends or has ended
	Cause  string  `json:"cause,omitempty"`
	Ago    float64 `json:"ago_seconds,omitempty"` // since the end

	id   eddy.ConnID
	peer netip.AddrPort
}

// Connections is the body of /connections.
type Connections struct {
	Matched     int          `json:"matched"` // rows that the filter lets through, on all pages
	Looked      int          `json:"looked"`  // connections that were looked at
	Offset      int          `json:"offset"`
	Connections []Connection `json:"connections"`
	Errors      []string     `json:"errors,omitempty"` // loops that could not be asked to the end; connections of theirs are missing
	Took        float64      `json:"took_ms"`
}

// query holds the parameters of a request for /connections.
type query struct {
	server, state, reason, sort string
	closed, ascending           bool
	least                       int64
	peer                        netip.Prefix
	limit, offset               int
}

var (
	sorts  = []string{"queued", "unread", "in_flight", "idle", "ago", "peer", "id"} //nolint:gochecknoglobals // a table, never written
	states = []eddy.Phase{                                                          //nolint:gochecknoglobals // as above
		eddy.PhaseReadingHeader, eddy.PhaseReadingBody, eddy.PhaseDispatching, eddy.PhaseWaitingForResponse, eddy.PhaseWriting, eddy.PhaseClosing,
	}
)

// parseQuery reads the parameters. The error names the parameter that is wrong and its allowed values.
func parseQuery(r *http.Request) (q query, err error) {
	v := r.URL.Query()
	for name := range v {
		if !slices.Contains([]string{"server", "state", "reason", "closed", "min_queued", "peer", "sort", "order", "limit", "offset"}, name) {
			return q, fmt.Errorf("there is no parameter %.40q", name)
		}
	}
	q.server, q.state, q.reason, q.sort = v.Get("server"), v.Get("state"), v.Get("reason"), v.Get("sort")
	if q.closed, err = flag(v, "closed"); err != nil {
		return q, err
	}
	q.closed = q.closed || q.reason != "" && !v.Has("closed")
	if q.reason != "" && !slices.ContainsFunc(eddy.CloseReasons(), func(c eddy.CloseReason) bool { return c.String() == q.reason }) {
		return q, fmt.Errorf("reason %.40q is none of %v", q.reason, eddy.CloseReasons())
	}
	if q.state != "" && !slices.ContainsFunc(states, func(p eddy.Phase) bool { return p.String() == q.state }) {
		return q, fmt.Errorf("state %.40q is none of %v", q.state, states)
	}
	if q.sort == "" {
		q.sort = "queued"
		if q.closed {
			q.sort = "ago"
		}
	}
	if !slices.Contains(sorts, q.sort) {
		return q, fmt.Errorf("sort %.40q is none of %v", q.sort, sorts)
	}
	q.ascending = slices.Contains([]string{"ago", "peer", "id"}, q.sort)
	switch order := v.Get("order"); order {
	case "":
	case "asc", "desc":
		q.ascending = order == "asc"
	default:
		return q, fmt.Errorf("order %.40q is neither asc nor desc", order)
	}
	if text := v.Get("min_queued"); text != "" {
		if q.least, err = strconv.ParseInt(text, 10, 64); err != nil || q.least < 0 {
			return q, fmt.Errorf("min_queued is %.40q, want a number of bytes", text)
		}
	}
	if q.peer, err = peerOf(v.Get("peer")); err != nil {
		return q, err
	}
	if q.limit, err = number(r, "limit", defaultPage, 1, maxPage); err == nil {
		q.offset, err = number(r, "offset", 0, 0, maxOffset)
	}
	return q, err
}

func flag(v url.Values, name string) (bool, error) {
	switch text := v.Get(name); text {
	case "", "0", "false":
		return false, nil
	case "1", "true":
		return true, nil
	default:
		return false, fmt.Errorf("%s is %.40q, want 0 or 1", name, text)
	}
}

// peerOf reads an address or a network. The zero Prefix matches every peer.
func peerOf(text string) (netip.Prefix, error) {
	if text == "" {
		return netip.Prefix{}, nil
	}
	if p, err := netip.ParsePrefix(text); err == nil {
		return p.Masked(), nil
	}
	a, err := netip.ParseAddr(text)
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("peer is %.60q, want an address such as 192.0.2.7 or a network such as 192.0.2.0/24", text)
	}
	a = a.Unmap().WithZone("")
	return netip.PrefixFrom(a, a.BitLen()), nil
}

// matches reports whether a row passes the filter.
func (q *query) matches(c *Connection) bool {
	return (q.state == "" || c.State == q.state) && (q.reason == "" || c.Reason == q.reason) && c.Queued >= q.least &&
		(!q.peer.IsValid() || c.peer.IsValid() && q.peer.Contains(c.peer.Addr().Unmap().WithZone("")))
}

// compare orders rows as requested, and equal rows by server and id.
func (q *query) compare(a, b Connection) int {
	n := 0
	switch q.sort {
	case "queued":
		n = cmp.Compare(a.Queued, b.Queued)
	case "unread":
		n = cmp.Compare(a.Unread, b.Unread)
	case "in_flight":
		n = cmp.Compare(a.InFlight, b.InFlight)
	case "idle":
		n = cmp.Compare(a.Idle, b.Idle)
	case "ago":
		n = cmp.Compare(a.Ago, b.Ago)
	case "peer":
		n = a.peer.Compare(b.peer)
	}
	if n == 0 {
		n = cmp.Or(cmp.Compare(a.Server, b.Server), a.id.Compare(b.id))
		if q.sort != "id" {
			return n
		}
	}
	if q.ascending {
		return n
	}
	return -n
}

// page collects rows, and keeps at most twice as many as the requested page needs.
type page struct {
	q       *query
	matched int
	looked  int
	rows    []Connection
}

func (p *page) add(c Connection) {
	p.looked++
	if !p.q.matches(&c) {
		return
	}
	p.matched++
	p.rows = append(p.rows, c)
	if most := p.q.offset + p.q.limit; len(p.rows) >= 2*most {
		p.cut(most)
	}
}

func (p *page) cut(most int) {
	slices.SortFunc(p.rows, p.q.compare)
	if len(p.rows) > most {
		clear(p.rows[most:])
		p.rows = p.rows[:most]
	}
}

// take returns the rows of the page, never nil because JSON needs an empty list.
func (p *page) take() []Connection {
	p.cut(p.q.offset + p.q.limit)
	rows := append([]Connection{}, p.rows[min(p.q.offset, len(p.rows)):]...)
	for i := range rows {
		rows[i].ID = rows[i].id.String()
		rows[i].Peer = text(rows[i].peer)
	}
	return rows
}

func text(a netip.AddrPort) string {
	if !a.IsValid() {
		return ""
	}
	return a.String()
}

// connections serves /connections.
func (s *Server) connections(w http.ResponseWriter, r *http.Request) {
	q, err := parseQuery(r)
	if err != nil {
		fail(w, http.StatusBadRequest, err.Error())
		return
	}
	servers, _, _ := s.watching()
	if q.server != "" {
		i := slices.IndexFunc(servers, func(w watched) bool { return w.name == q.server })
		if i < 0 {
			fail(w, http.StatusNotFound, fmt.Sprintf("no server %.40q is watched; there are %s", q.server, namesOf(servers)))
			return
		}
		servers = servers[i : i+1]
	}
	select {
	case s.walks <- struct{}{}:
	default:
		busy(w, fmt.Sprintf("%d tables are being made already", cap(s.walks)))
		return
	}
	defer func() { <-s.walks }()
	began, p := time.Now(), &page{q: &q}
	var errs []string
	if q.closed {
		p.closed(servers)
	} else {
		errs = p.walk(r.Context(), servers)
	}
	rows := p.take()
	reply(w, http.StatusOK, Connections{
		Matched: p.matched, Looked: p.looked, Offset: q.offset, Connections: rows, Errors: errs,
		Took: float64(time.Since(began)) / float64(time.Millisecond),
	})
}

func namesOf(servers []watched) string {
	var names []string
	for _, w := range servers {
		names = append(names, w.name)
	}
	return strings.Join(names, ", ")
}

// walk adds the open connections, and returns a line for each loop that could not be walked to the end.
func (p *page) walk(ctx context.Context, servers []watched) (errs []string) {
	ctx, cancel := context.WithTimeout(ctx, walkTimeout)
	defer cancel()
	for _, w := range servers {
		err := w.srv.EachConn(ctx, func(c eddy.ConnInfo) bool { p.add(shown(w.name, &c)); return true })
		if err != nil {
			for _, line := range strings.Split(err.Error(), "\n") {
				errs = append(errs, w.name+": "+line)
			}
		}
	}
	return errs
}

func shown(server string, c *eddy.ConnInfo) Connection {
	return Connection{
		Server: server, id: c.ID, peer: c.Remote, Tenant: c.Tenant, Loop: c.Loop, Local: text(c.Local), State: c.Phase.String(),
		Queued: c.Outbound, Unread: c.Inbound, InFlight: c.InFlight, Idle: c.Idle.Seconds(), ReadPaused: c.ReadPaused, Unwritable: c.Unwritable,
		Reason: reason(c.Reason), Cause: c.Cause, Ago: c.Ago.Seconds(),
	}
}

func reason(r eddy.CloseReason) string {
	if r == eddy.CloseUnset {
		return ""
	}
	return r.String()
}

// closed adds the connections that have ended.
func (p *page) closed(servers []watched) {
	for _, w := range servers {
		for _, c := range w.srv.RecentCloses() {
			p.add(shown(w.name, &c))
		}
	}
}

// closing is the body of a request to close a connection.
type closing struct {
	Server string `json:"server"` // may be left out when only one server is watched
	ID     string `json:"id"`
	Flush  bool   `json:"flush"` // send the queued bytes first
}

var errOperator = errors.New("closed by the operator")

// closeConnection ends a connection with the close reason normal, since this side ends it.
func (s *Server) closeConnection(w http.ResponseWriter, r *http.Request) {
	var in closing
	if !accept(w, r, &in) {
		return
	}
	id, err := eddy.ParseConnID(in.ID)
	if err != nil {
		fail(w, http.StatusBadRequest, err.Error())
		return
	}
	servers, _, _ := s.watching()
	i := slices.IndexFunc(servers, func(w watched) bool { return w.name == in.Server || in.Server == "" && len(servers) == 1 })
	if i < 0 {
		fail(w, http.StatusNotFound, fmt.Sprintf("no server %.40q is watched; there are %s", in.Server, namesOf(servers)))
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), walkTimeout)
	defer cancel()
	switch found, err := servers[i].srv.CloseConn(ctx, id, in.Flush, eddy.CloseNormal, errOperator); {
	case err != nil:
		fail(w, http.StatusServiceUnavailable, err.Error())
	case !found:
		fail(w, http.StatusNotFound, fmt.Sprintf("%s has no connection %v; it may have ended", servers[i].name, id))
	default:
		s.o.Logger.Info("admin: a connection was closed", "server", servers[i].name, "conn", id.String(), "by", r.RemoteAddr)
		reply(w, http.StatusOK, in)
	}
}
