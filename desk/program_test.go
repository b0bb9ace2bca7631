package desk

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-eddy/eddy/desk/api"
	"github.com/go-eddy/eddy/desk/auth"
	"github.com/go-eddy/eddy/desk/desktest"
	"github.com/go-eddy/eddy/desk/perm"
	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/store"
	"github.com/go-eddy/eddy/internal/testkit"
)

// newKey makes an API key with scopes.
func newKey(t *testing.T, d *Desk, scopes ...perm.KeyScope) (secret string, key store.APIKey) {
	t.Helper()
	secret, prefix, hash := auth.NewKey()
	key, err := d.store.CreateAPIKey(testkit.Context(t), store.APIKey{Name: "Shop", Prefix: prefix, Scopes: scopes}, hash)
	if err != nil {
		t.Fatal(err)
	}
	return secret, key
}

// problemOf reads a problem object.
func problemOf(t *testing.T, r *http.Response) proto.Error {
	t.Helper()
	if ct := r.Header.Get("Content-Type"); ct != "application/problem+json" {
		t.Errorf("a problem as %q", ct)
	}
	return desktest.Into[proto.Error](t, r)
}

// program is a client of the integration API over the network.
type program struct {
	s      *served
	secret string
	http   *http.Client
}

func (s *served) program(scopes ...perm.KeyScope) *program {
	s.t.Helper()
	secret, _ := newKey(s.t, s.desk, scopes...)
	client := &http.Client{Transport: &http.Transport{}}
	s.t.Cleanup(client.CloseIdleConnections)
	return &program{s, secret, client}
}

// try makes a call and reads the answer.
func (p *program) try(method, path, body string, headers ...string) (*http.Response, []byte, error) {
	req, err := http.NewRequestWithContext(p.s.ctx, method, p.s.base.Load().(string)+path, strings.NewReader(body))
	if err != nil {
		return nil, nil, err
	}
	req.Header.Set("Authorization", "Bearer "+p.secret)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := p.http.Do(req)
	if err != nil {
		return nil, nil, err
	}
	data, err := io.ReadAll(resp.Body)
	return resp, data, errors.Join(err, resp.Body.Close())
}

// ask makes a call and returns status and body.
func (p *program) ask(method, path, body string, headers ...string) (int, []byte) {
	p.s.t.Helper()
	resp, data, err := p.try(method, path, body, headers...)
	p.s.ok(err)
	if resp.StatusCode != http.StatusOK && resp.Header.Get("Content-Type") != "application/problem+json" {
		p.s.t.Errorf("%s %s: %d as %s", method, path, resp.StatusCode, resp.Header.Get("Content-Type"))
	}
	if len(resp.Cookies()) > 0 || resp.Header.Get("Access-Control-Allow-Origin") != "" {
		p.s.t.Errorf("%s %s: cookies or CORS: %v", method, path, resp.Header)
	}
	return resp.StatusCode, data
}

// get makes a call that has to succeed, and checks that the answer has no field that the type has not.
func get[T any](p *program, path string) (v T) {
	p.s.t.Helper()
	status, data := p.ask("GET", path, "")
	into(p, status, data, &v)
	return v
}

func into(p *program, status int, data []byte, v any) {
	p.s.t.Helper()
	if status != http.StatusOK {
		p.s.t.Fatalf("%d %s", status, data)
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	p.s.ok(d.Decode(v))
	var again, sent map[string]any // with DisallowUnknownFields: exactly the fields that the description has
	encoded, err := json.Marshal(v)
	p.s.ok(errors.Join(err, json.Unmarshal(encoded, &again), json.Unmarshal(data, &sent)))
	if fmt.Sprint(again) != fmt.Sprint(sent) {
		p.s.t.Errorf("sent %s, read %s", data, encoded)
	}
}

// send sends a message with an Idempotency-Key.
func (p *program) send(conv, id, text string) (sent api.Sent) {
	p.s.t.Helper()
	body, err := json.Marshal(api.Message{Text: text})
	p.s.ok(err)
	status, data := p.ask("POST", "/api/v1/conversations/"+conv+"/messages", string(body), "Idempotency-Key", id)
	into(p, status, data, &sent)
	return sent
}

// A program reads a chat, writes into it and tags it; customer and agent see that at once, and the agent keeps the chat.
func TestProgram(t *testing.T) {
	s := serve(t, testOptions(t))
	p := s.program(perm.KeyScopes()...)
	ann, lin := s.customer(), s.agent()
	conv, err := ann.Open(s.ctx, "human")
	s.ok(err)
	s.ok(lin.Take(s.ctx, conv))
	ann.Send(conv, "where is my parcel?")
	s.ok(ann.Flushed(s.ctx))

	sent := p.send(conv, "parcel-1", "Your parcel has left.")
	if again := p.send(conv, "parcel-1", "Your parcel has left."); !again.Duplicate || sent.Duplicate || again.Seq != sent.Seq || again.ID != sent.ID {
		t.Errorf("first %+v, then %+v", sent, again)
	}
	if status, data := p.ask("POST", "/api/v1/conversations/"+conv+"/messages", `{"text":"another"}`, "Idempotency-Key", "parcel-1"); status != http.StatusConflict {
		t.Errorf("another text under the same key: %d %s", status, data)
	}
	for who, c := range map[string]*desktest.Client{"Shop": lin, "": ann} {
		f, err := c.Event(s.ctx, conv, func(f desktest.Frame) bool { return f.T == "ev.msg" && strings.Contains(string(f.D), "has left") })
		s.ok(err)
		var m proto.Msg
		if f.Decode(&m); m.Kind != store.KindNotice || m.From.Kind != "system" || m.From.Name != who || m.ClientID != "" {
			t.Errorf("%s", f.D)
		}
	}
	status, data := p.ask("POST", "/api/v1/conversations/"+conv+"/tags", `{"add":["parcel","vip"],"remove":["x"]}`)
	var tagged proto.Tagged
	into(p, status, data, &tagged)
	_, err = lin.Other(s.ctx, func(f desktest.Frame) bool { return f.T == "ev.conv" && strings.Contains(string(f.D), `"parcel"`) })
	s.ok(err)

	d := get[api.Detail](p, "/api/v1/conversations/"+conv)
	if d.State != "assigned" || d.Owner == nil || d.Owner.Name != "Agent" || !slices.Equal(d.Tags, []string{"parcel", "vip"}) || d.Site != "demo" || d.Times.Waiting == 0 {
		t.Errorf("%+v", d)
	}
	page := get[api.Conversations](p, "/api/v1/conversations?state=assigned")
	if len(page.Conversations) != 1 || page.Cursor != "" || page.Conversations[0].ID != conv {
		t.Errorf("%+v", page)
	}
	s.ok(lin.EndConv(s.ctx, conv, "done"))
	if status, data := p.ask("POST", "/api/v1/conversations/"+conv+"/messages", `{"text":"too late"}`, "Idempotency-Key", "2"); status != http.StatusConflict || !strings.Contains(string(data), `"closed"`) || strings.Contains(string(data), "head") {
		t.Errorf("into a closed chat: %d %s", status, data)
	}
	if again := p.send(conv, "parcel-1", "Your parcel has left."); !again.Duplicate {
		t.Errorf("again after the close: %+v", again)
	}
	var seqs []uint64
	var kinds []string
	for after := uint64(0); ; {
		page := get[api.Events](p, fmt.Sprintf("/api/v1/conversations/%s/events?after=%d&limit=2", conv, after))
		for _, e := range page.Events {
			seqs, kinds = append(seqs, e.Seq), append(kinds, e.Kind)
			after = e.Seq
		}
		if !page.More {
			break
		}
	}
	if !slices.Equal(seqs, []uint64{1, 2, 3, 4, 5}) || strings.Join(kinds, " ") != "event event text notice event" {
		t.Errorf("events %v %v", seqs, kinds)
	}
	period := fmt.Sprintf("from=%d&to=%d", d.Times.Opened-time.Hour.Milliseconds(), d.Times.Opened+time.Hour.Milliseconds())
	if report := get[api.Report](p, "/api/v1/reports?by=site&"+period); len(report.Rows) != 1 || report.Rows[0].Opened != 1 || report.Rows[0].Closed != 1 {
		t.Errorf("%+v", report)
	}
	if report := get[api.Report](p, "/api/v1/reports?by=site&tag=nobody's&"+period); len(report.Rows) != 0 || report.Total.Opened != 0 {
		t.Errorf("of a tag that nothing has: %+v", report)
	}
	if c := get[api.Contact](p, "/api/v1/contacts/"+ann.Me().ID); c.ID != ann.Me().ID || c.Site != "demo" {
		t.Errorf("%+v", c)
	}
}

// Of calls at once with the same Idempotency-Key one stores the message, and all are told which it is.
func TestProgramSendsOnce(t *testing.T) {
	s := serve(t, testOptions(t))
	p := s.program(perm.KeySend)
	conv, _ := waiting(t, s.desk)
	const calls = 4 // as many as may run at once
	answers := make(chan []byte, calls)
	for range calls {
		go func() {
			_, data, err := p.try("POST", "/api/v1/conversations/"+conv+"/messages", `{"text":"hello"}`, "Idempotency-Key", "1", "Content-Type", "application/json")
			if err != nil {
				t.Error(err)
			}
			answers <- data
		}()
	}
	first := 0
	ids := make(map[string]bool)
	for range calls {
		var sent api.Sent
		s.ok(json.Unmarshal(testkit.Receive(t, "an answer", answers), &sent))
		ids[sent.ID] = true
		if !sent.Duplicate {
			first++
		}
	}
	if c, err := s.desk.store.Cold().Conversation(s.ctx, conv); err != nil || c.LastSeq != 2 || first != 1 || len(ids) != 1 {
		t.Errorf("%d events, %d first ones, %d ids, %v", c.LastSeq, first, len(ids), err)
	}
}

// Whatever a program reads is masked, as for a role that may not see private data.
func TestProgramsSeeMaskedTexts(t *testing.T) {
	const secret, shown = "call 13800138000 or ann@example.com", "call •••00 or a•••@•••.com"
	s := serve(t, testOptions(t))
	p := s.program(perm.KeyRead, perm.KeyContacts, perm.KeyTags)
	ann, lin := s.customer(), s.agent()
	conv, err := ann.Open(s.ctx, "human")
	s.ok(err)
	s.ok(lin.Take(s.ctx, conv))
	ann.Send(conv, secret)
	s.ok(ann.Flushed(s.ctx))
	contact := ann.Me().ID
	for _, c := range []struct {
		t, conv string
		d       any
	}{
		{"contact.patch", "", proto.ContactPatch{Contact: contact, Name: secret, Attributes: map[string]string{"id": "13800138000", "mail": "ann@example.com"}}},
		{"note.send", conv, proto.Note{ClientID: "01936d2e-4b1c-7f3a-9c2e-0138001380aa", Body: secret}},
		{"tag", conv, proto.Tag{Add: []string{"13800138000"}}},
	} {
		if f, err := lin.Do(s.ctx, c.t, c.conv, c.d); err != nil || f.T != "ok" {
			t.Fatalf("%s: %s %v", c.t, f.D, err)
		}
	}
	s.ok(lin.EndConv(s.ctx, conv, secret))
	if f, err := ann.Do(s.ctx, "conv.rate", conv, proto.Rate{Score: 1, Comment: secret}); err != nil || f.T != "ok" {
		t.Fatalf("rating: %s %v", f.D, err)
	}
	for path, least := range map[string]int{"/conversations": 1, "/conversations/" + conv: 3, "/conversations/" + conv + "/events": 3, "/contacts/" + contact: 1} {
		status, data := p.ask("GET", "/api/v1"+path, "")
		text := string(data)
		if status != http.StatusOK || strings.Contains(text, "13800138000") || strings.Contains(text, "ann@example.com") || strings.Count(text, shown) < least {
			t.Errorf("%s: %d %s", path, status, text)
		}
		if !strings.Contains(text, contact) {
			t.Errorf("%s: the ids are masked: %s", path, text)
		}
	}
	if _, data := p.ask("POST", "/api/v1/conversations/"+conv+"/tags", `{"add":["x"]}`); strings.Contains(string(data), "13800138000") {
		t.Errorf("tags: %s", data)
	}
}

// callPath makes an address of a call that names what is there.
func callPath(c api.Call, conv, contact string) (method, path, body string) {
	method, path, _ = strings.Cut(c.Pattern, " ")
	id := conv
	if strings.Contains(path, "/contacts/") {
		id = contact
	}
	path = strings.Replace(path, "{id}", id, 1)
	switch c.Scope {
	case perm.KeyReports:
		path += "?by=day&from=0&to=1"
	case perm.KeySend:
		body = `{"text":"hello"}`
	case perm.KeyTags:
		body = `{"add":["x"]}`
	case perm.KeyOpen:
		body = `{"contact":"` + contact + `"}`
	case perm.KeyWrite:
		body = `{"site":"demo","external":"u1","name":"Ann"}`
	}
	return method, path, body
}

// Every call is refused without a key, with a wrong, a revoked and another kind of key, and with a key that has all scopes
// but its own. A key with that scope alone gets in.
func TestEveryCallNeedsItsScope(t *testing.T) {
	clock := desktest.NewClock()
	o := testOptions(t)
	o.Now = clock.Now
	d := openDesk(t, o)
	if err := d.hub.Start(testkit.Context(t)); err != nil {
		t.Fatal(err)
	}
	boss, err := d.store.Cold().AgentByLogin(t.Context(), "agent")
	if err != nil {
		t.Fatal(err)
	}
	cookie := enter(t, d, boss)
	revoked, key := newKey(t, d, perm.KeyScopes()...)
	if err := d.store.RevokeAPIKey(t.Context(), key.ID); err != nil {
		t.Fatal(err)
	}
	wrong, _, _ := auth.NewKey()
	for _, c := range api.Calls() {
		clock.Move(10 * time.Minute)   // the wrong keys are forgotten
		conv, contact := waiting(t, d) // one that has waited so often is closed
		method, path, body := callPath(c, conv, contact)
		ask := func(auth string) (int, *http.Response) {
			return call(d, method, path, body, "Authorization", auth, "Cookie", cookie, "Idempotency-Key", "1")
		}
		for what, auth := range map[string]string{
			"none": "", "revoked": "Bearer " + revoked, "wrong": "Bearer " + wrong, "basic": "Basic " + revoked, "empty": "Bearer ", "a login": "Bearer " + strings.TrimPrefix(cookie, "desk="),
		} {
			status, resp := ask(auth)
			if status != http.StatusUnauthorized || resp.Header.Get("WWW-Authenticate") != "Bearer" || problemOf(t, resp).Code != proto.CodeUnauthorized {
				t.Errorf("%s with %s: %d", c.Pattern, what, status)
			}
		}
		all := perm.KeyScopes()
		others, other := newKey(t, d, slices.DeleteFunc(all, func(s perm.KeyScope) bool { return s == c.Scope })...)
		status, resp := ask("Bearer " + others)
		if text := problemOf(t, resp).Text; status != http.StatusForbidden || !strings.Contains(text, `"`+string(c.Scope)+`"`) || !strings.Contains(resp.Header.Get("WWW-Authenticate"), `scope="`+string(c.Scope)+`"`) {
			t.Errorf("%s without its scope: %d %s", c.Pattern, status, text)
		}
		if rows := desktest.AuditLines(t, d.store, store.AuditQuery{Who: other.ID, Action: store.AuditDenied}, 1); rows[0].Detail != "needs scope "+string(c.Scope) {
			t.Errorf("%+v", rows)
		}
		own, _ := newKey(t, d, c.Scope)
		if status, resp := ask("bearer " + own); status != http.StatusOK {
			t.Errorf("%s with its scope: %d %s", c.Pattern, status, problemOf(t, resp).Text)
		}
	}
}

// waiting is a conversation that waits, and its contact.
func waiting(t *testing.T, d *Desk) (conv, contact string) {
	t.Helper()
	site, err := d.store.Cold().SiteByKey(t.Context(), "demo")
	if err != nil {
		t.Fatal(err)
	}
	_, hash := auth.NewToken()
	c, err := d.store.CreateVisitor(testkit.Context(t), site, hash, d.o.Now().Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	out, err := d.hub.Run(testkit.Context(t), "", store.Open{Contact: c, Human: true})
	if err != nil {
		t.Fatal(err)
	}
	return out.Conv.ID, c.ID
}

// Pages over HTTP have each conversation once, while others begin.
func TestProgramPagesWhileChatsBegin(t *testing.T) {
	s := serve(t, testOptions(t))
	p := s.program(perm.KeyRead)
	var want []string
	for range 7 {
		conv, _ := waiting(t, s.desk)
		want = append(want, conv)
	}
	var got []string
	for cursor := ""; ; {
		page := get[api.Conversations](p, "/api/v1/conversations?limit=2&state=queued&cursor="+url.QueryEscape(cursor))
		for _, c := range page.Conversations {
			got = append(got, c.ID)
		}
		if cursor = page.Cursor; cursor == "" {
			break
		}
		waiting(t, s.desk)
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// hanging is a store whose reads of one conversation hang.
type hanging struct {
	store.Store
	begun chan struct{}
	free  chan struct{}
}

type hangingReader struct {
	store.Reader
	h *hanging
}

func (h *hanging) Cold() store.Reader { return hangingReader{h.Store.Cold(), h} }

func (r hangingReader) Conversation(ctx context.Context, id string) (store.Conversation, error) {
	if id == "hangs" {
		r.h.begun <- struct{}{}
		<-r.h.free
	}
	return r.Reader.Conversation(ctx, id)
}

// Programs have places of their own: when calls hang in the database, the next one is refused at once, and people work on.
func TestProgramsTakeNoPlacesOfPeople(t *testing.T) {
	h := &hanging{begun: make(chan struct{}), free: make(chan struct{})}
	o := testOptions(t)
	o.WrapStore = func(s store.Store) store.Store { h.Store = s; return h }
	s := serve(t, o)
	p := s.program(perm.KeyRead, perm.KeyReports)
	const places = 4
	ended := make(chan int, places)
	for range places {
		go func() {
			resp, _, err := p.try("GET", "/api/v1/conversations/hangs", "")
			if err != nil {
				t.Error(err)
				resp = new(http.Response)
			}
			ended <- resp.StatusCode
		}()
		testkit.Receive(t, "a call that hangs", h.begun)
	}
	if status, data := p.ask("GET", "/api/v1/conversations", ""); status != http.StatusServiceUnavailable || !strings.Contains(string(data), "retry_ms") {
		t.Errorf("one more: %d %s", status, data)
	}
	if status, data := p.ask("GET", "/api/v1/reports?by=day&from=0&to=1", ""); status != http.StatusOK {
		t.Errorf("a report: %d %s", status, data)
	}
	logIn(t, s.desk, "agent", s.pass)
	ann, lin := s.customer(), s.agent()
	conv, err := ann.Open(s.ctx, "human")
	s.ok(err)
	s.ok(lin.Take(s.ctx, conv))
	close(h.free)
	for range places {
		if status := testkit.Receive(t, "an answer", ended); status != http.StatusNotFound {
			t.Errorf("what hung ends with %d", status)
		}
	}
}
