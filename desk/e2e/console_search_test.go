package e2e

import (
	"fmt"
	"testing"

	"github.com/go-eddy/eddy/desk/perm"
)

// TestSearchSaysWhatItSearches: only to those whose role may read all chats the search says that it searches all. It finds
// another's chat for them, and for nobody else.
func TestSearchSaysWhatItSearches(t *testing.T) {
	for lang, words := range map[string]struct{ all, own, noneAll, noneOwn string }{
		"en":    {"Search all chats", "Search the chats you may read", "Nothing found. Try", "Nothing found in the chats you may read"},
		"zh-CN": {"搜索全部对话", "搜索您可查看的对话", "没有找到。", "在您可查看的对话"},
	} {
		t.Run(lang, func(t *testing.T) {
			b := startBrowser(t, lang)
			d := newDesk(t)
			for _, role := range perm.Roles() {
				d.colleague("a-"+string(role), "Ada", role, 1)
			}
			d.colleague("moe", "Moe", perm.Agent, 1)
			v := d.visit("a zebra has left the zoo")
			d.takeAll("moe", []*visitor{v})
			d.answer("moe", v) // so that nobody waits, and the chat stays with Moe
			for _, role := range perm.Roles() {
				p := d.console(b, string(role), "a-"+string(role), "a-"+string(role), 1280, 800)
				says, none := words.own, words.noneOwn
				if role.Can(perm.ReadOthers) {
					says, none = words.all, words.noneAll
				}
				p.until("the search says what it searches", fmt.Sprintf(`((n) => n.placeholder === %[1]q && n.getAttribute('aria-label') === %[1]q)(%[2]s)`, says, node("search")))
				empty := fmt.Sprintf(`%s?.textContent.startsWith(%q)`, node("search-box"), none)
				p.fill("search", "zebra")
				if role.Can(perm.ReadOthers) {
					p.until("the chat of Moe is found", node("hit")+`?.textContent.includes('zebra')`)
					p.fill("search", "unheard")
				}
				p.until("and where it found nothing", empty)
				p.gone("hit")
				p.clean()
			}
		})
	}
}
