package e2e

import (
	"fmt"
	"slices"
	"testing"
)

// login fills in the console's form.
func login(p *tab, name, password string) {
	p.t.Helper()
	p.fill("login-user", name)
	p.fill("login-password", password)
	p.click("login-submit")
	loginAnswered(p)
}

// loginAnswered waits until the form has been accepted or refused. A server that is too slow for a login says so, and is asked again.
func loginAnswered(p *tab) {
	p.t.Helper()
	p.until("the login is answered", `((e, b) => { if (b && /could not log you in|暂时无法登录/.test(e?.textContent)) { b.click(); return false; } return e || !b; })(`+node("login-error")+`, `+node("login-submit")+`)`)
}

// sameStory checks that both pages show the same messages, each once, in the
// order of their sequence numbers, with every own message acknowledged.
func sameStory(t *testing.T, customer, agent *tab) {
	t.Helper()
	unfold(agent)
	seen := map[string][]string{}
	for _, p := range []*tab{customer, agent} {
		last := 0
		for _, m := range p.messages() {
			if m.Seq <= last {
				t.Errorf("%s: %q has number %d after %d", p.name, m.Text, m.Seq, last)
			}
			last = m.Seq
			if m.From == "me" && m.State != "accepted" {
				t.Errorf("%s: %q is %s", p.name, m.Text, m.State)
			}
			seen[p.name] = append(seen[p.name], m.Text)
		}
	}
	if !slices.Equal(seen[customer.name], seen[agent.name]) {
		t.Errorf("the pages differ:\n%s: %q\n%s: %q", customer.name, seen[customer.name], agent.name, seen[agent.name])
	}
}

// unfold shows what the bot said before people took over.
func unfold(agent *tab) {
	agent.t.Helper()
	agent.until("the bot's talk is unfolded", `((closed) => { for (const n of closed) n.click(); return closed.length === 0; })([...document.querySelectorAll('[data-testid="bot-fold-button"][aria-expanded="false"]')].filter((n) => n.checkVisibility()))`)
}

// ownInOrder checks that the texts are on the page, each once and in this order.
func ownInOrder(t *testing.T, p *tab, texts []string) {
	t.Helper()
	var got []string
	for _, m := range p.messages() {
		if slices.Contains(texts, m.Text) {
			got = append(got, m.Text)
		}
	}
	if !slices.Equal(got, texts) {
		t.Errorf("%s shows %q, want %q", p.name, got, texts)
	}
}

// hurry presses "try now" when the page waits for its next attempt; what is
// being tested is that it comes back, not how long its back-off is.
func hurry(p *tab) {
	p.t.Helper()
	p.until("the connection is back", `((b) => { if (b && b.checkVisibility()) b.click(); const host = document.querySelector('[data-testid="banner"]'); return host.hidden; })(document.querySelector('[data-testid="banner-retry"]'))`)
}

// typing begins to look whether the page says that the other side types; what it returns waits until the page has said
// so. The page says it for some seconds only: who asks afterwards may be too late.
func (p *tab) typing(what string) (seen func()) {
	p.t.Helper()
	value[bool](p, `((look) => { window.sawTyping = false; look.observe(document.body, {subtree: true, childList: true, attributes: true}); return true; })(
		new MutationObserver((_, look) => { if (`+node("typing")+`) { window.sawTyping = true; look.disconnect(); } }))`)
	return func() {
		p.t.Helper()
		p.until(what, `window.sawTyping`)
	}
}

// meet brings a customer and an agent together in one chat.
func meet(t *testing.T, d *desk, b *profile) (customer, agent *tab) {
	t.Helper()
	customer = b.open("customer", phone, 740, d.url("/chat/demo"))
	customer.until("the bot greets", messagesOf+`.some((m) => m.From === 'bot')`)
	customer.click("talk-to-person")
	customer.visible("queue-position")
	agent = b.open("agent", desktop, 800, d.url("/console"))
	login(agent, d.login, d.password)
	agent.click("queue-row")
	agent.click("take")
	agent.visible("composer")
	customer.until("the agent is shown", `document.querySelector('[data-testid="customer"]').dataset.state === 'assigned'`)
	return customer, agent
}

// TestCustomerAndAgentChatInBrowsers is the product's main story, with a
// forced reload of both pages and a restart of the server in the middle.
func TestCustomerAndAgentChatInBrowsers(t *testing.T) {
	b := startBrowser(t, "en")
	d := newDesk(t)

	customer := b.open("customer", phone, 740, d.url("/chat/demo"))
	customer.until("the bot greets", messagesOf+`.some((m) => m.From === 'bot')`)
	customer.shot("1-greeting")
	customer.click("talk-to-person")
	customer.until("the queue position is shown", `document.querySelector('[data-testid="queue-card"]').dataset.position === '1'`)
	customer.send("I am waiting")
	customer.until("it is acknowledged", accepted("I am waiting"))
	customer.shot("2-queue")

	agent := b.open("agent", desktop, 800, d.url("/console"))
	login(agent, d.login, d.password+"x")
	agent.visible("login-error")
	if got := agent.text("login-error"); got != "Login or password is wrong." {
		t.Errorf("a wrong password shows %q", got)
	}
	agent.until("another attempt is allowed", `!document.querySelector('[data-testid="login-submit"]').disabled`)
	login(agent, d.login, d.password)
	agent.click("queue-row")
	agent.until("the waiting chat can be read", shows("I am waiting"))
	agent.shot("3-preview")
	agent.click("take")
	agent.visible("composer")
	customer.gone("queue-card")

	seen := customer.typing("the agent is seen typing")
	agent.fill("composer", "Hello, how can ")
	seen()
	agent.press("I help?")
	agent.enter()
	agent.until("the agent has a tick", accepted("Hello, how can I help?"))
	customer.until("the customer reads it", shows("Hello, how can I help?"))
	seen = agent.typing("the customer is seen typing")
	customer.fill("composer", "My order is ")
	seen()
	customer.press("late")
	customer.enter()
	customer.until("the customer has a tick", accepted("My order is late"))
	agent.until("the agent reads it", shows("My order is late"))
	agent.until("the list shows the last word", node("row-preview")+`.textContent === 'My order is late'`)
	sameStory(t, customer, agent)
	customer.shot("4-chat")
	agent.shot("4-chat")

	customer.reload()
	agent.reload()
	customer.until("the customer's page is back", shows("My order is late"))
	agent.click("mine-row")
	agent.until("the agent's page is back", shows("My order is late"))
	sameStory(t, customer, agent)

	fromCustomer, fromAgent := restartWhileTyping(t, d, customer, agent)
	ownInOrder(t, customer, fromCustomer)
	ownInOrder(t, agent, fromCustomer)
	ownInOrder(t, customer, fromAgent)
	ownInOrder(t, agent, fromAgent)
	sameStory(t, customer, agent)
	customer.shot("6-after-restart")
	agent.shot("6-after-restart")

	agent.send("Goodbye")
	customer.until("the goodbye arrives", shows("Goodbye"))
	agent.until("the goodbye is acknowledged", accepted("Goodbye"))
	agent.click("close-chat")
	customer.visible("closed-card")
	agent.visible("chat-closed")
	sameStory(t, customer, agent)
	customer.shot("7-closed")
	agent.shot("7-closed")

	customer.click("start-again")
	const newChat = `document.querySelector('[data-testid="customer"]').dataset.state === 'new' && ` + messagesOf + `.length === 1`
	customer.until("a new chat may begin, with the bot", newChat)
	customer.reload()
	customer.until("the new chat is shown, not the closed one", newChat)
	customer.clean()
	agent.clean()
}

// restartWhileTyping stops the server, lets both write, starts it again, and
// waits until both pages show everything.
func restartWhileTyping(t *testing.T, d *desk, customer, agent *tab) (fromCustomer, fromAgent []string) {
	t.Helper()
	write := func(phase string, n int) {
		for i := range n {
			c, a := fmt.Sprintf("customer %s %d", phase, i), fmt.Sprintf("agent %s %d", phase, i)
			customer.send(c)
			agent.send(a)
			fromCustomer, fromAgent = append(fromCustomer, c), append(fromAgent, a)
		}
	}
	write("before", 2) // their acks may or may not arrive
	d.stop()
	for _, p := range []*tab{customer, agent} {
		p.until("the lost connection is shown", `!document.querySelector('[data-testid="banner"]').hidden`)
	}
	write("during", 2)
	customer.shot("5-server-down")
	agent.shot("5-server-down")
	d.start()
	hurry(customer)
	hurry(agent)
	write("after", 1)
	for _, text := range fromCustomer {
		customer.until(text+" has its tick", accepted(text))
		agent.until(text+" arrives", shows(text))
	}
	for _, text := range fromAgent {
		agent.until(text+" has its tick", accepted(text))
		customer.until(text+" arrives", shows(text))
	}
	return fromCustomer, fromAgent
}

// TestUnsentMessagesSurviveLeavingThePage writes while the server is killed,
// leaves both pages, and finds everything sent after coming back.
func TestUnsentMessagesSurviveLeavingThePage(t *testing.T) {
	b := startBrowser(t, "en")
	d := newDesk(t)
	customer, agent := meet(t, d, b)
	customer.send("before")
	agent.until("before arrives", shows("before"))

	d.kill()
	texts := []string{"kept one", "kept two", "kept three"}
	for _, text := range texts {
		customer.send(text)
	}
	agent.fill("composer", "a draft")
	customer.navigate("about:blank")
	agent.navigate("about:blank")
	d.start()
	customer.navigate(d.url("/chat/demo"))
	agent.navigate(d.url("/console"))
	for _, text := range texts {
		customer.until(text+" is sent", accepted(text))
	}
	agent.click("mine-row")
	for _, text := range texts {
		agent.until(text+" arrives", shows(text))
	}
	ownInOrder(t, customer, append([]string{"before"}, texts...))
	ownInOrder(t, agent, append([]string{"before"}, texts...))
	sameStory(t, customer, agent)
	if got := value[string](agent, node("composer")+".value"); got != "a draft" {
		t.Errorf("the draft is %q", got)
	}
	customer.clean()
	agent.clean()
}
