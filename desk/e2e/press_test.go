package e2e

import (
	"fmt"
	"testing"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"

	"github.com/go-eddy/eddy/desk/perm"
	"github.com/go-eddy/eddy/internal/testkit"
)

// middle is a function that answers with the middle of an element. It answers null while a press would miss: there is no
// such element, it is disabled, it moves, something lies above it, or scripts of the page are still to come. landed is set by
// the next press.
const middle = `(async (find) => {
	if (document.readyState !== 'complete') return null;
	const place = () => {
		const n = find();
		if (!n || n.disabled) return null;
		n.scrollIntoView({ block: 'nearest' });
		const r = n.getBoundingClientRect();
		return [r.x + r.width / 2, r.y + r.height / 2];
	};
	const reaches = (hit) => ((n) => n && hit && (n.contains(hit) || hit.closest('label')?.control === n))(find());
	const before = place();
	await new Promise((next) => setTimeout(next, 20));
	const at = place();
	if (!before || before.join() !== at?.join() || !reaches(document.elementFromPoint(...at))) return null;
	document.addEventListener('pointerdown', (e) => { window.landed = reaches(e.target) ? '' : e.target.outerHTML.slice(0, 200); }, { capture: true, once: true });
	return at;
})`

// click presses the mouse on the element with a test id, as a person does.
func (p *tab) click(id string) {
	p.t.Helper()
	p.pressed(id, node(id))
}

// pressed presses the mouse in the middle of an element, once it stands still. Pages move while they are drawn, quicker
// than people press.
func (p *tab) pressed(what, element string) {
	p.t.Helper()
	var at []float64
	testkit.Eventually(p.t, p.name+": "+what+" can be pressed\n\t"+element, func() bool {
		found, err := eval[[]float64](p, middle+`(() => `+element+`)`)
		at = found
		return err == nil && len(found) == 2
	})
	p.do("press "+what, chromedp.MouseClickXY(at[0], at[1]))
	if landed, err := eval[string](p, `window.landed ?? ''`); err == nil && landed != "" { // an error: the press has led to another page
		p.t.Fatalf("%s: %s has moved, the press has landed on %s", p.name, what, landed)
	}
}

// slowly presses the middle of an element, by mouse or by finger, lets something happen, and lets go.
func (p *tab) slowly(finger bool, element string, meanwhile func()) {
	p.t.Helper()
	p.until("it is there", element)
	at := value[[]float64](p, `((r) => [r.x + r.width / 2, r.y + r.height / 2])(`+element+`.getBoundingClientRect())`)
	if finger {
		call(p, input.DispatchTouchEvent, input.DispatchTouchEventParams{Type: input.DispatchTouchEventTypeTouchStart, TouchPoints: []*input.TouchPoint{{X: at[0], Y: at[1]}}})
		meanwhile()
		call(p, input.DispatchTouchEvent, input.DispatchTouchEventParams{Type: input.DispatchTouchEventTypeTouchEnd, TouchPoints: []*input.TouchPoint{}})
		return
	}
	mouse := input.DispatchMouseEventParams{Type: chromedp.MousePressed, X: at[0], Y: at[1], Button: input.MouseButtonLeft, ClickCount: 1}
	call(p, input.DispatchMouseEvent, mouse)
	meanwhile()
	mouse.Type = chromedp.MouseReleased
	call(p, input.DispatchMouseEvent, mouse)
}

// TestChatOpensWhereItStays opens a chat: its buttons are from the first moment where they are when all of it is drawn,
// so that who is quick presses what they see.
func TestChatOpensWhereItStays(t *testing.T) {
	b := startBrowser(t, "en")
	d := newDesk(t)
	d.visit("Are you there?")
	agent := d.console(b, "agent", d.login, d.password, desktop, 800)
	agent.visible("queue-row")
	const place = `((r) => [r.x, r.y, r.width, r.height].join())(document.querySelector('[data-testid="take"]').getBoundingClientRect())`
	at := value[string](agent, `(document.querySelector('[data-testid="queue-row"]').click(), `+place+`)`)
	agent.until("the chat and its customer are drawn", shows("Are you there?")+` && `+node("attributes"))
	if then := value[string](agent, place); then != at {
		t.Errorf("the button to take the chat has moved from %s to %s", at, then)
	}
	agent.clean()
}

// TestPressesOutlastRedraws presses buttons, by mouse and by finger, while the page is drawn anew: what was pressed
// is what happens.
func TestPressesOutlastRedraws(t *testing.T) {
	b := startBrowser(t, "en")
	d := newDesk(t)
	d.colleague("lin", "Lin", perm.Agent, 9)
	agent := b.open("agent", desktop, 800, "about:blank")
	agent.before(hold)
	agent.navigate(d.url("/console"))
	login(agent, "lin", "lin")
	row := func(v *visitor) string {
		return fmt.Sprintf(`document.querySelector('[data-testid="queue-row"][data-id=%q]')`, v.conv)
	}
	for _, finger := range []bool{false, true} {
		first, second := d.visit("I am the first"), d.visit("I am the second")
		third := d.visit("I am the third")
		agent.until("all wait", row(third))
		agent.slowly(finger, row(second), func() {
			if err := first.EndConv(t.Context(), first.conv, ""); err != nil {
				t.Fatal(err)
			}
			agent.until("the first has left", `((r) => !r || r.classList.contains('gone'))(`+row(first)+`)`)
		})
		agent.until("the chat that was pressed is open", shows("I am the second"))
		agent.slowly(finger, node("take"), func() {
			second.say("Hello?")
			agent.until("the word is there", shows("Hello?"))
		})
		agent.visible("composer")
		agent.do("point elsewhere", chromedp.MouseEvent(input.DispatchMouseEventTypeMouseMoved, 700, 400))
		agent.until("the list is in order", fmt.Sprintf(`!%s && !%s && %s`, row(first), row(second), row(third)))
		third.Close()
		agent.slowly(finger, row(third), func() {})
		agent.click("take")
		agent.visible("composer")

		value[bool](agent, `(async () => {
			const { OffersView } = await import('/assets/js/console/offers-view.js');
			const { Offers } = await import('/assets/js/console/offers.js');
			const host = document.createElement('div');
			host.style.cssText = 'position: fixed; inset: 80px auto auto 320px; z-index: 99';
			document.body.append(host);
			const offers = new Offers();
			window.answered = [];
			const view = new OffersView({ host, offers, now: () => 0, onAnswer: (c, accept) => window.answered.push(c + accept) });
			window.offer = (c, expires) => { offers.offered({ c, d: { expires, from: { name: 'Amy' } } }); view.render(); return true; };
			window.retire = () => host.remove();
			return window.offer('one', 20000);
		})()`)
		agent.slowly(finger, `document.querySelector('[data-id="one"] button')`, func() { value[bool](agent, `window.offer('two', 30000)`) })
		agent.until("the offer is answered", `window.answered.join() === 'onefalse'`)
		value[bool](agent, `window.retire() ?? true`)

		found := func(c, cursor string) {
			t.Helper()
			agent.until("the question is asked", `window.kept.some((k) => k.frame.t === 'search')`)
			value[bool](agent, fmt.Sprintf(`window.answer('search', {t: 'ok', d: {hits: [{c: %q, s: 1, time: 0, snippet: 'the first'}], cursor: %q}}) ?? true`, c, cursor))
		}
		value[bool](agent, `(window.hold('search'), true)`)
		agent.fill("search", "first")
		found(second.conv, "more")
		agent.click("search-more")
		agent.slowly(finger, node("hit"), func() { found(third.conv, "") })
		agent.until("the chat of the first hit is open", shows("I am the second"))
		value[bool](agent, `window.unhold() ?? true`)
	}

	// A finger has left the list when its click comes.
	leaver := d.visit("I leave")
	agent.until("one more waits", row(leaver))
	finger := func(event string, buttons int) string {
		return fmt.Sprintf(`%s.dispatchEvent(new PointerEvent('pointer%s', {bubbles: true, pointerType: 'touch', buttons: %d}))`, row(leaver), event, buttons)
	}
	value[bool](agent, finger("down", 1))
	if err := leaver.EndConv(t.Context(), leaver.conv, ""); err != nil {
		t.Fatal(err)
	}
	agent.until("it has left", row(leaver)+`.classList.contains('gone')`)
	if !value[bool](agent, fmt.Sprintf(`(%s, %s, new Promise((done) => setTimeout(() => done(Boolean(%s)), 100)))`, finger("up", 0), finger("leave", 0), row(leaver))) {
		t.Error("the rows move before the click of a finger has come")
	}
	agent.until("then the list is in order", `!`+row(leaver))
	agent.clean()
}
