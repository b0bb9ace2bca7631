package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-eddy/eddy/desk/geo/geotest"
	"github.com/go-eddy/eddy/desk/store"
)

// cardSays is the expression for what the card says beside a label, ” if it has no such line.
func cardSays(list, label string) string {
	return `([...document.querySelectorAll('[data-testid="` + list + `"] dt')].find((n) => n.textContent === '` + label + `')?.nextElementSibling.textContent ?? '')`
}

// TestOwnFields: an administrator defines fields, an agent fills them in on the customer card, the list of customers finds
// by them, and removing one says how many values go.
func TestOwnFields(t *testing.T) {
	b := startBrowser(t, "en")
	d := newDesk(t)
	v := d.visit("Do I still have credit?")
	boss := d.console(b, "boss", d.login, d.password, desktop, 800)
	boss.media("light", "reduce")
	boss.navigate(d.url("/admin"))
	boss.click("nav-fields")
	boss.visible("empty")
	for _, f := range [][]string{{"Plan", "plan", "choice", "Gold\nSilver"}, {"Customer since", "since", "date", ""}, {"Credit", "credit", "number", ""}, {"Wants calls", "calls", "yes_no", ""}} {
		boss.navigate(d.url("/admin/fields"))
		boss.click("new")
		boss.fill("field-label", f[0])
		boss.fill("field-key", f[1])
		boss.choose("field-kind", f[2])
		boss.write("field-choices", f[3])
		if f[1] == "plan" {
			boss.documented("field", "")
		}
		boss.click("save")
		boss.visible("done")
	}
	agent := d.console(b, "agent", d.login, d.password, desktop, 900)
	agent.media("light", "reduce")
	agent.click("queue-row")
	agent.click("take")
	agent.until("no field has a value yet", node("card-edit")+` && `+cardSays("attributes", "Plan")+` === ''`)
	agent.click("card-edit")
	agent.choose("own-plan", "Silver")
	agent.fill("own-credit", "1e5")
	agent.click("edit-save")
	agent.until("what is no number is not sent", node("own-credit")+`?.validity.patternMismatch`)
	agent.fill("own-credit", "-1234.50")
	agent.choose("own-calls", "no")
	agent.click("edit-save")
	agent.until("the card says it", cardSays("attributes", "Plan")+` === 'Silver' && `+cardSays("attributes", "Credit")+` === '-1,234.5' && `+cardSays("attributes", "Wants calls")+` === 'No' && `+cardSays("attributes", "Customer since")+` === ''`)
	agent.documented("fields", `document.querySelector('#card')`)
	for _, width := range []int64{phone, desktop} {
		agent.resize(width, 740)
		agent.until("nothing is wider than the screen", `document.documentElement.scrollWidth <= innerWidth`)
	}
	agent.clean()

	boss.navigate(d.url("/admin/contacts"))
	boss.choose("contacts-field", "plan")
	boss.fill("contacts-value", "silver")
	boss.click("filter")
	boss.until("one customer is found", `location.search.includes('silver') && document.querySelectorAll('[data-testid="contact-row"]').length === 1`)
	boss.pressed("the customer", `document.querySelector('[data-testid="contact-row"] a')`)
	boss.choose("field-own_plan", "Gold")
	boss.click("save-fields")
	boss.until("the page says it", node("done")+` && `+node("own-plan")+`.textContent.includes('Gold')`)
	agent.reload()
	agent.click("mine-row")
	agent.until("and so does the card", cardSays("attributes", "Plan")+` === 'Gold'`)

	boss.navigate(d.url("/admin/fields/plan"))
	boss.until("the page says how many values go", node("use")+`.textContent.includes('Customers with a value: 1.')`)
	boss.click("delete")
	boss.until("it asks", node("error-sure"))
	boss.click("field-sure")
	boss.click("delete")
	boss.until("it is gone", node("done")+` && document.querySelectorAll('[data-testid="field-row"]').length === 3`)
	agent.reload()
	agent.click("mine-row")
	agent.until("from the card, too", cardSays("attributes", "Credit")+` === '-1,234.5' && `+cardSays("attributes", "Plan")+` === ''`)
	boss.clean()
	agent.clean()
	for _, f := range v.View(v.conv) {
		if said := string(f.D); strings.Contains(said, "1234.5") || strings.Contains(said, "Gold") {
			t.Errorf("the customer got %s", said)
		}
	}
}

// TestPlaceOfACustomer: the card has the country of the customer's address, by the file that the operator gives, and the
// city where the site keeps everything of visits. Neither the page of the customer nor what it is sent has it.
func TestPlaceOfACustomer(t *testing.T) {
	content, err := geotest.Database("GeoLite2-City", map[string]geotest.Place{"198.51.100.0/24": {Country: "GB", City: "London"}})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "city.mmdb")
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
	b := startBrowser(t, "en")
	d := newDesk(t, "--trusted-proxies", "127.0.0.1", "--place-file", file)
	p := b.open("customer", phone, 740, behindOneAddress(t, d)+"/chat/demo")
	p.click("talk-to-person")
	p.send("Do you send to my country?")
	p.until("it is acknowledged", accepted("Do you send to my country?"))
	agent := d.console(b, "agent", d.login, d.password, desktop, 900)
	agent.media("light", "reduce")
	agent.click("queue-row")
	agent.click("take")
	agent.until("the card has the country", cardSays("card-facts", "Place")+` === 'United Kingdom'`)
	boss := d.console(b, "boss", d.login, d.password, desktop, 800)
	boss.navigate(d.url("/admin/sites"))
	boss.click("site-row-link")
	boss.click("tab-3")
	boss.choose("field-visits", store.KeepFull)
	boss.click("save")
	boss.visible("done")
	p.reload()
	agent.until("and the city, where everything is kept", cardSays("card-facts", "Place")+` === 'London, United Kingdom'`)
	agent.documented("place", `document.querySelector('#card')`)
	agent.send("Yes, we do.")
	p.until("the answer is there", shows("Yes, we do."))
	p.until("the customer's page does not say where the customer is", `!/London|United Kingdom|"GB"/.test(document.documentElement.outerHTML)`)
	p.clean()
	agent.clean()
}
