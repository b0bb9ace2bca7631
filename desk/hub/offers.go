package hub

import (
	"context"
	"time"

	"github.com/go-eddy/eddy/desk/perm"
	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/store"
)

// offer is a conversation that its agent would like another one to take. It lives in memory only, at most one per
// conversation, and ends with any change of owner or state. Hub.mu guards it.
type offer struct {
	conv    string
	from    store.Actor
	to      store.Actor
	note    string
	rev     int64
	expires int64 // Unix milliseconds
	taken   bool  // the answer is being committed
}

// offered is a message about an offer for the sessions of its two agents.
type offered struct {
	o    offer
	end  string // result; "" = the offer itself
	row  proto.Row
	from []*Session
	to   []*Session
}

func (d *offered) send() {
	if d.end == "" {
		frame := proto.Event("ev.offer", d.o.conv, 0, proto.Offer{From: party(d.o.from), Note: d.o.note, Expires: d.o.expires, Row: d.row})
		for _, s := range d.to {
			s.deliver(d.o.conv, 0, frame)
		}
		return
	}
	frame := proto.Event("ev.offer_end", d.o.conv, 0, proto.OfferEnd{Result: d.end, Agent: party(d.o.to)})
	for _, list := range [][]*Session{d.from, d.to} {
		for _, s := range list {
			s.deliver(d.o.conv, 0, frame)
		}
	}
}

// endOffer removes an offer and returns the message for both agents.
func (q *queue) endOffer(o *offer, result string) offered {
	delete(q.offers, o.conv)
	return offered{o: *o, end: result, from: q.sessions.agents[o.from.ID], to: q.sessions.agents[o.to.ID]}
}

// offer proposes a conversation to another agent, who gets it by accepting.
func (s *Session) offer(cmd proto.Command, who identity, p *proto.Transfer) {
	h := s.hub
	h.mu.Lock()
	e, target := h.queue.dir.open[cmd.Conv], h.queue.roster.members[p.Agent]
	if e == nil {
		h.mu.Unlock()
		s.refuseClosed(cmd, who)
		return
	}
	if refusal := h.queue.mayOffer(e, target, who, p); refusal != nil {
		h.mu.Unlock()
		s.fail(cmd, refusal)
		return
	}
	var before offered
	if old := h.queue.offers[cmd.Conv]; old != nil {
		before = h.queue.endOffer(old, proto.OfferCanceled)
	}
	now := h.o.Now()
	o := &offer{
		conv: cmd.Conv, from: who.actor, to: target.Actor(), note: p.Note, rev: e.conv.Rev,
		expires: now.Add(h.o.Limits.OfferLife).UnixMilli(),
	}
	h.queue.offers[cmd.Conv] = o
	hd := head(&e.conv, store.StaffSide)
	out := offered{o: *o, row: h.row(&e.conv, len(h.sessions.contacts[e.conv.Contact]) > 0), to: h.sessions.agents[p.Agent]}
	h.mu.Unlock()
	h.Counters.Offers.Add(1)
	before.sendIf()
	s.reply("ok", cmd, cmd.Conv, proto.Offered{Head: hd, Offer: proto.OfferInfo{Agent: party(o.to), Expires: o.expires}})
	out.send()
	h.router.wake() // the end of the offer is a timer
}

func (d *offered) sendIf() {
	if d.o.conv != "" {
		d.send()
	}
}

// mayOffer returns what prevents an offer, nil = nothing.
func (q *queue) mayOffer(e *entry, target *member, who identity, p *proto.Transfer) *proto.Error {
	refuse := func(err error) *proto.Error {
		perr, _ := storeError(err, &e.conv, store.StaffSide)
		return perr
	}
	switch {
	case e.conv.State != store.Assigned, p.Rev != 0 && p.Rev != e.conv.Rev:
		return refuse(store.ErrConflict)
	case !e.conv.Owner.Is(who.actor):
		return refuse(store.ErrForbidden)
	case target == nil || !target.Role.Can(perm.Serve):
		return refuse(store.ErrNotFound)
	case p.Agent == who.actor.ID:
		return refuse(store.ErrConflict)
	case !q.room(target):
		return refuse(store.ErrCapacity)
	case q.shown(target) == store.Offline, target.Status == store.Finishing, len(q.sessions.agents[p.Agent]) == 0:
		return &proto.Error{Code: proto.CodeForbidden, Text: "the agent is not there to be asked"}
	}
	return nil
}

// refuseClosed answers a command about a conversation that is closed or does not exist.
func (s *Session) refuseClosed(cmd proto.Command, who identity) {
	s.read(who, func(ctx context.Context, r store.Reader) {
		c, err := r.Conversation(ctx, cmd.Conv)
		if err != nil {
			s.fail(cmd, s.hub.readError(err))
			return
		}
		e, _ := storeError(store.ErrConflict, &c, store.StaffSide)
		s.fail(cmd, e)
	}, func() { s.fail(cmd, busy("too many requests are waiting")) })
}

// answerOffer accepts or declines an offer to the session's agent.
func (s *Session) answerOffer(cmd proto.Command, who identity, accept bool) {
	h := s.hub
	h.mu.Lock()
	o, e := h.queue.offers[cmd.Conv], h.queue.dir.open[cmd.Conv]
	if o == nil || e == nil || o.to.ID != who.actor.ID || o.taken {
		h.mu.Unlock()
		s.refuseClosed(cmd, who) // a conflict, with the head: the offer is over, or was for somebody else
		return
	}
	if !accept {
		end, hd := h.queue.endOffer(o, proto.OfferDeclined), head(&e.conv, store.StaffSide)
		h.mu.Unlock()
		s.reply("ok", cmd, cmd.Conv, proto.Changed{Head: hd})
		end.send()
		return
	}
	o.taken = true
	h.mu.Unlock()
	m := store.Move{Conv: o.conv, Trigger: store.TransferAgent, By: o.from, To: o.to.ID, Rev: o.rev, Note: o.note}
	failed := func() {
		h.mu.Lock()
		o.taken = false
		h.mu.Unlock()
	}
	h.execute(cmd.Conv, m, func(out store.Outcome) {
		if out.Err == nil {
			s.reply("ok", cmd, cmd.Conv, proto.Changed{Head: head(&out.Conv, store.StaffSide)})
			return
		}
		failed()
		perr, known := storeError(out.Err, &out.Conv, store.StaffSide)
		if !known {
			h.o.Logger.Error("desk: command failed", "type", cmd.Type, "session", s.id, "err", out.Err)
		}
		s.fail(cmd, perr)
	}, func(e *proto.Error) {
		failed()
		s.fail(cmd, e)
	})
}

// settleOffer ends the offer of a conversation that has changed.
func (q *queue) settleOffer(c *store.Conversation) (end offered) {
	o := q.offers[c.ID]
	if o == nil || o.rev == c.Rev {
		return end
	}
	if c.State == store.Assigned && c.Owner.Is(o.to) {
		return q.endOffer(o, proto.OfferAccepted)
	}
	return q.endOffer(o, proto.OfferCanceled)
}

// expireOffers ends the offers whose time is over. It returns when the next one's time is over, 0 = there is none.
func (h *Hub) expireOffers(now int64) (due int64) {
	var ends []offered
	h.mu.Lock()
	for _, o := range h.queue.offers {
		switch {
		case o.taken: // its answer ends it, or frees it
			due = earlier(due, now+time.Second.Milliseconds())
		case o.expires > now:
			due = earlier(due, o.expires)
		default:
			ends = append(ends, h.queue.endOffer(o, proto.OfferExpired))
		}
	}
	h.mu.Unlock()
	for i := range ends {
		ends[i].send()
	}
	return due
}

// tellOffers tells a new session what its agent is being offered.
func (h *Hub) tellOffers(s *Session, who identity) {
	if who.actor.Kind != store.Agent {
		return
	}
	var all []offered
	h.mu.Lock()
	for _, o := range h.queue.offers {
		if e := h.queue.dir.open[o.conv]; e != nil && o.to.ID == who.actor.ID && !o.taken {
			all = append(all, offered{o: *o, row: h.row(&e.conv, len(h.sessions.contacts[e.conv.Contact]) > 0), to: []*Session{s}})
		}
	}
	h.mu.Unlock()
	for i := range all {
		all[i].send()
	}
}
