package sqlstore

import (
	"path/filepath"
	"testing"

	"github.com/go-eddy/eddy/desk/store"
)

// many stores n closed conversations of nobody that have the times 1 to n.
func (r *rig) many(n int) {
	r.t.Helper()
	err := r.write(r.t.Context(), func(t *tx) error {
		return t.exec(`WITH RECURSIVE k (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM k WHERE i < ?)
			INSERT INTO conversation (id, workspace, site, contact, state, owner_kind, owner_id, owner_name, epoch, rev, last_seq, last_pseq,
				opened_at, queued_at, assigned_at, closed_at, close_reason, page, preview, preview_from, at, last_agent)
			SELECT printf('c%06d', i), 'main', ?, ?, 'closed', '', '', '', 1, 2, 0, 0, i, i, i, i + 1, '', '', 'bye', 'customer', i, 'gone' FROM k`, n, r.site.ID, r.contact.ID)
	})
	if err != nil {
		r.t.Fatal(err)
	}
}

// TestListPagesAreBounded: among 10,000 closed conversations, a page looks at a bounded number, whatever the filter
// and the scope leave of them, and what is rare is found behind it.
func TestListPagesAreBounded(t *testing.T) {
	r := newRig(t, Options{})
	const n = 10_000
	r.many(n)
	r.must(store.Tag{Conv: "c000001", By: r.agent.Actor(), Add: []string{"rare"}})
	for name, c := range map[string]struct {
		s           store.Scope
		f           store.Filter
		found, most int // conversations, pages
	}{
		"none may be seen":   {store.Scope{Agent: "x"}, store.Filter{State: store.Closed}, 0, n/listed + 1},
		"of no group":        {store.Scope{All: true}, store.Filter{Group: "x"}, 0, n/listed + 1},
		"a rare tag":         {store.Scope{All: true}, store.Filter{Tag: "rare"}, 1, 1},
		"a day":              {store.Scope{All: true}, store.Filter{From: 5000, To: 5010}, 10, 1},
		"an agent":           {store.Scope{All: true}, store.Filter{Agent: "x"}, 0, 1},
		"the oldest":         {store.Scope{All: true}, store.Filter{State: store.Closed, To: 3}, 2, 1},
		"a day of the agent": {store.Scope{All: true}, store.Filter{Agent: "gone", From: 9990}, 11, 1},
	} {
		found, pages := 0, 0
		for cursor := ""; pages == 0 || cursor != ""; pages++ {
			page, next, err := r.Cold().History(t.Context(), c.s, c.f, cursor, 20)
			if err != nil {
				t.Fatal(err)
			}
			found, cursor = found+len(page), next
		}
		if found != c.found || pages > c.most {
			t.Errorf("%s: %d found on %d pages, want %d on at most %d", name, found, pages, c.found, c.most)
		}
	}
	if page, next, err := r.Cold().History(t.Context(), store.Scope{All: true}, store.Filter{State: store.Closed}, "", 20); len(page) != 20 || page[0].ID != "c010000" || next == "" || err != nil {
		t.Errorf("%d on the first page, %q, %v", len(page), next, err)
	}
	if _, next, err := r.Cold().History(t.Context(), store.Scope{Agent: "x"}, store.Filter{State: store.Closed}, "", 20); next != cursorAfter(&store.Conversation{OpenedAt: n - listed + 1, ID: "c008001"}) || err != nil {
		t.Errorf("the first page ends at %q, %v", next, err)
	}
}

// Tags of an older database are in the lists.
func TestTagsAreListedAfterMigration(t *testing.T) {
	path := filepath.Join(t.TempDir(), "desk.db")
	const head = `INSERT INTO conversation (id, workspace, site, contact, state, owner_kind, owner_id, owner_name, epoch, rev, last_seq, last_pseq,
		opened_at, queued_at, assigned_at, closed_at, close_reason, page, preview, preview_from, at) VALUES `
	oldDatabase(t, path, 4, `INSERT INTO setting VALUES ('store_id', 'the-id')`, `INSERT INTO workspace VALUES ('main', 'Main', 1)`,
		`INSERT INTO site (id, workspace, key, name, bot_name, created) VALUES ('s', 'main', 'demo', 'Demo', 'Eddy', 1)`,
		`INSERT INTO contact (id, workspace, site, name, created) VALUES ('a', 'main', 's', 'Ann', 1)`,
		head+`('old', 'main', 's', 'a', 'closed', '', '', '', 1, 2, 0, 0, 10, 10, 30, 60, '', '', '', '', 60)`,
		head+`('new', 'main', 's', 'a', 'closed', '', '', '', 1, 2, 0, 0, 20, 10, 30, 60, '', '', '', '', 60)`,
		`INSERT INTO conversation_tag (conversation, tag) VALUES ('old', 'vip'), ('new', 'VIP')`)
	db := open(t, Options{Path: path})
	page, _, err := db.Cold().History(t.Context(), store.Scope{All: true}, store.Filter{Tag: "Vip", From: 10, To: 21}, "", 20)
	if err != nil || len(page) != 2 || page[0].ID != "new" || page[1].ID != "old" {
		t.Errorf("%+v %v", page, err)
	}
}
