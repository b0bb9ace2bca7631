package api

import (
	"context"
	"errors"
	"strings"

	"github.com/go-eddy/eddy/desk/auth"
	"github.com/go-eddy/eddy/desk/perm"
	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/store"
)

// Opening asks for a conversation of a contact.
type Opening struct {
	Contact string `json:"contact"`
	Human   bool   `json:"human"` // straight to the queue, without the bot
	Page    string `json:"page"`  // address that the conversation is about

	Priority string `json:"priority"` // in the queue: urgent, high, normal or low; "" = as the rules of the site say
}

// Scope implements Scoped.
func (o *Opening) Scope() perm.KeyScope {
	if o.Priority == "" {
		return ""
	}
	return perm.KeyPriority
}

// Opened is the conversation of an Opening.
type Opened struct {
	Conversation Conversation `json:"conversation"`
	Existing     bool         `json:"existing"`  // the contact had it open already
	Duplicate    bool         `json:"duplicate"` // an earlier call with this Idempotency-Key opened it
}

// Profile is what a program knows of one of its customers.
type Profile struct {
	Site       string            `json:"site"`     // key of the site
	External   string            `json:"external"` // the program's id of the customer
	Name       string            `json:"name"`     // "" = as it is
	Locale     string            `json:"locale"`   // "" = as it is
	Attributes map[string]string `json:"attributes"`
	Fields     map[string]string `json:"fields"` // values of own fields by key: those named are set, "" removes
}

// Patch changes a contact.
type Patch struct {
	Name       string            `json:"name"`       // "" = as it is
	Attributes map[string]string `json:"attributes"` // those named are set, "" removes
	Fields     map[string]string `json:"fields"`     // values of own fields by key, likewise
}

// Stored is a contact after a change.
type Stored struct {
	Contact
	New bool `json:"new"`
}

const maxPage = 2000 // bytes of the address of a page

func missing(what string) *proto.Error {
	return &proto.Error{Code: proto.CodeNotFound, Text: "There is no such " + what + "."}
}

// open opens a conversation for a contact, who is not asked the questions of the site.
func (a *API) open(ctx context.Context, r *Request, o *Opening) (opened Opened, err error) {
	if err := checkIdempotency(r.Idempotency); err != nil {
		return opened, err
	}
	if len(o.Page) > maxPage {
		return opened, bad("page has %d bytes, the limit is %d", len(o.Page), maxPage)
	}
	c := store.Open{Human: o.Human, Page: o.Page, By: r.Key.Actor(), ClientID: r.Idempotency}
	if o.Priority != "" {
		known := false
		if c.Priority, known = store.ParsePriority(o.Priority); !known {
			return opened, bad("priority is %.40q, it must be %s", o.Priority, strings.Join(store.Priorities(), ", "))
		}
	}
	c.Contact, err = a.Store.Cold().Contact(ctx, o.Contact)
	if errors.Is(err, store.ErrNotFound) {
		return opened, missing("contact")
	}
	if err != nil {
		return opened, err
	}
	sites, err := a.sites(ctx)
	if err != nil {
		return opened, err
	}
	out, err := a.Hub.OpenFor(ctx, c)
	return Opened{conversation(&out.Conv, sites), out.Existing, out.Dup}, err
}

// save makes a contact of a program's customer, or brings it up to date.
func (a *API) save(ctx context.Context, r *Request, p *Profile) (s Stored, err error) {
	id := auth.Identity{Subject: p.External, Name: p.Name, Locale: p.Locale, Attributes: p.Attributes}
	if len(p.Fields) > proto.MaxOwnFields {
		return s, bad("%d fields, the limit is %d", len(p.Fields), proto.MaxOwnFields)
	}
	if claim, ok := errors.AsType[*auth.ClaimError](id.Check("external")); ok {
		return s, bad("%s", claim.Text)
	}
	site, err := a.Store.Cold().SiteByKey(ctx, p.Site)
	if errors.Is(err, store.ErrNotFound) {
		return s, missing("site")
	}
	if err != nil {
		return s, err
	}
	if err := r.Changes(ctx, "contact "+p.Site+" "+p.External); err != nil {
		return s, err
	}
	c, fresh, err := a.Hub.SaveContact(ctx, site, store.Profile{External: id.Subject, Name: id.Name, Locale: id.Locale, Attributes: id.Attributes, Fields: p.Fields})
	if err != nil {
		return s, err
	}
	known, err := contactOf(ctx, a.Store.Cold(), &c, site.Key)
	return Stored{known, fresh}, err
}

func (a *API) patch(ctx context.Context, r *Request, p *Patch) (s Stored, err error) {
	change := proto.ContactPatch{Contact: r.ID, Name: p.Name, Attributes: p.Attributes, Fields: p.Fields}
	if err := change.Check(); err != nil {
		return s, err
	}
	if err := r.Changes(ctx, "contact "+r.ID); err != nil {
		return s, err
	}
	c, err := a.Hub.PatchContact(ctx, store.ContactPatch{Contact: change.Contact, Name: change.Name, Attributes: change.Attributes, Fields: change.Fields})
	if err != nil {
		return s, err
	}
	sites, err := a.sites(ctx)
	if err != nil {
		return s, err
	}
	known, err := contactOf(ctx, a.Store.Cold(), &c, sites[c.Site])
	return Stored{known, false}, err
}
