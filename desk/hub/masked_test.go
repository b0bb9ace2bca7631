package hub

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/go-eddy/eddy/desk/desktest"
	"github.com/go-eddy/eddy/desk/perm"
	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/store"
)

// A role without the permission sees no number and no address, in whatever frame it comes; the others do.
func TestPrivateIsMaskedByRole(t *testing.T) {
	r := newRig(t, Options{Limits: testLimits()})
	const secret, shown = "call 13800138000 or ann@example.com", "call •••00 or a•••@•••.com"
	account, err := r.db.CreateAgent(r.ctx, store.AgentAccount{Login: "ada", Name: "Ada", Password: "x", Role: perm.Auditor})
	r.ok(err)
	boss, err := r.db.CreateAgent(r.ctx, store.AgentAccount{Login: "boss", Name: "Boss", Password: "x", Role: perm.Supervisor})
	r.ok(err)
	ann, ada, lin := r.customer(), r.agentClient(account), r.agentClient(boss)
	r.ok(ada.Connected(r.ctx))
	r.ok(lin.Connected(r.ctx))
	conv := r.open(ann, "human")
	ann.Send(conv, secret)
	for c, want := range map[*desktest.Client]string{ada: shown, lin: secret} {
		r.other(c, func(f desktest.Frame) bool {
			var row proto.Row
			return f.T == "ev.conv" && json.Unmarshal(f.D, &row) == nil && row.Preview == want
		})
		f, err := c.Do(r.ctx, "sync", conv, proto.Sync{})
		r.ok(err)
		var page struct{ Events []desktest.Frame }
		f.Decode(&page)
		var m proto.Msg
		page.Events[len(page.Events)-1].Decode(&m)
		if m.Body != want || page.Events[0].C != conv {
			t.Errorf("sync: %q, want %q", m.Body, want)
		}
		f, err = c.Do(r.ctx, "contact.get", "", map[string]string{"contact": m.From.ID})
		r.ok(err)
		if !strings.Contains(string(f.D), want) || (want == shown && strings.Contains(string(f.D), "13800138000")) {
			t.Errorf("contact.get: %s", f.D)
		}
	}
	for q, want := range map[string]int{"13800138000": 0, "example": 0, "ann@example.com": 0, "call 13800138000": 0, "call": 1} {
		for c, want := range map[*desktest.Client]int{ada: want, lin: 1} { // a search does not confirm what is hidden
			if found := ask[proto.Found](r, c, "search", "", proto.Search{Q: q}); len(found.Hits) != want || found.Cursor != "" {
				t.Errorf("search for %q: %+v, want %d", q, found, want)
			} else if want == 1 && (found.Hits[0].Snippet == secret) != (c == lin) {
				t.Errorf("search for %q shows %q", q, found.Hits[0].Snippet)
			}
		}
	}
	r.event(ann, conv, body(secret)) // the customer sees its own words
}

func TestMaskFrame(t *testing.T) {
	for in, want := range map[string]string{
		`{"t":"ok","re":"13800138000","c":"13800138000","d":{"id":"13800138000","cursor":"13800138000","time":1700000000000}}`: `{"c":"13800138000","d":{"cursor":"13800138000","id":"13800138000","time":1700000000000},"re":"13800138000","t":"ok"}`,
		`{"t":"x","d":{"agent":"01936d2e-4b1c-7f3a-9c2e-013800138000","a":["13800138000",{"b":"13800138000"}]}}`:               `{"d":{"a":["•••00",{"b":"•••00"}],"agent":"01936d2e-4b1c-7f3a-9c2e-013800138000"},"t":"x"}`,
		`{"t":"x","d":{"contact":{"attributes":{"id":"13800138000","kind":"ann@example.com"}}}}`:                               `{"d":{"contact":{"attributes":{"id":"•••00","kind":"a•••@•••.com"}}},"t":"x"}`,
		`{"t":"x","d":{"links":{"f":"/files/f?e=17000000000&s=13800138000"}}}`:                                                 `{"d":{"links":{"f":"/files/f?e=17000000000&s=13800138000"}},"t":"x"}`,
	} {
		if got := string(maskFrame([]byte(in))); strings.ReplaceAll(got, `\u0026`, "&") != want {
			t.Errorf("%s:\n%s, want\n%s", in, got, want)
		}
	}
	if got := string(maskFrame([]byte(`13800138000`))); strings.Contains(got, "138") {
		t.Errorf("%s", got)
	}
}

// TestMaskFieldsByTheirNames: the names of attributes and own fields are not the protocol's, whatever they are.
func TestMaskFieldsByTheirNames(t *testing.T) {
	for _, known := range []string{"attributes", "fields"} {
		got, err := Mask([]byte(`{"contact":{"` + known + `":{"state":"13800138000","id":"ann@example.com","kind":"gold"}}}`))
		if err != nil || strings.Contains(string(got), "13800138000") || strings.Contains(string(got), "ann@") || !strings.Contains(string(got), "gold") {
			t.Errorf("%s: %s %v", known, got, err)
		}
	}
}
