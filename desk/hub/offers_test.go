package hub

import (
	"testing"
	"time"

	"github.com/go-eddy/eddy/desk/desktest"
	"github.com/go-eddy/eddy/desk/perm"
	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/store"
)

// offering is a conversation of lin in a hub without timers of its own, and others to offer it to.
type offering struct {
	*routeRig
	ann, lin, moe, kim *desktest.Client
	conv               string
}

func newOffering(t *testing.T) *offering {
	t.Helper()
	r := &offering{routeRig: newRouteRig(t, store.GroupSettings{Strategy: store.Manual}, store.SiteSettings{})}
	r.lin, r.moe, r.kim = r.on("lin", 100), r.on("moe", 1), r.on("kim", 100)
	r.ann, r.conv = r.waiting()
	r.ok(r.lin.Take(r.ctx, r.conv))
	return r
}

// offer offers the conversation and returns what its agent is told.
func (r *offering) offer(to *desktest.Client) proto.Offered {
	r.t.Helper()
	f, err := r.lin.Do(r.ctx, "transfer", r.conv, proto.Transfer{Agent: to.Me().ID, Note: "please"})
	r.ok(err)
	if code(f) != "" {
		r.t.Fatalf("transfer: %s", f.D)
	}
	var o proto.Offered
	f.Decode(&o)
	return o
}

// count is the number of events without a sequence that match.
func (r *rig) count(c *desktest.Client, match func(desktest.Frame) bool) (n int) {
	r.t.Helper()
	r.do(c, "ping", "", proto.Ping{}) // behind everything that was sent before
	for _, f := range c.Others() {
		if match(f) {
			n++
		}
	}
	return n
}

func TestOfferAccepted(t *testing.T) {
	r := newOffering(t)
	told := r.offer(r.moe)
	if told.Offer.Agent.ID != r.moe.Me().ID || told.Offer.Expires != r.clock.now().Add(30*time.Second).UnixMilli() || told.Head.Owner.ID != r.lin.Me().ID {
		t.Errorf("%+v", told)
	}
	var o proto.Offer
	r.other(r.moe, offerOf(r.conv)).Decode(&o)
	if o.From.Name != "lin" || o.Note != "please" || o.Row.ID != r.conv || o.Expires != told.Offer.Expires {
		t.Errorf("%+v", o)
	}
	if got := r.do(r.moe, "sync", r.conv, proto.Sync{}); got != "" {
		t.Errorf("what is offered may be read: %q", got)
	}
	if got := r.do(r.kim, "transfer.accept", r.conv, proto.Accept{}); got != proto.CodeConflict {
		t.Errorf("another agent accepts: %q", got)
	}
	if got := r.do(r.lin, "transfer.accept", r.conv, proto.Accept{}); got != proto.CodeConflict {
		t.Errorf("the owner accepts: %q", got)
	}
	h := r.headOf(r.moe, "transfer.accept", r.conv, proto.Accept{})
	if h.Owner == nil || h.Owner.Name != "moe" {
		t.Fatalf("%+v", h)
	}
	r.other(r.lin, offerEnd(r.conv, proto.OfferAccepted))
	r.event(r.moe, r.conv, body("please"))
	if got := r.do(r.moe, "transfer.accept", r.conv, proto.Accept{}); got != proto.CodeConflict {
		t.Errorf("accepted twice: %q", got)
	}
	// The old owner goes on watching, notes included, until it has seen enough; a new connection does not end that.
	r.lin.Break()
	r.moe.Send(r.conv, "hello, I am Moe")
	r.event(r.lin, r.conv, body("hello, I am Moe"))
	if got := r.do(r.moe, "note.send", r.conv, proto.Note{ClientID: newClientID(), Body: "between us"}); got != "" {
		t.Fatal(got)
	}
	r.event(r.lin, r.conv, body("between us"))
	r.checkView(r.lin, r.conv, store.StaffSide)
	if got := r.do(r.lin, "unwatch", r.conv, proto.Unwatch{}); got != "" {
		t.Fatal(got)
	}
	r.moe.Send(r.conv, "alone at last")
	r.event(r.ann, r.conv, body("alone at last"))
	r.do(r.lin, "ping", "", proto.Ping{})
	for _, f := range r.lin.View(r.conv) {
		if body("alone at last")(f) {
			t.Error("lin still watches")
		}
	}
}

func TestOfferEnds(t *testing.T) {
	t.Run("declined", func(t *testing.T) {
		r := newOffering(t)
		r.offer(r.moe)
		if h := r.headOf(r.moe, "transfer.decline", r.conv, proto.Decline{}); h.Owner.Name != "lin" {
			t.Errorf("%+v", h)
		}
		r.other(r.lin, offerEnd(r.conv, proto.OfferDeclined))
		if got := r.do(r.moe, "sync", r.conv, proto.Sync{}); got != proto.CodeNotFound {
			t.Errorf("what is no longer offered: %q", got)
		}
	})
	t.Run("expired", func(t *testing.T) {
		r := newOffering(t)
		r.offer(r.moe)
		r.pass(30*time.Second - time.Millisecond)
		r.moe.Break()
		r.waitFor("the offer to be told again", func() bool {
			n := 0
			for _, f := range r.moe.Others() {
				if offerOf(r.conv)(f) {
					n++
				}
			}
			return n == 2
		})
		r.pass(time.Millisecond)
		r.other(r.lin, offerEnd(r.conv, proto.OfferExpired))
		r.other(r.moe, offerEnd(r.conv, proto.OfferExpired))
		if got := r.do(r.moe, "transfer.accept", r.conv, proto.Accept{}); got != proto.CodeConflict {
			t.Errorf("too late: %q", got)
		}
	})
	t.Run("replaced", func(t *testing.T) {
		r := newOffering(t)
		r.offer(r.moe)
		r.offer(r.kim)
		r.other(r.moe, offerEnd(r.conv, proto.OfferCanceled))
		if got := r.do(r.moe, "transfer.accept", r.conv, proto.Accept{}); got != proto.CodeConflict {
			t.Errorf("replaced: %q", got)
		}
		r.headOf(r.kim, "transfer.accept", r.conv, proto.Accept{})
	})
	t.Run("closed", func(t *testing.T) {
		r := newOffering(t)
		r.offer(r.moe)
		r.ok(r.ann.EndConv(r.ctx, r.conv, "bye"))
		r.other(r.lin, offerEnd(r.conv, proto.OfferCanceled))
		r.other(r.moe, offerEnd(r.conv, proto.OfferCanceled))
	})
	t.Run("full", func(t *testing.T) {
		r := newOffering(t)
		r.offer(r.moe)
		_, second := r.waiting()
		r.ok(r.moe.Take(r.ctx, second))
		if got := r.do(r.moe, "transfer.accept", r.conv, proto.Accept{}); got != proto.CodeForbidden {
			t.Errorf("beyond capacity: %q", got)
		}
		if got := r.do(r.lin, "transfer", r.conv, proto.Transfer{Agent: r.moe.Me().ID}); got != proto.CodeForbidden {
			t.Errorf("offered beyond capacity: %q", got)
		}
		r.ok(r.moe.EndConv(r.ctx, second, "done"))
		r.headOf(r.moe, "transfer.accept", r.conv, proto.Accept{}) // the offer stood
	})
	t.Run("nobody there", func(t *testing.T) {
		r := newOffering(t)
		away := r.staff("away", 100, perm.Agent)
		ada := r.staff("ada", 0, perm.Auditor)
		for id, want := range map[string]proto.Code{away.ID: proto.CodeForbidden, ada.ID: proto.CodeNotFound, "nobody": proto.CodeNotFound} {
			if got := r.do(r.lin, "transfer", r.conv, proto.Transfer{Agent: id}); got != want {
				t.Errorf("%s: %q, want %q", id, got, want)
			}
		}
	})
}

// Two agents that have been offered the conversation one after the other, and the owner's customer, all act at once: there
// is one owner in the end, and whoever was told that it has the conversation has it.
func TestOfferRaces(t *testing.T) {
	rounds := 15
	if testing.Short() {
		rounds = 5
	}
	r := newOffering(t)
	ended := 0
	for i := range rounds {
		r.offer(r.moe)
		results := make(chan desktest.Frame, 3)
		do := func(c *desktest.Client, kind string, d any) {
			f, err := c.Do(r.ctx, kind, r.conv, d)
			if err != nil {
				t.Error(err)
			}
			results <- f
		}
		go do(r.moe, "transfer.accept", proto.Accept{})
		go do(r.lin, "transfer", proto.Transfer{Agent: r.kim.Me().ID})
		go do(r.kim, "transfer.accept", proto.Accept{})
		codes := map[proto.Code]int{}
		for range 3 {
			codes[code(<-results)]++
		}
		if n := len(codes); codes[""] == 0 || codes[""]+codes[proto.CodeConflict]+codes[proto.CodeForbidden] != 3 {
			t.Fatalf("round %d: %d kinds of answers: %v", i, n, codes)
		}
		owner := r.stored().Owner
		if owner.ID != r.lin.Me().ID {
			ended++
			back := r.moe
			if owner.ID == r.kim.Me().ID {
				back = r.kim
			}
			if got := r.do(back, "return", r.conv, proto.Return{}); got != "" {
				t.Fatal(got)
			}
			r.ok(r.lin.Take(r.ctx, r.conv))
		}
		r.hub.mu.Lock()
		n := len(r.hub.queue.offers)
		r.hub.mu.Unlock()
		if n > 1 {
			t.Fatalf("%d offers of one conversation", n)
		}
	}
	if ended == 0 {
		t.Error("nobody ever accepted")
	}
}

// TestOfferOutlivesTheServer: a server that starts again knows what is offered. It is told to each session, and to none of them twice.
func TestOfferOutlivesTheServer(t *testing.T) {
	r := newOffering(t)
	r.offer(r.moe)
	all, err := r.db.Cold().Offers(r.ctx)
	r.ok(err)
	for range 3 {
		r.hub.offerMoved(&all[0]) // as when the feed is read again
	}
	if n := r.count(r.moe, offerOf(r.conv)); n != 1 {
		t.Errorf("it was told %d times", n)
	}
	r.halt()
	r.startHub()
	r.ok(r.moe.Connected(r.ctx))
	r.waitFor("the offer to be told again", func() bool { return r.count(r.moe, offerOf(r.conv)) == 2 })
	h := r.headOf(r.moe, "transfer.accept", r.conv, proto.Accept{})
	if h.Owner == nil || h.Owner.Name != "moe" {
		t.Errorf("%+v", h)
	}
}

func (r *offering) stored() store.Conversation { return r.routeRig.conv(r.conv) }

// What a supervisor may force, an agent may not; it is done at once and written down.
func TestForce(t *testing.T) {
	r := newOffering(t)
	sam := r.agentClient(r.staff("sam", 1, perm.Supervisor))
	r.ok(sam.Connected(r.ctx))
	for name, c := range map[string]struct {
		t string
		d any
	}{
		"take":     {"take", proto.Take{Force: true}},
		"transfer": {"transfer", proto.Transfer{Agent: r.moe.Me().ID, Force: true}},
		"return":   {"return", proto.Return{Force: true}},
		"close":    {"conv.close", proto.Close{Force: true}},
		"assign":   {"assign", proto.Assign{Agent: r.moe.Me().ID}},
	} {
		if got := r.do(r.kim, c.t, r.conv, c.d); got != proto.CodeForbidden {
			t.Errorf("%s by an agent: %q", name, got)
		}
	}
	if got := r.do(r.ann, "conv.close", r.conv, proto.Close{Force: true}); got != proto.CodeForbidden {
		t.Errorf("a customer forces: %q", got)
	}
	_, second := r.waiting()
	r.ok(sam.Take(r.ctx, second)) // sam is full now
	if got := r.do(sam, "take", r.conv, proto.Take{}); got != proto.CodeConflict {
		t.Errorf("take without force: %q", got)
	}
	if h := r.headOf(sam, "take", r.conv, proto.Take{Force: true}); h.Owner.Name != "sam" {
		t.Errorf("%+v", h)
	}
	r.event(r.lin, r.conv, change("taken")) // the former owner is told
	if h := r.headOf(sam, "assign", r.conv, proto.Assign{Agent: r.moe.Me().ID}); h.Owner.Name != "moe" {
		t.Errorf("%+v", h)
	}
	if h := r.headOf(sam, "transfer", r.conv, proto.Transfer{Agent: r.kim.Me().ID, Force: true, Note: "yours"}); h.Owner.Name != "kim" {
		t.Errorf("%+v", h)
	}
	r.event(r.kim, r.conv, body("yours"))
	if h := r.headOf(sam, "return", r.conv, proto.Return{Force: true}); h.State != "queued" {
		t.Errorf("%+v", h)
	}
	if h := r.headOf(sam, "assign", r.conv, proto.Assign{Agent: r.moe.Me().ID}); h.Owner.Name != "moe" {
		t.Errorf("%+v", h)
	}
	if h := r.headOf(sam, "conv.close", r.conv, proto.Close{Force: true, Reason: "spam"}); h.State != "closed" {
		t.Errorf("%+v", h)
	}
	if rows := r.auditOf(sam.Me().ID, store.AuditOverride); len(rows) != 6 || rows[0].Target != "conversation "+r.conv || rows[0].Detail != "conv.close" {
		t.Errorf("%d lines: %+v", len(rows), rows)
	}
}
