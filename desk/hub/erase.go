package hub

import (
	"context"

	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/store"
)

const reasonErased = "erased" // of the close

// contactErase erases everything that is stored about a contact.
func (s *Session) contactErase(cmd proto.Command, who identity, p *proto.ContactErase) {
	s.staffRead(cmd, who, func(ctx context.Context, r store.Reader) (any, error) {
		if _, err := s.known(ctx, r, who, p.Contact); err != nil {
			return nil, err
		}
		if err := s.audit(ctx, store.AuditErase, "contact "+p.Contact, ""); err != nil {
			return nil, err
		}
		return struct{}{}, s.hub.Erase(ctx, p.Contact, who.actor)
	})
}

// Erase makes a contact a stub, ends its open conversations and its connections, and has the rest removed. From the first
// step on the contact can do nothing. What is left after a crash goes after the next start. Staff is told last, so that
// nobody asks for it again. The caller has checked the right and recorded it. Erase blocks.
func (h *Hub) Erase(ctx context.Context, contact string, by store.Actor) error {
	if err := h.o.Store.EraseContact(ctx, contact); err != nil {
		return err
	}
	for _, id := range h.openOf(contact) {
		m := store.Move{Conv: id, Trigger: store.Block, By: by, Reason: reasonErased}
		if _, err := h.Run(ctx, id, m); err != nil {
			h.blockMove(m, 1) // it tries again, unless the conversation was closed already
		}
	}
	h.CloseContact(contact, proto.CloseUnauthorized, "erased")
	h.o.Erased()
	h.mu.Lock()
	staff := h.sessions.staff
	h.mu.Unlock()
	gone := proto.Event("ev.erased", "", 0, proto.Erased{Contact: contact})
	for _, s := range staff {
		s.deliver("", 0, gone)
	}
	return nil
}

// openOf returns the open conversations of a contact.
func (h *Hub) openOf(contact string) (convs []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range h.queue.dir.byContact[contact] {
		convs = append(convs, e.conv.ID)
	}
	return convs
}
