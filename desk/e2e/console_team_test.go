package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/go-eddy/eddy/desk/perm"
	"github.com/go-eddy/eddy/desk/store"
)

// offerTo transfers the chat that is open to the first colleague who fits, by keyboard.
func offerTo(p *tab, name, note string) {
	p.t.Helper()
	p.press("\x1b")
	p.key("t")
	p.visible("transfer-dialog")
	p.fill("transfer-search", name)
	p.until(name+" alone is listed and free", `((l) => l.length === 1 && l[0].textContent.startsWith('Online'))([...document.querySelectorAll('[data-testid="transfer-dialog"] [data-testid="target-state"]')])`)
	p.click("transfer-agent")
	p.fill("transfer-note", note)
	p.shot("transfer")
	p.click("transfer-send")
	p.gone("transfer-dialog")
}

// TestConsoleTransferOffers offers a chat to a colleague, who declines it and accepts the second offer.
func TestConsoleTransferOffers(t *testing.T) {
	b := startBrowser(t, "en")
	d := newDesk(t)
	d.colleague("lin", "Lin Chen", perm.Agent, 5)
	d.colleague("amy", "Amy Wood", perm.Agent, 3)
	v := d.visit("I want my money back")
	lin := d.console(b, "lin", "lin", "lin", 1280, 800)
	amy := d.console(b, "amy", "amy", "amy", 1280, 800)
	lin.click("queue-row")
	lin.click("take")
	lin.send("Let me find somebody who can do that.")
	lin.until("the capacity counts", node("capacity")+`.textContent.endsWith('1/5')`)

	offerTo(lin, "Amy", "She wants a refund of 20 francs")
	lin.visible("offer-waiting")
	amy.visible("offer")
	amy.until("the offer says what it is about", `((n) => ['Lin Chen', 'refund of 20', 'money back|find somebody'].every((x) => new RegExp(x).test(n.textContent)))(`+node("offer")+`)`)
	amy.until("the time is counted down", `/^[1-3]?[0-9] s$/.test(`+node("offer-left")+`.textContent)`)
	amy.until("the focus was left alone", `!document.activeElement?.closest('[data-testid="offer"]')`)
	amy.shot("offer")
	amy.click("offer-decline")
	amy.gone("offer")
	lin.until("it is told", `document.querySelector('[data-testid="notice"]').textContent.includes('Amy Wood declined')`)
	lin.gone("offer-waiting")
	lin.send("One moment please")
	v.hears("One moment please")

	offerTo(lin, "amy", "Please, it is urgent")
	amy.visible("offer")
	amy.click("offer-accept")
	amy.until("the chat is Amy's", node("chat-state")+`.textContent === 'With you' && `+node("composer"))
	amy.until("she sees all of it, and the note", shows("I want my money back")+` && [...document.querySelectorAll('[data-testid="note"]')].some((n) => n.textContent.includes('it is urgent'))`)
	lin.until("it is told", `document.querySelector('[data-testid="notice"]').textContent.includes('Amy Wood has the chat now')`)
	lin.until("Lin sees that Amy has it", `document.querySelector('[data-testid="chat-closed"]').textContent.includes('Amy Wood')`)
	amy.send("I have sent you the money.")
	v.hears("I have sent you the money.")
	lin.until("Lin watches", shows("I have sent you the money."))
	lin.until("and cannot write", "!"+node("composer"))
	lin.until("the capacity is free again", node("capacity")+`.textContent.endsWith('0/5')`)

	// Back to the queue, with the sight of who is there.
	amy.press("\x1b")
	amy.click("return")
	amy.visible("return-dialog")
	amy.until("the queue is described", `document.querySelector('[data-testid="return-groups"]').textContent.includes('online')`)
	amy.shot("return")
	amy.fill("return-note", "I have to go")
	amy.click("return-send")
	lin.until("it waits again", node("queue-row"))
	amy.until("Amy may take it again", node("take"))

	// Status: what one sets, the others see.
	amy.choose("status", "busy")
	lin.click("queue-row")
	lin.click("take")
	lin.visible("composer")
	lin.press("\x1b")
	lin.key("t")
	lin.until("she alone is listed, and not who is not there", `[...document.querySelectorAll('[data-testid="transfer-agent"]')].length === 1`)
	lin.until("Amy is busy", `[...document.querySelectorAll('.target')].some((n) => n.textContent.includes('Amy Wood') && n.textContent.includes('Busy'))`)
	amy.choose("status", "online")
	lin.until("and free again, while the dialog is open", `[...document.querySelectorAll('.target')].some((n) => n.textContent.includes('Amy Wood') && n.textContent.includes('Online'))`)
	lin.press("\x1b")
	for _, p := range []*tab{lin, amy} {
		p.clean()
	}
}

// covered is the expression for the buttons of the message box that something lies over.
const covered = `['send', 'attach', 'canned-open', 'mode-note'].filter((id) => { const n = [...document.querySelectorAll('[data-testid="' + id + '"]')].find((n) => n.checkVisibility()); const r = n.getBoundingClientRect(); return [[1, 1], [r.width / 2, r.height / 2], [r.width - 1, r.height - 1]].some(([x, y]) => !n.closest('form').contains(document.elementFromPoint(r.x + x, r.y + y))); }).join()`

// offered lets the page believe that the server offers it a chat, for longer than any test takes.
const offered = `((id) => window.socket.dispatchEvent(new MessageEvent('message', {data: JSON.stringify({t: 'ev.offer', c: id, d: {
	from: {kind: 'agent', id: 'lin', name: 'Lin Chen'}, expires: Date.now() + 3_600_000, row: {id, rev: 1, contact: {name: 'Visitor ' + id}, preview: 'I want my money back'},
	note: 'A note that takes several lines, because there is much to say about this customer and what was promised when and by whom.'}})})))`

// TestOfferLeavesTheMessageBoxFree offers two chats to an agent who writes in another one, on screens of every size.
func TestOfferLeavesTheMessageBoxFree(t *testing.T) {
	b := startBrowser(t, "en")
	d := newDesk(t)
	d.colleague("amy", "Amy Wood", perm.Agent, 3)
	d.takeAll("amy", []*visitor{d.visit("What is this?")})
	amy := b.open("amy", 1440, 900, "about:blank")
	amy.before(`{ const send = WebSocket.prototype.send; WebSocket.prototype.send = function (data) { window.socket = this; send.call(this, data); }; }`)
	amy.navigate(d.url("/console"))
	login(amy, "amy", "amy")
	amy.click("mine-row")
	amy.visible("composer")
	value[bool](amy, offered+`('one') && `+offered+`('two')`)
	amy.until("both are offered", `document.querySelectorAll('[data-testid="offer"]').length === 2`)
	for _, size := range [][2]int64{{1440, 900}, {desktop, 800}, {1680, 1050}, {1024, 768}, {800, 600}, {phone, 740}} {
		amy.resize(size[0], size[1])
		amy.until("it is as wide as the screen", fmt.Sprintf(`innerWidth === %d && document.documentElement.scrollWidth <= innerWidth`, size[0]))
		amy.visible("offer-accept")
		if hidden := value[string](amy, covered); hidden != "" {
			t.Errorf("at %d×%d the offer covers %s", size[0], size[1], hidden)
		}
		amy.shot(fmt.Sprintf("offer-%d", size[0]))
	}
	amy.clean()
}

// TestConsoleTakesNoChats opens the console as an administrator, who gets the waiting customer only after saying so. The account of
// the first start is an administrator, too, and takes chats at once.
func TestConsoleTakesNoChats(t *testing.T) {
	b := startBrowser(t, "en")
	d := routedDesk(t, store.LeastBusy)
	d.colleague("ada", "Ada Boss", perm.Admin, 3)
	d.colleague("sue", "Sue Zero", perm.Agent, 0)
	d.visit("I want my money back")
	mine := func(n string) string { return node("mine-count") + `.textContent === '` + n + `'` }
	sue := d.console(b, "sue", "sue", "sue", 1280, 800)
	sue.until("a capacity of 0 is said, and who can change it", node("no-chats")+`.textContent.includes('An administrator')`)
	sue.gone("take-chats")
	ada := d.console(b, "ada", "ada", "ada", 1280, 800)
	ada.until("the customer waits", node("queue-row"))
	ada.until("it is said", node("no-chats")+`.textContent.startsWith('You take no chats')`)
	ada.shot("no-chats")
	ada.accessible("the console of somebody who takes no chats")
	ada.click("take-chats")
	ada.gone("no-chats")
	ada.until("the customer is given to her", mine("1"))
	ada.choose("status", "busy")
	ada.choose("status", "away")
	ada.until("it is said why no chats come", node("no-chats")+`.textContent.startsWith('You are away')`)
	ada.click("take-chats")
	ada.gone("no-chats")
	ada.until("she is back", node("status")+`.value === 'online'`)
	ada.click("menu-button")
	ada.until("the menu says it", node("takes-chats")+".checked")
	ada.click("takes-chats")
	ada.visible("no-chats")
	ada.reload()
	ada.visible("no-chats")
	ada.until("her chat is still hers", mine("1"))
	ada.choose("status", "online")

	d.visit("Is anybody there?")
	agent := d.console(b, "agent", d.login, d.password, 1280, 800)
	agent.until("the customer is given to the one who takes chats", mine("1"))
	agent.gone("no-chats")
	ada.until("and not to her", mine("1")+` && !`+node("queue-row"))
	for _, p := range []*tab{sue, ada, agent} {
		p.clean()
	}
}

// TestSupervisorReadsWhispersTakesOverAndBlocks works on the chat of somebody else.
func TestSupervisorReadsWhispersTakesOverAndBlocks(t *testing.T) {
	b := startBrowser(t, "en")
	d := newDesk(t)
	d.colleague("lin", "Lin Chen", perm.Agent, 5)
	d.colleague("sue", "Sue Bright", perm.Supervisor, 1)
	v := d.visit("Your shop is a fraud")
	lin := d.console(b, "lin", "lin", "lin", 1280, 800)
	lin.click("queue-row")
	lin.click("take")
	lin.send("I am sorry to hear that")
	sue := d.console(b, "sue", "sue", "sue", 1280, 800)
	sue.until("what others have already is listed", node("all-row")+`?.textContent.includes('Lin Chen')`)
	sue.navigate(d.url("/console#c=" + v.conv)) // as the wall links to it
	sue.until("the link opens it", shows("I am sorry to hear that"))
	sue.until("and its customer", node("attributes"))
	sue.reload()
	sue.until("the console is back", node("all-row"))
	if value[bool](lin, `document.querySelector('[data-testid="all-section"]').checkVisibility()`) {
		t.Error("an agent is shown the chats of others")
	}
	sue.until("the chat of Lin is listed", node("all-row")+`?.textContent.includes('Lin Chen')`)
	sue.click("all-row")
	sue.until("it can be read", shows("I am sorry to hear that"))
	sue.until("but not written to", "!"+node("composer"))
	v.say("Give me your boss")
	sue.until("it is live", shows("Give me your boss"))

	sue.press("\x1b")
	sue.key("n")
	sue.visible("composer")
	sue.press("Stay calm, I am reading along")
	sue.shot("whisper")
	sue.enter()
	lin.until("Lin gets the whisper", `[...document.querySelectorAll('[data-testid="note"]')].some((n) => n.textContent.includes('reading along'))`)
	for _, f := range v.View(v.conv) {
		if strings.Contains(string(f.D), "reading along") {
			t.Error("the customer got the whisper")
		}
	}

	sue.click("take-over")
	sue.click("dialog-confirm")
	sue.until("the chat is Sue's", node("chat-state")+`.textContent === 'With you'`)
	lin.until("Lin sees that", `document.querySelector('[data-testid="chat-closed"]').textContent.includes('Sue Bright')`)
	sue.click("mode-answer")
	sue.send("This is Sue, the supervisor")
	v.hears("This is Sue, the supervisor")

	sue.visible("attributes")
	sue.click("block")
	sue.fill("dialog-text", "insults")
	sue.shot("block")
	sue.click("dialog-confirm")
	sue.until("the chat is closed", `document.querySelector('[data-testid="chat"]').dataset.state === 'closed'`)
	sue.until("the card says so", `document.querySelector('[data-testid="card"]').textContent.includes('Blocked')`)
	sue.shot("blocked")
	sue.until("she may download what is known", fmt.Sprintf(`%s?.getAttribute('href') === %q`, node("person-export"), "/api/v1/agent/contacts/"+v.Me().ID+"/export"))
	sue.click("person-erase")
	sue.shot("erase")
	sue.click("dialog-confirm")
	sue.until("the chat is gone, and nothing else is opened", "!"+node("chat")+` && document.getElementById('card').hidden`)
	lin.until("from Lin's console, too", "!"+node("chat"))
	for _, p := range []*tab{lin, sue} {
		p.clean()
	}
}
