package e2e

import (
	"fmt"
	"testing"
)

// look takes pictures of a page and goes back to the size of a desktop.
func look(p *tab, name string) {
	p.t.Helper()
	p.named(name)
	p.resize(phone, 740)
	if wide := value[bool](p, `document.documentElement.scrollWidth > innerWidth`); wide {
		p.t.Errorf("%s is wider than its window", name)
	}
	pictures(p, name)
	p.resize(desktop, 800)
}

// tile is the expression for the number on a tile of the wall.
func tile(name string) string {
	return fmt.Sprintf(`document.querySelector('[data-testid="tile-%s"] .tile-number').textContent`, name)
}

// agentSays is the expression for what the wall shows about the agent with a name.
func agentSays(name, testid string) string {
	return fmt.Sprintf(`([...document.querySelectorAll('[data-testid="agent"]')].find((n) => n.querySelector('.agent-name b').textContent === %q)?.querySelector('[data-testid=%q]')?.textContent ?? '')`, name, testid)
}

// TestAdministratorSetsUpATeam adds an agent, a group and a canned reply, logs
// in as the agent, and sees on the wall what happens, as it happens.
func TestAdministratorSetsUpATeam(t *testing.T) {
	b := startBrowser(t, "en")
	d := newDesk(t)
	boss := b.open("boss", desktop, 800, d.url("/console"))
	login(boss, d.login, d.password)
	boss.visible("console")

	boss.navigate(d.url("/admin"))
	boss.press("\t")
	boss.until("the first stop leads to the content", `document.activeElement.classList.contains('skip')`)
	look(boss, "admin")
	speak := func(lang, title string) {
		value[bool](boss, fmt.Sprintf(`(document.querySelector('select[name="lang"]').value = %q, true)`, lang))
		boss.click("language-set")
		boss.until("the page speaks "+lang, fmt.Sprintf(`document.documentElement.lang === %q && document.querySelector('h1').textContent === %q`, lang, title))
	}
	speak("zh-CN", "概览")
	boss.shot("admin-zh")
	speak("en", "Overview")
	boss.click("nav-groups")
	boss.visible("empty")
	look(boss, "groups-empty")
	boss.click("new")
	boss.fill("field-name", "Sales")
	boss.fill("field-target", "60")
	boss.click("save")
	boss.visible("done")
	look(boss, "group")

	boss.click("nav-sites")
	boss.click("site-row-link")
	boss.click("rules")
	boss.fill("field-rule_page_0", "/returns")
	boss.choose("field-rule_priority_0", "high")
	boss.fill("field-try_page", "https://shop.example/returns")
	boss.click("try")
	boss.until("the rule would decide", node("tried")+`.textContent.startsWith('Rule 1 fits. Group: Everybody. Priority: High.')`)
	look(boss, "rules")
	boss.click("save")
	boss.visible("done")

	boss.click("nav-agents")
	boss.click("new")
	boss.fill("field-login", "Lin Wei")
	boss.click("save")
	boss.visible("error-login")
	look(boss, "agent-errors")
	if got := value[string](boss, node("field-login")+".value"); got != "Lin Wei" {
		t.Errorf("after an error the field holds %q", got)
	}
	boss.fill("field-login", "lin")
	boss.fill("field-name", "Lin Wei")
	boss.fill("field-capacity", "2")
	boss.click("save")
	boss.visible("once-text")
	password := boss.text("once-text")
	look(boss, "agent-added")
	boss.reload()
	boss.gone("once-text")

	boss.click("nav-canned")
	boss.visible("empty")
	boss.click("new")
	boss.fill("field-short", "hi")
	boss.fill("field-title", "Greeting")
	boss.write("field-body", "Hello {{name}},\nhow can I help you?")
	boss.click("save")
	boss.visible("done")
	boss.write("field-body", "Good day {{name}},\nhow can I help you?")
	boss.click("save")
	boss.until("it is saved", `document.querySelector('textarea')?.defaultValue.includes('Good day')`)
	boss.click("nav-canned")
	boss.until("the reply is listed as it was changed", `document.querySelector('[data-testid="canned-row"]').textContent.includes('Good day')`)
	look(boss, "canned")
	boss.click("nav-sites")
	boss.click("site-row-link")
	boss.visible("embed")
	look(boss, "site")
	boss.click("nav-bots")
	boss.click("new")
	boss.fill("field-name", "Guide")
	boss.click("rules-add")
	boss.until("there is one more rule", `document.querySelectorAll('[data-rows="rules"] > li').length === 3`)
	boss.fill("field-rules[2].name", "returns")
	boss.write("field-rules[2].keywords", "return")
	boss.write("field-rules[2].reply[0].en", "Within 30 days.")
	value[bool](boss, `(document.querySelector('button[value="rules[2].up"]').click(), true)`)
	boss.until("it is the second now", node("field-rules[1].name")+`.value === 'returns'`)
	boss.fill("field-try", "May I return it?")
	boss.click("try-send")
	boss.until("the tryout answers by it, unsaved", node("tried-why")+`?.textContent.includes('returns') && `+node("tried-said")+`.textContent === 'Within 30 days.'`)
	boss.until("the page has gone to its answer, which takes the focus", `document.readyState === 'complete' && new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))`)
	boss.fill("field-rules[1].name", "No name")
	boss.click("save")
	boss.until("the mistake is told at its field", node("error-rules[1].name")+`?.textContent.includes('"No name"')`)
	look(boss, "bot-errors")
	boss.click("nav-audit")
	boss.until("everything is written down", `document.querySelectorAll('[data-testid="audit-row"]').length >= 5`)
	look(boss, "audit")

	boss.navigate(d.url("/wall"))
	boss.until("the wall is live", tile("open")+` === '0'`)
	boss.until("the group's target is there", `[...document.querySelectorAll('[data-testid="group-target"]')].some((n) => n.textContent === 'Last hour – in time; target 80% in 1 min')`)
	boss.until("Lin is offline", agentSays("Lin Wei", "agent-status")+` === 'Offline'`)
	lin := b.stranger("lin", desktop, 800, d.url("/console"))
	login(lin, "lin", password)
	boss.until("Lin is online", agentSays("Lin Wei", "agent-status")+` === 'Online'`)
	customer := b.stranger("customer", phone, 740, d.url("/chat/demo"))
	customer.click("talk-to-person")
	customer.visible("queue-position")
	customer.send("Where is my order?")
	boss.until("one customer waits", tile("waiting")+` === '1' && document.querySelectorAll('[data-testid="queue"] a').length === 1`)
	lin.click("queue-row")
	lin.click("take")
	lin.send("Let me look.")
	boss.until("nobody waits, and Lin has a chat", tile("waiting")+` === '0' && `+agentSays("Lin Wei", "agent-load")+` === '1 of 2 chats'`)
	boss.until("the first answer is counted", tile("first")+` !== '–'`)
	boss.until("the arrival is in the chart", `document.querySelector('[data-testid="chart-arrivals"]').textContent.includes('1 entered')`)
	second := b.stranger("second", phone, 740, d.url("/chat/demo"))
	second.click("talk-to-person")
	second.visible("queue-position")
	boss.until("another customer waits", tile("waiting")+` === '1'`)
	look(boss, "wall")
	loads := value[float64](boss, `performance.getEntriesByType('navigation').length`)
	boss.choose("language", "zh-CN")
	boss.until("the wall speaks Chinese", agentSays("Lin Wei", "agent-load")+` === '1 / 2 个对话'`)
	look(boss, "wall-zh")
	boss.choose("language", "en")
	if again := value[float64](boss, `performance.getEntriesByType('navigation').length`); again != loads {
		t.Error("the wall was loaded again")
	}

	value[bool](boss, `((s) => { s.value = 'away'; return s.dispatchEvent(new Event('change', {bubbles: true})); })([...document.querySelectorAll('[data-testid="agent"]')].find((n) => n.textContent.includes('Lin Wei')).querySelector('select'))`)
	boss.until("Lin is away", agentSays("Lin Wei", "agent-status")+` === 'Away'`)
	value[bool](boss, `([...document.querySelectorAll('[data-testid="agent"]')].find((n) => n.textContent.includes('Lin Wei')).querySelector('[data-testid="force-logout"]').click(), true)`)
	boss.click("dialog-confirm")
	lin.visible("login-user")

	boss.click("nav-reports")
	boss.until("the last day is reported", `[...document.querySelectorAll('[data-testid="report-row"]')].at(-1)?.querySelector('[data-column="arrived"]').textContent === '2 before: 0'`)
	boss.until("the whole period, too, and drawn", node("sum-arrived")+`.textContent.includes('2before: 0') && document.querySelector('[data-testid="chart-chats"] rect') !== null`)
	boss.choose("measure", "wait")
	boss.until("another number is drawn", node("chart-more")+`.querySelector('strong').textContent === 'Wait'`)
	look(boss, "reports")
	boss.choose("by", "agent")
	boss.until("Lin is reported", `[...document.querySelectorAll('[data-testid="report-row"]')].some((r) => r.textContent.includes('Lin Wei'))`)
	boss.until("there is a site to choose", node("filter-site")+`?.options.length > 1`)
	value[string](boss, `((s) => { s.value = s.options[1].value; s.dispatchEvent(new Event('change', {bubbles: true})); return s.value; })(`+node("filter-site")+`)`)
	boss.until("Lin is reported in the site, too, and the file is of the same", `location.search.includes('&site=') && `+node("csv")+`.href.includes('&site=') && [...document.querySelectorAll('[data-testid="report-row"]')].some((r) => r.textContent.includes('Lin Wei'))`)
	boss.fill("filter-tag", "nobody's")
	boss.enter()
	boss.until("nothing has the tag", node("empty")+`?.textContent.includes('Nothing of this choice')`)
	boss.reload()
	boss.until("the address keeps the choice", node("filter-tag")+`?.value === "nobody's" && `+node("by")+`?.value === 'agent' && `+node("filter-site")+`?.value !== '' && Boolean(`+node("empty")+`)`)
	boss.navigate(d.url("/wall/reports?site=none"))
	boss.until("a site that does not exist is named", node("trouble")+`?.textContent.includes('site is "none"')`)

	d.stop()
	boss.navigate("about:blank")
	d.start()
	boss.navigate(d.url("/wall"))
	boss.until("the numbers of the day are still there", tile("first")+` !== '–'`)
	d.stop()
	boss.until("the loss is told", node("trouble")+`?.textContent.includes('cannot be reached')`)
	boss.shot("wall-lost")
	d.start()
	boss.until("the wall is live again", `!`+node("trouble")+` && document.querySelector('#live-dot').dataset.on === 'true'`)
	for _, p := range []*tab{boss, customer, second} {
		p.clean()
	}
}
