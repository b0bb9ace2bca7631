package e2e

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/go-eddy/eddy/desk/bot"
	"github.com/go-eddy/eddy/desk/desktest"
	"github.com/go-eddy/eddy/desk/perm"
	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/store"
	"github.com/go-eddy/eddy/desk/store/sqlstore"
)

// misfits lists what does not fit a window: pages and panes that scroll sideways, controls beyond what anybody can scroll to, and
// words that are cut or broken within. What may scroll sideways is named: tables, tabs, the administration's menu on phones.
const misfits = `((document) => {
	const {innerWidth, innerHeight} = document.defaultView, out = [], wide = '.table-wrap, .manage-nav, .tabs, textarea, select, input';
	const id = (n) => (n.dataset.testid || n.id || n.className || n.tagName) + ' ' + JSON.stringify(n.textContent.trim().slice(0, 40));
	const seen = (n) => n.checkVisibility({visibilityProperty: true}) && !n.closest('.sr-only, .skip');
	if (document.documentElement.scrollWidth > innerWidth) out.push('the page is ' + document.documentElement.scrollWidth + ' px wide');
	for (const n of document.querySelectorAll('body, body :not(option)')) {
		if (n.ownerSVGElement !== undefined || !seen(n) || n.matches(wide)) continue;
		const {overflowX} = getComputedStyle(n);
		if (/auto|scroll/.test(overflowX) && n.scrollWidth > n.clientWidth + 1) out.push(id(n) + ' scrolls sideways');
	}
	const shown = (n) => {
		let [left, right, top, bottom] = [0, innerWidth, -Infinity, Infinity], across = true, down = true;
		for (let p = n; p; p = p.parentElement) {
			const s = getComputedStyle(p), b = p.getBoundingClientRect();
			if (p !== n) {
				if (across && /auto|scroll/.test(s.overflowX) && p.matches(wide)) [left, right, across] = [-Infinity, Infinity, false];
				if (across && s.overflowX !== 'visible') [left, right] = [Math.max(left, b.left), Math.min(right, b.right)];
				if (/auto|scroll/.test(s.overflowY)) down = false;
				if (down && s.overflowY !== 'visible') [top, bottom] = [Math.max(top, b.top), Math.min(bottom, b.bottom)];
			}
			if (s.position !== 'fixed') continue;
			if (down) [top, bottom] = [Math.max(top, 0), Math.min(bottom, innerHeight)];
			break;
		}
		return [left, right, top, bottom];
	};
	const words = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), range = document.createRange();
	for (let n; (n = words.nextNode());) {
		if (!seen(n.parentElement) || n.parentElement.matches('option, textarea')) continue;
		range.selectNodeContents(n);
		const all = range.getBoundingClientRect();
		if (n.data.trim().length > 8 && all.width < 40 && all.height > 100) out.push(id(n.parentElement) + ' stands letter below letter');
		for (const m of n.data.matchAll(/(?<!\S)[\w.,:;?!%]{2,14}(?!\S)/g)) {
			range.setStart(n, m.index);
			range.setEnd(n, m.index + m[0].length);
			const [first, ...more] = [...range.getClientRects()].map((r) => r.top);
			if (more.some((top) => top > first + 4)) out.push(id(n.parentElement) + ' breaks within ' + m[0]);
		}
	}
	const ink = document.createElement('canvas').getContext('2d');
	for (const n of document.querySelectorAll('a, button, input, select, textarea, summary, label')) {
		const r = n.getBoundingClientRect();
		if (!seen(n) || r.width === 0) continue;
		const [left, right, top, bottom] = shown(n);
		if (r.left < left - 1 || r.right > right + 1 || r.top < top - 1 || r.bottom > bottom + 1) out.push(id(n) + ' lies beyond what is shown: ' + [r.left, r.right, r.top, r.bottom].map(Math.round) + ' of ' + [left, right, top, bottom].map(Math.round));
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
})`

// The widths at which pages are judged, with their heights.
var screens = [][2]int64{{390, 844}, {768, 1024}, {1280, 800}, {1920, 1080}}

// fits checks a page at all widths, and takes pictures in both themes when they are wanted. Themes differ in colours alone (tokens.test.js).
func (p *tab) fits(where string) {
	p.t.Helper()
	p.fitsIn("document", where)
}

// fitsIn is fits for another document in the page.
func (p *tab) fitsIn(document, where string) {
	p.t.Helper()
	p.media("light", "reduce") // no transition in the middle
	for _, size := range screens {
		p.resize(size[0], size[1])
		p.until("it is drawn at its width", fmt.Sprintf(`innerWidth === %d && new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))`, size[0]))
		for _, what := range value[[]string](p, misfits+"("+document+")") {
			p.t.Errorf("%s, %s, %d wide: %s", p.name, where, size[0], what)
		}
		if !picturesWanted() {
			continue
		}
		for _, scheme := range []string{"dark", "light"} {
			p.media(scheme, "reduce")
			p.picture(fmt.Sprintf("%s-%d-%s", where, size[0], scheme))
		}
	}
}

// TestMisfitsAreFound plants one misfit of each kind in a page, and it is told.
func TestMisfitsAreFound(t *testing.T) {
	b := startBrowser(t, "en")
	d := newDesk(t)
	p := b.open("page", phone, 740, d.url("/nowhere"))
	p.until("it is there", `document.querySelector('h1')?.textContent`)
	if found := value[[]string](p, misfits+"(document)"); len(found) > 0 {
		t.Errorf("before anything is planted: %q", found)
	}
	for _, planted := range []struct{ want, outer, style, inner, innerStyle, text string }{
		{"the page is 900 px wide", "p", "position: absolute; left: 0; width: 900px", "i", "", "wide"},
		{"scrolls sideways", "p", "width: 100px; overflow-x: auto", "i", "display: block; width: 200px", "wide"},
		{"lies beyond what is shown: -40", "p", "position: fixed; top: 0; left: -40px; margin: 0", "button", "", "Close"},
		{"lies beyond what is shown", "p", "position: fixed; top: 735px; left: 0; margin: 0", "button", "", "Close"},
		{"cuts its words", "p", "", "button", "width: 40px; overflow: hidden; white-space: nowrap", "Many words"},
		{"cuts Many words", "select", "width: 60px", "option", "", "Many words"},
		{"breaks within Agent", "p", "width: 20px", "i", "", "Agent"},
		{"stands letter below letter", "p", "width: 8px", "i", "", longWord},
	} {
		found := value[[]string](p, fmt.Sprintf(`(() => {
			const [outer, inner] = [document.createElement(%q), document.createElement(%q)];
			[outer.style.cssText, inner.style.cssText, inner.textContent] = [%q, %q, %q];
			outer.append(inner);
			document.body.append(outer);
			const found = %s(document);
			outer.remove();
			return found;
		})()`, planted.outer, planted.inner, planted.style, planted.innerStyle, planted.text, misfits))
		if !strings.Contains(strings.Join(found, "\n"), planted.want) {
			t.Errorf("%+v is told as %q", planted, found)
		}
	}
}

// long is a word that no line of a phone has room for; the longest names are made of it.
const long = "Donaudampfschifffahrtsgesellschaftskapitän"

var (
	longName  = long + "switwenrente" + long[:6]                  // 60 letters, no place to break
	longWord  = strings.Repeat("x", 40)                           // the longest tag
	longLogin = strings.Repeat("agent.number.", 4) + "@shop.test" // 62 letters
)

// lengthy gives everything that has a name a long one.
func (d *desk) lengthy() {
	d.t.Helper()
	d.colleague("lin", longName, perm.Supervisor, 5)
	d.colleague(longLogin, longName, perm.Agent, 5)
	d.change(func(ctx context.Context, db *sqlstore.DB, site store.Site) {
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
		must(db.CreateOwnField(ctx, store.OwnField{Key: longWord, Label: longName, Kind: store.FieldText, See: store.FieldStaff, Edit: store.FieldStaff}))
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
			reportsFit(d, p)
			p.clean()
			administrationFits(d, b)
		})
	}
}

// reportsFit shows the reports whose rows are names.
func reportsFit(d *desk, p *tab) {
	p.t.Helper()
	p.resize(desktop, 800)
	p.navigate(d.url("/wall/reports"))
	p.visible("report-row")
	for by, name := range map[string]string{"agent": longName, "group": "", "tag": longWord} {
		p.choose("by", by)
		p.click("show")
		p.until("its rows are there", `location.search.includes('by=`+by+`') && `+node("report-row")+`?.textContent.includes('`+name+`')`)
		p.fits("reports-" + by)
		p.resize(desktop, 800)
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
	p.write("edit-name", longName)
	p.click("edit-add")
	p.write("edit-key", longWord)
	p.write("edit-value", longWord+longWord)
	p.fits("edit")
	p.besides("details", "edit-on-phone")
	p.click("edit-save")
	p.until("the customer has the long name", node("card-name")+`?.textContent === '`+longName+`'`)
	p.clickOn("the card of a phone closes", `document.querySelector('.card-close')`)
	p.click("mode-note")
	p.write("composer", longName)
	p.click("send")
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

// besides looks at what a phone shows only after a press of a button, and goes back to a desktop.
func (p *tab) besides(button, where string) {
	p.t.Helper()
	p.resize(screens[0][0], screens[0][1])
	p.click(button)
	p.fits(where)
	p.resize(desktop, 800)
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
	p.besides("details", "snooze-on-phone")
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
	p.besides("back", "archive-on-phone")
	p.click("bulk-end")
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
	boss.resize(screens[0][0], screens[0][1])
	boss.navigate(d.url("/admin/audit"))
	boss.until("a phone's menu shows where one is", `((r) => r?.left >= 0 && r.right <= innerWidth)(`+node("nav-audit")+`?.getBoundingClientRect())`)
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
