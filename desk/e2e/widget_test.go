package e2e

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/golang-jwt/jwt/v5"

	"github.com/go-eddy/eddy/desk/store"
	"github.com/go-eddy/eddy/desk/store/sqlstore"
	"github.com/go-eddy/eddy/internal/testkit"
)

// change stops the server, changes what it keeps, and starts it again.
func (d *desk) change(f func(context.Context, *sqlstore.DB, store.Site)) {
	d.t.Helper()
	d.stop()
	ctx := testkit.Context(d.t)
	db, err := sqlstore.Open(ctx, sqlstore.Options{Path: filepath.Join(d.data, "desk.db")})
	if err != nil {
		d.t.Fatal(err)
	}
	site, err := db.Cold().SiteByKey(ctx, "demo")
	if err != nil {
		d.t.Fatal(err)
	}
	f(ctx, db, site)
	if err := db.Close(); err != nil {
		d.t.Fatal(err)
	}
	d.start()
}

// settings changes the settings of the demo site.
func (d *desk) settings(change func(*store.SiteSettings)) {
	d.t.Helper()
	d.change(func(ctx context.Context, db *sqlstore.DB, site store.Site) {
		change(&site.Settings)
		if err := db.UpdateSite(ctx, site); err != nil {
			d.t.Fatal(err)
		}
	})
}

const (
	widgetRoot   = `document.querySelector('#eddy-desk').shadowRoot`
	widgetButton = widgetRoot + `.querySelector('button')`
	widgetFrame  = widgetRoot + `.querySelector('iframe')`
	widgetPanel  = widgetRoot + `.querySelector('.panel')`
	widgetCall   = widgetRoot + `.querySelector('.call')`
)

// framed is an expression evaluated in the document of the widget's frame.
func framed(expression string) string {
	return `((document) => (` + expression + `))(` + widgetFrame + `.contentDocument)`
}

// clickInFrame presses the mouse on an element of the widget's frame.
func (p *tab) clickInFrame(id string) {
	p.t.Helper()
	p.until(id+" can be clicked", framed(fmt.Sprintf(`((n) => n && !n.disabled)(%s)`, node(id))))
	at := value[[]float64](p, framed(fmt.Sprintf(`((n) => { const r = n.getBoundingClientRect(), f = document.defaultView.frameElement.getBoundingClientRect(); return [f.x + r.x + r.width / 2, f.y + r.y + r.height / 2]; })(%s)`, node(id))))
	p.do("click "+id, chromedp.MouseClickXY(at[0], at[1]))
}

// clickWidget presses the mouse on the widget's button.
func (p *tab) clickWidget() {
	p.t.Helper()
	p.until("the button is there", `document.querySelector('#eddy-desk') && `+widgetButton)
	at := value[[]float64](p, `((r) => [r.x + r.width / 2, r.y + r.height / 2])(`+widgetButton+`.getBoundingClientRect())`)
	p.do("click the widget's button", chromedp.MouseClickXY(at[0], at[1]))
}

const (
	widgetShown  = widgetButton + `.getAttribute('aria-expanded') === 'true' && ` + widgetPanel + `.checkVisibility({visibilityProperty: true})`
	widgetHidden = widgetButton + `.getAttribute('aria-expanded') === 'false'`
)

// uncovered is true when the widget takes no place but its button's: the page is what is hit everywhere else.
const uncovered = `((b) => {
	for (let x = 5; x < innerWidth; x += 40) for (let y = 5; y < innerHeight; y += 40) {
		if (x > b.left && x < b.right && y > b.top && y < b.bottom) continue;
		if (document.elementFromPoint(x, y)?.id === 'eddy-desk') return false;
	}
	return true;
})(` + widgetButton + `.getBoundingClientRect())`

// TestWidgetOnTheShop is the life of a visitor of a shop: the button, the
// panel, an agent, the unread badge over a reload, a phone.
func TestWidgetOnTheShop(t *testing.T) {
	b := startBrowser(t, "en")
	d := newDesk(t)
	p := b.open("shop", desktop, 800, d.url("/shop"))
	p.until("the button is there", `document.querySelector('#eddy-desk') && `+widgetHidden)
	if value[bool](p, `Boolean(`+widgetFrame+`)`) {
		t.Error("a frame was made before anybody asked")
	}
	if !value[bool](p, uncovered) {
		t.Error("the closed widget covers the page")
	}
	p.shot("1-closed")

	p.click("shop-ask") // the page's own button uses the interface
	p.until("the panel is open", widgetShown)
	p.until("the bot greets", framed(messagesOf+`.some((m) => m.From === 'bot')`))
	if size := value[[]float64](p, `((r) => [r.width, r.height])(`+widgetPanel+`.getBoundingClientRect())`); size[0] != 380 || size[1] != 620 {
		t.Errorf("the panel is %v", size)
	}
	p.until("the message box has the focus", framed(`document.activeElement?.dataset.testid === 'composer'`))
	p.press("Do you have ferns?")
	p.enter()
	p.until("the message is acknowledged", framed(accepted("Do you have ferns?")))
	p.shot("2-open")
	p.clickInFrame("talk-to-person")
	p.until("the queue card is shown", framed(`document.querySelector('[data-testid="queue-card"]').dataset.position === '1'`))
	p.shot("3-queue")

	agent := b.stranger("agent", desktop, 800, d.url("/console"))
	login(agent, d.login, d.password)
	agent.click("queue-row")
	agent.click("take")
	agent.visible("composer")
	agent.send("Yes, Boston ferns.")
	p.until("the answer is there", framed(shows("Yes, Boston ferns.")))
	agent.until("the agent sees that it was read", node("message")+` && [...document.querySelectorAll('[data-testid="message-state"]')].at(-1).dataset.state === 'read'`)
	p.shot("4-chat")

	p.press("\x1b")
	p.until("Escape closes the panel", widgetHidden)
	p.until("the button has the focus", widgetRoot+`.activeElement === `+widgetButton)
	if !value[bool](p, uncovered) {
		t.Error("the closed widget covers the page")
	}
	agent.send("Shall I reserve one?")
	p.until("the badge counts", widgetRoot+`.querySelector('.badge').textContent === '1'`)
	agent.send("They arrive on Friday.")
	p.until("the badge counts on", widgetRoot+`.querySelector('.badge').textContent === '2' && `+widgetButton+`.getAttribute('aria-label') === 'Open chat, 2 unread'`)
	p.shot("5-unread")
	p.reload()
	p.until("the badge is there after a reload", `document.querySelector('#eddy-desk') && `+widgetRoot+`.querySelector('.badge').textContent === '2' && `+widgetFrame)
	p.until("the frame has loaded the chat unseen", framed(`document.querySelectorAll('[data-testid="message"]').length >= 5`))
	if value[bool](p, widgetShown) {
		t.Error("the panel opened by itself")
	}
	p.clickWidget()
	p.until("the panel is open", widgetShown)
	p.until("the messages are there, the badge is not", framed(shows("They arrive on Friday."))+` && `+widgetRoot+`.querySelector('.badge').hidden`)

	p.resize(phone, 740)
	p.until("the panel fills the phone", `((r) => r.x === 0 && r.y === 0 && r.width === innerWidth && r.height === innerHeight)(`+widgetPanel+`.getBoundingClientRect())`)
	p.shot("6-phone")
	p.clickInFrame("minimise")
	p.until("the panel is closed", widgetHidden)
	p.shot("7-phone-closed")
	p.clickWidget()
	p.until("the panel is open", widgetShown)
	p.reload()
	p.until("on a phone the page that was asked for is shown", `document.querySelector('#eddy-desk') && `+widgetHidden)
	value[bool](p, `(EddyDesk.logout(), true)`)
	p.until("nothing of the visitor is kept", `!`+widgetFrame+` && !Object.keys(localStorage).some((k) => k.startsWith('eddydesk.demo.desk.'))`)
	p.clickWidget()
	p.until("another visitor has another chat", widgetShown+` && `+framed(messagesOf+`.length === 1`))
	p.clean()
	agent.clean()
}

// hostPage is a page of another origin with a policy that allows the desk's
// script and frame, and nothing else.
func hostPage(t *testing.T, d *desk) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/" {
			w.WriteHeader(http.StatusNoContent) // the icon a browser asks for
			return
		}
		w.Header().Set("Content-Security-Policy", fmt.Sprintf("default-src 'none'; script-src %[1]s; frame-src %[1]s; require-trusted-types-for 'script'", d.url("")))
		fmt.Fprintf(w, `<!doctype html><html lang="zh"><title>Host</title><p>A page with a strict policy.</p><script src="%s" data-site="demo" data-side="left" data-color="#7a3cc2" async></script>`, d.url("/widget.js"))
	}))
	t.Cleanup(s.Close)
	return s
}

// TestWidgetOnAStrictPage embeds the widget in a page of another origin, as
// the site allows it, and in one that it does not.
func TestWidgetOnAStrictPage(t *testing.T) {
	b := startBrowser(t, "zh-CN")
	d := newDesk(t)
	allowed, other := hostPage(t, d), hostPage(t, d)
	d.settings(func(s *store.SiteSettings) {
		s.Origins = []string{allowed.URL}
		s.Look = store.SiteLook{Side: "right", Proactive: []store.Proactive{{Text: "Not here", Page: "/prices"}, {Text: "需要帮助吗？", Scroll: 100}}}
	})

	p := b.open("host", desktop, 800, allowed.URL)
	p.until("the button is there", `document.querySelector('#eddy-desk') && window.EddyDesk?.on`)
	if got := value[string](p, widgetButton+`.getAttribute('aria-label')`); got != "打开聊天" {
		t.Errorf("the button's name is %q", got)
	}
	value[bool](p, `(window.told = [], ['ready', 'open', 'close', 'state', 'error'].forEach((n) => EddyDesk.on(n, (d) => told.push([n, d?.storage ?? d?.state ?? '']))), true)`)
	p.until("the site's proactive is shown", widgetCall+`.checkVisibility() && `+widgetCall+`.textContent.startsWith('需要帮助吗？')`)
	p.shot("host-invited")
	if value[bool](p, `(document.querySelector('#eddy-desk').dataset.side !== 'left' || `+widgetButton+`.getBoundingClientRect().left > 40)`) {
		t.Error("the side of the page's own line does not count")
	}
	value[bool](p, `(`+widgetCall+`.querySelector('button').click(), true)`)
	p.until("the chat has begun", `told.some(([n, s]) => n === 'state' && s === 'new') && `+widgetShown)
	p.until("it is kept with the host page", `told.some(([n, s]) => n === 'ready' && s === 'host') && Object.keys(localStorage).includes('eddydesk.demo.desk.token.demo')`)
	p.shot("host")
	if value[bool](p, `(() => { try { return Boolean(`+widgetFrame+`.contentDocument); } catch { return false; } })()`) {
		t.Error("the frame is not of another origin: this test proves nothing")
	}
	// A message of the page itself is not one of the frame.
	value[bool](p, `(postMessage({eddy: 1, t: 'unread', n: 9}, '*'), postMessage({eddy: 1, t: 'set', key: 'desk.token.demo', value: 'forged'}, '*'), true)`)
	p.until("it has been delivered", `new Promise((done) => { addEventListener('message', () => done(true), {once: true}); postMessage('', '*'); })`)
	if value[bool](p, `!`+widgetRoot+`.querySelector('.badge').hidden || localStorage.getItem('eddydesk.demo.desk.token.demo') === 'forged'`) {
		t.Error("a message of the page was taken for one of the frame")
	}
	value[bool](p, `(EddyDesk.close(), true)`)
	p.until("the panel is closed", widgetHidden+` && told.at(-1)[0] === 'close'`)
	if value[bool](p, widgetCall+`.checkVisibility() || localStorage.getItem('eddydesk.demo.invited').split(' ').length !== 1`) {
		t.Error("what was taken up is shown once more, or what was not shown counts")
	}
	p.clean()

	q := b.open("other", desktop, 800, other.URL)
	q.until("the button is there", `document.querySelector('#eddy-desk') && window.EddyDesk?.on`)
	q.clickWidget()
	q.until("the frame is made, and refused", `Boolean(`+widgetFrame+`)`)
	q.until("the browser says why", `true`)
	if value[bool](q, widgetShown) {
		t.Error("a page that the site does not name shows its chat")
	}
}

// TestWidgetKnowsTheCustomer tells the widget who the customer is, over a
// reload on which the page says so late, and with a token that nobody signed.
func TestWidgetKnowsTheCustomer(t *testing.T) {
	const secret = "0123456789abcdef0123456789abcdef"
	b := startBrowser(t, "en")
	d := newDesk(t)
	d.settings(func(s *store.SiteSettings) { s.Secrets = []string{secret} })
	token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{"sub": "customer-17", "name": "Ann Lee", "aud": "demo", "exp": time.Now().Add(time.Hour).Unix()}).SignedString([]byte(secret))
	if err != nil {
		t.Fatal(err)
	}
	identify := func(p *tab, token string) {
		value[bool](p, fmt.Sprintf(`(EddyDesk.identify(%q), true)`, token))
	}
	p := b.open("shop", desktop, 800, d.url("/shop"))
	p.until("the button is there", `document.querySelector('#eddy-desk')`)
	identify(p, token)
	p.clickWidget()
	p.until("the bot greets", framed(messagesOf+`.some((m) => m.From === 'bot')`))
	p.until("the message box has the focus", framed(`document.activeElement?.dataset.testid === 'composer'`))
	p.press("It is me.")
	p.enter()
	p.until("it is sent", framed(accepted("It is me.")))
	p.clickInFrame("talk-to-person")
	p.until("the queue card is shown", framed(node("queue-position")))
	agent := b.stranger("agent", desktop, 800, d.url("/console"))
	login(agent, d.login, d.password)
	agent.until("the agent sees the name", node("queue-row")+`.textContent.includes('Ann Lee')`)

	// The widget waits 5 s for the word of the page; here it waits until the test has looked.
	p.before(`{ const later = window.setTimeout; window.setTimeout = (f, ms, ...more) => later(f, ms === 5_000 ? 600_000 : ms, ...more); }`)
	p.reload()
	p.until("the button is there", `document.querySelector('#eddy-desk')`)
	if value[bool](p, `Boolean(`+widgetFrame+`)`) {
		t.Error("the frame was made before the page said who the customer is")
	}
	identify(p, token)
	p.until("the same chat is there", `Boolean(`+widgetFrame+`?.contentDocument) && `+framed(shows("It is me.")))

	identify(p, "a.b.c")
	p.until("a token that nobody signed is refused, and the page says what to do", framed(`((n) => n.checkVisibility() && n.textContent.includes('Log in there again'))(document.querySelector('#notice'))`)+` && !`+framed(shows("It is me.")))
	p.shot("refused")
	identify(p, token)
	p.until("with the right one the chat is back", framed(shows("It is me.")+` && document.querySelector('#notice').hidden`))
	value[bool](p, `(EddyDesk.logout(), true)`)
	p.until("the frame is gone", `!`+widgetFrame)
	p.clickWidget()
	p.until("another chat begins", widgetShown+` && `+framed(messagesOf+`.length === 1 && !`+shows("It is me.")))
	p.clean()
	agent.clean()
}
