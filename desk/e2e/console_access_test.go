package e2e

import (
	"slices"
	"testing"
)

// accessible checks that everything that can be used has a name, and that nothing interrupts a reader.
func (p *tab) accessible(where string) {
	p.t.Helper()
	p.named(where)
	if n := value[int](p, `document.querySelectorAll('[data-testid="console"] :is([aria-live="assertive"], [role="alert"])').length`); n != 0 {
		p.t.Errorf("%s, %s: %d live regions interrupt the reader", p.name, where, n)
	}
}

const focusState = `(() => {
	const n = document.activeElement;
	if (!n || n === document.body) return {id: '', seen: true, top: 0};
	const style = getComputedStyle(n);
	return {id: n.dataset.testid || n.id || n.className || n.tagName, seen: style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2};
})()`

// focusOrder tabs through the page once and returns where the focus was.
func (p *tab) focusOrder(limit int) []string {
	p.t.Helper()
	value[bool](p, `((a) => { a.tabIndex = 0; document.body.prepend(a); a.focus(); a.remove(); return true; })(document.createElement('span'))`)
	var order []string
	for range limit {
		p.tab(false)
		at := value[struct {
			ID   string `json:"id"`
			Seen bool   `json:"seen"`
		}](p, focusState)
		if at.ID == "" || (len(order) > 1 && at.ID == order[0]) {
			return order
		}
		if !at.Seen {
			p.t.Errorf("%s: the focus on %s cannot be seen", p.name, at.ID)
		}
		order = append(order, at.ID)
	}
	p.t.Errorf("%s: after %d steps the focus has not left the page: %q", p.name, limit, order)
	return order
}

// TestConsoleIsAccessible looks at the console as a screen reader and as a keyboard do.
func TestConsoleIsAccessible(t *testing.T) {
	b := startBrowser(t, "en")
	d := newDesk(t)
	d.replies()
	d.visit("I wait")
	d.visit("I do, too")
	agent := d.console(b, "agent", d.login, d.password, 1280, 800)
	agent.accessible("the list")
	agent.click("queue-row")
	agent.click("take")
	agent.visible("composer")
	agent.visible("attributes")
	agent.accessible("a chat")
	order := agent.focusOrder(60)
	last := -1
	for _, id := range []string{"search", "help", "menu-button", "mine-row", "queue-row", "transfer", "return", "close-chat", "mode-answer", "mode-note", "canned-open", "composer", "tag-field", "card-edit"} {
		at := slices.Index(order, id)
		if at < 0 {
			t.Errorf("the keyboard does not reach %s: %q", id, order)
		} else if at < last {
			t.Errorf("%s comes too early: %q", id, order)
		}
		last = max(last, at)
	}
	agent.click("transfer")
	agent.visible("transfer-dialog")
	agent.accessible("the transfer dialog")
	agent.press("\x1b")
	agent.until("the dialog is closed", `!document.querySelector('dialog')`)
	agent.until("the focus is back", `document.activeElement?.dataset.testid === 'transfer'`)
	agent.key("/")
	agent.visible("canned-item")
	agent.accessible("the canned replies")
	agent.press("\x1b")
	agent.gone("canned")
	agent.click("menu-button")
	agent.visible("menu")
	agent.accessible("the menu")
	agent.press("\x1b")
	agent.gone("menu")
	agent.until("the focus is back on the menu's button", `document.activeElement?.dataset.testid === 'menu-button'`)
	agent.clean()
}
