package e2e

import (
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/emulation"
)

// interactive are the roles of what can be operated.
var interactive = []string{"button", "link", "textbox", "searchbox", "combobox", "listbox", "checkbox", "switch", "radio", "menuitem", "tab", "slider", "spinbutton"}

// named checks that everything on the page that can be operated has a name for
// those who do not see it, and that nothing that takes the focus is without a role.
func (p *tab) named(where string) {
	p.t.Helper()
	text := func(v *accessibility.Value) string {
		if v == nil {
			return ""
		}
		return strings.Trim(string(v.Value), `"`)
	}
	seen := 0
	for _, n := range call(p, accessibility.GetFullAXTree, accessibility.GetFullAXTreeParams{}).Nodes {
		role, focusable := text(n.Role), false
		for _, property := range n.Properties {
			focusable = focusable || (property.Name == "focusable" && text(property.Value) == "true")
		}
		if n.Ignored || (!focusable && !slices.Contains(interactive, role)) || role == "RootWebArea" {
			continue
		}
		seen++
		if strings.TrimSpace(text(n.Name)) == "" {
			p.t.Errorf("%s, %s: a %s has no name", p.name, where, role)
		}
		if role == "generic" || role == "none" || role == "" {
			p.t.Errorf("%s, %s: %q takes the focus and has no role", p.name, where, text(n.Name))
		}
	}
	if seen == 0 {
		p.t.Errorf("%s, %s: nothing can be operated; the tree was not read", p.name, where)
	}
	p.rules(where)
}

// wantRules names a copy of axe-core, the rules of accessibility that others have written. Without it they are not asked.
const wantRules = "EDDY_AXE"

// axe is the text of that copy, read once.
var axe = sync.OnceValues(func() (string, error) {
	name := os.Getenv(wantRules)
	if name == "" {
		return "", nil
	}
	text, err := os.ReadFile(name)
	return string(text), err
})

// rules checks the page by axe-core: nothing that it calls serious or critical. The script runs as the browser's own, so
// the page keeps its policy.
func (p *tab) rules(where string) {
	p.t.Helper()
	script, err := axe()
	if err != nil {
		p.t.Fatalf("%s: %v", wantRules, err)
	}
	if script == "" {
		return
	}
	value[bool](p, `(window.axe || (() => {`+script+`})(), true)`)
	found := value[[]string](p, `axe.run(document, {resultTypes: ['violations'], iframes: false}).then(({violations}) => violations
		.filter(({impact}) => impact === 'serious' || impact === 'critical')
		.flatMap(({id, help, nodes}) => nodes.map((n) => id + ': ' + help + ': ' + n.target.join(' ') + ' ' + n.html.slice(0, 120) + ' ' + (n.any[0]?.message ?? ''))))`)
	for _, what := range found {
		p.t.Errorf("%s, %s: %s", p.name, where, what)
	}
}

// media makes the tab prefer a colour scheme and, perhaps, less motion.
func (p *tab) media(scheme, motion string) {
	p.t.Helper()
	call(p, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
		{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: motion},
	}})
}

// everywhere takes pictures at the sizes and in both themes in which the pages are judged, when they are wanted.
func (p *tab) everywhere(name string) {
	p.t.Helper()
	if !picturesWanted() {
		return
	}
	for _, size := range []struct {
		label         string
		width, height int64
	}{{"360", 360, 740}, {"1280", 1280, 800}, {"1680", 1680, 1050}} {
		p.resize(size.width, size.height)
		for _, scheme := range []string{"light", "dark"} {
			p.media(scheme, "reduce") // no transition in the middle
			p.until("it is drawn", `new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))`)
			p.shot(name + "-" + size.label + "-" + scheme)
		}
	}
	p.resize(phone, 740)
	p.media("light", "no-preference")
}
