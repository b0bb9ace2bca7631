package desk

import (
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/go-eddy/eddy/desk/api"
	"github.com/go-eddy/eddy/desk/auth"
	"github.com/go-eddy/eddy/desk/backup"
	"github.com/go-eddy/eddy/desk/perm"
	"github.com/go-eddy/eddy/desk/store"
	"github.com/go-eddy/eddy/internal/testkit"
)

// feed reads a page of the feed.
func (p *program) feed(query string) api.Feed {
	p.s.t.Helper()
	return get[api.Feed](p, "/api/v1/events?"+query)
}

func typesOf(f api.Feed) (types []string) {
	for _, e := range f.Events {
		types = append(types, e.Type)
	}
	return types
}

// The feed has everything that happens, in order and masked, and goes on behind its cursor, also after a restart.
func TestFeed(t *testing.T) {
	s := serve(t, testOptions(t))
	p := s.program(perm.KeyEvents, perm.KeyTags)
	ann, lin := s.customer(), s.agent()
	site, err := s.desk.store.Cold().SiteByKey(s.ctx, "demo")
	s.ok(err)
	_, token := auth.NewToken()
	_, err = s.desk.store.CreateVisitor(s.ctx, site, token, time.Now().Add(time.Hour))
	s.ok(err)
	s.ok(s.desk.store.DropVisitor(s.ctx, token)) // of which only servers are told
	if f := p.feed(""); len(f.Events) != 0 || f.More || f.Gap || f.Cursor == "" {
		t.Errorf("%+v", f)
	}
	begin := p.feed("after=latest").Cursor
	conv, err := ann.Open(s.ctx, "human")
	s.ok(err)
	s.ok(lin.Take(s.ctx, conv))
	ann.Send(conv, "call me on 13800138000")
	s.ok(ann.Flushed(s.ctx))
	_, err = lin.Do(s.ctx, "note.send", conv, map[string]string{"client_id": uuid.NewString(), "body": "a friend"})
	s.ok(err)
	p.ask("POST", "/api/v1/conversations/"+conv+"/tags", `{"add":["vip"]}`)
	s.ok(lin.EndConv(s.ctx, conv, "done"))
	f := p.feed("after=" + begin)
	want := []string{"conversation.opened", "conversation.assigned", "message.created", "message.created", "conversation.tags", "conversation.closed"}
	if !slices.Equal(typesOf(f), want) || f.More || f.Gap {
		t.Fatalf("%q, want %q", typesOf(f), want)
	}
	said, note, tags := f.Events[2], f.Events[3], f.Events[4]
	if said.Entry == nil || said.Entry.Text == "" || strings.Contains(said.Entry.Text, "13800138") || said.Visibility != "all" || said.Conversation.ID != conv || said.Site != "demo" {
		t.Errorf("%+v", said)
	}
	if note.Visibility != "staff" || note.Entry.Kind != store.KindNote || !slices.Equal(tags.Added, []string{"vip"}) || f.Events[5].Entry.Change.State != "closed" {
		t.Errorf("%+v %+v", note, tags)
	}
	first := p.feed("after=" + begin + "&limit=2")
	if len(first.Events) != 2 || !first.More || first.Events[1].ID != f.Events[1].ID {
		t.Errorf("%+v", first)
	}
	s.stop()
	s.start()
	if rest := p.feed("after=" + first.Cursor); len(rest.Events) != 4 || rest.Events[0].ID != f.Events[2].ID || rest.Gap {
		t.Errorf("after a restart: %q", typesOf(rest))
	}
	for _, bad := range []string{"after=x", "after=12345678-x", "after=12345678--1", "limit=0", "limit=101", "wait=26", "wait=-1", "x=1"} {
		if status, _ := p.ask("GET", "/api/v1/events?"+bad, ""); status != http.StatusBadRequest {
			t.Errorf("%s: %d", bad, status)
		}
	}
}

// waits starts a call that waits for an event beside others, and returns its end.
func (p *program) waits(after string, others int) <-chan string {
	p.s.t.Helper()
	testkit.Eventually(p.s.t, "the others to wait", func() bool { return p.s.desk.front.Waiting() == others })
	end := make(chan string, 1)
	go func() {
		resp, data, err := p.try("GET", "/api/v1/events?wait=25&after="+after, "")
		if err != nil {
			end <- err.Error()
			return
		}
		end <- fmt.Sprint(resp.StatusCode, " ", string(data))
	}()
	testkit.Eventually(p.s.t, "the call to wait", func() bool { return p.s.desk.front.Waiting() == others+1 })
	return end
}

// A call that waits is answered by the next event, by the end of its key, and by the end of the server. Few wait at once,
// and other calls go on beside them.
func TestFeedWaits(t *testing.T) {
	s := serve(t, testOptions(t))
	p := s.program(perm.KeyEvents, perm.KeyRead)
	begin := p.feed("after=latest").Cursor
	var ends []<-chan string
	for i := range 4 {
		ends = append(ends, p.waits(begin, i))
	}
	if status, data := p.ask("GET", "/api/v1/events?wait=25&after="+begin, ""); status != http.StatusTooManyRequests {
		t.Errorf("one too many of a key: %d %s", status, data)
	}
	get[api.Conversations](p, "/api/v1/conversations")
	ann := s.customer()
	conv, err := ann.Open(s.ctx, "human")
	s.ok(err)
	for _, end := range ends {
		if got := testkit.Receive(t, "an answer", end); !strings.HasPrefix(got, "200 ") || !strings.Contains(got, "conversation.opened") {
			t.Error(got)
		}
	}
	secret, key := newKey(t, s.desk, perm.KeyEvents)
	gone := &program{s, secret, p.http}
	end := gone.waits(gone.feed("after=latest").Cursor, 0)
	s.ok(s.desk.store.RevokeAPIKey(s.ctx, key.ID))
	ann.Send(conv, "hello")
	if got := testkit.Receive(t, "an answer", end); !strings.HasPrefix(got, "401 ") {
		t.Error(got)
	}
	s.ok(ann.Flushed(s.ctx)) // the wait below is for what comes behind it
	end = p.waits(p.feed("after=latest").Cursor, 0)
	stopped := make(chan error, 1)
	go func() { stopped <- s.desk.Shutdown(s.ctx) }()
	if got := testkit.Receive(t, "an answer", end); !strings.HasPrefix(got, "200 ") || !strings.Contains(got, `"events":[]`) {
		t.Error(got)
	}
	s.ok(testkit.Receive(t, "the end of the server", stopped))
}

// A reader whose events were deleted, or whose server was restored from a backup, is told that events are missing and
// goes on with those that are there.
func TestFeedGaps(t *testing.T) {
	s := serve(t, testOptions(t))
	p := s.program(perm.KeyEvents)
	begin := p.feed("after=latest").Cursor
	ann := s.customer()
	conv, err := ann.Open(s.ctx, "human")
	s.ok(err)
	say := func(text string) {
		t.Helper()
		ann.Send(conv, text)
		s.ok(ann.Flushed(s.ctx))
	}
	say("one")
	say("two")
	_, err = s.desk.store.TrimOutbox(s.ctx, store.OutboxTrim{Before: time.Now().Add(-time.Hour).UnixMilli(), Keep: 1, Limit: 100})
	s.ok(err)
	f := p.feed("after=" + begin)
	if !f.Gap || len(f.Events) != 1 || f.Events[0].Entry.Text != "two" {
		t.Fatalf("%+v", f)
	}
	if f = p.feed("after=" + f.Cursor); f.Gap || len(f.Events) != 0 {
		t.Errorf("the gap is told again: %+v", f)
	}
	if f := p.feed(""); f.Gap || len(f.Events) != 1 {
		t.Errorf("without a cursor: %+v", f)
	}
	to := filepath.Join(t.TempDir(), "backup")
	_, err = backup.Make(s.ctx, backup.Options{DataDir: s.o.DataDir, To: to})
	s.ok(err)
	say("lost")
	lost := p.feed("after=" + f.Cursor)
	if len(lost.Events) != 1 || lost.Gap {
		t.Fatalf("%+v", lost)
	}
	s.stop()
	_, err = backup.Restore(s.ctx, backup.RestoreOptions{From: to, DataDir: s.o.DataDir, Replace: true})
	s.ok(err)
	s.start()
	say("other") // its number is that of the one that was lost
	say("more")
	if f = p.feed("after=" + lost.Cursor); !f.Gap || len(f.Events) != 3 || f.Events[0].Entry.Text != "two" || f.Events[1].Sequence != lost.Events[0].Sequence || f.Events[1].ID == lost.Events[0].ID {
		t.Errorf("after the restore: %+v", f)
	}
	if f = p.feed("after=" + f.Cursor); f.Gap || len(f.Events) != 0 {
		t.Errorf("the gap is told again: %+v", f)
	}
}

// A program makes and changes contacts, and opens one conversation for each call.
func TestProgramOpens(t *testing.T) {
	s := serve(t, testOptions(t))
	p := s.program(perm.KeyScopes()...)
	lin := s.agent()
	save := func(body string) (c api.Stored) {
		t.Helper()
		status, data := p.ask("POST", "/api/v1/contacts", body)
		into(p, status, data, &c)
		return c
	}
	c := save(`{"site":"demo","external":"u-1","name":"Ann","attributes":{"plan":"gold"}}`)
	if !c.New || c.Name != "Ann" || !c.Verified || c.External != "u-1" || c.Site != "demo" {
		t.Errorf("%+v", c)
	}
	if again := save(`{"site":"demo","external":"u-1","attributes":{"city":"Ulm"}}`); again.New || again.ID != c.ID || again.Name != "Ann" || len(again.Attributes) != 2 {
		t.Errorf("%+v", again)
	}
	status, data := p.ask("PATCH", "/api/v1/contacts/"+c.ID, `{"name":"Anne","attributes":{"city":"","vip":"yes"}}`)
	var patched api.Stored
	into(p, status, data, &patched)
	if patched.Name != "Anne" || fmt.Sprint(patched.Attributes) != "map[plan:gold vip:yes]" {
		t.Errorf("%+v", patched)
	}
	open := func(key string) (o api.Opened) {
		t.Helper()
		status, data := p.ask("POST", "/api/v1/conversations", `{"contact":"`+c.ID+`","human":true}`, "Idempotency-Key", key)
		into(p, status, data, &o)
		return o
	}
	o := open("1")
	if o.Existing || o.Duplicate || o.Conversation.State != "queued" || o.Conversation.Contact.ID != c.ID || o.Conversation.Site != "demo" {
		t.Errorf("%+v", o)
	}
	if again := open("1"); !again.Duplicate || again.Conversation.ID != o.Conversation.ID {
		t.Errorf("%+v", again)
	}
	if other := open("2"); !other.Existing || other.Conversation.ID != o.Conversation.ID {
		t.Errorf("%+v", other)
	}
	s.ok(lin.Take(s.ctx, o.Conversation.ID))
	p.send(o.Conversation.ID, "hello", "Hello from the shop.")
	s.ok(lin.EndConv(s.ctx, o.Conversation.ID, "done"))
	if again := open("1"); !again.Duplicate || again.Conversation.State != "closed" {
		t.Errorf("%+v", again)
	}
	for name, c := range map[string]struct {
		method, path, body string
		want               int
	}{
		"no contact":        {"POST", "/api/v1/conversations", `{"contact":"x"}`, http.StatusNotFound},
		"a page too long":   {"POST", "/api/v1/conversations", `{"contact":"` + c.ID + `","page":"` + strings.Repeat("x", 2001) + `"}`, http.StatusBadRequest},
		"no site":           {"POST", "/api/v1/contacts", `{"site":"x","external":"u"}`, http.StatusNotFound},
		"no external":       {"POST", "/api/v1/contacts", `{"site":"demo"}`, http.StatusBadRequest},
		"a long external":   {"POST", "/api/v1/contacts", `{"site":"demo","external":"` + strings.Repeat("x", 201) + `"}`, http.StatusBadRequest},
		"nobody to patch":   {"PATCH", "/api/v1/contacts/x", `{"name":"x"}`, http.StatusNotFound},
		"a name too long":   {"PATCH", "/api/v1/contacts/" + c.ID, `{"name":"` + strings.Repeat("x", 81) + `"}`, http.StatusBadRequest},
		"a wrong attribute": {"PATCH", "/api/v1/contacts/" + c.ID, `{"attributes":{"A b":"x"}}`, http.StatusBadRequest},
		"another method":    {"DELETE", "/api/v1/contacts/" + c.ID, ``, http.StatusMethodNotAllowed},
		"an unknown call":   {"GET", "/api/v1/nothing", ``, http.StatusNotFound},
	} {
		if status, data := p.ask(c.method, c.path, c.body, "Idempotency-Key", "x"); status != c.want {
			t.Errorf("%s: %d %s", name, status, data)
		}
	}
	if status, _ := p.ask("POST", "/api/v1/conversations", `{"contact":"`+c.ID+`"}`); status != http.StatusBadRequest {
		t.Errorf("no Idempotency-Key: %d", status)
	}
	resp, data, err := p.try("PUT", "/api/v1/contacts/"+c.ID, "{}")
	if s.ok(err); resp.StatusCode != http.StatusMethodNotAllowed || resp.Header.Get("Allow") != "GET, HEAD, PATCH" || !strings.Contains(string(data), "PATCH") {
		t.Errorf("%d %v %s", resp.StatusCode, resp.Header, data)
	}
	if rows, err := s.desk.store.Cold().Audit(s.ctx, store.AuditQuery{Action: store.AuditUpdate, Target: "contact " + c.ID}); err != nil || len(rows) != 1 {
		t.Errorf("%+v %v", rows, errors.Join(err))
	}
}
