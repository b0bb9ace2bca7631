package hub

import (
	"cmp"
	"context"
	"errors"

	"github.com/go-eddy/eddy/desk/auth"
	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/store"
)

// greet authenticates a session and resumes it. The session subscribes and buffers events, and reads what it has missed.
// Then welcome, the missed events and the buffered events above them are sent, and the session is live. greet runs on
// the loop; reads run elsewhere.
func (h *Hub) greet(s *Session, cmd proto.Command, hello *proto.Hello) {
	busy := func() {
		s.close(proto.CloseTryLater, "too many connections are being welcomed")
		cmd.Trace.Fail(errCrowded)
		s.told(cmd.Trace)
	}
	if hello.Ticket != "" {
		ticket, ok := h.o.Tickets.Spend(hello.Ticket)
		if !ok || s.peer.Origin != "" || (s.peer.Browser && s.peer.Login != ticket.Login) {
			s.refuseTicket(cmd)
			return
		}
		s.limit(h.o.Limits.AgentMessages, h.o.Limits.AgentCommands)
		who := identity{actor: store.Actor{Kind: store.Agent, ID: ticket.Agent}, login: ticket.Login, locale: hello.Locale}
		s.read(cmd, who, func(ctx context.Context, r store.Reader) {
			if h.takeTicket(ctx, r, s, &who, cmd, &ticket) {
				h.resume(ctx, r, s, who, cmd, hello, 0)
			}
		}, busy)
		return
	}
	anybody := identity{actor: store.Actor{Kind: store.Customer}}
	s.read(cmd, anybody, func(ctx context.Context, r store.Reader) {
		rechecks, token := h.rechecks.count.Load(), store.Token(auth.HashToken(hello.Token))
		contact, no, err := h.knownCustomer(ctx, r, s.peer, token)
		if s.letIn(cmd, no, err) {
			who := identity{actor: contact.Actor(), site: contact.Site, login: token, locale: hello.Locale}
			who.greeter = h.botStaff.greeter(ctx, contact.Site, cmp.Or(hello.Locale, contact.Locale))
			h.resume(ctx, r, s, who, cmd, hello, rechecks)
		}
	}, busy)
}

// takeTicket takes a ticket that was good here, and reads its agent. False means that the session has been refused.
func (h *Hub) takeTicket(ctx context.Context, r store.Reader, s *Session, who *identity, cmd proto.Command, ticket *auth.Ticket) bool {
	err := h.o.Store.SpendTicket(ctx, ticket.ID, ticket.Expires)
	if errors.Is(err, store.ErrExists) { // at another server
		s.refuseTicket(cmd)
		return false
	}
	if err != nil {
		s.failHello(cmd, err)
		return false
	}
	login, no, err := h.knownAgent(ctx, r, who.login)
	in := s.letIn(cmd, no, err)
	if in {
		who.become(login.Agent)
	}
	return in
}

// letIn reports whether what was read of a client lets it in. Otherwise the session has been refused.
func (s *Session) letIn(cmd proto.Command, no *refusal, err error) bool {
	switch {
	case err != nil:
		s.failHello(cmd, err)
	case no != nil:
		s.refuseHello(cmd, no.code, no.text, no.close)
	}
	return err == nil && no == nil
}

func (s *Session) refuseTicket(cmd proto.Command) {
	s.refuseHello(cmd, proto.CodeUnauthorized, "the ticket is not valid (any more)", proto.CloseUnauthorized)
}

func (s *Session) refuseHello(cmd proto.Command, code proto.Code, text string, closeCode int) {
	s.fail(cmd, &proto.Error{Code: code, Text: text})
	s.close(closeCode, text)
}

func (s *Session) failHello(cmd proto.Command, err error) {
	s.fail(cmd, s.hub.readError(err))
	s.close(proto.CloseTryLater, "the server could not read")
}

// catchUp is what a resuming session is sent: its welcome, the missed events and, per conversation, the highest number
// of those.
type catchUp struct {
	side    store.Side
	budget  int // bytes of text left
	heads   []proto.Head
	frames  [][]byte
	highest map[string]uint64
	inbox   *proto.Inbox
}

func (h *Hub) resume(ctx context.Context, r store.Reader, s *Session, who identity, cmd proto.Command, hello *proto.Hello, rechecks uint64) {
	keep, first, err := h.attach(s, who)
	switch {
	case errors.Is(err, errTooMany):
		s.refuseHello(cmd, proto.CodeForbidden, "too many connections of one "+string(who.actor.Kind), proto.CloseTooManySessions)
		return
	case err != nil:
		cmd.Trace.Fail(err)
		s.told(cmd.Trace)
		return
	}
	h.keepLeft(keep)
	if !h.admit(ctx, r, s, &who, cmd, rechecks) {
		return
	}
	c := &catchUp{side: sideOf(who.actor.Kind), budget: s.outbound() * 3 / 4, highest: make(map[string]uint64)}
	convs, err := h.visible(ctx, r, who, c)
	if err == nil {
		convs, err = s.addSeen(ctx, r, who, convs, hello.Seen)
	}
	for i := 0; err == nil && i < len(convs); i++ {
		err = h.collect(ctx, r, c, &convs[i], hello.Seen[convs[i].ID])
	}
	if err != nil {
		s.failHello(cmd, err)
		return
	}
	h.Counters.Welcomes.Add(1)
	if len(hello.Seen) > 0 {
		h.Counters.Resumes.Add(1)
	}
	h.Counters.Replayed.Add(uint64(len(c.frames)))
	s.goLive(proto.Reply("welcome", cmd.ID, "", h.welcome(s, who, c)), c)
	s.told(cmd.Trace)
	if first {
		h.presence(who.actor, true)
	}
	h.tellPosition(s, who)
	h.router.wake()
	h.ticker.wake()
}

// visible returns the conversations that a session is subscribed to, and the inbox of an agent.
func (h *Hub) visible(ctx context.Context, r store.Reader, who identity, c *catchUp) ([]store.Conversation, error) {
	if who.actor.Kind == store.Customer {
		return r.OfContact(ctx, who.actor.ID)
	}
	mine, err := r.OfAgent(ctx, who.actor.ID)
	if err != nil {
		return nil, err
	}
	queued, total, err := r.Queue(ctx, inboxRows)
	if err != nil {
		return nil, err
	}
	left, leftTotal, err := r.LeftMessages(ctx, inboxRows)
	if err != nil {
		return nil, err
	}
	c.inbox = &proto.Inbox{Rows: make([]proto.Row, 0, len(mine)+len(queued)+len(left)), Queued: total, More: total > len(queued), Left: leftTotal}
	for _, list := range [][]store.Conversation{mine, queued, left} {
		for i := range list {
			c.inbox.Rows = append(c.inbox.Rows, h.rowFor(who, &list[i]))
		}
	}
	return mine, nil
}

// addSeen adds the conversations that the client has a part of and may see, beyond those that it is subscribed to.
func (s *Session) addSeen(ctx context.Context, r store.Reader, who identity, convs []store.Conversation, seen map[string]uint64) ([]store.Conversation, error) {
	have := make(map[string]bool, len(convs))
	for i := range convs {
		have[convs[i].ID] = true
	}
	for id := range seen {
		if have[id] {
			continue
		}
		c, err := r.Conversation(ctx, id)
		if err == nil {
			err = s.mayRead(ctx, r, who, id)
		}
		if errors.Is(err, store.ErrNotFound) || (err == nil && who.actor.Kind == store.Customer && c.Contact != who.actor.ID) {
			continue
		}
		if err != nil {
			return nil, err
		}
		convs = append(convs, c)
	}
	return convs, nil
}

// collect adds a conversation's head and missed events, as many as one resume may send.
func (h *Hub) collect(ctx context.Context, r store.Reader, c *catchUp, conv *store.Conversation, after uint64) error {
	hd := head(conv, c.side)
	c.highest[conv.ID] = after
	if c.budget > 0 {
		events, more, err := r.Events(ctx, conv.ID, c.side, after, resumeEvents, min(pageBytes, c.budget))
		if err != nil {
			return err
		}
		hd.Truncated = more
		for i := range events {
			frame := eventFrame(&events[i], c.side)
			c.budget -= len(frame)
			c.frames = append(c.frames, frame)
			c.highest[conv.ID] = events[i].S(c.side)
		}
	} else {
		hd.Truncated = after < hd.Last
	}
	if hd.Truncated {
		h.Counters.Truncated.Add(1)
	}
	c.heads = append(c.heads, hd)
	return nil
}

func (h *Hub) welcome(s *Session, who identity, c *catchUp) proto.Welcome {
	w := proto.Welcome{
		Session: s.id, Store: h.o.Store.ID(), Time: h.o.Now().UnixMilli(), PingMS: PingInterval.Milliseconds(), DeadMS: deadAfter.Milliseconds(),
		Limits: proto.WelcomeLimits{Text: proto.MaxTextChars, Bytes: messageLimit(live, who.actor.Kind), File: h.o.MaxFile},
		Me:     proto.Me{Party: party(who.actor)}, Features: []string{}, Heads: c.heads, Inbox: c.inbox,
	}
	if who.actor.Kind == store.Agent {
		w.Me.Role = string(who.role)
		for _, p := range who.role.Permissions() {
			w.Me.Perms = append(w.Me.Perms, string(p))
		}
		h.mu.Lock()
		w.Status = h.queue.statusOf(who.actor.ID)
		h.mu.Unlock()
	}
	w.Bot, w.Away = who.greeter.wire(), h.tellsAway(who)
	if w.Heads == nil {
		w.Heads = []proto.Head{}
	}
	return w
}

// goLive sends welcome, the missed events and the buffered ones above them. From then on events go straight out.
func (s *Session) goLive(welcome []byte, c *catchUp) {
	s.mu.Lock()
	if s.phase != resuming {
		s.mu.Unlock()
		return
	}
	ok := s.push(welcome)
	for i := 0; ok && i < len(c.frames); i++ {
		ok = s.push(c.frames[i])
	}
	for i := 0; ok && i < len(s.buffer); i++ {
		if e := &s.buffer[i]; e.s == 0 || e.s > c.highest[e.conv] {
			ok = s.push(e.frame)
		}
	}
	s.phase, s.buffer, s.buffered = live, nil, 0
	s.mu.Unlock()
	if !ok {
		s.close(proto.CloseSlow, "slow consumer")
	}
}
