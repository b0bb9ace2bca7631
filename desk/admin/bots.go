package admin

import (
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/go-eddy/eddy/desk/bot"
	"github.com/go-eddy/eddy/desk/store"
)

// botList is the list of bots with the sites that use them.
type botList struct {
	Bots  []store.BotAccount
	Sites []store.Site
	Used  map[string]used // today, by assistant
}

// SitesOf returns the names of the sites that have a bot.
func (l botList) SitesOf(id string) string {
	var names []string
	for _, s := range l.Sites {
		if s.Bot == id {
			names = append(names, s.Name)
		}
	}
	return strings.Join(names, ", ")
}

func (p *Pages) bots(q *request) {
	var page botList
	var err error
	if page.Bots, err = p.o.Store.Cold().Bots(q.ctx()); err == nil {
		page.Sites, err = p.o.Store.Cold().Sites(q.ctx())
	}
	if err == nil {
		page.Used, err = p.usage(q, page.Bots)
	}
	if err != nil {
		q.failed(err)
		return
	}
	q.render(http.StatusOK, "bots", page)
}

// botPage is the form of a bot; ID is "" for a new one.
type botPage struct {
	ID, Title, Kind string
	Problems        []string // those that no field shows
	HasSecret       bool
	Rules           *rulesPage // the rules as fields, nil for JSON and for bots of other kinds
	Top             rulesRow   // the settings of bots of other kinds
}

// Action returns where the form goes.
func (p botPage) Action() string {
	if p.ID == "" {
		return "/admin/bots"
	}
	return "/admin/bots/" + p.ID
}

// View returns the address of the page as a form, or of its JSON.
func (p botPage) View(json bool) string {
	at := p.Action()
	if p.ID == "" {
		at += "/new"
	}
	if json {
		at += "?view=json"
	}
	return at
}

func (q *request) botForm(status int, b store.BotAccount, problems ...string) {
	page := botPage{ID: b.ID, Title: b.Name, Kind: b.Kind, Problems: problems}
	switch {
	case b.ID == "":
	case b.Kind == store.BotWebhook:
		c, err := bot.ParseWebhook(b.Config)
		page.HasSecret = err == nil && c.Secret != ""
	case b.Kind == store.BotAssistant:
		c, err := bot.ParseAssistant(b.Config)
		page.HasSecret = err == nil && c.Key != ""
	}
	page.Top = rulesRow{request: q}
	if b.Kind == store.BotRules && q.there(formField) {
		page.Rules = q.rulesPage(page.Action())
	}
	q.render(status, "bot", page)
}

// kindOf returns the kind of a new bot.
func kindOf(s string) string {
	if s == store.BotWebhook || s == store.BotAssistant {
		return s
	}
	return store.BotRules
}

func (p *Pages) newBot(q *request) {
	b := store.BotAccount{Kind: kindOf(q.r.URL.Query().Get("kind"))}
	switch b.Kind {
	case store.BotRules:
		q.set("rules", bot.DefaultRules())
	default:
		q.fill(botShown(b))
	}
	q.botAsked(b)
}

// botAsked shows a bot as it is stored: rules as a form, unless the reader wants JSON.
func (q *request) botAsked(b store.BotAccount) {
	if b.Kind == store.BotRules && q.r.URL.Query().Get("view") != "json" {
		q.showRules(q.Value("rules"))
	}
	q.botForm(http.StatusOK, b)
}

func (q *request) bot() (store.BotAccount, bool) {
	b, err := q.p.o.Store.Cold().Bot(q.ctx(), q.r.PathValue("id"))
	if err != nil {
		q.failed(err)
	}
	return b, err == nil
}

func (p *Pages) editBot(q *request) {
	b, ok := q.bot()
	if !ok {
		return
	}
	q.show(botShown(b))
	q.botAsked(b)
}

// botShown returns the fields of a bot. The secret of a webhook bot is never shown.
func botShown(b store.BotAccount) url.Values {
	shown := url.Values{"name": {b.Name}}
	if b.Kind == store.BotAssistant {
		maps.Copy(shown, assistantShown(b.Config))
	} else if b.Kind != store.BotWebhook {
		shown.Set("rules", b.Config)
	} else if c, err := webhookShown(b.Config); err == nil {
		v := rulesFields{shown, webhookLanguages(c)}
		v.Set(langField, strings.Join(v.languages, " "))
		v.text("greeting", c.Greeting)
		shown.Set("url", c.URL)
		shown.Set("timeout", unlessZero(int64(c.TimeoutMS)))
		shown.Set("attributes", strings.Join(c.Attributes, "\n"))
		tick(shown, "private", c.AllowPrivate)
	}
	return shown
}

// webhookShown reads settings without their defaults.
func webhookShown(config string) (c bot.WebhookConfig, err error) {
	if config != "" {
		err = json.Unmarshal([]byte(config), &c)
	}
	return c, err
}

func webhookLanguages(c bot.WebhookConfig) []string {
	return tidy(slices.AppendSeq([]string{"en", "zh", c.Language}, maps.Keys(c.Greeting)))
}

// botEntered fills a bot with the values of the form. A secret that is left empty stays as it was.
func (q *request) botEntered(b *store.BotAccount) error {
	b.Name = q.line("name")
	if b.Name == "" {
		q.wrong("name", q.T("reason.required"))
	} else if len([]rune(b.Name)) > store.MaxName {
		q.wrong("name", q.T("reason.long", store.MaxName))
	}
	switch b.Kind {
	case store.BotRules:
		return q.configEntered(b)
	case store.BotAssistant:
		return q.assistantEntered(b)
	}
	c, err := webhookShown(b.Config)
	if err != nil {
		return err
	}
	c.URL, c.TimeoutMS, c.AllowPrivate, c.Attributes = q.line("url"), int(q.number("timeout")), q.Value("private") != "", q.lines("attributes")
	if s := q.line("secret"); s != "" {
		c.Secret = s
	}
	if q.there(langField) {
		c.Greeting = q.said("greeting")
	}
	config, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return err
	}
	b.Config = string(config)
	return bot.Check(b.Kind, b.Config)
}

// configEntered fills in the rules, which come as fields or as JSON.
func (q *request) configEntered(b *store.BotAccount) (err error) {
	if !q.there(formField) {
		b.Config = strings.ReplaceAll(q.Value("rules"), "\r\n", "\n")
		return bot.Check(b.Kind, b.Config)
	}
	c := q.rulesEntered()
	q.refill(c)
	if b.Config, err = encodeRules(c); err != nil {
		return err
	}
	return bot.Check(b.Kind, b.Config)
}

func (p *Pages) createBot(q *request) {
	b := store.BotAccount{Kind: kindOf(q.Value("kind"))}
	if q.playing(b) {
		return
	}
	p.storeBot(q, b, func(b *store.BotAccount) (err error) {
		*b, err = p.o.Store.CreateBot(q.ctx(), *b)
		return err
	})
}

func (p *Pages) saveBot(q *request) {
	if q.Value(doField) != "" {
		if b, ok := q.bot(); !ok || q.playing(b) {
			return
		}
	}
	done, ok := q.alone()
	if !ok {
		return
	}
	defer done()
	b, ok := q.bot()
	if !ok {
		return
	}
	q.outdated(botShown(b))
	p.storeBot(q, b, func(b *store.BotAccount) error { return p.o.Store.UpdateBot(q.ctx(), *b) })
}

// storeBot makes or changes a bot.
func (p *Pages) storeBot(q *request, before store.BotAccount, write func(*store.BotAccount) error) {
	b := before
	problems := q.problems(q.botEntered(&b))
	var err error
	if q.Failed()+len(problems) == 0 {
		err = write(&b)
	}
	if errors.Is(err, store.ErrExists) {
		q.wrong("name", q.T("reason.taken"))
	} else if err != nil && !q.failed(err) {
		return
	}
	if q.Failed()+len(problems) > 0 {
		q.botForm(q.status(), before, problems...)
		return
	}
	action, done := store.AuditUpdate, "saved"
	if before.ID == "" {
		action, done = store.AuditCreate, "created"
	}
	if q.audit(action, "bot "+b.ID, b.Name+", "+b.Kind+", "+strconv.Itoa(len(b.Config))+" bytes") {
		q.see("/admin/bots/"+b.ID, done)
	}
}

func (p *Pages) deleteBot(q *request) {
	b, ok := q.bot()
	if !ok {
		return
	}
	err := p.o.Store.DeleteBot(q.ctx(), b.ID)
	switch {
	case errors.Is(err, store.ErrInUse):
		q.fail(http.StatusConflict, "bots.inUse")
	case err != nil:
		q.failed(err)
	default:
		if q.audit(store.AuditDelete, "bot "+b.ID, b.Name) {
			q.see("/admin/bots", "deleted")
		}
	}
}
