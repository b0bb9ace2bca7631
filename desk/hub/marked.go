package hub

import (
	"context"

	"github.com/go-eddy/eddy/desk/store"
)

// marked is a reader that adds the receipts in memory to conversations. They are newer than what is stored.
type marked struct {
	store.Reader
	receipts *receipts
}

// show gives conversations their marks, as far as these are in memory.
func (r *receipts) show(convs []store.Conversation) {
	for i := range convs {
		r.showOne(&convs[i])
	}
}

// showOne reports whether the conversation is in memory. Hub.mu may be held.
func (r *receipts) showOne(c *store.Conversation) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.convs[c.ID]
	if e != nil {
		r.stored(e, c)
		e.show(c)
	}
	return e != nil
}

func (m marked) all(ctx context.Context, convs []store.Conversation, err error) ([]store.Conversation, error) {
	for i := range convs {
		if err == nil {
			err = m.one(ctx, &convs[i])
		}
	}
	return convs, err
}

// one gives a conversation its marks. For a conversation that is not in memory, the places of its notes are read.
func (m marked) one(ctx context.Context, c *store.Conversation) error {
	if m.receipts.showOne(c) || c.Marks == (store.Marks{}) {
		return nil
	}
	places, err := m.Places(ctx, c.ID)
	if err == nil && len(places) > 0 {
		c.Across = across(c.Marks, &places[0])
		return nil
	}
	c.Across = across(c.Marks, &store.Places{})
	return err
}

func (m marked) Conversation(ctx context.Context, id string) (store.Conversation, error) {
	c, err := m.Reader.Conversation(ctx, id)
	if err == nil {
		err = m.one(ctx, &c)
	}
	return c, err
}

func (m marked) OfContact(ctx context.Context, contact string) ([]store.Conversation, error) {
	convs, err := m.Reader.OfContact(ctx, contact)
	return m.all(ctx, convs, err)
}

func (m marked) OfAgent(ctx context.Context, agent string) ([]store.Conversation, error) {
	convs, err := m.Reader.OfAgent(ctx, agent)
	m.receipts.show(convs)
	return convs, err
}

func (m marked) Queue(ctx context.Context, limit int) ([]store.Conversation, int, error) {
	convs, n, err := m.Reader.Queue(ctx, limit)
	m.receipts.show(convs)
	return convs, n, err
}

func (m marked) LeftMessages(ctx context.Context, limit int) ([]store.Conversation, int, error) {
	convs, n, err := m.Reader.LeftMessages(ctx, limit)
	m.receipts.show(convs)
	return convs, n, err
}
