package hub

import (
	"context"
	"errors"

	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/store"
)

// OpenFor opens a conversation for a program, which is Open.By. Like Run it blocks, and its errors are *proto.Error.
func (h *Hub) OpenFor(ctx context.Context, c store.Open) (store.Outcome, error) {
	c.Without = h.botStaff.shut()
	return h.run(ctx, "contact "+c.Contact.ID, c)
}

// SaveContact makes a verified contact or brings it up to date. It blocks; errors are *proto.Error or of the store.
func (h *Hub) SaveContact(ctx context.Context, site store.Site, p store.Profile) (store.Contact, bool, error) {
	c, fresh, err := h.o.Store.SaveContact(ctx, site, p)
	if err != nil {
		return c, false, contactError(err)
	}
	return c, fresh, nil
}

// PatchContact changes a contact. It blocks; errors are *proto.Error or of the store.
func (h *Hub) PatchContact(ctx context.Context, p store.ContactPatch) (store.Contact, error) {
	c, err := h.o.Store.PatchContact(ctx, p)
	if err != nil {
		return c, contactError(err)
	}
	return c, nil
}

// contactError turns errors that the caller can mend into those for a client.
func contactError(err error) error {
	if errors.Is(err, store.ErrNotFound) {
		return &proto.Error{Code: proto.CodeNotFound, Text: "There is no such contact."}
	}
	if e, known := storeError(err, &store.Conversation{}, store.CustomerSide); known {
		return e
	}
	return err
}
