package e2e

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/chromedp/chromedp/kb"
)

// heldReplies answers the question for canned replies that is kept back, as the server would some time later.
func (p *tab) heldReplies(q string, shorts ...string) {
	p.t.Helper()
	p.until(fmt.Sprintf("the question for %q is kept", q), fmt.Sprintf(`window.kept.some((k) => k.frame.t === 'canned.list' && k.frame.d.q === %q)`, q))
	items := []map[string]string{}
	for _, short := range shorts {
		items = append(items, map[string]string{"id": "id of " + short, "short": short, "title": "Title of " + short, "body": "Body of " + short, "locale": ""})
	}
	list, err := json.Marshal(items)
	if err != nil {
		p.t.Fatal(err)
	}
	value[bool](p, fmt.Sprintf(`window.answer('canned.list', {t: 'ok', d: {items: %s}}) ?? true`, list))
}

// TestCannedListComesLate: what the agent has gone to in the list of canned replies stays chosen, and what is pressed
// happens, though a list that was asked for before comes only now. Enter takes what was typed, not what stood there before.
func TestCannedListComesLate(t *testing.T) {
	b := startBrowser(t, "en")
	d := newDesk(t)
	d.visit("Hello?")
	agent := b.open("agent", desktop, 800, "about:blank")
	agent.before(hold)
	agent.navigate(d.url("/console"))
	login(agent, d.login, d.password)
	agent.click("queue-row")
	agent.click("take")
	agent.visible("composer")
	value[bool](agent, `(window.hold('canned.list'), true)`)
	shown := func(shorts string) string {
		return fmt.Sprintf(`[...document.querySelectorAll('[data-testid="canned-item"]')].map((n) => n.querySelector('.canned-short').textContent.slice(1)).join() === %q`, shorts)
	}
	chosen := func(short string) string {
		return fmt.Sprintf(`((n) => n?.querySelector('.canned-short').textContent === %q && n.id === %s.getAttribute('aria-activedescendant'))(document.querySelector('[data-testid="canned-item"][aria-selected="true"]'))`, "/"+short, node("composer")) +
			fmt.Sprintf(` && %s.textContent === %q`, node("canned-preview"), "Body of "+short)
	}
	typed := func(text string) {
		t.Helper()
		agent.fill("composer", text)
	}

	// Arrows.
	typed("/h")
	agent.heldReplies("", "hello", "help")
	agent.until("the first letter has its list", shown("")+` || `+shown("hello,help"))
	agent.heldReplies("h", "hello", "help", "hire")
	agent.until("three are listed", shown("hello,help,hire")+` && `+chosen("hello"))
	agent.press("i") // "/hi"
	agent.press(kb.ArrowDown)
	agent.press(kb.ArrowDown)
	agent.until("the third is chosen", chosen("hire"))
	agent.heldReplies("hi", "high", "hire")
	agent.until("it is still chosen, in another place", shown("high,hire")+` && `+chosen("hire"))
	agent.press(kb.ArrowUp)
	agent.until("and the arrows go on from there", chosen("high"))
	agent.press("g")
	agent.heldReplies("hig", "high", "higher")
	agent.until("a new letter begins with the first", shown("high,higher")+` && `+chosen("high"))

	// A press.
	agent.press("h")
	agent.slowly(false, `document.querySelectorAll('[data-testid="canned-item"]')[1]`, func() {
		agent.heldReplies("high", "highest", "higher")
		agent.until("the list has come", shown("highest,higher"))
	})
	agent.until("what was pressed is in the box", node("composer")+`.value === 'Body of higher'`)
	agent.gone("canned")

	// Enter before the list.
	typed("/help")
	agent.enter()
	agent.heldReplies("", "hello", "help")
	agent.heldReplies("help", "help", "helpers")
	agent.until("the reply for what was typed is in the box", node("composer")+`.value === 'Body of help'`)
	agent.gone("canned")
	typed("/none")
	agent.enter()
	agent.heldReplies("", "hello", "help")
	agent.heldReplies("none")
	agent.until("nothing was found, and nothing is lost", node("canned")+`?.textContent.includes('No reply fits') && `+node("composer")+`.value === '/none'`)
	if sent := value[int](agent, messagesOf+`.filter((m) => m.From === 'me').length`); sent != 0 {
		t.Errorf("the customer got %d messages: %+v", sent, agent.messages())
	}
	agent.clean()
}
