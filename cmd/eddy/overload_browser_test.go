package main

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/go-eddy/eddy/cmd/eddy/internal/cmdtest"
)

// TestOverloadInBrowser: the operator's page of a server that is short of memory says so, with grade, source and actions, and fits
// every window. Without a manager there is no such section.
func TestOverloadInBrowser(t *testing.T) {
	tab := startBrowser(t)
	p := cmdtest.StartServer(t, "serve", "rpc", "--addr", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--overload", "--overload-memory", "1MiB")
	openPage(t, tab, p.Operator()+"/")
	if wrong := evaluate[[]string](t, tab, script(t, "browser_overload.js")); len(wrong) > 0 {
		t.Error(strings.Join(wrong, "\n"))
	}
	for _, size := range [][2]int64{{1280, 800}, {768, 1024}, {360, 740}} {
		for _, scheme := range []string{"light", "dark"} {
			shoot(t, tab, "overload", size[0], size[1], scheme)
			if over := evaluate[int](t, tab, "document.documentElement.scrollWidth - innerWidth"); over > 0 {
				t.Errorf("%d×%d: the page is %d pixels too wide", size[0], size[1], over)
			}
		}
	}
	p.Stop()
	p = cmdtest.StartServer(t, "serve", "rpc", "--addr", "127.0.0.1:0", "--admin", "127.0.0.1:0")
	openPage(t, tab, p.Operator()+"/")
	act(t, tab, chromedp.WaitVisible("#pools tbody th"))
	if evaluate[bool](t, tab, `document.querySelector("#overload").checkVisibility()`) {
		t.Error("there is a table of overload managers without one")
	}
	p.Stop()
}
