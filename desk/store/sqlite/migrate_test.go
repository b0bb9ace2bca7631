package sqlite

import (
	"database/sql"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-eddy/eddy/desk/perm"
	"github.com/go-eddy/eddy/desk/store"
)

// version1 makes a database as version 1 of the schema left it, with data.
func version1(t *testing.T, path string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	all, err := loadMigrations()
	if err == nil {
		err = apply(t.Context(), conn, all[0], time.UnixMilli(1))
	}
	if err != nil {
		t.Fatal(err)
	}
	const head = `INSERT INTO conversation (id, workspace, site, contact, state, owner_kind, owner_id, owner_name, epoch, rev, last_seq, last_pseq,
		opened_at, queued_at, assigned_at, closed_at, close_reason, page, preview, preview_from, at) VALUES `
	for _, query := range []string{
		`INSERT INTO setting VALUES ('store_id', 'the-id')`,
		`INSERT INTO workspace VALUES ('main', 'Main', 1)`,
		`INSERT INTO site VALUES ('s', 'main', 'demo', 'Demo', 'Eddy', 1)`,
		`INSERT INTO agent VALUES ('lin', 'main', 'lin', 'Lin', 'x', 2, 1), ('moe', 'main', 'moe', 'Moe', 'x', 0, 1)`,
		`INSERT INTO contact VALUES ('a', 'main', 's', 'Ann', 1), ('b', 'main', 's', 'Ben', 1), ('c', 'main', 's', 'Cat', 1), ('d', 'main', 's', 'Dan', 1)`,
		head + `('assigned', 'main', 's', 'a', 'assigned', 'agent', 'lin', 'Lin', 3, 3, 2, 2, 10, 20, 30, 0, '', '', 'hello', 'agent', 40)`,
		head + `('queued', 'main', 's', 'b', 'queued', '', '', '', 1, 1, 1, 1, 10, 10, 0, 0, '', '', 'help', 'customer', 50)`,
		head + `('abandoned', 'main', 's', 'c', 'closed', '', '', '', 1, 2, 0, 0, 10, 10, 0, 60, 'bye', '', '', '', 60)`,
		head + `('served', 'main', 's', 'd', 'closed', '', '', '', 2, 3, 0, 0, 10, 10, 20, 60, '', '', '', '', 60)`,
		`INSERT INTO message VALUES ('assigned', 1, 1, 'm1', 'text', 'customer', 'a', 'Ann', 'x1', 'hi', '{}', 1, 15),
			('assigned', 2, 2, 'm2', 'text', 'agent', 'lin', 'Lin', 'x2', 'hello', '{}', 3, 40),
			('queued', 1, 1, 'm3', 'text', 'customer', 'b', 'Ben', 'x3', 'help', '{}', 1, 50)`,
	} {
		if _, err := conn.ExecContext(t.Context(), query); err != nil {
			t.Fatal(query, err)
		}
	}
}

// A database of version 1 with data goes on working as if it had been made by this version.
func TestMigrateFromVersion1(t *testing.T) {
	path := filepath.Join(t.TempDir(), "desk.db")
	version1(t, path)
	db := open(t, Options{Path: path})
	ctx := t.Context()
	if db.ID() != "the-id" {
		t.Errorf("store id %q", db.ID())
	}
	site, err := db.Hot().SiteByKey(ctx, "demo")
	if err != nil || site.ReopenWindow != store.DefaultReopenWindow || site.ReopenToBot || site.Group != "" {
		t.Errorf("site %+v %v", site, err)
	}
	loads, err := db.Cold().Loads(ctx)
	if err != nil || len(loads) != 2 || loads[0] != (store.Load{Agent: "lin", Active: 1, Capacity: 2, LastAssigned: 30}) || loads[1].Active != 0 {
		t.Errorf("loads %+v %v", loads, err)
	}
	if n, err := db.Reconcile(ctx); n != 0 || err != nil {
		t.Errorf("%d counters were wrong, %v", n, err)
	}
	if c, err := db.Cold().Closings(ctx, 0); err != nil || c != (store.Closings{Served: 1, Abandoned: 1}) {
		t.Errorf("closings %+v %v", c, err)
	}
	had, err := db.Cold().Assignments(ctx, "assigned")
	if err != nil || len(had) != 1 || had[0] != (store.Assignment{Conv: "assigned", Agent: "lin", Epoch: 3, From: 30, Event: "taken"}) {
		t.Errorf("assignments %+v %v", had, err)
	}
	c, err := db.Cold().Conversation(ctx, "assigned")
	if err != nil || c.LastAgent != "lin" || c.RepliedAt != 40 || c.WaitingSince != 0 || c.Priority != store.PriorityNormal {
		t.Errorf("assigned %+v %v", c, err)
	}
	if lin, err := db.Cold().AgentByID(ctx, "lin"); err != nil || lin.Role != perm.Admin {
		t.Errorf("the first account %+v %v", lin, err)
	}
	if moe, err := db.Cold().AgentByID(ctx, "moe"); err != nil || moe.Role != perm.Agent {
		t.Errorf("the second account %+v %v", moe, err)
	}
	if a, err := db.Cold().Contact(ctx, "a"); err != nil || a.Name != "Ann" || a.Created != 1 || len(a.Attributes) != 0 {
		t.Errorf("contact %+v %v", a, err)
	}
	if c, err := db.Cold().Conversation(ctx, "queued"); err != nil || c.WaitingSince != 50 || c.LastAgent != "" {
		t.Errorf("queued %+v %v", c, err)
	}
	lin := store.Actor{Kind: store.Agent, ID: "lin", Name: "Lin"}
	if out := doOn(db, store.Move{Conv: "assigned", Trigger: store.Return, By: lin, Rev: 3}); out.Err != nil || out.Conv.QueuedAt != 20 || out.Events[0].Seq != 3 {
		t.Errorf("return: %+v", out)
	}
	for _, id := range []string{"assigned", "queued"} {
		if out := doOn(db, store.Move{Conv: id, Trigger: store.TakeOver, By: lin}); out.Err != nil {
			t.Errorf("take %s: %v", id, out.Err)
		}
	}
	// A second start finds nothing to do.
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	db = open(t, Options{Path: path})
	if loads, err := db.Cold().Loads(ctx); err != nil || loads[0].Active != 2 {
		t.Errorf("loads after the second start %+v %v", loads, err)
	}
}
