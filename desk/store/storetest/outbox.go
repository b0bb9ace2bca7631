package storetest

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-eddy/eddy/desk/store"
)

// webhook makes a webhook that is told everything.
func (r *rig) webhook() store.Webhook {
	r.t.Helper()
	w, err := r.CreateWebhook(r.t.Context(), store.Webhook{URL: "https://shop.example/hook", Secrets: []string{strings.Repeat("s", store.MinSecret)}})
	r.must(err)
	return w
}

// outbox returns the rows that programs are told of.
func (r *rig) outbox(after int64) []store.OutboxRow {
	r.t.Helper()
	return slices.DeleteFunc(r.rows(after), func(row store.OutboxRow) bool { return !row.Type.Valid() })
}

func (r *rig) rows(after int64) []store.OutboxRow {
	r.t.Helper()
	p, err := r.Cold().Outbox(r.t.Context(), after, 1_000_000)
	r.must(err)
	return p.Rows
}

// testOutbox: each change of a conversation and of a contact is one row, in the order of the changes, and what fails
// or changes nothing is none. Readers are told when there is something new.
func testOutbox(t *testing.T, r *rig) {
	ctx := t.Context()
	ann := r.visitor()
	news := r.OutboxNews()
	conv := r.assigned(ann, r.lin)
	select {
	case <-news:
	default:
		t.Error("no news")
	}
	r.do(text(conv.ID, ann.Actor(), "hello"))
	r.refused(store.Move{Conv: conv.ID, Trigger: store.TakeOver, By: r.moe.Actor()}, store.ErrConflict)
	r.do(store.Move{Conv: conv.ID, Trigger: store.Return, By: r.lin.Actor(), Note: "n"})
	r.do(store.Tag{Conv: conv.ID, By: r.lin.Actor(), Add: []string{"a", "b"}})
	r.do(store.Tag{Conv: conv.ID, By: r.lin.Actor(), Add: []string{"b", "c"}, Remove: []string{"a"}})
	r.do(store.Tag{Conv: conv.ID, By: r.lin.Actor(), Add: []string{"b"}})
	_, err := r.PatchContact(ctx, store.ContactPatch{Contact: ann.ID, Name: "Ann"})
	r.must(err)
	_, err = r.BlockContact(ctx, ann.ID, false)
	r.must(err)
	r.must(r.SetLocale(ctx, ann.ID, "zh"))
	r.do(store.Move{Conv: conv.ID, Trigger: store.TakeOver, By: r.lin.Actor()})
	r.do(store.Move{Conv: conv.ID, Trigger: store.AgentClose, By: r.lin.Actor()})
	r.do(store.Rate{Conv: conv.ID, By: ann.Actor(), Score: 5})
	var got []string
	ids := make(map[string]bool)
	last := int64(0)
	for _, row := range r.outbox(0) {
		got = append(got, fmt.Sprintf("%s %d %v%v", row.Type, row.Event, row.Tags.Added, row.Tags.Removed))
		if row.Site != r.site.ID || row.Contact != ann.ID || row.Conv != conv.ID && row.Type != store.EventContact || row.Time == 0 || row.Seq <= last || ids[row.ID] {
			t.Errorf("%+v", row)
		}
		ids[row.ID], last = true, row.Seq
	}
	want := []string{
		"conversation.opened 1 [][]", "conversation.assigned 2 [][]", "message.created 3 [][]", "conversation.state 4 [][]", "message.created 5 [][]",
		"conversation.tags 0 [a b][]", "conversation.tags 0 [c][a]", "contact.changed 0 [][]", "contact.changed 0 [][]", "contact.changed 0 [][]",
		"conversation.assigned 6 [][]", "conversation.closed 7 [][]", "conversation.rated 0 [][]",
	}
	if !slices.Equal(got, want) {
		t.Errorf("rows\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	page, err := r.Cold().Outbox(ctx, r.outbox(0)[0].Seq-1, 2)
	if err != nil || len(page.Rows) != 2 || page.Last != last {
		t.Errorf("%+v %v", page, err)
	}
	if rest := r.outbox(page.Rows[1].Seq); len(rest) != len(want)-2 {
		t.Errorf("%d rows behind two", len(rest))
	}
}

// testOutboxBegins: a new webhook is told what happens from then on, and nothing of before.
func testOutboxBegins(t *testing.T, r *rig) {
	r.open(r.visitor(), true)
	hook := r.webhook()
	r.open(r.visitor(), true)
	rows := r.outbox(0)
	got, err := r.Cold().Webhook(t.Context(), hook.ID)
	if err != nil || len(rows) != 2 || got.Position < rows[0].Seq || got.Position >= rows[1].Seq || len(r.outbox(got.Position)) != 1 {
		t.Errorf("%+v %v, rows %+v", got, err, rows)
	}
}

// testOutboxTrim: rows are deleted by age and by number, the oldest first, and the floor says so. Numbers come once.
func testOutboxTrim(t *testing.T, r *rig) {
	ctx := t.Context()
	trim := func(before time.Duration, keep int64, limit int, want bool) {
		t.Helper()
		at := time.Now().Add(time.Duration(r.shift.Load()) - before).UnixMilli()
		if more, err := r.TrimOutbox(ctx, store.OutboxTrim{Before: at, Keep: keep, Limit: limit}); more != want || err != nil {
			t.Errorf("more %v, %v", more, err)
		}
	}
	trim(0, 0, 1000, false) // what has set everything up
	for range 10 {
		r.open(r.visitor(), true)
	}
	first := r.outbox(0)
	trim(time.Hour, 100, 100, false)
	if rows := r.outbox(0); len(rows) != 10 {
		t.Errorf("nothing is old, and %d of 10 are left", len(rows))
	}
	trim(time.Hour, 7, 2, true)
	trim(time.Hour, 7, 2, false)
	page, err := r.Cold().Outbox(ctx, 0, 100)
	if err != nil || len(page.Rows) != 7 || page.Rows[0].Seq != first[3].Seq || page.Floor != first[2].Seq {
		t.Errorf("the newest seven: %+v %v", page, err)
	}
	r.shift.Add(int64(2 * time.Hour))
	r.open(r.visitor(), true)
	trim(time.Hour, 100, 100, false)
	page, err = r.Cold().Outbox(ctx, 0, 100)
	if err != nil || len(page.Rows) != 1 || page.Floor != first[9].Seq {
		t.Errorf("what is young: %+v %v", page, err)
	}
	r.shift.Add(int64(2 * time.Hour))
	trim(time.Hour, 100, 100, false)
	r.open(r.visitor(), true)
	if rows := r.outbox(0); len(rows) != 1 || rows[0].Seq <= page.Rows[0].Seq {
		t.Errorf("a number is used again: %+v", rows)
	}
}

// testHooks: webhooks are made, changed and removed, within their limits.
func testHooks(t *testing.T, r *rig) {
	ctx := t.Context()
	secret := strings.Repeat("x", store.MinSecret)
	made := store.Webhook{
		URL: "https://shop.example/hook", Types: []store.EventType{store.EventOpened, store.EventClosed}, Site: r.site.ID, Secrets: []string{secret}, Private: true, By: r.lin.Actor(),
	}
	for field, change := range map[string]func(*store.Webhook){
		"url required":     func(w *store.Webhook) { w.URL = "" },
		"url long":         func(w *store.Webhook) { w.URL = strings.Repeat("x", store.MaxHookURL+1) },
		"types unknown":    func(w *store.Webhook) { w.Types = []store.EventType{"x"} },
		"types twice":      func(w *store.Webhook) { w.Types = append(w.Types, store.EventOpened) },
		"site unknown":     func(w *store.Webhook) { w.Site = "x" },
		"secrets required": func(w *store.Webhook) { w.Secrets = nil },
		"secrets many":     func(w *store.Webhook) { w.Secrets = []string{secret, secret, secret} },
		"secrets short":    func(w *store.Webhook) { w.Secrets = []string{"x"} },
	} {
		bad := made
		change(&bad)
		_, err := r.CreateWebhook(ctx, bad)
		wrong(t, field, err, field)
	}
	w, err := r.CreateWebhook(ctx, made)
	r.must(err)
	made.ID, made.Created = w.ID, w.Created
	got, err := r.Cold().Webhook(ctx, w.ID)
	made.Position = got.Position
	if made.By.Name = got.By.Name; err != nil || !reflect.DeepEqual(got, made) || w.ID == "" || w.Created == 0 {
		t.Errorf("%+v %v, want %+v", got, err, made)
	}
	other := store.OutboxRow{Type: store.EventOpened, Site: "x"}
	if got.Wants(&other) || !got.Wants(&store.OutboxRow{Type: store.EventOpened, Site: r.site.ID}) || got.Wants(&store.OutboxRow{Type: store.EventTags, Site: r.site.ID}) {
		t.Error("it wants what it does not want")
	}
	got.URL, got.Types, got.Site, got.Secrets, got.Private = "https://other.example", nil, "", []string{secret + "2", secret}, false
	r.must(r.UpdateWebhook(ctx, got))
	if again, err := r.Cold().Webhook(ctx, w.ID); err != nil || !reflect.DeepEqual(again, got) || !again.Wants(&other) {
		t.Errorf("%+v %v, want %+v", again, err, got)
	}
	for range store.MaxWebhooks - 1 {
		r.webhook()
	}
	_, err = r.CreateWebhook(ctx, got)
	wrong(t, "one too many", err, "hooks many")
	if all, err := r.Cold().Webhooks(ctx); err != nil || len(all) != store.MaxWebhooks || all[0].ID != w.ID {
		t.Errorf("%d webhooks, %v", len(all), err)
	}
	r.must(r.DeleteWebhook(ctx, w.ID))
	_, read := r.Cold().Webhook(ctx, w.ID)
	_, work := r.Cold().HookWork(ctx, w.ID, 1, 1)
	_, numbers := r.Cold().HookNumbers(ctx, w.ID)
	for what, err := range map[string]error{
		"read": read, "work": work, "numbers": numbers, "updated": r.UpdateWebhook(ctx, got), "deleted": r.DeleteWebhook(ctx, w.ID), "saved": r.SaveHook(ctx, store.HookProgress{Hook: w.ID}),
	} {
		if !errors.Is(err, store.ErrNotFound) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// testHookEvents: what a webhook has failed waits with everything behind it in its lane. Each is done, given up, tried
// again or discarded, and does not outlive its conversation.
func testHookEvents(t *testing.T, r *rig) {
	ctx := t.Context()
	w := r.webhook()
	ann := r.visitor()
	conv, other := r.assigned(ann, r.lin), r.assigned(r.visitor(), r.moe)
	r.do(store.Tag{Conv: conv.ID, By: r.lin.Actor(), Add: []string{"a"}})
	rows := r.outbox(0) // two of each, and the tag
	held := func(i int, due, dead int64) store.HookEvent {
		e := store.HookEvent{OutboxRow: rows[i], Attempts: 1, Due: due, Dead: dead, Failure: "no"}
		e.Target = store.TargetTold{Group: "g", In: 1, Since: 2}
		return e
	}
	save := func(p store.HookProgress) {
		t.Helper()
		p.Hook = w.ID
		r.must(r.SaveHook(ctx, p))
	}
	work := func(now int64) store.HookWork {
		t.Helper()
		k, err := r.Cold().HookWork(ctx, w.ID, now, 10)
		r.must(err)
		return k
	}
	if k := work(1000); k.Waiting != 0 || len(k.Due)+len(k.Lanes) != 0 || k.Position != rows[0].Seq-1 {
		t.Errorf("%+v", k)
	}
	save(store.HookProgress{Position: rows[4].Seq, Failing: 77, Failure: "status 500", Lost: 3, Keep: []store.HookEvent{held(0, 100, 0), held(1, 0, 0), held(4, 0, 0), held(2, 300, 0)}})
	k := work(200)
	if k.Position != rows[4].Seq || k.Failing != 77 || k.Failure != "status 500" || k.Lost != 3 || k.Waiting != 4 || k.NextDue != 300 ||
		len(k.Due) != 1 || !reflect.DeepEqual(k.Due[0], held(0, 100, 0)) || len(k.Lanes) != 2 || !slices.Contains(k.Lanes, conv.ID) || !slices.Contains(k.Lanes, other.ID) {
		t.Errorf("%+v", k)
	}
	if k := work(300); len(k.Due) != 2 {
		t.Errorf("both are due: %+v", k.Due)
	}
	save(store.HookProgress{Position: 1, Done: []int64{rows[0].Seq}})
	if k := work(200); k.Position != rows[4].Seq || k.Failing != 0 || k.Lost != 3 || len(k.Due) != 1 || k.Due[0].Seq != rows[1].Seq {
		t.Errorf("the next of its lane: %+v", k)
	}
	save(store.HookProgress{Keep: []store.HookEvent{held(1, 100, 5), held(2, 300, 6)}}) // given up
	if k := work(200); k.Waiting != 1 || len(k.Due) != 1 || !reflect.DeepEqual(k.Due[0].Tags.Added, []string{"a"}) {
		t.Errorf("behind one that was given up: %+v", k)
	}
	dead, err := r.Cold().DeadEvents(ctx, w.ID, 10)
	if err != nil || len(dead) != 2 || !reflect.DeepEqual(dead[1], held(1, 100, 5)) || dead[0].Seq != rows[2].Seq {
		t.Errorf("%+v %v", dead, err)
	}
	n, err := r.Cold().HookNumbers(ctx, w.ID)
	if err != nil || n.Waiting != 1 || n.Dead != 2 || n.Behind != 0 || n.Oldest != rows[4].Time {
		t.Errorf("%+v %v", n, err)
	}
	news := r.OutboxNews()
	if n, err := r.RetryDead(ctx, w.ID, rows[1].Seq); n != 1 || err != nil {
		t.Errorf("%d are tried again, %v", n, err)
	}
	select {
	case <-news:
	default:
		t.Error("no news of what is tried again")
	}
	if k := work(1); len(k.Due) != 1 || k.Due[0].Seq != rows[1].Seq || k.Due[0].Dead != 0 {
		t.Errorf("tried again: %+v", k)
	}
	if n, err := r.DropDead(ctx, w.ID, 0); n != 1 || err != nil {
		t.Errorf("%d discarded, %v", n, err)
	}
	r.do(store.Move{Conv: conv.ID, Trigger: store.AgentClose, By: r.lin.Actor()})
	r.shift.Add(int64(time.Hour))
	for more := true; more; {
		d, err := r.DropClosed(ctx, r.site.ID, time.Now().Add(time.Hour).UnixMilli(), 100)
		r.must(err)
		more = d.More
	}
	if k := work(1000); k.Waiting != 0 {
		t.Errorf("of a conversation that is deleted: %+v", k)
	}
	for _, row := range r.outbox(0) {
		if len(row.Tags.Added) > 0 {
			t.Errorf("tags of a conversation that is deleted: %+v", row)
		}
	}
	var many []store.HookEvent
	for i := range 3 {
		e := held(0, 0, 9)
		e.Seq = int64(1000 + i)
		many = append(many, e)
	}
	save(store.HookProgress{Keep: many})
	if n, err := r.DropDead(ctx, w.ID, 1001); n != 1 || err != nil {
		t.Errorf("%d of three discarded, %v", n, err)
	}
	if n, err := r.RetryDead(ctx, w.ID, 0); n != 2 || err != nil {
		t.Errorf("%d of two tried again, %v", n, err)
	}
}

// testOpenByProgram: a program opens a conversation once, and is asked no questions of the site.
func testOpenByProgram(t *testing.T, r *rig) {
	r.site.Settings.PreChat = []store.Field{{Name: "order", Label: "Order", Type: "text", Required: true}}
	r.must(r.UpdateSite(t.Context(), r.site))
	ann, shop := r.visitor(), store.Actor{Kind: store.System, ID: "shop", Name: "Shop"}
	open := store.Open{Contact: ann, Human: true, By: shop, ClientID: "1"}
	out := r.do(open)
	e := out.Events[0]
	if out.Conv.State != store.Queued || e.From != shop || e.ClientID != "1" || e.Change.Event != "opened" {
		t.Fatalf("%+v", out)
	}
	if again := r.do(open); !again.Dup || again.Conv.ID != out.Conv.ID || len(again.Events) != 0 {
		t.Errorf("again: %+v", again)
	}
	open.ClientID = "2"
	if other := r.do(open); !other.Existing || other.Conv.ID != out.Conv.ID {
		t.Errorf("another call: %+v", other)
	}
	r.do(store.Move{Conv: out.Conv.ID, Trigger: store.CustomerClose, By: ann.Actor()})
	open.ClientID = "1"
	if again := r.do(open); !again.Dup || again.Conv.State != store.Closed {
		t.Errorf("again after the close: %+v", again)
	}
	open.By.ID = "bank"
	if other := r.do(open); other.Dup || other.Conv.ID == out.Conv.ID {
		t.Errorf("another program: %+v", other)
	}
	r.opensWith()
}

// opensWith: the priority that a program names counts in the queue instead of that of a rule, and with the bot until a
// rule decides at the hand-over.
func (r *rig) opensWith() {
	r.t.Helper()
	r.site = r.ruled("by-programs", store.RouteRule{Page: "orders", Priority: "low"})
	shop := store.Actor{Kind: store.System, ID: "shop", Name: "Shop"}
	for _, c := range []struct {
		page  string
		human bool
		p     store.Priority
		want  store.Priority
	}{
		{"", true, 0, store.PriorityNormal}, {"", true, store.PriorityUrgent, store.PriorityUrgent}, {"orders", true, 0, store.PriorityLow},
		{"orders", true, store.PriorityUrgent, store.PriorityUrgent}, {"orders", true, store.PriorityNormal, store.PriorityNormal}, {"orders", false, store.PriorityHigh, store.PriorityHigh},
	} {
		conv := r.do(store.Open{Contact: r.visitor(), Human: c.human, Page: c.page, Priority: c.p, By: shop, ClientID: "1"}).Conv
		if conv != r.head(conv.ID) || conv.Priority != c.want {
			r.t.Errorf("%+v: %+v", c, conv)
		}
		if c.human {
			continue
		}
		if out := r.do(store.Move{Conv: conv.ID, Trigger: store.Handoff, By: store.Actor{Kind: store.Customer, ID: conv.Contact}}); out.Conv.Priority != store.PriorityLow {
			r.t.Errorf("handed over: %+v", out.Conv)
		}
	}
}
