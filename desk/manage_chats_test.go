package desk

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/go-eddy/eddy/desk/desktest"
	"github.com/go-eddy/eddy/desk/store"
)

// Whether an account takes chats follows its role when it is made, unless the form says otherwise.
func TestManageWhoTakesChats(t *testing.T) {
	p := managed(t)
	first, err := p.d.store.Cold().AgentByLogin(t.Context(), "agent")
	if err != nil || first.NoChats {
		t.Errorf("the account of a first start: %+v %v", first, err)
	}
	for _, c := range []struct {
		role, chats string
		no          bool
	}{
		{"agent", "", false}, {"supervisor", "", false}, {"admin", "", true}, {"auditor", "", true}, {"agent", "no", true}, {"admin", "yes", false},
	} {
		login := c.role + "-" + c.chats
		at := p.post("/admin/agents", url.Values{"login": {login}, "name": {login}, "role": {c.role}, "capacity": {"3"}, "chats": {c.chats}})
		want := map[bool]string{false: `<option value="yes" selected>`, true: `<option value="no" selected>`}[c.no]
		if body := p.get(at, http.StatusOK); !strings.Contains(body, want) || strings.Contains(body, "usual for the role") {
			t.Errorf("%s, %q: the form does not show %s", c.role, c.chats, want)
		}
		if a, err := p.d.store.Cold().AgentByLogin(t.Context(), login); err != nil || a.NoChats != c.no {
			t.Errorf("%s, %q: %+v %v", c.role, c.chats, a, err)
		}
	}
	lin, err := p.d.store.Cold().AgentByLogin(t.Context(), "agent-")
	if err != nil {
		t.Fatal(err)
	}
	p.post("/admin/agents/"+lin.ID, url.Values{"name": {"agent-"}, "role": {"agent"}, "capacity": {"3"}, "chats": {"no"}})
	if l := desktest.AuditLines(t, p.d.store, store.AuditQuery{Target: "agent " + lin.ID}, 2)[0]; !strings.Contains(l.Detail, "takes chats yes → no") {
		t.Errorf("written down: %+v", l)
	}
	if lin, err := p.d.store.Cold().AgentByID(t.Context(), lin.ID); err != nil || !lin.NoChats {
		t.Errorf("changed: %+v %v", lin, err)
	}
	rows := regexp.MustCompile(`(?s)<tr[^>]*data-testid="agent-row">.*?</tr>`).FindAllString(p.get("/admin/agents", http.StatusOK), -1)
	if len(rows) != 7 {
		t.Fatalf("%d rows", len(rows))
	}
	for i, number := range []string{"None", "3", "5", "None", "None", "None", "3"} { // admin-, admin-yes, agent, agent-, agent-no, auditor-, supervisor-
		if want := `<td class="number">` + number + `</td>`; !strings.Contains(rows[i], want) {
			t.Errorf("row %d says no %s: %s", i, number, visible(rows[i]))
		}
	}
}
