package e2e

import (
	"strings"
	"testing"

	"github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/serviceworker"
	"github.com/chromedp/chromedp"

	"github.com/go-eddy/eddy/desk/perm"
	"github.com/go-eddy/eddy/internal/testkit"
)

// pushService stands in for the push service that the browser of these tests does not have: a page subscribes and gets
// what a browser would give. It outlives the page.
const pushService = `
(() => {
	const text = (buffer) => btoa(String.fromCharCode(...new Uint8Array(buffer))).replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '');
	const kept = () => JSON.parse(localStorage.getItem('test.push'));
	const subscription = () => kept() && {
		endpoint: kept().endpoint, options: null, toJSON: () => ({ ...kept(), key: undefined }),
		unsubscribe: async () => { localStorage.removeItem('test.push'); return true; },
	};
	PushManager.prototype.getSubscription = async () => subscription();
	PushManager.prototype.subscribe = async ({ userVisibleOnly, applicationServerKey }) => {
		if (!userVisibleOnly || Notification.permission !== 'granted') throw new DOMException('no', 'NotAllowedError');
		const pair = await crypto.subtle.generateKey({ name: 'ECDH', namedCurve: 'P-256' }, true, ['deriveBits']);
		const keys = { p256dh: text(await crypto.subtle.exportKey('raw', pair.publicKey)), auth: text(crypto.getRandomValues(new Uint8Array(16))) };
		localStorage.setItem('test.push', JSON.stringify({ endpoint: 'https://push.example/' + crypto.randomUUID(), expirationTime: null, keys, key: text(applicationServerKey) }));
		return subscription();
	};
})();
`

const (
	// consoleWorker is the registration of the console's worker.
	consoleWorker = `navigator.serviceWorker.getRegistration('/console')`
	// isCalled is whether this login is called while the console is closed, as the server says.
	isCalled = `fetch('/api/v1/agent/sessions').then((r) => r.json()).then((v) => v.sessions.find((s) => s.current).push === true)`
)

// mayNotify makes the browser of a profile allow notifications of the desk's pages.
func (b *profile) mayNotify(d *desk) {
	b.t.Helper()
	_, err := cdp.Call(testkit.Context(b.t), b.browser.process(), browser.SetPermission, browser.SetPermissionParams{
		Permission: &browser.PermissionDescriptor{Name: "notifications"}, Setting: browser.PermissionSettingGranted, Origin: d.url(""), BrowserContextID: b.id,
	})
	if err != nil {
		b.t.Fatal(err)
	}
}

// delivered gives a message to the console's worker, as a push service would through the browser, until a condition holds:
// a busy browser may lose what it is given by this command.
func (p *tab) delivered(d *desk, text, what, condition string) {
	p.t.Helper()
	id := p.workerOf(d)
	defer call(p, serviceworker.Disable, cdp.Empty{})
	testkit.Eventually(p.t, p.name+": "+what+"\n\t"+condition, func() bool {
		call(p, serviceworker.DeliverPushMessage, serviceworker.DeliverPushMessageParams{Origin: d.url(""), RegistrationID: id, Data: text})
		holds, err := eval[bool](p, looks(condition, 200))
		return err == nil && holds
	})
}

// workerOf returns the browser's name of the registration of the console's worker, which the browser tells from here on.
func (p *tab) workerOf(d *desk) serviceworker.RegistrationID {
	p.t.Helper()
	updates := chromedp.Events(p.ctx, serviceworker.WorkerRegistrationUpdated)
	found := make(chan serviceworker.RegistrationID, 1)
	go func() { // ends with the registration, or with the context of the tab
		for u, err := range updates {
			if err != nil {
				return
			}
			for _, r := range u.Registrations {
				if r.ScopeURL == d.url("/console") {
					found <- r.RegistrationID
					return
				}
			}
		}
	}()
	call(p, serviceworker.Enable, cdp.Empty{})
	return testkit.Receive(p.t, "the registration", found)
}

// TestConsoleIsInstalledAndCalled installs what the console brings: a manifest without errors and a worker of its own. An
// agent who says yes to the question is subscribed, sees so in the list of logins, and is shown what comes. Back in the
// console it goes, and the menu ends it.
func TestConsoleIsInstalledAndCalled(t *testing.T) {
	b := whole.profile(t, "en")
	d := newDesk(t)
	d.colleague("lin", "Lin Chen", perm.Agent, 5)
	p := b.open("agent", desktop, 800, "about:blank")
	p.before(pushService)
	b.mayNotify(d)
	p.navigate(d.url("/console"))
	manifest := call(p, page.GetAppManifest, page.GetAppManifestParams{})
	if len(manifest.Errors) > 0 || !strings.HasPrefix(manifest.URL, d.url("/assets/console.")) || !strings.Contains(manifest.Data, `"start_url": "/console"`) {
		t.Errorf("%+v", manifest)
	}
	login(p, "lin", "lin")
	p.visible("alerts-ask")
	p.until("the question says it all", node("alerts-ask")+`.textContent.includes('or the console is closed')`)
	p.shot("ask")
	p.click("alerts-ask-on")
	p.gone("alerts-ask")
	p.until("the worker works, for the console alone", consoleWorker+`.then((r) => r?.active?.scriptURL === location.origin + '/console/worker.js' && r.scope === location.origin + '/console')`)
	p.until("the server knows", isCalled)
	p.until("by its key", `fetch('/api/v1/agent/me').then((r) => r.json()).then((v) => v.agent.push === JSON.parse(localStorage.getItem('test.push')).key)`)
	p.click("menu-button")
	p.until("the menu says so", node("alerts-push")+`.checked && `+node("alerts-notify")+`.checked`)
	p.shot("menu")
	p.resize(360, 740)
	p.until("nothing is wider than a phone", `document.documentElement.scrollWidth <= innerWidth`)
	p.shot("menu-phone")
	p.resize(desktop, 800)
	p.click("menu-sessions")
	p.until("so does the list of logins", node("session")+`.textContent.includes('called while the console is closed')`)
	p.press("\x1b")
	const shown = consoleWorker + `.then((r) => r.getNotifications()).then((all) => all.map((n) => n.title).join() === `
	p.delivered(d, `{"title":"3 new messages in 2 chats","lang":"en"}`, "the call is shown", shown+`'3 new messages in 2 chats')`)
	p.delivered(d, `{"title":"4 new messages in 2 chats","lang":"en"}`, "the next one takes its place", shown+`'4 new messages in 2 chats')`)
	p.reload()
	p.until("the agent is here, so it goes", shown+`'')`)
	p.until("still called", isCalled)
	p.click("menu-button")
	p.click("alerts-push")
	p.until("no more", isCalled+`.then((is) => !is && localStorage.getItem('test.push') === null)`)
	p.until("notifications stay", node("alerts-notify")+`.checked && !`+node("alerts-push")+`.checked`)
	p.click("alerts-push")
	p.until("and again", isCalled)
	p.press("\x1b")
	p.click("menu-button")
	p.click("logout")
	p.visible("login-user")
	p.clean()
}

// TestConsoleWithoutPush asks and notifies as ever where the browser has no push, or the operator wants none.
func TestConsoleWithoutPush(t *testing.T) {
	b := startBrowser(t, "zh-CN")
	for name, c := range map[string]struct{ script, flag string }{
		"browser": {`delete window.PushManager;`, "--push=true"}, "operator": {pushService, "--push=false"},
	} {
		d := newDesk(t, c.flag)
		d.colleague("lin", "Lin Chen", perm.Agent, 5)
		p := b.browser.newProfile(t, b.lang).open(name, desktop, 800, "about:blank")
		p.before(c.script)
		p.before(unseen)
		p.navigate(d.url("/console"))
		login(p, "lin", "lin")
		p.visible("alerts-ask")
		p.until("the question is the old one", `!`+node("alerts-ask")+`.textContent.includes('关闭工作台')`)
		p.click("alerts-ask-on")
		p.gone("alerts-ask")
		p.click("menu-button")
		p.until("notifications are on, and nothing else is offered", node("alerts-notify")+`.checked && !`+node("alerts-push"))
		p.until("there is no worker", consoleWorker+`.then((r) => r === undefined)`)
		p.press("\x1b")
		d.visit("hello")
		p.until("the queue calls", `window.notified.length === 1`)
		p.clean()
	}
}
