package hub

import (
	"context"
	"time"

	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/store"
)

// teller tells the other sides, each at most once in receiptsEvery. It never blocks.
func (r *receipts) teller() {
	pause := time.NewTimer(time.Hour)
	defer pause.Stop()
	for {
		select {
		case <-r.quit:
			return
		case <-r.tell:
		}
		r.tellAll()
		pause.Reset(receiptsEvery)
		select {
		case <-r.quit:
			return
		case <-pause.C:
		}
	}
}

// word is one mark to be told.
type word struct {
	conv    string
	side    store.Side // the side that has moved
	contact store.Actor
	staff   store.Actor
	shown   store.Conversation // with its marks only
	marks   store.Marks
	ours    bool // the other servers have not been told
}

// tellAll tells what has moved since the last round.
func (r *receipts) tellAll() {
	var words []word
	var later []string
	r.mu.Lock()
	for _, id := range r.toTell {
		e := r.convs[id]
		if !e.loaded {
			later = append(later, id)
			continue
		}
		for _, side := range []store.Side{store.CustomerSide, store.StaffSide} {
			if e.news[side] {
				w := word{conv: id, side: side, contact: store.Actor{Kind: store.Customer, ID: e.contact, Name: e.name}, staff: e.staff, marks: e.marks, ours: e.ours[side]}
				e.show(&w.shown)
				words = append(words, w)
			}
		}
		e.news, e.ours = [2]bool{}, [2]bool{}
	}
	r.toTell = later
	r.mu.Unlock()
	for i := range words {
		if words[i].ours {
			r.hub.peers.marked(&words[i])
		}
		r.hub.tellReceipt(&words[i])
	}
}

// tellReceipt tells the other side of a mark, and the owner's sessions how much is left to read.
func (h *Hub) tellReceipt(w *word) {
	from, mark := w.contact, w.shown.Across.Customer
	if w.side == store.StaffSide {
		from, mark = w.staff, w.shown.Across.Staff
	}
	var own []*Session
	var line []byte
	h.mu.Lock()
	to := h.sessions.contacts[w.contact.ID]
	if w.side == store.CustomerSide {
		to = h.sessions.listeners(w.staff, w.staff, h.queue.dir.open[w.conv], w.conv)
	}
	if open := h.queue.dir.open[w.conv]; open != nil {
		c := &open.conv
		before := c.Unread
		h.receipts.showOne(c)
		if c.Unread != before && c.Owner.Kind == store.Agent && c.Owner.Is(w.staff) {
			own = h.sessions.agents[w.staff.ID]
			line = proto.Event("ev.conv", w.conv, 0, h.row(c, h.sessions.customerThere(c.Contact)))
		}
	}
	h.mu.Unlock()
	for _, s := range own {
		s.newest(w.conv, line)
	}
	if len(to) == 0 {
		return
	}
	frame := proto.Event("ev.receipt", w.conv, 0, proto.ReceiptNow{From: party(from), Delivered: mark.Delivered, Read: mark.Read})
	for _, s := range to {
		s.newest(w.conv, frame)
	}
}

// newest sends an event that may be lost to a slow session, but not to one that is resuming, which may have read an
// older state.
func (s *Session) newest(conv string, frame []byte) {
	s.mu.Lock()
	resumes := s.phase == resuming
	s.mu.Unlock()
	if resumes {
		s.deliver(conv, 0, frame)
		return
	}
	s.ephemeral(frame)
}

// keeper loads what is missing in memory and saves what has moved. It blocks on the store, never on a client.
func (r *receipts) keeper() {
	pause := time.NewTimer(time.Hour)
	defer pause.Stop()
	for {
		select {
		case <-r.quit:
			return
		case <-r.keep:
		}
		pause.Reset(receiptsSave)
		select {
		case <-r.quit:
			return
		case <-pause.C:
		}
		loaded := r.load(context.Background())
		if saved := r.save(context.Background()); !loaded || !saved {
			wake(r.keep) // again, after the pause
		}
	}
}

// load reads the places of conversations that were reopened, and reports whether none is left.
func (r *receipts) load(ctx context.Context) bool {
	r.mu.Lock()
	missing := r.toLoad
	r.toLoad = nil
	r.mu.Unlock()
	for i, id := range missing {
		if !r.loadOne(ctx, id) {
			r.mu.Lock()
			r.toLoad = append(r.toLoad, missing[i:]...)
			r.mu.Unlock()
			return false
		}
	}
	return true
}

func (r *receipts) loadOne(ctx context.Context, id string) bool {
	ctx, cancel := context.WithTimeout(ctx, receiptsTimeout)
	defer cancel()
	places, err := r.hub.o.Store.Cold().Places(ctx, id)
	if err != nil {
		r.hub.o.Logger.Warn("desk: reading the notes of a conversation", "conversation", id, "err", err)
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.convs[id]
	if e == nil {
		return true
	}
	e.loaded = true
	for _, p := range places {
		for _, n := range p.Hidden {
			e.places.Hidden = insert(e.places.Hidden, n)
		}
		for _, n := range p.Unread {
			if n > e.marks.Staff.Read && len(e.places.Unread) < store.MaxUnread {
				e.places.Unread = insert(e.places.Unread, n)
			}
		}
	}
	if !e.news[0] && !e.news[1] {
		r.toTell = append(r.toTell, id)
	}
	e.news = [2]bool{true, true} // the marks shown meanwhile may be wrong
	wake(r.tell)
	return true
}

// save writes the marks that have moved and forgets what is no longer needed. It reports whether nothing is left to
// save.
func (r *receipts) save(ctx context.Context) bool {
	for {
		batch := r.dirty()
		if len(batch) == 0 {
			r.forget()
			return true
		}
		saving, cancel := context.WithTimeout(ctx, receiptsTimeout)
		err := r.hub.o.Store.SaveMarks(saving, batch)
		cancel()
		if err == nil {
			continue
		}
		r.hub.o.Logger.Warn("desk: saving receipts", "conversations", len(batch), "err", err)
		r.mu.Lock()
		for _, m := range batch {
			if e := r.convs[m.Conv]; !e.dirty {
				e.dirty = true
				r.toSave = append(r.toSave, m.Conv)
			}
		}
		r.mu.Unlock()
		return false
	}
}

// dirty takes up to receiptsBatch marks that must be saved.
func (r *receipts) dirty() []store.ConvMarks {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := min(len(r.toSave), receiptsBatch)
	batch := make([]store.ConvMarks, 0, n)
	for _, id := range r.toSave[:n] {
		e := r.convs[id]
		e.dirty = false
		batch = append(batch, store.ConvMarks{Conv: id, Marks: e.marks})
	}
	r.toSave = r.toSave[n:]
	return batch
}

// forget drops the conversations that are not open and of which everything is told and saved.
func (r *receipts) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	var later []string
	for _, id := range r.toDrop {
		switch e := r.convs[id]; {
		case e == nil || e.open:
		case e.dirty || e.news[0] || e.news[1] || !e.loaded:
			later = append(later, id)
		default:
			delete(r.convs, id)
			r.closed--
			r.evicted++
		}
	}
	if r.toDrop = later; len(later) > 0 {
		wake(r.keep)
	}
}
