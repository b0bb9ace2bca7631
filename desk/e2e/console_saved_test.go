package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
)

// keepSaved keeps what the page saves and prints for the test.
const keepSaved = `
window.saved = [];
const make = URL.createObjectURL;
URL.createObjectURL = (blob) => { blob.text().then((text) => window.saved.push(text)); return make.call(URL, blob); };
window.print = () => { window.printed = true; };
`

// TestSavedChat: an agent saves a chat as text and as JSON, and prints it, with notes and events.
func TestSavedChat(t *testing.T) {
	b := startBrowser(t, "en")
	d := newDesk(t)
	const many = 5
	v := d.visit("My kettle has not come.")
	for i := range many {
		v.say(fmt.Sprintf("more %d", i))
	}
	agent := b.open("agent", desktop, 800, "about:blank")
	agent.before(keepSaved)
	agent.navigate(d.url("/console"))
	login(agent, d.login, d.password)
	agent.click("queue-row")
	agent.click("take")
	agent.send("Good morning!")
	agent.until("it is acknowledged", accepted("Good morning!"))
	agent.click("mode-note")
	agent.fill("composer", "Asked the carrier.")
	agent.enter()
	agent.until("the note is there", `Number(document.querySelector('[data-testid="note"]')?.dataset.seq) > 0`)

	agent.click("save-text")
	agent.until("the text is saved", `window.saved.length === 1`)
	text := value[string](agent, `window.saved[0]`)
	for _, want := range []string{"Chat with ", ":\nMy kettle has not come.\n", fmt.Sprintf(":\nmore %d\n", many-1), ":\nGood morning!\n", "(note):\nAsked the carrier.\n"} {
		if strings.Count(text, want) != 1 {
			t.Errorf("%q is %d times in the text", want, strings.Count(text, want))
		}
	}
	agent.click("save-json")
	agent.until("the JSON is saved", `window.saved.length === 2`)
	var saved struct {
		ID     string
		Cut    bool
		Events []struct{ S int }
	}
	if err := json.Unmarshal([]byte(value[string](agent, `window.saved[1]`)), &saved); err != nil {
		t.Fatal(err)
	}
	for i, ev := range saved.Events {
		if ev.S != i+1 {
			t.Fatalf("event %d has the number %d", i, ev.S)
		}
	}
	if saved.ID != v.conv || saved.Cut || len(saved.Events) < many+3 {
		t.Errorf("chat %q with %d events, cut: %v", saved.ID, len(saved.Events), saved.Cut)
	}

	agent.click("save-print")
	agent.until("it is printed", `window.printed`)
	call(agent, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Media: "print"})
	agent.until("only the chat is on paper", `((p) => p.checkVisibility() && p.textContent.includes('more 4') && !document.getElementById('app').checkVisibility())(document.querySelector('.paper'))`)
	call(agent, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{})
	agent.until("the page is as it was", `(dispatchEvent(new Event('afterprint')), !document.querySelector('.paper') && document.getElementById('app').checkVisibility())`)

	// What cannot be read is not saved in part.
	d.stop()
	agent.click("save-text")
	agent.until("it is told", node("notice")+`.textContent.includes('could not be read')`)
	if n := value[int](agent, `window.saved.length`); n != 2 {
		t.Errorf("%d files are saved", n)
	}
}
