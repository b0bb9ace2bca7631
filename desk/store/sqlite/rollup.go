package sqlite

import (
	"github.com/go-eddy/eddy/desk/store"
)

const (
	sqlRollQuarter = `INSERT INTO rollup_15m (slot, site, grp, agent, measure, bucket, n, total) VALUES (?, ?, ?, ?, ?, ?, 1, ?)
		ON CONFLICT DO UPDATE SET n = n + 1, total = total + excluded.total`
	sqlRollMinute = `INSERT INTO rollup_1m (slot, grp, measure, n, total) VALUES (?, ?, ?, 1, ?)
		ON CONFLICT DO UPDATE SET n = n + 1, total = total + excluded.total`
	sqlRollForget = `DELETE FROM rollup_1m WHERE slot < ?`
	sqlAnswered   = `UPDATE conversation SET answered_at = ? WHERE id = ? AND answered_at < ?`

	keepMinutes = 6 * 60 * store.SlotMinute
)

// act notes the customer's first action, from which on the conversation counts.
func (t *tx) act(d *draft) error {
	if d.ActedAt != 0 {
		return nil
	}
	d.ActedAt = t.now()
	if d.State == store.Closed {
		return nil // the action opens it again, which is counted by itself
	}
	if err := t.roll(&d.Conversation, "", store.MeasureOpened, d.ActedAt, -1); err != nil || d.State != store.Queued {
		return err
	}
	return t.roll(&d.Conversation, "", store.MeasureArrived, d.ActedAt, -1)
}

// roll counts one thing in the roll-ups, unless the customer has not done anything yet. agent is "" and ms is -1 where
// they do not apply.
func (t *tx) roll(c *store.Conversation, agent, measure string, now, ms int64) error {
	if c.ActedAt == 0 {
		return nil
	}
	bucket := 0
	if ms >= 0 {
		bucket = store.BucketOf(ms)
	}
	ms = max(ms, 0)
	if err := t.exec(sqlRollQuarter, now-now%store.SlotQuarter, c.Site, c.Group, agent, measure, bucket, ms); err != nil {
		return err
	}
	if measure != store.MeasureArrived && measure != store.MeasureWait {
		return nil
	}
	minute := now - now%store.SlotMinute
	if minute != t.minute {
		t.minute = minute
		if err := t.exec(sqlRollForget, minute-keepMinutes); err != nil {
			return err
		}
	}
	return t.exec(sqlRollMinute, minute, c.Group, measure, ms)
}

// rollStep counts what a state change means.
func (t *tx) rollStep(before, next *store.Conversation, change *store.Change, now int64) error {
	type count struct {
		agent, measure string
		ms             int64
	}
	var counts []count
	add := func(agent, measure string, ms int64) { counts = append(counts, count{agent, measure, ms}) }
	if change.Event == "opened" || change.Event == "reopened" {
		add("", store.MeasureOpened, -1)
	}
	// A conversation that comes back to the queue keeps its time there, and is not counted again.
	fresh := next.QueuedAt != before.QueuedAt || before.State == store.Closed
	if next.State == store.Queued && before.State != store.Queued && fresh {
		add("", store.MeasureArrived, -1)
	}
	agent := ""
	if before.Owner.Kind == store.Agent {
		agent = before.Owner.ID
	}
	switch {
	case before.State == store.Queued && next.State == store.Assigned && before.AssignedAt < before.QueuedAt:
		add(next.Owner.ID, store.MeasureWait, now-before.QueuedAt)
	case before.State == store.InBot && next.State == store.Closed:
		add("", store.MeasureContained, -1)
	case before.State == store.InBot:
		add("", store.MeasureHandoff, -1)
	case agent != "" && !next.Owner.Is(before.Owner):
		add(agent, store.MeasureHandled, now-before.AssignedAt)
	}
	if next.Abandoned {
		add("", store.MeasureAbandoned, now-before.QueuedAt)
	}
	if next.State == store.Closed {
		add(agent, store.MeasureClosed, -1)
	}
	for _, c := range counts {
		if err := t.roll(next, c.agent, c.measure, now, c.ms); err != nil {
			return err
		}
	}
	return nil
}

// rollReply counts an owner's first text, if no agent has answered since the customer came.
func (t *tx) rollReply(c *store.Conversation, agent string, now int64) error {
	came := max(c.QueuedAt, c.OpenedAt)
	n, err := t.change(sqlAnswered, now, c.ID, came)
	if err != nil || n == 0 {
		return err
	}
	since := c.QueuedAt
	if since == 0 {
		since = c.AssignedAt
	}
	return t.roll(c, agent, store.MeasureFirst, now, now-since)
}
