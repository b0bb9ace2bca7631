package desk

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-eddy/eddy/desk/desktest"
	"github.com/go-eddy/eddy/desk/hub"
	"github.com/go-eddy/eddy/desk/perm"
	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/store"
	"github.com/go-eddy/eddy/internal/testkit"
)

// wallInfo is the wall with the numbers of the day.
type wallInfo struct {
	hub.Wall
	Day     *store.ReportRow
	Minutes []struct{ At, Arrived, Left, Waited int64 }
	Partial bool
	Me      struct {
		Name  string
		Perms []perm.Permission
	}
}

func (p *pages) wall(query string) (w wallInfo) {
	p.t.Helper()
	if err := json.Unmarshal([]byte(p.get("/api/v1/supervisor/wall"+query, http.StatusOK)), &w); err != nil {
		p.t.Fatal(err)
	}
	return w
}

// eventually waits for a wall that shows something.
func (p *pages) eventually(what string, ok func(wallInfo) bool) wallInfo {
	p.t.Helper()
	return p.eventuallyOf("", what, ok)
}

// eventuallyOf is eventually with a query.
func (p *pages) eventuallyOf(query, what string, ok func(wallInfo) bool) wallInfo {
	p.t.Helper()
	var w wallInfo
	testkit.Eventually(p.t, "the wall to show "+what, func() bool {
		w = p.wall(query)
		return ok(w)
	})
	return w
}

func (w wallInfo) agent(login string) (found struct {
	proto.AgentInfo
	Chats int
}) {
	for _, a := range w.Agents {
		if a.Name == login {
			found.AgentInfo, found.Chats = a.AgentInfo, len(a.Chats)
		}
	}
	return found
}

// The wall shows what goes on over real sockets, and the numbers of the day follow.
func TestWall(t *testing.T) {
	o := testOptions(t)
	o.Routing.Strategy = store.Manual
	s := serve(t, o)
	boss := &pages{t: t, d: s.desk, cookie: logIn(t, s.desk, "agent", s.pass)}
	if w := boss.eventually("the day", func(w wallInfo) bool { return w.Day != nil }); w.Waiting != 0 || len(w.Groups) != 1 || w.agent("Agent").Status != string(store.Offline) || len(w.Me.Perms) == 0 || w.Minutes == nil {
		t.Errorf("nothing has happened: %+v", w)
	}
	lin := s.agent()
	s.ok(lin.Connected(s.ctx))
	boss.eventually("the agent", func(w wallInfo) bool { a := w.agent("Agent"); return a.Online && a.Status == "online" && w.Ready == 1 })
	ann, ben := s.customer(), s.customer()
	conv, err := ann.Open(s.ctx, "human")
	s.ok(err)
	with, err := ben.Open(s.ctx, "bot")
	s.ok(err)
	_, err = s.customer().Open(s.ctx, "bot") // nobody writes there, so that it is not on the wall
	s.ok(err)
	ben.Send(with, "hello")
	s.ok(ben.Flushed(s.ctx))
	w := boss.eventually("a queue", func(w wallInfo) bool { return w.Waiting == 1 && w.Bot == 1 })
	if len(w.Queue) != 1 || w.Queue[0].ID != conv || w.Queue[0].Contact == "" || w.Groups[0].Waiting != 1 {
		t.Errorf("the queue: %+v", w)
	}
	contact := ann.Me().ID
	if f, err := lin.Do(s.ctx, "contact.patch", "", proto.ContactPatch{Contact: contact, Name: "ann@example.com, 13800138000"}); err != nil || f.T != "ok" {
		t.Fatalf("naming the contact: %s %v", f.D, err)
	}
	hash, err := s.desk.hasher.Hash(s.ctx, "long enough to pass")
	s.ok(err)
	_, err = s.desk.store.CreateAgent(s.ctx, store.AgentAccount{Login: "ada", Name: "Ada", Password: hash, Role: perm.Auditor})
	s.ok(err)
	ada := &pages{t: t, d: s.desk, cookie: logIn(t, s.desk, "ada", "long enough to pass")}
	names := func() { // as the administrator sees them, and as the auditor does
		t.Helper()
		for p, want := range map[*pages]string{boss: "ann@example.com, 13800138000", ada: "a•••@•••.com, •••00"} {
			w := p.eventually(want, func(w wallInfo) bool { return w.Waiting+w.Assigned == 1 })
			got := ""
			for _, q := range w.Queue {
				got += q.Contact
			}
			for _, a := range w.Agents {
				for _, c := range a.Chats {
					got += c.Contact
				}
			}
			if got != want {
				t.Errorf("the wall names %q, want %q", got, want)
			}
		}
	}
	names()
	s.ok(lin.Take(s.ctx, conv))
	names()
	lin.Send(conv, "hello")
	s.ok(lin.Flushed(s.ctx))
	w = boss.eventually("the chat and the first response", func(w wallInfo) bool {
		return !w.Partial && w.Waiting == 0 && w.Assigned == 1 && w.agent("Agent").Chats == 1 && w.Day != nil && w.Day.First.N == 1 && w.Day.Wait.N == 1
	})
	var arrived, left int64
	for _, m := range w.Minutes {
		arrived, left = arrived+m.Arrived, left+m.Left
	}
	if arrived != 1 || left != 1 {
		t.Errorf("the last hour: %+v", w.Minutes)
	}
	query := "?since=" + fmt.Sprint(time.Now().Add(time.Hour).UnixMilli())
	if tomorrow := boss.eventuallyOf(query, "a day", func(w wallInfo) bool { return w.Day != nil }); tomorrow.Day.First.N != 1 {
		t.Errorf("a day that has not begun: %+v", tomorrow.Day)
	}
	for _, bad := range []string{"?since=x", "?since=0", "?since=-5", "?since=99999999999999999999"} {
		boss.wall(bad)
	}

	lines := desktest.AuditLines(t, s.desk.store, store.AuditQuery{Action: store.AuditForceState}, 0)
	me := boss.wall("").agent("Agent").ID
	status, resp := call(s.desk, "POST", "/api/v1/supervisor/agents/"+me+"/status", `{"status":"away"}`, "Cookie", boss.cookie)
	if status != http.StatusOK {
		t.Fatalf("force status: %d %v", status, resp)
	}
	boss.eventually("the forced status", func(w wallInfo) bool { return w.agent("Agent").Status == "away" })
	if _, err = lin.Other(s.ctx, func(f desktest.Frame) bool {
		var a proto.AgentInfo
		f.Decode(&a)
		return f.T == "ev.agent" && a.ID == me && a.Status == "away"
	}); err != nil {
		t.Errorf("the agent was not told: %v", err)
	}
	if got := desktest.AuditLines(t, s.desk.store, store.AuditQuery{Action: store.AuditForceState, Target: "agent " + me}, 1); len(got) != len(lines)+1 || got[0].Detail != "away" {
		t.Errorf("written down: %+v", got)
	}
	for body, want := range map[string]int{`{"status":"asleep"}`: http.StatusBadRequest, `{`: http.StatusBadRequest} {
		if status, _ := call(s.desk, "POST", "/api/v1/supervisor/agents/"+me+"/status", body, "Cookie", boss.cookie); status != want {
			t.Errorf("%s: %d", body, status)
		}
	}
	if status, _ := call(s.desk, "POST", "/api/v1/supervisor/agents/none/status", `{"status":"away"}`, "Cookie", boss.cookie); status != http.StatusNotFound {
		t.Errorf("the status of nobody: %d", status)
	}
}

func TestWallRoutesAreGuarded(t *testing.T) {
	d := openDesk(t, testOptions(t))
	const anybody = perm.Permission("")
	routes := map[string]perm.Permission{
		"GET /wall": perm.ViewWall, "GET /wall/reports": anybody, "GET /api/v1/supervisor/wall": perm.ViewWall,
		"GET /api/v1/supervisor/reports?by=day&from=0&to=1": anybody, "POST /api/v1/supervisor/agents/none/status": perm.ForceState,
	}
	for _, role := range perm.Roles() {
		_, cookie := employ(t, d, role, "some-"+string(role))
		for route, needs := range routes {
			method, path, _ := strings.Cut(route, " ")
			body := ""
			if method == "POST" {
				body = `{"status":"away"}`
			}
			if status, _ := call(d, method, path, body, "Cookie", cookie); (status == http.StatusForbidden) == (needs == anybody || role.Can(needs)) || status >= 500 {
				t.Errorf("%s of %s: %d", route, role, status)
			}
			if method == "POST" {
				if status, _ := call(d, method, path, body, "Cookie", cookie, "Sec-Fetch-Site", "cross-site"); status != http.StatusForbidden {
					t.Errorf("%s of %s from another site: %d", route, role, status)
				}
			}
		}
	}
	for route := range routes {
		method, path, _ := strings.Cut(route, " ")
		if status, _ := call(d, method, path, ""); status != http.StatusUnauthorized && status != http.StatusSeeOther {
			t.Errorf("%s without a login: %d", route, status)
		}
	}
}

func TestReports(t *testing.T) {
	p := managed(t)
	const evil = "=HYPERLINK(\"x\"),\"y\"\n"
	site, err := p.d.store.CreateSite(testkit.Context(t), store.Site{Key: "evil", Name: strings.TrimSpace(evil)})
	if err != nil {
		t.Fatal(err)
	}
	visitor, err := p.d.store.CreateVisitor(testkit.Context(t), site, store.Token{1}, time.Now().Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan store.Outcome, 2)
	p.d.store.Do(store.Open{Contact: visitor, Human: true}, time.Now().Add(testkit.Patience), func(out store.Outcome) { done <- out })
	if out := <-done; out.Err != nil {
		t.Fatal(out.Err)
	}
	now := time.Now().UnixMilli()
	query := url.Values{"from": {fmt.Sprint(now - 86_400_000)}, "to": {fmt.Sprint(now + 86_400_000)}, "offset": {"3600000"}}
	for _, by := range []string{"day", "hour", "site", "group", "agent"} {
		query.Set("by", by)
		got := p.report(query)
		if len(got.Rows) != 1 || got.Rows[0].Opened != 1 || got.Rows[0].Arrived != 1 || got.Total.Opened != 1 || got.Own {
			t.Errorf("by %s: %+v %v", by, got, err)
		}
	}
	query.Set("by", "site")
	status, resp, body := p.ask("GET", "/api/v1/supervisor/reports?"+query.Encode()+"&format=csv", nil)
	rows, err := csv.NewReader(strings.NewReader(body)).ReadAll()
	if status != http.StatusOK || err != nil || len(rows) != 2 || rows[1][1] != "'"+site.Name || rows[1][2] != "1" || len(rows[0]) != len(rows[1]) {
		t.Errorf("CSV: %d %q %v", status, rows, err)
	}
	if got := resp.Header.Get("Content-Disposition"); !strings.HasPrefix(got, "attachment") {
		t.Errorf("disposition %q", got)
	}
	desktest.AuditLines(t, p.d.store, store.AuditQuery{Action: store.AuditExport}, 1)
	for name, change := range map[string][2]string{
		"no from": {"from", ""}, "text": {"to", "tomorrow"}, "order": {"to", "1"}, "too long": {"from", "1"}, "by nothing": {"by", ""}, "by all": {"by", "all"},
		"by moon": {"by", "moon"}, "offset": {"offset", "x"}, "far offset": {"offset", "999999999999"}, "no zone": {"zone", "Mars/Olympus"}, "a file": {"zone", "../passwd"}, "of the server": {"zone", "Local"}, "long zone": {"zone", strings.Repeat("x", 65)},
		"long site": {"site", strings.Repeat("x", 65)},
	} {
		bad := url.Values{"from": query["from"], "to": query["to"], "by": {"day"}}
		bad.Set(change[0], change[1])
		if status, _, body := p.ask("GET", "/api/v1/supervisor/reports?"+bad.Encode(), nil); status != http.StatusBadRequest || !strings.Contains(body, "bad_request") {
			t.Errorf("%s: %d %s", name, status, body)
		}
	}
}

// slowReports are a store whose reports run until they are let go, or their time is over.
type slowReports struct {
	store.Store
	running chan struct{}
	letGo   chan struct{}
}

func (s *slowReports) Background() store.Reports { return s }

func (s *slowReports) Report(ctx context.Context, _ store.ReportQuery) ([]store.ReportRow, error) {
	select {
	case s.running <- struct{}{}:
	default: // nobody looks any more
	}
	select {
	case <-s.letGo:
		return []store.ReportRow{}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (s *slowReports) ReportTotal(ctx context.Context, q store.ReportQuery) ([]store.ReportRow, store.ReportRow, error) {
	rows, err := s.Report(ctx, q)
	return rows, store.ReportRow{}, err
}

func (s *slowReports) Minutes(ctx context.Context, _ int64) ([]store.Minute, error) {
	return nil, ctx.Err()
}

// While every place for reports is taken by one that does not end, customers and agents talk, the wall is live without
// the numbers of the day, another report is told to come back, and logins work.
func TestStuckReportsDisturbNobody(t *testing.T) {
	t.Parallel() // it waits for a time limit
	const places = 4
	slow := &slowReports{running: make(chan struct{}, 2*places), letGo: make(chan struct{})}
	o := testOptions(t)
	o.WrapStore = func(s store.Store) store.Store { slow.Store = s; return slow }
	s := serve(t, o)
	boss := &pages{t: t, d: s.desk, cookie: logIn(t, s.desk, "agent", s.pass)}
	const query = "/api/v1/supervisor/reports?by=day&from=1&to=1000"
	var reports sync.WaitGroup
	for range places {
		reports.Go(func() {
			if status, _, _ := boss.ask("GET", query, nil); status != http.StatusOK {
				t.Errorf("a report that was let go: %d", status)
			}
		})
	}
	for range places {
		testkit.Receive(t, "a report to run", slow.running)
	}
	if status, _, body := boss.ask("GET", query, nil); status != http.StatusServiceUnavailable || !strings.Contains(body, `"busy"`) {
		t.Errorf("one report too many: %d %s", status, body)
	}
	ann, lin := s.customer(), s.agent()
	conv, err := ann.Open(s.ctx, "human")
	s.ok(err)
	_ = lin.Take(s.ctx, conv) // the router may have been faster
	for i := range 20 {
		ann.Send(conv, fmt.Sprint("customer ", i))
	}
	s.ok(ann.Flushed(s.ctx))
	if w := boss.eventually("the chat without the day", func(w wallInfo) bool { return w.Partial && w.Assigned == 1 }); w.Day != nil {
		t.Errorf("the wall meanwhile: %+v", w)
	}
	logIn(t, s.desk, "agent", s.pass)
	close(slow.letGo)
	reports.Wait()
	boss.eventually("the day again", func(w wallInfo) bool { return !w.Partial && w.Day != nil })
}
