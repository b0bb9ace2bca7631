package e2e

import (
	"context"
	"testing"
	"time"

	"github.com/go-eddy/eddy/desk/desktest"
	"github.com/go-eddy/eddy/desk/store"
	"github.com/go-eddy/eddy/desk/store/sqlstore"
	"github.com/go-eddy/eddy/internal/testkit"
)

// kept returns how many conversations there are, and what the reports have counted.
func (d *desk) kept() (open int, reported store.ReportRow) {
	d.t.Helper()
	d.seed(func(ctx context.Context, db store.Store) error {
		all, err := db.Cold().OpenConversations(ctx)
		if err != nil {
			return err
		}
		now := time.Now()
		rows, err := db.Background().Report(ctx, store.ReportQuery{By: store.ByAll, From: now.Add(-24 * time.Hour).UnixMilli(), To: now.Add(time.Hour).UnixMilli()})
		if open = len(all); len(rows) > 0 {
			reported = rows[0]
		}
		return err
	})
	return open, reported
}

// TestVisitorsWhoNeverWriteLeaveNothing opens the page, the widget, a second tab and a client that opens its chat at once: the
// page looks as if the chat had begun, and neither tables nor reports know of it until somebody writes.
func TestVisitorsWhoNeverWriteLeaveNothing(t *testing.T) {
	b := startBrowser(t, "en")
	d := newDesk(t)
	greeted := messagesOf + `.length === 1 && ` + messagesOf + `[0].From === 'bot'`
	p := b.open("page", phone, 740, d.url("/chat/demo"))
	second := b.open("second tab", phone, 740, d.url("/chat/demo"))
	shop := b.stranger("shop", desktop, 800, d.url("/shop"))
	shop.clickWidget()
	shop.until("the bot greets in the widget", framed(greeted))
	for _, tab := range []*tab{p, second} {
		tab.until("the bot greets", greeted+` && document.querySelectorAll('[data-testid="choice"]:not(:disabled)').length === 1 && `+node("talk-to-person"))
		if got := tab.text("header-title") + ", " + tab.text("header-state"); got != "Eddy, Automatic assistant · Demo site" {
			t.Errorf("the header says %q", got)
		}
	}
	p.reload()
	p.until("the bot greets again", greeted)
	shop.reload()
	if open, reported := d.kept(); open != 0 || reported != (store.ReportRow{}) {
		t.Errorf("nobody has written: %d conversations, %+v", open, reported)
	}

	web := desktest.NewWeb(func() string { return d.url("") })
	early := web.Customer("demo")
	defer web.CloseIdle()
	defer early.Close()
	ctx := testkit.Context(t)
	conv, err := early.Open(ctx, "bot")
	if err != nil {
		t.Fatal(err)
	}
	if err := early.EndConv(ctx, conv, ""); err != nil {
		t.Fatal(err)
	}
	if _, reported := d.kept(); reported != (store.ReportRow{}) {
		t.Errorf("a client that opens at once: %+v", reported)
	}

	value[bool](p, `(window.greeting = document.querySelector('[data-testid="message"]'), true)`)
	p.click("talk-to-person")
	p.until("the visitor waits", `document.querySelector('[data-testid="customer"]').dataset.state === 'queued'`)
	if !value[bool](p, `window.greeting.isConnected && window.greeting.dataset.seq === '2'`) {
		t.Error("the greeting was drawn anew")
	}
	second.until("the second tab follows", `document.querySelector('[data-testid="customer"]').dataset.state === 'queued'`)
	if open, reported := d.kept(); open != 1 || reported.Opened != 1 || reported.Handoff != 1 || reported.Arrived != 1 {
		t.Errorf("one has written: %d conversations, %+v", open, reported)
	}
	for _, tab := range []*tab{p, second, shop} {
		tab.clean()
	}
}

// TestChatWithoutABotBeginsWithTheFirstMessage: nobody waits in the queue who has only looked at the page.
func TestChatWithoutABotBeginsWithTheFirstMessage(t *testing.T) {
	b := startBrowser(t, "en")
	d := newDesk(t)
	d.change(func(ctx context.Context, db *sqlstore.DB, site store.Site) {
		site.BotName = ""
		if err := db.UpdateSite(ctx, site); err != nil {
			t.Fatal(err)
		}
	})
	p := b.open("page", phone, 740, d.url("/chat/demo"))
	p.until("the page greets by itself", `document.querySelector('[data-testid="customer"]').dataset.state === 'new' && `+node("empty")+`.textContent.startsWith('We are here to help')`)
	p.gone("talk-to-person")
	p.shot("before")
	if open, _ := d.kept(); open != 0 {
		t.Errorf("%d conversations", open)
	}
	p.send("Is anybody there?")
	p.until("the visitor waits", accepted("Is anybody there?")+` && document.querySelector('[data-testid="queue-card"]').dataset.position === '1'`)
	if open, reported := d.kept(); open != 1 || reported.Opened != 1 || reported.Arrived != 1 {
		t.Errorf("%d conversations, %+v", open, reported)
	}
	p.clean()
}
