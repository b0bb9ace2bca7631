package e2e

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/go-eddy/eddy/desk/store"
	"github.com/go-eddy/eddy/desk/store/sqlstore"
)

// shownTab is the tab of a form that is shown.
const shownTab = `document.querySelector('[role="tab"][aria-selected="true"]').innerText`

// TestSiteForm is an administrator with the long form of a site: a tab for each part, by mouse and by keyboard, a preview
// of what is entered, and nothing that was entered is lost without a question.
func TestSiteForm(t *testing.T) {
	b := startBrowser(t, "en")
	d := newDesk(t)
	boss := d.console(b, "boss", d.login, d.password, 1280, 800)
	boss.media("light", "reduce")
	boss.navigate(d.url("/admin/sites"))
	boss.click("site-row-link")
	boss.until("the first part is shown", shownTab+` === 'About the site'`)
	boss.until("and no other", `!`+node("field-color")+` && !`+node("field-idle_bot"))
	boss.click("tab-0")
	boss.press("\u0303") // right
	boss.until("the keyboard goes to the next", shownTab+` === 'What customers see' && document.activeElement.dataset.testid === 'tab-1'`)

	boss.fill("field-color", "#2f6f4e")
	boss.until("the preview has the colour", `getComputedStyle(document.querySelector('.preview-own')).backgroundColor === 'rgb(47, 111, 78)'`)
	boss.until("so has the chooser, and there is nothing to say", node("color-pick")+`.value === '#2f6f4e' && !`+node("adapted"))
	boss.fill("field-color", "#ffff00")
	boss.until("a colour that cannot be read is told", node("adapted")+`?.textContent.includes('contrast of 1.0 to 1')`)
	value[bool](boss, `((n) => { n.value = '#7a3cc2'; return n.dispatchEvent(new Event('input', {bubbles: true})); })(`+node("color-pick")+`)`)
	boss.until("what is chosen is written", node("field-color")+`.value === '#7a3cc2'`)
	boss.write("field-greeting", "<b>Welcome</b> to the shop")
	boss.until("the greeting is text", `document.querySelector('[data-show="greeting"]').textContent === '<b>Welcome</b> to the shop'`)
	look(boss, "site-form")

	boss.stays.Store(true)
	boss.click("nav-groups")
	boss.until("the page has asked, and stays", `location.pathname.startsWith('/admin/sites/') && `+node("field-color")+`.value === '#7a3cc2'`)
	d.eventually("one question", func() bool { return boss.asked.Load() == 1 })
	boss.click("tab-3")
	boss.until("the usual times are shown", node("field-idle_bot")+`.value === '15' && `+node("field-warn_for")+`.value === '2'`)
	boss.fill("field-idle_bot", "soon")
	boss.click("tab-0")
	boss.click("save")
	boss.until("the part with the mistake is shown", node("error-idle_bot")+` && `+shownTab+`.startsWith('How chats go')`)
	boss.until("and its tab says so to who cannot see it", `document.querySelector('[data-testid="tab-3"]').textContent.includes('has a mistake')`)
	boss.fill("field-idle_bot", "20")
	boss.click("save")
	boss.until("it is saved", node("done")+` && `+shownTab+` === 'How chats go' && `+node("field-idle_bot")+`.value === '20'`)
	boss.click("nav-groups")
	boss.until("what is saved may be left", `location.pathname === '/admin/groups'`)
	if n := boss.asked.Load(); n != 1 {
		t.Errorf("the page has asked %d times, want once", n)
	}
	d.change(func(_ context.Context, _ *sqlstore.DB, site store.Site) {
		if s := site.Settings; s.Color != "#7a3cc2" || !strings.HasPrefix(s.Greeting, "<b>Welcome") || s.IdleBot != 20*60_000 || s.IdleChat != store.DefaultIdleChat.Milliseconds() {
			t.Errorf("stored %+v", s)
		}
	})
	boss.clean()
}

// shifts counts what moves in a page after it was drawn.
const shifts = `window.shifts = [];
	new PerformanceObserver((list) => window.shifts.push(...list.getEntries().map((e) => e.value))).observe({ type: 'layout-shift', buffered: true });`

// TestSiteFormStays: the form of a site does not become tabs under the hand of somebody who has a slow line.
func TestSiteFormStays(t *testing.T) {
	b := startBrowser(t, "en")
	d := newDesk(t)
	slow := make(chan struct{})
	come := sync.OnceFunc(func() { close(slow) })
	desk := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: d.addr})
	line := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/js/admin/tabs.js") {
			<-slow
		}
		desk.ServeHTTP(w, r)
	}))
	t.Cleanup(line.Close)
	t.Cleanup(come)
	boss := d.console(b, "boss", d.login, d.password, 1280, 800) // its cookie is good for all ports
	boss.before(shifts)
	boss.navigate(d.url("/admin/sites"))
	form := value[string](boss, node("site-row-link")+`.pathname`)
	value[bool](boss, fmt.Sprintf(`(setTimeout(() => { location = %q; }), true)`, line.URL+form))
	boss.until("the form has come, but not its tabs", `location.pathname === `+fmt.Sprintf("%q", form)+` && document.querySelector('[data-tabs]')`)
	value[bool](boss, `new Promise((done) => setTimeout(() => done(true), 500))`) // for long enough to be drawn
	come()
	boss.until("the first part is shown", shownTab+` === 'About the site'`)
	boss.until("it is drawn", drawn)
	if moved := value[[]float64](boss, `window.shifts`); len(moved) > 0 {
		t.Errorf("the page has moved by %v", moved)
	}
	boss.clean()
}
