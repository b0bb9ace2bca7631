package storetest

import (
	"errors"
	"slices"
	"testing"

	"github.com/go-eddy/eddy/desk/store"
)

// offerOf returns the id of the offer of a conversation, "none" if none stands.
func (w *world) offerOf(conv string) string {
	all, err := w.Cold().Offers(w.t.Context())
	if err != nil {
		w.t.Error(err)
	}
	for _, o := range all {
		if o.Conv == conv {
			return o.ID
		}
	}
	return "none"
}

// testOffers: one offer of a conversation stands. Its agent accepts or declines it, and any change of state or owner ends it. The feed tells each
// step.
func testOffers(t *testing.T, r *rig) {
	conv := r.assigned(r.visitor(), r.lin)
	lin, moe := r.lin.Actor(), r.moe.Actor()
	kim := r.agent("kim", 1)
	expires := r.now().UnixMilli() + 30_000
	offer := func(to store.AgentAccount) store.Offer {
		t.Helper()
		out := r.do(store.MakeOffer{Conv: conv.ID, From: lin, To: to.ID, Note: "please", Expires: expires})
		r.behind()
		parts := r.feed.all()
		part := parts[len(parts)-1]
		read, err := r.Hot().Fed(t.Context(), part.Last-1, 1)
		r.must(err)
		if len(part.Offers) != 1 || part.Last != out.Fed || len(read.All) != 1 || !slices.Equal(read.All[0].Offers, part.Offers) {
			t.Fatalf("told %+v, read %+v", part, read)
		}
		o := part.Offers[0]
		want := store.Offer{ID: o.ID, Conv: conv.ID, From: lin, To: to.Actor(), Note: "please", Rev: out.Conv.Rev, Expires: expires}
		if o != want || o.ID == "" {
			t.Errorf("%+v, want %+v", o, want)
		}
		return o
	}
	stands := func(want ...store.Offer) {
		t.Helper()
		all, err := r.Cold().Offers(t.Context())
		if err != nil || !slices.Equal(all, want) {
			t.Errorf("%+v %v, want %+v", all, err, want)
		}
	}
	ended := func(end store.OfferEnd) {
		t.Helper()
		stands()
		r.refused(store.AcceptOffer{Conv: conv.ID, By: moe}, store.ErrConflict)
		r.behind()
		parts := r.feed.all()
		last := parts[len(parts)-1]
		read, err := r.Hot().Fed(t.Context(), last.Last-1, 1)
		r.must(err)
		if len(last.Offers) != 1 || last.Offers[0].End != end || len(read.All) != 1 || !slices.Equal(read.All[0].Offers, last.Offers) {
			t.Errorf("told %+v, read %+v; want %s", last, read, end)
		}
	}
	r.refused(store.AcceptOffer{Conv: conv.ID, By: moe}, store.ErrConflict)
	for _, c := range []struct {
		cmd  store.MakeOffer
		want error
	}{
		{store.MakeOffer{Conv: conv.ID, From: moe, To: kim.ID}, store.ErrForbidden},
		{store.MakeOffer{Conv: conv.ID, From: lin, To: "nobody"}, store.ErrNotFound},
		{store.MakeOffer{Conv: "none", From: lin, To: kim.ID}, store.ErrNotFound},
		{store.MakeOffer{Conv: conv.ID, From: lin, To: kim.ID, Rev: conv.Rev + 1}, store.ErrConflict},
		{store.MakeOffer{Conv: r.open(r.visitor(), true).ID, From: lin, To: kim.ID}, store.ErrConflict},
	} {
		r.refused(c.cmd, c.want)
	}
	stands()

	first := offer(r.moe)
	stands(first)
	second := offer(kim)
	stands(second)
	r.refused(store.AcceptOffer{Conv: conv.ID, By: moe}, store.ErrConflict)
	r.refused(store.EndOffer{Conv: conv.ID, ID: first.ID, End: store.OfferDeclined}, store.ErrConflict)
	r.do(store.EndOffer{Conv: conv.ID, ID: second.ID, End: store.OfferDeclined})
	ended(store.OfferDeclined)
	third := offer(r.moe)
	r.do(store.EndOffer{Conv: conv.ID, ID: third.ID, End: store.OfferExpired})
	ended(store.OfferExpired)
	r.refused(store.EndOffer{Conv: conv.ID, ID: third.ID, End: store.OfferDeclined}, store.ErrConflict)

	offer(r.moe)
	r.do(text(conv.ID, lin, "a word ends nothing"))
	out := r.do(store.AcceptOffer{Conv: conv.ID, By: moe})
	if !out.Conv.Owner.Is(moe) || len(out.Events) != 2 || out.Events[1].Body != "please" || out.Events[1].Kind != store.KindNote {
		t.Errorf("%+v", out)
	}
	stands()
	back := r.do(store.Move{Conv: conv.ID, Trigger: store.TransferAgent, By: moe, To: r.lin.ID})
	offer(r.moe)
	r.do(store.Move{Conv: conv.ID, Trigger: store.Return, By: lin, Rev: back.Conv.Rev})
	stands()
	if out := r.try(store.AcceptOffer{Conv: conv.ID, By: moe}); !errors.Is(out.Err, store.ErrConflict) || out.Conv.ID != conv.ID {
		t.Errorf("%+v", out)
	}
}
