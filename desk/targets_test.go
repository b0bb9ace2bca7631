package desk

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-eddy/eddy/desk/api"
	"github.com/go-eddy/eddy/desk/desktest"
	"github.com/go-eddy/eddy/desk/perm"
	"github.com/go-eddy/eddy/desk/store"
	"github.com/go-eddy/eddy/internal/testkit"
)

// Feed and webhooks tell that half of the time for a first answer has passed, and that all of it has, each once, and not
// again after a restart.
func TestTargetsAreTold(t *testing.T) {
	clock := desktest.NewClock()
	o := testOptions(t)
	o.Now = clock.Now
	s := serve(t, o)
	group, err := s.desk.store.CreateGroup(s.ctx, store.Group{Name: "Sales", Settings: store.GroupSettings{Target: 60_000, Strategy: store.Manual}})
	s.ok(err)
	site, err := s.desk.store.Cold().SiteByKey(s.ctx, "demo")
	s.ok(err)
	site.Group = group.ID
	s.ok(s.desk.store.UpdateSite(s.ctx, site))
	r := newReceiver(t)
	_, err = s.desk.store.CreateWebhook(s.ctx, store.Webhook{
		URL: r.url, Private: true, Secrets: []string{r.secret}, Types: []store.EventType{store.EventTargetWarned, store.EventTargetMissed},
	})
	s.ok(err)
	p := s.program(perm.KeyEvents)
	conv, err := s.customer().Open(s.ctx, "human")
	s.ok(err)
	told := func() (all []api.Happening) {
		for _, e := range p.feed("").Events {
			if strings.HasPrefix(e.Type, "target.") {
				all = append(all, e)
			}
		}
		return all
	}
	for i, what := range []string{"target.warned", "target.missed"} {
		clock.Move(31 * time.Second)
		s.ok(s.desk.store.UpdateSite(s.ctx, site)) // the router looks at the clock
		testkit.Eventually(t, what, func() bool { return len(told()) == i+1 && len(r.got()) == i+1 })
	}
	s.stop()
	s.start()
	clock.Move(time.Minute)
	s.ok(s.desk.store.UpdateSite(s.ctx, site)) // the router looks at the clock
	_, err = s.customer().Open(s.ctx, "human")
	s.ok(err)
	clock.Move(31 * time.Second)
	s.ok(s.desk.store.UpdateSite(s.ctx, site)) // the router looks at the clock
	testkit.Eventually(t, "the next one", func() bool { return len(told()) == 3 && len(r.got()) >= 3 })
	ids := make(map[string]bool)
	for _, e := range r.got() {
		ids[e.ID] = true
	}
	for i, e := range told()[:2] {
		if e.Type != []string{"target.warned", "target.missed"}[i] || e.Target == nil || e.Target.Group != group.ID || e.Target.In != 60_000 || e.Target.Since != e.Conversation.Times.Queued ||
			e.Conversation.ID != conv || e.Site != "demo" || e.Entry != nil || !ids[e.ID] {
			t.Errorf("%+v %+v", e, e.Target)
		}
	}
	if len(ids) != 3 {
		t.Errorf("the webhook has %d events", len(ids))
	}
}

// A program says how urgent the conversation is that it opens, if its key may. One that is open keeps its priority.
func TestProgramOpensWithPriority(t *testing.T) {
	s := serve(t, testOptions(t))
	all := s.program(perm.KeyOpen, perm.KeyPriority, perm.KeyWrite)
	_, contact := waiting(t, s.desk)
	body := func(contact, priority string) string {
		return fmt.Sprintf(`{"contact":%q,"human":true,"priority":%q}`, contact, priority)
	}
	fresh := func(n int) string {
		t.Helper()
		status, data := all.ask("POST", "/api/v1/contacts", fmt.Sprintf(`{"site":"demo","external":"u%d"}`, n))
		var c api.Stored
		into(all, status, data, &c)
		return c.ID
	}
	open := func(contact, priority string) (o api.Opened) {
		t.Helper()
		status, data := all.ask("POST", "/api/v1/conversations", body(contact, priority), "Idempotency-Key", "1")
		into(all, status, data, &o)
		return o
	}
	for i, priority := range slices.Concat(store.Priorities(), []string{""}) {
		want := priority
		if want == "" {
			want = "normal"
		}
		c := fresh(i)
		if o := open(c, priority); o.Conversation.Priority != want || o.Existing {
			t.Errorf("%q: %+v", priority, o)
		}
		if again := open(c, "low"); !again.Duplicate || again.Conversation.Priority != want {
			t.Errorf("again: %+v", again)
		}
	}
	if o := open(contact, "urgent"); !o.Existing || o.Conversation.Priority != "normal" {
		t.Errorf("%+v", o)
	}
	queue, _, err := s.desk.store.Cold().Queue(s.ctx, 10)
	if s.ok(err); len(queue) != 6 || queue[0].Priority != store.PriorityUrgent || queue[1].Priority != store.PriorityHigh || queue[5].Priority != store.PriorityLow {
		t.Errorf("%+v", queue)
	}
	for _, wrong := range []string{"soon", "Urgent", " ", strings.Repeat("x", 1000)} {
		if status, data := all.ask("POST", "/api/v1/conversations", body(contact, wrong), "Idempotency-Key", "2"); status != http.StatusBadRequest || !strings.Contains(string(data), "urgent, high, normal, low") || len(data) > 400 {
			t.Errorf("%.20q: %d %s", wrong, status, data)
		}
	}

	secret, key := newKey(t, s.desk, slices.DeleteFunc(perm.KeyScopes(), func(k perm.KeyScope) bool { return k == perm.KeyPriority })...)
	lacking := &program{s, secret, all.http}
	free := fresh(9)
	resp, data, err := lacking.try("POST", "/api/v1/conversations", body(free, "urgent"), "Idempotency-Key", "3")
	if s.ok(err); resp.StatusCode != http.StatusForbidden || !strings.Contains(resp.Header.Get("WWW-Authenticate"), `scope="priority"`) || !strings.Contains(string(data), `\"priority\"`) {
		t.Errorf("%d %v %s", resp.StatusCode, resp.Header, data)
	}
	if rows := desktest.AuditLines(t, s.desk.store, store.AuditQuery{Who: key.ID, Action: store.AuditDenied}, 1); rows[0].Detail != "needs scope priority" {
		t.Errorf("%+v", rows)
	}
	var o api.Opened
	status, data := lacking.ask("POST", "/api/v1/conversations", body(free, ""), "Idempotency-Key", "3")
	if into(lacking, status, data, &o); o.Existing || o.Duplicate {
		t.Errorf("what was refused has opened it: %+v", o)
	}
}
