package e2e

import (
	"testing"
	"time"

	"github.com/go-eddy/eddy/desk/store"
)

// TestLeftMessage: outside of business hours a visitor is told so, leaves a message, and sees the answer of the agent who finds it in the console.
func TestLeftMessage(t *testing.T) {
	b := startBrowser(t, "en")
	d := newDesk(t)
	day := func(n int) string { return time.Now().UTC().AddDate(0, 0, n).Format(time.DateOnly) }
	d.settings(func(s *store.SiteSettings) {
		s.Hours.Zone, s.Hours.Holidays = "UTC", []string{day(-1), day(0), day(1)}
	})
	p := b.open("customer", phone, 740, d.url("/chat/demo"))
	p.click("talk-to-person")
	p.until("the hours are told", node("leave-words")+`.textContent.startsWith('We are closed now. Open again: ')`)
	p.gone("composer")
	p.click("leave-send")
	p.until("the missing address is told", `document.activeElement === `+node("leave-email")+` && `+node("leave-email")+`.getAttribute('aria-invalid') === 'true'`)
	p.named("leave")
	p.shot("form")
	p.fill("leave-name", "Ann")
	p.fill("leave-email", "ann@example.com")
	p.fill("leave-body", "Where is my parcel?")
	p.click("leave-send")
	p.until("it has arrived", node("away-hint")+`.textContent === 'We answer here. You can add to it at any time.'`)
	p.gone("talk-to-person")
	p.gone("queue-card")
	p.shot("left")

	agent := b.stranger("agent", desktop, 800, d.url("/console"))
	login(agent, d.login, d.password)
	agent.until("it is in its list", node("messages-row")+`.textContent.match(/Ann.*ann@example.com\nWhere is my parcel\?/s) && `+node("left-count")+`.textContent === '1' && `+node("queue-count")+`.textContent === '0'`)
	agent.shot("list")
	agent.click("messages-row")
	agent.click("take")
	agent.visible("composer")
	agent.until("the card says where it was left", `document.querySelector('[data-testid="card-facts"]').innerText.includes('Opened on\n'+location.host+'/chat/demo')`)
	agent.send("It comes tomorrow.")
	p.until("the answer is there", messagesOf+`.some((m) => m.Text === 'It comes tomorrow.')`)
	p.clean()
	agent.clean()
}
