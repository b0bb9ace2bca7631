package admin

import (
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-eddy/eddy/desk/perm"
	"github.com/go-eddy/eddy/desk/store"
)

var verbs = regexp.MustCompile(`%[a-z]`)

// Both languages say everything, with the same numbers in it.
func TestTextsAreComplete(t *testing.T) {
	for key, en := range english() {
		zh := chinese()[key]
		if zh == "" || en == "" {
			t.Errorf("%s: %q in English, %q in Chinese", key, en, zh)
		}
		if a, b := fmt.Sprint(verbs.FindAllString(en, -1)), fmt.Sprint(verbs.FindAllString(zh, -1)); a != b {
			t.Errorf("%s: %s in English, %s in Chinese", key, a, b)
		}
	}
	for key := range chinese() {
		if english()[key] == "" {
			t.Errorf("%s: no English", key)
		}
	}
}

// What the templates name exists; what is put together at run time does, too.
func TestTextsExist(t *testing.T) {
	var names []string
	named := regexp.MustCompile(`\.T "([^"]+)"|\.(?:Input|At) "[^"]+" "[^"]+" "([^"]+)"|\.Shown "([^"]+)"|\.Texts (?:"[^"]+"|\.) "[^"]+" "([^"]+)"`)
	err := fs.WalkDir(files, ".", func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		content, err := fs.ReadFile(files, path)
		for _, m := range named.FindAllSubmatch(content, -1) {
			names = append(names, string(m[1])+string(m[2])+string(m[3])+string(m[4]))
		}
		return err
	})
	if err != nil || len(names) < 150 {
		t.Fatalf("%d names %v", len(names), err)
	}
	for _, r := range perm.Roles() {
		names = append(names, "role."+string(r), "role."+string(r)+".help")
	}
	for _, s := range store.Strategies() {
		names = append(names, "strategy."+s, "strategy."+s+".help")
	}
	for _, scope := range perm.KeyScopes() {
		names = append(names, "scope."+string(scope), "scope."+string(scope)+".help")
	}
	for _, what := range store.EventTypes() {
		names = append(names, "event."+string(what))
	}
	for _, a := range actions() {
		names = append(names, "action."+a)
	}
	for _, k := range store.MailKinds() {
		names = append(names, "mail.kind."+string(k))
	}
	for _, reason := range []string{
		store.ReasonRequired, store.ReasonLong, store.ReasonShort, store.ReasonRange, store.ReasonMany, store.ReasonFormat, store.ReasonUnknown, store.ReasonTwice,
		store.ReasonBytes, store.ReasonPixels, store.ReasonPicture, store.ReasonSVG, store.ReasonMoves, store.ReasonDamaged, store.ReasonWider, store.ReasonInUse, "number", "date", "taken",
	} {
		names = append(names, "reason."+reason)
	}
	for _, answer := range (agentPage{}).Chats() {
		names = append(names, "agents.chats."+answer)
	}
	for _, timer := range (sitePage{}).Timers() {
		names = append(names, "sites."+timer)
	}
	for _, kind := range (sitePage{}).FieldTypes() {
		names = append(names, "fieldtype."+kind)
	}
	for _, kind := range store.FieldKinds() {
		names = append(names, "own.kind."+string(kind), "own.value."+string(kind))
	}
	for _, level := range store.FieldLevels() {
		names = append(names, "own.level."+string(level))
	}
	for _, kind := range []string{store.BotRules, store.BotWebhook, store.BotAssistant} {
		names = append(names, "bots.new."+kind, "bots.kind."+kind, "bots."+kind+".lead")
	}
	for _, name := range names {
		if !hasText(name) {
			t.Errorf("no text %s", name)
		}
	}
}

func TestLanguageOfAPage(t *testing.T) {
	for _, c := range []struct{ cookie, account, accept, want string }{
		{"", "", "", "en"}, {"", "", "de, zh-TW;q=0.8, en", "zh-CN"}, {"", "", "de-DE", "en"}, {"", "zh-CN", "en", "zh-CN"}, {"en", "zh-CN", "zh", "en"}, {"fr", "", "zh", "zh-CN"},
	} {
		r := &http.Request{Header: http.Header{"Accept-Language": {c.accept}}}
		if c.cookie != "" {
			r.AddCookie(&http.Cookie{Name: languageCookie, Value: c.cookie})
		}
		if got := language(r, store.AgentAccount{Locale: c.account}); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
}

// A secret is shown once, to one login, for a while, and not many wait.
func TestOnceShown(t *testing.T) {
	now := time.Unix(1000, 0)
	o := newOnceShown(func() time.Time { return now })
	me, other := store.Token{1}, store.Token{2}
	name := o.keep(me, "secret")
	if got := o.fetch(other, name) + o.fetch(me, "x"); got != "" {
		t.Errorf("another was shown %q", got)
	}
	if got := o.fetch(me, name); got != "secret" {
		t.Errorf("shown %q", got)
	}
	if got := o.fetch(me, name); got != "" {
		t.Errorf("shown again: %q", got)
	}
	name = o.keep(me, "late")
	now = now.Add(onceLife)
	if got := o.fetch(me, name); got != "" {
		t.Errorf("too late: %q", got)
	}
	first := o.keep(me, "first")
	var last string
	for i := range maxOnce {
		now = now.Add(time.Second / 2)
		last = o.keep(me, fmt.Sprint(i))
	}
	if len(o.kept) > maxOnce || o.fetch(me, first) != "" || o.fetch(me, last) != fmt.Sprint(maxOnce-1) {
		t.Errorf("%d wait; the oldest has to give way", len(o.kept))
	}
	now = now.Add(onceLife)
	o.keep(me, "x")
	if len(o.kept) != 1 {
		t.Errorf("%d are kept though they are too old", len(o.kept))
	}
}

// failing is a store whose readers fail.
type failing struct{ store.Store }

type failingReader struct{ store.Reader }

func (failing) Cold() store.Reader { return failingReader{} }

func (failingReader) Agents(context.Context) ([]store.AgentAccount, error) {
	return nil, store.ErrUnavailable
}
func (failingReader) Sites(context.Context) ([]store.Site, error)          { return nil, nil }
func (failingReader) Groups(context.Context) ([]store.Group, error)        { return nil, nil }
func (failingReader) Members(context.Context) (map[string][]string, error) { return nil, nil }
func (failingReader) CannedReplies(context.Context) ([]store.Canned, error) {
	return nil, nil
}

// answer is a response writer that keeps what it is given.
type answer struct {
	strings.Builder
	status int
	header http.Header
}

func (a *answer) Header() http.Header    { return a.header }
func (a *answer) WriteHeader(status int) { a.status = status }

// A store that does not answer is told in words, and is no success.
func TestStoreFails(t *testing.T) {
	p, err := New(Options{Store: failing{}, Asset: func(name string) string { return "/assets/" + name }, Logger: slog.New(slog.DiscardHandler), Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/admin", "/admin/agents", "/admin/agents/new", "/admin/groups", "/admin/groups/new", "/admin/sites", "/admin/canned", "/admin/canned/new"} {
		for _, route := range p.Routes() {
			if route.Pattern != "GET "+path {
				continue
			}
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
			if err != nil {
				t.Fatal(err)
			}
			w := &answer{header: http.Header{}}
			route.Serve(w, r, store.AgentSession{Agent: store.AgentAccount{Role: perm.Admin}})
			if w.status != http.StatusServiceUnavailable || !strings.Contains(w.String(), text("en", "error.unavailable")) {
				t.Errorf("%s: %d %s", path, w.status, w.String())
			}
		}
	}
}

// Every mistake in the settings of a bot is told in Chinese, too, with the same values.
func TestBotProblemsAreTranslated(t *testing.T) {
	sources, err := filepath.Glob("../bot/*.go")
	if err != nil {
		t.Fatal(err)
	}
	added := regexp.MustCompile(`(?:p\.add|&Problem)[({]("(?:[^"\\]|\\.)+")`)
	n := 0
	for _, name := range sources {
		source, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range added.FindAllSubmatch(source, -1) {
			format, err := strconv.Unquote(string(m[1]))
			if err != nil {
				t.Fatal(err)
			}
			if _, tail, found := strings.Cut(format, ": "); found {
				format = tail
			}
			n++
			zh := botProblems()[format]
			if a, b := fmt.Sprint(verbs.FindAllString(format, -1)), fmt.Sprint(verbs.FindAllString(zh, -1)); zh == "" || a != b {
				t.Errorf("%q: %q in Chinese", format, zh)
			}
		}
	}
	if n < 30 {
		t.Errorf("%d formats found", n)
	}
}
