package desk

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-eddy/eddy/desk/api"
	"github.com/go-eddy/eddy/desk/hooks"
	"github.com/go-eddy/eddy/desk/store"
	"github.com/go-eddy/eddy/internal/testkit"
)

// receiver is a program that is told what happens, and checks what it gets.
type receiver struct {
	t      *testing.T
	url    string
	secret string

	mu     sync.Mutex
	events []api.Happening
	status int
}

func newReceiver(t *testing.T) *receiver {
	r := &receiver{t: t, secret: strings.Repeat("k", store.MinSecret), status: http.StatusNoContent}
	server := httptest.NewServer(r)
	t.Cleanup(server.Close)
	r.url = server.URL
	return r
}

// ServeHTTP implements http.Handler. The signature is checked as the page about the API says.
func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	r.mu.Lock()
	defer r.mu.Unlock()
	mac := hmac.New(sha256.New, []byte(r.secret))
	mac.Write([]byte(req.Header.Get("Eddy-Timestamp") + "."))
	mac.Write(body)
	signed := false
	for _, s := range strings.Split(req.Header.Get("Eddy-Signature"), ",") {
		signed = signed || hmac.Equal([]byte(s), []byte("v1="+hex.EncodeToString(mac.Sum(nil))))
	}
	var h api.Happening
	if err != nil || !signed || json.Unmarshal(body, &h) != nil || h.ID != req.Header.Get("Eddy-Event") || req.Method != http.MethodPost {
		r.t.Errorf("%v: signed %v: %s %v", err, signed, body, req.Header)
	}
	if r.status == http.StatusNoContent {
		r.events = append(r.events, h)
	}
	w.WriteHeader(r.status)
}

func (r *receiver) got() []api.Happening {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.events
}

// A webhook is told what happens in chats, signed and masked, without a restart and after one. An address of this
// machine gets nothing unless that is allowed.
func TestWebhooks(t *testing.T) {
	s := serve(t, testOptions(t))
	r := newReceiver(t)
	made, err := s.desk.store.CreateWebhook(s.ctx, store.Webhook{URL: r.url + "/hook", Private: true, Secrets: []string{r.secret}})
	s.ok(err)
	refused, err := s.desk.store.CreateWebhook(s.ctx, store.Webhook{URL: r.url + "/secret", Secrets: []string{r.secret}})
	s.ok(err)
	ann := s.customer()
	conv, err := ann.Open(s.ctx, "human")
	s.ok(err)
	ann.Send(conv, "call me on 13800138000")
	s.ok(ann.Flushed(s.ctx))
	testkit.Eventually(t, "two events", func() bool { return len(r.got()) == 2 })
	opened, said := r.got()[0], r.got()[1]
	if opened.Type != "conversation.opened" || said.Type != "message.created" || said.Sequence <= opened.Sequence || said.Entry == nil ||
		strings.Contains(said.Entry.Text, "13800138") || !strings.HasPrefix(said.Entry.Text, "call me") || said.Conversation.ID != conv {
		t.Errorf("%+v %+v", opened, said)
	}
	testkit.Eventually(t, "that to be noted", func() bool { // what is not noted is sent again
		work, err := s.desk.store.Cold().HookWork(s.ctx, made.ID, time.Now().UnixMilli(), 1)
		s.ok(err)
		return work.Position >= said.Sequence
	})
	s.stop()
	s.start()
	ann.Send(conv, "still there")
	s.ok(ann.Flushed(s.ctx))
	testkit.Eventually(t, "the third event", func() bool { return len(r.got()) == 3 })
	if e := r.got()[2]; e.Entry.Text != "still there" {
		t.Errorf("%+v", e)
	}
	testkit.Eventually(t, "the other is refused", func() bool {
		w, err := s.desk.store.Cold().Webhook(s.ctx, refused.ID)
		s.ok(err)
		return strings.Contains(w.Failure, "https")
	})
	testkit.Eventually(t, "what was delivered is counted", func() bool {
		return !slices.ContainsFunc(s.desk.Stats().Hooks, func(h hooks.Stats) bool {
			return h.ID == made.ID && (h.Delivered != 1 || h.Failed != 0) || h.ID == refused.ID && h.Delivered != 0
		})
	})
}

// An administrator makes a webhook, whose secret is shown once, rotates the secret, sees what failed, tries it again and
// discards it. All of that is audited, without secrets.
func TestManageWebhooks(t *testing.T) {
	p := managed(t)
	form := url.Values{"url": {"https://shop.example/hook/path"}, "types": {"message.created", "conversation.closed"}}
	for name, c := range map[string]struct{ key, value, field string }{
		"no address": {"url", "", "url"}, "http": {"url", "http://shop.example/", "url"}, "private": {"url", "https://10.0.0.1/", "url"},
		"an unknown site": {"site", "x", "site"}, "an unknown event": {"types", "x", "types"},
	} {
		bad := url.Values{"url": form["url"], c.key: {c.value}}
		errs, body := p.refused("/admin/webhooks", bad, http.StatusUnprocessableEntity)
		if errs[c.field] == "" && !strings.Contains(body, "bad\"") {
			t.Errorf("%s: %v", name, errs)
		}
	}
	page := p.post("/admin/webhooks", form)
	id := idOf(page)
	secret := shownOnce(p.get(page, http.StatusOK))
	stored := func() store.Webhook {
		t.Helper()
		w, err := p.d.store.Cold().Webhook(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
	if w := stored(); len(secret) < store.MinSecret || len(w.Secrets) != 1 || w.Secrets[0] != secret || len(w.Types) != 2 || w.Private {
		t.Errorf("%q %+v", secret, w)
	}
	if body := p.get("/admin/webhooks/"+id, http.StatusOK); strings.Contains(body, secret) {
		t.Error("the secret is shown again")
	}
	p.post("/admin/webhooks/"+id, url.Values{"url": {"http://127.0.0.1:1/"}, "private": {"on"}})
	if w := stored(); w.URL != "http://127.0.0.1:1/" || len(w.Types) != 0 || !w.Private || w.Secrets[0] != secret {
		t.Errorf("%+v", w)
	}
	second := shownOnce(p.get(p.post("/admin/webhooks/"+id+"/secret", url.Values{"new": {"1"}}), http.StatusOK))
	if w := stored(); len(w.Secrets) != 2 || w.Secrets[0] != second || w.Secrets[1] != secret {
		t.Errorf("%q: %+v", second, w.Secrets)
	}
	p.post("/admin/webhooks/"+id+"/secret", url.Values{"remove": {"1"}})
	p.refused("/admin/webhooks/"+id+"/secret", url.Values{"remove": {"0"}}, http.StatusBadRequest)
	if w := stored(); len(w.Secrets) != 1 || w.Secrets[0] != second {
		t.Errorf("%+v", w.Secrets)
	}
	var dead []store.HookEvent
	for i := range 3 {
		dead = append(dead, store.HookEvent{
			OutboxRow: store.OutboxRow{Seq: int64(i + 1), ID: "e", Type: store.EventMessage, Conv: "c"}, Attempts: 7, Dead: 1, Failure: "answered status <500>",
		})
	}
	if err := p.d.store.SaveHook(t.Context(), store.HookProgress{Hook: id, Keep: dead, Failing: 5, Failure: "answered status 500", Lost: 2}); err != nil {
		t.Fatal(err)
	}
	if body := p.get("/admin/webhooks/"+id, http.StatusOK); strings.Count(body, `data-testid="dead-row"`) != 3 || !strings.Contains(body, "status &lt;500&gt;") {
		t.Error(visible(body))
	}
	if body := visible(p.get("/admin/webhooks", http.StatusOK)); !strings.Contains(body, "Fails since") || !strings.Contains(body, "http://127.0.0.1:1/") {
		t.Error(body)
	}
	for _, c := range []struct {
		form          url.Values
		waiting, dead int
	}{{url.Values{"retry": {"1"}}, 1, 2}, {url.Values{"discard": {"2"}}, 1, 1}, {url.Values{"retry": {"0"}}, 2, 0}} {
		p.post("/admin/webhooks/"+id+"/dead", c.form)
		n, err := p.d.store.Cold().HookNumbers(t.Context(), id)
		if err != nil || n.Waiting != c.waiting || n.Dead != c.dead {
			t.Errorf("%v: %+v %v", c.form, n, err)
		}
	}
	p.refused("/admin/webhooks/"+id+"/dead", url.Values{"retry": {"x"}}, http.StatusBadRequest)
	p.post("/admin/webhooks/"+id+"/delete", url.Values{})
	p.get("/admin/webhooks/"+id, http.StatusNotFound)
	rows, err := p.d.store.Cold().Audit(t.Context(), store.AuditQuery{Target: "webhook " + id})
	if err != nil || len(rows) != 8 {
		t.Errorf("%d lines, %v", len(rows), err)
	}
	for _, row := range rows {
		if strings.Contains(row.Detail, secret) || strings.Contains(row.Detail, second) || strings.Contains(row.Detail, "path") || row.Who.Name != "Agent" {
			t.Errorf("%+v", row)
		}
	}
	for range store.MaxWebhooks {
		p.post("/admin/webhooks", form)
	}
	if errs, _ := p.refused("/admin/webhooks", form, http.StatusUnprocessableEntity); errs["hooks"] == "" {
		t.Errorf("one too many: %v", errs)
	}
}
