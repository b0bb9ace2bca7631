package storetest

import (
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/go-eddy/eddy/desk/store"
)

// erase removes what is left of erased contacts, a few rows at a time.
func (r *rig) erase(limit int) (d store.Dropped, calls int) {
	r.t.Helper()
	for d.More = true; d.More; calls++ {
		some, err := r.EraseMore(r.t.Context(), limit)
		r.must(err)
		d.Conversations, d.Files, d.More = d.Conversations+some.Conversations, append(d.Files, some.Files...), some.More
		if calls > 200 {
			r.t.Fatal("it does not end")
		}
	}
	return d, calls
}

// testErase: of an erased contact nothing is left but a stub and the numbers of the reports. Others of its site keep all.
func testErase(t *testing.T, r *rig) {
	ctx := t.Context()
	token := newToken()
	ann, err := r.IdentifyContact(ctx, r.site, store.Profile{External: "u1", Name: "Ann", Locale: "de", Attributes: map[string]string{"email": "ann@example.com"}}, token, time.Now().Add(time.Hour))
	r.must(err)
	first, files := r.lived(ann, "swordfish")
	second, more := r.lived(ann, "swordfish")
	ben := r.visitor()
	kept, _ := r.lived(ben, "herring")
	reports := func() (all [][]store.ReportRow) {
		for _, by := range []store.By{store.ByAll, store.ByDay, store.BySite, store.ByGroup, store.ByAgent} {
			all = append(all, r.report(store.ReportQuery{By: by}))
		}
		return all
	}
	before := reports()
	held := int(r.head(first).LastSeq + r.head(second).LastSeq)
	if err := r.EraseContact(ctx, "nobody"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("nobody: %v", err)
	}
	for range 2 {
		r.must(r.EraseContact(ctx, ann.ID))
	}
	if c, err := r.Cold().Contact(ctx, ann.ID); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("the contact: %+v %v", c, err)
	}
	if c, err := r.Hot().ContactByToken(ctx, token, time.Now()); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("its token: %+v %v", c, err)
	}
	d, calls := r.erase(3)
	if d.Conversations != 2 || calls < held/3 {
		t.Errorf("%d calls of 3 rows have removed %d conversations with %d messages", calls, d.Conversations, held)
	}
	var gone []string
	for _, a := range d.Files {
		gone = append(gone, a.Storage)
	}
	files = append(files, more...)
	slices.Sort(gone)
	slices.Sort(files)
	if !slices.Equal(gone, files) {
		t.Errorf("files %q of %q", gone, files)
	}
	for _, id := range []string{first, second} {
		if c, err := r.Cold().Conversation(ctx, id); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("it is there: %+v %v", c, err)
		}
	}
	if found := r.found(store.Scope{All: true}, "swordfish", 20); len(found) != 0 {
		t.Errorf("found: %q", found)
	}
	if found := r.found(store.Scope{All: true}, "herring", 20); len(found) != 7 {
		t.Errorf("of the other is found: %q", found)
	}
	if after := reports(); !reflect.DeepEqual(before, after) {
		t.Errorf("the reports were %+v\nand are %+v", before, after)
	}
	again, err := r.IdentifyContact(ctx, r.site, store.Profile{External: "u1", Name: "Ann"}, newToken(), time.Now().Add(time.Hour))
	if err != nil || again.ID == ann.ID || len(again.Attributes) != 0 || again.Blocked {
		t.Errorf("the same customer later: %+v %v", again, err)
	}
	r.do(store.Open{Contact: again})
	r.verify(kept)
}

// testEraseOpen: an open conversation of an erased contact can only be closed. It waits until then, also over a restart,
// and nothing that comes late stays.
func testEraseOpen(t *testing.T, r *rig) {
	ctx := t.Context()
	ann, ben := r.visitor(), r.visitor()
	closed, _ := r.lived(ann, "old")
	opened := r.do(store.Open{Contact: ann})
	conv := opened.Conv.ID
	turn := r.do(text(conv, ann.Actor(), "is anybody there?")).Turn
	other, _ := r.lived(ben, "other")
	r.must(r.EraseContact(ctx, ann.ID))
	r.refused(text(conv, ann.Actor(), "more"), store.ErrBlocked)
	r.refused(store.Open{Contact: ann}, store.ErrBlocked)
	r.refused(store.Move{Conv: closed, Trigger: store.ReopenToQueue, By: r.lin.Actor()}, store.ErrClosed)
	for what, err := range map[string]error{
		"patch": func() error {
			_, err := r.PatchContact(ctx, store.ContactPatch{Contact: ann.ID, Name: "Ann"})
			return err
		}(),
		"unblock": func() error { _, err := r.BlockContact(ctx, ann.ID, false); return err }(),
		"locale":  r.SetLocale(ctx, ann.ID, "de"),
	} {
		if !errors.Is(err, store.ErrNotFound) {
			t.Errorf("%s of an erased contact: %v", what, err)
		}
	}
	r.do(store.BotTurn{Conv: conv, Turn: turn, Say: []store.Say{{Body: "late"}}, Attributes: map[string]string{"email": "ann@example.com"}})
	if d, _ := r.erase(3); d.Conversations != 1 {
		t.Errorf("%d conversations were removed, one is open", d.Conversations)
	}
	r.do(store.Move{Conv: conv, Trigger: store.Block, By: system, Reason: "erased"})
	r.refused(store.Move{Conv: conv, Trigger: store.ReopenToQueue, By: r.lin.Actor()}, store.ErrClosed)
	if d, _ := r.erase(3); d.Conversations != 1 {
		t.Errorf("%d conversations were removed after the close", d.Conversations)
	}
	if d, err := r.EraseMore(ctx, 10); err != nil || d.More || d.Conversations != 0 {
		t.Errorf("nothing is left: %+v %v", d, err)
	}
	r.must(r.EraseContact(ctx, ann.ID))
	r.verify(other)
}

// testEraseAgain: what a process has left of an erased contact goes with the next one.
func testEraseAgain(t *testing.T, b Backend) {
	place := b.New(t)
	var conv, contact string
	t.Run("begin", func(t *testing.T) {
		r := newRig(t, b, place)
		ann := r.visitor()
		contact = ann.ID
		conv, _ = r.lived(ann, "swordfish")
		r.must(r.EraseContact(t.Context(), contact))
		for range 2 {
			_, err := r.EraseMore(t.Context(), 2)
			r.must(err)
		}
		r.head(conv) // a part of it
	})
	t.Run("end", func(t *testing.T) {
		r := openRig(t, b, place)
		if d, _ := r.erase(2); d.Conversations != 1 {
			t.Errorf("%+v", d)
		}
		if c, err := r.Cold().Conversation(t.Context(), conv); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("it is there: %+v %v", c, err)
		}
	})
}
