package model

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/go-eddy/eddy/desk/datadir"
	"github.com/go-eddy/eddy/desk/desktest"
	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/store"
	"github.com/go-eddy/eddy/desk/store/sqlstore"
)

// check compares what everybody saw with what is stored: while the server runs, so that the clients can catch up. A stream only grows, so that
// it need not stand still. The counters are compared after the server's end.
func (m *model) check() {
	db, err := sqlstore.Open(m.ctx, sqlstore.Options{Path: datadir.Database(m.dir)})
	m.ok(err)
	defer func() {
		if err := db.Close(); err != nil {
			m.t.Error(err)
		}
	}()
	for _, p := range m.people { // the answer that named it may have been lost
		m.convs = append(m.convs, p.Conversations()...)
	}
	m.convs = slices.DeleteFunc(m.convs, func(conv string) bool { return m.guests[conv] })
	slices.Sort(m.convs)
	m.convs = slices.Compact(m.convs)
	byClient := make(map[string][]store.Event)
	for _, conv := range m.convs {
		for _, e := range m.checkConv(db, conv) {
			if e.ClientID != "" && e.From.Kind != store.Bot {
				byClient[e.ClientID] = append(byClient[e.ClientID], e)
			}
		}
	}
	for _, p := range m.people {
		p.checkSent(byClient)
	}
	m.checkTargets(db)
	m.checkHosted(db)
	for _, p := range append(m.people, m.boss) {
		p.Close()
	}
	m.server.stop(m.t)
	for _, p := range m.people {
		p.checkSet(db)
	}
	m.checkOutbox(db)
	for what, count := range map[string]func(context.Context) (int, error){"counters of agents": db.Reconcile, "numbers of the reports": db.Recount} {
		if n, err := count(m.ctx); n != 0 || err != nil {
			m.t.Errorf("%d %s differ from the conversations, %v", n, what, err)
		}
	}
	for _, s := range append(agentSteps(), customerSteps()...) {
		if *modelSteps >= 100 && m.counts["step "+s.name] == 0 {
			m.t.Errorf("nobody has tried %s", s.name)
		}
	}
}

func (m *model) events(db *sqlstore.DB, conv string, side store.Side) []store.Event {
	m.t.Helper()
	events, more, err := db.Cold().Events(m.ctx, conv, side, 0, math.MaxInt32, math.MaxInt32)
	m.ok(err)
	if more {
		m.t.Fatal("the store has more events than it was asked for")
	}
	return events
}

// checkConv checks one conversation by itself and everybody's view of it, and returns its events.
func (m *model) checkConv(db *sqlstore.DB, conv string) []store.Event {
	m.t.Helper()
	head, err := db.Cold().Conversation(m.ctx, conv)
	m.ok(err)
	staff := m.events(db, conv, store.StaffSide)
	m.checkHistory(conv, staff)
	customer := m.events(db, conv, store.CustomerSide)
	for i := range customer {
		if customer[i].PSeq != uint64(i+1) || customer[i].Kind == store.KindNote {
			m.t.Errorf("%s: event %d of the customer's stream is %+v", conv, i+1, customer[i])
		}
	}
	for _, p := range m.people {
		me := p.Me().ID
		switch {
		case !p.staff && me == head.Contact:
			m.ok(p.Complete(m.ctx, conv, uint64(len(customer))))
			p.checkView(conv, customer, store.CustomerSide)
		case !p.staff && len(p.View(conv)) > 0:
			m.t.Errorf("%s sees conversation %s of somebody else", p.name, conv)
		case p.staff:
			if head.Owner.ID == me {
				m.ok(p.Complete(m.ctx, conv, uint64(len(staff))))
			}
			p.checkView(conv, staff, store.StaffSide)
		}
	}
	return staff
}

// checkHistory replays a conversation: contiguous numbers, each change from the state that the one before led to, a revision for each, and a
// new epoch exactly with a new owner.
func (m *model) checkHistory(conv string, events []store.Event) {
	m.t.Helper()
	var now store.Change
	for i := range events {
		e := &events[i]
		if e.Seq != uint64(i+1) {
			m.t.Errorf("%s: event %d has number %d", conv, i+1, e.Seq)
		}
		if e.Kind == store.KindText && e.From.Kind == store.Bot && now.State != store.InBot {
			m.t.Errorf("%s: the bot speaks in state %s: %+v", conv, now.State, e)
		}
		if e.Change == nil {
			continue
		}
		ch := *e.Change
		moved := i == 0 || !ch.Owner.Is(now.Owner)
		if ch.From != now.State || ch.Rev != now.Rev+1 || !ch.Was.Is(now.Owner) || moved != (ch.Epoch == now.Epoch+1) || (!moved && ch.Epoch != now.Epoch) {
			m.t.Errorf("%s: change %+v after %+v", conv, ch, now)
		}
		if ch.State == store.Deferred && (ch.Abandoned || ch.Event == "closed") {
			m.t.Errorf("%s: a left message is given up: %+v", conv, ch)
		}
		if (ch.State == store.Assigned) != (ch.Owner.Kind == store.Agent) || (ch.State == store.InBot) != (ch.Owner.Kind == store.Bot) {
			m.t.Errorf("%s: state %s with owner %+v", conv, ch.State, ch.Owner)
		}
		now = ch
	}
}

// checkView compares what somebody shows with the beginning of a stream: every event once, in order, the same.
func (p *person) checkView(conv string, events []store.Event, side store.Side) {
	p.m.t.Helper()
	view := p.View(conv)
	if len(view) > len(events) {
		view = view[:len(events)] // what has come since the store was read
	}
	for i, f := range view {
		if err := differs(f, &events[i], side); err != "" {
			p.m.t.Errorf("%s, conversation %s, event %d: %s", p.name, conv, i+1, err)
		}
	}
}

func differs(f desktest.Frame, e *store.Event, side store.Side) string {
	if f.S != e.S(side) {
		return fmt.Sprintf("number %d, stored %d", f.S, e.S(side))
	}
	if e.Change != nil {
		var s proto.StateChange
		f.Decode(&s)
		if s.ID != e.ID || s.Event != e.Change.Event || s.State != string(e.Change.State) || s.Rev != e.Change.Rev || s.Epoch != e.Change.Epoch {
			return fmt.Sprintf("%+v, stored %+v", s, *e.Change)
		}
		return ""
	}
	var msg proto.Msg
	f.Decode(&msg)
	if msg.ID != e.ID || msg.Body != e.Body || msg.Kind != e.Kind || msg.From.ID != e.From.ID || (e.From.Kind != store.Bot && msg.ClientID != e.ClientID) {
		return fmt.Sprintf("%+v, stored %+v", msg, *e)
	}
	return ""
}

// checkSent looks for everything that somebody has said: what was acknowledged is there once, as it was acknowledged, and nothing is there
// twice. What was refused for good is not there, unless an earlier attempt was under way on a connection that was lost.
func (p *person) checkSent(stored map[string][]store.Event) {
	p.m.t.Helper()
	side := store.CustomerSide
	if p.staff {
		side = store.StaffSide
	}
	acked := make(map[string]bool)
	for _, a := range p.Acks() {
		acked[a.ClientID] = true
		found := stored[a.ClientID]
		if len(found) != 1 || found[0].ID != a.ID || found[0].S(side) != a.S || found[0].Body != p.sent[a.ClientID] || found[0].From.ID != p.Me().ID {
			p.m.t.Errorf("%s: acknowledged %+v, stored %+v", p.name, a, found)
		}
	}
	refused := make(map[string]desktest.Dropped)
	for _, r := range p.Drops() {
		refused[r.ClientID] = r
	}
	for id, text := range p.sent {
		n := len(stored[id])
		late := n == 1 && refused[id].Attempts > 1
		if late {
			p.m.count("late attempt")
		}
		if n > 1 || (n == 1 && !acked[id] && !late) {
			p.m.t.Errorf("%s: %q is stored %d times, acknowledged %v, refused for good: %+v", p.name, text, n, acked[id], refused[id])
		}
	}
	for _, id := range p.left {
		if n := len(stored[id]); n > 1 || n == 0 && slices.Contains(p.kept, id) {
			p.m.t.Errorf("%s: left message %s is stored %d times", p.name, id, n)
		}
	}
	p.m.count(fmt.Sprintf("acknowledged %v", len(acked) > 0))
}
