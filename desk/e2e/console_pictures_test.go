package e2e

import (
	"fmt"
	"testing"

	"github.com/go-eddy/eddy/desk/perm"
)

// TestConsolePictures takes pictures of the console in every size, theme and language, and checks what can be
// checked of them: nothing is wider than the screen, and no text is missing.
func TestConsolePictures(t *testing.T) {
	b := startBrowser(t, "en")
	d := newDesk(t)
	d.replies()
	d.colleague("lin", "Lin Chen", perm.Supervisor, 5)
	d.colleague("amy", "Amy Wood", perm.Agent, 3)
	v := d.visit("Hello, my order 20731 has not arrived. It was promised for Monday, and I am leaving on Thursday.")
	d.visit("你好，请问什么时候可以退款？")
	d.visit("Is the blue one in stock?")
	d.takeAll("amy", []*visitor{d.visit("Can I change my address?")})
	agent := d.console(b, "agent", "lin", "lin", 1280, 800)
	agent.shot("en-list")
	agent.click("queue-row")
	agent.click("take")
	agent.send("Good morning! I am looking for your order now.")
	v.hears("Good morning! I am looking for your order now.")
	v.say("Thank you. See https://shop.example/orders/20731")
	agent.click("mode-note")
	agent.fill("composer", "Parcel is in Basel since Friday, carrier asked.")
	agent.enter()
	agent.click("mode-answer")
	agent.fill("tag-field", "delivery, vip")
	agent.enter()
	agent.until("the tags are shown", `document.querySelectorAll('[data-testid="tag"]').length === 2`)
	agent.visible("attributes")
	for _, language := range []string{"en", "zh-CN"} {
		agent.click("menu-button")
		agent.choose("language", language)
		agent.shot(language + "-menu")
		agent.press("\x1b")
		for _, dark := range []bool{false, true} {
			agent.media(map[bool]string{false: "light", true: "dark"}[dark], "no-preference")
			for _, width := range []int64{360, 1280, 1680} {
				height := map[int64]int64{360: 740, 1280: 800, 1680: 1050}[width]
				agent.resize(width, height)
				agent.until("nothing is wider than the screen", fmt.Sprintf(`innerWidth === %d && document.documentElement.scrollWidth <= innerWidth`, width))
				agent.shot(fmt.Sprintf("%s-%d-%s", language, width, map[bool]string{false: "light", true: "dark"}[dark]))
			}
		}
		agent.media("light", "no-preference")
		agent.resize(1280, 800)
		agent.key("t")
		agent.visible("transfer-dialog")
		agent.shot(language + "-transfer")
		agent.press("\x1b")
		agent.gone("transfer-dialog")
		agent.key("?")
		agent.visible("keys")
		agent.shot(language + "-keys")
		agent.press("\x1b")
		agent.gone("keys")
	}
	agent.clean()
}

// TestConsoleOfflineAndBack writes an answer and a note while the server is away; both arrive, once, in order.
func TestConsoleOfflineAndBack(t *testing.T) {
	b := startBrowser(t, "zh-CN")
	d := newDesk(t)
	v := d.visit("在吗？")
	agent := d.console(b, "agent", d.login, d.password, 1280, 800)
	agent.click("queue-row")
	agent.click("take")
	agent.send("在的")
	v.hears("在的")
	d.stop()
	agent.until("the lost connection is shown", `!document.querySelector('[data-testid="banner"]').hidden`)
	agent.until("the quality says so, too", node("quality")+`.textContent === '未连接'`)
	agent.send("马上为您查询")
	agent.click("mode-note")
	agent.fill("composer", "她很着急")
	agent.enter()
	agent.click("mode-answer")
	agent.send("请稍等")
	agent.shot("offline")
	d.start()
	hurry(agent)
	agent.until("the answers are sent", accepted("马上为您查询")+" && "+accepted("请稍等"))
	agent.until("the note is kept", `[...document.querySelectorAll('[data-testid="note"]')].some((n) => Number(n.dataset.seq) > 0)`)
	v.hears("请稍等")
	ownInOrder(t, agent, []string{"在的", "马上为您查询", "请稍等"})
	agent.clean()
}
