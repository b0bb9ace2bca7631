package e2e

import (
	"encoding/json"
	"testing"
)

// TestHostileTextStaysText sends markup and script links from both sides and
// sees them shown as the text they are, with nothing run and nothing loaded.
func TestHostileTextStaysText(t *testing.T) {
	b := startBrowser(t, "en")
	d := newDesk(t)
	customer, agent := meet(t, d, b)
	payloads := []string{
		`<img src=x onerror="window.ran=1">`,
		`<script>window.ran=1</script>`,
		`javascript:window.ran=1`,
		`<a href="javascript:window.ran=1">click</a>`,
		`"><svg onload=window.ran=1>`,
		`{{constructor.constructor('window.ran=1')()}}`,
	}
	for _, text := range payloads {
		customer.send(text)
		agent.until(text+" arrives", shows(text))
		agent.send("re: " + text)
		customer.until("the answer to "+text+" arrives", shows("re: "+text))
	}
	customer.send("see https://example.com/path and javascript:alert(1)")
	agent.until("the link arrives", shows("see https://example.com/path and javascript:alert(1)"))
	for _, p := range []*tab{customer, agent} {
		if value[bool](p, `'ran' in window`) {
			t.Errorf("%s: a message ran as script", p.name)
		}
		if n := value[int](p, `document.querySelectorAll('[data-testid="log"] :is(img, script, svg:not(.icon), iframe)').length`); n != 0 {
			t.Errorf("%s: %d elements came out of messages", p.name, n)
		}
		links := value[[]map[string]string](p, `[...document.querySelectorAll('[data-testid="message-text"] a')].map((a) => ({href: a.href, rel: a.rel}))`)
		if len(links) != 1 || links[0]["href"] != "https://example.com/path" || links[0]["rel"] != "noopener noreferrer nofollow" {
			t.Errorf("%s: links are %v", p.name, links)
		}
		p.shot("text")
	}
	hostilePayloads(customer)
	customer.clean()
	agent.clean()
}

// hostile is what people write who want a page to run it.
var hostile = []string{
	`<script>window.ran=1</script>`, `<img src=x onerror=window.ran=1>`, `<svg/onload=window.ran=1>`, `"><svg onload=window.ran=1>`, `'-window.ran=1-'`,
	`<iframe srcdoc="<script>parent.ran=1</script>">`, `<iframe src="javascript:parent.ran=1">`, `<object data="javascript:window.ran=1">`, `<embed src="javascript:window.ran=1">`,
	`<a href="javascript:window.ran=1">x</a>`, `javascript:window.ran=1`, `JaVaScRiPt:window.ran=1`, "java\tscript:window.ran=1", "java\nscript:window.ran=1", `javascript://example.com/%0awindow.ran=1`,
	`data:text/html,<script>window.ran=1</script>`, `vbscript:window.ran=1`, `blob:https://example.com/x`, `file:///etc/passwd`,
	`https://example.com/"onmouseover="window.ran=1`, `https://example.com/'onclick='window.ran=1`, `http://example.com/<script>window.ran=1</script>`, `https://user:pass@example.com/`,
	`mailto:a@example.com?body=<script>window.ran=1</script>`, `tel:+1<script>window.ran=1</script>`,
	`<style>@import'javascript:window.ran=1';</style>`, `<link rel=stylesheet href=javascript:window.ran=1>`, `<meta http-equiv=refresh content="0;url=javascript:window.ran=1">`, `<base href="https://example.com/">`,
	`<form action=javascript:window.ran=1><button>x</button></form>`, `<details open ontoggle=window.ran=1>`, `<video><source onerror=window.ran=1>`, `<math><mtext></mtext><script>window.ran=1</script></math>`,
	`<template><script>window.ran=1</script></template>`, `&lt;script&gt;window.ran=1&lt;/script&gt;`, `\u003cscript\u003ewindow.ran=1\u003c/script\u003e`, `${window.ran=1}`, `{{constructor.constructor('window.ran=1')()}}`,
	"\u202e\u2066<script>window.ran=1</script>", "<scr\x00ipt>window.ran=1</scr\x00ipt>", `]]><script>window.ran=1</script>`, `<!--><script>window.ran=1</script>-->`, `__proto__`, `constructor`,
}

// hostilePayloads puts each of them wherever the customer page shows what
// others wrote: texts, names, buttons, notices, the site's own words.
func hostilePayloads(p *tab) {
	p.t.Helper()
	list, _ := json.Marshal(hostile)
	left := value[[]string](p, `(async () => {
		const { MessageList } = await import('/assets/js/core/message-list.js');
		const { PreChat } = await import('/assets/js/customer/prechat.js');
		const { describe, nameOf } = await import('/assets/js/customer/words.js');
		const host = document.createElement('div');
		const form = document.createElement('div');
		document.body.append(host, form);
		const view = new MessageList({ host, mine: (from) => from.kind === 'customer', describe, nameOf, onButton() {}, onRetry() {}, onDiscard() {} });
		const payloads = `+string(list)+`;
		const wrong = [];
		let s = 0;
		for (const x of payloads) {
			const time = Date.now();
			const from = { kind: 'agent', id: x, name: x };
			view.append({ t: 'ev.msg', s: ++s, d: { from, body: x, time, client_id: x } });
			view.append({ t: 'ev.msg', s: ++s, d: { from: { kind: 'bot', name: x }, body: x, time, buttons: [{ label: x, value: x }] } });
			view.append({ t: 'ev.msg', s: ++s, d: { kind: 'notice', from: { kind: 'system' }, body: x, payload: x, time } });
			view.append({ t: 'ev.state', s: ++s, d: { event: 'taken', state: 'assigned', owner: from, by: from, reason: x, time } });
			view.append({ t: 'ev.state', s: ++s, d: { event: x, state: x, by: from, reason: x, time } });
			view.setPending([{ client_id: x + s, at: time, body: { body: x }, state: 'failed', code: x }]);
			view.setTyping(x);
			const texts = [...view.log.querySelectorAll('[data-testid="message-text"]')].slice(-2).map((n) => n.textContent);
			if (texts.some((text) => text !== x)) wrong.push(x);
			new PreChat(form, () => {}).show({ greeting: x, consent: x, prechat: [{ name: x, label: x, type: x, required: true }] });
		}
		await new Promise((done) => setTimeout(done)); // whatever was started has its turn
		for (const n of document.querySelectorAll('script, iframe, object, embed, style, meta[http-equiv], base, img, video, template, math, details')) {
			if (host.contains(n) || form.contains(n)) wrong.push(n.outerHTML);
		}
		for (const a of host.querySelectorAll('a')) {
			if (!/^(https?|mailto|tel):/.test(a.protocol + '') || a.rel !== 'noopener noreferrer nofollow' || a.target !== '_blank') wrong.push(a.outerHTML);
		}
		for (const n of [...host.querySelectorAll('*'), ...form.querySelectorAll('*')]) {
			for (const attribute of n.getAttributeNames()) if (/^on/i.test(attribute) || attribute === 'style') wrong.push(n.outerHTML);
		}
		if ('ran' in window) wrong.push('a script ran');
		return wrong;
	})()`)
	for _, w := range left {
		p.t.Errorf("%s", w)
	}
}
