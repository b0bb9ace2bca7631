package desk

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-eddy/eddy/desk/desktest"
	"github.com/go-eddy/eddy/desk/perm"
	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/push"
	"github.com/go-eddy/eddy/desk/push/pushtest"
	"github.com/go-eddy/eddy/desk/store"
	"github.com/go-eddy/eddy/internal/testkit"
)

// called are options with a push service of this machine. Nothing waits for another thing that may happen.
func called(t *testing.T) (Options, *pushtest.Service, *testkit.Output) {
	t.Helper()
	o, service, log := testOptions(t), pushtest.New(t), &testkit.Output{}
	service.Listen()
	o.PublicURL = "https://desk.example"
	o.Logger = slog.New(slog.NewTextHandler(log, nil))
	o.push = func(p *push.Options) {
		p.Private, p.TLS = true, service.TLS
		p.Now, p.After = hurried()
	}
	return o, service, log
}

// hurried is a clock that goes on by as much as somebody wants to wait, so that nobody does. Requests have all the time that
// they need.
func hurried() (func() time.Time, func(time.Duration) (<-chan time.Time, func() bool)) {
	var ahead atomic.Int64
	now := func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	return now, func(d time.Duration) (<-chan time.Time, func() bool) {
		ch := make(chan time.Time, 1)
		if d != push.Timeout {
			ahead.Add(int64(d))
			ch <- now()
		}
		return ch, func() bool { return true }
	}
}

// subscription is what a page tells of a browser.
func subscription(b *pushtest.Browser) string {
	return fmt.Sprintf(`{"endpoint":%q,"expirationTime":null,"keys":{"p256dh":%q,"auth":%q},"locale":"en"}`,
		b.Endpoint, base64.RawURLEncoding.EncodeToString(b.Key()), base64.RawURLEncoding.EncodeToString(b.Auth))
}

// keyOf is what the page of a login is told of the server's key.
func keyOf(t *testing.T, d *Desk, cookie string) string {
	t.Helper()
	status, resp := call(d, "GET", "/api/v1/agent/me", "", "Cookie", cookie)
	if status != http.StatusOK {
		t.Fatalf("me: %d", status)
	}
	return desktest.Into[struct{ Agent struct{ Push string } }](t, resp).Agent.Push
}

// An agent who has closed the console is called to the messages of a customer: how many there are and no word of them. That
// goes on after a restart, with the same key, and ends with the account. Neither is anything of it in the log.
func TestAgentIsCalled(t *testing.T) {
	o, service, log := called(t)
	s := serve(t, o)
	ada, cookie := employ(t, s.desk, perm.Agent, "ada")
	phone := service.Subscribe("phone")
	if status, _ := call(s.desk, "POST", "/api/v1/agent/push", subscription(phone), "Cookie", cookie); status != http.StatusNoContent {
		t.Fatalf("subscribe: %d", status)
	}
	ann, console := s.customer(), s.newWeb().Agent("ada", usual)
	conv, err := ann.Open(s.ctx, "human")
	s.ok(err)
	s.ok(console.Take(s.ctx, conv))
	ann.Send(conv, "while the console is open")
	s.ok(ann.Flushed(s.ctx))
	_, err = console.Event(s.ctx, conv, func(f desktest.Frame) bool { return f.T == "ev.msg" && strings.Contains(string(f.D), "is open") })
	s.ok(err)
	s.ok(console.Tell(s.ctx, "receipt", conv, proto.Receipt{Delivered: 1e6, Read: 1e6}))
	_, err = console.Do(s.ctx, "ping", "", proto.Ping{})
	s.ok(err)
	console.Close()
	testkit.Eventually(t, "the console is closed", func() bool { return !s.desk.hub.Connected(ada.ID) })
	tell := func(text string, calls int) pushtest.Call {
		t.Helper()
		ann.Send(conv, text)
		s.ok(ann.Flushed(s.ctx))
		testkit.Eventually(t, "a call", func() bool { return len(service.Calls()) >= calls })
		testkit.Eventually(t, "the queue to have noted it", func() bool { return s.desk.Stats().Push.Waiting == 0 })
		return service.Calls()[calls-1]
	}
	first := tell("call me on 13800138000", 1)
	if want := fmt.Sprintf(`{"title":"1 new message","lang":"en","c":%q}`, conv); first.Text != want || first.Key != keyOf(t, s.desk, cookie) || s.desk.Stats().Push.Sent != 1 {
		t.Errorf("%s, want %s; %+v", first.Text, want, s.desk.Stats().Push)
	}
	s.stop()
	s.start()
	if again := tell("still there?", 2); again.Text != first.Text || again.Key != first.Key { // counted anew
		t.Errorf("after a restart: %+v", again)
	}
	ada.Disabled = true
	s.ok(s.desk.store.UpdateAgent(s.ctx, ada))
	before := service.Asked()
	ann.Send(conv, "hello?")
	s.ok(ann.Flushed(s.ctx))
	testkit.Eventually(t, "nothing to be left to do", func() bool { return s.desk.Stats().Push.Waiting == 0 })
	if n := service.Asked(); n != before {
		t.Errorf("a disabled account is called: %d requests, %d before", n, before)
	}
	secret, err := s.desk.store.Secret(s.ctx, "push")
	s.ok(err)
	for _, word := range []string{"13800138", "/phone", base64.RawURLEncoding.EncodeToString(secret), "still there"} {
		if strings.Contains(log.String(), word) {
			t.Errorf("the log has %q", word)
		}
	}
}

// What a page tells of its browser is kept with its login: shown there, replaced, and gone with the log-out, another
// password, or when the agent no longer wants it.
func TestPushSubscription(t *testing.T) {
	d := openDesk(t, testOptions(t))
	ada, cookie := employ(t, d, perm.Agent, "ada")
	service := pushtest.New(t)
	post := func(path, body, cookie string) (int, string) {
		t.Helper()
		status, resp := call(d, "POST", "/api/v1/agent/"+path, body, "Cookie", cookie)
		if status == http.StatusNoContent {
			return status, ""
		}
		return status, desktest.Into[proto.Error](t, resp).Text
	}
	kept := func(want ...string) {
		t.Helper()
		all, err := d.store.Cold().PushSubscriptions(t.Context(), ada.ID, time.Now(), time.Time{})
		if err != nil || len(all) != len(want) {
			t.Fatalf("%+v %v, want %v", all, err, want)
		}
		for i := range want {
			if all[i].Endpoint != want[i] {
				t.Errorf("%+v, want %v", all[i], want)
			}
		}
	}
	if k, err := base64.RawURLEncoding.DecodeString(keyOf(t, d, cookie)); err != nil || len(k) != 65 {
		t.Errorf("the key: %x %v", k, err)
	}
	b := service.Subscribe("phone")
	good := subscription(b)
	for name, c := range map[string]struct{ from, to, says string }{
		"http":       {"https://", "http://", "https"},
		"private":    {"push.example", "10.0.0.1", "private"},
		"loopback":   {"push.example", "[::1]", "private"},
		"no address": {b.Endpoint, "", "here 0, a key that is a point of P-256, here 65 bytes, 16 bytes of auth, here 16, and a language of the console. Wrong: endpoint."},
		"long":       {"/phone", "/" + strings.Repeat("x", store.MaxPushEndpoint), "1 to 1024 bytes, here 1045"},
		"no key":     {"p256dh", "other", "here 0 bytes, 16 bytes of auth, here 16, and a language of the console. Wrong: key."},
		"short auth": {`"auth":"`, `"auth":"AA`, "Wrong: auth."},
		"a language": {`"en"`, `"tlh"`, "Wrong: locale."},
	} {
		if status, text := post("push", strings.Replace(good, c.from, c.to, 1), cookie); status != http.StatusUnprocessableEntity || !strings.Contains(text, c.says) {
			t.Errorf("%s: %d %q", name, status, text)
		}
	}
	if status, _ := post("push", "{", cookie); status != http.StatusBadRequest {
		t.Errorf("no JSON: %d", status)
	}
	if status, _ := post("push", good, ""); status != http.StatusUnauthorized {
		t.Errorf("without a login: %d", status)
	}
	kept()
	accept := func(cookie string, b *pushtest.Browser) {
		t.Helper()
		if status, text := post("push", subscription(b), cookie); status != http.StatusNoContent {
			t.Fatalf("%d %s", status, text)
		}
	}
	accept(cookie, b)
	kept(b.Endpoint)
	list := func() string {
		t.Helper()
		_, resp := call(d, "GET", "/api/v1/agent/sessions", "", "Cookie", cookie)
		var out bytes.Buffer
		if _, err := out.ReadFrom(resp.Body); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	if text := list(); !strings.Contains(text, `"push":true`) {
		t.Errorf("the list of logins: %s", text)
	}
	for range 2 {
		if status, _ := post("push/drop", "{}", cookie); status != http.StatusNoContent {
			t.Errorf("drop: %d", status)
		}
	}
	kept()
	if text := list(); strings.Contains(text, "push") {
		t.Errorf("the list of logins: %s", text)
	}
	accept(cookie, b)
	if status, _ := post("password", fmt.Sprintf(`{"old":%q,"new":"another good one"}`, usual), cookie); status != http.StatusNoContent {
		t.Fatalf("another password: %d", status)
	}
	kept()
	accept(cookie, b)
	if status, _ := post("logout", "{}", cookie); status != http.StatusNoContent {
		t.Fatalf("logout: %d", status)
	}
	kept()
}

// Where the operator has switched it off, no page is given a key, nothing is kept, and nobody is called.
func TestPushIsOff(t *testing.T) {
	o, service, _ := called(t)
	s := serve(t, o)
	ada, cookie := employ(t, s.desk, perm.Agent, "ada")
	if status, _ := call(s.desk, "POST", "/api/v1/agent/push", subscription(service.Subscribe("phone")), "Cookie", cookie); status != http.StatusNoContent {
		t.Fatalf("subscribe: %d", status)
	}
	s.stop()
	s.o.NoPush = true
	s.start()
	if key := keyOf(t, s.desk, cookie); key != "" {
		t.Errorf("key %q", key)
	}
	status, resp := call(s.desk, "POST", "/api/v1/agent/push", subscription(service.Subscribe("other")), "Cookie", cookie)
	if e := desktest.Into[proto.Error](t, resp); status != http.StatusNotFound || !strings.Contains(e.Text, "switched off") {
		t.Errorf("%d %+v", status, e)
	}
	_, resp = call(s.desk, "GET", "/api/v1/agent/sessions", "", "Cookie", cookie)
	if b, err := json.Marshal(desktest.Into[any](t, resp)); err != nil || strings.Contains(string(b), "push") {
		t.Errorf("%s %v", b, err)
	}
	ann := s.customer()
	conv, err := ann.Open(s.ctx, "human")
	s.ok(err)
	console := s.newWeb().Agent("ada", usual)
	s.ok(console.Take(s.ctx, conv))
	console.Close()
	testkit.Eventually(t, "the console is closed", func() bool { return !s.desk.hub.Connected(ada.ID) })
	ann.Send(conv, "hello?")
	s.ok(ann.Flushed(s.ctx))
	if s.desk.Stats().Push != (push.Stats{}) || service.Asked() != 0 {
		t.Errorf("%+v, %d requests", s.desk.Stats().Push, service.Asked())
	}
	if status, _ := call(s.desk, "POST", "/api/v1/agent/push/drop", "{}", "Cookie", cookie); status != http.StatusNoContent {
		t.Errorf("what is kept cannot be dropped: %d", status)
	}
}
