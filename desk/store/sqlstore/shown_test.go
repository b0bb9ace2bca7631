package sqlstore

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-eddy/eddy/desk/store"
	"github.com/go-eddy/eddy/internal/testkit"
)

// shown returns what the pages read of a database.
func shown(t *testing.T, path string) (lines []string) {
	t.Helper()
	db := open(t, Options{Path: path, Logger: slog.New(slog.DiscardHandler)})
	testkit.Eventually(t, "the search to have everything", func() bool { return db.Stats().Unindexed == 0 })
	ctx, r, now := t.Context(), db.Cold(), time.UnixMilli(100)
	say := func(what string, v any, err error) {
		t.Helper()
		text, bad := json.Marshal(v)
		if err != nil || bad != nil {
			t.Errorf("%s: %v %v", what, err, bad)
		}
		lines = append(lines, what+" "+string(text))
	}
	all, _, err := r.Conversations(ctx, store.ConvQuery{})
	say("conversations", all, err)
	for _, c := range all {
		events, _, err := r.Events(ctx, c.ID, store.StaffSide, 0, 100, 1<<20)
		say("events "+c.ID, events, err)
	}
	for name, f := range map[string]store.Filter{
		"all": {}, "closed": {State: store.Closed}, "deferred": {State: store.Deferred}, "snoozed": {Snoozed: true}, "open": {Open: true}, "tag": {Tag: "vip"}, "agent": {Agent: "lin"},
		"group": {Group: "g"}, "rated": {ScoreFrom: 4}, "contact": {Contact: "a"},
	} {
		page, _, err := r.History(ctx, store.Scope{Agent: "moe", All: true}, f, "", 100)
		say("list "+name, page, err)
	}
	for _, words := range []string{"order", "hello", "later"} {
		hits, _, err := r.Search(ctx, store.Scope{Agent: "moe", All: true}, words, store.Filter{}, "", 10)
		say("search "+words, hits, err)
	}
	for _, words := range []string{"", "ann", "49301234", "u-77", "visitor"} {
		found, _, err := r.Contacts(ctx, store.ContactQuery{Words: words})
		say("contacts "+words, found, err)
	}
	for _, by := range store.Kinds() {
		rows, total, err := db.Background().ReportTotal(ctx, store.ReportQuery{By: by, From: 0, To: store.SlotQuarter * 4})
		say("report "+string(by), []any{rows, total}, err)
	}
	staff, err := r.Staff(ctx)
	say("staff", staff, err)
	loads, err := r.Loads(ctx)
	say("loads", loads, err)
	queue, n, err := r.Queue(ctx, 10)
	say(fmt.Sprint("queue of ", n), queue, err)
	mails, err := r.MailCounts(ctx)
	say("mails", mails, err)
	filters, err := r.SavedFilters(ctx, "lin")
	say("filters", filters, err)
	factor, err := r.Factor(ctx, "moe")
	say("factor", factor, unless(err, store.ErrNotFound))
	invited, err := r.Invitations(ctx)
	say("invitations", invited, err)
	hooks, err := r.Webhooks(ctx)
	say("webhooks", hooks, err)
	work, err := r.HookWork(ctx, "w1", now.UnixMilli(), 10)
	say("work", work, unless(err, store.ErrNotFound))
	outbox, err := r.Outbox(ctx, 0, 10)
	say("outbox", outbox, err)
	canned, err := r.Canned(ctx, "lin", "", "", 10)
	say("canned", canned, err)
	wrong, err := db.Reconcile(ctx)
	say("wrong counters", wrong, err)
	wrong, err = db.Recount(ctx)
	say("wrong numbers", wrong, err)
	slices.Sort(lines)
	return lines
}

// unless returns err if it is not what may be.
func unless(err, may error) error {
	if errors.Is(err, may) {
		return nil
	}
	return err
}

// checkShown looks whether the pages show anything at all.
func checkShown(t *testing.T, pages []string) {
	t.Helper()
	text := strings.Join(pages, "\n")
	for _, want := range []string{
		`wrong counters 0`, `wrong numbers 0`, `"Queued":1,"Dead":1`, `list snoozed [{"ID":"assigned"`, `list deferred [{"ID":"left"`, `list tag [{"ID":"served"`, `list rated [{"ID":"served"`,
		`search order [{"Event":{"Conv":"served"`, `contacts 49301234 [{"ID":"a"`, `contacts visitor null`, `queue of 1 [{"ID":"queued"`, `"rated":1,"score":4`, `status 500`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the pages do not have %s:\n%s", want, text)
		}
	}
}
