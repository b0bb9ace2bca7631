package e2e

import (
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
		p.clean()
	}
}
