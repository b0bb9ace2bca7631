package storetest

import (
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-eddy/eddy/desk/store"
)

// followed is what the feed of a store has told.
type followed struct {
	mu    sync.Mutex
	from  int64
	parts []store.Fed
	stop  func()
}

func follow(s store.Store) *followed {
	f := &followed{}
	f.mu.Lock() // parts may come at once
	defer f.mu.Unlock()
	f.from, f.stop = s.Follow(func(part *store.Fed) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.parts = append(f.parts, *part)
	})
	return f
}

func (f *followed) all() []store.Fed {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.parts)
}

// last returns the last row that was told.
func (f *followed) last() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.parts) == 0 {
		return f.from
	}
	return f.parts[len(f.parts)-1].Last
}

// behind waits until everything that was under way is done and told.
func (r *rig) behind() {
	r.t.Helper()
	_, err := r.Reconcile(r.t.Context())
	r.must(err)
}

// reread returns what the rows behind one say, page by page.
func (r *rig) reread(after int64, limit int) (all []store.Fed) {
	r.t.Helper()
	for {
		page, err := r.Hot().Fed(r.t.Context(), after, limit)
		r.must(err)
		all = append(all, page.All...)
		if page.Last < after || page.More && page.Last == after {
			r.t.Fatalf("a page behind %d ends at %d", after, page.Last)
		}
		if after = page.Last; !page.More {
			return all
		}
	}
}

// verifyFeed compares what was told with the rows: each part once, in order, without a hole, about the same. What another
// server has committed is not told.
func (r *rig) verifyFeed() {
	r.t.Helper()
	r.behind()
	told := slices.DeleteFunc(r.feed.all(), func(f store.Fed) bool { return r.shared && f.First > f.Last })
	at := r.feed.from
	for i := range told {
		if told[i].First != at+1 && !(r.shared && told[i].First > at) || told[i].Last < told[i].First {
			r.t.Errorf("part %d to %d comes after %d", told[i].First, told[i].Last, at)
		}
		at = told[i].Last
	}
	read := r.reread(r.feed.from, 64)
	page, err := r.Cold().Outbox(r.t.Context(), 0, 1)
	r.must(err)
	if page.Last != at && !r.shared {
		r.t.Errorf("the feed has told %d of %d rows", at, page.Last)
	}
	for len(told) > 0 && told[0].First <= page.Floor {
		told = told[1:] // they have been deleted
	}
	for i := 0; len(read) > 0; i++ {
		if len(told) == 0 || told[0].First > read[0].First {
			if r.shared {
				read = read[1:]
				continue
			}
			r.t.Errorf("%+v has not been told", read[0])
			return
		}
		if told[0].First < read[0].First { // its rows have been deleted with what they were about
			told = told[1:]
			continue
		}
		gone := len(read[0].Events) != len(told[0].Events) || read[0].Conv.ID != told[0].Conv.ID || len(read[0].Contacts) != len(told[0].Contacts)
		if live, again := summary(&told[0]), summary(&read[0]); live != again && !gone {
			r.t.Errorf("told\n%s\nread\n%s", live, again)
		}
		told, read = told[1:], read[1:]
	}
}

// summary is what does not change any more about a part.
func summary(f *store.Fed) string {
	s := fmt.Sprint(f.First, " ", f.Last, " ", f.Conv.ID)
	for _, e := range f.Events {
		s += fmt.Sprint(" ", e.Seq, e.ID, e.Kind)
	}
	for _, c := range f.Contacts {
		s += " " + c.ID
	}
	return s
}

// testFeed: each change of a conversation or a contact is told once, with what it has changed, and can be read again as it was
// told. What fails or changes nothing is not told. The outcome names its place.
func testFeed(t *testing.T, r *rig) {
	ctx := t.Context()
	ann := r.visitor()
	lin := r.lin.Actor()
	conv := r.assigned(ann, r.lin)
	withBot := r.open(r.visitor(), false)
	one := func(what string, events, contacts int, do func() (place int64)) {
		t.Helper()
		r.behind()
		before := r.feed.last()
		place := do()
		r.behind()
		read := r.reread(before, 100)
		parts := r.feed.all()
		part := parts[len(parts)-1]
		if part.First != before+1 || place != 0 && place != part.Last || len(part.Events) != events || len(part.Contacts) != contacts || len(read) != 1 {
			t.Fatalf("%s: behind %d there is %+v, its outcome says %d; read %+v", what, before, part, place, read)
		}
		read[0].Touched = part.Touched
		if !reflect.DeepEqual(read[0], part) {
			t.Errorf("%s: told\n%+v\nread\n%+v", what, part, read[0])
		}
	}
	do := func(what string, events, contacts int, cmd store.Command, check func(store.Outcome)) {
		t.Helper()
		one(what, events, contacts, func() int64 {
			out := r.do(cmd)
			part := func() store.Fed { all := r.feed.all(); return all[len(all)-1] }
			if check != nil {
				check(out)
			}
			r.behind()
			if p := part(); p.Conv != out.Conv || !reflect.DeepEqual(p.Events, out.Events) || p.Touched != out.Touched || p.Turn != out.Turn {
				t.Errorf("%s: outcome\n%+v\nis told as\n%+v", what, out, p)
			}
			return out.Fed
		})
	}
	do("a message", 1, 0, text(conv.ID, ann.Actor(), "hello"), nil)
	do("tags", 0, 0, store.Tag{Conv: conv.ID, By: lin, Add: []string{"a"}}, func(out store.Outcome) {
		if !out.Touched {
			t.Error("tags do not touch the conversation")
		}
	})
	do("a transfer with a note", 2, 0, store.Move{Conv: conv.ID, Trigger: store.TransferAgent, By: lin, To: r.moe.ID, Note: "n"}, nil)
	turn := ""
	do("a text to the bot", 1, 0, text(withBot.ID, store.Actor{Kind: store.Customer, ID: withBot.Contact}, "hi"), func(out store.Outcome) {
		if turn = out.Turn; turn == "" {
			t.Error("no turn has begun")
		}
	})
	do("a turn of the bot", 3, 1, store.BotTurn{
		Conv: withBot.ID, Turn: turn, Say: []store.Say{{Body: "a"}, {Body: "b"}}, Handoff: true, Attributes: map[string]string{"k": "v"},
	}, nil)
	_, slow := r.Follow(func(*store.Fed) {
		for range 1000 {
			runtime.Gosched()
		}
	})
	last := follow(r.Store)
	one("a new name", 0, 1, func() int64 {
		_, err := r.PatchContact(ctx, store.ContactPatch{Contact: ann.ID, Name: "Ann"})
		r.must(err)
		if parts := last.all(); len(parts) != 1 || len(parts[0].Contacts) != 1 || parts[0].Contacts[0].Name != "Ann" {
			t.Errorf("a call that blocks has returned before everybody was told: %+v", parts)
		}
		return 0
	})
	slow()
	last.stop()
	file := r.upload(conv.ID, ann.Actor())
	do("a file", 1, 0, store.Append{Conv: conv.ID, From: ann.Actor(), ClientID: newKey(), Attachments: []string{file.ID}}, nil)
	r.behind()
	before := r.feed.last()
	again := text(conv.ID, ann.Actor(), "once")
	r.do(again)
	if out := r.do(again); !out.Dup || out.Fed != 0 {
		t.Errorf("said again: %+v", out)
	}
	r.refused(store.Move{Conv: conv.ID, Trigger: store.TransferAgent, By: lin, To: r.moe.ID}, store.ErrForbidden)
	if out := r.do(store.Tag{Conv: conv.ID, By: lin, Add: []string{"a"}}); out.Fed != 0 {
		t.Errorf("no change: %+v", out)
	}
	r.behind()
	if parts := r.reread(before, 100); len(parts) != 1 || r.feed.last() != before+1 {
		t.Errorf("%+v", parts)
	}
	r.behind()
	r.feed.stop()
	told := len(r.feed.all())
	r.do(text(conv.ID, ann.Actor(), "nobody listens"))
	r.behind()
	if n := len(r.feed.all()); n != told {
		t.Errorf("%d parts after the end", n-told)
	}
	r.feed = follow(r.Store)
}

// testFeedOrder: of many commands at once, each part comes behind its outcome and in the order of the rows; whoever follows in
// between gets everything behind the place that it was told. Pages end between commands.
func testFeedOrder(t *testing.T, r *rig) {
	const customers, texts = 8, 12
	r.behind()
	var mu sync.Mutex
	outcomes := make(map[int64]bool)
	before, stop := r.Follow(func(part *store.Fed) {
		mu.Lock()
		defer mu.Unlock()
		if part.Conv.ID != "" && !outcomes[part.Last] {
			t.Errorf("part %d comes before its outcome", part.Last)
		}
	})
	defer stop()
	if before != r.feed.last() {
		t.Errorf("follows from %d, the last part was %d", before, r.feed.last())
	}
	var all sync.WaitGroup
	said := make(chan struct{}, customers*texts)
	send := func(cmd store.Command) store.Outcome {
		done := make(chan store.Outcome, 1)
		r.Do(cmd, time.Now().Add(time.Hour), func(out store.Outcome) {
			mu.Lock()
			outcomes[out.Fed] = true
			mu.Unlock()
			done <- out
		})
		return <-done
	}
	for range customers {
		c := r.visitor()
		all.Go(func() {
			conv := send(store.Open{Contact: c, Human: true}).Conv.ID
			for i := range texts {
				if out := send(text(conv, c.Actor(), fmt.Sprint(i))); out.Err != nil {
					t.Error(out.Err)
				}
				said <- struct{}{}
			}
			send(store.Move{Conv: conv, Trigger: store.TakeOver, By: r.moe.Actor(), Note: "two rows"})
		})
	}
	<-said
	late := follow(r.Store)
	all.Wait()
	r.behind()
	late.stop()
	parts := slices.DeleteFunc(r.feed.all(), func(p store.Fed) bool { return p.Last <= late.from })
	if got := late.all(); len(got) != len(parts) || len(got) > 0 && got[0].First != late.from+1 {
		t.Errorf("from %d on, %d parts were told, want %d", late.from, len(got), len(parts))
	}
	for limit := 2; limit < 8; limit++ {
		if read := r.reread(before, limit); len(read) != customers*(texts+2) {
			t.Errorf("pages of %d: %d parts", limit, len(read))
		}
	}
}

// testFeedGone: what was deleted is left out when it is read again, and a reader from before learns of the gap.
func testFeedGone(t *testing.T, r *rig) {
	ctx := t.Context()
	ann := r.visitor()
	conv := r.assigned(ann, r.lin)
	r.do(text(conv.ID, ann.Actor(), "hello"))
	r.do(store.Tag{Conv: conv.ID, By: r.lin.Actor(), Add: []string{"a"}})
	r.do(store.Move{Conv: conv.ID, Trigger: store.AgentClose, By: r.lin.Actor()})
	rows := r.outbox(0)
	r.must(r.EraseContact(ctx, ann.ID))
	r.erase(1000)
	for _, part := range r.reread(0, 100) {
		if part.Conv.ID != "" || len(part.Events) > 0 {
			t.Errorf("%+v", part)
		}
	}
	if _, err := r.TrimOutbox(ctx, store.OutboxTrim{Keep: 1, Limit: 100}); err != nil {
		t.Fatal(err)
	}
	page, err := r.Hot().Fed(ctx, 0, 100)
	if err != nil || page.Floor == 0 || page.Last < rows[len(rows)-1].Seq || page.More {
		t.Errorf("%+v %v, rows up to %d", page, err, rows[len(rows)-1].Seq)
	}
}
