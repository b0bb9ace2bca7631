package hub

import (
	"context"

	"github.com/go-eddy/eddy/desk/perm"
	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/store"
)

// offer is the hub's copy of an offer that stands. Hub.mu guards it.
type offer struct {
	store.Offer
	again int64 // when its end is stored again, if it has expired and that fails
}

// offered is a message about an offer for the sessions of its two agents. Who makes an offer is told by the answer.
type offered struct {
	o    offer
	end  string // result; "" = the offer itself
	row  proto.Row
	from []*Session
	to   []*Session
}

func (d *offered) send() {
	frame := d.frame()
	for _, list := range [][]*Session{d.from, d.to} {
		for _, s := range list {
			s.deliver(d.o.Conv, 0, frame)
		}
	}
}

func (d *offered) frame() []byte {
	if d.end == "" {
		return proto.Event("ev.offer", d.o.Conv, 0, proto.Offer{From: party(d.o.From), Note: d.o.Note, Expires: d.o.Expires, Row: d.row})
	}
	return proto.Event("ev.offer_end", d.o.Conv, 0, proto.OfferEnd{Result: d.end, Agent: party(d.o.To)})
}

// endOffer removes an offer and returns the message for both agents.
func (q *queue) endOffer(o *offer, result string) offered {
	delete(q.offers, o.Conv)
	return offered{o: *o, end: result, from: q.sessions.agents[o.From.ID], to: q.sessions.agents[o.To.ID]}
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
	refusal := h.queue.mayOffer(e, target, who, p)
	if refusal != nil {
		h.mu.Unlock()
		s.fail(cmd, refusal)
		return
	}
	to := party(target.Actor())
	h.mu.Unlock()
	o := store.MakeOffer{Conv: cmd.Conv, From: who.actor, To: p.Agent, Note: p.Note, Rev: p.Rev, Expires: h.o.Now().Add(h.o.Limits.OfferLife).UnixMilli()}
	s.run(cmd.Conv, cmd, o, func(out store.Outcome) {
		h.Counters.Offers.Add(1)
		info := proto.OfferInfo{Agent: to, Expires: o.Expires}
		s.reply("ok", cmd, cmd.Conv, proto.Offered{Head: head(&out.Conv, store.StaffSide), Offer: info})
	})
}

// offerMoved takes over what has become of an offer.
func (h *Hub) offerMoved(o *store.Offer) {
	var ends, begins offered
	h.mu.Lock()
	q := &h.queue
	old := q.offers[o.Conv]
	known := old != nil && old.ID == o.ID
	switch {
	case old == nil, o.End == store.OfferOver, known && o.End == "": // settleOffer ends what is over
	case known:
		ends = q.endOffer(old, string(o.End))
	default:
		ends = q.endOffer(old, proto.OfferCanceled)
	}
	if q.stands(o) && !known {
		q.offers[o.Conv] = &offer{Offer: *o}
		begins = h.offering(o, h.sessions.agents[o.To.ID])
	}
	h.mu.Unlock()
	ends.sendIf()
	begins.sendIf()
	h.router.wake() // the end of the offer is a timer
}

// stands reports whether an offer stands, for all that the hub knows.
func (q *queue) stands(o *store.Offer) bool {
	e := q.dir.open[o.Conv]
	return o.End == "" && e != nil && e.conv.Rev == o.Rev
}

// offersAre takes over all offers that stand.
func (q *queue) offersAre(all []store.Offer) {
	clear(q.offers)
	for i := range all {
		if q.stands(&all[i]) {
			q.offers[all[i].Conv] = &offer{Offer: all[i]}
		}
	}
}

// offering returns the message about an offer that stands. Hub.mu is held.
func (h *Hub) offering(o *store.Offer, to []*Session) offered {
	c := &h.queue.dir.open[o.Conv].conv
	return offered{o: offer{Offer: *o}, row: h.row(c, h.sessions.customerThere(c.Contact)), to: to}
}

func (d *offered) sendIf() {
	if d.o.Conv != "" {
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
	case q.shown(target) == store.Offline, target.Status == store.Finishing, !q.sessions.agentThere(p.Agent):
		return &proto.Error{Code: proto.CodeForbidden, Text: "the agent is not there to be asked"}
	}
	return nil
}

// refuseClosed answers a command about a conversation that is closed or does not exist.
func (s *Session) refuseClosed(cmd proto.Command, who identity) {
	s.read(cmd, who, func(ctx context.Context, r store.Reader) {
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
	o := h.queue.offers[cmd.Conv]
	mine := o != nil && o.To.ID == who.actor.ID
	var answer store.Command = store.AcceptOffer{Conv: cmd.Conv, By: who.actor}
	if mine && !accept {
		answer = store.EndOffer{Conv: cmd.Conv, ID: o.ID, End: store.OfferDeclined}
	}
	h.mu.Unlock()
	if !mine {
		s.refuseClosed(cmd, who) // a conflict, with the head: the offer is over, or was for somebody else
		return
	}
	s.run(cmd.Conv, cmd, answer, func(out store.Outcome) {
		s.reply("ok", cmd, cmd.Conv, proto.Changed{Head: head(&out.Conv, store.StaffSide)})
	})
}

// settleOffer ends the offer of a conversation that has changed.
func (q *queue) settleOffer(c *store.Conversation) (end offered) {
	o := q.offers[c.ID]
	if o == nil || o.Rev == c.Rev {
		return end
	}
	if c.State == store.Assigned && c.Owner.Is(o.To) {
		return q.endOffer(o, proto.OfferAccepted)
	}
	return q.endOffer(o, proto.OfferCanceled)
}

// expireOffers ends the offers whose time is over. It returns when the next one's time is over, 0 = there is none.
func (h *Hub) expireOffers(now int64, d *duty) (due int64) {
	var over []store.EndOffer
	h.mu.Lock()
	for _, o := range h.queue.offers {
		end := max(o.Expires, o.again)
		if end <= now {
			over = append(over, store.EndOffer{Conv: o.Conv, ID: o.ID, End: store.OfferExpired})
			o.again = now + actionRetry.Milliseconds()
			end = o.again
		}
		due = earlier(due, end)
	}
	h.mu.Unlock()
	for _, end := range over {
		h.act(end.Conv, d.lease.Command(end))
	}
	return due
}

// bufferOffers buffers what the agent of a new session is being offered. Hub.mu and Session.mu are held, so that
// offerMoved tells the session everything later, and nothing twice.
func (h *Hub) bufferOffers(s *Session, who identity) {
	for _, o := range h.queue.offers {
		if o.To.Is(who.actor) && h.queue.dir.open[o.Conv] != nil {
			begins := h.offering(&o.Offer, nil)
			s.buffer = append(s.buffer, pending{o.Conv, 0, begins.frame()})
		}
	}
}
