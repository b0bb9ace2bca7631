package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/go-eddy/eddy/desk/bot"
	"github.com/go-eddy/eddy/desk/desktest"
	"github.com/go-eddy/eddy/desk/perm"
	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/store"
	"github.com/go-eddy/eddy/desk/store/sqlite"
)

// misfits lists what does not fit: a page or a pane that scrolls sideways, a control that lies beyond what is shown, or whose
// words are cut. What may scroll sideways says so: tables, tabs and the menu of the administration on phones.
const misfits = `(() => {
	const out = [], wide = '.table-wrap, .manage-nav, .tabs, textarea, select, input';
	const id = (n) => (n.dataset.testid || n.id || n.className || n.tagName) + ' ' + JSON.stringify(n.textContent.trim().slice(0, 40));
	const seen = (n) => n.checkVisibility({visibilityProperty: true}) && !n.closest('.sr-only, .skip');
	if (document.documentElement.scrollWidth > innerWidth) out.push('the page is ' + document.documentElement.scrollWidth + ' px wide');
	for (const n of document.querySelectorAll('body, body *')) {
		if (n instanceof SVGElement || !seen(n) || n.matches(wide)) continue;
		const {overflowX} = getComputedStyle(n);
		if (/auto|scroll/.test(overflowX) && n.scrollWidth > n.clientWidth + 1) out.push(id(n) + ' scrolls sideways');
	}
	const ink = document.createElement('canvas').getContext('2d');
	for (const n of document.querySelectorAll('a, button, input, select, textarea, summary, label')) {
		const r = n.getBoundingClientRect();
		if (!seen(n) || r.width === 0) continue;
		let [left, right] = [0, innerWidth];
		for (let p = n; p; p = p.parentElement) {
			const s = getComputedStyle(p);
			if (p !== n && /auto|scroll/.test(s.overflowX) && p.matches(wide)) { [left, right] = [-Infinity, Infinity]; break; }
			if (p !== n && s.overflowX !== 'visible') {
				const b = p.getBoundingClientRect();
				[left, right] = [Math.max(left, b.left), Math.min(right, b.right)];
			}
			if (s.position === 'fixed') break;
		}
		if (r.left < left - 1 || r.right > right + 1) out.push(id(n) + ' lies beyond what is shown: ' + [r.left, r.right].map(Math.round) + ' of ' + [left, right].map(Math.round));
		if (n.matches('select')) {
			const s = getComputedStyle(n), words = n.selectedOptions[0]?.text ?? '';
			ink.font = s.font;
			const room = n.clientWidth - parseFloat(s.paddingLeft) - parseFloat(s.paddingRight) - 14;
			if (!words.includes('` + long + `') && ink.measureText(words).width > room) out.push(id(n) + ' cuts ' + words);
		} else if (n.matches('button, summary, a.button') && n.scrollWidth > n.clientWidth + 1) {
			out.push(id(n) + ' cuts its words: ' + n.scrollWidth + ' in ' + n.clientWidth);
		}
	}
	return out;
})()`

// The widths at which pages are judged, with their heights.
var screens = [][2]int64{{390, 844}, {768, 1024}, {1280, 800}, {1920, 1080}}

// fits checks a page at all widths. Pictures are taken in both themes when they are wanted.
func (p *tab) fits(where string) {
	p.t.Helper()
	for _, size := range screens {
		p.resize(size[0], size[1])
		p.until("it is drawn at its width", fmt.Sprintf(`innerWidth === %d && new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))`, size[0]))
		for _, what := range value[[]string](p, misfits) {
			p.t.Errorf("%s, %s, %d wide: %s", p.name, where, size[0], what)
		}
		for _, scheme := range []string{"light", "dark"} {
			if os.Getenv(wantPictures) != "" {
				p.media(scheme, "reduce")
				p.shot(fmt.Sprintf("%s-%d-%s", where, size[0], scheme))
			}
		}
	}
}

// long is a word that no line of a phone has room for; the longest names are made of it.
const long = "Donaudampfschifffahrtsgesellschaftskapitän"

var (
	longName  = long + " von " + long[:33]                        // 80 letters
	longWord  = strings.Repeat("x", 40)                           // the longest tag
	longLogin = strings.Repeat("agent.number.", 4) + "@shop.test" // 64 letters, nearly
)

// lengthy gives everything that has a name a long one.
func (d *desk) lengthy() {
	d.t.Helper()
	d.colleague("lin", longName, perm.Supervisor, 5)
	d.colleague(longLogin, longName, perm.Agent, 5)
	d.change(func(ctx context.Context, db *sqlite.DB, site store.Site) {
		must := func(err error) {
			d.t.Helper()
			if err != nil {
				d.t.Fatal(err)
			}
		}
		lin, err := db.Cold().AgentByLogin(ctx, "lin")
		must(err)
		group, err := db.CreateGroup(ctx, store.Group{Name: longName, Settings: store.GroupSettings{Strategy: store.Manual, Target: 60_000}})
		must(err)
		must(db.SetMembers(ctx, group.ID, []string{lin.ID}))
		_, err = db.CreateCanned(ctx, store.Canned{Short: strings.Repeat("s", store.MaxShort), Title: longName, Body: strings.Repeat(long+" ", 20)})
		must(err)
		_, err = db.CreateBot(ctx, store.BotAccount{Name: longName, Kind: store.BotRules, Config: bot.DefaultRules()})
		must(err)
		_, err = db.CreateWebhook(ctx, store.Webhook{URL: "https://hooks.shop.example/" + longWord + longWord, By: lin.Actor(), Secrets: []string{longWord}})
		must(err)
		site.Name, site.BotName, site.Settings.RateChat = longName, longName, true
		must(db.UpdateSite(ctx, site))
	})
}

// TestStaffPagesFit goes through console, wall, reports and administration with long names, in both languages of the staff.
func TestStaffPagesFit(t *testing.T) {
	requested(t)
	for _, lang := range []string{"en", "zh-CN"} {
		t.Run(lang, func(t *testing.T) {
			b := startBrowser(t, lang)
			d := newDesk(t)
			d.lengthy()
			p := d.console(b, "lin", "lin", "lin", desktop, 800)
			p.fits("console-empty")
			consoleFits(d, p)
			for _, page := range []string{"/wall", "/wall/reports", "/", "/nowhere"} {
				p.navigate(d.url(page))
				p.until("it is there", `document.readyState === 'complete' && document.querySelector('h1')?.textContent`)
				p.until("its numbers are there", `!location.pathname.startsWith('/wall') || `+node("agent")+` || `+node("report-row"))
				p.fits("page" + strings.ReplaceAll(page, "/", "-"))
			}
			p.clean()
			administrationFits(d, b)
		})
	}
}

// consoleFits opens everything that the console has: a chat with its card, what lies over it, the lists.
func consoleFits(d *desk, p *tab) {
	p.t.Helper()
	old := d.finished("lin", longWord, strings.Repeat(long+" ", 10))
	d.visit("https://shop.example/" + longWord + longWord + longWord)
	v := d.visit("Hello, my order " + longWord + " has not arrived.")
	d.as("lin", func(ctx context.Context, agent *desktest.Client) error {
		if err := agent.Take(ctx, v.conv); err != nil {
			return err
		}
		agent.Send(v.conv, strings.Repeat(long+" ", 12))
		_, err := agent.Do(ctx, "tag", v.conv, proto.Tag{Add: []string{longWord}})
		return err
	})
	p.click("mine-row")
	p.visible("attributes")
	p.click("card-edit")
	p.fill("edit-name", longName)
	p.click("edit-add")
	p.fill("edit-key", longWord)
	p.fill("edit-value", longWord+longWord)
	p.fits("edit")
	p.click("edit-save")
	p.until("the customer has the long name", node("card-name")+`?.textContent === '`+longName+`'`)
	p.click("mode-note")
	p.fill("composer", longName)
	p.enter()
	p.click("mode-answer")
	p.fits("chat")
	p.resize(screens[0][0], screens[0][1])
	p.click("details")
	p.fits("card")
	p.press("\x1b")
	p.resize(screens[0][0], screens[0][1])
	p.click("back")
	p.fits("list")
	layersFit(p)
	listsFit(d, p, old.conv)
}

// layersFit opens what lies over a chat.
func layersFit(p *tab) {
	p.t.Helper()
	p.resize(desktop, 800)
	p.click("mine-row")
	p.press("\x1b")
	for key, id := range map[string]string{"t": "transfer-dialog", "?": "keys"} {
		p.key(key)
		p.visible(id)
		p.fits(id)
		p.press("\x1b")
		p.gone(id)
	}
	p.resize(desktop, 800)
	p.key("/")
	p.visible("canned-item")
	p.fits("canned")
	p.press("\x1b")
	p.write("composer", "")
	p.write("search", "arrived")
	p.visible("hit")
	p.fits("search")
	p.press("\x1b")
	for _, id := range []string{"password", "factor", "sessions"} {
		p.resize(desktop, 800)
		p.click("menu-button")
		p.fits("menu")
		p.click("menu-" + id)
		p.visible(id + "-dialog")
		p.until("it is filled", node(id+"-dialog")+`.querySelector('input, li, img')`)
		p.fits(id)
		p.press("\x1b")
		p.gone(id + "-dialog")
	}
	p.resize(desktop, 800)
	p.choose("snooze", "other")
	p.visible("snooze-time")
	p.fits("snooze")
}

// listsFit shows the list of all chats with its filters and tools, and an offer beside the live lists.
func listsFit(d *desk, p *tab, old string) {
	p.t.Helper()
	p.resize(desktop, 800)
	p.click("list-all")
	p.until("all chats are listed", `[...document.querySelectorAll('[data-testid="archive-row"]')].some((n) => n.dataset.id === '`+old+`')`)
	p.clickOn("the filters open", `document.querySelector('[data-testid="archive-filters"] summary')`)
	p.click("bulk-begin")
	p.fits("archive")
	p.click("bulk-end")
	p.resize(desktop, 800)
	p.click("list-open")
	d.as(longLogin, func(ctx context.Context, agent *desktest.Client) error {
		w := d.visit("To whom shall I talk?")
		if err := agent.Take(ctx, w.conv); err != nil {
			return err
		}
		var me string
		d.seed(func(ctx context.Context, db store.Store) error {
			lin, err := db.Cold().AgentByLogin(ctx, "lin")
			me = lin.ID
			return err
		})
		_, err := agent.Do(ctx, "transfer", w.conv, proto.Transfer{Agent: me, Note: strings.Repeat(long+" ", 5)})
		return err
	})
	p.visible("offer")
	p.fits("offer")
}

// shapeOf is an address without the ids in it: pages of one shape are alike.
var shapeOf = regexp.MustCompile(`/[^/]*[0-9][^/]*`)

// administrationFits follows every link within the administration, to one page of each shape, and looks at each tab of a form.
func administrationFits(d *desk, b *profile) {
	b.t.Helper()
	boss := d.console(b, "boss", d.login, d.password, desktop, 800)
	link := invite(boss, d, longName, "admin")
	boss.fits("invited")
	seen, todo := map[string]bool{}, []string{"/admin"}
	for len(todo) > 0 {
		at := todo[0]
		todo = todo[1:]
		shape := shapeOf.ReplaceAllString(at, "/x")
		if seen[shape] {
			continue
		}
		seen[shape] = true
		boss.navigate(d.url(at))
		boss.until("it is there", `document.readyState === 'complete' && document.querySelector('h1')?.textContent`)
		boss.fits(strings.ReplaceAll(at[1:], "/", "-"))
		for i := range value[int](boss, `document.querySelectorAll('.tab').length`) {
			boss.click(fmt.Sprintf("tab-%d", i))
			boss.fits(fmt.Sprintf("%s-%d", strings.ReplaceAll(at[1:], "/", "-"), i))
		}
		todo = append(todo, value[[]string](boss, `[...document.querySelectorAll('a[href]')].filter((a) => a.origin === location.origin && /^\/admin(\/|$)/.test(a.pathname) && !/export|csv/.test(a.href)).map((a) => a.pathname + a.search)`)...)
	}
	if len(seen) < 20 {
		b.t.Errorf("only these pages were found: %v", seen)
	}
	boss.clean()
	for where, page := range map[string]string{"invitation": link, "login": d.url("/console"), "reset": d.url("/reset")} {
		p := b.stranger(where, desktop, 800, page)
		p.until("it is there", `[...document.querySelectorAll('h1')].some((n) => n.checkVisibility() && n.textContent)`)
		p.fits(where)
		p.clean()
	}
	agent := d.console(b, "agent", longLogin, longLogin, desktop, 800)
	agent.navigate(d.url("/admin"))
	agent.until("it is there", `document.querySelector('h1')?.textContent`)
	agent.fits("forbidden")
}

// TestCustomerPagesFit is a customer's visit with long names in every language: questions, bot, queue, chat, end, and a message
// that is left. One language is written from right to left.
func TestCustomerPagesFit(t *testing.T) {
	requested(t)
	for _, lang := range []string{"en", "zh-CN", "es", "he"} {
		t.Run(lang, func(t *testing.T) {
			b := startBrowser(t, lang)
			folder := t.TempDir()
			rightToLeft(t, folder)
			d := newDesk(t, "--languages", folder)
			d.lengthy()
			customerFits(d, b, lang)
		})
	}
}

// rightToLeft adds a language that is written from right to left. Its words are those of another one: what is looked at is where
// they stand.
func rightToLeft(t *testing.T, folder string) {
	t.Helper()
	words, err := os.ReadFile("../web/static/lang/es.json")
	if err != nil {
		t.Fatal(err)
	}
	turned := strings.Replace(string(words), `"name"`, `"dir": "rtl", "name"`, 1)
	if err := os.WriteFile(filepath.Join(folder, "he.json"), []byte(turned), 0o644); err != nil {
		t.Fatal(err)
	}
}

func customerFits(d *desk, b *profile, lang string) {
	b.t.Helper()
	d.settings(func(s *store.SiteSettings) {
		s.Greeting, s.Consent = strings.Repeat(long+" ", 4), "I agree, see https://shop.example/"+longWord+longWord
		s.PreChat = []store.Field{{Name: "name", Label: longName, Type: "text"}, {Name: "email", Label: long, Type: "email", Required: true}}
	})
	p := b.open("customer", phone, 740, d.url("/chat/demo"))
	p.visible("prechat")
	if dir := value[string](p, `getComputedStyle(document.body).direction`); (dir == "rtl") != (lang == "he") {
		b.t.Errorf("the page in %s goes %s", lang, dir)
	}
	p.click("prechat-start")
	p.fits("questions")
	p.fill("prechat-name", longName)
	p.fill("prechat-email", "ann@example.com")
	p.click("prechat-consent")
	p.click("prechat-start")
	p.until("the bot greets", node("choice"))
	p.fits("bot")
	p.click("menu-button")
	p.fits("menu")
	p.press("\x1b")
	p.click("talk-to-person")
	p.visible("queue-position")
	p.send("https://shop.example/" + longWord + longWord + " " + longName)
	p.fits("queue")
	d.as("lin", func(ctx context.Context, agent *desktest.Client) error {
		f, err := agent.Other(ctx, func(f desktest.Frame) bool { return f.T == "ev.conv" })
		if err == nil {
			err = agent.Take(ctx, f.C)
		}
		if err == nil {
			agent.Send(f.C, longName)
			err = agent.Flushed(ctx)
		}
		if err != nil {
			return err
		}
		p.until("the answer is there", shows(longName))
		p.fits("chat")
		return agent.EndConv(ctx, f.C, "done")
	})
	p.visible("rating")
	p.click("rating-4")
	p.fits("closed")
	p.clean()

	day := func(n int) string { return time.Now().UTC().AddDate(0, 0, n).Format(time.DateOnly) }
	d.settings(func(s *store.SiteSettings) {
		s.PreChat, s.Consent = nil, ""
		s.Hours.Zone, s.Hours.Holidays = "UTC", []string{day(-1), day(0), day(1)}
	})
	late := b.stranger("late", phone, 740, d.url("/chat/demo"))
	late.click("talk-to-person")
	late.visible("leave-send")
	late.click("leave-send")
	late.fits("leave")
	late.clean()
	shop := b.stranger("shop", phone, 740, d.url("/shop"))
	shop.click("shop-ask")
	shop.until("the panel is open", widgetShown)
	shop.fits("shop")
	shop.clean()
}
