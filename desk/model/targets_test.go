package model

import (
	"math"
	"time"

	"github.com/go-eddy/eddy/desk/datadir"
	"github.com/go-eddy/eddy/desk/store"
	"github.com/go-eddy/eddy/desk/store/sqlstore"
)

// target is how soon the group of the model wants to answer: while people answer now before it and now after it.
const target = 100 * time.Millisecond

// aim gives the site a group of all agents with a target.
func (m *model) aim() {
	db, err := sqlstore.Open(m.ctx, sqlstore.Options{Path: datadir.Database(m.dir)})
	m.ok(err)
	defer func() { m.ok(db.Close()) }()
	g, err := db.CreateGroup(m.ctx, store.Group{Name: "All", Settings: store.GroupSettings{Target: target.Milliseconds()}})
	m.ok(err)
	staff, err := db.Cold().Staff(m.ctx)
	m.ok(err)
	for i := range staff {
		m.ok(db.AddMember(m.ctx, g.ID, staff[i].ID))
	}
	site, err := db.Cold().SiteByKey(m.ctx, "demo")
	m.ok(err)
	site.Group = g.ID
	m.ok(db.UpdateSite(m.ctx, site))
}

// checkTargets: what the targets of the chats were worth telling was told once for each wait, however often the server was
// killed.
func (m *model) checkTargets(db *sqlstore.DB) {
	m.t.Helper()
	page, err := db.Cold().Outbox(m.ctx, 0, math.MaxInt32)
	m.ok(err)
	type wait struct {
		conv  string
		since int64
		what  store.EventType
	}
	told := make(map[wait]bool)
	for i := range page.Rows {
		r := &page.Rows[i]
		if r.Target == (store.TargetTold{}) {
			continue
		}
		w := wait{r.Conv, r.Target.Since, r.Type}
		if told[w] {
			m.t.Errorf("%s of %s, which waits since %d, is told twice", w.what, w.conv, w.since)
		}
		told[w] = true
		m.count(string(r.Type))
	}
	if len(told) == 0 && len(m.convs) > 0 {
		m.t.Error("nothing is told of the targets")
	}
}
