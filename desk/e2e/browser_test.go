package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

const (
	waitLimit   = 2 * time.Minute       // for anything a page is expected to show
	pollEvery   = 20 * time.Millisecond // between two looks at a condition
	screenshots = "screenshots"         // git-ignored
	desktop     = 1280                  // width at which the console shows three panes
	phone       = 360
)

// chromium returns the browser's path; without one the test is skipped, or
// fails when EDDY_REQUIRE contains "browser".
func chromium(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "headless-shell"} {
		if found, err := exec.LookPath(name); err == nil {
			return found
		}
	}
	if strings.Contains(os.Getenv("EDDY_REQUIRE"), "browser") {
		t.Fatal("a browser is required but no chromium was found in PATH")
	}
	t.Skip("chromium is not installed")
	return ""
}

// browser is one Chromium with its own profile.
type browser struct {
	t   *testing.T
	ctx context.Context
}

func startBrowser(t *testing.T, lang string) *browser {
	t.Helper()
	path := chromium(t)
	options := append([]chromedp.ExecAllocatorOption{}, chromedp.DefaultExecAllocatorOptions[:]...)
	options = append(options,
		chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.UserDataDir(t.TempDir()), chromedp.WSURLReadTimeout(waitLimit),
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true),
		chromedp.Flag("lang", lang), chromedp.Flag("accept-lang", lang))
	allocator, stop := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, cancel := chromedp.NewContext(allocator)
	t.Cleanup(func() {
		cancel()
		stop()
	})
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("start %s: %v", path, err)
	}
	return &browser{t: t, ctx: ctx}
}

// tab is one page. Everything it says on its console is kept; violations of
// the content policy are counted by the page itself.
type tab struct {
	t    *testing.T
	name string
	ctx  context.Context

	mu   sync.Mutex
	said []string
}

// collector runs before every document of a tab. No page may ever send what the server calls malformed.
const collector = `
window.violations = [];
document.addEventListener('securitypolicyviolation', (e) => window.violations.push(e.violatedDirective + ' ' + e.blockedURI));
window.WebSocket = class extends WebSocket {
	constructor(...args) {
		super(...args);
		this.addEventListener('message', (e) => {
			if (/"code":"(bad_request|unknown_type|out_of_order)"/.test(e.data)) console.error('` + malformed + `' + e.data);
		});
	}
};
`

const malformed = "malformed command: "

// stranger opens a page with a profile of its own: another person.
func (b *browser) stranger(name string, width, height int64, url string) *tab {
	b.t.Helper()
	return b.open(name, width, height, url, chromedp.WithNewBrowserContext())
}

func (b *browser) open(name string, width, height int64, url string, options ...chromedp.ContextOption) *tab {
	b.t.Helper()
	ctx, cancel := chromedp.NewContext(b.ctx, options...)
	b.t.Cleanup(cancel)
	p := &tab{t: b.t, name: name, ctx: ctx}
	b.t.Cleanup(p.wellFormed)
	if err := chromedp.Do(ctx); err != nil { // the tab lives as long as the context of this call
		b.t.Fatalf("open a tab: %v", err)
	}
	p.before(collector)
	p.do("set the size", chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: width, Height: height, DeviceScaleFactor: 1})
		return err
	}))
	messages := chromedp.Console(ctx)
	go func() { // ends with the context of the tab
		for m, err := range messages {
			if err != nil {
				return
			}
			p.mu.Lock()
			p.said = append(p.said, m.String())
			p.mu.Unlock()
		}
	}()
	p.navigate(url)
	return p
}

// before runs a script before those of every document to come.
func (p *tab) before(script string) {
	p.t.Helper()
	p.do("add a script", chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: script})
		return err
	}))
}

// do runs one action with a deadline.
func (p *tab) do(what string, action chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, waitLimit)
	defer cancel()
	if err := chromedp.Do(ctx, action); err != nil {
		p.fail("%s: %v", what, err)
	}
}

// eval returns the value of an expression.
func eval[T any](p *tab, expression string) (T, error) {
	ctx, cancel := context.WithTimeout(p.ctx, waitLimit)
	defer cancel()
	return chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
}

// value is eval for expressions that cannot fail.
func value[T any](p *tab, expression string) T {
	p.t.Helper()
	v, err := eval[T](p, expression)
	if err != nil {
		p.fail("%s: %v", expression, err)
	}
	return v
}

// until waits for an expression to become true. A page that is loading answers
// with an error, which counts as not yet.
func (p *tab) until(what, expression string) {
	p.t.Helper()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	limit := time.After(waitLimit)
	for {
		if ok, err := eval[bool](p, "(async () => Boolean(await ("+expression+")))()"); err == nil && ok {
			return
		}
		select {
		case <-limit:
			p.fail("timed out waiting until %s\n\t%s", what, expression)
		case <-tick.C:
		}
	}
}

// fail ends the test with what is on the screen.
func (p *tab) fail(format string, args ...any) {
	p.t.Helper()
	p.shot("failure-" + p.name)
	text, _ := eval[string](p, "document.body.innerText")
	p.mu.Lock()
	said := strings.Join(p.said, "\n\t")
	p.mu.Unlock()
	p.t.Fatalf("%s: %s\nconsole:\n\t%s\npage:\n%s", p.name, fmt.Sprintf(format, args...), said, text)
}

func (p *tab) navigate(url string) {
	p.t.Helper()
	p.do("open "+url, chromedp.Navigate(url))
}

func (p *tab) reload() {
	p.t.Helper()
	p.do("reload", chromedp.Reload())
}

// node is the expression of the visible element with a test id, null when there is none.
func node(id string) string {
	return fmt.Sprintf(`[...document.querySelectorAll('[data-testid=%q]')].find((n) => n.checkVisibility())`, id)
}

func (p *tab) visible(id string) {
	p.t.Helper()
	p.until(id+" is visible", node(id))
}

func (p *tab) gone(id string) {
	p.t.Helper()
	p.until(id+" is gone", "!"+node(id))
}

// click presses the mouse on the element as a person does.
func (p *tab) click(id string) {
	p.t.Helper()
	p.until(id+" can be clicked", fmt.Sprintf(`((n) => n && !n.disabled)(%s)`, node(id)))
	at := value[[]float64](p, fmt.Sprintf(`((n) => { n.scrollIntoView({block: 'nearest'}); const r = n.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2]; })(%s)`, node(id)))
	p.do("click "+id, chromedp.MouseClickXY(at[0], at[1]))
}

// press sends keys to whatever has the focus.
func (p *tab) press(keys string) {
	p.t.Helper()
	p.do("press keys", chromedp.KeyEvent(keys))
}

// enter presses the Enter key the way a keyboard does: one event that carries
// its character, so that a page which handles the key gets no line break.
func (p *tab) enter() {
	p.t.Helper()
	p.stroke(input.DispatchKeyEventParams{Key: "Enter", Code: "Enter", WindowsVirtualKeyCode: 13, NativeVirtualKeyCode: 13, Text: "\r"})
}

// key presses a key with a character, as enter does.
func (p *tab) key(char string) {
	p.t.Helper()
	code := int64(strings.ToUpper(char)[0])
	p.stroke(input.DispatchKeyEventParams{Key: char, WindowsVirtualKeyCode: code, NativeVirtualKeyCode: code, Text: char})
}

// tab goes to the next field, or back.
func (p *tab) tab(back bool) {
	p.t.Helper()
	event := input.DispatchKeyEventParams{Key: "Tab", Code: "Tab", WindowsVirtualKeyCode: 9, NativeVirtualKeyCode: 9}
	if back {
		event.Modifiers = 8
	}
	p.stroke(event)
}

func (p *tab) stroke(event input.DispatchKeyEventParams) {
	p.t.Helper()
	p.do("press "+event.Key, chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		event.Type, event.UnmodifiedText = input.DispatchKeyEventTypeKeyDown, event.Text
		if _, err := cdp.Call(ctx, target, input.DispatchKeyEvent, event); err != nil {
			return err
		}
		event.Type, event.Text, event.UnmodifiedText = input.DispatchKeyEventTypeKeyUp, "", ""
		_, err := cdp.Call(ctx, target, input.DispatchKeyEvent, event)
		return err
	}))
}

// fill types into a field, key by key.
func (p *tab) fill(id, text string) {
	p.t.Helper()
	p.visible(id)
	p.do("focus "+id, chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`{ const n = %s; n.focus(); n.select(); }`, node(id)))(ctx, target)
		return err
	}))
	p.press(text)
}

// write puts a long text into a field at once, as pasting does.
func (p *tab) write(id, text string) {
	p.t.Helper()
	quoted, _ := json.Marshal(text)
	p.visible(id)
	value[bool](p, fmt.Sprintf(`((n) => { n.value = %s; return n.dispatchEvent(new Event('input', {bubbles: true})); })(%s)`, quoted, node(id)))
}

// choose picks an option of a select.
func (p *tab) choose(id, option string) {
	p.t.Helper()
	p.visible(id)
	value[bool](p, fmt.Sprintf(`((n) => { n.value = %q; return n.dispatchEvent(new Event('change', {bubbles: true})); })(%s)`, option, node(id)))
}

// height is how high an element is, in pixels.
func (p *tab) height(id string) float64 {
	p.t.Helper()
	return value[float64](p, node(id)+`.getBoundingClientRect().height`)
}

func (p *tab) text(id string) string {
	p.t.Helper()
	return value[string](p, fmt.Sprintf(`%s?.textContent ?? ''`, node(id)))
}

// message is one bubble on the screen.
type message struct {
	From  string // "me" or the sender's kind
	Text  string
	State string // of own messages: pending, accepted, failed
	Seq   int    // 0 while it is not an event yet
}

const messagesOf = `[...document.querySelectorAll('[data-testid="message"]')].filter((n) => n.checkVisibility()).map((n) => ({
	From: n.dataset.from, Text: n.querySelector('[data-testid="message-text"]').textContent,
	State: n.dataset.state ?? '', Seq: Number(n.dataset.seq ?? 0)}))`

func (p *tab) messages() []message {
	p.t.Helper()
	return value[[]message](p, messagesOf)
}

// send writes a message and presses Enter.
func (p *tab) send(text string) {
	p.t.Helper()
	p.fill("composer", text)
	p.enter()
	p.until("the message is in the list and the box is empty", shows(text)+" && "+node("composer")+".value === ''")
}

// shows is the expression for "a message with this text is on the screen".
func shows(text string) string {
	quoted, _ := json.Marshal(text)
	return fmt.Sprintf(`%s.some((m) => m.Text === %s)`, messagesOf, quoted)
}

// accepted is the expression for "the own message with this text has its tick".
func accepted(text string) string {
	quoted, _ := json.Marshal(text)
	return fmt.Sprintf(`%s.some((m) => m.Text === %s && m.From === 'me' && m.State === 'accepted' && m.Seq > 0)`, messagesOf, quoted)
}

var unsafeName = regexp.MustCompile(`[^a-zA-Z0-9_-]+`)

// shot stores a picture of the page; a picture that fails does not fail the test.
func (p *tab) shot(name string) {
	ctx, cancel := context.WithTimeout(p.ctx, waitLimit)
	defer cancel()
	picture, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
	if err != nil {
		p.t.Logf("picture %s: %v", name, err)
		return
	}
	if err := os.MkdirAll(screenshots, 0o755); err != nil {
		p.t.Logf("picture %s: %v", name, err)
		return
	}
	file := filepath.Join(screenshots, unsafeName.ReplaceAllString(p.t.Name()+"-"+name, "_")+".png")
	if err := os.WriteFile(file, picture, 0o644); err != nil {
		p.t.Logf("picture %s: %v", name, err)
	}
}

// wellFormed checks that the server understood everything the page sent.
func (p *tab) wellFormed() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, line := range p.said {
		if strings.Contains(line, malformed) {
			p.t.Errorf("%s: %s", p.name, line)
		}
	}
}

// clean checks that the page threw nothing and broke no content policy. What
// the browser itself logs about failed requests (the login check, a server
// that is down) is expected.
func (p *tab) clean() {
	p.t.Helper()
	if v := value[[]string](p, "window.violations"); len(v) > 0 {
		p.t.Errorf("%s: content policy violated: %q", p.name, v)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, line := range p.said {
		if strings.Contains(line, "Failed to load resource") || strings.Contains(line, "WebSocket connection to") {
			continue
		}
		p.t.Errorf("%s: the page's console says: %s", p.name, line)
	}
}
