package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-eddy/eddy/desk/store"
	"github.com/go-eddy/eddy/desk/store/storetest"
)

// TestStatementsFindByIndex: no statement that the conformance suite has run goes through a whole table that grows without an
// end, or through all messages of a conversation, but for those that say why. One that does gets slower with every customer.
func TestStatementsFindByIndex(t *testing.T) {
	if raceEnabled {
		t.Skip("no goroutines of its own: the conformance suite runs under the race detector by itself")
	}
	var opened []*DB
	storetest.Run(t, storetest.Backend{
		New: fresh,
		Open: func(ctx context.Context, place string, now func() time.Time) (store.Store, error) {
			db, err := Open(ctx, Options{Path: place, Mail: true, Now: now})
			if err == nil {
				opened = append(opened, db)
			}
			return db, err
		},
		Settle:    func(ctx context.Context, s store.Store) error { return s.(*DB).PackDays(ctx) },
		Rounds:    1,
		Customers: 20,
		Quick:     true,
	})
	all := make(map[string]bool)
	for _, db := range opened {
		for query := range db.work.tx.session.(*fileSession).stmts {
			all[query] = true
		}
		for _, r := range []*reader{db.hot, db.cold, db.back} {
			for query := range r.db.all {
				all[query] = true
			}
		}
	}
	path := fresh(t)
	upgraded(t, path)
	conn := raw(t, path)
	var scans []string
	for _, query := range slices.Sorted(maps.Keys(all)) {
		for _, step := range plan(t, conn, query) {
			scans = append(scans, fmt.Sprintf("%s: %.300s", step, strings.Join(strings.Fields(query), " ")))
		}
	}
	used := make(map[string]bool)
	for _, s := range scans {
		if !mayScan(s, used) {
			t.Error(s)
		}
	}
	for _, e := range mayBeScanned {
		if !used[e.part] {
			t.Errorf("nothing scans %q any more", e.part)
		}
	}
	if len(all) < 300 {
		t.Errorf("%d statements: the suite has run only a part", len(all))
	}
}

// mayBeScanned are parts of the steps and statements that may go through a whole table or index, and why.
var mayBeScanned = []struct{ part, why string }{
	{"USING INDEX conversation_open", "only conversations that are not closed are in it"},
	{"USING INDEX conversation_queue", "only those that wait"},
	{"USING INDEX message_unindexed", "only what the search does not have yet"},
	{"USING INDEX attachment_checking", "only files that are being checked"},
	{"USING INDEX bot_turn_open", "only turns that bots have still to answer"},
	{"FROM audit_log WHERE TRUE", "a page from the newest line on, for administrators"},
	{"FROM outbox ORDER BY seq LIMIT", "the oldest rows, as many as the limit says"},
	{"EXCEPT SELECT", "the check of the reports, which is run by hand"},
	{"FROM message WHERE conversation = ? ORDER BY seq LIMIT", "the oldest messages, as many as the limit says"},
	{"SELECT meta, body FROM message", "the last texts of the customer, when a conversation is routed"},
	{"sum(a.size)", "what all files take, once in a round of the keeper"},
}

func mayScan(scan string, used map[string]bool) bool {
	for _, e := range mayBeScanned {
		if strings.Contains(scan, e.part) {
			used[e.part] = true
			return true
		}
	}
	return false
}

// growing are the tables whose rows become more with every customer.
var growing = []string{"contact", "contact_token", "contact_key", "contact_value", "conversation", "message", "attachment", "assignment", "conversation_tag", "bot_turn", "audit_log", "outbox", "counted"}

// named finds the tables of a query and what they are called in it.
var named = regexp.MustCompile(`(?i)\b(?:from|join|update|into)\s+(\w+)(?:\s+as)?(?:\s+(\w+))?`)

// plan returns the steps of a query that go through a whole table that grows, a whole index of one, or all messages of a
// conversation.
func plan(t *testing.T, conn *sql.Conn, query string) (steps []string) {
	t.Helper()
	tables := make(map[string]string)
	for _, m := range named.FindAllStringSubmatch(query, -1) {
		if slices.Contains(growing, m[1]) {
			tables[m[1]], tables[m[2]] = m[1], m[1]
		}
	}
	n := strings.Count(query, "?")
	for i := n; i > 0; i-- { // numbered ones may be there more than once
		if strings.Contains(query, fmt.Sprint("?", i)) {
			n = i
			break
		}
	}
	rows, err := conn.QueryContext(t.Context(), `EXPLAIN QUERY PLAN `+sqliteDialect.rewrite(query), make([]any, n)...)
	if err != nil {
		t.Fatal(query, err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var id, parent, unused int
		var detail string
		if err := rows.Scan(&id, &parent, &unused, &detail); err != nil {
			t.Fatal(err)
		}
		words := strings.Fields(detail)
		if len(words) < 2 || tables[words[1]] == "" {
			continue
		}
		if words[0] == "SCAN" || tables[words[1]] == "message" && strings.HasSuffix(detail, "USING PRIMARY KEY (conversation=?)") {
			steps = append(steps, detail)
		}
	}
	return steps
}
