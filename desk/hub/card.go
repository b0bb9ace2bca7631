package hub

import (
	"context"

	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/store"
)

// Card returns a contact with the values of its own fields.
func Card(c *store.Contact, fields map[string]string) proto.ContactCard {
	k := proto.ContactCard{
		ID: c.ID, Name: c.Name, Locale: c.Locale, Verified: c.Verified, Blocked: c.Blocked, External: c.External, Attributes: c.Attributes, Fields: fields, Created: c.Created,
	}
	if k.Attributes == nil {
		k.Attributes = map[string]string{}
	}
	if k.Fields == nil {
		k.Fields = map[string]string{}
	}
	return k
}

// card returns a contact as the agent sees it, and the own fields that the agent sees.
func card(ctx context.Context, r store.Reader, who identity, c *store.Contact) (proto.ContactCard, []proto.OwnField, error) {
	all, err := r.OwnFields(ctx)
	if err != nil {
		return proto.ContactCard{}, nil, err
	}
	values, err := r.FieldValues(ctx, c.ID)
	shown, own := make(map[string]string), []proto.OwnField{}
	for i := range all {
		f := &all[i]
		if !f.ShownTo(who.role) {
			continue
		}
		own = append(own, proto.OwnField{Key: f.Key, Label: f.Label, Kind: string(f.Kind), Choices: f.Choices, Edit: f.ChangedBy(who.role)})
		if v := values[f.Key]; v != "" {
			shown[f.Key] = v
		}
	}
	return Card(c, shown), own, err
}

// changedCard answers with a contact after a change.
func changedCard(ctx context.Context, r store.Reader, who identity, c *store.Contact) (any, error) {
	k, _, err := card(ctx, r, who, c)
	return proto.ContactChanged{Contact: k}, err
}
