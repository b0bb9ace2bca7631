package api

import (
	"os"
	"strings"
	"testing"

	"github.com/go-eddy/eddy/desk/perm"
)

// The page about the API shows a command for each call, and has each scope, parameter and limit.
func TestPageHasEveryCall(t *testing.T) {
	data, err := os.ReadFile("../../docs/desk-api.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(data)
	commands := strings.Join(strings.Fields(page), " ")
	for _, c := range Calls() {
		method, path, _ := strings.Cut(c.Pattern, " ")
		path = strings.Replace(path, "/contacts/{id}", "/contacts/$contact", 1)
		path = "$desk" + strings.Replace(path, "{id}", "$id", 1)
		if !strings.Contains(page, path+`"`) && !strings.Contains(page, path+"?") {
			t.Errorf("no command for %s", c.Pattern)
		}
		sent := strings.Contains(commands, `}' "`+path+`"`)
		if method == "PATCH" {
			sent = strings.Contains(commands, `-X PATCH -d '`) && sent
		}
		if !sent && c.Body != nil {
			t.Errorf("%s: no command with a body", c.Pattern)
		}
		for _, name := range c.Query {
			if !strings.Contains(page, "`"+name) && !strings.Contains(page, name+"=") {
				t.Errorf("%s: nothing about %s", c.Pattern, name)
			}
		}
	}
	for _, s := range perm.KeyScopes() {
		if !strings.Contains(page, "\n| `"+string(s)+"` |") {
			t.Errorf("nothing about the scope %s", s)
		}
	}
}
