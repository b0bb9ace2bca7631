package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/go-eddy/eddy/desk/desktest"
	"github.com/go-eddy/eddy/desk/perm"
	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/store"
	"github.com/go-eddy/eddy/internal/testkit"
)

// as lets an account do something from another place than the page.
func (d *desk) as(login string, do func(ctx context.Context, agent *desktest.Client) error) {
	d.t.Helper()
	web := desktest.NewWeb(func() string { return d.url("") })
	agent := web.Agent(login, login)
	defer web.CloseIdle()
	defer agent.Close()
	if err := do(testkit.Context(d.t), agent); err != nil {
		d.t.Fatal(err)
	}
}

// finished is a chat that an agent has tagged and closed.
func (d *desk) finished(login, tag string, texts ...string) *visitor {
	d.t.Helper()
	v := d.visit(texts...)
	d.as(login, func(ctx context.Context, agent *desktest.Client) error {
		if err := agent.Take(ctx, v.conv); err != nil {
			return err
		}
		if _, err := agent.Do(ctx, "tag", v.conv, proto.Tag{Add: []string{tag}}); err != nil {
			return err
		}
		return agent.EndConv(ctx, v.conv, "done")
	})
	return v
}

// TestConsoleFindsClosedChats is an agent who looks for a closed chat: by the list, a tag, a day and a word, by mouse and
// by keyboard. It is read where it is, with its tags.
func TestConsoleFindsClosedChats(t *testing.T) {
	b := startBrowser(t, "en")
	d := newDesk(t)
	d.colleague("lin", "Lin", perm.Agent, 9)
	d.colleague("amy", "Amy", perm.Agent, 9)
	d.finished("lin", "refund", "the blue parcel")
	d.finished("lin", "praise", "the red parcel", "thanks")
	d.finished("amy", "refund", "not lin's parcel")
	d.takeAll("lin", []*visitor{d.visit("still open")})
	agent := d.console(b, "agent", "lin", "lin", 1440, 900)
	agent.until("the live list is shown", rowsAre("mine", "still open"))
	agent.click("list-closed")
	agent.until("closed chats are listed, those begun last first", rowsAre("archive", "thanks", "the blue parcel"))
	agent.until("and counted", node("archive-count")+`?.textContent === '2 chats'`)
	agent.until("an agent has no list of all", "!"+node("list-all"))
	agent.accessible("the closed chats")

	agent.click("archive-row")
	agent.until("the chat is shown", shows("the red parcel"))
	agent.until("it is closed and cannot be written to", `document.querySelector('[data-testid="chat"]').dataset.state === 'closed' && !`+node("composer"))
	agent.until("with its tag", node("tag")+`?.textContent === 'praise'`)
	agent.until("its row is the current one", node("archive-row")+`?.getAttribute('aria-current') === 'true'`)
	agent.shot("closed")

	agent.clickOn("the filters open", `document.querySelector('[data-testid="archive-filters"] summary')`)
	agent.fill("archive-tag", "REFUND")
	agent.until("the tag leaves one", rowsAre("archive", "the blue parcel"))
	agent.shot("filters")
	agent.click("filters-save")
	agent.fill("dialog-text", "Refunds")
	agent.click("dialog-confirm")
	agent.until("the filter is kept", node("filters-saved")+`?.selectedOptions[0].text === 'Refunds'`)
	agent.fill("archive-tag", "nothing")
	agent.until("it is said that there is none", node("archive-section")+`?.textContent.includes('No chats.')`)
	agent.choose("filters-saved", "Refunds")
	agent.until("the saved filter is there again", rowsAre("archive", "the blue parcel")+` && `+node("archive-tag")+`.value === 'REFUND'`)
	agent.click("archive-clear")
	agent.until("without a filter all are back", rowsAre("archive", "thanks", "the blue parcel"))
	agent.click("bulk-begin")
	agent.click("bulk-all")
	agent.until("two are chosen", node("bulk-count")+`?.textContent === '2 chats chosen'`)
	agent.click("archive-row")
	agent.until("a row that is pressed is taken out, and opens nothing", node("bulk-count")+`?.textContent === '1 chat chosen' && `+node("archive-row")+`.getAttribute('aria-pressed') === 'false'`)
	agent.click("bulk-tag")
	agent.fill("dialog-text", "seen")
	agent.click("dialog-confirm")
	agent.until("the tag is added", node("bulk-count")+`?.textContent === '1 chat is changed.'`)
	agent.shot("bulk")
	agent.click("bulk-end")
	agent.fill("archive-tag", "seen")
	agent.until("the list by that tag has one", rowsAre("archive", "the blue parcel"))
	agent.click("archive-clear")
	agent.until("all are there", rowsAre("archive", "thanks", "the blue parcel"))
	day := value[string](agent, `((d) => [d.getFullYear(), d.getMonth() + 1, d.getDate()].map((n) => String(n).padStart(2, '0')).join('-'))(new Date())`)
	date := func(name, day string) {
		agent.until("a day is chosen", fmt.Sprintf(`((n) => { n.value = %q; return n.dispatchEvent(new Event('input', {bubbles: true})); })(%s)`, day, node("archive-"+name)))
	}
	date("from", day)
	date("to", day)
	agent.until("those of today are listed", node("archive-count")+`?.textContent === '2 chats'`)
	date("to", "2020-01-01")
	agent.until("days the wrong way round are refused", node("archive-error")+`?.textContent === 'The last day is before the first.'`)
	date("from", "2019-12-31")
	agent.until("long ago there were none", node("archive-section")+`?.textContent.includes('No chats.') && `+node("archive-error")+`?.textContent !== 'The last day is before the first.'`)
	agent.click("archive-clear")
	agent.until("all are back", node("archive-count")+`?.textContent === '2 chats'`)

	value[bool](agent, `(`+node("archive-row")+`.focus(), true)`)
	agent.key("j")
	agent.until("J goes on to the next row", `document.activeElement === document.querySelectorAll('[data-testid="archive-row"]')[1]`)
	agent.enter()
	agent.until("Enter opens it", shows("the blue parcel"))
	agent.click("archive-row")
	agent.until("the other chat is back", shows("the red parcel"))
	const width = `document.querySelector('[data-testid="chat"]').clientWidth`
	before := value[float64](agent, width)
	agent.key("[")
	agent.key("]")
	agent.until("list and card are folded, the chat has their room", fmt.Sprintf(`%s > %f + 600 && getComputedStyle(document.querySelector('#list')).visibility === 'hidden'`, width, before))
	agent.shot("folded")
	agent.key("[")
	agent.click("fold-card")
	agent.until("both are back", fmt.Sprintf(`%s === %f`, width, before))

	agent.fill("archive-words", "blue parcel")
	agent.until("a word finds its chat, with what was said", `document.querySelectorAll('[data-testid="archive-row"]').length === 1 && `+node("archive-row")+`.textContent.includes('the blue parcel')`)
	agent.click("archive-row")
	agent.until("the chat is shown", shows("the blue parcel"))

	agent.click("list-closed")
	agent.press("\x1b") // out of the field
	value[bool](agent, `(document.querySelector('[data-testid="list-open"]').focus(), true)`)
	agent.enter()
	agent.until("the live list is back", rowsAre("mine", "still open")+` && !`+node("archive-section"))
	agent.clean()
}

// TestConsoleListsAllChats is a supervisor: all chats by page, by agent and by state, while chats begin and close; what
// could not be loaded is said, and can be asked for again.
func TestConsoleListsAllChats(t *testing.T) {
	b := startBrowser(t, "en")
	d := newDesk(t)
	d.colleague("lin", "Lin", perm.Agent, 9)
	d.colleague("sue", "Sue", perm.Supervisor, 9)
	const many = 27
	d.seed(func(ctx context.Context, db store.Store) error { return pastChats(ctx, db, many) })
	d.finished("lin", "refund", "lin's own")
	v := d.visit("who waits")
	agent := b.open("agent", 1440, 900, "about:blank")
	agent.before(hold)
	agent.navigate(d.url("/console"))
	login(agent, "sue", "sue")
	agent.visible("list-all")
	value[bool](agent, `(window.hold('history'), true)`)
	agent.click("list-all")
	agent.until("it loads", `window.kept.some((k) => k.frame.t === 'history')`)
	value[bool](agent, `window.answer('history', {t: 'err', d: {code: 'busy', text: 'x'}}) ?? true`)
	agent.until("what could not be loaded is said", node("archive-section")+`?.textContent.includes('The server is busy.')`)
	value[bool](agent, `(window.unhold(), true)`)
	agent.click("panel-retry")
	rows := func(n int) string {
		return fmt.Sprintf(`document.querySelectorAll('[data-testid="archive-row"]').length === %d`, n)
	}
	agent.until("the first page is there", rows(20))
	agent.until("there is more", node("archive-count")+`?.textContent === '20 chats, there are more'`)

	agent.key("j")
	agent.until("J begins with this list, not with one that is hidden", `document.activeElement === `+node("archive-row"))

	const second = `document.querySelectorAll('[data-testid="archive-row"]')[1]`
	top := value[float64](agent, second+`.getBoundingClientRect().top`)
	d.as("lin", func(ctx context.Context, lin *desktest.Client) error {
		for range 3 {
			if err := lin.Take(ctx, v.conv); err != nil {
				return err
			}
			if _, err := lin.Do(ctx, "return", v.conv, proto.Return{}); err != nil {
				return err
			}
		}
		if err := lin.Take(ctx, v.conv); err != nil {
			return err
		}
		return lin.EndConv(ctx, v.conv, "done")
	})
	d.visit("new meanwhile")
	agent.until("the state in the row is the new one", node("archive-row")+`?.textContent.includes('Closed')`)
	if now := value[float64](agent, second+`.getBoundingClientRect().top`); now != top {
		t.Errorf("the second row has moved from %v to %v", top, now)
	}
	agent.click("archive-more")
	agent.until("all are there, none twice, and not what is new", rows(many+2)+` && new Set([...document.querySelectorAll('[data-testid="archive-row"]')].map((n) => n.dataset.id)).size === `+fmt.Sprint(many+2))
	agent.until("that is the end", "!"+node("archive-more"))
	agent.shot("all")
	agent.clickOn("the filters open", `document.querySelector('[data-testid="archive-filters"] summary')`)
	agent.until("an agent is chosen", `((n) => { n.value = [...n.options].find((o) => o.text === 'Lin')?.value; return n.value && n.dispatchEvent(new Event('input', {bubbles: true})); })(`+node("archive-agent")+`)`)
	agent.until("by agent", rowsAre("archive", "who waits", "lin's own"))
	agent.click("archive-row")
	const run = `document.querySelector('[data-testid="system-run"]')`
	agent.until("of many events in a row the last is shown", run+`?.querySelectorAll('.system').length === 7 && !`+run+`.open && `+run+`.nextElementSibling.dataset.event === 'closed'`)
	agent.shot("events")
	agent.choose("archive-state", "snoozed")
	agent.until("by what was put aside", node("archive-section")+`?.textContent.includes('No chats.')`)
	agent.choose("archive-state", "queued")
	agent.until("and by state", node("archive-section")+`?.textContent.includes('No chats.')`)
	agent.click("archive-clear")
	agent.until("all of them again, with what is new", node("archive-row")+`?.textContent.includes('new meanwhile')`)
	agent.click("menu-button")
	agent.choose("language", "zh-CN")
	agent.press("\x1b")
	agent.until("the other language, too", node("list-all")+`?.textContent === '全部对话' && `+node("archive-count")+`?.textContent.startsWith('20 个对话') && `+node("archive-row")+`.textContent.includes('排队中')`)
	agent.resize(phone, 740)
	agent.accessible("all chats on a phone")
	agent.shot("phone")
	agent.clean()
}

// pastChats stores closed chats of customers who said their number.
func pastChats(ctx context.Context, db store.Store, n int) error {
	site, err := db.Cold().SiteByKey(ctx, "demo")
	if err != nil {
		return err
	}
	run := func(c store.Command) (store.Conversation, error) {
		done := make(chan store.Outcome, 1)
		db.Do(c, time.Now().Add(testkit.Patience), func(out store.Outcome) { done <- out })
		out := <-done
		return out.Conv, out.Err
	}
	for i := range n {
		c, err := db.CreateVisitor(ctx, site, store.Token{byte(i), 1}, time.Now().Add(time.Hour))
		if err != nil {
			return err
		}
		conv, err := run(store.Open{Contact: c, Human: true})
		if err == nil {
			_, err = run(store.Append{Conv: conv.ID, From: c.Actor(), ClientID: "1", Body: fmt.Sprint("number ", i)})
		}
		if err == nil {
			_, err = run(store.Move{Conv: conv.ID, Trigger: store.CustomerClose, By: c.Actor()})
		}
		if err != nil {
			return err
		}
	}
	return nil
}
