package e2e

import (
	"context"
	"testing"

	"github.com/chromedp/chromedp/kb"

	"github.com/go-eddy/eddy/desk/desktest"
	"github.com/go-eddy/eddy/desk/perm"
	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/store"
)

// focusSeen tells where the focus is, and which of two places cannot be seen: the one before if it looks now as it did with
// the focus, or this one if nothing is drawn around it.
const focusSeen = `(() => {
	const drawn = (n) => ((s) => [s.outlineStyle, s.outlineWidth, s.outlineColor, s.boxShadow])(getComputedStyle(n));
	const id = (n) => n.dataset.testid || n.id || n.className || n.tagName;
	const n = document.activeElement, was = window.focusWas, unseen = [];
	if (was && was.node !== n && was.node.isConnected && was.node.checkVisibility() && drawn(was.node).join() === was.drawn) unseen.push(id(was.node));
	window.focusWas = null;
	if (!n || n === document.body) return {id: '', unseen};
	const [style, width, , shadow] = drawn(n);
	if (!n.checkVisibility({visibilityProperty: true}) || (shadow === 'none' && (style === 'none' || parseFloat(width) < 2))) unseen.push(id(n));
	window.focusWas = {node: n, drawn: drawn(n).join()};
	return {id: id(n), unseen};
})()`

// focused tells where the focus is, and checks that it can be seen.
func (p *tab) focused() string {
	p.t.Helper()
	at := value[struct {
		ID     string   `json:"id"`
		Unseen []string `json:"unseen"`
	}](p, focusSeen)
	for _, id := range at.Unseen {
		p.t.Errorf("%s: the focus on %s cannot be seen", p.name, id)
	}
	return at.ID
}

const mostStops = 80 // of the Tab key until a page that is no trap has been gone through

// reach goes on, or back, with the Tab key until an element has the focus.
func (p *tab) reach(id string, back bool) {
	p.t.Helper()
	var way []string
	for range mostStops {
		p.tab(back)
		at := p.focused()
		if at == id {
			return
		}
		way = append(way, at)
	}
	p.t.Fatalf("%s: the keyboard does not reach %s: %q", p.name, id, way)
}

// picks opens the list of a select that has the focus with an arrow, goes down some lines and takes one.
func (p *tab) picks(id string, down int) {
	p.t.Helper()
	p.press(kb.ArrowDown)
	p.until("the list is open", node(id)+`.matches(':open')`)
	for range down {
		p.press(kb.ArrowDown)
	}
	p.enter()
}

// TestDayByKeyboard is an agent's day without a pointer: log in, accept an offer, answer, reply from the list, note, tag, snooze,
// transfer, close, search, read the reports, change the administration. The focus can be seen all the time, and nothing keeps it.
func TestDayByKeyboard(t *testing.T) {
	b := startBrowser(t, "en")
	d := newDesk(t)
	d.replies()
	d.colleague("lin", "Lin Chen", perm.Agent, 5)
	var me string
	d.seed(func(ctx context.Context, db store.Store) error {
		account, err := db.Cold().AgentByLogin(ctx, d.login)
		me = account.ID
		return err
	})
	v := d.visit("My kettle is broken")
	p := b.open("agent", desktop, 800, d.url("/console"))
	p.until("the login field has the focus", `document.activeElement?.dataset.testid === 'login-user'`)
	p.press(d.login + "\t" + d.password)
	p.enter()
	loginAnswered(p)
	p.reach("alerts-ask-later", false)
	p.enter()
	p.gone("alerts-ask")

	web := desktest.NewWeb(func() string { return d.url("") })
	lin := web.Agent("lin", "lin")
	defer web.CloseIdle()
	defer lin.Close()
	colleague := func(command string, data any) {
		t.Helper()
		if f, err := lin.Do(t.Context(), command, v.conv, data); err != nil || f.T == "err" {
			t.Fatalf("%s: %s %v", command, f.D, err)
		}
	}
	if err := lin.Take(t.Context(), v.conv); err != nil {
		t.Fatal(err)
	}
	colleague("transfer", proto.Transfer{Agent: me})
	p.visible("offer")
	p.key("o")
	p.until("the key leads to the offer", `document.activeElement === `+node("offer-accept"))
	p.focused()
	p.enter()
	p.until("the chat is there, ready to be answered", `document.activeElement === `+node("composer"))
	answers(p, v)
	arranges(p)
	p.press("\x1b")
	p.until("the row has the focus", `document.activeElement?.dataset.testid === 'mine-row'`)
	p.key("t")
	p.until("the dialog looks for somebody", `document.activeElement?.dataset.testid === 'transfer-search'`)
	p.press("Lin")
	p.until("she alone is listed, and free", `((l) => l.length === 1 && l[0].textContent.startsWith('Online'))([...document.querySelectorAll('[data-testid="transfer-dialog"] [data-testid="target-state"]')])`)
	p.reach("transfer-agent", false)
	p.press(" ")
	p.reach("transfer-note", false)
	p.press("She knows kettles")
	p.reach("transfer-send", false)
	p.enter()
	p.gone("transfer-dialog")
	colleague("transfer.accept", proto.Accept{})
	p.until("it is hers", told("chat-closed", "Lin Chen"))
	closes(d, p)
	leadsOn(p)
	p.clean()
}

// answers writes to the customer of the open chat: by hand, from the canned replies, and a note that the customer does not get.
func answers(p *tab, v *visitor) {
	p.t.Helper()
	p.press("Good morning")
	p.enter()
	v.hears("Good morning")
	p.press("\x1b")
	p.key("/")
	p.visible("canned-item")
	p.press("hello")
	p.until("the reply is found", `((all) => all.length === 1 && all[0].textContent.startsWith('/hello'))([...document.querySelectorAll('[data-testid="canned-item"]')])`)
	p.enter()
	p.until("it is in the box", node("composer")+`.value.startsWith('Hello there') && !`+node("canned"))
	p.enter()
	v.hears("Hello there, this is Agent. How can I help?")
	p.press("\x1b")
	p.key("n")
	p.until("a note is written", `document.querySelector('.composer.noting') && document.activeElement?.dataset.testid === 'composer'`)
	p.press("Bought in May")
	p.enter()
	p.until("the note is kept", `[...document.querySelectorAll('[data-testid="note"]')].some((n) => Number(n.dataset.seq) > 0)`)
	p.press("\x1b")
	p.key("n")
	p.until("the answer is back", `!document.querySelector('.composer.noting') && document.activeElement?.dataset.testid === 'composer'`)
}

// arranges tags the open chat, puts it aside and brings it back.
func arranges(p *tab) {
	p.t.Helper()
	p.reach("tag-field", false)
	p.press("kettle")
	p.enter()
	p.until("the tag is there, the field is ready for another", node("tag")+`?.textContent === 'kettle' && document.activeElement === `+node("tag-field"))
	p.reach("snooze", true)
	p.picks("snooze", 1)
	p.until("it is aside", `document.querySelectorAll('[data-testid="snoozed"] .row').length === 1 && `+node("snooze")+`.selectedOptions[0].text.startsWith('Until ')`)
	p.picks("snooze", 1)
	p.until("it is back", `document.querySelectorAll('[data-testid="mine"] .row').length === 1 && `+node("snooze")+`.selectedOptions[0].text === 'Not snoozed'`)
	p.reach("priority", true)
	p.press(kb.ArrowDown)
	p.until("the list is open", node("priority")+`.matches(':open')`)
	p.press("\x1b")
	p.until("nothing was chosen", `!`+node("priority")+`.matches(':open') && `+node("priority")+`.value === 'normal'`)
}

// closes takes the next chat, answers and closes it, and finds the first one again.
func closes(d *desk, p *tab) {
	p.t.Helper()
	v := d.visit("Where is my parcel?")
	p.visible("queue-row")
	p.press("\x1b")
	for range 4 { // the chat that was passed on stands below, among those of others
		p.key("k")
		if p.focused() == "queue-row" {
			break
		}
	}
	p.until("the row has the focus", `document.activeElement?.dataset.testid === 'queue-row'`)
	p.enter()
	p.until("it can be taken", `document.activeElement?.dataset.testid === 'take'`)
	p.focused()
	p.enter()
	p.until("and answered", `document.activeElement?.dataset.testid === 'composer'`)
	p.press("It comes tomorrow")
	p.enter()
	v.hears("It comes tomorrow")
	p.until("the last word is known to be the agent's", accepted("It comes tomorrow"))
	p.press("\x1b")
	p.key("e")
	p.until("it is closed", `document.querySelector('[data-testid="chat"]:not([hidden])').dataset.state === 'closed'`)
	p.key("s")
	p.press("kettle is")
	p.visible("hit")
	p.press(kb.ArrowDown)
	p.until("the hit has the focus", `document.activeElement?.dataset.testid === 'hit'`)
	p.focused()
	p.reach("menu-button", false)
	p.until("what was found lies over nothing when the focus has gone on", `!`+node("search-box"))
	p.key("s")
	p.visible("hit")
	p.press(kb.ArrowDown)
	p.enter()
	p.until("the chat that was found is shown", shows("My kettle is broken"))
	p.focusOrder(mostStops)
}

// leadsOn goes from the menu to the wall, the reports and the administration, where it makes a group.
func leadsOn(p *tab) {
	p.t.Helper()
	follow := func(id, what, expression string) {
		p.t.Helper()
		p.reach(id, false)
		p.enter()
		p.until(what, `document.readyState === 'complete' && `+expression)
	}
	follow("menu-button", "the menu is open and has the focus", `document.activeElement.closest('[data-testid="menu"]')`)
	follow("menu-wall", "the wall shows the agents", node("agent"))
	p.reach("force-status", false)
	p.press("a")
	p.until("a letter opens the list, and makes nobody away", node("force-status")+`.matches(':open')`)
	p.press("\x1b")
	p.until("the list is closed", `!`+node("force-status")+`.matches(':open')`)
	p.focusOrder(mostStops)
	follow("nav-reports", "the day is reported", node("report-row"))
	p.reach("by", false)
	p.press(kb.ArrowDown)
	p.until("its hours are", node("by")+`.value === 'hour' && `+node("report-row")+`.textContent.startsWith('00:00')`)
	p.focusOrder(mostStops)
	follow("wall-link", "the wall is back", node("agent"))
	follow("admin-link", "the administration is there", node("nav-groups"))
	follow("nav-groups", "there are no groups", node("empty"))
	follow("new", "the form is there", node("field-name"))
	p.focusOrder(mostStops)
	p.reach("field-name", false)
	p.press("Night shift")
	follow("save", "the group is made", node("done")+` && `+node("field-name")+`.value === 'Night shift'`)
}
