package admin

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/go-eddy/eddy/desk/store"
)

// routesPage is the form with the rules of a site.
type routesPage struct {
	*lists
	ID, Key string
	Rows    []int // of rules, one empty one at the end
	Tried   string
	Fits    bool // what was tried fits a rule
}

// Priorities returns the names of the priorities.
func (routesPage) Priorities() []string { return store.Priorities() }

// Number returns the number of a rule, which begins at 1.
func (routesPage) Number(row int) int { return row + 1 }

// Last reports whether a row is the empty one.
func (p routesPage) Last(row int) bool { return row == len(p.Rows)-1 }

func (p *Pages) editRules(q *request) {
	s, ok := q.site()
	if !ok {
		return
	}
	q.show(routesShown(s.Settings.Rules))
	q.rulesForm(http.StatusOK, s, routesPage{})
}

func (q *request) rulesForm(status int, s store.Site, page routesPage) {
	var err error
	if page.lists, err = q.lists(); err != nil {
		q.failed(err)
		return
	}
	page.ID, page.Key = s.ID, s.Key
	for i := 0; ; i++ {
		page.Rows = append(page.Rows, i)
		if q.rule(i).Empty() {
			break
		}
	}
	q.render(status, "rules", page)
}

// routesShown returns the fields of rules.
func routesShown(rules []store.RouteRule) url.Values {
	shown := make(url.Values)
	for i, r := range rules {
		for name, value := range map[string]string{
			"page": r.Page, "language": r.Language, "answer": r.Answer, "attribute": r.Attribute, "value": r.Value,
			"group": r.Group, "priority": r.Priority, "skills": strings.ReplaceAll(r.Skills, ",", ", "),
		} {
			shown.Set(store.RuleField(name, i), value)
		}
		tick(shown, store.RuleField("begins", i), r.Begins)
	}
	return shown
}

// rule returns what the form has in a row.
func (q *request) rule(row int) store.RouteRule {
	line := func(name string) string { return q.line(store.RuleField(name, row)) }
	return store.RouteRule{
		Page: line("page"), Begins: line("begins") != "", Language: store.Language(line("language")), Answer: line("answer"),
		Attribute: line("attribute"), Value: line("value"), Group: line("group"), Priority: line("priority"), Skills: store.Skills(line("skills")),
	}
}

// routesEntered takes the rules out of the form, without empty rows.
func (q *request) routesEntered() (rules []store.RouteRule) {
	for row := range store.MaxRules + 1 {
		if r := q.rule(row); !r.Empty() {
			rules = append(rules, r)
		}
	}
	return rules
}

// setRules puts rules into the form.
func (q *request) setRules(rules []store.RouteRule) {
	for field := range q.values {
		if strings.HasPrefix(field, "rule_") {
			q.values.Del(field)
		}
	}
	q.fill(routesShown(rules))
}

// saveRules stores the rules, or does to the form what another of its buttons says.
func (p *Pages) saveRules(q *request) {
	done, ok := q.alone()
	if !ok {
		return
	}
	defer done()
	s, ok := q.site()
	if !ok {
		return
	}
	rules := q.routesEntered()
	if action := q.Value("do"); action != "" {
		q.setRules(rearranged(rules, action))
		q.rulesForm(http.StatusOK, s, q.triedRoutes(s, rules, action))
		return
	}
	q.setRules(rules)
	q.outdated(routesShown(s.Settings.Rules))
	s.Settings.Rules = rules
	err := s.Check()
	if err == nil && q.Failed() == 0 {
		err = p.o.Store.UpdateSite(q.ctx(), s)
	}
	if err != nil && !q.failed(err) {
		return
	}
	if q.Failed() > 0 {
		q.rulesForm(q.status(), s, routesPage{})
		return
	}
	if q.audit(store.AuditUpdate, "site "+s.ID, strconv.Itoa(len(rules))+" rules") {
		q.see("/admin/sites/"+s.ID+"/rules", "saved")
	}
}

// rearranged returns the rules after a press of a button: "up 2" and "remove 2" mean the third.
func rearranged(rules []store.RouteRule, action string) []store.RouteRule {
	what, at, _ := strings.Cut(action, " ")
	i, err := strconv.Atoi(at)
	switch {
	case err != nil || i < 0 || i >= len(rules):
	case what == "up" && i > 0:
		rules[i-1], rules[i] = rules[i], rules[i-1]
	case what == "remove":
		rules = slices.Delete(rules, i, i+1)
	}
	return rules
}

// triedRoutes says which of the rules fits the example of the form, without storing anything.
func (q *request) triedRoutes(s store.Site, rules []store.RouteRule, action string) (page routesPage) {
	if action != "try" {
		return page
	}
	facts := store.RouteFacts{Page: q.line("try_page"), Locale: q.line("try_language"), Answers: q.lines("try_answer"), Attributes: make(map[string]string)}
	for _, line := range q.lines("try_attributes") {
		name, value, _ := strings.Cut(line, "=")
		facts.Attributes[strings.TrimSpace(name)] = strings.TrimSpace(value)
	}
	all, err := q.lists()
	if err != nil {
		return page
	}
	rule, at := store.Route(rules, &facts)
	if rule.Group == "" {
		rule.Group = s.Group
	}
	group, priority := all.GroupName(rule.Group), rule.Priority
	if group == "" {
		group = q.T("sites.everybody")
	}
	if priority == "" {
		priority = "normal"
	}
	page.Fits, page.Tried = at > 0, q.T("routes.try.none", group)
	if at > 0 {
		page.Tried = q.T("routes.try.fits", at, group, q.T("priority."+priority))
	}
	if rule.Skills != "" {
		page.Tried += " " + q.T("routes.try.skills", strings.ReplaceAll(rule.Skills, ",", ", "))
	}
	return page
}
