package hub

import (
	"context"
	"errors"
	"time"

	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/store"
)

const (
	blockAttempts = 6
	blockRetry    = 250 * time.Millisecond
)

// contactBlock blocks a contact, or lets it in again. Blocking first keeps the contact from opening conversations and
// writing, and the feed closes its connections. Then its conversations are closed, each in its own lane.
func (s *Session) contactBlock(cmd proto.Command, who identity, p *proto.ContactBlock) {
	s.staffRead(cmd, who, func(ctx context.Context, r store.Reader) (any, error) {
		if _, err := s.known(ctx, r, who, p.Contact); err != nil {
			return nil, err
		}
		action := store.AuditBlock
		if !p.Blocked {
			action = store.AuditUnblock
		}
		if err := s.audit(ctx, action, "contact "+p.Contact, ""); err != nil {
			return nil, err
		}
		c, err := s.hub.Block(ctx, p.Contact, p.Blocked, who.actor, p.Reason)
		if err != nil {
			return nil, err
		}
		return changedCard(ctx, r, who, &c)
	})
}

// Block blocks a contact, or lets it in again. The reason is for staff. The caller has checked the right and recorded it.
// Block blocks.
func (h *Hub) Block(ctx context.Context, contact string, blocked bool, by store.Actor, reason string) (store.Contact, error) {
	c, err := h.o.Store.BlockContact(ctx, contact, blocked)
	if err == nil && blocked {
		h.closeBlocked(contact, by, reason)
	}
	return c, err
}

// closeBlocked closes the open conversations of a blocked contact. The reason is a note, which customers do not see.
func (h *Hub) closeBlocked(contact string, by store.Actor, note string) {
	for _, id := range h.openOf(contact) {
		h.blockMove(store.Move{Conv: id, Trigger: store.Block, By: by, Note: note}, 1)
	}
}

// blockMove closes one conversation of a contact who is blocked or erased. If the store does not answer, it is tried again for a while. After a crash Start
// does it.
func (h *Hub) blockMove(m store.Move, attempt int) {
	retry := func() {
		if attempt < blockAttempts && !h.draining.Load() {
			time.AfterFunc(blockRetry<<(attempt-1), func() { h.blockMove(m, attempt+1) })
			return
		}
		h.o.Logger.Warn("desk: a conversation of a blocked contact stays open until the next start", "conversation", m.Conv)
	}
	h.execute(m.Conv, m, func(out store.Outcome) {
		switch {
		case out.Err == nil, errors.Is(out.Err, store.ErrConflict): // closed already
			h.o.Erased() // what is left of an erased contact has waited for this
		case errors.Is(out.Err, store.ErrUnavailable), errors.Is(out.Err, store.ErrBusy):
			retry()
		default:
			h.o.Logger.Error("desk: closing a conversation of a blocked contact", "conversation", m.Conv, "err", out.Err)
		}
	}, func(*proto.Error) { retry() })
}

// closeContact closes the connections of a contact that is blocked. A hello that is under way reads again.
func (h *Hub) closeContact(contact string) {
	h.rechecks.count.Add(1)
	h.mu.Lock()
	sessions := h.sessions.contacts[contact]
	h.mu.Unlock()
	for _, s := range sessions {
		s.close(proto.CloseBlocked, "blocked")
	}
}
