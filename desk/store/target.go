package store

import "time"

// TellTarget tells programs how long a customer has waited for a first answer: for half of the time of its group's target
// (EventTargetWarned), or for more than all of it (EventTargetMissed). Each is told once for a wait, whatever group has
// the conversation. A target that is missed before it was warned of is told as missed only. What TellTarget comes too late
// for is told with the change that ends the wait: a late first answer, and a customer who leaves the queue late.
//
// The store decides by its clock. The error is ErrConflict if nothing is to be told now.
type TellTarget struct {
	Conv string
}

func (TellTarget) command() {}

// Told names the waits for a first answer (Conversation.Wait) that programs were told of last.
type Told struct {
	Warned int64
	Missed int64
}

// TargetTold is what an event about a target says besides its conversation.
type TargetTold struct {
	Group string `json:"group"` // id
	In    int64  `json:"in"`    // milliseconds in which the group wants to give a first answer
	Since int64  `json:"since"` // the customer waits, Unix milliseconds
}

// Wait names the customer's last wait for a first answer, by the time at which it began. The wait may be over, see
// Unanswered.
func (c *Conversation) Wait() int64 { return max(c.QueuedAt, c.OpenedAt) }

// Aimed reports whether the target of its group counts for the conversation now, and since when its customer waits.
func (c *Conversation) Aimed() (since int64, counts bool) {
	since, waits := c.Unanswered()
	return since, waits && c.ActedAt != 0 && !c.Snoozed() && (c.State == Queued || c.State == Assigned)
}

// NextTarget returns when programs are to be told next of a target of in, as Unix milliseconds. 0 means never, unless the
// conversation changes.
func (c *Conversation) NextTarget(in time.Duration) int64 {
	since, counts := c.Aimed()
	switch {
	case in <= 0 || !counts || c.Told.Missed == c.Wait():
		return 0
	case c.Told.Warned == c.Wait():
		return since + in.Milliseconds() + 1
	}
	return since + (in.Milliseconds()+1)/2
}

// TargetNews returns what is to be told of a target now, "" for nothing.
func (c *Conversation) TargetNews(in time.Duration, now int64) EventType {
	since, _ := c.Aimed()
	switch next := c.NextTarget(in); {
	case next == 0 || now < next:
		return ""
	case now > since+in.Milliseconds():
		return EventTargetMissed
	}
	return EventTargetWarned
}
