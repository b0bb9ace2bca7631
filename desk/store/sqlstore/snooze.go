package sqlstore

import (
	"fmt"
	"time"

	"github.com/go-eddy/eddy/desk/store"
)

const (
	sqlBackSeat = `UPDATE agent_state SET active = active + 1 WHERE agent = ?`
	sqlSnoozed  = `SELECT count(*) FROM conversation WHERE owner_id = ? AND snoozed_until > 0`
)

var system = store.Actor{Kind: store.System}

// snooze puts a conversation aside, or brings it back.
func (t *tx) snooze(c store.Snooze) (store.Outcome, error) {
	d, err := t.load(c.Conv)
	if err != nil {
		return store.Outcome{}, err
	}
	head := store.Outcome{Conv: d.Conversation}
	switch {
	case c.By.Kind == store.Customer || c.By.Kind == store.Bot || c.By.Kind == store.System && c.Until != 0:
		return head, store.ErrForbidden
	case d.State == store.Closed:
		return head, store.ErrClosed
	case d.State != store.Assigned || c.Seq != 0 && c.Seq != d.LastSeq:
		return head, store.ErrConflict
	case c.By.Kind == store.Agent && !c.By.Is(d.Owner) && !c.Force:
		return head, store.ErrForbidden
	case c.Until == d.SnoozedUntil:
		return head, nil
	}
	if c.Until == 0 {
		payload := store.PayloadWoken
		if c.By.Kind == store.System {
			payload = store.PayloadWokenByTime
			if d.WaitingSince == 0 {
				d.WaitingSince = t.now()
			}
		}
		if err := t.wake(d, c.By, payload); err != nil {
			return head, err
		}
	} else if err := t.putAside(d, &c); err != nil {
		return head, err
	}
	out, err := t.save(d)
	out.Touched = true
	return out, err
}

// putAside frees the place of the agent, unless the conversation was aside already, and says it in a note.
func (t *tx) putAside(d *draft, c *store.Snooze) error {
	if in := c.Until - t.now(); in < store.MinSnooze.Milliseconds() || in > store.MaxSnooze.Milliseconds() {
		return fmt.Errorf("%w: for %v, the limits are %v and %v", store.ErrSnooze, time.Duration(in)*time.Millisecond, store.MinSnooze, store.MaxSnooze)
	}
	if !d.Snoozed() {
		var n int
		if err := t.row(sqlSnoozed, d.Owner.ID).Scan(&n); err != nil {
			return err
		}
		if n >= store.MaxSnoozed {
			return fmt.Errorf("%w: the agent has %d conversations aside, the limit is %d", store.ErrSnooze, n, store.MaxSnoozed)
		}
		if err := t.exec(sqlFreeSeat, d.Owner.ID); err != nil {
			return err
		}
	}
	d.SnoozedUntil = c.Until
	at := time.UnixMilli(c.Until).UTC().Format(time.RFC3339)
	return t.add(d, store.Event{Kind: store.KindNote, From: c.By, Body: "Snoozed until " + at, Payload: store.PayloadSnoozed + at})
}

// wake brings a conversation back to its agent, beyond the agent's capacity, too, and says why in a note.
func (t *tx) wake(d *draft, by store.Actor, payload string) error {
	if err := t.exec(sqlBackSeat, d.Owner.ID); err != nil {
		return err
	}
	d.SnoozedUntil = 0
	return t.add(d, store.Event{Kind: store.KindNote, From: by, Body: "Back from snooze", Payload: payload})
}
