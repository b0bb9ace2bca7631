package e2e

import (
	"strings"
	"testing"
)

// attach puts a file into the picker of the chat that is open, as choosing it does.
func attach(p *tab, name, content string) {
	p.t.Helper()
	p.until("the file is chosen", `((i) => { if (!i) return false; const d = new DataTransfer(); d.items.add(new File([`+"`"+content+"`"+`], '`+name+`')); i.files = d.files; i.dispatchEvent(new Event('change')); return true; })(document.querySelector('[data-testid="chat"]:not([hidden]) [data-testid="file-input"]'))`)
}

// TestConsoleFiles sends a file with an answer and one with a note: the customer gets the first.
func TestConsoleFiles(t *testing.T) {
	b := startBrowser(t, "en")
	d := newDesk(t)
	v := d.visit("Please send me the terms")
	agent := d.console(b, "agent", d.login, d.password, 1280, 800)
	agent.click("queue-row")
	agent.click("take")
	agent.visible("composer")
	attach(agent, "terms.txt", "These are the terms.")
	agent.visible("upload")
	agent.fill("composer", "Here they are")
	agent.enter()
	agent.until("the message has the file", `[...document.querySelectorAll('[data-testid="message"]')].some((n) => n.dataset.state === 'accepted' && n.querySelector('a[data-testid="file"]')?.textContent.includes('terms.txt'))`)
	agent.gone("upload")
	v.hears("Here they are")
	agent.click("mode-note")
	attach(agent, "internal.txt", "She may cancel any time.")
	agent.fill("composer", "What we agreed")
	agent.enter()
	agent.until("the note has the file", `[...document.querySelectorAll('[data-testid="note"]')].some((n) => Number(n.dataset.seq) > 0 && n.textContent.includes('internal.txt'))`)
	agent.shot("files")
	agent.click("mode-answer")
	agent.send("Anything else?")
	v.hears("Anything else?")
	files := 0
	for _, f := range v.View(v.conv) {
		if strings.Contains(string(f.D), "internal.txt") {
			t.Error("the customer got the file of the note")
		}
		if strings.Contains(string(f.D), "terms.txt") {
			files++
		}
	}
	if files != 1 {
		t.Errorf("the customer got the file %d times", files)
	}
	agent.clean()
}

// TestConsoleRefusedFile is told that a file is not taken: the words are below the messages, in their own room, and go
// with the next answer.
func TestConsoleRefusedFile(t *testing.T) {
	b := startBrowser(t, "en")
	d := newDesk(t)
	v := d.visit("Please send me the terms")
	agent := d.console(b, "agent", d.login, d.password, 1440, 900)
	agent.click("queue-row")
	agent.click("take")
	agent.visible("composer")
	attach(agent, "terms.html", "<!doctype html><title>Terms</title>")
	agent.until("it is refused", `document.querySelector('[data-testid="upload"][data-state="failed"]')?.textContent.includes('Choose another one')`)
	agent.until("no message is covered", `((tray, last) => last.getBoundingClientRect().bottom <= tray.getBoundingClientRect().top)(`+node("tray")+`, `+node("message")+`)`)
	agent.shot("refused-file")
	agent.send("I have it as a page only")
	v.hears("I have it as a page only")
	agent.gone("upload")
	agent.until("twelve files are chosen", `((i) => { const d = new DataTransfer(); for (let n = 0; n < 12; n++) d.items.add(new File(['x'], n + '.txt')); i.files = d.files; return i.dispatchEvent(new Event('change')); })(document.querySelector('[data-testid="chat"]:not([hidden]) [data-testid="file-input"]'))`)
	agent.until("the notice says how many fit", node("notice")+`?.textContent.includes('At most 10 files')`)
	agent.click("notice-close")
	agent.gone("notice")
	agent.clean()
}
