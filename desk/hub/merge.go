package hub

import (
	"context"

	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/store"
)

// Merge makes two contacts one (store.People). The connections of the first one end, and come back as the second one.
// Staff is told. The caller has checked the right and recorded it. Merge blocks.
func (h *Hub) Merge(ctx context.Context, from, into string) (store.Contact, error) {
	c, err := h.o.Store.MergeContacts(ctx, from, into)
	if err != nil {
		return c, err
	}
	h.CloseContact(from, proto.CloseTryLater, "merged")
	h.mu.Lock()
	staff := h.sessions.staff
	h.mu.Unlock()
	merged := proto.Event("ev.merged", "", 0, proto.Merged{Contact: from, Into: into})
	for _, s := range staff {
		s.deliver("", 0, merged)
	}
	return c, nil
}
