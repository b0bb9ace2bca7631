package sqlstore

import (
	"database/sql"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-eddy/eddy/desk/perm"
	"github.com/go-eddy/eddy/desk/store"
)

// oldDatabase makes a database as an older version of the schema left it, with what the queries put into it.
func oldDatabase(t *testing.T, path string, version int, queries ...string) {
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
	all, err := loadMigrations(&sqliteDialect)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range all[:version] {
		if err := apply(t.Context(), conn, &sqliteDialect, m, time.UnixMilli(1)); err != nil {
			t.Fatal(err)
		}
	}
	for _, query := range queries {
		if _, err := conn.ExecContext(t.Context(), query); err != nil {
			t.Fatal(query, err)
		}
	}
}

// version1 makes a database as version 1 of the schema left it, with data.
func version1(t *testing.T, path string) {
	t.Helper()
	const head = `INSERT INTO conversation (id, workspace, site, contact, state, owner_kind, owner_id, owner_name, epoch, rev, last_seq, last_pseq,
		opened_at, queued_at, assigned_at, closed_at, close_reason, page, preview, preview_from, at) VALUES `
	oldDatabase(t, path, 1,
		`INSERT INTO setting VALUES ('store_id', 'the-id')`,
		`INSERT INTO workspace VALUES ('main', 'Main', 1)`,
		`INSERT INTO site VALUES ('s', 'main', 'demo', 'Demo', 'Eddy', 1)`,
		`INSERT INTO agent VALUES ('lin', 'main', 'lin', 'Lin', 'x', 2, 1), ('moe', 'main', 'moe', 'Moe', 'x', 0, 1)`,
		`INSERT INTO contact VALUES ('a', 'main', 's', 'Ann', 1), ('b', 'main', 's', 'Ben', 1), ('c', 'main', 's', 'Cat', 1), ('d', 'main', 's', 'Dan', 1)`,
		head+`('assigned', 'main', 's', 'a', 'assigned', 'agent', 'lin', 'Lin', 3, 3, 2, 2, 10, 20, 30, 0, '', '', 'hello', 'agent', 40)`,
		head+`('queued', 'main', 's', 'b', 'queued', '', '', '', 1, 1, 1, 1, 10, 10, 0, 0, '', '', 'help', 'customer', 50)`,
		head+`('abandoned', 'main', 's', 'c', 'closed', '', '', '', 1, 2, 0, 0, 10, 10, 0, 60, 'bye', '', '', '', 60)`,
		head+`('served', 'main', 's', 'd', 'closed', '', '', '', 2, 3, 0, 0, 10, 10, 20, 60, '', '', '', '', 60)`,
		`INSERT INTO message VALUES ('assigned', 1, 1, 'm1', 'text', 'customer', 'a', 'Ann', 'x1', 'hi', '{}', 1, 15),
			('assigned', 2, 2, 'm2', 'text', 'agent', 'lin', 'Lin', 'x2', 'hello', '{}', 3, 40),
			('queued', 1, 1, 'm3', 'text', 'customer', 'b', 'Ben', 'x3', 'help', '{}', 1, 50)`,
	)
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
	if moe, err := db.Cold().AgentByID(ctx, "moe"); err != nil || moe.Role != perm.Agent || moe.Capacity != store.MaxCapacity || moe.NoChats {
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

// Agents go on as before. Administrators take no chats any more, unless nobody else does.
func TestMigrateWhoTakesChats(t *testing.T) {
	const (
		admin   = `INSERT INTO agent (id, workspace, login, name, password, capacity, role, disabled, created) VALUES ('ada', 'main', 'ada', 'Ada', 'x', 5, 'admin', 0, 1)`
		agent   = `INSERT INTO agent (id, workspace, login, name, password, capacity, role, disabled, created) VALUES ('lin', 'main', 'lin', 'Lin', 'x', 0, 'agent', 0, 2)`
		boss    = `INSERT INTO agent (id, workspace, login, name, password, capacity, role, disabled, created) VALUES ('sam', 'main', 'sam', 'Sam', 'x', 3, 'supervisor', 0, 3)`
		gone    = `UPDATE agent SET disabled = 1 WHERE id <> 'ada'`
		states  = `INSERT INTO agent_state (agent, active, last_assigned_at) SELECT id, 0, 0 FROM agent`
		at      = `UPDATE agent_state SET status = 'busy', accepting = 0`
		refuses = `UPDATE agent_state SET status = 'online', accepting = 0 WHERE agent = 'lin'`
	)
	for name, c := range map[string]struct {
		queries []string
		no      map[string]bool
	}{
		"an agent beside an administrator":      {[]string{admin, agent, states}, map[string]bool{"ada": true, "lin": false}},
		"a supervisor beside an administrator":  {[]string{admin, boss, states}, map[string]bool{"ada": true, "sam": false}},
		"an administrator alone":                {[]string{admin, states}, map[string]bool{"ada": false}},
		"an administrator and former agents":    {[]string{admin, agent, boss, states, gone}, map[string]bool{"ada": false}},
		"everybody was busy when they left":     {[]string{admin, agent, boss, states, at}, map[string]bool{"ada": true, "lin": false, "sam": false}},
		"an agent that was online without them": {[]string{admin, agent, boss, states, refuses}, map[string]bool{"ada": true, "lin": true, "sam": false}},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "desk.db")
			oldDatabase(t, path, 3, append([]string{`INSERT INTO setting VALUES ('store_id', 'the-id')`, `INSERT INTO workspace VALUES ('main', 'Main', 1)`}, c.queries...)...)
			db := open(t, Options{Path: path})
			for id, no := range c.no {
				if a, err := db.Cold().AgentByID(t.Context(), id); err != nil || a.NoChats != no || a.Capacity == 0 {
					t.Errorf("%s: %+v %v", id, a, err)
				}
			}
		})
	}
}

// TestMigrateLateNumber: a migration whose number was left out comes when it is there, also to a database that has later ones.
func TestMigrateLateNumber(t *testing.T) {
	path := filepath.Join(t.TempDir(), "desk.db")
	all, err := loadMigrations(&sqliteDialect)
	if err != nil {
		t.Fatal(err)
	}
	const late = 18
	oldDatabase(t, path, late-1)
	raw, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := raw.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range all[late:] {
		if err := apply(t.Context(), conn, &sqliteDialect, m, time.UnixMilli(1)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(conn.Close(), raw.Close()); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		db := open(t, Options{Path: path})
		if _, _, err := db.Cold().History(t.Context(), store.Scope{All: true}, store.Filter{Snoozed: true}, "", 1); err != nil {
			t.Errorf("snoozed conversations: %v", err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
