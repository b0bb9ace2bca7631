package sqlstore

import (
	"errors"
	"maps"

	"github.com/go-eddy/eddy/desk/store"
)

const (
	sqlLeftBefore = `SELECT ` + eventColumns + ` FROM message INDEXED BY message_client WHERE sender_kind = 'customer' AND sender_id IN (SELECT ?1 UNION ALL SELECT id FROM contact WHERE merged = ?1 AND merged <> '') AND client_id = ?2
		AND conversation IN (SELECT id FROM conversation WHERE contact = ?1)`
	sqlReplyTo = `UPDATE conversation SET reply_to = ? WHERE id = ?`
)

// served refuses to let a customer wait for an agent while nobody is there. A customer who has left an address and comes
// back to a closed conversation is not refused, because it can wait for a mail.
func served(c *store.Conversation, in *store.Input) error {
	switch in.Trigger {
	case store.OpenForHuman, store.Handoff, store.ReopenToQueue:
	default:
		return nil
	}
	if in.Away == nil || in.By.Kind == store.Agent || !in.Away(c.Site, c.Group) {
		return nil
	}
	if in.Trigger == store.ReopenToQueue && c.ReplyTo != "" {
		in.Later = true
		return nil
	}
	return store.ErrAway
}

// leftMessage adds a message that a customer leaves, once.
func (t *tx) leftMessage(c store.LeftMessage) (store.Outcome, error) {
	switch blocked, err := t.present(&c.Contact); {
	case err != nil:
		return store.Outcome{}, err
	case blocked:
		return store.Outcome{}, store.ErrBlocked
	}
	if err := c.Check(); err != nil {
		return store.Outcome{}, err
	}
	first, err := scanEvent(t.row(sqlLeftBefore, c.Contact.ID, c.ClientID))
	if err == nil {
		d, err := t.load(first.Conv)
		if err != nil {
			return store.Outcome{}, err
		}
		return store.Outcome{Conv: d.Conversation, Events: []store.Event{first}, Dup: true}, nil
	}
	if !errors.Is(err, store.ErrNotFound) {
		return store.Outcome{}, err
	}
	d, err := t.leaveIn(&c)
	if err != nil {
		return store.Outcome{}, err
	}
	head := store.Outcome{Conv: d.Conversation}
	if err := t.postpone(d, &c); err != nil {
		return head, err
	}
	if err := t.add(d, store.Event{Kind: store.KindText, From: c.Contact.Actor(), ClientID: c.ClientID, Body: c.Body}); err != nil {
		return head, err
	}
	return t.save(d)
}

// leaveIn returns the conversation for a message that a customer leaves: the open one, or a new one.
func (t *tx) leaveIn(c *store.LeftMessage) (*draft, error) {
	open, err := scanConv(t.row(sqlOpenOf, c.Contact.ID))
	if err == nil {
		d := &draft{Conversation: open, rev: open.Rev, seq: open.LastSeq}
		return d, t.act(d)
	}
	if !errors.Is(err, store.ErrNotFound) {
		return nil, err
	}
	s, err := t.site(c.Contact.Site)
	if err != nil {
		return nil, err
	}
	answers := c.Answers()
	maps.Copy(answers, c.Fields)
	c.Fields = answers
	if _, err := t.preChat(&c.Open); err != nil {
		return nil, err
	}
	d, err := t.insert(c.Open, s)
	if err == nil {
		d.ActedAt = t.now()
	}
	return d, err
}

// postpone notes the address, and takes the conversation out of the hands of bot and queue.
func (t *tx) postpone(d *draft, c *store.LeftMessage) error {
	contact, err := scanContact(t.row(sqlContact, d.Contact))
	if err != nil {
		return err
	}
	contact.Describe(c.Answers())
	if err := t.saveContact(&contact); err != nil {
		return err
	}
	d.ContactName, d.ReplyTo = contact.Name, c.Email
	c.Contact.Name = contact.Name
	if err := t.exec(sqlReplyTo, d.ReplyTo, d.ID); err != nil || d.State == store.Deferred {
		return err
	}
	return t.step(d, store.Input{Trigger: store.LeaveMessage, By: c.Contact.Actor()})
}
