package sqlstore

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/go-eddy/eddy/desk/store"
)

const (
	// queueOrder is the order of store.Conversation.CompareQueue; conversation_queue is its index.
	queueOrder = `c.queued_at + c.priority * 90000, c.priority, c.id`

	sqlAsked   = `SELECT c.page, p.attributes FROM conversation c JOIN contact p ON p.id = c.contact WHERE c.id = ?`
	sqlAnswers = `SELECT meta, body FROM message WHERE conversation = ? AND sender_kind = 'customer' AND kind = 'text' ORDER BY seq DESC LIMIT 50`
)

// route lets the rules of its site decide about a conversation that enters the queue at its end. Skills of an earlier
// entry are forgotten.
func (t *tx) route(c *store.Conversation) error {
	c.Skills = ""
	settings, err := t.siteSettings(c.Site)
	rules := settings.Rules
	if err != nil || len(rules) == 0 {
		return err
	}
	facts := store.RouteFacts{Locale: c.Locale}
	var attributes string
	if err := t.row(sqlAsked, c.ID).Scan(&facts.Page, &attributes); err != nil {
		return err
	}
	if err := json.Unmarshal([]byte(attributes), &facts.Attributes); err != nil {
		return fmt.Errorf("store: attributes of contact %s: %w", c.Contact, err)
	}
	if slices.ContainsFunc(rules, func(r store.RouteRule) bool { return r.Answer != "" }) {
		if facts.Answers, err = all(t, scanAnswer, sqlAnswers, c.ID); err != nil {
			return err
		}
	}
	rule, at := store.Route(rules, &facts)
	if at == 0 {
		return nil
	}
	if rule.Group != "" {
		c.Group = rule.Group
	}
	if p, ok := store.ParsePriority(rule.Priority); ok {
		c.Priority = p
	}
	c.Skills = rule.Skills
	return nil
}

// scanAnswer reads what a customer has said: what the button means that it has pressed, or its text.
func scanAnswer(r scanner) (answer string, err error) {
	var m string
	if err := r.Scan(&m, &answer); err != nil {
		return "", err
	}
	var x meta
	err = json.Unmarshal([]byte(m), &x)
	return cmp.Or(x.Payload, answer), err
}

func (t *tx) siteSettings(site string) (s store.SiteSettings, err error) {
	var text string
	if err := t.row(`SELECT settings FROM site WHERE id = ?`, site).Scan(&text); err != nil {
		return s, notFound(err)
	}
	return settingsOf(site, text)
}

func settingsOf(site, text string) (s store.SiteSettings, err error) {
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return s, fmt.Errorf("store: settings of site %s: %w", site, err)
	}
	return s, nil
}

// ruled counts the sites with a rule for a group, and those that have it themselves.
func (t *tx) ruled(group string) (n int, err error) {
	type site struct{ id, group, settings string }
	sites, err := all(t, func(r scanner) (s site, err error) {
		err = r.Scan(&s.id, &s.group, &s.settings)
		return s, err
	}, `SELECT id, grp, settings FROM site`)
	for _, s := range sites {
		settings, err := settingsOf(s.id, s.settings)
		if err != nil {
			return 0, err
		}
		if s.group == group || slices.ContainsFunc(settings.Rules, func(r store.RouteRule) bool { return r.Group == group }) {
			n++
		}
	}
	return n, err
}

// arrange sets the priority of a conversation.
func (t *tx) arrange(c store.Arrange) (store.Outcome, error) {
	d, err := t.load(c.Conv)
	if err != nil {
		return store.Outcome{}, err
	}
	head := store.Outcome{Conv: d.Conversation}
	switch {
	case c.By.Kind != store.Agent:
		return head, store.ErrForbidden
	case d.State == store.Closed:
		return head, store.ErrClosed
	case d.Priority == c.Priority:
		return head, nil
	}
	d.Priority = c.Priority
	name := c.Priority.Name()
	return t.noted(d, store.Event{From: c.By, Body: "Priority: " + name, Payload: store.PayloadPriority + name})
}

// relax lets any agent of the group have a conversation.
func (t *tx) relax(c store.Relax) (store.Outcome, error) {
	d, err := t.load(c.Conv)
	if err != nil {
		return store.Outcome{}, err
	}
	if d.State != store.Queued || d.Relaxed || d.Rev != c.Rev {
		return store.Outcome{Conv: d.Conversation}, store.ErrConflict
	}
	d.Relaxed = true
	why, payload := "Nobody was free in time with", store.PayloadRelaxed
	if c.Nobody {
		why, payload = "Nobody of the group has", store.PayloadNobody
	}
	return t.noted(d, store.Event{
		From: store.Actor{Kind: store.System}, Body: why + ": " + strings.Join(c.Missed, ", ") + ". Any agent of the group may get this chat now.",
		Payload: payload + strings.Join(c.Missed, ","),
	})
}

// noted adds a note to a conversation that has changed, and saves both.
func (t *tx) noted(d *draft, e store.Event) (store.Outcome, error) {
	e.Kind = store.KindNote
	if err := t.add(d, e); err != nil {
		return store.Outcome{Conv: d.Conversation}, err
	}
	out, err := t.save(d)
	out.Touched = true
	return out, err
}

// routesRefer refuses rules that name a group that does not exist.
func (t *tx) routesRefer(rules []store.RouteRule) error {
	for n := range rules {
		if err := t.named("grp", rules[n].Group, store.RuleField("group", n)); err != nil {
			return err
		}
	}
	return nil
}
