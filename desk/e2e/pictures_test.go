package e2e

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/cdproto/page"

	"github.com/go-eddy/eddy/desk/desktest"
	"github.com/go-eddy/eddy/desk/perm"
	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/sso/ssotest"
	"github.com/go-eddy/eddy/desk/store"
	"github.com/go-eddy/eddy/desk/store/sqlstore"
	"github.com/go-eddy/eddy/internal/testkit"
)

const (
	ofDocuments    = "docs" // value of EDDY_PICTURES: the pictures that documents show are made anew
	pictureFolder  = "../../docs/pictures"
	pictureQuality = 80 // of 100: letters are sharp, and a page has some 30 KB
)

// drawn waits for the letters and two frames.
const drawn = `document.fonts.ready.then(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(true)))))`

// documented stores a picture for the documents when EDDY_PICTURES is docs: of the page, or of one element of it.
func (p *tab) documented(name, element string) {
	p.t.Helper()
	p.until("it is drawn", drawn)
	if os.Getenv(wantPictures) != ofDocuments {
		return
	}
	quality := int64(pictureQuality)
	params := page.CaptureScreenshotParams{Format: page.CaptureScreenshotFormatWebp, Quality: &quality}
	if element != "" {
		at := value[[]float64](p, `((r) => [r.x, r.y, r.width, r.height])(`+element+`.getBoundingClientRect())`)
		params.Clip = &page.Viewport{X: at[0], Y: at[1], Width: at[2], Height: at[3], Scale: 1}
	}
	taken := call(p, page.CaptureScreenshot, params)
	if err := os.WriteFile(filepath.Join(pictureFolder, name+".webp"), taken.Data, 0o644); err != nil {
		p.t.Fatal(err)
	}
}

// scrolled brings an element to the top of the page, once its scripts have run.
func (p *tab) scrolled(id string) {
	p.t.Helper()
	p.until(id+" is there", `document.readyState === 'complete' && ((n) => { n?.scrollIntoView({block: 'start'}); return n; })(`+node(id)+`)`)
}

// TestPicturesOfDocuments takes the pictures that docs/desk.md shows: one of each task. Without EDDY_PICTURES=docs it only
// goes where they are taken.
func TestPicturesOfDocuments(t *testing.T) {
	b := startBrowser(t, "en")
	post, provider := desktest.NewMailServer(t, "none"), ssotest.New(t, time.Now)
	d := newDesk(t, "--mail-server", post.Addr, "--mail-tls", "none", "--mail-from", "Fern & Kettle <help@shop.example>", "--public-url", "http://desk.example",
		"--oidc-issuer", provider.Issuer(), "--oidc-client", ssotest.ClientID, "--oidc-secret", ssotest.Secret, "--oidc-text", "Log in with Example")
	d.replies()
	d.colleague("lin", "Lin Chen", perm.Supervisor, 5)
	d.colleague("amy", "Amy Wood", perm.Agent, 3)
	d.change(func(ctx context.Context, db *sqlstore.DB, site store.Site) {
		team, err := db.CreateGroup(ctx, store.Group{Name: "Orders", Settings: store.GroupSettings{Strategy: store.Manual, Target: 1_000}})
		if err != nil {
			t.Fatal(err)
		}
		all, err := db.Cold().Agents(ctx)
		if err != nil {
			t.Fatal(err)
		}
		var members []string
		for _, a := range all {
			members = append(members, a.ID)
		}
		site.Name, site.Group, site.Settings.RateChat = "Fern & Kettle", team.ID, true
		if err := db.SetMembers(ctx, team.ID, members); err != nil {
			t.Fatal(err)
		}
		if err := db.UpdateSite(ctx, site); err != nil {
			t.Fatal(err)
		}
	})
	picturesOfConsole(d, b)
	picturesOfLogin(d, b)
	boss := d.console(b, "boss", d.login, d.password, 1040, 680)
	picturesOfAdministration(d, boss)
	picturesOfNumbers(d, boss)
	picturesOfCustomers(d, b)
}

// rated is a chat that was closed and rated.
func (d *desk) rated(tag, text, comment string, score int) {
	d.t.Helper()
	v := d.finished("lin", tag, text)
	if _, err := v.Do(testkit.Context(d.t), "conv.rate", v.conv, proto.Rate{Score: score, Comment: comment}); err != nil {
		d.t.Fatal(err)
	}
}

func picturesOfConsole(d *desk, b *profile) {
	d.rated("delivery", "My parcel was left in the rain", "Nobody could tell me why", 2)
	d.rated("delivery", "When will my order be here?", "", 3)
	d.rated("tea", "Which tea keeps one awake?", "Quick and friendly", 5)
	v := d.visit("Hello, my order 20731 has not arrived. It was promised for Monday, and I am leaving on Thursday.")
	d.visit("Is the Boston fern still there?")
	lin := d.console(b, "lin", "lin", "lin", 1280, 720)
	lin.media("light", "reduce")
	lin.click("alerts-ask-later")
	lin.click("queue-row")
	lin.click("take")
	lin.send("Good morning! I am looking for your order now.")
	v.hears("Good morning! I am looking for your order now.")
	v.say("Thank you. See https://shop.example/orders/20731")
	lin.until("the customer has answered", shows("Thank you. See https://shop.example/orders/20731"))
	lin.click("card-edit")
	lin.fill("edit-name", "Ann Weber")
	lin.click("edit-save")
	lin.until("the customer has a name", node("card-name")+`.textContent === 'Ann Weber'`)
	lin.fill("tag-field", "delivery")
	lin.enter()
	lin.visible("tag")
	lin.documented("answer", "")
	lin.choose("status", "away")
	lin.visible("no-chats")
	lin.documented("status", "")
	lin.choose("status", "online")
	lin.choose("snooze", "hour")
	lin.until("the chat is aside", `document.querySelector('[data-testid="snoozed"] .row') && `+node("snooze")+`.selectedOptions[0].text.startsWith('Until ')`)
	lin.documented("snoozed", "")
	lin.choose("snooze", "back")
	lin.until("it is back", node("snooze")+`.selectedOptions[0].text === 'Not snoozed'`)
	lin.click("person-erase")
	lin.visible("dialog-confirm")
	lin.documented("erase", "")
	lin.click("dialog-cancel")

	lin.click("list-closed")
	lin.until("three chats are closed", `document.querySelectorAll('[data-testid="archive-row"]').length === 3`)
	lin.click("archive-row")
	lin.until("it is shown with its rating", shows("Which tea keeps one awake?")+` && `+node("rating"))
	lin.documented("tags", `document.querySelector('#card')`)
	lin.clickOn("the filters open", `document.querySelector('[data-testid="archive-filters"] summary')`)
	lin.fill("archive-tag", "delivery")
	lin.until("two are found", `document.querySelectorAll('[data-testid="archive-row"]').length === 2`)
	lin.click("archive-row")
	lin.until("the first of them is shown", shows("When will my order be here?"))
	lin.documented("closed", "")
	lin.clickOn("the filters close", `document.querySelector('[data-testid="archive-filters"] summary')`)
	lin.click("bulk-begin")
	lin.click("bulk-all")
	lin.until("two are chosen", node("bulk-count")+`?.textContent === '2 chats chosen'`)
	lin.documented("several", "")
	lin.clean()
}

func picturesOfLogin(d *desk, b *profile) {
	p := b.stranger("login", 800, 560, d.url("/console"))
	p.until("the provider is offered", node("login-sso")+`?.disabled === false`)
	p.documented("sign-on", "")
	amy := d.console(b, "amy", "amy", "amy", 1040, 680)
	amy.media("light", "reduce")
	amy.click("menu-button")
	amy.click("menu-factor")
	amy.until("the picture for the app is drawn", `document.querySelector('.qr')?.naturalWidth > 0`)
	amy.documented("factor", "")
}

func picturesOfAdministration(d *desk, p *tab) {
	p.media("light", "reduce")
	p.navigate(d.url("/admin/agents"))
	p.documented("agents", "")
	p.click("nav-invitations")
	p.click("new")
	p.fill("field-name", "Kim Park")
	p.click("save")
	p.visible("once-text")
	p.documented("invitation", "")
	p.click("nav-sites")
	p.click("site-row-link")
	p.scrolled("new-secret")
	p.documented("identity", "")
	p.click("rules")
	p.fill("field-rule_page_0", "/returns")
	p.choose("field-rule_priority_0", "high")
	p.documented("routing", "")
	p.click("nav-bots")
	p.click("new")
	p.fill("field-name", "Guide")
	p.fill("field-try", "May I return it?")
	p.click("try-send")
	p.visible("tried-said")
	p.resize(1040, 540) // above the texts in Chinese, for which not every machine has letters
	value[bool](p, `(scrollTo(0, 0), true)`)
	p.documented("bot", "")
	p.resize(1040, 680)
	p.click("nav-keys")
	p.click("new")
	p.fill("field-name", "Shop")
	p.click("scope-read")
	p.documented("key", "")
	p.click("nav-mail")
	p.fill("field-to", "you@shop.example")
	p.documented("mail", "")
	p.click("nav-contacts")
	p.fill("contacts-words", "ann")
	p.enter()
	p.until("one customer is found", `document.querySelectorAll('[data-testid="contact-row"]').length === 1`)
	p.pressed("the customer", `document.querySelector('[data-testid="contact-row"] a')`)
	p.visible("contact-id")
	p.documented("customer", "")
}

func picturesOfNumbers(d *desk, p *tab) {
	p.navigate(d.url("/wall"))
	p.visible("target-warning")
	p.documented("target", "")
	p.click("nav-reports")
	p.until("the numbers are there", `document.querySelectorAll('[data-testid="report-row"]').length > 0`)
	p.documented("reports", "")
	p.choose("measure", "pleased")
	p.choose("by", "tag")
	p.until("the tags are reported", `[...document.querySelectorAll('[data-testid="report-row"]')].some((r) => r.textContent.includes('delivery'))`)
	p.scrolled("chart-more")
	p.documented("unhappy", "")
}

func picturesOfCustomers(d *desk, b *profile) {
	p := b.stranger("shop", 1040, 700, d.url("/shop"))
	p.media("light", "reduce")
	p.click("shop-ask")
	p.until("the panel is open", widgetShown)
	p.until("the bot greets", framed(messagesOf+`.some((m) => m.From === 'bot')`))
	p.documented("widget", "")
	p = b.stranger("customer", 400, 600, d.url("/chat/demo"))
	p.click("menu-button")
	p.choose("language", "es")
	p.until("the page speaks Spanish", `document.documentElement.lang === 'es'`)
	p.documented("languages", "")
	day := func(n int) string { return time.Now().UTC().AddDate(0, 0, n).Format(time.DateOnly) }
	d.settings(func(s *store.SiteSettings) {
		s.Hours.Zone, s.Hours.Holidays = "UTC", []string{day(-1), day(0), day(1)}
	})
	p = b.stranger("late customer", 400, 640, d.url("/chat/demo"))
	p.click("talk-to-person")
	p.fill("leave-name", "Ann")
	p.fill("leave-email", "ann@home.example")
	p.fill("leave-body", "Is the fern still there?")
	p.documented("left", "")
	p.clean()
}
