package desk

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/go-eddy/eddy/desk/perm"
	"github.com/go-eddy/eddy/desk/store"
)

// Each account has saved filters of its own, on every machine; a limit is told with its number.
func TestSavedFilters(t *testing.T) {
	d := openDesk(t, testOptions(t))
	_, lin := employ(t, d, perm.Agent, "lin")
	_, moe := employ(t, d, perm.Auditor, "moe")
	const path = "/api/v1/agent/filters"
	ask := func(method, path, body, cookie string) (names string) {
		t.Helper()
		status, resp := call(d, method, path, body, "Cookie", cookie)
		var got struct{ Filters []store.SavedFilter }
		if err := json.NewDecoder(resp.Body).Decode(&got); err != nil || status != http.StatusOK || got.Filters == nil {
			t.Fatalf("%s %s: %d, %v", method, path, status, err)
		}
		for _, f := range got.Filters {
			names += f.Name + "=" + f.Fields["tag"] + " "
		}
		return names
	}
	for _, c := range []struct{ method, path, body, cookie, want string }{
		{"GET", path, "", lin, ""},
		{"POST", path, `{"name":"Refunds","fields":{"tag":"refund","state":"closed"}}`, lin, "Refunds=refund "},
		{"POST", path, `{"name":"Also","fields":{}}`, lin, "Also= Refunds=refund "},
		{"POST", path, `{"name":"Refunds","fields":{"tag":"money"}}`, lin, "Also= Refunds=money "},
		{"GET", path, "", moe, ""},
		{"POST", path + "/drop", `{"name":"Refunds"}`, moe, ""},
		{"POST", path + "/drop", `{"name":"Refunds"}`, lin, "Also= "},
		{"POST", path + "/drop", `{"name":"Refunds"}`, lin, "Also= "},
	} {
		if got := ask(c.method, c.path, c.body, c.cookie); got != c.want {
			t.Errorf("%s %s %s: %q, want %q", c.method, c.path, c.body, got, c.want)
		}
	}
	status, resp := call(d, "POST", path, `{"name":"`+strings.Repeat("n", 41)+`"}`, "Cookie", lin)
	var refused struct{ Text string }
	if err := json.NewDecoder(resp.Body).Decode(&refused); err != nil || status != http.StatusUnprocessableEntity || !strings.Contains(refused.Text, "name is long (limit 40)") {
		t.Errorf("a long name: %d %q %v", status, refused.Text, err)
	}
	if status, _ := call(d, "GET", path, ""); status != http.StatusUnauthorized {
		t.Errorf("nobody: %d", status)
	}
}
