package storetest

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/go-eddy/eddy/desk/perm"
	"github.com/go-eddy/eddy/desk/store"
)

// wrong fails unless err says exactly that these fields are wrong.
func wrong(t *testing.T, what string, err error, fields ...string) {
	t.Helper()
	var invalid store.Invalid
	errors.As(err, &invalid)
	var got []string
	for _, p := range invalid {
		got = append(got, p.Field+" "+p.Reason)
	}
	if !slices.Equal(got, fields) {
		t.Errorf("%s: %v, want %q", what, err, fields)
	}
}

func (r *rig) login(a store.AgentAccount) store.Token {
	r.t.Helper()
	token := store.Token(slices.Concat(uuidBytes(), uuidBytes()))
	r.must(r.CreateAgentSession(r.t.Context(), token, a.ID, time.Now().Add(time.Hour)))
	return token
}

func uuidBytes() []byte { id := uuid.New(); return id[:] }

func testManageAgents(t *testing.T, r *rig) {
	ctx := t.Context()
	boss, err := r.CreateAgent(ctx, store.AgentAccount{Login: "boss", Name: "Boss", Password: "x", Role: perm.Admin})
	r.must(err)
	second, err := r.CreateAgent(ctx, store.AgentAccount{Login: "second", Name: "Second", Password: "x", Role: perm.Admin, Disabled: true, NoChats: true})
	r.must(err)
	if a, err := r.Cold().AgentByID(ctx, second.ID); err != nil || a != second {
		t.Errorf("made: %+v, stored: %+v %v", second, a, err)
	}
	token := r.login(r.lin)
	lin := r.lin
	lin.Name, lin.Role, lin.Capacity, lin.Locale, lin.Login, lin.NoChats = "林", perm.Supervisor, 9, "zh-CN", "ignored", true
	r.must(r.UpdateAgent(ctx, lin))
	got, err := r.Cold().AgentSession(ctx, token, time.Now())
	lin.Login = "lin"
	if err != nil || got.Agent != lin {
		t.Errorf("changed: %+v %v", got.Agent, err)
	}
	lin.NoChats = false
	r.must(r.SetStatus(ctx, lin.ID, store.Away, true))
	if a, err := r.Cold().AgentByID(ctx, lin.ID); err != nil || a.NoChats {
		t.Errorf("after it has said that it takes chats: %+v %v", a, err)
	}
	lin.Disabled = true
	r.must(r.UpdateAgent(ctx, lin))
	lin.Disabled = false
	r.must(r.UpdateAgent(ctx, lin))
	if _, err := r.Cold().AgentSession(ctx, token, time.Now()); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a login outlived that the account was disabled: %v", err)
	}
	token = r.login(lin)
	r.must(r.ResetPassword(ctx, lin.ID, "new"))
	if _, err := r.Cold().AgentSession(ctx, token, time.Now()); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a login outlived the password: %v", err)
	}
	if a, err := r.Cold().AgentByID(ctx, lin.ID); err != nil || a.Password != "new" || a.Name != "林" {
		t.Errorf("after the reset: %+v %v", a, err)
	}
	for what, change := range map[string]func(*store.AgentAccount){
		"the last administrator disabled": func(a *store.AgentAccount) { a.Disabled = true },
		"the last administrator demoted":  func(a *store.AgentAccount) { a.Role = perm.Supervisor },
	} {
		a := boss
		change(&a)
		if err := r.UpdateAgent(ctx, a); !errors.Is(err, store.ErrLastAdmin) {
			t.Errorf("%s: %v", what, err)
		}
		if kept, err := r.Cold().AgentByID(ctx, boss.ID); err != nil || kept != boss {
			t.Errorf("%s: it is %+v now (%v)", what, kept, err)
		}
	}
	second.Disabled = false
	r.must(r.UpdateAgent(ctx, second))
	boss.Role = perm.Agent
	r.must(r.UpdateAgent(ctx, boss))
	bad := lin
	bad.Name, bad.Capacity, bad.Role, bad.Locale = " ", -1, "king", "fr"
	wrong(t, "a bad account", r.UpdateAgent(ctx, bad), "name required", "capacity range", "role unknown", "locale unknown")
	_, err = r.CreateAgent(ctx, store.AgentAccount{Login: "a b", Name: strings.Repeat("x", store.MaxName+1), Capacity: store.MaxCapacity + 1})
	wrong(t, "a bad new account", err, "login format", "name long", "capacity range")
	if _, err = r.CreateAgent(ctx, store.AgentAccount{Login: "LIN", Name: "x"}); !errors.Is(err, store.ErrExists) {
		t.Errorf("the same login: %v", err)
	}
	for what, err := range map[string]error{"change": r.UpdateAgent(ctx, store.AgentAccount{ID: "none", Name: "x", Role: perm.Agent}), "reset": r.ResetPassword(ctx, "none", "x")} {
		if !errors.Is(err, store.ErrNotFound) {
			t.Errorf("%s of nobody: %v", what, err)
		}
	}
	all, err := r.Cold().Agents(ctx)
	var logins []string
	for _, a := range all {
		logins = append(logins, a.Login)
	}
	if err != nil || !slices.Equal(logins, []string{"boss", "lin", "moe", "second"}) {
		t.Errorf("accounts %q %v", logins, err)
	}
}

func testManageSites(t *testing.T, r *rig) {
	ctx := t.Context()
	sales := r.group("sales")
	s := r.site
	s.Name, s.BotName, s.Group, s.ReopenWindow, s.ReopenToBot, s.Key = "Shop", "", sales.ID, -1, true, "ignored"
	s.Settings = store.SiteSettings{
		Origins: []string{"https://shop.example", "http://localhost:8000"}, Secrets: []string{strings.Repeat("s", store.MinSecret)}, Enforce: true,
		Color: "#0a716c", Greeting: "Hello\n你好", Consent: "I agree", PreChat: []store.Field{{Name: "email", Label: "E-mail", Type: "email", Required: true}},
		IdleBot: 60_000, RateChat: true, MailChats: true,
	}
	r.must(r.UpdateSite(ctx, s))
	got, err := r.Cold().Site(ctx, s.ID)
	s.Key = "demo"
	if err != nil || !reflect.DeepEqual(got, s) {
		t.Errorf("changed: %+v %v, want %+v", got, err, s)
	}
	all, err := r.Cold().Sites(ctx)
	if err != nil || len(all) != 1 || !reflect.DeepEqual(all[0], s) {
		t.Errorf("sites: %+v %v", all, err)
	}
	bad := s
	bad.Name, bad.ReopenWindow = "", 1000*time.Hour
	bad.Settings = store.SiteSettings{
		Origins: []string{"https://shop.example/path"}, Secrets: []string{"short"}, Keys: []string{"AA=="}, Color: "red", IdleBot: -1, WarnFor: 1 << 60,
		PreChat: []store.Field{{Name: "a", Label: "A", Type: "text"}, {Name: "a", Label: "B", Type: "file"}},
	}
	wrong(t, "a bad site", r.UpdateSite(ctx, bad), "name required", "reopen range", "origins format", "secrets short", "keys format", "color format",
		"prechat unknown", "prechat twice", "idle_bot range", "warn_for range")
	for _, origin := range []string{"shop.example", "javascript://x", "https://", "https://a b", "https://a;b", "https://u@a", "https://a/", "https://a?q", "*", "https://*.a", "https://a:", "https://a:99999", "https://a<b", "https://-a", "https://[::1", "https://[fe80::1%25e]", "https://a\"b"} {
		bad := s
		bad.Settings.Origins = []string{origin}
		wrong(t, "origin "+origin, r.UpdateSite(ctx, bad), "origins format")
	}
	for _, origin := range []string{"https://shop.example", "http://localhost:8080", "https://192.0.2.1", "https://[2001:db8::1]:8443", "https://xn--fsqu00a.example"} {
		if !store.ValidOrigin(origin) {
			t.Errorf("origin %s is refused", origin)
		}
	}
	for field, change := range map[string]func(*store.Site){"group": func(s *store.Site) { s.Group = "none" }, "bot": func(s *store.Site) { s.Bot = "none" }} {
		bad := s
		change(&bad)
		wrong(t, "unknown "+field, r.UpdateSite(ctx, bad), field+" unknown")
		bad.Key = "other"
		_, err := r.CreateSite(ctx, bad)
		wrong(t, "new, unknown "+field, err, field+" unknown")
	}
	for key, reason := range map[string]string{"": "required", "Shop": "format", "-a": "format", "a/b": "format", strings.Repeat("a", store.MaxSiteKey+1): "long"} {
		_, err := r.CreateSite(ctx, store.Site{Key: key, Name: "x"})
		wrong(t, "key "+key, err, "key "+reason)
	}
	s.ID = "none"
	if err := r.UpdateSite(ctx, s); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("no such site: %v", err)
	}
}

// testManageLogo: a logo comes with its site, is replaced and removed with it, and stays when only the rest changes.
func testManageLogo(t *testing.T, r *rig) {
	ctx := t.Context()
	logo := func(what string) store.Logo { return store.NewLogo("image/png", 40, 30, []byte(what)) }
	stored := func(what string, key string, want store.Logo) {
		t.Helper()
		s, err := r.Hot().SiteByKey(ctx, key)
		known := want
		known.Content = nil
		if err != nil || !reflect.DeepEqual(s.Logo, known) {
			t.Errorf("%s: the site of %s has the logo %+v (%v), want %+v", what, key, s.Logo, err, known)
		}
		if got, err := r.Hot().Logo(ctx, key, want.Hash); want.Hash != "" && (err != nil || !reflect.DeepEqual(got, want)) {
			t.Errorf("%s: the logo is %+v (%v), want %+v", what, got, err, want)
		}
	}
	gone := func(what, key, hash string) {
		t.Helper()
		if l, err := r.Hot().Logo(ctx, key, hash); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("%s: %+v, %v", what, l, err)
		}
	}
	first, second := logo("first"), logo("second")
	stored("at first", "demo", store.Logo{})
	gone("none", "demo", "")
	s := r.site
	s.Logo = first
	r.must(r.UpdateSite(ctx, s))
	shop, err := r.CreateSite(ctx, store.Site{Key: "shop", Name: "Shop", Logo: first})
	r.must(err)
	stored("set", "demo", first)
	stored("of a new site", "shop", first)
	gone("of no site", "none", first.Hash)

	s, err = r.Cold().Site(ctx, s.ID)
	r.must(err)
	s.Name = "Renamed"
	r.must(r.UpdateSite(ctx, s))
	stored("after another change", "demo", first)
	s.Logo = second
	r.must(r.UpdateSite(ctx, s))
	stored("replaced", "demo", second)
	gone("the one before", "demo", first.Hash)
	s.Logo = first
	s.Logo.Content = nil
	wrong(t, "one that is not stored any more", r.UpdateSite(ctx, s), "logo unknown")
	stored("after that", "demo", second)
	s.Logo = store.Logo{}
	r.must(r.UpdateSite(ctx, s))
	stored("removed", "demo", store.Logo{})
	gone("the one before it was removed", "demo", second.Hash)
	stored("the other site's", "shop", first)

	for reason, bad := range map[string]store.Logo{
		store.ReasonBytes:   store.NewLogo("image/png", 1, 1, make([]byte, store.MaxLogoBytes+1)),
		store.ReasonPixels:  store.NewLogo("image/png", 1, store.MaxLogoSide+1, []byte("x")),
		store.ReasonDamaged: store.NewLogo("image/png", 0, 1, []byte("x")),
		store.ReasonPicture: store.NewLogo("image/heic", 1, 1, []byte("x")),
		store.ReasonSVG:     store.NewLogo("image/svg+xml", 1, 1, []byte("x")),
	} {
		shop.Logo = bad
		wrong(t, reason, r.UpdateSite(ctx, shop), "logo "+reason)
	}
	shop.Logo = store.NewLogo("image/gif", store.MaxLogoSide, store.MaxLogoSide, make([]byte, store.MaxLogoBytes))
	r.must(r.UpdateSite(ctx, shop))
	stored("as large as it may be", "shop", shop.Logo)
}

func testManageGroups(t *testing.T, r *rig) {
	ctx := t.Context()
	sales, care := r.group("sales", r.lin), r.group("care")
	sales.Name, sales.Settings = "Sales", store.GroupSettings{Strategy: "sticky", MaxQueue: 9, Accept: 30_000, StickyDays: 7, StickyWait: 60_000}
	r.must(r.UpdateGroup(ctx, sales))
	all, err := r.Cold().Groups(ctx)
	if err != nil || !reflect.DeepEqual(all, []store.Group{sales, care}) {
		t.Errorf("groups: %+v %v", all, err)
	}
	members := func(want map[string][]string) {
		t.Helper()
		got, err := r.Cold().Members(ctx)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("members: %v %v, want %v", got, err, want)
		}
	}
	r.must(r.SetMembers(ctx, sales.ID, []string{r.moe.ID}))
	members(map[string][]string{sales.ID: {r.moe.ID}})
	r.must(r.SetGroups(ctx, r.moe.ID, []string{care.ID}))
	members(map[string][]string{care.ID: {r.moe.ID}})
	for what, err := range map[string]error{
		"members of no group":   r.SetMembers(ctx, "none", nil),
		"a member who is not":   r.SetMembers(ctx, care.ID, []string{r.lin.ID, "none"}),
		"groups of nobody":      r.SetGroups(ctx, "none", nil),
		"a group that is not":   r.SetGroups(ctx, r.moe.ID, []string{"none"}),
		"change of no group":    r.UpdateGroup(ctx, store.Group{ID: "none", Name: "x"}),
		"deletion of no group":  r.DeleteGroup(ctx, "none"),
		"change of no reply":    r.UpdateCanned(ctx, store.Canned{ID: "none", Short: "a", Title: "b", Body: "c"}),
		"deletion of no reply":  r.DeleteCanned(ctx, "none"),
		"into a missing group":  r.AddMember(ctx, "none", r.lin.ID),
		"a missing new member":  r.AddMember(ctx, care.ID, "none"),
		"transfer of no member": r.SetMembers(ctx, care.ID, []string{""}),
	} {
		if !errors.Is(err, store.ErrNotFound) {
			t.Errorf("%s: %v", what, err)
		}
	}
	members(map[string][]string{care.ID: {r.moe.ID}})
	care.Name = "Sales"
	if err := r.UpdateGroup(ctx, care); !errors.Is(err, store.ErrExists) {
		t.Errorf("a name that is taken: %v", err)
	}
	wrong(t, "a bad group", r.UpdateGroup(ctx, store.Group{ID: care.ID, Settings: store.GroupSettings{Strategy: "magic", MaxQueue: -1, Accept: 1 << 40, StickyDays: 1000, StickyWait: -1}}),
		"name required", "strategy unknown", "max_queue range", "accept range", "sticky_days range", "sticky_wait range")

	site := r.site
	site.Group = care.ID
	r.must(r.UpdateSite(ctx, site))
	conv := r.open(r.visitor(), true)
	if err := r.DeleteGroup(ctx, care.ID); !errors.Is(err, store.ErrInUse) || !strings.Contains(err.Error(), "1 sites, 1 open conversations and 0 prepared replies") {
		t.Errorf("in use: %v", err)
	}
	site.Group = ""
	r.must(r.UpdateSite(ctx, site))
	if err := r.DeleteGroup(ctx, care.ID); !errors.Is(err, store.ErrInUse) {
		t.Errorf("in use by a conversation: %v", err)
	}
	r.do(store.Move{Conv: conv.ID, Trigger: store.Abandon, By: system})
	r.must(r.DeleteGroup(ctx, care.ID))
	members(map[string][]string{})
}

func testCanned(t *testing.T, r *rig) {
	ctx := t.Context()
	sales := r.group("sales")
	hi, err := r.CreateCanned(ctx, store.Canned{Short: "hi", Title: "Hello", Body: "Hello {{name}}\nHow are you?"})
	r.must(err)
	zh, err := r.CreateCanned(ctx, store.Canned{Short: "hi", Locale: "zh-CN", Title: "问候", Body: "您好", Group: sales.ID})
	r.must(err)
	if _, err := r.CreateCanned(ctx, store.Canned{Short: "HI", Title: "x", Body: "x"}); !errors.Is(err, store.ErrExists) {
		t.Errorf("twice: %v", err)
	}
	hi.Short, hi.Body = "hello", "changed"
	r.must(r.UpdateCanned(ctx, hi))
	zh2 := zh
	zh2.Short, zh2.Locale, zh2.Group = "Hello", "", ""
	if err := r.UpdateCanned(ctx, zh2); !errors.Is(err, store.ErrExists) {
		t.Errorf("changed into another: %v", err)
	}
	all, err := r.Cold().CannedReplies(ctx)
	if err != nil || !slices.Equal(all, []store.Canned{hi, zh}) {
		t.Errorf("replies: %+v %v", all, err)
	}
	bad := store.Canned{ID: hi.ID, Short: "a b", Locale: "fr", Title: strings.Repeat("x", store.MaxTitle+1)}
	wrong(t, "a bad reply", r.UpdateCanned(ctx, bad), "short format", "locale unknown", "title long", "body required")
	bad = hi
	bad.Group = "none"
	wrong(t, "unknown group", r.UpdateCanned(ctx, bad), "group unknown")
	r.must(r.DeleteCanned(ctx, hi.ID))
	if err := r.DeleteGroup(ctx, sales.ID); !errors.Is(err, store.ErrInUse) {
		t.Errorf("its group is deleted: %v", err)
	}
}
