package e2e

import (
	"fmt"
	"testing"
)

// TestSeveralChatsAndLogout holds two chats at once with a draft in each, and
// logs out: another tab of the agent ends too, and nothing stays in the browser.
func TestSeveralChatsAndLogout(t *testing.T) {
	b := startBrowser(t, "en")
	d := newDesk(t)
	customers := make([]*tab, 2)
	for i := range customers {
		p := b.stranger(fmt.Sprintf("customer %d", i), phone, 740, d.url("/chat/demo"))
		p.click("talk-to-person")
		p.visible("queue-position")
		p.send(fmt.Sprintf("I am customer %d", i))
		p.until("it is acknowledged", accepted(fmt.Sprintf("I am customer %d", i)))
		customers[i] = p
	}
	agent := b.open("agent", desktop, 800, d.url("/console"))
	login(agent, d.login, d.password)
	for i := range customers {
		agent.click("queue-row")
		agent.until("the waiting chat can be read", shows(fmt.Sprintf("I am customer %d", i)))
		agent.click("take")
		agent.fill("composer", fmt.Sprintf("draft for %d", i))
	}
	agent.until("the card links to the page where the chat was opened", fmt.Sprintf(`((a) => a?.href === %q && a.textContent === %q)(document.querySelector('[data-testid="card-facts"] a'))`, d.url("/chat/demo"), d.addr+"/chat/demo"))
	agent.until("both are mine", `document.querySelectorAll('[data-testid="mine-row"]').length === 2`)
	agent.click("mine-row")
	agent.until("the first chat and its draft are back", shows("I am customer 0")+" && "+node("composer")+".value === 'draft for 0'")
	customers[1].send("still there?")
	agent.until("the other chat shows an unread message", `document.querySelectorAll('[data-testid="mine-row"]')[1].querySelector('[data-testid="row-unread"]').textContent === '1'`)
	agent.shot("two-chats")
	if n := len(agent.messages()); n == 0 || agent.messages()[n-1].Text == "still there?" {
		t.Error("a message of one chat shows in the other")
	}

	other := b.open("other tab", desktop, 800, d.url("/console"))
	other.until("the other tab has both chats", `document.querySelectorAll('[data-testid="mine-row"]').length === 2`)
	agent.click("menu-button")
	agent.click("logout")
	agent.click("dialog-confirm")
	agent.visible("login-user")
	other.visible("login-user")
	if left := value[[]string](agent, `Object.keys(localStorage).filter((k) => k.startsWith('desk.draft.agent') || k.startsWith('desk.outbox.agent') || k.startsWith('desk.read'))`); len(left) != 0 {
		t.Errorf("after logging out the browser keeps %q", left)
	}
	agent.click("login-forgot")
	agent.until("the page says that there is no mail", node("reset-info")+`?.textContent.includes('sends no mail')`)
	agent.click("reset-back")
	agent.visible("login-user")
	for _, p := range customers {
		p.until("the agent is shown as away", `document.querySelector('[data-testid="presence-dot"]').dataset.on === 'false'`)
		p.clean()
	}
	agent.clean()
	other.clean()
}

// TestLoginPageIsQuiet visits the page without a login, before the first one and after the last: the browser's console
// stays empty. A login lasts over a reload.
func TestLoginPageIsQuiet(t *testing.T) {
	b := startBrowser(t, "en")
	d := newDesk(t)
	p := b.open("agent", desktop, 800, d.url("/console"))
	p.visible("login-user")
	login(p, d.login, d.password)
	p.visible("status")
	p.reload()
	p.visible("status")
	p.click("menu-button")
	p.click("logout")
	p.visible("login-user")
	p.reload()
	p.visible("login-user")
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.said) > 0 {
		t.Errorf("the browser's console says %q", p.said)
	}
}

// TestConsoleOnAPhone works in one pane at a time: list, chat, card.
func TestConsoleOnAPhone(t *testing.T) {
	b := startBrowser(t, "en")
	d := newDesk(t)
	customer := b.open("customer", phone, 740, d.url("/chat/demo"))
	customer.click("talk-to-person")
	customer.visible("queue-position")
	agent := b.open("agent", phone, 740, d.url("/console"))
	login(agent, d.login, d.password)
	agent.visible("queue-row")
	agent.shot("list")
	agent.click("queue-row")
	agent.gone("list")
	agent.click("take")
	agent.send("Hello from a phone")
	customer.until("the answer arrives", shows("Hello from a phone"))
	agent.shot("chat")
	agent.click("details")
	agent.until("the card is shown", `getComputedStyle(document.querySelector('[data-testid="card"]')).visibility === 'visible'`)
	agent.shot("card")
	agent.press("\x1b")
	agent.until("the card is gone", `getComputedStyle(document.querySelector('[data-testid="card"]')).visibility === 'hidden'`)
	agent.click("back")
	agent.visible("mine-row")
	agent.gone("chat")
	if wide := value[bool](agent, `document.documentElement.scrollWidth > innerWidth`); wide {
		t.Error("the console is wider than the phone")
	}
	agent.clean()
}
