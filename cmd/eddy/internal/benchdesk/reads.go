package benchdesk

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/go-eddy/eddy/desk/store"
	"github.com/go-eddy/eddy/desk/store/sqlstore"
)

// deskReads are the times of lists, searches and reports over many old chats.
type deskReads struct {
	Chats    int        `json:"chats"`
	Messages int        `json:"messages"`
	Made     float64    `json:"made_s,omitempty"`       // how long it took to make the data, 0 = they were there
	Load     string     `json:"load_average,omitempty"` // of the machine, at the end
	Reads    []deskRead `json:"reads"`
}

type deskRead struct {
	What string  `json:"what"`
	Rows int     `json:"rows"` // of the answer
	P50  float64 `json:"p50_ms"`
	P99  float64 `json:"p99_ms"`
}

// readsPatience bounds the part with the making of its data.
const readsPatience = 2 * time.Hour

// oneRead is a question to the store. It returns how many rows the answer has.
type oneRead struct {
	what string
	run  func(context.Context) (int, error)
}

// reads measures lists, searches and reports as the store answers them, each in turn with the others.
func (r *deskRun) reads(ctx context.Context) (err error) {
	dir := r.readsData
	if dir == "" {
		dir = filepath.Join(filepath.Dir(r.dir), "reads")
	}
	began := time.Now()
	made, db, err := openReads(ctx, readsPlace{dir, r.readsStore}, r.chats, r.texts, func(text string) { r.t.Note("bench desk: %s", text) })
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	found := deskReads{Chats: made.Chats, Messages: made.Chats * made.Texts}
	if took := time.Since(began); took > time.Second {
		found.Made = took.Seconds()
	}
	if err := db.PackDays(ctx); err != nil {
		return err
	}
	all, err := readsOf(ctx, db, made.Until)
	if err != nil {
		return err
	}
	took := make([][]time.Duration, len(all))
	found.Reads = make([]deskRead, len(all))
	for range r.turns {
		for i, one := range all {
			at := time.Now()
			n, err := one.run(ctx)
			took[i] = append(took[i], time.Since(at))
			if err != nil {
				return fmt.Errorf("%s: %w", one.what, err)
			}
			found.Reads[i].Rows = n
		}
	}
	for i := range found.Reads {
		slices.Sort(took[i])
		ms := func(percent int) float64 { return float64(took[i][(len(took[i])-1)*percent/100].Microseconds()) / 1e3 }
		found.Reads[i].What, found.Reads[i].P50, found.Reads[i].P99 = all[i].what, ms(50), ms(99)
	}
	if text, err := os.ReadFile("/proc/loadavg"); err == nil {
		found.Load = strings.Join(strings.Fields(string(text))[:3], " ")
	}
	r.report.Reads = &found
	return nil
}

// readsOf returns what is asked.
func readsOf(ctx context.Context, db *sqlstore.DB, until int64) ([]oneRead, error) {
	agents, err1 := db.Cold().Agents(ctx)
	groups, err2 := db.Cold().Groups(ctx)
	sites, err3 := db.Cold().Sites(ctx)
	if err := errors.Join(err1, err2, err3); err != nil {
		return nil, err
	}
	if len(agents) == 0 || len(groups) == 0 || len(sites) == 0 {
		return nil, errors.New("the data have no agents, groups or sites")
	}
	agent, group, site := agents[0].ID, groups[0].ID, sites[0].ID
	reports, err := reportsOf(db, until, site, agent)
	return slices.Concat(listsOf(db, until, agent, group, site), searchesOf(db, agent), reports), err
}

const readsDay = 24 * int64(time.Hour/time.Millisecond)

// readsPage is how many rows a list and a search show.
const readsPage = 20

func listsOf(db *sqlstore.DB, until int64, agent, group, site string) (all []oneRead) {
	list := func(what string, everybody bool, f store.Filter) {
		all = append(all, oneRead{"list " + what, func(ctx context.Context) (int, error) {
			page, _, err := db.Cold().History(ctx, store.Scope{Agent: agent, All: everybody}, f, "", readsPage)
			return len(page), err
		}})
	}
	list("of all", true, store.Filter{})
	list("closed", true, store.Filter{State: store.Closed})
	list("of an agent", true, store.Filter{Agent: agent})
	list("of a group", true, store.Filter{Group: group, State: store.Closed})
	list("of a site", true, store.Filter{Site: site, State: store.Closed})
	list("of a tag", true, store.Filter{Tag: "topic 7"})
	list("rated 1 or 2", true, store.Filter{ScoreFrom: 1, ScoreTo: 2})
	list("of a month", true, store.Filter{From: until - 200*readsDay, To: until - 170*readsDay})
	list("of a tag and an agent", true, store.Filter{Tag: "topic 7", Agent: agent})
	list("that an agent may read", false, store.Filter{State: store.Closed})
	return all
}

func searchesOf(db *sqlstore.DB, agent string) (all []oneRead) {
	search := func(what, q string, everybody bool, f store.Filter) {
		all = append(all, oneRead{"search " + what, func(ctx context.Context) (int, error) {
			hits, _, err := db.Cold().Search(ctx, store.Scope{Agent: agent, All: everybody}, q, f, "", readsPage)
			return len(hits), err
		}})
	}
	words := vocabulary()
	common, other, seldom := words[0], words[1], words[len(words)-1]
	search("a frequent word", common, true, store.Filter{})
	search("a seldom word", seldom, true, store.Filter{})
	search("two frequent words", common+" "+other, true, store.Filter{})
	search("two characters", "订单", true, store.Filter{})
	search("a frequent word in a tag", common, true, store.Filter{Tag: "topic 7"})
	search("a frequent word as an agent", common, false, store.Filter{})
	search("a word that is nowhere", "zzzzzz", true, store.Filter{})
	return all
}

func reportsOf(db *sqlstore.DB, until int64, site, agent string) (all []oneRead, err error) {
	zone, err := time.LoadLocation("Europe/Berlin")
	report := func(what string, days int64, q store.ReportQuery) {
		q.From, q.To, q.Zone = until-days*readsDay, until+readsDay, zone
		all = append(all, oneRead{"report of " + what, func(ctx context.Context) (int, error) {
			rows, _, err := db.Background().ReportTotal(ctx, q)
			return len(rows), err
		}})
	}
	for _, by := range store.Kinds() {
		report("a year by "+string(by), readsDays, store.ReportQuery{By: by})
	}
	report("a year by tag in a site", readsDays, store.ReportQuery{By: store.ByTag, Site: site})
	report("a year by agent of a tag", readsDays, store.ReportQuery{By: store.ByAgent, Tag: "topic 7"})
	report("a year by day of a tag, a site and an agent", readsDays, store.ReportQuery{By: store.ByDay, Tag: "topic 7", Site: site, Agent: agent})
	report("30 days by day", 30, store.ReportQuery{By: store.ByDay})
	report("30 days by tag", 30, store.ReportQuery{By: store.ByTag})
	return all, err
}
