package hub

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-eddy/eddy/desk/desktest"
	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/store"
)

var lossyFeed = flag.Bool("lossy-feed", false, "run every test on a feed with holes")

// feedFaults are faults of the feed.
type feedFaults struct {
	mu    sync.Mutex
	lossy bool
	held  bool // nothing is told
	fails bool // nothing can be read again
	take  func(*store.Fed)
	last  *store.Fed // the newest part that was held
	reads int
}

// Follow implements store.Feed. A lossy feed is one that came through a network: every third part is missing, until a later one
// or, after a while, it shows that there is something. Every third part comes twice.
func (f *faultStore) Follow(take func(*store.Fed)) (int64, func()) {
	ff := &f.feed
	ff.mu.Lock()
	defer ff.mu.Unlock()
	ff.lossy = ff.lossy || *lossyFeed
	n, over := 0, false
	ff.take = take
	at, stop := f.Store.Follow(func(part *store.Fed) {
		ff.mu.Lock()
		defer ff.mu.Unlock()
		later := *part
		if n++; ff.held {
			ff.last = &later
			return
		}
		if ff.lossy && n%3 == 0 {
			go func() {
				for range 2000 {
					runtime.Gosched()
				}
				ff.mu.Lock()
				defer ff.mu.Unlock()
				if !over {
					take(&later)
				}
			}()
			return
		}
		if take(part); ff.lossy && n%3 == 1 {
			take(&later)
		}
	})
	return at, func() {
		stop()
		ff.mu.Lock()
		defer ff.mu.Unlock()
		over = true
	}
}

// hold keeps everything from being told, until goOn tells the newest part.
func (ff *feedFaults) hold() {
	ff.mu.Lock()
	defer ff.mu.Unlock()
	ff.held = true
}

func (ff *feedFaults) goOn() {
	ff.mu.Lock()
	defer ff.mu.Unlock()
	ff.held = false
	if ff.last != nil {
		ff.take(ff.last)
		ff.last = nil
	}
}

// calm makes the feed one without holes, and waits until nothing is missing.
func (r *rig) calm() {
	r.t.Helper()
	ff, f := &r.fault.feed, r.hub.feed
	ff.mu.Lock()
	ff.lossy = false
	ff.mu.Unlock()
	r.waitFor("the feed to go on by itself", func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return !f.behind
	})
}

func (ff *feedFaults) fail(yes bool) {
	ff.mu.Lock()
	defer ff.mu.Unlock()
	ff.fails = yes
}

// newest returns the conversation of the newest part that was held.
func (ff *feedFaults) newest() string {
	ff.mu.Lock()
	defer ff.mu.Unlock()
	if ff.last == nil {
		return ""
	}
	return ff.last.Conv.ID
}

func (ff *feedFaults) tried() int {
	ff.mu.Lock()
	defer ff.mu.Unlock()
	return ff.reads
}

// Fed implements store.FeedReader.
func (r faultReader) Fed(ctx context.Context, after int64, limit int) (store.FedPage, error) {
	ff := &r.f.feed
	ff.mu.Lock()
	ff.reads++
	fails := ff.fails
	ff.mu.Unlock()
	if fails {
		return store.FedPage{}, errInjected
	}
	return r.Reader.Fed(ctx, after, limit)
}

// same waits until the hub knows what the store knows, and nothing else.
func (r *rig) same() {
	r.t.Helper()
	r.waitFor("the hub to know what is open", func() bool {
		open, err := r.db.Cold().OpenConversations(r.ctx)
		r.ok(err)
		known := r.theHub().known()
		for _, list := range [][]store.Conversation{open, known} {
			slices.SortFunc(list, func(a, b store.Conversation) int { return cmp.Compare(a.ID, b.ID) })
			for i := range list { // the hub's are newer
				list[i].Marks, list[i].Across, list[i].Unread, list[i].LeftAt = store.Marks{}, store.Marks{}, 0, 0
			}
		}
		return slices.Equal(open, known)
	})
}

// lossyRig is a rig whose feed has holes.
func lossyRig(t *testing.T) *rig {
	t.Helper()
	r := newRig(t, Options{Limits: testLimits()})
	r.halt()
	r.fault.feed.lossy = true
	r.startHub()
	return r
}

// What is missing in the feed is read: every client sees everything once and in order, every command is answered, and the
// hub knows what the store knows.
func TestFeedWithHoles(t *testing.T) {
	const customers, texts = 6, 20
	r := lossyRig(t)
	lin, moe := r.agent("lin"), r.agent("moe")
	r.ok(lin.Connected(r.ctx))
	r.ok(moe.Connected(r.ctx))
	var all sync.WaitGroup
	convs := make([]string, customers)
	clients := make([]*desktest.Client, customers)
	for i := range customers {
		clients[i] = r.customer()
		all.Go(func() {
			c := clients[i]
			conv, err := c.Open(r.ctx, "human")
			if err != nil {
				t.Error(err)
				return
			}
			convs[i] = conv
			if err := lin.Take(r.ctx, conv); err != nil {
				t.Error(err)
			}
			for n := range texts {
				c.Send(conv, fmt.Sprint(n))
				lin.Send(conv, fmt.Sprint("re ", n))
			}
			if err := c.Flushed(r.ctx); err != nil {
				t.Error(err)
			}
			if f, err := lin.Do(r.ctx, "tag", conv, proto.Tag{Add: []string{"a"}}); err != nil || f.T != "ok" {
				t.Errorf("tagged: %+v %v", f, err)
			}
		})
	}
	all.Wait()
	r.ok(lin.Flushed(r.ctx))
	for i, c := range clients {
		r.checkView(c, convs[i], store.CustomerSide)
		r.checkView(lin, convs[i], store.StaffSide)
	}
	r.same()
	if n := r.hub.Counters.FeedGaps.Load(); n == 0 {
		t.Error("there were no holes")
	}
	r.ok(lin.EndConv(r.ctx, convs[0], "done"))
	r.event(clients[0], convs[0], state(store.Closed))
	r.same()
}

// While what is missing cannot be read, clients are answered all the same: what they asked for is committed. Afterwards
// everybody is told.
func TestFeedCannotBeRead(t *testing.T) {
	r := newRig(t, Options{Limits: testLimits()})
	lin, ann, ben := r.agent("lin"), r.customer(), r.customer()
	conv, other := r.open(ann, "human"), r.open(ben, "human")
	r.ok(lin.Take(r.ctx, conv))
	r.event(ann, conv, state(store.Assigned))
	stored := func(conv, text string) {
		t.Helper()
		r.waitFor("the message to be stored", func() bool {
			c, err := r.db.Cold().Conversation(r.ctx, conv)
			r.ok(err)
			return c.Preview == text
		})
	}
	r.calm()
	r.fault.feed.fail(true)
	r.fault.feed.hold()
	ann.Send(conv, "one")
	stored(conv, "one")
	if acks := ann.Acks(); len(acks) != 0 {
		t.Errorf("answered before the hub knew: %+v", acks)
	}
	r.fault.feed.goOn() // it is not missing
	r.ok(ann.Flushed(r.ctx))
	r.event(lin, conv, body("one"))
	r.fault.feed.hold()
	lin.Send(conv, "lost")
	stored(conv, "lost")
	ben.Send(other, "two")
	stored(other, "two")
	r.waitFor("its part to be held", func() bool { return r.fault.feed.newest() == other })
	r.fault.feed.goOn()
	r.ok(lin.Flushed(r.ctx)) // though nothing can be read
	r.ok(ben.Flushed(r.ctx))
	tried := r.fault.feed.tried()
	r.waitFor("more attempts", func() bool { return r.fault.feed.tried() > tried+1 })
	r.fault.feed.fail(false)
	r.event(ann, conv, body("lost"))
	r.checkView(ann, conv, store.CustomerSide)
	r.checkView(ben, other, store.CustomerSide)
	r.checkView(lin, conv, store.StaffSide)
	r.same()
}

// A hub that was away for longer than rows are kept reads what is open, and its clients resume by what they have.
func TestFeedIsRebuilt(t *testing.T) {
	var hooks atomic.Int64
	r := newRig(t, Options{Limits: testLimits(), HooksChanged: func() { hooks.Add(1) }})
	lin, ann, ben, cid, dan := r.agent("lin"), r.customer(), r.customer(), r.customer(), r.customer()
	conv, other, asked := r.open(ann, "human"), r.open(ben, "human"), r.open(dan, "")
	r.ok(lin.Take(r.ctx, conv))
	r.ok(lin.Take(r.ctx, other))
	r.event(dan, asked, fromBot)
	r.ok(cid.Connected(r.ctx))
	me := store.Actor{Kind: store.Agent, ID: lin.Me().ID, Name: "lin"}
	cidID := cid.Me().ID
	r.calm()
	r.fault.feed.hold()
	contact := store.Contact{ID: cidID, Site: r.site.ID, Name: "Cid"}
	question := uint64(0)
	for _, cmd := range []store.Command{
		store.Append{Conv: asked, From: store.Actor{Kind: store.Customer, ID: dan.Me().ID}, ClientID: newClientID(), Body: "hello?"},
		store.Append{Conv: conv, From: me, ClientID: newClientID(), Body: "while you were away"},
		store.Append{Conv: conv, From: me, ClientID: newClientID(), Body: "for staff", Note: true},
		store.Move{Conv: other, Trigger: store.AgentClose, By: me},
		store.Open{Contact: contact, Human: true},
	} {
		done := make(chan store.Outcome, 1)
		r.db.Do(cmd, time.Now().Add(time.Hour), func(out store.Outcome) { done <- out })
		out := <-done
		if out.Err != nil {
			t.Fatal(out.Err)
		}
		if out.Turn != "" {
			question = out.Conv.LastPSeq
		}
	}
	site, err := r.db.Cold().SiteByKey(r.ctx, "demo")
	r.ok(err)
	site.Settings.Visits = store.KeepNothing
	r.ok(r.db.UpdateSite(r.ctx, site))
	_, err = r.db.TrimOutbox(r.ctx, store.OutboxTrim{Limit: 100})
	r.ok(err)
	before, told := r.hub.rechecks.count.Load(), hooks.Load()
	r.fault.feed.goOn()
	r.event(ann, conv, body("while you were away"))
	r.waitFor("the setting of the site", func() bool { return r.hub.visitsKept(site.ID) == store.KeepNothing })
	if r.hub.rechecks.count.Load() == before || hooks.Load() == told {
		t.Error("a hello that is under way is not read again, or webhooks are not")
	}
	r.event(ben, other, state(store.Closed))
	r.waitFor("the new conversation to be shown", func() bool { return len(cid.Conversations()) == 1 })
	r.event(dan, asked, func(f desktest.Frame) bool { return fromBot(f) && f.S > question })
	r.same()
	r.waitFor("the note to be known", func() bool {
		r.hub.receipts.mu.Lock()
		defer r.hub.receipts.mu.Unlock()
		e := r.hub.receipts.convs[conv]
		return e.loaded && len(e.places.Hidden) == 1
	})
	if n := r.hub.Counters.Rebuilds.Load(); n != 1 {
		t.Errorf("rebuilt %d times", n)
	}
	lin.Send(conv, "and now")
	r.event(ann, conv, body("and now"))
	r.checkView(ann, conv, store.CustomerSide)
	r.checkView(lin, conv, store.StaffSide)
	r.same()
}

// An agent who has lost a chat before the hub knew that it had it is told both.
func TestFeedTellsOwnersInBetween(t *testing.T) {
	r := newRig(t, Options{Limits: testLimits()})
	lin, moe, ann := r.agent("lin"), r.agent("moe"), r.customer()
	conv := r.open(ann, "human")
	r.ok(lin.Connected(r.ctx))
	r.ok(moe.Connected(r.ctx))
	r.calm()
	r.fault.feed.hold()
	took := make(chan error, 1)
	go func() { took <- lin.Take(r.ctx, conv) }()
	r.waitFor("the chat to be taken", func() bool {
		c, err := r.db.Cold().Conversation(r.ctx, conv)
		r.ok(err)
		return c.Owner.ID == lin.Me().ID
	})
	done := make(chan store.Outcome, 1)
	by := store.Actor{Kind: store.Agent, ID: moe.Me().ID, Name: "moe"}
	r.db.Do(store.Move{Conv: conv, Trigger: store.TakeOver, By: by, Force: true}, time.Now().Add(time.Hour), func(out store.Outcome) { done <- out })
	if out := <-done; out.Err != nil {
		t.Fatal(out.Err)
	}
	_, err := r.db.Reconcile(r.ctx) // behind both
	r.ok(err)
	r.fault.feed.goOn()
	r.ok(<-took)
	r.event(lin, conv, func(f desktest.Frame) bool {
		var ch proto.StateChange
		f.Decode(&ch)
		return f.T == "ev.state" && ch.Owner != nil && ch.Owner.ID == moe.Me().ID
	})
	r.checkView(moe, conv, store.StaffSide)
}

// A part that was read with a newer head does not bring the state before back when it comes.
func TestFeedDoesNotGoBack(t *testing.T) {
	r := newRig(t, Options{Limits: testLimits()})
	lin, ann := r.agent("lin"), r.customer()
	conv := r.open(ann, "human")
	r.same()
	before := r.hub.known()[0]
	r.ok(lin.Take(r.ctx, conv))
	lin.Send(conv, "hello")
	r.ok(lin.Flushed(r.ctx))
	r.hub.takeOver(&store.Fed{Conv: before, Touched: true})
	if now := r.hub.known()[0]; now.Owner.ID != lin.Me().ID || now.LastSeq <= before.LastSeq {
		t.Errorf("the hub knows %+v", now)
	}
	r.same()
}

// A hub that ends answers whoever still waits for its feed.
func TestFeedEnds(t *testing.T) {
	r := newRig(t, Options{Limits: testLimits()})
	ann := r.customer()
	conv := r.open(ann, "human")
	r.calm()
	r.fault.feed.hold()
	ann.Send(conv, "one")
	r.waitFor("the message to be stored", func() bool {
		c, err := r.db.Cold().Conversation(r.ctx, conv)
		r.ok(err)
		return c.Preview == "one"
	})
	over, cancel := context.WithCancel(r.ctx)
	cancel()
	if err := r.hub.Shutdown(over); err == nil {
		t.Error("the lane has not been waited for")
	}
	r.waitFor("the acknowledgement, which the client may have gone without", func() bool { return r.hub.Counters.Acks.Load() == 1 })
}
