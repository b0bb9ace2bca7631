package e2e

import (
	"strings"
	"testing"
)

// TestSnooze: a chat that an agent puts aside leaves Mine, and the customer's next word brings it back. The card says so in
// between, and takes a time of one's own.
func TestSnooze(t *testing.T) {
	b := startBrowser(t, "en")
	d := newDesk(t)
	v := d.visit("My kettle has not come.")
	agent := b.open("agent", desktop, 800, d.url("/console"))
	login(agent, d.login, d.password)
	agent.click("queue-row")
	agent.click("take")
	agent.send("I will ask the carrier.")
	agent.until("it is acknowledged", accepted("I will ask the carrier."))
	agent.choose("snooze", "hour")
	agent.until("it is under Snoozed", `document.querySelectorAll('[data-testid="snoozed"] .row').length === 1 && document.querySelectorAll('[data-testid="mine"] .row').length === 0`)
	agent.until("the card says so", node("snooze")+`.selectedOptions[0].text.startsWith('Until ')`)
	agent.until("and so does the chat", `[...document.querySelectorAll('[data-testid="system"]')].some((n) => n.textContent.includes('snoozed the chat until'))`)
	agent.shot("snoozed")
	agent.click("list-all")
	agent.clickOn("the filters open", `document.querySelector('[data-testid="archive-filters"] summary')`)
	agent.choose("archive-state", "snoozed")
	agent.until("all chats that are aside are listed", `document.querySelectorAll('[data-testid="archive-row"]').length === 1`)
	agent.click("list-open")
	agent.clean()

	v.say("Any news?")
	agent.until("it is back", `document.querySelectorAll('[data-testid="snoozed"] .row').length === 0 && document.querySelectorAll('[data-testid="mine"] .row').length === 1`)
	agent.until("the chat says why", `[...document.querySelectorAll('[data-testid="system"]')].some((n) => n.textContent.includes('the customer has written'))`)
	agent.until("the section is gone", `document.querySelector('#snoozed-section').hidden`)

	agent.choose("snooze", "other")
	value[bool](agent, `(() => { const f = document.querySelector('[data-testid="snooze-time"]'); f.value = '2000-01-01T09:00'; return true; })()`)
	agent.click("snooze-do")
	agent.until("a time that is past is refused", `document.body.textContent.includes('Choose a time to come.')`)
	value[bool](agent, `(() => { const f = document.querySelector('[data-testid="snooze-time"]'); const d = new Date(Date.now() + 864e5); f.value = new Date(d - d.getTimezoneOffset() * 6e4).toISOString().slice(0, 16); return true; })()`)
	agent.click("snooze-do")
	agent.until("it is aside again", `document.querySelectorAll('[data-testid="snoozed"] .row').length === 1`)
	agent.choose("snooze", "back")
	agent.until("it is brought back", `document.querySelectorAll('[data-testid="mine"] .row').length === 1 && document.querySelector('[data-testid="snooze"]').selectedOptions[0].text === 'Not snoozed'`)
	for _, f := range v.View(v.conv) {
		if strings.Contains(string(f.D), "snooze") || strings.Contains(string(f.D), "woken") {
			t.Errorf("the customer got %s", f.D)
		}
	}
}
