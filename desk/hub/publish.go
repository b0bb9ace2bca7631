package hub

import (
	"errors"
	"slices"

	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/push"
	"github.com/go-eddy/eddy/desk/store"
)

// news is a change that the hub's memory has taken over and that nobody has been told of yet.
type news struct {
	part      *store.Fed
	before    store.Conversation
	customers []*Session
	agents    []*Session
	staff     []*Session
	ends      []watchEnd
	offerEnd  offered
	keep      []store.Leave
	calls     []push.Call
	online    bool // the customer is
	erased    bool // it was the last conversation of a contact that is erased
}

// takeOver brings the hub's memory up to date with a part of the feed. It returns nil if nobody is to be told.
func (h *Hub) takeOver(part *store.Fed) *news {
	h.besides(part)
	c := &part.Conv
	if c.ID == "" || len(part.Events) == 0 && !part.Touched {
		return nil
	}
	n := &news{part: part}
	h.mu.Lock()
	defer h.mu.Unlock()
	e := h.queue.dir.open[c.ID]
	if e != nil && c.OlderThan(&e.conv) { // it was read again in between
		*c = e.conv
	}
	h.receipts.committed(part)
	n.before = h.queue.dir.apply(*c)
	h.queue.untold = c.ID
	n.erased = h.queue.dir.wasErased(c.Contact)
	if e == nil {
		e = h.queue.dir.open[c.ID]
	}
	n.customers, n.online = h.sessions.contacts[c.Contact], h.sessions.customerThere(c.Contact)
	n.ends, n.offerEnd = h.queue.settle(e, &n.before, part)
	n.keep = e.absent()
	n.agents = h.sessions.listeners(n.before.Owner, c.Owner, e, c.ID)
	n.agents = h.sessions.between(n.agents, part.Events)
	for _, w := range n.ends { // the change that ends the watching is the last one they are told
		if !slices.Contains(n.agents, w.s) {
			n.agents = append(slices.Clip(n.agents), w.s)
		}
	}
	n.staff = h.sessions.staff
	n.calls = h.queue.calls(&n.before, part)
	return n
}

// besides takes over what a part says that is about no conversation.
func (h *Hub) besides(part *store.Fed) {
	for i := range part.Contacts {
		h.renamed(&part.Contacts[i])
		if part.Contacts[i].Blocked {
			h.closeContact(part.Contacts[i].ID)
		}
	}
	if h.doubt(part) {
		wake(h.feed.kick)
	}
	for _, e := range part.Ended {
		h.ended(e)
	}
	for i := range part.Files {
		h.fileChanged(part.Files[i])
	}
	for i := range part.Presences {
		h.present(&part.Presences[i])
	}
	for i := range part.Offers {
		h.offerMoved(&part.Offers[i])
	}
	if part.Setup || len(part.Accounts) > 0 {
		h.reload()
	}
	if part.Hooks {
		h.o.HooksChanged()
	}
}

// publish tells everybody concerned, in the order of the feed, which keeps the order of each conversation.
func (h *Hub) publish(n *news) {
	c := &n.part.Conv
	moved := false
	for i := range n.part.Events {
		e := &n.part.Events[i]
		if e.Kind == store.KindEvent {
			moved = true
		} else {
			h.Counters.Messages.Add(1)
		}
		h.fanOut(e, store.CustomerSide, n.customers)
		h.fanOut(e, store.StaffSide, n.agents)
	}
	h.everyoneTold()
	h.keepLeft(n.keep) // the customer went before the hub knew the new conversation, or before it waited
	tellWatchEnds(n.ends)
	n.offerEnd.sendIf()
	if moved || n.part.Touched || c.State == store.Queued || c.State == store.Deferred {
		h.tellRow(c, n.online, n.staff, func(s *Session, frame []byte) { s.deliver(c.ID, 0, frame) })
	}
	if moved || n.part.Touched {
		h.counterMoved(n)
		h.ticker.wake()
		h.router.wake()
	}
	if h.router.duty.Load() != nil {
		h.call(n.calls)
	}
	h.turnBegan(&n.before, n.part)
	if n.erased {
		h.tellErased(c.Contact)
	}
}

// everyoneTold ends that the conversation taken over last is told no place in the queue.
func (h *Hub) everyoneTold() {
	h.mu.Lock()
	h.queue.untold = ""
	h.mu.Unlock()
}

// settle brings the rest of the hub's memory in line with a change that the directory has taken over. e is nil for a
// conversation that was not open and is not.
func (q *queue) settle(e *entry, before *store.Conversation, part *store.Fed) ([]watchEnd, offered) {
	c := &part.Conv
	q.moves(c.Contact)
	if e != nil {
		e.passedOn(part.Events)
		if e.left == 0 && !q.sessions.customerThere(c.Contact) {
			e.left = q.o.Now().UnixMilli()
		}
		if before.State != c.State {
			e.leftKept = false
		}
		if c.State != store.Closed {
			q.replan(e)
		}
	}
	q.roster.moved(before, c, part.Events)
	if before.Owner.Kind == store.Agent && !before.Owner.Is(c.Owner) {
		q.replanOf(before.Owner.ID) // it may be away now
	}
	q.answered(before, c)
	if before.State == store.Queued && c.State == store.Assigned {
		p := q.pace[c.Group]
		if p == nil {
			p = &pace{}
			q.pace[c.Group] = p
		}
		p.handedOver(q.o.Now())
	}
	end := q.settleOffer(c)
	if before.Rev == c.Rev {
		return nil, end
	}
	return q.rewatchConv(c), end
}

// moved notes what a change of a conversation means for its agents: their load, and whether they answer. Hub.mu is held.
func (r *roster) moved(before, c *store.Conversation, events []store.Event) {
	was, is := r.members[before.Owner.ID], r.members[c.Owner.ID]
	if was != is {
		if is != nil {
			is.LastAssigned = c.AssignedAt
			r.tell(is)
		}
		if was != nil {
			r.tell(was)
		}
	} else if is != nil && before.Snoozed() != c.Snoozed() {
		r.tell(is)
	}
	switch {
	case was != nil && was != is && missed(events): // the same as the store has done
		if was.Missed++; was.Missed >= store.MissedForAway && was.Status == store.Online {
			was.be(store.Away, c.At)
		}
		r.change(was)
	case is != nil && was == is && before.RepliedAt == 0 && c.RepliedAt != 0 && is.Missed != 0:
		is.Missed = 0
		r.change(is)
	}
}

// missed reports whether a conversation was taken from its agent because the agent did not answer in time.
func missed(events []store.Event) bool {
	return slices.ContainsFunc(events, func(e store.Event) bool {
		return e.Change != nil && e.From.Kind == store.System && e.Change.Event == "returned" && e.Change.Reason == reasonNoAnswer
	})
}

func (h *Hub) fanOut(e *store.Event, side store.Side, to []*Session) {
	if len(to) == 0 || e.S(side) == 0 {
		return
	}
	frame := eventFrame(e, side)
	for _, s := range to {
		s.deliver(e.Conv, e.S(side), frame)
	}
}

// typing passes a hint on to the other side, if the sender belongs to the conversation.
func (h *Hub) typing(who store.Actor, conv string, on bool) {
	if h.typed(who, conv, on) {
		h.peers.about(conv, hint{Typing: &typed{who, on}})
	}
}

// typed tells the sessions of the other side, and reports whether that is at other servers, too.
func (h *Hub) typed(who store.Actor, conv string, on bool) (elsewhere bool) {
	h.mu.Lock()
	var to []*Session
	if e := h.queue.dir.open[conv]; e != nil {
		other := ""
		switch {
		case who.Kind == store.Customer && e.conv.Contact == who.ID && e.conv.Owner.Kind == store.Agent:
			other = e.conv.Owner.ID
			to = h.sessions.agents[other]
		case who.Kind == store.Agent && e.conv.Owner.Is(who):
			other = e.conv.Contact
			to = h.sessions.contacts[other]
		}
		elsewhere = h.sessions.elsewhere[other]
	}
	h.mu.Unlock()
	if len(to) == 0 {
		return elsewhere
	}
	frame := proto.Event("ev.typing", conv, 0, proto.TypingNow{From: party(who), On: on})
	for _, t := range to {
		t.ephemeral(frame)
	}
	return elsewhere
}

// Errors of attach.
var (
	errGone    = errors.New("hub: the transport is closed")
	errTooMany = errors.New("hub: the identity has too many sessions")
	errCrowded = errors.New("hub: too many connections are being welcomed")
)

// attach subscribes a session to everything that its identity may see. It fails when the transport is gone already, or
// the identity has as many sessions as it may.
func (h *Hub) attach(s *Session, who identity) (keep []store.Leave, first bool, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if s.gone.Load() {
		return nil, false, errGone
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.phase != greeting {
		return nil, false, errGone
	}
	limit := h.o.Limits.CustomerSessions
	if who.actor.Kind == store.Agent {
		limit = h.o.Limits.AgentSessions
	}
	if len(h.sessions.book(who.actor.Kind)[who.actor.ID]) >= limit {
		return nil, false, errTooMany
	}
	s.phase = resuming
	s.ident.Store(&who)
	first = h.sessions.enter(s, who.actor)
	h.bufferOffers(s, who)
	switch {
	case !first:
	case who.actor.Kind == store.Agent:
		h.queue.came(who)
		h.o.Calls.Back(who.actor.ID)
	default:
		keep = h.queue.customerHere(who.actor.ID)
	}
	return keep, first, nil
}

// detach forgets a session. It does not take Session.mu, because a transport may report its end from inside a Send.
func (h *Hub) detach(s *Session) {
	h.mu.Lock()
	who := s.who()
	if m := h.queue.roster.members[who.actor.ID]; m != nil {
		m.used = max(m.used, s.used.Load())
	}
	last := h.sessions.leave(s, who.actor)
	gone := last && !h.sessions.elsewhere[who.actor.ID]
	var keep []store.Leave
	var calls []push.Call
	switch {
	case !last:
	case who.actor.Kind == store.Agent:
		h.queue.went(who.actor.ID)
		if gone {
			calls = h.queue.unheard(who.actor.ID, h.receipts)
		}
	default:
		keep = h.queue.customerHere(who.actor.ID)
	}
	h.mu.Unlock()
	h.call(calls)
	h.keepLeft(keep)
	if gone {
		h.presence(who.actor, false)
	}
	if last {
		h.router.wake()
		h.ticker.wake()
	}
}

// presence tells the other side that the first connection of an actor has come or the last one has gone.
func (h *Hub) presence(a store.Actor, online bool) {
	type target struct {
		conv string
		to   []*Session
	}
	var targets []target
	h.mu.Lock()
	if a.Kind == store.Customer {
		for _, e := range h.queue.dir.byContact[a.ID] {
			switch {
			case e.conv.Owner.Kind == store.Agent:
				targets = append(targets, target{e.conv.ID, h.sessions.agents[e.conv.Owner.ID]})
			case e.conv.State == store.Queued, e.conv.State == store.Deferred:
				targets = append(targets, target{e.conv.ID, h.sessions.staff})
			}
		}
	} else {
		for _, e := range h.queue.dir.open {
			if e.conv.Owner.Is(a) {
				targets = append(targets, target{e.conv.ID, h.sessions.contacts[e.conv.Contact]})
			}
		}
	}
	h.mu.Unlock()
	for _, t := range targets {
		frame := proto.Event("ev.presence", t.conv, 0, proto.Presence{Kind: string(a.Kind), Online: online})
		for _, s := range t.to {
			s.ephemeral(frame)
		}
	}
}
