package sqlstore

import (
	"errors"

	"github.com/go-eddy/eddy/desk/store"
)

const (
	rollKey = `slot, site, grp, agent, measure, bucket`
	tagKey  = `tag, ` + rollKey
	tagRows = ` FROM counted l JOIN conversation_tag t ON t.conversation = l.conversation`
	soloKey = `l.slot, l.site, l.grp, l.agent, l.measure, l.bucket`

	addQuarter = ` ON CONFLICT (` + rollKey + `) DO UPDATE SET n = rollup_15m.n + excluded.n, total = rollup_15m.total + excluded.total`
	addTags    = ` ON CONFLICT (` + tagKey + `) DO UPDATE SET n = rollup_tag_15m.n + excluded.n, total = rollup_tag_15m.total + excluded.total`

	sqlRollQuarter = `INSERT INTO rollup_15m (` + rollKey + `, n, total) VALUES (?, ?, ?, ?, ?, ?, ?, ?)` + addQuarter
	sqlRollTags    = `INSERT INTO rollup_tag_15m (` + rollKey + `, n, total, tag) SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, tag FROM conversation_tag WHERE conversation = ?9` + addTags
	sqlCounted     = `INSERT INTO counted (` + rollKey + `, n, total, conversation) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (conversation, ` + rollKey + `) DO UPDATE SET n = counted.n + excluded.n, total = counted.total + excluded.total`
	sqlRollMinute = `INSERT INTO rollup_1m (slot, grp, measure, n, total) VALUES (?, ?, ?, 1, ?)
		ON CONFLICT (slot, grp, measure) DO UPDATE SET n = rollup_1m.n + excluded.n, total = rollup_1m.total + excluded.total`
	sqlRollForget = `DELETE FROM rollup_1m WHERE slot < ?`
	sqlAnswered   = `UPDATE conversation SET answered_at = ? WHERE id = ?`

	ofRating  = ` WHERE l.conversation = ? AND l.measure = '` + store.MeasureRated + `'`
	sqlUnrate = `INSERT INTO rollup_15m (` + rollKey + `, n, total) SELECT ` + rollKey + `, -n, -total FROM counted l` + ofRating + addQuarter
	sqlUntag  = `INSERT INTO rollup_tag_15m (` + rollKey + `, n, total, tag) SELECT ` + soloKey + `, -l.n, -l.total, t.tag` + tagRows + ofRating + addTags
	sqlForget = `DELETE FROM counted AS l` + ofRating
	sqlTagged = `INSERT INTO rollup_tag_15m (` + rollKey + `, n, total, tag) SELECT ` + rollKey + `, ?2 * n, ?2 * total, ?3 FROM counted WHERE conversation = ?1` + addTags

	sqlKeepGone = `INSERT INTO rollup_gone (` + rollKey + `, n, total, tag) SELECT ` + rollKey + `, n, total, '' FROM counted WHERE conversation = ?1
		UNION ALL SELECT ` + soloKey + `, l.n, l.total, t.tag` + tagRows + ` WHERE l.conversation = ?1
		ON CONFLICT (` + tagKey + `) DO UPDATE SET n = rollup_gone.n + excluded.n, total = rollup_gone.total + excluded.total`
	sqlUncount = `DELETE FROM counted WHERE conversation = ?`

	keepMinutes = 6 * 60 * store.SlotMinute
)

// count is one thing that the roll-ups count. The bucket of a time is store.BucketOf.
type count struct {
	measure, agent string // agent "" = none
	at             int64
	bucket         int
	total          int64
}

// timed is a count with a duration in milliseconds.
func timed(measure, agent string, at, ms int64) count {
	return count{measure, agent, at, store.BucketOf(max(ms, 0)), max(ms, 0)}
}

// act notes the customer's first action, from which on the conversation counts.
func (t *tx) act(d *draft) error {
	if d.ActedAt != 0 {
		return nil
	}
	d.ActedAt = t.now()
	if d.State == store.Closed {
		return nil // the action opens it again, which is counted by itself
	}
	opened := count{measure: store.MeasureOpened, at: d.ActedAt}
	if d.State != store.Queued {
		return t.roll(&d.Conversation, opened)
	}
	return t.roll(&d.Conversation, opened, count{measure: store.MeasureArrived, at: d.ActedAt})
}

// roll counts things of one conversation in the roll-ups, unless the customer has not done anything yet.
func (t *tx) roll(c *store.Conversation, counts ...count) error {
	if c.ActedAt == 0 {
		return nil
	}
	for i := range counts {
		k := &counts[i]
		key := []any{k.at - k.at%store.SlotQuarter, c.Site, c.Group, k.agent, k.measure, k.bucket}
		if err := t.add15(c, key, 1, k.total); err != nil {
			return err
		}
		if err := t.exec(sqlCounted, append(key, 1, k.total, c.ID)...); err != nil {
			return err
		}
		if k.measure != store.MeasureArrived && k.measure != store.MeasureWait {
			continue
		}
		if err := t.rollMinute(c, k); err != nil {
			return err
		}
	}
	return nil
}

// add15 adds to one row of the roll-ups, and to that of each tag of the conversation.
func (t *tx) add15(c *store.Conversation, key []any, n, total int64) error {
	args := append(append(make([]any, 0, len(key)+3), key...), n, total)
	if err := t.exec(sqlRollQuarter, args...); err != nil || c.Tags == "" {
		return err
	}
	return t.exec(sqlRollTags, append(args, c.ID)...)
}

// rollMinute counts for the wall.
func (t *tx) rollMinute(c *store.Conversation, k *count) error {
	minute := k.at - k.at%store.SlotMinute
	if minute != t.minute {
		t.minute = minute
		if err := t.exec(sqlRollForget, minute-keepMinutes); err != nil {
			return err
		}
	}
	return t.exec(sqlRollMinute, minute, c.Group, k.measure, k.total)
}

// rollStep counts what a state change means.
func (t *tx) rollStep(before, next *store.Conversation, change *store.Change, now int64) error {
	var counts []count
	add := func(measure, agent string) { counts = append(counts, count{measure: measure, agent: agent, at: now}) }
	took := func(measure, agent string, ms int64) { counts = append(counts, timed(measure, agent, now, ms)) }
	if change.Event == "opened" || change.Event == "reopened" {
		add(store.MeasureOpened, "")
	}
	// A conversation that comes back to the queue keeps its time there, and is not counted again.
	fresh := next.QueuedAt != before.QueuedAt || before.State == store.Closed
	if next.State == store.Queued && before.State != store.Queued && fresh {
		add(store.MeasureArrived, "")
	}
	agent := ""
	if before.Owner.Kind == store.Agent {
		agent = before.Owner.ID
	}
	switch {
	case before.State == store.Queued && next.State == store.Assigned && before.AssignedAt < before.QueuedAt:
		took(store.MeasureWait, next.Owner.ID, now-before.QueuedAt)
	case before.State == store.InBot && next.State == store.Closed:
		add(store.MeasureContained, "")
	case before.State == store.InBot:
		add(store.MeasureHandoff, "")
	case agent != "" && !next.Owner.Is(before.Owner):
		took(store.MeasureHandled, agent, now-before.AssignedAt)
	}
	if next.State == store.Closed {
		add(store.MeasureClosed, agent)
	}
	if err := t.roll(next, counts...); err != nil || !next.Abandoned {
		return err
	}
	return t.rollAbandoned(before, next, now)
}

// rollAbandoned counts a customer who left the queue. One who has waited for a first answer for longer than the group's
// target counts against it.
func (t *tx) rollAbandoned(c, next *store.Conversation, now int64) error {
	counts := []count{timed(store.MeasureAbandoned, "", now, now-c.QueuedAt)}
	if _, waits := c.Unanswered(); waits {
		target, err := t.target(c.Group)
		if err != nil {
			return err
		}
		if target > 0 && now-c.QueuedAt > target {
			counts = append(counts, count{measure: store.MeasureTarget, at: now})
			if err := t.missedAtLast(next, c.QueuedAt, target); err != nil {
				return err
			}
		}
	}
	return t.roll(c, counts...)
}

// rollReply counts an owner's first text, if no agent has answered since the customer came.
func (t *tx) rollReply(c *store.Conversation, agent string, now int64) error {
	since, waits := c.Unanswered()
	if !waits {
		return nil
	}
	c.AnsweredAt = max(now, c.QueuedAt, c.OpenedAt) // the clock may have been set back
	if err := t.exec(sqlAnswered, c.AnsweredAt, c.ID); err != nil {
		return err
	}
	counts := []count{timed(store.MeasureFirst, agent, now, now-since)}
	target, err := t.target(c.Group)
	if err != nil {
		return err
	}
	if target > 0 {
		met := count{measure: store.MeasureTarget, agent: agent, at: now}
		if now-since <= target {
			met.total = 1
		} else if err := t.missedAtLast(c, since, target); err != nil {
			return err
		}
		counts = append(counts, met)
	}
	return t.roll(c, counts...)
}

// target returns the time in which a group wants to answer, in milliseconds, 0 = none.
func (t *tx) target(group string) (ms int64, err error) {
	if group == "" {
		return 0, nil
	}
	g, err := t.groupSettings(group)
	if errors.Is(err, store.ErrNotFound) {
		err = nil
	}
	return g.Target, err
}

// rollRating counts the score of a conversation that is closed, in place of one that it had before.
func (t *tx) rollRating(c *store.Conversation, score int) error {
	for _, query := range []string{sqlUnrate, sqlUntag, sqlForget} {
		if err := t.exec(query, c.ID); err != nil {
			return err
		}
	}
	return t.roll(c, count{store.MeasureRated, c.LastAgent, c.ClosedAt, score, int64(score)})
}

// rollTag gives what a conversation has counted to a tag, or takes it away.
func (t *tx) rollTag(conv, tag string, added bool) error {
	sign := -1
	if added {
		sign = 1
	}
	return t.exec(sqlTagged, conv, sign, tag)
}

// rollGone keeps what a conversation has counted when it goes.
func (t *tx) rollGone(conv string) error {
	if err := t.exec(sqlKeepGone, conv); err != nil {
		return err
	}
	return t.exec(sqlUncount, conv)
}
