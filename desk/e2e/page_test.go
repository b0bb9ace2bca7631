package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"
)

// TestPagesSpeakTheLanguageOfTheBrowser opens the pages in a Chinese browser
// and changes the language by hand.
func TestPagesSpeakTheLanguageOfTheBrowser(t *testing.T) {
	b := startBrowser(t, "zh-CN")
	d := newDesk(t)
	customer := b.open("customer", phone, 740, d.url("/chat/demo"))
	customer.until("the bot greets", messagesOf+`.some((m) => m.From === 'bot')`)
	if got := customer.text("talk-to-person"); got != "转人工客服" {
		t.Errorf("the button reads %q", got)
	}
	customer.shot("customer-zh")
	customer.send("人工")
	customer.until("the place in the queue is told", node("queue-position")+`?.textContent === '下一位就是您'`) // some time after the chat waits
	customer.click("menu-button")
	customer.choose("language", "en")
	customer.until("the page speaks English", node("queue-position")+`.textContent === 'You are next' && document.documentElement.lang === 'en'`)
	customer.reload()
	customer.until("the choice is kept", node("queue-position")+`.textContent === 'You are next'`)

	agent := b.open("agent", desktop, 800, d.url("/console"))
	agent.visible("login-submit")
	agent.until("the choice holds for the console too", node("login-submit")+`.textContent === 'Log in'`)
	customer.clean()
	agent.clean()
}

// TestConsoleWorksWithTheKeyboard takes, answers and closes a chat without a mouse.
func TestConsoleWorksWithTheKeyboard(t *testing.T) {
	b := startBrowser(t, "en")
	d := newDesk(t)
	customer := b.open("customer", phone, 740, d.url("/chat/demo"))
	customer.click("talk-to-person")
	customer.visible("queue-position")
	agent := b.open("agent", desktop, 800, d.url("/console"))
	agent.visible("login-user")
	agent.until("the login field has the focus", `document.activeElement?.dataset.testid === 'login-user'`)
	agent.press(d.login + "\t" + d.password)
	agent.enter()
	loginAnswered(agent)
	agent.visible("queue-row")
	agent.press("?")
	agent.visible("keys")
	agent.press("\x1b")
	agent.until("the list of keys is closed", `!document.querySelector('[data-testid="keys"]')`)
	agent.press("j")
	agent.until("the row has the focus", `document.activeElement?.dataset.testid === 'queue-row'`)
	agent.enter()
	agent.until("the take button has the focus", `document.activeElement?.dataset.testid === 'take'`)
	agent.enter()
	agent.until("the message box has the focus", `document.activeElement?.dataset.testid === 'composer'`)
	agent.press("jek? Written, not commanded.")
	agent.enter()
	customer.until("the answer arrives", shows("jek? Written, not commanded."))
	agent.press("\x1b")
	agent.until("the row has the focus", `document.activeElement?.dataset.testid === 'mine-row'`)
	agent.press("e")
	agent.visible("chat-closed")
	customer.visible("closed-card")
	agent.clean()
}

// TestConsoleByKeyboardAlone answers with a canned reply, notes, searches, looks at the colleagues and closes, all
// without a mouse.
func TestConsoleByKeyboardAlone(t *testing.T) {
	b := startBrowser(t, "en")
	d := newDesk(t)
	d.replies()
	d.visit("Is anybody there?")
	agent := b.open("agent", desktop, 800, d.url("/console"))
	agent.visible("login-user")
	agent.until("the login field has the focus", `document.activeElement?.dataset.testid === 'login-user'`)
	agent.press(d.login + "\t" + d.password)
	agent.enter()
	loginAnswered(agent)
	agent.visible("queue-row")
	agent.key("j")
	agent.enter()
	agent.until("the take button has the focus", `document.activeElement?.dataset.testid === 'take'`)
	agent.enter()
	agent.until("the message box has the focus", `document.activeElement?.dataset.testid === 'composer'`)
	agent.press("\x1b")
	agent.key("/")
	agent.visible("canned-item")
	agent.press(kb.ArrowDown)
	agent.tab(false) // takes the reply
	agent.until("the reply is in the box", node("composer")+`.value !== '/' && !`+node("canned")+` && document.activeElement === `+node("composer"))
	agent.enter()
	agent.until("it is sent", messagesOf+`.some((m) => m.From === 'me' && m.State === 'accepted')`)
	agent.press("\x1b")
	agent.key("n")
	agent.press("A note by keyboard")
	agent.enter()
	agent.until("the note is kept", `[...document.querySelectorAll('[data-testid="note"]')].some((n) => Number(n.dataset.seq) > 0)`)
	agent.press("\x1b")
	agent.key("n")
	agent.until("the answer is back", `!document.querySelector('.composer.noting')`)
	agent.press("\x1b")
	agent.key("t")
	agent.until("the search of the dialog has the focus", `document.activeElement?.dataset.testid === 'transfer-search'`)
	agent.press("\x1b")
	agent.gone("transfer-dialog")
	agent.key("s")
	agent.press("anybody")
	agent.visible("hit")
	agent.press(kb.ArrowDown)
	agent.until("the hit has the focus", `document.activeElement?.dataset.testid === 'hit'`)
	agent.enter()
	agent.until("the message that was found is marked", `document.querySelector('.found [data-testid="message-text"], .message.found')`)
	agent.press("\x1b")
	agent.until("the row has the focus", `document.activeElement?.dataset.testid === 'mine-row'`)
	agent.key("e")
	agent.until("the chat is closed", `document.querySelector('[data-testid="chat"]').dataset.state === 'closed'`)
	agent.clean()
}

// TestComposer checks the message box: line breaks, the Enter of an input
// method, the limit, and the six lines it grows to.
func TestComposer(t *testing.T) {
	b := startBrowser(t, "en")
	d := newDesk(t)
	p := b.open("customer", phone, 740, d.url("/chat/demo"))
	p.until("the bot greets", messagesOf+`.some((m) => m.From === 'bot')`)
	p.fill("composer", "你好")
	for _, how := range []string{`isComposing: true`, `keyCode: 229`, `shiftKey: true`} {
		sent := value[bool](p, `!`+node("composer")+`.dispatchEvent(new KeyboardEvent('keydown', {key: 'Enter', bubbles: true, cancelable: true, `+how+`}))`)
		if sent {
			t.Errorf("Enter with %s is taken by the page", how)
		}
	}
	if n := len(p.messages()); n != 1 {
		t.Errorf("%d messages, want the greeting alone", n)
	}
	one := p.height("composer")
	p.write("composer", strings.Repeat("line\n", 20))
	if h := p.height("composer"); h < 4*one/2 || h > 6*one {
		t.Errorf("twenty lines make the box %v px high, one line %v px", h, one)
	}
	p.write("composer", strings.Repeat("x", 7199))
	if !value[bool](p, `document.querySelector('[data-testid="counter"]').hidden`) {
		t.Error("the counter shows below 90 %")
	}
	p.write("composer", strings.Repeat("x", 7200))
	if got := p.text("counter"); got != "7,200 of 8,000" {
		t.Errorf("at 90 %% the counter reads %q", got)
	}
	p.write("composer", strings.Repeat("😀", 8120))
	if got := p.text("counter"); got != "Too long by 120 characters." {
		t.Errorf("above the limit the counter reads %q", got)
	}
	if !value[bool](p, node("send")+`.disabled`) {
		t.Error("a message that is too long can be sent")
	}
	p.shot("too-long")
	p.write("composer", strings.Repeat("😀", 8000))
	p.click("send")
	p.until("8,000 characters are accepted", messagesOf+`.some((m) => m.From === 'me' && m.State === 'accepted' && [...m.Text].length === 8000)`)
	p.clean()
}

// TestReaderStaysWhereTheyAre scrolls up, receives messages, and comes back
// with the pill.
func TestReaderStaysWhereTheyAre(t *testing.T) {
	b := startBrowser(t, "en")
	d := newDesk(t)
	customer, agent := meet(t, d, b)
	for i := range 15 {
		text := fmt.Sprintf("filling the page, number %d", i)
		agent.send(text)
		customer.until(text+" arrives", shows(text))
	}
	const scroller = `document.querySelector('.scroller')`
	const atBottom = `((s) => s.scrollHeight - s.scrollTop - s.clientHeight < 2)(` + scroller + `)`
	customer.until("the view followed", atBottom)
	value[bool](customer, scroller+".focus() ?? true")
	customer.press(kb.PageUp)
	customer.until("the view is above", "!"+atBottom)
	customer.until("the view rests", `((s) => new Promise((done) => { const at = s.scrollTop; requestAnimationFrame(() => requestAnimationFrame(() => done(at === s.scrollTop))); }))(`+scroller+`)`)
	before := value[float64](customer, scroller+".scrollTop")
	for i := range 3 {
		text := fmt.Sprintf("news %d", i)
		agent.send(text)
		customer.until(text+" is there", shows(text))
	}
	if after := value[float64](customer, scroller+".scrollTop"); after != before {
		t.Errorf("the view moved from %v to %v", before, after)
	}
	if got := customer.text("new-pill"); got != "3 new messages" {
		t.Errorf("the pill reads %q", got)
	}
	customer.shot("pill")
	customer.click("new-pill")
	customer.until("the view is at the bottom", atBottom)
	customer.gone("new-pill")
	customer.clean()
}

// TestBlockedStorageIsTold opens the pages in a browser that denies storage:
// they work, and say what is lost.
func TestBlockedStorageIsTold(t *testing.T) {
	b := startBrowser(t, "en")
	d := newDesk(t)
	p := b.open("customer", phone, 740, "about:blank")
	p.before(`for (const name of ['localStorage', 'sessionStorage']) Object.defineProperty(window, name, {get() { throw new DOMException('denied', 'SecurityError'); }});`)
	p.navigate(d.url("/chat/demo"))
	p.until("the notice is shown", `document.querySelector('#notice').checkVisibility() && document.querySelector('#notice').textContent.includes('blocks storage')`)
	p.send("hello")
	p.until("messages are sent all the same", accepted("hello"))
	p.clean()

	p.resize(desktop, 800)
	p.navigate(d.url("/shop"))
	p.until("the widget's button is there", `document.querySelector('#eddy-desk') && window.EddyDesk?.on`)
	value[bool](p, `(EddyDesk.on('ready', (d) => { window.kept = d.storage; }), true)`)
	p.clickWidget()
	p.until("the frame says where it keeps things", `window.kept === 'memory'`)
	p.until("it tells the visitor, too", framed(`document.querySelector('#notice').checkVisibility() && document.querySelector('#notice').textContent.includes('blocks storage')`))
	p.until("the chat works", framed(messagesOf+`.some((m) => m.From === 'bot')`))
	p.shot("widget")
}
