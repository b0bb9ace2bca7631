package e2e

import (
	"bytes"
	"image"
	"image/color"
	"image/png"
	"os"
	"path/filepath"
	"testing"

	"github.com/go-eddy/eddy/desk/store"
)

const (
	logoWidth, logoHeight = 240, 80

	logoShown  = `((i) => i?.checkVisibility() && i.complete && i.naturalWidth === 240)(document.querySelector('#logo'))`
	noLogo     = `!document.querySelector('#logo').checkVisibility() && document.querySelector('#avatar').checkVisibility()`
	previewed  = `((i) => i?.complete && i.naturalWidth === 240)(` + `[...document.querySelectorAll('[data-testid="preview-logo"]')].find((n) => n.checkVisibility())` + `)`
	headerFits = `((h, m) => h.scrollWidth <= h.clientWidth && m.left >= 0 && m.right <= innerWidth)(document.querySelector('.header'), document.querySelector('#menu-button').getBoundingClientRect())`
)

// emblem is the logo of a shop: a leaf in a ring, and three bars, on nothing.
func emblem(t *testing.T) []byte {
	t.Helper()
	m := image.NewNRGBA(image.Rect(0, 0, logoWidth, logoHeight))
	green, dark := color.NRGBA{0x2f, 0x8f, 0x5b, 255}, color.NRGBA{0x1d, 0x3b, 0x2e, 255}
	within := func(x, y, cx, cy, r int) bool { return (x-cx)*(x-cx)+(y-cy)*(y-cy) <= r*r }
	for x := range logoWidth {
		for y := range logoHeight {
			switch {
			case within(x, y, 40, 40, 36) && !within(x, y, 40, 40, 31):
				m.Set(x, y, dark)
			case within(x, y, 28, 28, 25) && within(x, y, 52, 52, 25):
				m.Set(x, y, green)
			case x >= 96 && (y >= 14 && y < 26 && x < 228 || y >= 34 && y < 46 && x < 200 || y >= 54 && y < 66 && x < 216):
				m.Set(x, y, dark)
			}
		}
	}
	var b bytes.Buffer
	if err := png.Encode(&b, m); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestLogo is an administrator who gives a site a logo, and the customers who see it: on a phone, in both themes, where
// lines begin at the right, and in the widget.
func TestLogo(t *testing.T) {
	b := startBrowser(t, "en")
	languages := t.TempDir()
	if err := os.WriteFile(filepath.Join(languages, "ar.json"), []byte(`{"name":"العربية","dir":"rtl","texts":{"retry":"أعد"}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	d := newDesk(t, "--languages", languages)
	p := b.open("customer", 390, 844, d.url("/chat/demo"))
	p.media("light", "reduce")
	p.until("there is no logo yet", messagesOf+`.some((m) => m.From === 'bot') && `+noLogo)

	boss := d.console(b, "boss", d.login, d.password, 1280, 800)
	boss.media("light", "reduce")
	boss.navigate(d.url("/admin/sites"))
	boss.click("site-row-link")
	boss.click("tab-1")
	boss.giveTo("field-logo", map[string][]byte{"poster.png": append(emblem(t), make([]byte, store.MaxLogoBytes)...)})
	boss.until("a file that is too large is told before it is sent", node("error-logo")+`?.textContent.includes('at most 131072 bytes') && `+node("field-logo")+`.files.length === 0`)
	boss.giveTo("field-logo", map[string][]byte{"logo.png": []byte(`<svg xmlns="http://www.w3.org/2000/svg" onload="window.ran = 1"/>`)})
	boss.until("what was wrong is gone", `!`+node("error-logo"))
	boss.click("save")
	boss.until("SVG is refused, and why", node("error-logo")+`?.textContent.includes('scripts')`)
	boss.giveTo("field-logo", map[string][]byte{"logo.png": emblem(t)})
	boss.until("the preview has the logo", previewed)
	boss.click("save")
	boss.until("it is saved", node("done")+` && `+node("logo-now")+`?.naturalWidth === 240 && `+previewed)
	look(boss, "logo-form")
	boss.documented("logo", "")

	p.reload()
	p.until("the customer sees the logo, beside who answers", logoShown+` && document.querySelector('#avatar').checkVisibility()`)
	if alt := value[string](p, node("logo")+`.alt`); alt != "Demo site" {
		t.Errorf("the logo says %q", alt)
	}
	p.until("it is in proportion", `((r) => r.height === 40 && Math.abs((r.width - 4) / 36 - 3) < 0.1)(`+node("logo")+`.getBoundingClientRect())`)
	p.until("the header has room", headerFits)
	p.named("a chat with a logo")
	p.shot("light")
	p.media("dark", "reduce")
	p.until("it stands on white in the dark", `getComputedStyle(`+node("logo")+`).backgroundColor === 'rgb(255, 255, 255)' && getComputedStyle(document.querySelector('.header').parentNode).backgroundColor !== 'rgb(255, 255, 255)'`)
	p.shot("dark")
	p.click("menu-button")
	p.choose("language", "ar")
	p.until("it stands where lines begin", `document.documentElement.dir === 'rtl' && `+node("logo")+`.getBoundingClientRect().left > document.querySelector('.header-text').getBoundingClientRect().left`)
	p.until("the header has room there, too", headerFits)
	p.click("menu-button")
	p.shot("rtl")
	p.until("a logo that does not come leaves the header as it was", `document.querySelector('#logo').dispatchEvent(new Event('error')) && `+noLogo)

	shop := b.stranger("shop", desktop, 800, d.url("/shop"))
	shop.click("shop-ask")
	shop.until("the widget has it", widgetShown+` && `+framed(logoShown))
	shop.shot("widget")

	boss.click("field-logo_remove")
	boss.until("the preview is without it", `!`+node("preview-logo"))
	boss.click("save")
	boss.until("it is removed", node("done")+` && !`+node("logo-now"))
	shop.navigate(d.url("/chat/demo"))
	shop.until("nobody sees it any more", messagesOf+`.some((m) => m.From === 'bot') && `+noLogo)
	for _, page := range []*tab{p, boss, shop} {
		page.clean()
	}
}
