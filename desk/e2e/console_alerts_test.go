package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pquerna/otp/totp"

	"github.com/go-eddy/eddy/desk/perm"
)

// unseen makes the page believe that nobody looks at it, and counts the notifications and tones it makes.
const unseen = `
window.tones = 0;
window.AudioContext = class {
	currentTime = 0;
	async resume() {}
	createGain() { return {connect() {}, gain: {setValueAtTime() {}, exponentialRampToValueAtTime() {}}}; }
	createOscillator() { return {connect() {}, frequency: {}, start() { window.tones++; }, stop() {}}; }
};
document.hasFocus = () => false;
window.notified = [];
window.Notification = class {
	static permission = 'default';
	static async requestPermission() { return this.permission = 'granted'; }
	constructor(title) { window.notified.push(title); }
};
`

// TestConsoleAccountAndAlerts turns on notifications, changes the password and ends another login.
func TestConsoleAccountAndAlerts(t *testing.T) {
	b := startBrowser(t, "en")
	d := newDesk(t)
	d.colleague("lin", "Lin Chen", perm.Agent, 5)
	other := d.console(b, "other", "lin", "lin", 1280, 800)
	lin := b.stranger("lin", 1280, 800, "about:blank")
	lin.before(unseen)
	lin.navigate(d.url("/console"))
	login(lin, "lin", "lin")
	lin.visible("status")
	v := d.visit("first")
	lin.visible("queue-row")
	lin.click("menu-button")
	lin.click("alerts-notify")
	lin.until("they are on", node("alerts-notify")+`.checked`)
	lin.press("\x1b")
	d.visit("second")
	lin.until("the queue calls, once", `window.notified.join() === 'A customer is waiting'`)
	lin.click("queue-row")
	lin.click("take")
	lin.visible("composer")
	v.say("hello?")
	lin.until("the customer calls", `window.notified.length === 2 && window.notified[1].startsWith('Visitor')`)
	lin.click("menu-button")
	lin.click("menu-sessions")
	lin.until("both logins are listed", `document.querySelectorAll('[data-testid="session"]').length === 2`)
	lin.shot("sessions")
	lin.click("sessions-end-others")
	lin.until("one is left", `document.querySelectorAll('[data-testid="session"]').length === 1`)
	other.visible("login-user")
	lin.press("\x1b")
	// A server that is too slow for a password says so, and is asked again.
	change := func(old, fresh, again, what, answered string) {
		lin.fill("password-old", old)
		lin.fill("password-new", fresh)
		lin.fill("password-again", again)
		lin.click("password-save")
		lin.until(what, `((e, b) => { if (/could not be changed/.test(e?.textContent) && !b.disabled) b.click(); return true; })(`+node("password-error")+`, `+node("password-save")+`) && `+answered)
	}
	lin.click("menu-button")
	lin.click("menu-password")
	for _, c := range []struct{ old, fresh, again, says string }{
		{"lin", "a quite long secret", "another one", "differ"},
		{"wrong", "a quite long secret", "a quite long secret", "current password is wrong"},
		{"lin", "short", "short", "not accepted"},
	} {
		change(c.old, c.fresh, c.again, fmt.Sprintf("it says %q", c.says), node("password-error")+fmt.Sprintf(`?.textContent.includes(%q)`, c.says))
	}
	lin.shot("password")
	change("lin", "a quite long secret", "a quite long secret", "the password is changed", `!`+node("password-dialog"))
	secondFactor(lin, other, "lin", "a quite long secret")
	lin.clean()
	other.clean()
}

// setUpFactor fills in the form of the second factor, which is on the screen, and returns what makes codes for it. The
// password is "" where the page knows it.
func setUpFactor(p *tab, password string) (code func(later time.Duration) string) {
	p.t.Helper()
	p.visible("factor-secret")
	secret := strings.ReplaceAll(p.text("factor-secret"), " ", "")
	code = func(later time.Duration) string {
		code, err := totp.GenerateCode(secret, time.Now().Add(later))
		if err != nil {
			p.t.Fatal(err)
		}
		return code
	}
	p.until("the picture is drawn", `document.querySelector('.qr')?.naturalWidth > 0`)
	if password != "" {
		p.fill("factor-password", password)
	}
	p.fill("factor-code", code(0))
	p.shot("factor")
	p.click("factor-save")
	p.until("there are ten recovery codes", `((e, b) => { if (/did not work/.test(e?.textContent) && !b.disabled) b.click(); return true; })(`+node("factor-error")+`, `+node("factor-save")+`) && document.querySelectorAll('[data-testid="factor-codes"] li').length === 10`)
	p.shot("recovery")
	p.click("factor-kept")
	p.gone("factor")
	return code
}

// secondFactor sets up the second factor of the account that is logged in, and logs it in elsewhere.
func secondFactor(p, other *tab, name, password string) {
	p.t.Helper()
	p.click("menu-button")
	p.click("menu-factor")
	code := setUpFactor(p, password)
	giveCode(other, name, password, code(30*time.Second))
}

// giveCode logs in with a password and a code of the second factor.
func giveCode(other *tab, name, password, code string) {
	other.t.Helper()
	other.fill("login-user", name)
	other.fill("login-password", password)
	other.click("login-submit")
	other.until("the code is asked for", `((e, b, c) => { if (!c && /could not log you in/.test(e?.textContent) && !b.disabled) b.click(); return c; })(`+node("login-error")+`, `+node("login-submit")+`, `+node("login-code")+`)`)
	other.shot("code")
	other.fill("login-code", code)
	other.click("login-submit")
	loginAnswered(other)
	other.visible("mine")
}

// TestConsoleAsksForAlertsOnce answers the question of the first login: an account is not asked again in this browser,
// another one is. Who has said yes hears and is notified, though the page is not the one in front.
func TestConsoleAsksForAlertsOnce(t *testing.T) {
	b := startBrowser(t, "en")
	d := newDesk(t)
	d.colleague("lin", "Lin Chen", perm.Agent, 5)
	d.colleague("amy", "Amy Wood", perm.Agent, 5)
	d.colleague("aud", "Audrey", perm.Auditor, 0)
	p := b.open("agent", desktop, 800, "about:blank")
	p.before(pushService) // who says yes is subscribed, too
	p.before(unseen)
	p.navigate(d.url("/console"))
	connected := func() {
		p.until("the console is connected", node("quality")+`?.textContent.startsWith('Connected')`)
	}
	logout := func() {
		p.click("menu-button")
		p.click("logout")
		p.visible("login-user")
	}

	login(p, "lin", "lin")
	p.visible("alerts-ask")
	p.shot("ask")
	p.click("alerts-ask-test")
	p.until("the tone is tried, nothing is on", `window.tones === 2 && window.notified.length === 0 && Notification.permission === 'default'`)
	p.click("alerts-ask-on")
	p.gone("alerts-ask")
	p.until("a tone says that the sound is on, and the browser was asked", `window.tones === 4 && Notification.permission === 'granted'`)
	p.reload()
	connected()
	p.gone("alerts-ask")
	value[bool](p, `((Notification.permission = 'granted'), true)`) // as a browser remembers it
	p.click("menu-button")
	p.until("both are on", node("alerts-sound")+`.checked && `+node("alerts-notify")+`.checked`)
	p.click("alerts-test")
	p.until("the menu tries the tone, too", `window.tones === 2`)
	v := d.visit("hello")
	p.until("a customer calls", `window.notified.join() === 'A customer is waiting'`)
	d.takeAll("lin", []*visitor{v}) // as the router gives it
	p.until("so does a chat that comes by itself", `window.notified.length === 2 && /^Visitor .* is yours now$/.test(window.notified[1])`)
	p.press("\x1b")
	logout()

	login(p, "amy", "amy")
	p.visible("alerts-ask")
	p.click("alerts-ask-later")
	p.gone("alerts-ask")
	p.reload()
	connected()
	p.gone("alerts-ask")
	p.click("menu-button")
	p.until("both are off", `!`+node("alerts-sound")+`.checked && !`+node("alerts-notify")+`.checked`)
	p.press("\x1b")
	logout()

	login(p, "aud", "aud")
	connected()
	p.gone("alerts-ask") // an auditor answers nobody
	p.clean()
}
