package store

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// RouteRule sends conversations of a site to a group, with a priority and skills. It fits a conversation that meets all
// of its conditions; one that is "" is always met. A result that is "" changes nothing. Upper and lower case are the same.
type RouteRule struct {
	Page      string `json:"page,omitempty"`      // in the address of the page
	Begins    bool   `json:"begins,omitempty"`    // the address begins with Page, after the host if Page begins with a slash
	Language  string `json:"language,omitempty"`  // of the customer, without a region
	Answer    string `json:"answer,omitempty"`    // a button that the customer has pressed, or a text that it has sent
	Attribute string `json:"attribute,omitempty"` // of the customer: signed identity, question before the chat, or bot
	Value     string `json:"value,omitempty"`     // of Attribute; "" = any but none

	Group    string `json:"group,omitempty"`
	Priority string `json:"priority,omitempty"` // one of Priorities
	Skills   string `json:"skills,omitempty"`   // as Skills returns them
}

// Limits of rules. Lengths are in characters.
const (
	MaxRules       = 30 // of a site
	MaxRulePage    = 300
	MaxRuleAnswer  = 200
	MaxRuleSkills  = 5
	MaxSkill       = 40
	MaxAgentSkills = 30
	MaxLanguages   = 20
)

// RouteFacts is what rules are compared with.
type RouteFacts struct {
	Page       string
	Locale     string
	Answers    []string // values of buttons and texts of the customer in the conversation
	Attributes map[string]string
}

// Route returns the first rule that fits and its place from 1 on, 0 = none does.
func Route(rules []RouteRule, f *RouteFacts) (RouteRule, int) {
	for i := range rules {
		if rules[i].fits(f) {
			return rules[i], i + 1
		}
	}
	return RouteRule{}, 0
}

func (r *RouteRule) fits(f *RouteFacts) bool {
	return (r.Page == "" || r.onPage(f.Page)) &&
		(r.Language == "" || strings.EqualFold(r.Language, Language(f.Locale))) &&
		(r.Answer == "" || slices.ContainsFunc(f.Answers, func(a string) bool { return strings.EqualFold(r.Answer, strings.TrimSpace(a)) })) &&
		(r.Attribute == "" || r.has(f.Attributes[r.Attribute]))
}

func (r *RouteRule) has(value string) bool {
	return value != "" && (r.Value == "" || strings.EqualFold(r.Value, strings.TrimSpace(value)))
}

func (r *RouteRule) onPage(address string) bool {
	address, page := strings.ToLower(address), strings.ToLower(r.Page)
	if !r.Begins {
		return strings.Contains(address, page)
	}
	if _, rest, ok := strings.Cut(address, "://"); ok && !strings.Contains(page, "://") {
		address = rest
		if page[0] == '/' {
			address = "/" + rest[min(strings.IndexByte(rest+"/", '/')+1, len(rest)):]
		}
	}
	return strings.HasPrefix(address, page)
}

// Empty reports whether a rule has neither conditions nor results.
func (r RouteRule) Empty() bool {
	return r == RouteRule{Begins: r.Begins}
}

var (
	skillForm     = regexp.MustCompile(`^[\p{L}\p{N}][\p{L}\p{N} ._+#-]*$`)
	languageForm  = regexp.MustCompile(`^[a-z]{2,3}$`)
	attributeForm = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,40}$`)
)

// skills checks a list of skills.
func (i *Invalid) skills(field, list string, limit int) {
	all := List(list)
	i.count(field, len(all), limit)
	i.need(list == Skills(list), field, ReasonFormat)
	for _, s := range all {
		i.text(field, s, MaxSkill, true, true)
		i.need(skillForm.MatchString(s), field, ReasonFormat)
	}
}

// languages checks a list of languages.
func (i *Invalid) languages(field, list string) {
	i.count(field, len(List(list)), MaxLanguages)
	i.need(list == Languages(list), field, ReasonFormat)
	for _, l := range List(list) {
		i.need(languageForm.MatchString(l), field, ReasonFormat)
	}
}

// rules checks the rules of a site. The fields are named as RuleField does.
func (i *Invalid) rules(all []RouteRule) {
	i.count("rules", len(all), MaxRules)
	for n := range all {
		r := &all[n]
		field := func(name string) string { return RuleField(name, n) }
		i.text(field("page"), r.Page, MaxRulePage, false, true)
		i.need(r.Language == "" || languageForm.MatchString(r.Language), field("language"), ReasonFormat)
		i.text(field("answer"), r.Answer, MaxRuleAnswer, false, true)
		i.text(field("value"), r.Value, MaxAttributeChars, false, true)
		i.need(r.Attribute == "" || attributeForm.MatchString(r.Attribute), field("attribute"), ReasonFormat)
		i.need(r.Attribute != "" || r.Value == "", field("attribute"), ReasonRequired)
		i.need(r.Priority == "" || slices.Contains(Priorities(), r.Priority), field("priority"), ReasonUnknown)
		i.skills(field("skills"), r.Skills, MaxRuleSkills)
		i.need(r.Group+r.Priority+r.Skills != "", field("group"), ReasonRequired)
	}
}

// RuleField returns the name of a field of a rule, whose place counts from 0.
func RuleField(name string, place int) string { return "rule_" + name + "_" + strconv.Itoa(place) }
