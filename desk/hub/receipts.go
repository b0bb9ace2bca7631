package hub

import (
	"context"
	"slices"
	"sort"
	"sync"
	"time"

	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/store"
)

// receipts keeps how far both sides of a conversation have got. What a client says counts at once. One goroutine, which
// never blocks, tells the other side, and the newest mark wins. Another one tells the store, in batches. Conversations
// that are not open are kept only until everything about them is told and saved.
type receipts struct {
	hub  *Hub
	tell chan struct{} // holds one element when a side must be told
	keep chan struct{} // holds one element when something must be loaded or saved
	quit chan struct{}
	done sync.WaitGroup
	once sync.Once

	mu      sync.Mutex
	convs   map[string]*tracked
	toTell  []string // ids, each once
	toSave  []string
	toLoad  []string
	toDrop  []string // may be forgotten when told and saved
	closed  int      // how many of convs are not open
	evicted uint64   // conversations forgotten
}

// tracked is one conversation. Its marks are never above last.
type tracked struct {
	marks   store.Marks
	last    store.Mark // ends of the streams: Delivered for the customer's stream, Read for that of staff
	places  store.Places
	loaded  bool        // places is complete
	open    bool        // the conversation is not closed
	contact string      // id
	name    string      // of the contact
	staff   store.Actor // the agent that speaks for staff: the owner, or the last owner after the close

	news  [2]bool // by side: the other side has not been told
	ours  [2]bool // by side: the other servers have not been told
	dirty bool    // not saved
}

const (
	receiptsEvery     = 100 * time.Millisecond // between two rounds of telling
	receiptsSave      = 300 * time.Millisecond // between a receipt and its way to the store
	receiptsBatch     = 256                    // conversations in one transaction
	receiptsTimeout   = 2 * time.Second        // of one transaction or read
	maxClosedReceipts = 10_000                 // conversations that are not open, in memory
)

func newReceipts(h *Hub) *receipts {
	return &receipts{
		hub: h, convs: make(map[string]*tracked),
		tell: make(chan struct{}, 1), keep: make(chan struct{}, 1), quit: make(chan struct{}),
	}
}

// start takes over the open conversations. Call it before the first session.
func (r *receipts) start(ctx context.Context, open []store.Conversation) error {
	places, err := r.hub.o.Store.Cold().Places(ctx, "")
	if err != nil {
		return err
	}
	r.mu.Lock()
	for i := range open {
		e := &tracked{marks: open[i].Marks, loaded: true}
		e.follow(&open[i])
		r.convs[open[i].ID] = e
	}
	for _, p := range places {
		if e := r.convs[p.Conv]; e != nil {
			e.places = p
		}
	}
	r.mu.Unlock()
	r.done.Go(r.teller)
	r.done.Go(r.keeper)
	return nil
}

// stop saves what is not saved yet.
func (r *receipts) stop(ctx context.Context) {
	r.once.Do(func() { close(r.quit) })
	r.done.Wait()
	r.save(ctx)
}

func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// follow takes over what the conversation c says about itself.
func (e *tracked) follow(c *store.Conversation) {
	e.open, e.contact, e.name = c.State != store.Closed, c.Contact, c.ContactName
	e.last = store.Mark{Delivered: c.LastPSeq, Read: c.LastSeq}
	switch {
	case c.Owner.Kind == store.Agent:
		e.staff = c.Owner
	case e.open:
		e.staff = store.Actor{}
	case e.staff.ID != c.LastAgent:
		e.staff = store.Actor{Kind: store.Agent, ID: c.LastAgent}
	}
}

// committed takes over a part of the feed and gives its conversation its marks. Hub.mu may be held.
func (r *receipts) committed(part *store.Fed) {
	c := &part.Conv
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.convs[c.ID]
	if e == nil && c.State != store.Closed {
		e = &tracked{marks: c.Marks, loaded: len(part.Events) > 0 && part.Events[0].Seq == 1}
		r.convs[c.ID] = e
		if !e.loaded {
			r.missing(c.ID)
		}
	}
	if e == nil {
		return
	}
	if e.loaded && e.contact != "" && c.LastSeq > e.last.Read+uint64(len(part.Events)) { // there are notes that it does not know
		e.loaded = false
		r.missing(c.ID)
	}
	r.advance(e, part)
	r.stored(e, c)
	e.show(c)
}

// stored takes over the marks of a conversation that was read: another server may have stored them. r.mu is held.
func (r *receipts) stored(e *tracked, c *store.Conversation) {
	told := e.news[0] || e.news[1]
	up, too := e.lift(store.CustomerSide, c.Marks.Customer), e.lift(store.StaffSide, c.Marks.Staff)
	if (up || too) && !told {
		r.toTell = append(r.toTell, c.ID)
		wake(r.tell)
	}
}

func (r *receipts) missing(conv string) {
	r.toLoad = append(r.toLoad, conv)
	wake(r.keep)
}

// advance adds new events to a conversation. r.mu is held.
func (r *receipts) advance(e *tracked, part *store.Fed) {
	for i := range part.Events {
		e.add(&part.Events[i])
	}
	before := e.open || e.contact == "" // open, or a new conversation
	e.follow(&part.Conv)
	switch {
	case before && !e.open:
		r.closed++
		r.toDrop = append(r.toDrop, part.Conv.ID)
		wake(r.keep)
	case !before && e.open:
		r.closed--
	}
}

func (e *tracked) add(ev *store.Event) {
	if ev.PSeq == 0 {
		e.places.Hidden = insert(e.places.Hidden, ev.Seq)
	}
	if ev.From.Kind == store.Customer && ev.Kind != store.KindEvent && ev.Seq > e.marks.Staff.Read && len(e.places.Unread) < store.MaxUnread {
		e.places.Unread = insert(e.places.Unread, ev.Seq)
	}
}

// insert keeps a list of numbers in order, each once.
func insert(list []uint64, n uint64) []uint64 {
	i, found := slices.BinarySearch(list, n)
	if found {
		return list
	}
	return slices.Insert(list, i, n)
}

// show gives a conversation its marks. They are never behind those that were read from the store.
func (e *tracked) show(c *store.Conversation) {
	c.Marks, c.Unread = e.marks, len(e.places.Unread)
	c.Across = across(e.marks, &e.places)
}

// across translates marks into the numbers of the other side's stream.
func across(m store.Marks, p *store.Places) store.Marks {
	return store.Marks{
		Customer: store.Mark{Delivered: toSeq(p.Hidden, m.Customer.Delivered), Read: toSeq(p.Hidden, m.Customer.Read)},
		Staff:    store.Mark{Delivered: toPSeq(p.Hidden, m.Staff.Delivered), Read: toPSeq(p.Hidden, m.Staff.Read)},
	}
}

// toSeq returns the number in the staff stream of the event that is n in the customer's.
func toSeq(hidden []uint64, n uint64) uint64 {
	if n == 0 {
		return 0
	}
	for _, h := range hidden {
		if h > n {
			break
		}
		n++
	}
	return n
}

// toPSeq returns the number in the customer's stream of the last event up to n in that of staff.
func toPSeq(hidden []uint64, n uint64) uint64 {
	return n - uint64(sort.Search(len(hidden), func(i int) bool { return hidden[i] > n }))
}

// sideOf returns the side that an actor speaks for. Nobody else counts.
func (e *tracked) sideOf(who store.Actor) (side store.Side, ok bool) {
	switch {
	case who.Kind == store.Customer && who.ID == e.contact:
		return store.CustomerSide, true
	case who.Kind == store.Agent && who.ID == e.staff.ID:
		return store.StaffSide, true
	default:
		return 0, false
	}
}

// lift moves the mark of a side, and reports whether it moved.
func (e *tracked) lift(side store.Side, to store.Mark) bool {
	mark, last := &e.marks.Customer, e.last.Delivered
	if side == store.StaffSide {
		mark, last = &e.marks.Staff, e.last.Read
	}
	up := mark.Raise(to, last)
	if up == *mark {
		return false
	}
	*mark = up
	if side == store.StaffSide {
		i, _ := slices.BinarySearch(e.places.Unread, up.Read+1)
		e.places.Unread = slices.Delete(e.places.Unread, 0, i)
	}
	e.news[side] = true
	return true
}

// heard raises a mark, and has it told and saved. r.mu is held.
func (r *receipts) heard(conv string, e *tracked, who store.Actor, to store.Mark) bool {
	side, ok := e.raised(r, conv, who, to)
	if !ok {
		return false
	}
	e.ours[side] = true
	if !e.dirty {
		e.dirty = true
		r.toSave = append(r.toSave, conv)
	}
	wake(r.keep)
	return true
}

// raised raises the mark of the side that who speaks for, and has it told here. r.mu is held.
func (e *tracked) raised(r *receipts, conv string, who store.Actor, to store.Mark) (side store.Side, ok bool) {
	told := e.news[0] || e.news[1]
	if side, ok = e.sideOf(who); !ok || !e.lift(side, to) {
		return side, false
	}
	if !told {
		r.toTell = append(r.toTell, conv)
	}
	wake(r.tell)
	return side, true
}

// told takes over what another server says of a mark. That server saves it.
func (r *receipts) told(conv string, who store.Actor, to store.Mark) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e := r.convs[conv]; e != nil {
		e.raised(r, conv, who, to)
	}
}

// receipt handles the command receipt, on the loop. A conversation that is not in memory is read on the pool of the
// sender's kind.
func (s *Session) receipt(who identity, conv string, p *proto.Receipt) {
	r, to := s.hub.receipts, store.Mark{Delivered: p.Delivered, Read: p.Read}
	r.mu.Lock()
	e := r.convs[conv]
	if e != nil {
		r.heard(conv, e, who.actor, to)
	}
	r.mu.Unlock()
	if e == nil {
		s.read(proto.Command{}, who, func(ctx context.Context, reader store.Reader) { r.later(ctx, reader, who.actor, conv, to) },
			func() { s.hub.Counters.Dropped.Add(1) })
	}
}

// later handles a receipt for a conversation that is not in memory, because it is closed or does not exist.
func (r *receipts) later(ctx context.Context, reader store.Reader, who store.Actor, conv string, to store.Mark) {
	for range 3 {
		r.mu.Lock()
		before := r.evicted
		r.mu.Unlock()
		c, err := reader.Conversation(ctx, conv)
		if err != nil || (who.Kind == store.Customer && c.Contact != who.ID) || (who.Kind == store.Agent && c.LastAgent != who.ID) {
			return
		}
		places, err := reader.Places(ctx, conv)
		if err != nil {
			return
		}
		r.mu.Lock()
		e := r.convs[conv]
		if e == nil && r.evicted != before {
			r.mu.Unlock()
			continue // the conversation read may be older than one forgotten meanwhile
		}
		if e == nil && c.State == store.Closed && r.closed < maxClosedReceipts {
			e = &tracked{marks: c.Marks, loaded: true}
			e.follow(&c)
			if len(places) > 0 {
				e.places = places[0]
			}
			r.convs[conv] = e
			r.closed++
			r.toDrop = append(r.toDrop, conv)
			wake(r.keep)
		}
		if e != nil {
			r.heard(conv, e, who, to)
		}
		r.mu.Unlock()
		return
	}
}
