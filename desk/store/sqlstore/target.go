package sqlstore

import (
	"time"

	"github.com/go-eddy/eddy/desk/store"
)

const sqlTold = `UPDATE conversation SET told_warned = ?, told_missed = ? WHERE id = ?`

// tellTarget tells programs of a target that is missed, or soon will be.
func (t *tx) tellTarget(c store.TellTarget) (store.Outcome, error) {
	conv, err := scanConv(t.row(sqlConv, c.Conv))
	if err != nil {
		return store.Outcome{}, err
	}
	target, err := t.target(conv.Group)
	if err != nil {
		return store.Outcome{}, err
	}
	what := conv.TargetNews(time.Duration(target)*time.Millisecond, t.now())
	if what == "" {
		return store.Outcome{Conv: conv}, store.ErrConflict
	}
	since, _ := conv.Aimed()
	err = t.tellWait(&conv, what, since, target)
	return store.Outcome{Conv: conv, Touched: true}, err
}

// missedAtLast tells programs of a target whose wait ends too late, unless they were told before. What reports do not
// count is not told.
func (t *tx) missedAtLast(c *store.Conversation, since, target int64) error {
	if c.ActedAt == 0 || c.Told.Missed == c.Wait() {
		return nil
	}
	return t.tellWait(c, store.EventTargetMissed, since, target)
}

// tellWait writes down what programs are told of a wait, in the transaction that notes that they were.
func (t *tx) tellWait(c *store.Conversation, what store.EventType, since, target int64) error {
	c.Told.Warned = c.Wait()
	if what == store.EventTargetMissed {
		c.Told.Missed = c.Wait()
	}
	if err := t.exec(sqlTold, c.Told.Warned, c.Told.Missed, c.ID); err != nil {
		return err
	}
	return t.tell(store.OutboxRow{Type: what, Site: c.Site, Conv: c.ID, Contact: c.Contact, Target: store.TargetTold{Group: c.Group, In: target, Since: since}})
}
