package hub

import (
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/go-eddy/eddy/desk/desktest"
	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/store"
)

// receipt sends one; it has no reply, a ping behind it has.
func (r *rig) receipt(c *desktest.Client, conv string, delivered, read uint64) {
	r.t.Helper()
	r.ok(c.Tell(r.ctx, "receipt", conv, proto.Receipt{Delivered: delivered, Read: read}))
}

// heard matches a receipt.
func heard(conv string, kind store.ActorKind, delivered, read uint64) func(desktest.Frame) bool {
	return func(f desktest.Frame) bool {
		if f.T != "ev.receipt" || f.C != conv {
			return false
		}
		var n proto.ReceiptNow
		f.Decode(&n)
		return n.From.Kind == string(kind) && n.Delivered == delivered && n.Read == read
	}
}

// unread matches an inbox row by what is unread.
func unread(conv string, n int) func(desktest.Frame) bool {
	return func(f desktest.Frame) bool {
		if f.T != "ev.conv" || f.C != conv {
			return false
		}
		var row proto.Row
		f.Decode(&row)
		return row.Unread == n
	}
}

func (r *rig) say(c *desktest.Client, conv, body string) {
	r.t.Helper()
	c.Send(conv, body)
	r.ok(c.Flushed(r.ctx))
}

func (r *rig) note(c *desktest.Client, conv, body string) {
	r.t.Helper()
	if got := r.do(c, "note.send", conv, proto.Note{ClientID: newClientID(), Body: body}); got != "" {
		r.t.Fatal(got)
	}
}

// headFor reads the head of a conversation as a client is welcomed with it.
func (r *rig) headFor(c *desktest.Client, conv string) proto.Head {
	r.t.Helper()
	f, err := c.Do(r.ctx, "sync", conv, proto.Sync{})
	r.ok(err)
	var page proto.Synced
	f.Decode(&page)
	return page.Head
}

// Notes have a number for staff only: each side is told in its own numbers.
func TestReceiptsCrossTheNumbers(t *testing.T) {
	r := newRig(t, Options{Limits: testLimits()})
	ann, lin := r.customer(), r.agent("lin")
	conv := r.open(ann, "human") // 1 opened
	r.ok(lin.Take(r.ctx, conv))  // 2 taken
	r.note(lin, conv, "n1")      // 3 for staff
	r.say(ann, conv, "one")      // 4, 3 for the customer
	r.note(lin, conv, "n2")      // 5
	r.note(lin, conv, "n3")      // 6
	r.say(ann, conv, "two")      // 7, 4
	r.say(lin, conv, "answer")   // 8, 5

	r.receipt(ann, conv, 5, 3)
	r.other(lin, heard(conv, store.Customer, 8, 4))
	r.receipt(lin, conv, 8, 6)
	r.other(ann, heard(conv, store.Agent, 5, 3))
	r.other(lin, unread(conv, 1))
	if h := r.headFor(ann, conv); h.Mine != (proto.Seen{Delivered: 5, Read: 3}) || h.Peer != (proto.Seen{Delivered: 5, Read: 3}) {
		t.Errorf("head of the customer %+v", h)
	}
	if h := r.headFor(lin, conv); h.Mine != (proto.Seen{Delivered: 8, Read: 6}) || h.Peer != (proto.Seen{Delivered: 8, Read: 4}) {
		t.Errorf("head of the agent %+v", h)
	}
	r.receipt(lin, conv, 1, 1)       // never back
	r.receipt(lin, conv, 1e18, 1e18) // nor ahead of what there is
	r.other(ann, heard(conv, store.Agent, 5, 5))
	r.other(lin, unread(conv, 0))
	r.note(lin, conv, "n4") // 9
	r.receipt(lin, conv, 0, 9)
	r.receipt(ann, conv, 0, 4)
	r.other(lin, heard(conv, store.Customer, 8, 7))
	for _, f := range ann.Others() {
		if f.T == "ev.receipt" {
			var n proto.ReceiptNow
			f.Decode(&n)
			if n.Read > 5 || n.Delivered > 5 {
				t.Errorf("the customer was told of %+v, there are 5 events for it", n)
			}
		}
	}
}

// Somebody who is not the customer or the owner is not listened to, and neither are numbers that are no numbers.
func TestReceiptsOfOthersAreIgnored(t *testing.T) {
	r := newRig(t, Options{Limits: testLimits()})
	ann, ben, lin, kim := r.customer(), r.customer(), r.agent("lin"), r.agent("kim")
	conv := r.open(ann, "human")
	r.receipt(lin, conv, 1, 1) // nobody owns it
	r.ok(lin.Take(r.ctx, conv))
	r.receipt(ben, conv, 2, 2)
	r.receipt(kim, conv, 2, 2)
	r.receipt(ben, "no such", 1, 1)
	r.do(ben, "ping", "", proto.Ping{})
	r.do(kim, "ping", "", proto.Ping{})
	if h := r.headFor(lin, conv); h.Mine != (proto.Seen{}) || h.Peer != (proto.Seen{}) {
		t.Errorf("%+v", h)
	}
	f, err := ann.Do(r.ctx, "receipt", conv, map[string]int{"read": -1})
	r.ok(err)
	if code(f) != proto.CodeBadRequest {
		t.Errorf("%+v", f)
	}
}

// What was read is there after a restart, also what was said just before it, and counts on.
func TestReceiptsSurviveARestart(t *testing.T) {
	r := newRig(t, Options{Limits: testLimits()})
	ann, lin := r.customer(), r.agent("lin")
	conv := r.open(ann, "human")
	r.ok(lin.Take(r.ctx, conv))
	r.note(lin, conv, "n")
	for i := range 3 {
		r.say(ann, conv, fmt.Sprint(i)) // 4, 5, 6
	}
	r.receipt(lin, conv, 6, 4)
	r.receipt(ann, conv, 5, 4)
	r.other(ann, heard(conv, store.Agent, 5, 3))
	r.other(lin, heard(conv, store.Customer, 6, 5))
	r.stop()
	r.openStore()
	stored, err := r.db.Cold().Conversation(r.ctx, conv)
	r.ok(err)
	if want := (store.Marks{Customer: store.Mark{Delivered: 5, Read: 4}, Staff: store.Mark{Delivered: 6, Read: 4}}); stored.Marks != want {
		t.Errorf("stored %+v, want %+v", stored.Marks, want)
	}
	r.startHub()
	r.ok(lin.Wait(r.ctx, func() bool { return true }))
	if h := r.headFor(lin, conv); h.Mine != (proto.Seen{Delivered: 6, Read: 4}) || h.Peer != (proto.Seen{Delivered: 6, Read: 5}) {
		t.Errorf("head %+v", h)
	}
	w, _ := lin.Welcome()
	if len(w.Inbox.Rows) != 1 || w.Inbox.Rows[0].Unread != 2 {
		t.Errorf("inbox %+v", w.Inbox)
	}
	r.receipt(lin, conv, 6, 5)
	r.other(lin, unread(conv, 1))
}

// Who reads the last words after the close is heard, and what is then no longer needed in memory is forgotten.
func TestReceiptsAfterTheClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newBubbleRig(t, Options{Limits: testLimits()})
		ann, ben, lin, kim := r.customer(), r.customer(), r.agent("lin"), r.agent("kim")
		conv := r.open(ann, "human")
		r.ok(lin.Take(r.ctx, conv))
		r.note(lin, conv, "n") // 3
		r.say(lin, conv, "bye")
		r.ok(lin.EndConv(r.ctx, conv, "done")) // 5, 4 for the customer
		forgotten := func() bool {
			r.hub.receipts.mu.Lock()
			defer r.hub.receipts.mu.Unlock()
			return len(r.hub.receipts.convs) == 0 && r.hub.receipts.closed == 0
		}
		r.waitFor("the closed conversation to be forgotten", forgotten)
		r.receipt(ben, conv, 4, 4)
		r.receipt(kim, conv, 5, 5)
		r.receipt(ann, conv, 99, 4)
		r.other(lin, heard(conv, store.Customer, 5, 5))
		r.receipt(lin, conv, 4, 0)
		r.other(ann, heard(conv, store.Agent, 3, 0))
		r.waitFor("it to be forgotten again", forgotten)
		if h := r.headFor(ann, conv); h.Mine != (proto.Seen{Delivered: 4, Read: 4}) || h.Peer != (proto.Seen{Delivered: 3}) {
			t.Errorf("head from the store %+v", h)
		}
		stored, err := r.db.Cold().Conversation(r.ctx, conv)
		r.ok(err)
		if stored.Marks != (store.Marks{Customer: store.Mark{Delivered: 4, Read: 4}, Staff: store.Mark{Delivered: 4}}) {
			t.Errorf("stored %+v", stored.Marks)
		}
	})
}

// A conversation that was closed, and perhaps forgotten, counts on where it was when it is open again.
func TestReceiptsAfterReopening(t *testing.T) {
	for name, restart := range map[string]bool{"same hub": false, "after a restart": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newBubbleRig(t, Options{Limits: testLimits()})
				ann, lin := r.customer(), r.agent("lin")
				conv := r.open(ann, "human") // 1
				r.ok(lin.Take(r.ctx, conv))  // 2
				r.note(lin, conv, "n")       // 3
				r.say(ann, conv, "unread")   // 4, 3
				r.receipt(ann, conv, 3, 2)
				r.other(lin, heard(conv, store.Customer, 4, 2))
				r.ok(lin.EndConv(r.ctx, conv, "")) // 5, 4
				if restart {
					r.stop()
					r.openStore()
					r.startHub()
				}
				r.say(ann, conv, "again")   // 6 reopened, 7; 5, 6
				r.ok(lin.Take(r.ctx, conv)) // 8, 7
				r.note(lin, conv, "m")      // 9
				r.say(ann, conv, "more")    // 10, 8
				r.receipt(ann, conv, 8, 6)
				r.other(lin, heard(conv, store.Customer, 10, 7))
				r.receipt(lin, conv, 10, 7)
				r.other(ann, heard(conv, store.Agent, 8, 6))
				r.other(lin, unread(conv, 1))
				r.receipt(lin, conv, 10, 10)
				r.other(ann, heard(conv, store.Agent, 8, 8))
			})
		})
	}
}

// A store that fails to save them gets them again, and what is told does not wait for it.
func TestReceiptsAreSavedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newBubbleRig(t, Options{Limits: testLimits()})
		ann, lin := r.customer(), r.agent("lin")
		conv := r.open(ann, "human")
		r.ok(lin.Take(r.ctx, conv))
		r.fault.failMarks(2)
		r.receipt(ann, conv, 2, 2)
		r.other(lin, heard(conv, store.Customer, 2, 2))
		r.waitFor("the receipt to be stored", func() bool {
			c, err := r.db.Cold().Conversation(r.ctx, conv)
			return err == nil && c.Marks.Customer == store.Mark{Delivered: 2, Read: 2}
		})
	})
}

// The new owner reads on where the old one was: the mark is that of staff.
func TestReceiptsOfANewOwner(t *testing.T) {
	r := newRig(t, Options{Limits: testLimits()})
	ann, lin, kim := r.customer(), r.agent("lin"), r.agent("kim")
	conv := r.open(ann, "human")
	r.ok(lin.Take(r.ctx, conv))
	r.say(ann, conv, "one")
	r.receipt(lin, conv, 3, 3)
	r.other(ann, heard(conv, store.Agent, 3, 3))
	if got := r.do(lin, "return", conv, proto.Return{}); got != "" { // 4
		t.Fatal(got)
	}
	r.receipt(lin, conv, 4, 4) // no longer the owner
	r.do(lin, "ping", "", proto.Ping{})
	r.ok(kim.Take(r.ctx, conv)) // 5
	if h := r.headFor(kim, conv); h.Mine != (proto.Seen{Delivered: 3, Read: 3}) {
		t.Errorf("%+v", h)
	}
	r.receipt(kim, conv, 5, 5)
	r.other(ann, heard(conv, store.Agent, 5, 5))
}

func TestNumbersOfTheStreams(t *testing.T) {
	for _, c := range []struct {
		hidden    []uint64
		seq, pseq uint64
	}{
		{nil, 0, 0}, {nil, 7, 7}, {[]uint64{3}, 2, 2}, {[]uint64{3}, 4, 3}, {[]uint64{1, 2, 3}, 4, 1}, {[]uint64{2, 3, 6}, 5, 3}, {[]uint64{2, 3, 6}, 7, 4},
	} {
		if got := toSeq(c.hidden, c.pseq); got != c.seq {
			t.Errorf("%v: %d of the customer is %d of staff, want %d", c.hidden, c.pseq, got, c.seq)
		}
		if got := toPSeq(c.hidden, c.seq); got != c.pseq {
			t.Errorf("%v: %d of staff is %d of the customer, want %d", c.hidden, c.seq, got, c.pseq)
		}
	}
	if got := toPSeq([]uint64{3, 4}, 4); got != 2 { // up to a note is up to what was before it
		t.Errorf("a note: %d", got)
	}
}
