package admin

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/go-eddy/eddy/desk/safehttp"
	"github.com/go-eddy/eddy/desk/store"
)

const deadShown = 100 // events of the list of those given up

// hookRow is a webhook with its numbers.
type hookRow struct {
	store.Webhook
	store.HookNumbers
}

// Late reports whether there is something that the webhook has not been told.
func (h hookRow) Late() bool { return h.Waiting > 0 || h.Behind > 0 && h.Oldest > 0 }

// hookList is the list of webhooks.
type hookList struct {
	Hooks []hookRow
	sites []store.Site
}

// SiteName returns the name of a site, "" if there is none.
func (l hookList) SiteName(id string) string {
	for _, s := range l.sites {
		if s.ID == id {
			return s.Name
		}
	}
	return ""
}

// Most returns how many webhooks there may be.
func (hookList) Most() int { return store.MaxWebhooks }

func (p *Pages) webhooks(q *request) {
	all, err := p.o.Store.Cold().Webhooks(q.ctx())
	var page hookList
	if err == nil {
		page.sites, err = p.o.Store.Cold().Sites(q.ctx())
	}
	for i := 0; i < len(all) && err == nil; i++ {
		row := hookRow{Webhook: all[i]}
		row.HookNumbers, err = p.o.Store.Cold().HookNumbers(q.ctx(), row.ID)
		page.Hooks = append(page.Hooks, row)
	}
	if err != nil {
		q.failed(err)
		return
	}
	q.render(http.StatusOK, "webhooks", page)
}

// hookPage is the form of a webhook; ID is "" for a new one.
type hookPage struct {
	hookRow
	Sites  []store.Site
	Dead   []store.HookEvent
	Hidden []string // the secrets, as they are shown
}

// Types returns the types of events to choose from.
func (hookPage) Types() []store.EventType { return store.EventTypes() }

// Kept returns how many events that were given up are kept.
func (hookPage) Kept() int { return store.MaxHookDead }

func (q *request) hookForm(status int, w store.Webhook) {
	page, r := hookPage{hookRow: hookRow{Webhook: w}, Hidden: hidden(w.Secrets)}, q.p.o.Store.Cold()
	var err error
	if page.Sites, err = r.Sites(q.ctx()); err == nil && w.ID != "" {
		if page.HookNumbers, err = r.HookNumbers(q.ctx(), w.ID); err == nil {
			page.Dead, err = r.DeadEvents(q.ctx(), w.ID, deadShown)
		}
	}
	if err != nil {
		q.failed(err)
		return
	}
	q.render(status, "webhook", page)
}

func (p *Pages) newWebhook(q *request) { q.hookForm(http.StatusOK, store.Webhook{}) }

func (q *request) webhook() (store.Webhook, bool) {
	w, err := q.p.o.Store.Cold().Webhook(q.ctx(), q.r.PathValue("id"))
	if err != nil {
		q.failed(err)
	}
	return w, err == nil
}

func (p *Pages) editWebhook(q *request) {
	w, ok := q.webhook()
	if !ok {
		return
	}
	q.show(hookShown(&w))
	q.shown()
	q.hookForm(http.StatusOK, w)
}

// hookShown returns the fields of a webhook.
func hookShown(w *store.Webhook) url.Values {
	shown := url.Values{"url": {w.URL}, "site": {w.Site}}
	for _, t := range w.Types {
		shown.Add("types", string(t))
	}
	tick(shown, "private", w.Private)
	return shown
}

// hookEntered fills a webhook with the values of the form.
func (q *request) hookEntered(w *store.Webhook) {
	w.URL, w.Site, w.Private, w.Types = q.line("url"), q.Value("site"), q.Value("private") != "", nil
	for _, t := range q.form.values["types"] {
		w.Types = append(w.Types, store.EventType(t))
	}
	if w.URL == "" {
		return // which the store refuses
	}
	if _, err := safehttp.CheckURL(w.URL, w.Private); err != nil {
		q.wrong("url", q.T("hooks.url.bad", strings.TrimPrefix(err.Error(), "safehttp: ")))
	}
}

func (p *Pages) createWebhook(q *request) {
	w := store.Webhook{Secrets: []string{newSecret()}, By: q.me.Agent.Actor()}
	if q.hookEntered(&w); q.Failed() == 0 {
		made, err := p.o.Store.CreateWebhook(q.ctx(), w)
		if err != nil && !q.failed(err) {
			return
		}
		if err == nil {
			if q.audit(store.AuditCreate, "webhook "+made.ID, describeHook(&made)) {
				q.seeOnce("/admin/webhooks/"+made.ID, "created", w.Secrets[0])
			}
			return
		}
	}
	q.hookForm(q.status(), store.Webhook{})
}

// describeHook says which webhook it is, without its secrets. Of the URL that is the host: a path may be a secret, too.
func describeHook(w *store.Webhook) string {
	host := w.URL
	if u, err := url.Parse(w.URL); err == nil {
		host = u.Host
	}
	types := "all events"
	if len(w.Types) > 0 {
		types = strconv.Itoa(len(w.Types)) + " kinds of events"
	}
	return host + ", " + types
}

func (p *Pages) saveWebhook(q *request) {
	done, ok := q.alone()
	if !ok {
		return
	}
	defer done()
	before, ok := q.webhook()
	if !ok {
		return
	}
	w := before
	q.outdated(hookShown(&before))
	if q.hookEntered(&w); q.Failed() == 0 {
		if err := p.o.Store.UpdateWebhook(q.ctx(), w); err != nil && !q.failed(err) {
			return
		}
	}
	if q.Failed() > 0 {
		q.hookForm(q.status(), before)
		return
	}
	if q.audit(store.AuditUpdate, "webhook "+w.ID, describeHook(&w)) {
		q.see("/admin/webhooks/"+w.ID, "saved")
	}
}

func (p *Pages) deleteWebhook(q *request) {
	w, ok := q.webhook()
	if !ok {
		return
	}
	if err := p.o.Store.DeleteWebhook(q.ctx(), w.ID); err != nil {
		q.failed(err)
		return
	}
	if q.audit(store.AuditDelete, "webhook "+w.ID, describeHook(&w)) {
		q.see("/admin/webhooks", "deleted")
	}
}

// changeHookSecret makes a new secret before the newest one, which goes on to sign, or removes one.
func (p *Pages) changeHookSecret(q *request) {
	release, ok := q.alone()
	if !ok {
		return
	}
	defer release()
	w, ok := q.webhook()
	if !ok {
		return
	}
	secrets, secret, done, ok := q.rotated(w.Secrets, 1)
	if !ok {
		return
	}
	w.Secrets = secrets
	if err := p.o.Store.UpdateWebhook(q.ctx(), w); err != nil {
		if q.failed(err) {
			q.fail(http.StatusUnprocessableEntity, "error.form")
		}
		return
	}
	switch {
	case !q.audit(store.AuditSecret, "webhook "+w.ID, "secret "+done):
	case secret == "":
		q.see("/admin/webhooks/"+w.ID, done)
	default:
		q.seeOnce("/admin/webhooks/"+w.ID, done, secret)
	}
}

// changeDead lets events that were given up be tried again, or discards them: one, or all with the number 0.
func (p *Pages) changeDead(q *request) {
	w, ok := q.webhook()
	if !ok {
		return
	}
	field, change, action, done := "retry", p.o.Store.RetryDead, store.AuditUpdate, "retried"
	if q.Value(field) == "" {
		field, change, action, done = "discard", p.o.Store.DropDead, store.AuditDelete, "discarded"
	}
	seq, err := strconv.ParseInt(q.Value(field), 10, 64)
	if err != nil || seq < 0 {
		q.fail(http.StatusBadRequest, "error.form")
		return
	}
	n, err := change(q.ctx(), w.ID, seq)
	if err != nil {
		q.failed(err)
		return
	}
	if q.audit(action, "webhook "+w.ID, strconv.Itoa(n)+" events "+done) {
		q.see("/admin/webhooks/"+w.ID, done)
	}
}
