package hub

import "context"

// Online reports whether a contact has a connection. Any goroutine.
func (h *Hub) Online(contact string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.sessions.customerThere(contact)
}

// ReadUpTo returns how far the customer has read a conversation, in the numbers of the customer's stream. It blocks and
// honours ctx.
func (h *Hub) ReadUpTo(ctx context.Context, conv string) (uint64, error) {
	c, err := marked{h.o.Store.Cold(), h.receipts}.Conversation(ctx, conv)
	return c.Marks.Customer.Read, err
}
