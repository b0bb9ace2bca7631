package storetest

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/go-eddy/eddy/desk/store"
)

// lived makes a closed conversation with everything that can belong to one, and returns its files.
func (r *rig) lived(ann store.Contact, word string) (conv string, files []string) {
	r.t.Helper()
	opened := r.do(store.Open{Contact: ann})
	conv = opened.Conv.ID
	turn := r.do(text(conv, ann.Actor(), word+" to the bot")).Turn
	r.do(store.BotTurn{Conv: conv, Turn: turn, Say: []store.Say{{Body: word + " from the bot"}}})
	r.do(store.Move{Conv: conv, Trigger: store.TakeOver, By: r.lin.Actor()})
	for i := range 3 {
		r.do(text(conv, r.lin.Actor(), fmt.Sprint(word, " ", i)))
	}
	r.do(store.Append{Conv: conv, From: r.lin.Actor(), ClientID: "note", Body: word + " in a note", Note: true})
	sent, loose := r.upload(conv, ann.Actor()), r.upload(conv, ann.Actor())
	r.do(withFiles(conv, ann.Actor(), word+" with a file", sent))
	r.do(store.Tag{Conv: conv, By: r.lin.Actor(), Add: []string{"vip", "refund"}})
	r.do(store.Move{Conv: conv, Trigger: store.AgentClose, By: r.lin.Actor()})
	r.do(store.Rate{Conv: conv, By: ann.Actor(), Score: 4})
	return conv, []string{sent.Storage, loose.Storage}
}

// testDropClosed: what was closed long ago goes, a few rows at a time, with everything that belongs to it. What is younger,
// open or of another site stays, and so do the numbers of the reports.
func testDropClosed(t *testing.T, r *rig) {
	ctx := t.Context()
	ann, ben, kim := r.visitor(), r.visitor(), r.visitor()
	old, files := r.lived(ann, "old")
	waiting := r.open(ben, true)
	demo := r.site
	r.site = r.newSite(store.Site{Key: "shop", Name: "Shop", BotName: "Eddy"})
	foreign, _ := r.lived(r.visitor(), "foreign")
	r.site = demo
	r.later(48 * time.Hour)
	limit := time.Now().Add(24 * time.Hour).UnixMilli()
	young, _ := r.lived(kim, "young")
	reports := func() (all [][]store.ReportRow) {
		for _, by := range []store.By{store.ByAll, store.ByDay, store.BySite, store.ByGroup, store.ByAgent} {
			all = append(all, r.report(store.ReportQuery{By: by}))
		}
		return all
	}
	before := reports()
	if d, err := r.DropClosed(ctx, demo.ID, limit, 0); err != nil || d.Conversations != 0 || len(d.Files) != 0 || !d.More {
		t.Errorf("none asked for: %+v %v", d, err)
	}
	if d, err := r.DropClosed(ctx, demo.ID, 1, 100); err != nil || d.Conversations != 0 || len(d.Files) != 0 || d.More {
		t.Errorf("nothing is so old: %+v %v", d, err)
	}
	var gone []string
	total, calls, held := 0, 0, r.head(old).LastSeq
	for more := true; more; calls++ {
		d, err := r.DropClosed(ctx, demo.ID, limit, 3)
		r.must(err)
		for _, a := range d.Files {
			gone = append(gone, a.Storage)
		}
		total, more = total+d.Conversations, d.More
		if calls > 20 {
			t.Fatal("it does not end")
		}
	}
	if rows := int(held) + len(files) + 2; calls < rows/3 {
		t.Errorf("%d calls of 3 rows have removed %d", calls, rows)
	}
	slices.Sort(gone)
	slices.Sort(files)
	if total != 1 || !slices.Equal(gone, files) {
		t.Errorf("%d conversations, files %q of %q", total, gone, files)
	}
	if c, err := r.Cold().Conversation(ctx, old); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("it is there: %+v %v", c, err)
	}
	if known, err := r.Cold().Stored(ctx, files); err != nil || len(known) != 0 {
		t.Errorf("files are there: %v %v", known, err)
	}
	if found := r.found(store.Scope{All: true}, "old", 20); len(found) != 0 {
		t.Errorf("found: %q", found)
	}
	for _, word := range []string{"young", "foreign"} {
		if found := r.found(store.Scope{All: true}, word, 20); len(found) != 7 {
			t.Errorf("of what stays is found: %q", found)
		}
	}
	if after := reports(); !reflect.DeepEqual(before, after) {
		t.Errorf("the reports were %+v\nand are %+v", before, after)
	}
	r.verify(young, foreign, waiting.ID)
	if again := r.open(ann, true); again.Prev != "" && again.Prev != old {
		t.Errorf("the next one of its customer: %+v", again)
	}
}
