package e2e

import (
	"fmt"
	"testing"
)

// onThePage is what the card beside the chat says about the customer.
const onThePage = `[...document.querySelectorAll('[data-testid="card-facts"] dt')].find((n) => n.textContent === 'On the page')?.nextElementSibling.textContent`

// TestVisitorWhoLeavesIsGone: a page that is left hangs up, and the console says so at once, not when the server has heard
// nothing for long. When the customer goes back, both hear each other again.
func TestVisitorWhoLeavesIsGone(t *testing.T) {
	b := startBrowser(t, "en")
	d := newDesk(t)
	customer, agent := meet(t, d, b)
	const soon = 20_000 // ms; the server's own heartbeat takes 35 s to miss somebody
	says := func(what, want string) {
		t.Helper()
		if !value[bool](agent, fmt.Sprintf(`(async () => {
			for (const end = performance.now() + %d; performance.now() < end; await new Promise((next) => setTimeout(next, 10))) {
				if (%s === %q) return true;
			}
			return false;
		})()`, soon, onThePage, want)) {
			t.Errorf("%s: not told within %d ms", what, soon)
		}
	}
	says("the customer is there", "Yes")
	value[bool](customer, `(addEventListener('pagehide', () => { window.left = true; }), true)`)
	customer.navigate("about:blank")
	says("the customer has gone elsewhere", "No")
	value[bool](customer, `(setTimeout(() => history.back()), true)`) // the page may go before a call of it returns
	says("the customer has come back", "Yes")
	customer.until("the page is there", node("composer"))
	t.Logf("the browser had kept the page: %v", value[bool](customer, `window.left === true`))
	agent.send("Are you still there?")
	customer.until("it hears what is said", shows("Are you still there?"))
	customer.send("Yes")
	agent.until("and is heard", shows("Yes"))
	customer.clean()
	agent.clean()
}
