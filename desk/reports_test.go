package desk

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-eddy/eddy/desk/perm"
	"github.com/go-eddy/eddy/desk/store"
	"github.com/go-eddy/eddy/internal/testkit"
)

// gotReport is what the page of reports gets.
type gotReport struct {
	Rows  []store.ReportRow
	Total store.ReportRow
	Own   bool
}

func (p *pages) report(query url.Values) (got gotReport) {
	p.t.Helper()
	if err := json.Unmarshal([]byte(p.get("/api/v1/supervisor/reports?"+query.Encode(), http.StatusOK)), &got); err != nil {
		p.t.Fatal(err)
	}
	return got
}

// run runs a command of the store, which has to succeed.
func (p *pages) run(cmd store.Command) store.Outcome {
	p.t.Helper()
	done := make(chan store.Outcome, 2)
	p.d.store.Do(cmd, time.Now().Add(testkit.Patience), func(out store.Outcome) { done <- out })
	out := <-done
	if out.Err != nil {
		p.t.Fatalf("%+v: %v", cmd, out.Err)
	}
	return out
}

// Days and hours are those of the reader's time zone, on both sides of a change of its clocks; a filter narrows the rows and
// their total.
func TestReportsInATimeZone(t *testing.T) {
	o := testOptions(t)
	var clock atomic.Int64
	now := func() time.Time { return time.UnixMilli(clock.Load()) }
	set := func(day, hour, minute int) {
		clock.Store(time.Date(2026, 3, day, hour, minute, 0, 0, time.UTC).UnixMilli())
	}
	set(28, 22, 50) // shortly before midnight in Berlin
	o.Now = now
	d := openDesk(t, o)
	login, password, _ := d.FirstLogin()
	p := &pages{t: t, d: d, cookie: logIn(t, d, login, password)}
	site, err := p.d.store.CreateSite(testkit.Context(t), store.Site{Key: "shop", Name: "Shop"})
	if err != nil {
		t.Fatal(err)
	}
	other, err := p.d.store.CreateGroup(testkit.Context(t), store.Group{Name: "Other"})
	if err != nil {
		t.Fatal(err)
	}
	chat := func(n byte) {
		t.Helper()
		visitor, err := p.d.store.CreateVisitor(testkit.Context(t), site, store.Token{n}, now().Add(time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		p.run(store.Open{Contact: visitor, Human: true})
	}
	chat(1)
	set(28, 23, 5)
	chat(2)
	set(29, 1, 5) // 03:05, six minutes after 01:59
	chat(3)
	rows := func(zone, by, group string) string {
		t.Helper()
		query := url.Values{"from": {fmt.Sprint(now().Add(-48 * time.Hour).UnixMilli())}, "to": {fmt.Sprint(now().Add(48 * time.Hour).UnixMilli())}, "by": {by}, "zone": {zone}, "group": {group}}
		var said []string
		got := p.report(query)
		for _, row := range got.Rows {
			said = append(said, fmt.Sprint(row.Key, "=", row.Opened))
		}
		return fmt.Sprint(strings.Join(said, " "), " of ", got.Total.Opened)
	}
	for _, c := range []struct{ zone, by, group, want string }{
		{"Europe/Berlin", "day", "", "2026-03-28=1 2026-03-29=2 of 3"},
		{"Europe/Berlin", "hour", "", "00=1 03=1 23=1 of 3"},
		{"Asia/Kathmandu", "hour", "", "04=2 06=1 of 3"},
		{"America/New_York", "day", "", "2026-03-28=3 of 3"},
		{"", "day", "", "2026-03-28=2 2026-03-29=1 of 3"},
		{"Europe/Berlin", "day", other.ID, " of 0"},
	} {
		if got := rows(c.zone, c.by, c.group); got != c.want {
			t.Errorf("by %s in %q: %q, want %q", c.by, c.zone, got, c.want)
		}
	}
}

// An agent sees its own numbers whatever it asks for, and the others see all. Tags are masked for who may see no private
// data, and no cell of the file is a formula.
func TestReportsByRole(t *testing.T) {
	p := managed(t)
	d := p.d
	lin, linCookie := employ(t, d, perm.Agent, "lin")
	moe, _ := employ(t, d, perm.Agent, "moe")
	_, adaCookie := employ(t, d, perm.Auditor, "ada")
	site, err := d.store.Hot().SiteByKey(testkit.Context(t), "demo")
	if err != nil {
		t.Fatal(err)
	}
	for i, agent := range []store.AgentAccount{lin, moe, moe} {
		visitor, err := d.store.CreateVisitor(testkit.Context(t), site, store.Token{byte(i + 1)}, time.Now().Add(time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		conv := p.run(store.Open{Contact: visitor, Human: true}).Conv.ID
		p.run(store.Move{Conv: conv, Trigger: store.TakeOver, By: agent.Actor()})
		p.run(store.Move{Conv: conv, Trigger: store.AgentClose, By: agent.Actor()})
		p.run(store.Tag{Conv: conv, By: agent.Actor(), Add: []string{"=1+1 ann@example.com"}})
	}
	now := time.Now().UnixMilli()
	query := url.Values{"from": {fmt.Sprint(now - 86_400_000)}, "to": {fmt.Sprint(now + 86_400_000)}, "by": {"agent"}, "agent": {moe.ID}}
	own := (&pages{t: t, d: d, cookie: linCookie}).report(query)
	if len(own.Rows) != 1 || own.Rows[0].Key != lin.ID || own.Total.Closed != 1 || !own.Own {
		t.Errorf("an agent sees %+v", own)
	}
	query.Del("agent")
	query.Set("by", "tag")
	for cookie, want := range map[string]string{p.cookie: "=1+1 ann@example.com", adaCookie: "=1+1 a•••@•••.com"} {
		if got := (&pages{t: t, d: d, cookie: cookie}).report(query); len(got.Rows) != 1 || got.Rows[0].Key != want || got.Rows[0].Name != want || got.Rows[0].Closed != 3 {
			t.Errorf("by tag: %+v, want %q", got, want)
		}
	}
	_, _, body := p.ask("GET", "/api/v1/supervisor/reports?"+query.Encode()+"&format=csv", nil)
	lines, err := csv.NewReader(strings.NewReader(body)).ReadAll()
	if err != nil || len(lines) != 2 || lines[1][0] != "'=1+1 ann@example.com" || lines[1][1] != lines[1][0] {
		t.Errorf("CSV: %q %v", lines, err)
	}
}

// Filters narrow a report alone and together, as JSON and as CSV, and what cannot be asked for is refused by its name. The page gets
// the values to choose from: of agents only who may see them, and no tag that is masked for the reader.
func TestReportFilters(t *testing.T) {
	p := managed(t)
	d, ctx := p.d, testkit.Context(t)
	lin, linCookie := employ(t, d, perm.Agent, "lin")
	moe, _ := employ(t, d, perm.Agent, "moe")
	_, adaCookie := employ(t, d, perm.Auditor, "ada")
	sales, err := d.store.CreateGroup(ctx, store.Group{Name: "Sales"})
	if err != nil {
		t.Fatal(err)
	}
	shop, err := d.store.CreateSite(ctx, store.Site{Key: "shop", Name: "Shop", Group: sales.ID})
	if err != nil {
		t.Fatal(err)
	}
	demo, err := d.store.Hot().SiteByKey(ctx, "demo")
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range []struct {
		site  store.Site
		agent store.AgentAccount
		tags  []string
	}{{demo, lin, []string{"refund", "ann@example.com"}}, {demo, moe, []string{"Refund"}}, {shop, lin, nil}, {shop, moe, []string{"refund", "late"}}} {
		visitor, err := d.store.CreateVisitor(ctx, c.site, store.Token{byte(i + 1)}, time.Now().Add(time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		conv := p.run(store.Open{Contact: visitor, Human: true}).Conv.ID
		p.run(store.Move{Conv: conv, Trigger: store.TakeOver, By: c.agent.Actor(), Force: true})
		p.run(store.Tag{Conv: conv, By: c.agent.Actor(), Add: c.tags})
		p.run(store.Move{Conv: conv, Trigger: store.AgentClose, By: c.agent.Actor()})
	}
	now := time.Now().UnixMilli()
	query := func(more ...string) url.Values {
		v := url.Values{"from": {fmt.Sprint(now - 86_400_000)}, "to": {fmt.Sprint(now + 86_400_000)}, "by": {"site"}}
		for i := 0; i < len(more); i += 2 {
			v.Set(more[i], more[i+1])
		}
		return v
	}
	for _, c := range []struct {
		filter []string
		closed int64
		rows   int
	}{
		{nil, 4, 2},
		{[]string{"site", shop.ID}, 2, 1},
		{[]string{"agent", lin.ID}, 2, 2},
		{[]string{"tag", " REFUND "}, 3, 2},
		{[]string{"tag", "refund", "site", demo.ID}, 2, 1},
		{[]string{"tag", "refund", "agent", moe.ID, "group", sales.ID, "site", shop.ID}, 1, 1},
		{[]string{"tag", "late", "agent", lin.ID}, 0, 0},
		{[]string{"tag", "nobody's"}, 0, 0},
		{[]string{"by", "tag", "tag", "late"}, 1, 1},
	} {
		got := p.report(query(c.filter...))
		if got.Total.Closed != c.closed || len(got.Rows) != c.rows {
			t.Errorf("%q: %d closed in %d rows, want %d in %d", c.filter, got.Total.Closed, len(got.Rows), c.closed, c.rows)
		}
	}
	_, _, body := p.ask("GET", "/api/v1/supervisor/reports?"+query("tag", "refund", "site", shop.ID, "format", "csv").Encode(), nil)
	if lines, err := csv.NewReader(strings.NewReader(body)).ReadAll(); err != nil || len(lines) != 2 || lines[1][1] != "Shop" || lines[1][5] != "1" {
		t.Errorf("CSV: %q %v", lines, err)
	}
	for _, c := range []struct {
		cookie string
		query  url.Values
		said   string
	}{
		{p.cookie, query("site", "x1"), `site is \"x1\"`}, {p.cookie, query("group", "x2"), `group is \"x2\"`}, {p.cookie, query("agent", "x3"), `agent is \"x3\"`},
		{p.cookie, query("tag", strings.Repeat("ü", 41)), "tag has 41 characters, the limit is 40"}, {p.cookie, query("by", "moon"), `by is \"moon\"`},
		{p.cookie, query("from", "noon"), `from is \"noon\"`}, {p.cookie, url.Values{"site": {"a", "b"}}, `\"site\" is given 2 times`},
		{adaCookie, query("tag", "ann@example.com"), "masked"}, {adaCookie, query("tag", "nobody@example.com"), "masked"},
	} {
		status, _, body := (&pages{t: t, d: d, cookie: c.cookie}).ask("GET", "/api/v1/supervisor/reports?"+c.query.Encode(), nil)
		if status != http.StatusBadRequest || !strings.Contains(body, c.said) {
			t.Errorf("%v: %d %s, want %s", c.query, status, body, c.said)
		}
	}
	for cookie, want := range map[string]string{p.cookie: "5 late,refund,ann", adaCookie: "5 late,refund", linCookie: "0 refund,ann"} {
		var c struct {
			Sites, Groups, Agents []struct{ ID, Name string }
			Tags                  []string
		}
		if err := json.Unmarshal([]byte((&pages{t: t, d: d, cookie: cookie}).get("/api/v1/supervisor/reports/choices", http.StatusOK)), &c); err != nil {
			t.Fatal(err)
		}
		tags := strings.ToLower(strings.Join(c.Tags, ","))
		agents, rest, _ := strings.Cut(want, " ")
		for _, tag := range []string{"late", "refund", "ann"} {
			if strings.Contains(tags, tag) != strings.Contains(rest, tag) {
				t.Errorf("tags %q, want %q", tags, rest)
			}
		}
		if (len(c.Agents) == 0) != (agents == "0") || len(c.Sites) != 2 || len(c.Groups) == 0 {
			t.Errorf("choices %+v, want %s agents", c, agents)
		}
	}
}
