package e2e

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"testing"
)

// photo is a small picture.
func photo(t *testing.T) []byte {
	t.Helper()
	m := image.NewRGBA(image.Rect(0, 0, 480, 320))
	for x := range 480 {
		for y := range 320 {
			m.Set(x, y, color.RGBA{uint8(x / 2), uint8(120 + y/4), 160, 255})
		}
	}
	var b bytes.Buffer
	if err := png.Encode(&b, m); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// give hands files to the chat as the system's file dialog does.
func (p *tab) give(files map[string][]byte) {
	p.t.Helper()
	p.giveTo("file-input", files)
}

// giveTo is give for any field for files, shown or not.
func (p *tab) giveTo(id string, files map[string][]byte) {
	p.t.Helper()
	list := ""
	for name, content := range files {
		list += fmt.Sprintf(`data.items.add(new File([Uint8Array.from(atob(%q), (c) => c.charCodeAt(0))], %q));`, base64.StdEncoding.EncodeToString(content), name)
	}
	value[bool](p, `((input) => { const data = new DataTransfer(); `+list+` input.files = data.files; return input.dispatchEvent(new Event('change', {bubbles: true})); })(document.querySelector('[data-testid="`+id+`"]'))`)
}

// TestCustomerSendsFiles sends a picture and a text file with a message, and
// one that is not taken.
func TestCustomerSendsFiles(t *testing.T) {
	b := startBrowser(t, "en")
	d := newDesk(t)
	p := b.open("customer", phone, 740, d.url("/chat/demo"))
	p.until("the bot greets", messagesOf+`.some((m) => m.From === 'bot')`)
	p.click("talk-to-person")
	p.visible("queue-position")
	p.give(map[string][]byte{"page.html": []byte("<html><script>window.ran=1</script></html>")})
	p.until("a page is not taken, and the chip says what to do", `document.querySelector('[data-testid="upload"][data-state="failed"]')?.textContent.includes('Choose another one')`)
	p.shot("refused")
	p.click("upload-cancel")
	p.until("it is given up", `!document.querySelector('[data-testid="upload"]')`)
	p.give(map[string][]byte{"kettle.png": photo(t)})
	p.give(map[string][]byte{"order.txt": []byte("one kettle\n")})
	p.until("both are there", `document.querySelectorAll('[data-testid="upload"][data-state="done"]').length === 2`)
	p.fill("composer", "Here it is")
	p.shot("tray")
	p.enter()
	p.until("the message is sent with its files", accepted("Here it is")+` && document.querySelector('[data-testid="tray"]').hidden`)
	p.until("the picture is shown", `((i) => i?.complete && i.naturalWidth === 480 && i.width > 200 && Math.abs(i.width / i.height - 1.5) < 0.02)(document.querySelector('[data-testid="file-image"] img'))`)
	p.until("the text file has its line", `document.querySelector('[data-testid="file"]')?.textContent.includes('order.txt')`)
	p.shot("sent")
	p.reload()
	p.until("they are there after a reload", `((i) => i?.complete && i.naturalWidth === 480)(document.querySelector('[data-testid="file-image"] img')) && `+shows("Here it is"))
	agent := b.stranger("agent", desktop, 800, d.url("/console"))
	login(agent, d.login, d.password)
	agent.click("queue-row")
	agent.until("the agent sees them, too", `((i) => i?.complete && i.naturalWidth === 480)(document.querySelector('[data-testid="file-image"] img')) && document.querySelector('[data-testid="file"]')?.textContent.includes('order.txt')`)
	agent.shot("agent")
	p.clean()
	agent.clean()
}
