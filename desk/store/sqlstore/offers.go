package sqlstore

import (
	"context"
	"errors"

	"github.com/go-eddy/eddy/desk/store"
)

const (
	offerColumns = `o.conversation, o.id, o.from_id, o.from_name, o.to_id, o.to_name, o.note, o.rev, o.expires, o.ended`
	sqlOffers    = `SELECT ` + offerColumns + ` FROM offer o WHERE o.ended = '' ORDER BY o.conversation`
	sqlOfferOf   = `SELECT ` + offerColumns + ` FROM offer o WHERE o.conversation = ?`
	sqlDropOffer = `DELETE FROM offer WHERE conversation = ?`
	sqlAddOffer  = `INSERT INTO offer (conversation, id, from_id, from_name, to_id, to_name, note, rev, expires, ended) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, '')`
	sqlEndOffer  = `UPDATE offer SET ended = ? WHERE conversation = ? AND id = ?`
)

func scanOffer(r scanner) (o store.Offer, err error) {
	o.From.Kind, o.To.Kind = store.Agent, store.Agent
	err = r.Scan(&o.Conv, &o.ID, &o.From.ID, &o.From.Name, &o.To.ID, &o.To.Name, &o.Note, &o.Rev, &o.Expires, &o.End)
	return o, notFound(err)
}

func (t *tx) makeOffer(c store.MakeOffer) (store.Outcome, error) {
	d, err := t.load(c.Conv)
	if err != nil {
		return store.Outcome{}, err
	}
	head := store.Outcome{Conv: d.Conversation}
	switch {
	case d.State != store.Assigned, c.Rev != 0 && c.Rev != d.Rev:
		return head, store.ErrConflict
	case !c.From.Is(d.Owner):
		return head, store.ErrForbidden
	}
	o := store.Offer{Conv: c.Conv, From: d.Owner, To: store.Actor{Kind: store.Agent, ID: c.To}, Note: c.Note, Rev: d.Rev, Expires: c.Expires}
	if err := t.row(`SELECT name FROM agent WHERE id = ?`, c.To).Scan(&o.To.Name); err != nil {
		return head, notFound(err)
	}
	if o.ID, err = newID(); err != nil {
		return head, err
	}
	if err := t.exec(sqlDropOffer, o.Conv); err != nil {
		return head, err
	}
	err = t.exec(sqlAddOffer, o.Conv, o.ID, o.From.ID, o.From.Name, o.To.ID, o.To.Name, o.Note, o.Rev, o.Expires)
	if err == nil {
		err = t.tellOffer(o)
	}
	return head, err
}

// standing returns the offer of a conversation that stands.
func (t *tx) standing(conv string) (o store.Offer, err error) {
	o, err = scanOffer(t.row(sqlOfferOf, conv))
	if err == nil && o.End != "" || errors.Is(err, store.ErrNotFound) {
		err = store.ErrConflict
	}
	return o, err
}

func (t *tx) acceptOffer(c store.AcceptOffer) (store.Outcome, error) {
	o, err := t.standing(c.Conv)
	if err == nil && !o.To.Is(c.By) {
		err = store.ErrConflict
	}
	if err != nil {
		return t.headWith(c.Conv, err)
	}
	return t.move(store.Move{Conv: o.Conv, Trigger: store.TransferAgent, By: o.From, To: o.To.ID, Rev: o.Rev, Note: o.Note})
}

func (t *tx) endOffer(c store.EndOffer) (store.Outcome, error) {
	o, err := t.standing(c.Conv)
	if err == nil && o.ID != c.ID {
		err = store.ErrConflict
	}
	if err == nil {
		err = t.exec(sqlEndOffer, string(c.End), o.Conv, o.ID)
	}
	if err == nil {
		o.End = c.End
		err = t.tellOffer(o)
	}
	return t.headWith(c.Conv, err)
}

// headWith returns an outcome with the head of a conversation, and an error.
func (t *tx) headWith(conv string, err error) (store.Outcome, error) {
	c, missing := scanConv(t.row(sqlConv, conv))
	if missing != nil {
		return store.Outcome{}, missing
	}
	return store.Outcome{Conv: c}, err
}

func (t *tx) tellOffer(o store.Offer) error {
	t.part.Offers = append(t.part.Offers, o)
	return t.tell(store.OutboxRow{Type: store.EventOffer, Contact: o.Conv})
}

// Offers implements store.OfferReader.
func (r *reader) Offers(ctx context.Context) ([]store.Offer, error) {
	return list(ctx, r.db, scanOffer, sqlOffers)
}
