package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/css"
	"github.com/chromedp/cdproto/dom"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/target"
	"github.com/chromedp/chromedp"

	"github.com/go-eddy/eddy/internal/testkit"
)

const (
	screenshots  = "screenshots"   // git-ignored
	wantPictures = "EDDY_PICTURES" // in the environment: pictures are taken of pages that are as they should be, too
	desktop      = 1280            // width at which the console shows three panes
	phone        = 360
)

// requested skips a page test unless EDDY_REQUIRE names browser: a run of all tests is for every machine, and these cost
// more than all others.
func requested(t *testing.T) {
	t.Helper()
	if !testkit.Required("browser") {
		t.Skip("page tests run on request: EDDY_REQUIRE=browser go test ./desk/e2e")
	}
}

// chromium is one browser process for all page tests of a run. It starts when it is first needed.
type chromium struct {
	find  func(testing.TB) string
	once  sync.Once
	ctx   context.Context
	stop  func()
	agent string // as it calls itself
	err   error
}

var (
	shared = chromium{find: testkit.Browser}
	whole  = chromium{find: testkit.WholeBrowser} // for what only a whole browser has
)

// flags are what the browser is told beside what chromedp tells it: to do nothing for itself.
var flags = []chromedp.ExecAllocatorOption{
	chromedp.NoSandbox, chromedp.DisableGPU, chromedp.WSURLReadTimeout(testkit.Patience),
	chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-domain-reliability", true),
	chromedp.Flag("disable-features", "Translate,BlinkGenPropertyTrees,SpareRendererForSitePerProcess,OptimizationHints,MediaRouter"),
	chromedp.Flag("mute-audio", true), chromedp.Flag("lang", "en"), chromedp.Flag("accept-lang", "en"),
}

func (c *chromium) start(t *testing.T) {
	path := c.find(t)
	c.once.Do(func() {
		options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]), chromedp.ExecPath(path))
		allocator, stop := chromedp.NewExecAllocator(context.Background(), append(options, flags...)...)
		ctx, cancel := chromedp.NewContext(allocator)
		c.ctx, c.stop = ctx, func() {
			cancel()
			stop()
		}
		if c.err = chromedp.Do(ctx); c.err != nil {
			return
		}
		var version browser.GetVersionResult
		version, c.err = cdp.Call(ctx, chromedp.FromContext(ctx).Browser, browser.GetVersion, cdp.Empty{})
		c.agent = version.UserAgent
	})
	if c.err != nil {
		t.Fatalf("start %s: %v", path, c.err)
	}
}

// profile is a person's browser: cookies, storage and a language that no other test has.
type profile struct {
	t       *testing.T
	browser *chromium
	lang    string
	id      cdp.BrowserContextID
}

// process is the connection to the browser itself.
func (c *chromium) process() *chromedp.Browser { return chromedp.FromContext(c.ctx).Browser }

// startBrowser makes a profile in the browser of the run. From here on the test runs beside others: its profile and its
// server are its own.
func startBrowser(t *testing.T, lang string) *profile {
	t.Helper()
	return shared.profile(t, lang)
}

func (c *chromium) profile(t *testing.T, lang string) *profile {
	t.Helper()
	requested(t)
	t.Parallel()
	c.start(t)
	return c.newProfile(t, lang)
}

func (c *chromium) newProfile(t *testing.T, lang string) *profile {
	t.Helper()
	made, err := cdp.Call(testkit.Context(t), c.process(), target.CreateBrowserContext, target.CreateBrowserContextParams{})
	if err != nil {
		t.Fatalf("make a profile: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(c.ctx, testkit.Patience)
		defer cancel()
		if _, err := cdp.Call(ctx, c.process(), target.DisposeBrowserContext, target.DisposeBrowserContextParams(made)); err != nil {
			t.Errorf("drop a profile: %v", err)
		}
	})
	return &profile{t: t, browser: c, lang: lang, id: made.BrowserContextID}
}

// tab is one page. Everything it says on its console is kept; violations of
// the content policy are counted by the page itself.
type tab struct {
	t    *testing.T
	name string
	ctx  context.Context

	stays atomic.Bool  // the next question whether to leave a page is answered with no
	asked atomic.Int32 // how many questions of the browser there were

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
func (b *profile) stranger(name string, width, height int64, url string) *tab {
	b.t.Helper()
	return b.browser.newProfile(b.t, b.lang).open(name, width, height, url)
}

func (b *profile) open(name string, width, height int64, url string) *tab {
	b.t.Helper()
	ctx, cancel := chromedp.NewContext(b.browser.ctx, chromedp.WithExistingBrowserContext(b.id), chromedp.WithDetachOnCancel()) // the page ends with its profile
	b.t.Cleanup(cancel)
	p := &tab{t: b.t, name: name, ctx: ctx}
	if err := chromedp.Do(ctx); err != nil { // the tab lives as long as the context of this call
		b.t.Fatalf("open a tab: %v", err)
	}
	b.t.Cleanup(p.report)
	// What no test listens to costs more than the pages themselves: every request, every change of the document.
	call(p, network.Disable, cdp.Empty{})
	call(p, css.Disable, cdp.Empty{})
	call(p, dom.Disable, cdp.Empty{})
	call(p, emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true}) // every person has a screen of their own
	call(p, emulation.SetUserAgentOverride, emulation.SetUserAgentOverrideParams{UserAgent: b.browser.agent, AcceptLanguage: b.lang})
	p.before(collector)
	p.resize(width, height)
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
	dialogs := chromedp.Events(ctx, page.JavascriptDialogOpening)
	go func() { // ends with the context of the tab
		for d, err := range dialogs {
			if err != nil {
				return
			}
			stay := p.stays.Swap(false)
			p.asked.Add(1)
			if err := chromedp.Do(ctx, chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
				_, err := cdp.Call(ctx, target, page.HandleJavaScriptDialog, page.HandleJavaScriptDialogParams{Accept: !stay})
				return err
			})); err != nil {
				p.mu.Lock()
				p.said = append(p.said, "the dialog "+string(d.Type)+" could not be answered: "+err.Error())
				p.mu.Unlock()
			}
		}
	}()
	p.navigate(url)
	return p
}

// call sends a command of the browser for which chromedp has no word.
func call[P, R any](p *tab, command cdp.Command[P, R], params P) (result R) {
	p.t.Helper()
	p.do(command.Method, chromedp.Func(func(ctx context.Context, target *chromedp.Target) (err error) {
		result, err = cdp.Call(ctx, target, command, params)
		return err
	}))
	return result
}

// before runs a script before those of every document to come.
func (p *tab) before(script string) {
	p.t.Helper()
	call(p, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: script})
}

// resize makes the tab as large as another device.
func (p *tab) resize(width, height int64) {
	p.t.Helper()
	call(p, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: width, Height: height, DeviceScaleFactor: 1})
}

// do runs one action with a deadline.
func (p *tab) do(what string, action chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, testkit.Patience)
	defer cancel()
	if err := chromedp.Do(ctx, action); err != nil {
		p.t.Fatalf("%s: %s: %v", p.name, what, err)
	}
}

// eval returns the value of an expression.
func eval[T any](p *tab, expression string) (T, error) {
	ctx, cancel := context.WithTimeout(p.ctx, testkit.Patience)
	defer cancel()
	return chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
}

// value is eval for expressions that cannot fail.
func value[T any](p *tab, expression string) T {
	p.t.Helper()
	v, err := eval[T](p, expression)
	if err != nil {
		p.t.Fatalf("%s: %s: %v", p.name, expression, err)
	}
	return v
}

// until waits for an expression to become true. A page that is loading answers with an error, which counts as not yet.
func (p *tab) until(what, expression string) {
	p.t.Helper()
	testkit.Eventually(p.t, p.name+": "+what+"\n\t"+expression, func() bool {
		ok, err := eval[bool](p, looks(expression, 50))
		return err == nil && ok
	})
}

// looks is the expression whether another one became true while the page looked so many times. Asking the page each time
// costs more than what is asked.
func looks(expression string, times int) string {
	return fmt.Sprintf(`(async () => { for (let i = 0; i < %d; i++) { if (await (%s)) return true; await new Promise((next) => setTimeout(next, 10)); } return false; })()`, times, expression)
}

// report checks that the server understood everything the page sent, and says of a test that has failed what is on the screen.
func (p *tab) report() {
	p.wellFormed()
	if !p.t.Failed() {
		return
	}
	p.picture("failure-" + p.name)
	text, _ := eval[string](p, "document.body.innerText")
	p.mu.Lock()
	defer p.mu.Unlock()
	p.t.Logf("%s: console:\n\t%s\npage:\n%s", p.name, strings.Join(p.said, "\n\t"), text)
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
	event.Type, event.UnmodifiedText = input.DispatchKeyEventTypeKeyDown, event.Text
	call(p, input.DispatchKeyEvent, event)
	event.Type, event.Text, event.UnmodifiedText = input.DispatchKeyEventTypeKeyUp, "", ""
	call(p, input.DispatchKeyEvent, event)
}

// fill types into a field, key by key.
func (p *tab) fill(id, text string) {
	p.t.Helper()
	p.visible(id)
	value[bool](p, fmt.Sprintf(`((n) => { n.focus(); n.select(); return true; })(%s)`, node(id)))
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

// send writes a message, at once as an input method does, and presses Enter.
func (p *tab) send(text string) {
	p.t.Helper()
	p.fill("composer", "")
	call(p, input.InsertText, input.InsertTextParams{Text: text})
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

// shot stores a picture of the page when EDDY_PICTURES is set: drawing and packing one takes longer than most steps.
func (p *tab) shot(name string) {
	if picturesWanted() {
		p.picture(name)
	}
}

func picturesWanted() bool { return os.Getenv(wantPictures) != "" }

// picture stores a picture of the page; one that fails does not fail the test.
func (p *tab) picture(name string) {
	ctx, cancel := context.WithTimeout(p.ctx, testkit.Patience)
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
