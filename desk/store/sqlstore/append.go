package sqlstore

import (
	"errors"

	"github.com/go-eddy/eddy/desk/store"
)

// appending is a message being added. What it has to know before can be read ahead.
type appending struct {
	store.Append
	head  store.Conversation
	first store.Event // the message itself, if it is there already
	known bool        // head and first, or their errors, are read; in its transaction nothing else changes them

	headErr, firstErr error
}

func (a *appending) run(t *tx) (store.Outcome, error) { return t.append(a) }

// ask reads what is to be known, for sync.
func (a *appending) ask(t *tx) error {
	err := t.later(func(r scanner) error {
		a.head, a.headErr = scanConv(r)
		return unread(a.headErr)
	}, sqlConv, a.Conv)
	if err != nil {
		return err
	}
	return t.later(func(r scanner) error {
		a.first, a.firstErr = scanEvent(r)
		a.known = true
		return unread(a.firstErr)
	}, sqlByClient, a.Conv, string(a.From.Kind), a.From.ID, a.ClientID)
}

// unread returns the error of a read that has found out nothing.
func unread(err error) error {
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	return err
}

// loadFor loads the conversation of a message, and the message itself if it is there already, else its error is
// store.ErrNotFound. Without a draft the error is that of the conversation, or of the sender.
func (t *tx) loadFor(a *appending) (*draft, store.Event, error) {
	if !a.known {
		if err := errors.Join(a.ask(t), t.sync()); err != nil {
			return nil, a.first, err
		}
	}
	if a.headErr != nil {
		return nil, a.first, a.headErr
	}
	from, err := t.acting(&a.head, a.From)
	if err != nil {
		return nil, a.first, err
	}
	if from != a.From { // somebody else now, because of a merge
		a.From = from
		if err := errors.Join(a.ask(t), t.sync()); err != nil {
			return nil, a.first, err
		}
	}
	return &draft{Conversation: a.head, rev: a.head.Rev, seq: a.head.LastSeq}, a.first, a.firstErr
}

// append adds a message once.
func (t *tx) append(c *appending) (store.Outcome, error) {
	d, first, err := t.loadFor(c)
	if d == nil {
		return store.Outcome{}, err
	}
	head := store.Outcome{Conv: d.Conversation}
	if err == nil {
		head.Events, head.Dup = []store.Event{first}, true
		return head, nil
	}
	if !errors.Is(err, store.ErrNotFound) {
		return store.Outcome{}, err
	}
	if c.From.Kind == store.Customer {
		if err := t.act(d); err != nil {
			return head, err
		}
	}
	if err := t.admit(d, &c.Append); err != nil {
		return head, err
	}
	e := store.Event{Kind: store.KindText, From: c.From, ClientID: c.ClientID, Body: c.Body, Payload: c.Payload}
	if e.Files, err = t.bind(&c.Append, d.LastSeq+1); err != nil {
		return head, err
	}
	switch {
	case c.Note:
		e.Kind = store.KindNote
	case c.From.Kind == store.System:
		e.Kind = store.KindNotice
	case len(e.Files) > 0:
		e.Kind = store.KindFile
	}
	if err := t.add(d, e); err != nil {
		return head, err
	}
	out := store.Outcome{}
	if c.From.Kind == store.Customer {
		out, err = t.saveTurn(d)
	} else {
		out, err = t.save(d)
	}
	out.Touched = head.Conv.Snoozed() != d.Snoozed()
	return out, err
}

// admit decides whether a message may be added, and makes the change that it causes.
func (t *tx) admit(d *draft, c *store.Append) error {
	agent := c.From.Kind == store.Agent
	switch {
	case c.Note:
		if !agent {
			return store.ErrForbidden
		}
		return nil
	case d.Blocked && c.From.Kind == store.Customer:
		return store.ErrBlocked
	case d.State == store.Closed && c.From.Kind == store.Customer:
		return t.step(d, store.Input{Trigger: store.ReopenToQueue, By: c.From, Away: c.Away})
	case d.State == store.Closed:
		return store.ErrClosed
	case c.From.Kind == store.Customer && d.Snoozed():
		return t.wake(d, system, store.PayloadWokenByWord)
	case c.From.Kind == store.Customer, c.From.Kind == store.System:
		return nil
	case d.State == store.InBot && agent:
		return t.step(d, store.Input{Trigger: store.TakeOver, By: c.From})
	case d.State != store.Assigned:
		return store.ErrConflict
	case !c.From.Is(d.Owner):
		return store.ErrForbidden
	}
	return nil
}
