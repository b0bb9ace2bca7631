package sqlstore

import (
	"cmp"
	"fmt"

	"github.com/go-eddy/eddy/desk/store"
)

// step makes one change of the state machine: facts, decision, places of agents, event, outbox. It does not save the
// row.
func (t *tx) step(d *draft, in store.Input) error {
	in.Now = t.now()
	if in.Trigger == store.OpenForHuman || in.Trigger == store.Handoff {
		if err := t.route(&d.Conversation); err != nil {
			return err
		}
		d.Priority = cmp.Or(d.set, d.Priority)
	}
	if err := t.facts(&d.Conversation, &in); err != nil {
		return err
	}
	next, change, seats, err := store.Step(d.Conversation, in)
	if err != nil {
		return err
	}
	if err := t.behind(&d.Conversation, &next, in.Now); err != nil {
		return err
	}
	if err := t.seat(&next, seats, change.Event, in.Now); err != nil {
		return err
	}
	if d.Owner.Kind == store.Bot && !next.Owner.Is(d.Owner) {
		if err := t.endTurns(d.ID); err != nil {
			return err
		}
	}
	if d.State == store.Assigned {
		if err := t.exec(sqlDropOffer, d.ID); err != nil {
			return err
		}
	}
	if err := t.rollStep(&d.Conversation, &next, &change, in.Now); err != nil {
		return err
	}
	if in.Trigger == store.NoAnswer {
		if err := t.exec(sqlMissed, store.MissedForAway, d.Owner.ID); err != nil {
			return err
		}
	}
	d.Conversation = next
	return t.add(d, store.Event{Kind: store.KindEvent, From: in.By, ClientID: in.ClientID, Change: &change})
}

// behind puts a conversation that enters the queue now behind everything that waits there, even if the clock has been
// set back.
func (t *tx) behind(before, next *store.Conversation, now int64) error {
	if next.State != store.Queued || before.State == store.Queued || next.QueuedAt != now {
		return nil
	}
	var last int64
	if err := t.row(sqlLastQueued, next.Priority).Scan(&last); err != nil {
		return err
	}
	if last > now {
		next.QueuedAt = last + 1
	}
	return nil
}

// facts reads what the guards of the rule need.
func (t *tx) facts(c *store.Conversation, in *store.Input) error {
	if in.Trigger == store.ReopenToQueue || in.Trigger == store.ReopenToBot {
		if err := t.notErased(c.Contact); err != nil {
			return err
		}
		s, err := t.site(c.Site)
		if err != nil {
			return err
		}
		in.Window, in.To = s.window, s.bot
		if in.By.Kind == store.Customer && s.reopenToBot && !s.bot.IsZero() {
			in.Trigger = store.ReopenToBot
		}
	}
	rule, ok := store.FindRule(c.State, in.Trigger)
	if !ok {
		return store.ErrConflict
	}
	if err := served(c, in); err != nil {
		return err
	}
	if in.Trigger == store.OpenForHuman || in.Trigger == store.Handoff {
		if err := t.room(c.Group, c.ID); err != nil {
			return err
		}
	}
	if rule.Guard&store.OnlyOne != 0 {
		var others int
		if err := t.row(sqlOtherOf, c.Contact, c.ID).Scan(&others); err != nil {
			return err
		}
		in.Alone = others == 0
	}
	if rule.Guard&store.InGroup != 0 && c.Group != "" {
		agent := in.By
		if rule.Owner == store.TheOther {
			agent = in.To
		}
		var n int
		if err := t.row(sqlMember, c.Group, agent.ID).Scan(&n); err != nil {
			return err
		}
		in.Member = n > 0
	}
	return nil
}

// seat frees and takes the places of agents. The statement that takes a place also checks the capacity.
func (t *tx) seat(c *store.Conversation, s store.Seats, event string, now int64) error {
	if s.Freed != "" {
		if !s.Aside {
			if err := t.exec(sqlFreeSeat, s.Freed); err != nil {
				return err
			}
		}
		if err := t.exec(sqlEnd, now, c.ID); err != nil {
			return err
		}
	}
	if s.Taken == "" {
		return nil
	}
	n, err := t.change(sqlTakeSeat, now, s.Taken, s.Over)
	if err != nil {
		return err
	}
	if n == 0 {
		return t.noSeat(s.Taken)
	}
	return t.exec(sqlBegin, c.ID, c.Epoch, s.Taken, event, now)
}

func (t *tx) noSeat(agent string) error {
	var active, capacity int
	if err := t.row(sqlLoad, agent).Scan(&active, &capacity); err != nil {
		return notFound(err)
	}
	return fmt.Errorf("%w: %d of %d", store.ErrCapacity, active, capacity)
}

// reconcile sets the counters that differ from the rows.
func (t *tx) reconcile() (int64, error) {
	const active = `(SELECT count(*) FROM conversation c WHERE c.state = 'assigned' AND c.snoozed_until = 0 AND c.owner_id = agent_state.agent)`
	return t.change(`UPDATE agent_state SET active = ` + active + ` WHERE active <> ` + active)
}
