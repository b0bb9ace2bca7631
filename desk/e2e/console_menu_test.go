package e2e

import (
	"testing"

	"github.com/go-eddy/eddy/desk/perm"
)

// TestOpenMenuStaysWhereItIs: somebody may open the menu before the console has its status. What comes then moves nothing
// under the pointer, so that a press does not hit another entry.
func TestOpenMenuStaysWhereItIs(t *testing.T) {
	b := startBrowser(t, "en")
	d := newDesk(t)
	d.colleague("amy", "Amy Wood", perm.Agent, 3)
	amy := d.console(b, "amy", "amy", "amy", desktop, 800)
	amy.before(`window.WebSocket = class extends WebSocket {
		constructor(url, ...rest) { super(window.connects ? url : url + '/closed', ...rest); }
	};`)
	amy.reload()
	amy.until("the console is there without a connection", isIn("Amy Wood")+` && !document.querySelector('#status-box').checkVisibility()`)
	amy.click("menu-button")
	amy.visible("logout")
	places := `[...document.querySelectorAll('#menu *')].filter((n) => n.checkVisibility()).map((n) => n.getBoundingClientRect().y).join()`
	before := value[string](amy, places)
	amy.until("it may connect", `window.connects = true`)
	amy.until("its status has come", node("status")+`?.checkVisibility() && !`+node("takes-chats")+`.disabled`)
	if after := value[string](amy, places); after != before {
		t.Errorf("the open menu has moved from %s to %s", before, after)
	}
}
