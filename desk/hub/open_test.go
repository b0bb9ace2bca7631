package hub

import (
	"testing"

	"github.com/google/uuid"

	"github.com/go-eddy/eddy/desk/auth"
	"github.com/go-eddy/eddy/desk/desktest"
	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/store"
)

// What has not become a new conversation is not counted as one: a refused opening, and one that found the open one.
func TestOnlyNewConversationsAreCounted(t *testing.T) {
	limits := testLimits()
	limits.Opens = 2
	r := newRig(t, Options{Limits: limits})
	site, err := r.db.CreateSite(r.ctx, store.Site{Key: "asks", Name: "Asks", Settings: store.SiteSettings{Consent: "We keep it."}})
	r.ok(err)
	client := func() *rawClient {
		token, hash := auth.NewToken()
		_, err := r.db.CreateVisitor(r.ctx, site, hash, r.hub.o.Now().Add(1<<40))
		r.ok(err)
		c := r.raw(r.dial(Peer{Network: "198.51.100.1"}))
		c.hello(token)
		return c
	}
	open := func(c *rawClient, consent bool) proto.Code {
		id := uuid.NewString()
		c.write("conv.open", id, "", proto.Open{Consent: consent})
		return code(c.until(func(f desktest.Frame) bool { return f.RE == id }))
	}
	ann, bob, eve := client(), client(), client()
	for range 5 {
		if got := open(ann, false); got != proto.CodeBadRequest {
			t.Fatalf("without consent: %q", got)
		}
	}
	if got := open(ann, true); got != "" {
		t.Fatalf("the first: %q", got)
	}
	for range 3 { // the second, and twice the one that is there
		if got := open(bob, true); got != "" {
			t.Fatalf("the second: %q", got)
		}
	}
	if got := open(eve, true); got != proto.CodeRateLimited {
		t.Errorf("the third: %q", got)
	}
	if n := r.hub.opens.Len(); n != 1 {
		t.Errorf("%d networks", n)
	}
}
