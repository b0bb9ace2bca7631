package e2e

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-eddy/eddy/desk/desktest"
	"github.com/go-eddy/eddy/desk/store"
)

// TestCustomerPagesFit is a customer's visit with long names in every language: questions, bot, queue, chat, end, and a message
// that is left. One language is written from right to left.
func TestCustomerPagesFit(t *testing.T) {
	requested(t)
	for _, lang := range []string{"en", "zh-CN", "es", "he"} {
		t.Run(lang, func(t *testing.T) {
			b := startBrowser(t, lang)
			folder := t.TempDir()
			languages(t, folder)
			d := newDesk(t, "--languages", folder)
			d.lengthy()
			d.settings(func(s *store.SiteSettings) {
				s.Greeting, s.Consent = strings.Repeat(long+" ", 4), "I agree, see https://shop.example/"+longWord+longWord
				s.PreChat = []store.Field{{Name: "name", Label: longName, Type: "text"}, {Name: "email", Label: long, Type: "email", Required: true}}
			})
			p := b.open("customer", phone, 740, d.url("/chat/demo"))
			p.visible("prechat")
			if dir := value[string](p, `getComputedStyle(document.body).direction`); (dir == "rtl") != (lang == "he") {
				t.Errorf("the page in %s goes %s", lang, dir)
			}
			visitFits(d, p)
			absenceFits(d, b)
		})
	}
}

// languages fills a folder with two languages. The second is written from right to left, with the words of the first: what is
// looked at is where they stand.
func languages(t *testing.T, folder string) {
	t.Helper()
	words, err := os.ReadFile("../web/static/lang/es.json")
	if err != nil {
		t.Fatal(err)
	}
	turned := strings.Replace(string(words), `"name"`, `"dir": "rtl", "name"`, 1)
	for name, text := range map[string]string{"es.json": string(words), "he.json": turned} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// visitFits goes through a visit from the questions to the rating.
func visitFits(d *desk, p *tab) {
	p.t.Helper()
	p.click("prechat-start")
	p.fits("questions")
	p.fill("prechat-name", longName)
	p.fill("prechat-email", "ann@example.com")
	p.click("prechat-consent")
	p.click("prechat-start")
	p.visible("choice")
	p.fits("bot")
	p.click("menu-button")
	p.fits("menu")
	p.press("\x1b")
	p.click("talk-to-person")
	p.visible("queue-position")
	p.send("https://shop.example/" + longWord + longWord + " " + longName)
	p.fits("queue")
	d.as("lin", func(ctx context.Context, agent *desktest.Client) error {
		if err := agent.Connected(ctx); err != nil {
			return err
		}
		w, _ := agent.Welcome()
		if len(w.Inbox.Rows) != 1 {
			d.t.Fatalf("%d chats wait", len(w.Inbox.Rows))
		}
		conv := w.Inbox.Rows[0].ID
		if err := agent.Take(ctx, conv); err != nil {
			return err
		}
		agent.Send(conv, longName)
		if err := agent.Flushed(ctx); err != nil {
			return err
		}
		p.until("the answer is there", shows(longName))
		p.fits("chat")
		return agent.EndConv(ctx, conv, "done")
	})
	p.click("rating-4")
	p.fits("closed")
	p.clean()
}

// absenceFits is a day on which nobody is there, and the page of a shop with the widget on it.
func absenceFits(d *desk, b *profile) {
	b.t.Helper()
	day := func(n int) string { return time.Now().UTC().AddDate(0, 0, n).Format(time.DateOnly) }
	d.settings(func(s *store.SiteSettings) {
		s.PreChat, s.Consent = nil, ""
		s.Hours.Zone, s.Hours.Holidays = "UTC", []string{day(-1), day(0), day(1)}
	})
	late := b.stranger("late", phone, 740, d.url("/chat/demo"))
	late.click("talk-to-person")
	late.click("leave-send")
	late.fits("leave")
	late.clean()
	shop := b.stranger("shop", phone, 740, d.url("/shop"))
	shop.click("shop-ask")
	shop.until("the panel is open", widgetShown)
	shop.fits("shop")
	shop.fitsIn(widgetFrame+".contentDocument", "widget")
	shop.clean()
}
