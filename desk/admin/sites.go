package admin

import (
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/go-eddy/eddy/desk/store"
)

func (p *Pages) sites(q *request) {
	all, err := q.lists()
	if err != nil {
		q.failed(err)
		return
	}
	q.render(http.StatusOK, "sites", all)
}

// sitePage is the form of a site; ID is "" for a new one.
type sitePage struct {
	*lists
	ID, Key string
	Secrets []string // beginnings of the secrets, the newest first
	Embed   string   // code to copy into the pages of the site; "" = no address is known
	From    string   // says where the address in Embed comes from
	Rows    []int    // of the pre-chat fields
	Calls   []int    // rows of the proactive
	Logo    logoField
	Bots    []store.BotAccount
	Rules   int // how many rules there are
}

// FieldTypes returns the types of questions before a chat.
func (sitePage) FieldTypes() []string { return []string{"text", "email", "tel"} }

// Visits returns what may be kept of visits.
func (sitePage) Visits() []string {
	return []string{store.KeepNothing, store.KeepBasic, store.KeepFull}
}

// Timers returns the names of the fields with times.
func (sitePage) Timers() []string { return []string{"idle_bot", "idle_wait", "idle_chat", "warn_for"} }

func (p *Pages) newSite(q *request) {
	q.fill(siteShown(&store.Site{BotName: "Eddy", ReopenWindow: store.DefaultReopenWindow, Settings: store.SiteSettings{RateChat: true}}))
	q.siteForm(http.StatusOK, store.Site{})
}

func (q *request) siteForm(status int, s store.Site) {
	all, err := q.lists()
	if err != nil {
		q.failed(err)
		return
	}
	page := sitePage{lists: all, ID: s.ID, Key: s.Key, Rules: len(s.Settings.Rules)}
	if page.Bots, err = q.p.o.Store.Cold().Bots(q.ctx()); err != nil {
		q.failed(err)
		return
	}
	page.Secrets = hidden(s.Settings.Secrets)
	for i := range store.MaxPreChat {
		if i > 0 && i > len(s.Settings.PreChat) && q.line("field_name_"+strconv.Itoa(i)) == "" {
			break // one empty row below the filled ones
		}
		page.Rows = append(page.Rows, i)
	}
	page.Logo = q.logoField(&s)
	page.Calls = q.proactiveRows(len(s.Settings.Look.Proactive))
	if s.Key != "" {
		page.Embed, page.From = q.embed(s.Key)
	}
	q.render(status, "site", page)
}

// embed returns the line that puts the chat into the pages of a site, and where its address comes from. The name in a
// request is whatever its client has written, so only a plain host gets into the line.
func (q *request) embed(key string) (line, from string) {
	origin, from := q.p.o.Public, q.T("sites.embed.public")
	if origin == "" {
		origin, from = q.origin(), q.T("sites.embed.request")
	}
	if !store.ValidOrigin(origin) {
		return "", q.T("sites.embed.none")
	}
	return `<script src="` + origin + `/widget.js" data-site="` + key + `" async></script>`, from
}

// origin returns the address that this request came to, as its browser knows it.
func (q *request) origin() string {
	scheme := "http"
	if q.r.TLS != nil || strings.HasPrefix(q.r.Header.Get("Origin"), "https:") || strings.HasPrefix(q.r.Header.Get("Referer"), "https:") || q.p.o.HTTPS {
		scheme = "https"
	}
	return scheme + "://" + q.r.Host
}

// siteEntered fills a site with the values of the form. Key and secrets have pages of their own.
func (q *request) siteEntered(s *store.Site) {
	s.Name, s.BotName, s.Group, s.Bot = q.line("name"), q.line("bot_name"), q.Value("group"), q.Value("bot")
	s.ReopenWindow = time.Duration(q.number("reopen")) * time.Hour
	if s.ReopenWindow == 0 {
		s.ReopenWindow = -1 // an entered 0 never means the default
	}
	s.ReopenToBot = q.Value("reopen_to_bot") != ""
	t := &s.Settings
	t.Origins, t.Keys, t.Enforce = q.lines("origins"), q.lines("keys"), q.Value("enforce") != ""
	t.MailChats = q.Value("mail_chats") != ""
	t.Color, t.Greeting, t.Consent, t.RateChat = q.colorEntered(), q.block("greeting"), q.block("consent"), q.Value("rate") != ""
	const minute = int64(time.Minute / time.Millisecond)
	t.IdleBot, t.IdleWait, t.IdleChat, t.WarnFor = q.number("idle_bot")*minute, q.number("idle_wait")*minute, q.number("idle_chat")*minute, q.number("warn_for")*minute
	t.KeepDays = int(q.number("keep_days"))
	t.Chats, t.Visits = int(q.number("chats")), q.Value("visits")
	q.lookEntered(&t.Look)
	q.logoEntered(s)
	t.Hours, t.AwayAfter = q.hoursEntered(), q.number("away_after")*minute
	t.PreChat = nil
	for i := range store.MaxPreChat {
		n := strconv.Itoa(i)
		f := store.Field{Name: q.line("field_name_" + n), Label: q.line("field_label_" + n), Type: q.Value("field_type_" + n), Required: q.Value("field_required_"+n) != ""}
		if f.Name != "" || f.Label != "" {
			t.PreChat = append(t.PreChat, f)
		}
	}
}

// usualColor is the accent of pages whose site has no colour of its own.
const usualColor = "#0a716c"

// PickColor returns what the chooser shows for a colour: the usual one where it is empty or no colour.
func (sitePage) PickColor(color string) string {
	if _, err := strconv.ParseUint(strings.TrimPrefix(color, "#"), 16, 32); err != nil || len(color) != len(usualColor) || color[0] != '#' {
		return usualColor
	}
	return color
}

// colorEntered returns the colour of the form, which has a text and a chooser. The text counts if it has been changed,
// else the chooser if that has been: without a script neither follows the other.
func (q *request) colorEntered() string {
	color, was, picked := q.line("color"), q.Value("color_was"), q.Value("color_pick")
	if color == was && picked != "" && !strings.EqualFold(picked, (sitePage{}).PickColor(was)) {
		color = picked
	}
	q.set("color", color)
	return color
}

func (p *Pages) createSite(q *request) {
	p.storeSite(q, store.Site{Key: strings.ToLower(q.line("key"))}, func(s *store.Site) (err error) {
		*s, err = p.o.Store.CreateSite(q.ctx(), *s)
		return err
	})
}

func (p *Pages) saveSite(q *request) {
	done, ok := q.alone()
	if !ok {
		return
	}
	defer done()
	s, ok := q.site()
	if !ok {
		return
	}
	q.outdated(siteShown(&s))
	p.storeSite(q, s, func(s *store.Site) error { return p.o.Store.UpdateSite(q.ctx(), *s) })
}

// storeSite makes or changes a site.
func (p *Pages) storeSite(q *request, before store.Site, write func(*store.Site) error) {
	s := before
	q.siteEntered(&s)
	if err := s.Check(); err != nil {
		q.failed(err)
	}
	var err error
	if q.Failed() == 0 {
		err = write(&s)
	}
	if errors.Is(err, store.ErrExists) {
		q.wrong("key", q.T("reason.taken"))
	} else if err != nil && !q.failed(err) {
		return
	}
	if q.Failed() > 0 {
		if s.Logo.Content != nil {
			q.wrong("logo", q.T("sites.logo.again"))
		}
		if before.ID == "" {
			before = store.Site{}
		}
		q.siteForm(q.status(), before)
		return
	}
	action, done := store.AuditUpdate, "saved"
	if before.ID == "" {
		action, done = store.AuditCreate, "created"
	}
	if q.audit(action, "site "+s.ID, s.Key) {
		q.see("/admin/sites/"+s.ID, done)
	}
}

func (q *request) site() (store.Site, bool) {
	s, err := q.p.o.Store.Cold().Site(q.ctx(), q.r.PathValue("id"))
	if err != nil {
		q.failed(err)
	}
	return s, err == nil
}

func (p *Pages) editSite(q *request) {
	s, ok := q.site()
	if !ok {
		return
	}
	q.show(siteShown(&s))
	q.shown()
	q.siteForm(http.StatusOK, s)
}

// siteShown returns the fields of a site.
func siteShown(s *store.Site) url.Values {
	t, shown := &s.Settings, make(url.Values)
	for field, value := range map[string]string{
		"logo": s.Logo.Hash, "name": s.Name, "bot_name": s.BotName, "group": s.Group, "bot": s.Bot, "reopen": strconv.Itoa(int(max(s.ReopenWindow, 0) / time.Hour)),
		"visits": t.VisitsKept(), "origins": strings.Join(t.Origins, "\n"), "keys": strings.Join(t.Keys, "\n"), "color": t.Color, "greeting": t.Greeting, "consent": t.Consent,
		"idle_bot": whole(t.BotIdle(), time.Minute), "idle_wait": whole(t.QueueIdle(), time.Minute), "idle_chat": whole(t.ChatIdle(), time.Minute),
		"warn_for": whole(t.Warning(), time.Minute), "away_after": whole(t.Absence(), time.Minute), "keep_days": unlessZero(int64(t.KeepDays)), "chats": unlessZero(int64(t.Chats)),
	} {
		shown.Set(field, value)
	}
	for field, on := range map[string]bool{"reopen_to_bot": s.ReopenToBot, "enforce": t.Enforce, "rate": t.RateChat, "mail_chats": t.MailChats} {
		tick(shown, field, on)
	}
	lookShown(shown, &t.Look)
	showHours(shown, &t.Hours)
	for i, f := range t.PreChat {
		n := strconv.Itoa(i)
		shown.Set("field_name_"+n, f.Name)
		shown.Set("field_label_"+n, f.Label)
		shown.Set("field_type_"+n, f.Type)
		tick(shown, "field_required_"+n, f.Required)
	}
	return shown
}

// whole shows a duration in a unit, also one that is nothing but the usual.
func whole(d, unit time.Duration) string { return strconv.Itoa(int(d / unit)) }

// tick sets a box that is ticked.
func tick(shown url.Values, field string, on bool) {
	if on {
		shown.Set(field, "on")
	}
}

// changeSecret makes a new secret before the newest one, which stays valid, or removes one.
func (p *Pages) changeSecret(q *request) {
	release, ok := q.alone()
	if !ok {
		return
	}
	defer release()
	s, ok := q.site()
	if !ok {
		return
	}
	secrets, secret, done, ok := q.rotated(s.Settings.Secrets, 0)
	if !ok {
		return
	}
	s.Settings.Secrets = secrets
	if err := p.o.Store.UpdateSite(q.ctx(), s); err != nil {
		if q.failed(err) {
			q.fail(http.StatusUnprocessableEntity, "error.form")
		}
		return
	}
	if !q.audit(store.AuditSecret, "site "+s.ID, "secret "+done) {
		return
	}
	if secret == "" {
		q.see("/admin/sites/"+s.ID, done)
		return
	}
	q.seeOnce("/admin/sites/"+s.ID, done, secret)
}
