package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"
	"github.com/google/uuid"

	"github.com/go-eddy/eddy/desk/desktest"
	"github.com/go-eddy/eddy/desk/store"
	"github.com/go-eddy/eddy/desk/store/sqlstore"
	"github.com/go-eddy/eddy/internal/testkit"
)

// pictures takes them at all sizes when EDDY_PICTURES is set, else one.
func pictures(p *tab, name string) {
	if os.Getenv(wantPictures) != "" {
		p.everywhere(name)
		return
	}
	p.shot(name)
}

// demanding makes the demo site ask for everything a site may ask for.
func demanding(s *store.SiteSettings) {
	s.Color = "#5b3cc4"
	s.Greeting = "Hello! Tell us who you are, so that we can write back."
	s.Consent = "I agree that this chat is kept for 90 days, see https://shop.example/privacy."
	s.PreChat = []store.Field{{Name: "name", Label: "Your name", Type: "text"}, {Name: "email", Label: "E-mail", Type: "email", Required: true}}
	s.RateChat, s.MailChats = true, true
}

// choices are the values of the bot's buttons that are on the screen.
const choices = `[...document.querySelectorAll('[data-testid="choice"]')].filter((n) => n.checkVisibility()).map((n) => n.dataset.value)`

const markOf = `((text) => [...document.querySelectorAll('[data-testid="message"]')].find((n) => n.querySelector('[data-testid="message-text"]').textContent === text)?.querySelector('[data-testid="message-state"]').dataset.state)`

// TestCustomerStory is a customer's whole visit: questions, bot, queue, agent,
// marks, the end, the rating, another chat; and everything has its name for
// those who do not see it.
func TestCustomerStory(t *testing.T) {
	requested(t)
	for _, c := range []struct{ lang, required, address, next, joined, good, thanks string }{
		{"en", "Fill in this field.", "Enter an e-mail address such as name@example.com.", "You are next", "Agent joined the chat", "Good", "Thank you for your rating."},
		{"zh-CN", "请填写此项。", "请输入电子邮箱，例如 name@example.com。", "下一位就是您", "Agent 加入了对话", "满意", "感谢您的评价。"},
	} {
		t.Run(c.lang, func(t *testing.T) {
			b := startBrowser(t, c.lang)
			post := desktest.NewMailServer(t, "none")
			d := newDesk(t, "--mail-server", post.Addr, "--mail-tls", "none", "--mail-from", "Shop <help@shop.example>", "--public-url", "http://desk.example")
			d.settings(demanding)
			p := b.open("customer", phone, 740, d.url("/chat/demo"))
			p.visible("prechat")
			if got, want := value[string](p, `((a) => [a.href, a.target, a.rel, a.textContent].join(' '))(`+node("prechat-consent")+`.closest('label').querySelector('a'))`),
				"https://shop.example/privacy _blank noopener noreferrer nofollow https://shop.example/privacy"; got != want {
				t.Errorf("the link of the consent is %q, want %q", got, want)
			}
			p.click("prechat-start")
			errorOf := func(id string) string {
				return fmt.Sprintf(`document.getElementById(%s.getAttribute('aria-describedby')).textContent`, node(id))
			}
			p.until("the missing answer is told", errorOf("prechat-email")+fmt.Sprintf(" === %q", c.required)+` && document.activeElement === `+node("prechat-email"))
			p.fill("prechat-email", "ann@")
			p.click("prechat-start")
			p.until("the wrong one, too", errorOf("prechat-email")+fmt.Sprintf(" === %q", c.address)+` && `+node("prechat-email")+`.getAttribute('aria-invalid') === 'true'`)
			p.named("questions")
			pictures(p, "1-questions")
			p.fill("prechat-name", "Ann")
			p.fill("prechat-email", "ann@example.com")
			p.click("prechat-consent")
			p.click("prechat-start")
			p.until("the bot greets", messagesOf+`.some((m) => m.From === 'bot')`)
			p.until("the buttons are offered", node("choice"))
			if got := value[[]string](p, choices); len(got) != 1 { // the bot offers two; that for a person is the page's own
				t.Errorf("the bot's buttons are %q", got)
			}
			p.named("bot")
			pictures(p, "2-bot")

			p.click("talk-to-person")
			p.until("the queue position is told", node("queue-position")+fmt.Sprintf(".textContent === %q", c.next))
			p.until("the bot's buttons are over", `[...document.querySelectorAll('[data-testid="choice"]')].every((b) => b.disabled)`)
			p.send("My kettle has not come.")
			p.until("it has one tick", markOf+`('My kettle has not come.') === 'accepted'`)
			pictures(p, "3-queue")

			agent := b.stranger("agent", desktop, 800, d.url("/console"))
			login(agent, d.login, d.password)
			agent.click("queue-row")
			agent.click("take")
			agent.visible("composer")
			p.until("the agent has joined", fmt.Sprintf(`[...document.querySelectorAll('[data-testid="system"]')].some((n) => n.textContent.startsWith(%q))`, c.joined))
			p.until("it has been read", markOf+`('My kettle has not come.') === 'read'`)
			seen := p.typing("the agent is seen typing")
			agent.fill("composer", "I am looking")
			seen()
			agent.enter()
			p.until("the answer is announced politely", `((n) => n.textContent.includes('I am looking') && n.getAttribute('aria-live') === 'polite')(document.querySelector('[data-testid="announcer"]'))`)
			p.send("https://example.com/order/17 \u2014 thank you!")
			p.until("the customer's word has arrived", markOf+`('https://example.com/order/17 \u2014 thank you!') === 'read'`)
			p.named("chat")
			pictures(p, "4-chat")
			lookAway(p, agent)

			agent.click("mail-chat")
			mailed := post.Await(t, 1)[0]
			agent.send("Goodbye")
			agent.until("it is acknowledged", accepted("Goodbye"))
			agent.click("close-chat")
			p.visible("rating")
			p.click("rating-4")
			p.until("the score has a word", fmt.Sprintf(`document.querySelector('.rating-word').textContent === %q`, c.good))
			p.fill("rating-comment", "Quick and kind.")
			p.named("closed")
			pictures(p, "5-rating")
			p.click("rating-send")
			p.until("the rating is taken", node("rating-thanks")+fmt.Sprintf(".textContent.startsWith(%q)", c.thanks))
			p.click("mail-chat")
			p.until("the chat is on its way", `!`+node("mail-chat")+` && `+node("mail-chat-said")+`.textContent`)
			if got := post.Await(t, 2)[1]; got.To != mailed.To || !strings.Contains(got.Body, "Goodbye") || !strings.Contains(mailed.Body, "My kettle has not come.") {
				t.Errorf("%+v and then %+v", mailed, got)
			}
			p.shot("6-rated")
			p.click("start-again")
			p.until("a new chat begins without the questions", `document.querySelector('[data-testid="customer"]').dataset.state === 'new' && `+messagesOf+`.length === 1`)
			p.clean()
			agent.clean()
		})
	}
}

// lookAway sends a message to a customer who looks at something else.
func lookAway(p, agent *tab) {
	p.t.Helper()
	hide := func(hidden bool) {
		value[bool](p, fmt.Sprintf(`(Object.defineProperty(document, 'hidden', {configurable: true, value: %v}), document.dispatchEvent(new Event('visibilitychange')))`, hidden))
	}
	before, _ := json.Marshal(value[string](p, `document.title`))
	hide(true)
	agent.send("Are you there?")
	p.until("the title counts", `document.title === '(1) ' + `+string(before))
	p.until("and says why", `document.title.startsWith('(1) ') && document.title !== '(1) ' + `+string(before))
	agent.until("it is delivered, not read", markOf+`('Are you there?') === 'delivered'`)
	hide(false)
	p.until("the title is as before", `document.title === `+string(before))
	agent.until("it has been read", markOf+`('Are you there?') === 'read'`)
}

// TestNobodyIsOnlineWhileOffline: without a network the header does not say how the agent is, even before the
// connection has noticed.
func TestNobodyIsOnlineWhileOffline(t *testing.T) {
	b := startBrowser(t, "en")
	d := newDesk(t)
	p, _ := meet(t, d, b)
	header := `[document.querySelector('[data-testid="banner"]').dataset.state, ` + node("presence-dot") + `.dataset.on, ` + node("header-state") + `.textContent].join(' | ')`
	const online = ` | true | Online · Demo site`
	p.until("the agent is online", header+` === '`+online+`'`)
	network := func(is bool, event string) string { // the page answers before anything else can happen
		return fmt.Sprintf(`(Object.defineProperty(navigator, 'onLine', {configurable: true, value: %v}), window.dispatchEvent(new Event(%q)), %s)`, is, event, header)
	}
	if got, want := value[string](p, network(false, "offline")), "offline | false | Not connected · Demo site"; got != want {
		t.Errorf("the header without a network is %q, want %q", got, want)
	}
	p.until("the server was there all the time", header+` === '`+online+`'`)
	d.stop()
	value[string](p, network(false, "offline"))
	p.until("it stays so while there is no connection", header+` === 'offline | false | Not connected · Demo site'`)
	d.start()
	value[string](p, network(true, "online"))
	hurry(p)
	p.until("the agent is online again", header+` === '`+online+`'`)
	p.clean()
}

// TestCustomerWithTheKeyboard uses nothing else, and follows the focus.
func TestCustomerWithTheKeyboard(t *testing.T) {
	b := startBrowser(t, "en")
	d := newDesk(t)
	d.settings(demanding)
	p := b.open("customer", phone, 740, d.url("/chat/demo"))
	p.until("the first question has the focus", `document.activeElement?.dataset.testid === 'prechat-name'`)
	p.press("Ann\tann@example.com\t ")
	p.until("the consent is ticked", `document.activeElement.checked`)
	p.press("\t")
	p.until("its link can be reached", `document.activeElement.href === 'https://shop.example/privacy'`)
	p.press("\t")
	p.enter()
	p.until("the bot greets", messagesOf+`.some((m) => m.From === 'bot')`)
	value[bool](p, `(document.activeElement?.blur(), document.querySelector('h1').scrollIntoView(), true)`)
	// Everything in the order in which it stands.
	var order []string
	for range 9 {
		p.press("\t")
		order = append(order, value[string](p, `document.activeElement.dataset.testid ?? document.activeElement.className ?? ''`))
	}
	want := []string{"menu-button", "scroller", "choice", "talk-to-person", "composer"}
	at := 0
	for _, id := range order {
		if at < len(want) && id == want[at] {
			at++
		}
	}
	if at < len(want) {
		t.Errorf("the focus goes %q, want %q in this order", order, want)
	}
	p.until("the focus can be seen", `(() => { `+node("composer")+`.focus(); return getComputedStyle(document.activeElement).outlineStyle !== 'none'; })()`)
	p.press("hello")
	p.enter()
	p.until("it is sent", accepted("hello"))
	back := func(id string) {
		t.Helper()
		for range 12 {
			if value[string](p, `document.activeElement?.dataset.testid ?? ''`) == id {
				return
			}
			p.tab(true)
		}
		t.Fatalf("Shift+Tab does not reach %s", id)
	}
	back("menu-button")
	p.enter()
	p.until("the menu is open and has the focus", `document.activeElement?.dataset.testid === 'language'`)
	p.press("\t ")
	p.until("the sound is on", node("sound")+`.checked`)
	p.press(kb.Escape)
	p.until("Escape closes the menu", `document.activeElement?.dataset.testid === 'menu-button' && !`+node("language"))
	p.enter()
	p.until("the menu is open", node("end-chat"))
	p.press("\t\t")
	p.enter()
	p.until("a dialog asks, and holds the focus", node("dialog-confirm")+` && document.activeElement.closest('dialog')`)
	for range 5 {
		p.press("\t")
		if !value[bool](p, `document.activeElement === document.body || Boolean(document.activeElement.closest('dialog'))`) {
			t.Error("the focus leaves the dialog")
		}
	}
	p.press(kb.Escape)
	p.until("Escape is no", `!document.querySelector('dialog')`)
	p.clean()
}

// TestLongChat opens a chat of two thousand messages: it begins at the end,
// loads what the reader scrolls to, holds the view, and keeps little of it in
// the document.
func TestLongChat(t *testing.T) {
	const messages = 2000
	b := startBrowser(t, "en")
	d := newDesk(t)
	p := b.open("customer", phone, 740, d.url("/chat/demo"))
	p.click("talk-to-person")
	p.visible("queue-position")
	p.navigate("about:blank")
	d.change(func(ctx context.Context, db *sqlstore.DB, _ store.Site) {
		queue, _, err := db.Cold().Queue(ctx, 1)
		if err != nil || len(queue) != 1 {
			t.Fatalf("%d in the queue: %v", len(queue), err)
		}
		done := make(chan error, messages)
		for i := range messages {
			db.Do(store.Append{Conv: queue[0].ID, From: store.Actor{Kind: store.Customer, ID: queue[0].Contact}, ClientID: uuid.NewString(), Body: fmt.Sprintf("message %d", i+1)},
				time.Now().Add(testkit.Patience), func(o store.Outcome) { done <- o.Err })
		}
		for range messages {
			if err := <-done; err != nil {
				t.Fatal(err)
			}
		}
	})
	p.navigate(d.url("/chat/demo"))
	p.until("the end is shown", shows(fmt.Sprintf("message %d", messages)))
	const (
		scroller = `document.querySelector('.scroller')`
		entries  = `document.querySelectorAll('[data-at]').length`
		atBottom = `((s) => s.scrollHeight - s.scrollTop - s.clientHeight < 2)(` + scroller + `)`
		first    = `Number(document.querySelector('[data-seq]').dataset.seq)`
	)
	p.until("the view is at the end", atBottom)
	p.shot("end")
	if n := value[int](p, first); n < messages-300 {
		t.Errorf("the page begins with event %d: it did not begin near the end", n)
	}
	// Upwards, page by page. Within one frame what is read stays where it is, whatever is loaded above.
	moved := value[float64](p, `(async () => {
		const s = `+scroller+`;
		const frame = () => new Promise((done) => requestAnimationFrame(done));
		const place = () => {
			const top = s.getBoundingClientRect().top;
			const node = [...document.querySelectorAll('[data-at]')].find((n) => n.getBoundingClientRect().bottom > top + 100);
			return { at: node.dataset.at, y: node.getBoundingClientRect().top };
		};
		let worst = 0;
		window.most = 0;
		for (let i = 0; i < 4000 && !(document.querySelector('[data-seq="10"]') && s.scrollTop === 0); i++) {
			s.scrollTop -= 1200;
			const before = place();
			await frame();
			await frame();
			const same = document.querySelector('[data-at="' + before.at + '"]');
			if (same) worst = Math.max(worst, Math.abs(same.getBoundingClientRect().top - before.y));
			window.most = Math.max(window.most, `+entries+`);
		}
		return worst;
	})()`)
	if moved > 2 {
		t.Errorf("the view moved by %v px while older messages were loaded", moved)
	}
	if n := value[int](p, `window.most`); n > 450 {
		t.Errorf("%d entries were in the document at once", n)
	}
	p.until("the beginning is reached", shows("message 1")+` && !`+shows(fmt.Sprintf("message %d", messages)))
	p.shot("beginning")
	p.click("new-pill")
	p.until("one press leads back to the end", shows(fmt.Sprintf("message %d", messages))+` && `+atBottom)
	p.send("and one more")
	p.until("it goes on", accepted("and one more"))
	p.clean()
}
