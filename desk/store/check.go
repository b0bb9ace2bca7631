package store

import (
	"crypto/ed25519"
	"encoding/base64"
	"fmt"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Limits of what an administrator may enter. Lengths are in characters.
const (
	MaxLogin     = 64
	MaxName      = 80
	MaxCapacity  = 1000
	MaxChats     = 100_000 // of one address in an hour
	MaxSiteKey   = 40
	MaxOrigins   = 20
	MaxSecrets   = 2
	MinSecret    = 32
	MaxSecret    = 256
	MaxGreeting  = 1000
	MaxConsent   = 2000
	MaxPreChat   = 10
	MaxLabel     = 100
	MaxQueueSize = 10_000
	MaxSticky    = 365  // days
	MaxKeep      = 3650 // days
	MaxShort     = 32
	MaxTitle     = 100
	MaxBody      = 8000
)

// maxAccept, maxTarget and maxTimer are the longest times that may be set, in milliseconds.
const (
	maxAccept = int64(time.Hour / time.Millisecond)
	maxTarget = 24 * maxAccept
	maxTimer  = 30 * 24 * maxAccept
)

// Reasons why a field is refused.
const (
	ReasonRequired = "required"
	ReasonLong     = "long"    // longer than Limit characters
	ReasonShort    = "short"   // shorter than Limit characters
	ReasonRange    = "range"   // not between 0 and Limit
	ReasonMany     = "many"    // more than Limit entries
	ReasonFormat   = "format"  // not in the form this field has
	ReasonUnknown  = "unknown" // names something that does not exist
	ReasonTwice    = "twice"   // the same entry twice
	ReasonWider    = "wider"   // for more people than may see it
	ReasonInUse    = "in_use"  // Limit contacts have a value that would be lost
)

// Problem is one thing that is wrong with one field.
type Problem struct {
	Field  string
	Reason string
	Limit  int64  // for reasons with a limit
	Value  string // what was entered, where the field has many entries
}

// Invalid lists what is wrong with an input. Nothing has been changed.
type Invalid []Problem

// Error implements error.
func (i Invalid) Error() string {
	parts := make([]string, len(i))
	for n, p := range i {
		parts[n] = p.Field + " is " + p.Reason
		if p.Value != "" {
			parts[n] += fmt.Sprintf(": %q", p.Value)
		}
		if p.Limit != 0 {
			parts[n] += fmt.Sprintf(" (limit %d)", p.Limit)
		}
	}
	return "store: " + strings.Join(parts, ", ")
}

// err returns nil when nothing is wrong.
func (i Invalid) err() error {
	if len(i) == 0 {
		return nil
	}
	return i
}

func (i *Invalid) add(field, reason string, limit int64) {
	*i = append(*i, Problem{Field: field, Reason: reason, Limit: limit})
}

func (i *Invalid) need(ok bool, field, reason string) {
	if !ok {
		i.add(field, reason, 0)
	}
}

// text checks a text of at most limit characters. line means that the text must be one line.
func (i *Invalid) text(field, s string, limit int, required, line bool) {
	switch {
	case required && strings.TrimSpace(s) == "":
		i.add(field, ReasonRequired, 0)
	case utf8.RuneCountInString(s) > limit:
		i.add(field, ReasonLong, int64(limit))
	case !utf8.ValidString(s) || strings.ContainsFunc(s, func(r rune) bool { return unicode.IsControl(r) && (line || r != '\n' && r != '\r' && r != '\t') }):
		i.add(field, ReasonFormat, 0)
	}
}

func (i *Invalid) between(field string, v, limit int64) {
	if v < 0 || v > limit {
		i.add(field, ReasonRange, limit)
	}
}

func (i *Invalid) count(field string, n, limit int) {
	if n > limit {
		i.add(field, ReasonMany, int64(limit))
	}
}

var (
	loginForm  = regexp.MustCompile(`^[\p{L}\p{N}._@+-]+$`)
	keyForm    = regexp.MustCompile(`^[a-z0-9](?:[a-z0-9-]*[a-z0-9])?$`)
	colorForm  = regexp.MustCompile(`^#[0-9a-fA-F]{6}$`)
	nameForm   = regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9_]{0,31}$`)
	shortForm  = regexp.MustCompile(`^[\p{L}\p{N}._-]+$`)
	localeForm = regexp.MustCompile(`^(?:|en|zh-CN)$`)
)

// Check returns what is wrong with an account as an Invalid. The password is not checked.
func (a *AgentAccount) Check() error {
	var i Invalid
	i.text("login", a.Login, MaxLogin, true, true)
	i.need(a.Login == "" || loginForm.MatchString(a.Login), "login", ReasonFormat)
	i.text("name", a.Name, MaxName, true, true)
	i.between("capacity", int64(a.Capacity), MaxCapacity)
	i.need(a.Role.Valid(), "role", ReasonUnknown)
	i.need(localeForm.MatchString(a.Locale), "locale", ReasonUnknown)
	i.skills("skills", a.Skills, MaxAgentSkills)
	i.languages("languages", a.Languages)
	i.need(a.Email == "" || ValidEmail(a.Email), "email", ReasonFormat)
	return i.err()
}

// Check returns what is wrong with a site as an Invalid.
func (s *Site) Check() error {
	var i Invalid
	i.text("key", s.Key, MaxSiteKey, true, true)
	i.need(s.Key == "" || keyForm.MatchString(s.Key), "key", ReasonFormat)
	i.text("name", s.Name, MaxName, true, true)
	i.text("bot_name", s.BotName, MaxName, false, true)
	i.between("reopen", max(s.ReopenWindow.Milliseconds(), 0), maxTimer)
	s.Logo.check(&i)
	s.Settings.check(&i)
	return i.err()
}

func (s *SiteSettings) check(i *Invalid) {
	i.count("origins", len(s.Origins), MaxOrigins)
	i.need(!slices.ContainsFunc(s.Origins, func(o string) bool { return !ValidOrigin(o) }), "origins", ReasonFormat)
	i.count("secrets", len(s.Secrets), MaxSecrets)
	for _, secret := range s.Secrets {
		if len(secret) < MinSecret {
			i.add("secrets", ReasonShort, MinSecret)
		}
		i.text("secrets", secret, MaxSecret, true, true)
	}
	i.count("keys", len(s.Keys), MaxSecrets)
	for _, key := range s.Keys {
		raw, err := base64.StdEncoding.DecodeString(key)
		i.need(err == nil && len(raw) == ed25519.PublicKeySize, "keys", ReasonFormat)
	}
	i.need(s.Color == "" || colorForm.MatchString(s.Color), "color", ReasonFormat)
	i.text("greeting", s.Greeting, MaxGreeting, false, false)
	i.text("consent", s.Consent, MaxConsent, false, false)
	i.count("prechat", len(s.PreChat), MaxPreChat)
	seen := make(map[string]bool)
	for _, f := range s.PreChat {
		i.need(nameForm.MatchString(f.Name), "prechat", ReasonFormat)
		i.text("prechat", f.Label, MaxLabel, true, true)
		i.need(slices.Contains([]string{"text", "email", "tel"}, f.Type), "prechat", ReasonUnknown)
		i.need(!seen[f.Name], "prechat", ReasonTwice)
		seen[f.Name] = true
	}
	i.between("idle_bot", s.IdleBot, maxTimer)
	i.between("idle_wait", s.IdleWait, maxTimer)
	i.between("idle_chat", s.IdleChat, maxTimer)
	i.between("warn_for", s.WarnFor, maxTimer)
	i.between("keep_days", int64(s.KeepDays), MaxKeep)
	i.need(slices.Contains([]string{"", KeepNothing, KeepBasic, KeepFull}, s.Visits), "visits", ReasonUnknown)
	i.between("chats", int64(s.Chats), MaxChats)
	s.Look.check(i)
	i.between("away_after", s.AwayAfter, maxTimer)
	i.hours(s.Hours)
	i.rules(s.Rules)
}

// hostForm matches names of hosts and IPv4 addresses as browsers write them.
var hostForm = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9_-]*[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9_-]*[A-Za-z0-9])?)*$`)

// ValidOrigin reports whether a text is an origin: http or https and a host, perhaps a port, and nothing else.
func ValidOrigin(s string) bool {
	u, err := url.Parse(s)
	if err != nil || (u.Scheme != "https" && u.Scheme != "http") || len(s) > 253 || s != u.Scheme+"://"+u.Host || strings.HasSuffix(u.Host, ":") {
		return false
	}
	if _, err := strconv.ParseUint(u.Port(), 10, 16); u.Port() != "" && err != nil {
		return false
	}
	host := u.Hostname()
	if strings.HasPrefix(u.Host, "[") {
		a, err := netip.ParseAddr(host)
		return err == nil && a.Is6() && a.Zone() == ""
	}
	return hostForm.MatchString(host)
}

// strategies returns the strategies of a group, with "" for the default.
func strategies() []string { return append(Strategies(), "") }

// Check returns what is wrong with a group as an Invalid.
func (g *Group) Check() error {
	var i Invalid
	i.text("name", g.Name, MaxName, true, true)
	i.need(slices.Contains(strategies(), g.Settings.Strategy), "strategy", ReasonUnknown)
	i.between("max_queue", int64(g.Settings.MaxQueue), MaxQueueSize)
	i.between("accept", g.Settings.Accept, maxAccept)
	i.between("sticky_days", int64(g.Settings.StickyDays), MaxSticky)
	i.between("sticky_wait", g.Settings.StickyWait, maxAccept)
	i.hours(g.Settings.Hours)
	i.between("relax", g.Settings.Relax, maxAccept)
	i.between("away", g.Settings.Away, maxTimer)
	i.between("target", g.Settings.Target, maxTarget)
	i.between("target_share", int64(g.Settings.TargetShare), 100)
	return i.err()
}

// Check returns what is wrong with a prepared reply as an Invalid.
func (c *Canned) Check() error {
	var i Invalid
	i.text("short", c.Short, MaxShort, true, true)
	i.need(c.Short == "" || shortForm.MatchString(c.Short), "short", ReasonFormat)
	i.need(localeForm.MatchString(c.Locale), "locale", ReasonUnknown)
	i.text("title", c.Title, MaxTitle, true, true)
	i.text("body", c.Body, MaxBody, true, false)
	return i.err()
}
