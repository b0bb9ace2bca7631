package e2e

import (
	"database/sql"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-eddy/eddy/internal/testkit"
)

// invite makes an invitation in the administration, and returns its link.
func invite(boss *tab, d *desk, name, role string) string {
	boss.t.Helper()
	boss.navigate(d.url("/admin/invitations/new"))
	boss.fill("field-name", name)
	boss.click("role-" + role)
	boss.click("save")
	boss.visible("once-text")
	link := boss.text("once-text")
	if !strings.HasPrefix(link, d.url("/console#invite=")) {
		boss.t.Fatalf("the link of %s is %q", name, link)
	}
	return link
}

// says is the expression for "the form of an invitation tells this mistake".
func says(words string) string {
	return node("invite-error") + `?.textContent.includes('` + words + `')`
}

// accepts fills in the form of an invitation and sends it.
func accepts(p *tab, login, password, again string) {
	p.t.Helper()
	p.fill("invite-user", login)
	p.fill("invite-password", password)
	p.fill("invite-again", again)
	p.click("invite-submit")
}

// TestInvitation: an administrator invites another one. Whoever opens the link chooses a password, sets up the second factor that
// administrators need, and lands in the console. The link works once.
func TestInvitation(t *testing.T) {
	b := startBrowser(t, "en")
	d := newDesk(t)
	boss := d.console(b, "boss", d.login, d.password, desktop, 800)
	link := invite(boss, d, "Zoe Ray", "admin")
	boss.clean()
	d.stop()
	d.flags = append(d.flags, "--second-factor", "admins")
	d.start() // an invitation outlasts that

	zoe := b.stranger("zoe", desktop, 800, link)
	zoe.visible("invite")
	zoe.until("it says who invites her, and as what", node("invite")+`.textContent.includes('Agent invites you. Your role: administrator.')`)
	zoe.until("the name is filled in, the login has the focus", node("invite-name")+`.value === 'Zoe Ray' && document.activeElement === `+node("invite-user"))
	look(zoe, "invitation")
	const good = "seven green kettles"
	accepts(zoe, "zoe", good, "seven red kettles")
	zoe.until("passwords that differ are told", node("invite-error")+`.textContent !== '' && document.activeElement === `+node("invite-again"))
	accepts(zoe, "zoe", "short", "short")
	zoe.until("a password that is easy to guess, too", says("not accepted")+` && document.activeElement === `+node("invite-password"))
	accepts(zoe, d.login, good, good)
	zoe.until("so is a login that somebody has", says("is taken")+` && document.activeElement === `+node("invite-user"))
	accepts(zoe, "zoe", good, good)
	zoe.until("the second factor comes first, and the link is out of sight", node("setup")+`?.textContent.includes('needs a second factor') && location.hash === ''`)
	zoe.visible("factor-secret")
	look(zoe, "set-up")
	code := setUpFactor(zoe, "")
	zoe.until("she is in the console", node("agent-name")+`?.textContent === 'Zoe Ray'`)
	zoe.click("menu-button")
	zoe.visible("menu-admin")

	again := b.stranger("again", desktop, 800, link)
	again.until("the link has had its use", says("used or revoked"))
	again.gone("invite")
	look(again, "used")
	again.click("invite-login")
	giveCode(again, "zoe", good, code(30*time.Second))
	again.until("she is in, with her code", node("agent-name")+`?.textContent === 'Zoe Ray'`)
	zoe.navigate(link) // put into the address of her own tab
	zoe.until("it is told there, too", says("used or revoked"))
	zoe.click("invite-login")
	zoe.visible("console")
	for _, p := range []*tab{zoe, again} {
		p.clean()
	}
}

// TestInvitationEnds: a link that is revoked or too old makes no account, for whoever has its form open already, too.
func TestInvitationEnds(t *testing.T) {
	b := startBrowser(t, "en")
	d := newDesk(t)
	boss := d.console(b, "boss", d.login, d.password, desktop, 800)
	const good = "seven green kettles"
	link := invite(boss, d, "Rex", "agent")
	rex := b.stranger("rex", phone, 740, link)
	rex.visible("invite")
	boss.click("revoke")
	boss.until("it is revoked", node("done")+` && !`+node("revoke"))
	accepts(rex, "rex", good, good)
	rex.until("whoever fills it in is told", says("used or revoked"))
	rex.reload()
	rex.until("there is no form any more", says("used or revoked")+` && !`+node("invite"))
	rex.click("invite-login")
	rex.visible("login-user")

	link = invite(boss, d, "Lea", "agent")
	lea := b.stranger("lea", phone, 740, link)
	lea.visible("invite")
	db, err := sql.Open("sqlite", "file:"+filepath.Join(d.data, "desk.db")+"?_pragma=busy_timeout(60000)")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.ExecContext(testkit.Context(t), `UPDATE invitation SET expires = created + 1 WHERE name = 'Lea'`); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	accepts(lea, "lea", good, good)
	lea.until("it is too late", says("has expired"))
	lea.reload()
	lea.until("there is no form any more", says("has expired")+` && !`+node("invite"))
	boss.reload()
	boss.until("the list says both", `['Revoked', 'Expired'].every((word) => [...document.querySelectorAll('[data-testid="invitation-row"]')].some((row) => row.textContent.includes(word)))`)
	look(boss, "invitations")
	for _, p := range []*tab{boss, rex, lea} {
		p.clean()
	}
}
