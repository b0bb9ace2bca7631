package e2e

import (
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"

	"github.com/go-eddy/eddy/internal/testkit"
)

// lifecycle freezes a page, as the browser does with one that nobody has looked at for long, or wakes it.
func (p *tab) lifecycle(state page.SetWebLifecycleStateState) {
	p.t.Helper()
	call(p, emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: state == page.SetWebLifecycleStateStateActive}) // what has the focus does not sleep
	call(p, page.SetWebLifecycleState, page.SetWebLifecycleStateParams{State: state})
}

// TestTabAsleep freezes the customer's page. Meanwhile its connection ends, for the server is started anew, and people
// write. When it wakes, ten minutes later by its clock, everything is there once and in order, without a reload.
func TestTabAsleep(t *testing.T) {
	b := startBrowser(t, "en")
	d := newDesk(t)
	customer, agent := meet(t, d, b)
	customer.send("before")
	agent.until("it arrives", shows("before"))
	agent.send("wait a moment")
	customer.until("the answer arrives", shows("wait a moment"))
	value[bool](customer, `(window.asleep = {ticks: 0}, setInterval(() => window.asleep.ticks++, 10), document.addEventListener('freeze', () => { window.asleep.frozen = true; }), true)`)

	customer.lifecycle(page.SetWebLifecycleStateStateFrozen)
	testkit.Eventually(t, "the page to sleep", func() bool { return value[bool](customer, `window.asleep.frozen === true`) }) // it cannot look for itself
	ticks := value[int](customer, `window.asleep.ticks`)
	agent.send("still looking")
	d.stop()
	agent.until("the lost connection is shown", `!document.querySelector('[data-testid="banner"]').hidden`)
	d.start()
	hurry(agent)
	agent.send("found it")
	agent.until("it is kept", accepted("found it"))

	if got := value[int](customer, `((now) => { Date.now = () => now() + 600_000; return window.asleep.ticks; })(Date.now.bind(Date))`); got != ticks {
		t.Errorf("the page was not asleep: %d ticks, then %d", ticks, got)
	}
	customer.lifecycle(page.SetWebLifecycleStateStateActive)
	hurry(customer)
	customer.until("what was missed arrives", shows("found it"))
	customer.send("thank you")
	agent.until("the answer arrives", shows("thank you"))
	customer.until("it is kept", accepted("thank you"))
	want := []string{"before", "wait a moment", "still looking", "found it", "thank you"}
	ownInOrder(t, customer, want)
	ownInOrder(t, agent, want)
	sameStory(t, customer, agent)
	if !value[bool](customer, `window.asleep?.ticks > 0`) {
		t.Error("the page was loaded again")
	}
	customer.clean()
	agent.clean()
}
