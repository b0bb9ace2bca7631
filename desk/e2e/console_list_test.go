package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"

	"github.com/go-eddy/eddy/desk/perm"
)

// point moves the pointer there, where it rests.
func (p *tab) point(x, y float64) {
	p.t.Helper()
	p.do("point", chromedp.MouseEvent(input.DispatchMouseEventTypeMouseMoved, x, y))
}

// rowsAre is the expression for "the rows of a section are these": their last words, or what became of them in brackets.
func rowsAre(section string, texts ...string) string {
	return fmt.Sprintf(`[...document.querySelectorAll('[data-testid="%s-row"]')].map((n) => ((text) => n.classList.contains('gone') ? '[' + text + ']' : text)(n.querySelector('[data-testid="row-preview"]').textContent)).join() === %q`, section, strings.Join(texts, ","))
}

// TestListGoesOnUnderAPointerAtRest assigns a chat while the pointer rests over the list and moves no more.
func TestListGoesOnUnderAPointerAtRest(t *testing.T) {
	b := startBrowser(t, "en")
	d := newDesk(t)
	d.colleague("lin", "Lin", perm.Agent, 5)
	v := d.visit("somebody?")
	agent := d.console(b, "agent", "lin", "lin", 1440, 900)
	agent.until("a customer waits", rowsAre("queue", "somebody?"))
	agent.point(150, 600)
	d.takeAll("lin", []*visitor{v})
	agent.until("the chat is under Mine", rowsAre("mine", "somebody?"))
	agent.until("and no longer in the queue", rowsAre("queue"))
	agent.until("the count agrees with the rows", `document.querySelector('[data-testid="mine-count"]').textContent === '1'`)
	agent.clean()
}

// tremble moves the pointer on a row, a little, again and again, until it is told to rest.
const tremble = `(window.hand = setInterval(() => document.querySelectorAll('[data-testid="queue-row"]')[1]?.dispatchEvent(new PointerEvent('pointermove', {bubbles: true, pointerType: 'mouse'})), 100)) > 0`

// TestListHoldsStillUnderThePointer lets waiting customers be taken, go away and come while the pointer moves on a row:
// the row keeps its place, what is assigned comes in, and everything does when the pointer rests.
func TestListHoldsStillUnderThePointer(t *testing.T) {
	b := startBrowser(t, "en")
	d := newDesk(t)
	d.colleague("lin", "Lin", perm.Agent, 5) // sees its own chats and the queue
	d.colleague("amy", "Amy Wood", perm.Agent, 5)
	own := d.visit("mine")
	d.takeAll("lin", []*visitor{own})
	first, second, third := d.visit("first"), d.visit("second"), d.visit("third")
	agent := d.console(b, "agent", "lin", "lin", desktop, 800)
	agent.until("all wait", rowsAre("queue", "first", "second", "third"))
	const top = `document.querySelectorAll('[data-testid="queue-row"]')[1].getBoundingClientRect().top`
	before := value[float64](agent, top)
	agent.point(100, before+10)
	value[bool](agent, tremble)

	d.takeAll("amy", []*visitor{first, third})
	agent.until("the row above is greyed and says who has the chat, the row below is gone", rowsAre("queue", "[Taken by Amy Wood]", "second"))
	d.visit("fourth")
	agent.until("what is new comes below", rowsAre("queue", "[Taken by Amy Wood]", "second", "fourth"))
	if after := value[float64](agent, top); after != before {
		t.Errorf("the row under the pointer moved from %v to %v", before, after)
	}
	agent.shot("under-the-pointer")
	d.takeAll("lin", []*visitor{second})
	agent.until("what is assigned comes in at once", rowsAre("mine", "mine", "second"))
	agent.until("its old row is still there", rowsAre("queue", "[Taken by Amy Wood]", "[Yours now]", "fourth"))
	value[bool](agent, `(clearInterval(window.hand), true)`)
	agent.until("the list is in order, though the pointer is still there", rowsAre("queue", "fourth"))
	agent.clean()
}
