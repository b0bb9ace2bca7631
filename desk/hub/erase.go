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

// Erase makes a contact a stub, ends its open conversations, and has the rest removed. From the first step on the contact
// can do nothing, and the feed ends its connections. What is left after a crash goes after the next start. The caller has
// checked the right and recorded it. Erase blocks.
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
	return nil
}

// ended tells staff of a contact that was merged or erased. Of an erased one it is told when its last open conversation is
// closed, so that nobody asks for it again.
func (h *Hub) ended(e store.ContactEnd) {
	switch {
	case e.Into != "":
		h.toStaff(proto.Event("ev.merged", "", 0, proto.Merged{Contact: e.Contact, Into: e.Into}))
	case e.Erased:
		h.mu.Lock()
		open := len(h.queue.dir.byContact[e.Contact]) > 0
		if open {
			h.queue.dir.erased[e.Contact] = true
		}
		h.mu.Unlock()
		if !open {
			h.tellErased(e.Contact)
		}
	}
}

// tellErased is called at every server, so that the one that removes the rest hears of it.
func (h *Hub) tellErased(contact string) {
	h.o.Erased()
	h.toStaff(proto.Event("ev.erased", "", 0, proto.Erased{Contact: contact}))
}

func (h *Hub) toStaff(frame []byte) {
	h.mu.Lock()
	staff := h.sessions.staff
	h.mu.Unlock()
	for _, s := range staff {
		s.deliver("", 0, frame)
	}
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
