package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"

	"github.com/go-eddy/eddy/desk/perm"
	"github.com/go-eddy/eddy/desk/store"
)

// replies adds two canned replies.
func (d *desk) replies() {
	d.t.Helper()
	d.seed(func(ctx context.Context, db store.Store) error {
		for _, c := range []store.Canned{
			{Short: "hello", Title: "Greeting", Body: "Hello {name|there}, this is {agent}. How can I help?"},
			{Short: "help", Title: "Help pages", Body: "Everything is explained at https://help.example"},
		} {
			if _, err := db.CreateCanned(ctx, c); err != nil {
				return err
			}
		}
		return nil
	})
}

// TestConsoleWork does what an agent does all day in one chat: a canned reply, a note, tags, what is known of the
// customer, the search, closing, and looking at an earlier chat.
func TestConsoleWork(t *testing.T) {
	b := startBrowser(t, "en")
	d := newDesk(t)
	d.replies()
	v := d.visit("My parcel 4711 is lost")
	agent := d.console(b, "agent", d.login, d.password, 1680, 1050)
	agent.click("queue-row")
	agent.click("take")
	agent.visible("composer")
	agent.until("the waiting time is shown", node("row-wait")+`.textContent !== ''`)

	// A canned reply: by slash, with arrows, preview and variables.
	agent.press("/hel")
	agent.until("both replies are offered", `document.querySelectorAll('[data-testid="canned-item"]').length === 2`)
	agent.until("the preview is filled in", node("canned-preview")+`.textContent.startsWith('Hello there, ') && `+node("canned-preview")+`.textContent.includes('this is Agent')`)
	agent.shot("canned")
	agent.press(kb.ArrowDown)
	agent.until("the second is chosen", node("canned-preview")+`.textContent.startsWith('Everything')`)
	agent.press(kb.ArrowUp)
	agent.enter()
	agent.until("the reply is in the box", node("composer")+`.value.startsWith('Hello there, ')`)
	agent.gone("canned")
	agent.enter()
	name := agent.text("chat-title")
	const greeting = "Hello there, this is Agent. How can I help?" // the visitor has given no name
	agent.until("the reply is sent", accepted(greeting))
	v.hears(greeting)
	v.reads(greeting)
	agent.until("it is marked as read", `[...document.querySelectorAll('[data-testid="message"]')].some((n) => n.dataset.from === 'me' && n.querySelector('.state').dataset.state === 'read')`)

	// A note is amber, said to be for staff, and never reaches the customer.
	agent.press("\x1b")
	agent.key("n")
	agent.until("the note mode is on", `document.querySelector('.composer.noting') && document.activeElement?.dataset.testid === 'composer'`)
	agent.press("She has called twice already")
	agent.shot("note-mode")
	agent.enter()
	agent.until("the note is shown", `[...document.querySelectorAll('[data-testid="note"]')].some((n) => n.querySelector('[data-testid="message-text"]').textContent === 'She has called twice already' && Number(n.dataset.seq) > 0)`)
	agent.until("it says for whom it is", `document.querySelector('.note-label').textContent.includes('only staff see this')`)
	agent.click("mode-answer")
	agent.send("One moment please")
	v.hears("One moment please")
	for _, f := range v.View(v.conv) {
		if strings.Contains(string(f.D), "called twice") {
			t.Error("the customer got the note")
		}
	}
	cardWork(agent)
	agent.shot("card")
	agent.clean()
	searchAndPast(t, d, agent, v, name)
}

func cardWork(agent *tab) {
	agent.t.Helper()
	agent.fill("tag-field", "vip, parcel")
	agent.enter()
	agent.until("both tags are shown", `[...document.querySelectorAll('[data-testid="tag"]')].map((n) => n.textContent).join() === 'parcel,vip'`)
	agent.clickOn("remove a tag", `document.querySelector('[data-testid="tag"] button')`)
	agent.until("one is left", `[...document.querySelectorAll('[data-testid="tag"]')].map((n) => n.textContent).join() === 'vip'`)
	agent.choose("priority", "high")
	agent.until("the row says it", node("mine-row")+`.querySelector('[data-testid="row-marks"]').textContent.includes('High')`)
	agent.until("and so does the chat", `[...document.querySelectorAll('[data-testid="system"]')].some((n) => n.textContent.includes('set the priority: High'))`)
	agent.click("card-edit")
	agent.fill("edit-name", "Ann Field")
	agent.click("edit-add")
	agent.fill("edit-key", "Order No")
	agent.fill("edit-value", "4711")
	agent.click("edit-save")
	agent.until("what is known is shown", node("attributes")+`.textContent.includes('order_no') && `+node("attributes")+`.textContent.includes('4711')`)
	agent.until("the name is new everywhere", node("chat-title")+`.textContent === 'Ann Field' && `+node("mine-row")+`.textContent.includes('Ann Field')`)
}

func searchAndPast(t *testing.T, d *desk, agent *tab, v *visitor, name string) {
	t.Helper()
	v.say("Thank you, bye")
	agent.until("the goodbye is shown", shows("Thank you, bye"))
	agent.press("\x1b")
	agent.key("e")
	agent.visible("dialog-confirm") // the last word is the customer's
	agent.click("dialog-confirm")
	agent.until("the chat is closed", `document.querySelector('[data-testid="chat"]').dataset.state === 'closed'`)
	agent.click("next-chat")

	d.visit("Something else")
	agent.click("queue-row")
	agent.until("the other chat is shown", shows("Something else"))
	agent.click("search")
	agent.write("search", "parcel 4711") // at once: "parcel" alone would find it, and the hit go when the whole question is asked
	agent.visible("hit")
	agent.shot("search")
	agent.press(kb.ArrowDown)
	agent.enter()
	agent.until("the chat that was found is shown", shows("My parcel 4711 is lost"))
	agent.until("it cannot be written to", "!"+node("composer"))
	if got := agent.text("chat-title"); got != "Ann Field" && got != name {
		t.Errorf("the chat that was found is titled %q", got)
	}
	agent.until("the customer is shown, too", node("attributes")+`?.textContent.includes('4711')`)
	agent.clean()
}

// hold lets a test keep back what the page sends: window.hold(type) keeps it, window.answer(type, frame) answers what
// was kept, window.unhold() lets everything through again.
const hold = `
window.kept = [];
{
	const held = new Set();
	window.hold = (type) => held.add(type);
	window.unhold = () => held.clear();
	window.answer = (type, frame) => {
		const i = window.kept.findIndex((k) => k.frame.t === type);
		const [k] = window.kept.splice(i, 1);
		k.socket.dispatchEvent(new MessageEvent('message', {data: JSON.stringify({...frame, re: k.frame.id})}));
	};
	const send = WebSocket.prototype.send;
	WebSocket.prototype.send = function (data) {
		const frame = JSON.parse(data);
		if (held.has(frame.t)) window.kept.push({socket: this, frame});
		else send.call(this, data);
	};
}
`

// TestConsolePanelsDoNotBlockEachOther keeps back the answers to the search and to the customer card: the chat goes
// on, and each panel says what happened and tries again.
func TestConsolePanelsDoNotBlockEachOther(t *testing.T) {
	b := startBrowser(t, "en")
	d := newDesk(t)
	v := d.visit("Are you there?")
	agent := b.open("agent", 1280, 800, "about:blank")
	agent.before(hold)
	agent.navigate(d.url("/console"))
	login(agent, d.login, d.password)
	agent.visible("queue-row")
	value[bool](agent, `(window.hold("search"), window.hold("contact.get"), true)`)
	agent.fill("search", "there")
	agent.until("the search waits", `window.kept.some((k) => k.frame.t === 'search')`)
	agent.visible("panel-loading")
	agent.click("queue-row")
	agent.click("take")
	agent.until("the card waits", `window.kept.some((k) => k.frame.t === 'contact.get')`)
	agent.send("Yes, I am")
	v.hears("Yes, I am")
	v.say("Good")
	agent.until("the chat goes on", shows("Good"))
	agent.fill("search", "there now")
	agent.until("a second question waits for the first", `window.kept.filter((k) => k.frame.t === 'search').length === 1`)
	agent.shot("slow-panels")

	value[bool](agent, `window.answer('contact.get', {t: 'err', d: {code: 'unavailable', text: 'no'}}) ?? true`)
	agent.until("the card says so", `document.querySelector('[data-testid="card"] [data-testid="panel-error"]')?.checkVisibility()`)
	agent.shot("failed-panel")
	value[bool](agent, `window.unhold() ?? true`)
	agent.clickOn("try again", `document.querySelector('[data-testid="card"] [data-testid="panel-retry"]')`)
	agent.visible("attributes")
	value[bool](agent, `window.answer('search', {t: 'ok', d: {hits: [], cursor: ''}}) ?? true`)
	agent.fill("search", "there")
	agent.visible("hit")
	agent.clean()
}

// TestFiftyChats holds fifty chats at once and goes through them with the keyboard.
func TestFiftyChats(t *testing.T) {
	b := startBrowser(t, "en")
	d := newDesk(t)
	const chats = 50
	d.colleague("many", "Many", perm.Agent, chats)
	visitors := make([]*visitor, chats)
	for i := range visitors {
		visitors[i] = d.visit(fmt.Sprintf("I am number %d", i))
	}
	agent := d.console(b, "agent", "many", "many", 1280, 800)
	const rows = `document.querySelectorAll('[data-testid="mine-row"]')`
	d.takeAll("many", visitors)
	agent.until("all are listed", fmt.Sprintf(`%s.length === %d`, rows, chats))
	agent.press("j")
	for i := range chats {
		agent.enter()
		agent.until("the next chat is shown", shows(fmt.Sprintf("I am number %d", i)))
		agent.until("it can be written to", `document.activeElement?.dataset.testid === 'composer'`)
		if i%10 == 0 {
			agent.press(fmt.Sprintf("draft %d", i))
		}
		agent.press("\x1b")
		agent.press("j")
	}
	agent.shot("fifty")
	visitors[7].say("hello again")
	agent.until("the row says so", rows+`[7].querySelector('[data-testid="row-unread"]').textContent === '1'`)
	for i := 0; i < chats; i += 10 {
		agent.until("the draft is in the list", fmt.Sprintf(`%s[%d].textContent.includes('Draft: draft %d')`, rows, i, i))
	}
	agent.clickOn("open one", rows+`[40]`)
	agent.until("its draft is in the box", node("composer")+`.value === 'draft 40'`)
	agent.send("answered")
	visitors[40].hears("answered")
	agent.clean()
}
