package hub

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/go-eddy/eddy/desk/perm"
	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/store"
	"github.com/go-eddy/eddy/trace"
)

// handle runs a command of a live session. It runs on the loop, so everything that touches the store goes elsewhere.
func (s *Session) handle(cmd proto.Command) {
	h, who := s.hub, s.who()
	cmd.Trace.Enter(trace.Handler, "session")
	if ping, ok := cmd.Payload.(*proto.Ping); ok {
		s.pong(cmd, ping)
		return
	}
	if h.draining.Load() {
		s.fail(cmd, unavailable("the server is shutting down"))
		return
	}
	if _, again := cmd.Payload.(*proto.Hello); !again && !s.allowed(cmd, who) {
		return
	}
	s.use(cmd.Payload)
	switch p := cmd.Payload.(type) {
	case *proto.Active:
	case *proto.Typing:
		h.typing(who.actor, cmd.Conv, p.On)
	case *proto.Send:
		s.sendMessage(cmd, who, store.Append{ClientID: p.ClientID, Body: p.Body, Payload: p.Payload, Attachments: p.Attachments})
	case *proto.Note:
		s.sendNote(cmd, who, p)
	case *proto.Open:
		s.open(cmd, who, p)
	case *proto.Leave:
		s.leaveMessage(cmd, who, p)
	case *proto.Take:
		s.staffMove(cmd, who, store.Move{Trigger: store.TakeOver, Rev: p.Rev, Force: p.Force})
	case *proto.Transfer:
		s.transfer(cmd, who, p)
	case *proto.Return:
		s.staffMove(cmd, who, store.Move{Trigger: store.Return, Rev: p.Rev, Note: p.Note, Force: p.Force})
	case *proto.Reopen:
		s.staffMove(cmd, who, store.Move{Trigger: store.ReopenToQueue, Rev: p.Rev})
	case *proto.Close:
		s.endConv(cmd, who, p)
	case *proto.Assign:
		s.staffMove(cmd, who, store.Move{Trigger: store.Assign, To: p.Agent, Rev: p.Rev, Force: true})
	case *proto.Handoff:
		s.move(cmd, who, store.Move{Conv: cmd.Conv, Trigger: store.Handoff, By: who.actor, Reason: p.Reason, Away: h.away})
	case *proto.Accept:
		s.answerOffer(cmd, who, true)
	case *proto.Decline:
		s.answerOffer(cmd, who, false)
	case *proto.Watch:
		s.watch(cmd, who)
	case *proto.Unwatch:
		s.unwatch(cmd, who)
	case *proto.Status:
		s.setStatus(cmd, who, p)
	case *proto.Agents:
		s.agents(cmd)
	case *proto.Sync:
		s.sync(cmd, who, p)
	case *proto.FileLinks:
		s.fileLinks(cmd, who, p)
	case *proto.Receipt:
		s.receipt(who, cmd.Conv, p)
	case *proto.History:
		s.history(cmd, who, p)
	case *proto.Search:
		s.search(cmd, who, p)
	case *proto.CannedList:
		s.canned(cmd, who, p)
	case *proto.ContactGet:
		s.contactGet(cmd, who, p)
	case *proto.ContactPatch:
		s.contactPatch(cmd, who, p)
	case *proto.ContactBlock:
		s.contactBlock(cmd, who, p)
	case *proto.ContactErase:
		s.contactErase(cmd, who, p)
	case *proto.Visit:
		s.visit(who, p)
	case *proto.Tag:
		s.tag(cmd, who, p)
	case *proto.Priority:
		s.setPriority(cmd, who, p)
	case *proto.Snooze:
		s.snooze(cmd, who, p)
	case *proto.Rate:
		s.rate(cmd, who, p)
	default: // a second hello
		s.fail(cmd, &proto.Error{Code: proto.CodeOutOfOrder, Text: "this session has been welcomed"})
		s.strike()
	}
}

func (s *Session) pong(cmd proto.Command, ping *proto.Ping) {
	s.reply("pong", cmd, "", proto.Pong{Time: s.hub.o.Now().UnixMilli(), Client: ping.Time})
}

// run executes a store command for a client command and replies with what ok makes of the outcome.
func (s *Session) run(lane string, cmd proto.Command, c store.Command, ok func(out store.Outcome)) {
	s.runElse(lane, cmd, c, ok, func() {})
}

// runElse is run with failed, which is called if the command has failed, before the client is told.
func (s *Session) runElse(lane string, cmd proto.Command, c store.Command, ok func(out store.Outcome), failed func()) {
	side := sideOf(s.who().actor.Kind)
	s.hub.execute(lane, store.Trace(c, cmd.Trace), func(out store.Outcome) {
		if out.Err == nil {
			ok(out)
			return
		}
		failed()
		e, known := storeError(out.Err, &out.Conv, side)
		if !known {
			s.hub.o.Logger.Error("desk: command failed", "type", cmd.Type, "session", s.id, "err", out.Err)
		}
		s.fail(cmd, e)
	}, func(e *proto.Error) {
		failed()
		s.fail(cmd, e)
	})
}

// sendMessage appends a message of the session's identity to the conversation of the command.
func (s *Session) sendMessage(cmd proto.Command, who identity, msg store.Append) {
	h := s.hub
	if wait := take(s.messages, h.o.Now()); wait > 0 {
		s.fail(cmd, rateLimited(wait))
		return
	}
	msg.Conv, msg.From, msg.Away = cmd.Conv, who.actor, h.away
	giveBack, ok := s.begins(cmd, who)
	if !ok {
		return
	}
	s.runElse(h.laneFor(s, cmd.Conv), cmd, msg, func(out store.Outcome) {
		e := &out.Events[len(out.Events)-1] // after the change that the message may have caused
		h.Counters.Acks.Add(1)
		if out.Dup {
			h.Counters.Dups.Add(1)
		}
		s.reply("ok", cmd, cmd.Conv, proto.Ack{ID: e.ID, S: e.S(sideOf(who.actor.Kind)), Time: e.Time, Dup: out.Dup})
	}, giveBack)
}

func (s *Session) forbid(cmd proto.Command, who string) {
	s.fail(cmd, &proto.Error{Code: proto.CodeForbidden, Text: "only " + who + " may do this"})
}

// sendNote adds a note. Staff may add notes to conversations that are their own or nobody's, and with the permission to
// those of others.
func (s *Session) sendNote(cmd proto.Command, who identity, p *proto.Note) {
	h := s.hub
	h.mu.Lock()
	e, may := h.queue.dir.open[cmd.Conv], plain
	if e != nil {
		may = h.queue.sees(who, &e.conv)
	}
	h.mu.Unlock()
	switch {
	case may == plain:
	case may == blind:
		s.fail(cmd, &proto.Error{Code: proto.CodeForbidden, Text: "this conversation is another agent's"})
		return
	case !s.can(cmd, perm.Whisper):
		return
	}
	s.sendMessage(cmd, who, store.Append{ClientID: p.ClientID, Body: p.Body, Note: true, Attachments: p.Attachments})
}

func (s *Session) transfer(cmd proto.Command, who identity, p *proto.Transfer) {
	switch {
	case p.Group != "":
		s.staffMove(cmd, who, store.Move{Trigger: store.TransferGroup, Group: p.Group, Rev: p.Rev, Note: p.Note, Force: p.Force})
	case p.Force:
		s.staffMove(cmd, who, store.Move{Trigger: store.TransferAgent, To: p.Agent, Rev: p.Rev, Note: p.Note, Force: true})
	default:
		s.offer(cmd, who, p)
	}
}

// staffMove runs a change that only agents may ask for.
func (s *Session) staffMove(cmd proto.Command, who identity, m store.Move) {
	if who.actor.Kind != store.Agent {
		s.forbid(cmd, "agents")
		return
	}
	m.Conv, m.By = cmd.Conv, who.actor
	s.move(cmd, who, m)
}

func (s *Session) endConv(cmd proto.Command, who identity, p *proto.Close) {
	trigger := store.CustomerClose
	if who.actor.Kind == store.Agent {
		trigger = store.AgentClose
	}
	s.move(cmd, who, store.Move{Conv: cmd.Conv, Trigger: trigger, By: who.actor, Reason: p.Reason, Force: p.Force})
}

// move runs a change. A change that only a supervisor may make is logged once it is done.
func (s *Session) move(cmd proto.Command, who identity, m store.Move) {
	if m.Force && !s.can(cmd, perm.Override) {
		return
	}
	giveBack, ok := func() {}, true
	if m.Trigger == store.Handoff {
		giveBack, ok = s.begins(cmd, who)
	}
	if !ok {
		return
	}
	s.runElse(s.hub.laneFor(s, cmd.Conv), cmd, m, func(out store.Outcome) {
		s.reply("ok", cmd, cmd.Conv, proto.Changed{Head: head(&out.Conv, sideOf(who.actor.Kind))})
		if m.Force {
			s.auditSoon(store.AuditOverride, "conversation "+m.Conv, cmd.Type)
		}
	}, giveBack)
}

// arrange runs a change of an open conversation that keeps its state. isOthers, called with Hub.mu held, tells whether the
// change needs a permission, and a line in the audit log once it is done.
func (s *Session) arrange(cmd proto.Command, who identity, isOthers func(*store.Conversation) bool, change func(others bool) store.Command, answer func(*store.Conversation) any) {
	h := s.hub
	h.mu.Lock()
	e := h.queue.dir.open[cmd.Conv]
	others := e != nil && isOthers(&e.conv)
	h.mu.Unlock()
	if e == nil {
		s.refuseClosed(cmd, who)
		return
	}
	if others && !s.can(cmd, perm.Override) {
		return
	}
	s.run(h.laneFor(s, cmd.Conv), cmd, change(others), func(out store.Outcome) {
		s.reply("ok", cmd, cmd.Conv, answer(&out.Conv))
		if others && out.Touched {
			s.auditSoon(store.AuditOverride, "conversation "+cmd.Conv, cmd.Type)
		}
	})
}

// sync reads a page of events on the pool of the caller's kind.
func (s *Session) sync(cmd proto.Command, who identity, p *proto.Sync) {
	s.read(cmd, who, func(ctx context.Context, r store.Reader) { s.syncPage(ctx, r, cmd, who, p) },
		func() { s.fail(cmd, busy("too many requests are waiting")) })
}

// read runs f for a command where reads of this kind of client run. Customers read one at a time per session, agents within
// their share.
func (s *Session) read(cmd proto.Command, who identity, f func(context.Context, store.Reader), refused func()) {
	h, pool := s.hub, "customer"
	if who.actor.Kind == store.Agent {
		pool = "agent"
	}
	cmd.Trace.Enter(trace.QueueWait, pool)
	task := func(r store.Reader) func() {
		return func() {
			ctx, cancel := context.WithTimeout(context.Background(), h.o.Limits.ReadTimeout)
			defer cancel()
			if cmd.Trace.Sampled() {
				cmd.Trace.Enter(trace.Handler, pool)
				ctx = cmd.Trace.Within(ctx)
			}
			f(ctx, marked{r, h.receipts})
		}
	}
	var err error
	if who.actor.Kind == store.Agent {
		err = h.staff.submit(who.actor.ID, task(h.o.Store.Cold()), refused)
	} else {
		err = h.customers.Submit(s, task(h.o.Store.Hot()))
	}
	if err != nil {
		h.Counters.PoolRejects.Add(1)
		refused()
	}
}

func (s *Session) syncPage(ctx context.Context, r store.Reader, cmd proto.Command, who identity, p *proto.Sync) {
	side := sideOf(who.actor.Kind)
	conv, err := r.Conversation(ctx, cmd.Conv)
	if err == nil && who.actor.Kind == store.Customer && conv.Contact != who.actor.ID {
		err = store.ErrNotFound
	}
	if err == nil {
		err = s.mayRead(ctx, r, who, cmd.Conv)
	}
	var events []store.Event
	var more bool
	if err == nil {
		events, more, err = r.Events(ctx, cmd.Conv, side, p.After, p.Limit, pageBytes)
	}
	if err != nil {
		s.fail(cmd, s.hub.readError(err))
		return
	}
	page := proto.Synced{Head: head(&conv, side), Events: make([]json.RawMessage, 0, len(events)), More: more}
	for i := range events {
		page.Events = append(page.Events, eventFrame(&events[i], side))
	}
	s.reply("ok", cmd, cmd.Conv, page)
}

// readError turns a failed read into the error for the client, who may always try again.
func (h *Hub) readError(err error) *proto.Error {
	if e, known := storeError(err, &store.Conversation{}, store.CustomerSide); known {
		return e
	}
	if !errors.Is(err, context.Canceled) { // whoever asked has gone
		h.o.Logger.Error("desk: read failed", "err", err)
	}
	return unavailable("the conversation could not be read now")
}
