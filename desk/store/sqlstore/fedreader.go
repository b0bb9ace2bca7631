package sqlstore

import (
	"context"
	"maps"
	"slices"

	"github.com/go-eddy/eddy/desk/store"
)

const (
	sqlFed = `SELECT ` + rowColumns + `, CASE first WHEN 0 THEN seq ELSE first END FROM outbox
		WHERE seq > greatest(CAST(? AS BIGINT), (SELECT CAST(value AS BIGINT) FROM setting WHERE key = 'outbox_floor')) ORDER BY seq LIMIT ?`

	// What the rows from one number to another are about.
	fedRows      = ` FROM outbox WHERE seq >= ? AND seq <= ? AND `
	sqlFedConvs  = `SELECT ` + convColumns + convFrom + `WHERE c.id IN (SELECT conversation` + fedRows + `conversation <> '')`
	sqlFedEvents = `SELECT ` + eventColumns + ` FROM message WHERE (conversation, seq) IN (SELECT conversation, event` + fedRows + `event > 0)`
	sqlFedTurns  = `SELECT t.id FROM bot_turn t` + sqlOpenTurns + `AND t.id IN (SELECT m.id FROM message m WHERE (m.conversation, m.seq) IN
		(SELECT conversation, event` + fedRows + `event > 0)) AND (CAST(?3 AS TEXT) = '' OR t.node = ?3)`
	sqlFedContacts = `SELECT ` + contactColumns + ` FROM contact p WHERE p.id IN (SELECT contact` + fedRows + `type = ?)`
	sqlFedFiles    = `SELECT ` + fileColumns + fileFrom + `WHERE a.id IN (SELECT contact` + fedRows + `type = ?)`
	sqlFedStates   = `SELECT ` + stateColumns + `WHERE s.agent IN (SELECT contact` + fedRows + `type = ?)`
	sqlFedPresent  = `SELECT 'customer', o.contact, '', FALSE, 0, 0, ` + sqlNodesOf + `'customer' AND p.id = o.contact), '') FROM (SELECT DISTINCT contact` + fedRows + `type = ?) o`
	sqlFedOffers   = `SELECT ` + offerColumns + ` FROM offer o WHERE o.conversation IN (SELECT contact` + fedRows + `type = ?)`
	sqlFedEnds     = `SELECT id, merged, erased > 0 FROM contact WHERE id IN (SELECT contact` + fedRows + `type = ?)`
)

// Fed implements store.FeedReader.
func (r *reader) Fed(ctx context.Context, after int64, limit int) (p store.FedPage, err error) {
	rows, err := list(ctx, r.db, func(s scanner) (store.OutboxRow, error) {
		var first int64
		row, err := scanRow(s, &first)
		row.First = first
		return row, err
	}, sqlFed, after, limit)
	if err != nil {
		return p, err
	}
	var last int64
	if err := r.db.QueryRowContext(ctx, sqlSeqs).Scan(&p.Floor, &last); err != nil {
		return p, err
	}
	if p.More = len(rows) == limit; p.More { // the last command may go on behind them
		end := rows[limit-1].First
		if n := slices.IndexFunc(rows, func(row store.OutboxRow) bool { return row.First == end }); n > 0 {
			rows = rows[:n]
		}
	}
	p.Last = after
	about, err := r.about(ctx, rows)
	if err != nil {
		return p, err
	}
	for len(rows) > 0 {
		n := 1
		for n < len(rows) && rows[n].First == rows[0].First {
			n++
		}
		part := about.part(rows[:n])
		if err := r.addFiles(ctx, part.Conv.ID, part.Events); err != nil {
			return p, err
		}
		p.All, p.Last, rows = append(p.All, part), part.Last, rows[n:]
	}
	return p, nil
}

// eventPlace names an event.
type eventPlace struct {
	conv string
	seq  uint64
}

// fedAbout is what rows of the outbox are about.
type fedAbout struct {
	convs    map[string]store.Conversation
	events   map[eventPlace]store.Event
	turns    map[string]string
	contacts map[string]store.Contact
	ends     map[string]store.ContactEnd
	files    map[string]store.Attachment
	present  map[string]store.Presence
	offers   map[string]store.Offer
}

// about reads what rows are about. What has been deleted meanwhile is left out.
func (r *reader) about(ctx context.Context, rows []store.OutboxRow) (a fedAbout, err error) {
	var convs, events bool
	types := make(map[store.EventType]bool)
	for i := range rows {
		convs = convs || rows[i].Conv != ""
		events = events || rows[i].Event > 0
		types[rows[i].Type] = true
	}
	if len(rows) == 0 {
		return a, nil
	}
	from, to := rows[0].Seq, rows[len(rows)-1].Seq
	if convs {
		a.convs, err = keyed(ctx, r, scanConv, func(c *store.Conversation) string { return c.ID }, sqlFedConvs, from, to)
	}
	if err == nil && events {
		a.events, err = keyed(ctx, r, scanEvent, func(e *store.Event) eventPlace { return eventPlace{e.Conv, e.Seq} }, sqlFedEvents, from, to)
	}
	if err == nil && events {
		a.turns, err = keyed(ctx, r, func(s scanner) (id string, err error) { return id, s.Scan(&id) }, func(id *string) string { return *id }, sqlFedTurns, from, to, r.node)
	}
	if err == nil && types[store.EventContact] {
		a.contacts, err = keyed(ctx, r, func(s scanner) (store.Contact, error) { return scanContact(s) }, func(c *store.Contact) string { return c.ID },
			sqlFedContacts, from, to, string(store.EventContact))
	}
	if err == nil && types[store.EventEnded] {
		a.ends, err = keyed(ctx, r, scanEnd, func(e *store.ContactEnd) string { return e.Contact }, sqlFedEnds, from, to, string(store.EventEnded))
	}
	if err == nil && types[store.EventFile] {
		a.files, err = keyed(ctx, r, scanFile, func(f *store.Attachment) string { return f.ID }, sqlFedFiles, from, to, string(store.EventFile))
	}
	if err == nil && types[store.EventOffer] {
		a.offers, err = keyed(ctx, r, scanOffer, func(o *store.Offer) string { return o.Conv }, sqlFedOffers, from, to, string(store.EventOffer))
	}
	a.present = make(map[string]store.Presence)
	for what, query := range map[store.EventType]string{store.EventAgent: sqlFedStates, store.EventPresent: sqlFedPresent} {
		if err == nil && types[what] {
			var some map[string]store.Presence
			some, err = keyed(ctx, r, scanPresence, func(p *store.Presence) string { return p.ID }, query, from, to, string(what))
			maps.Copy(a.present, some)
		}
	}
	return a, err
}

// keyed reads a list into a map.
func keyed[K comparable, V any](ctx context.Context, r *reader, scan func(scanner) (V, error), key func(*V) K, query string, args ...any) (map[K]V, error) {
	all, err := list(ctx, r.db, scan, query, args...)
	m := make(map[K]V, len(all))
	for i := range all {
		m[key(&all[i])] = all[i]
	}
	return m, err
}

// part puts together what the rows of one command are about.
func (a *fedAbout) part(rows []store.OutboxRow) store.Fed {
	f := store.Fed{First: rows[0].Seq, Last: rows[len(rows)-1].Seq, At: rows[0].Time, Trace: rows[0].Trace}
	for i := range rows {
		row := &rows[i]
		switch row.Type {
		case store.EventContact:
			if c, ok := a.contacts[row.Contact]; ok {
				f.Contacts = append(f.Contacts, c)
			}
		case store.EventEnded:
			if e, ok := a.ends[row.Contact]; ok {
				f.Ended = append(f.Ended, e)
			}
		case store.EventFile:
			if file, ok := a.files[row.Contact]; ok {
				f.Files = append(f.Files, file)
			}
		case store.EventAgent, store.EventPresent:
			if p, ok := a.present[row.Contact]; ok {
				f.Presences = append(f.Presences, p)
			}
		case store.EventOffer:
			o, stands := a.offers[row.Contact]
			if !stands {
				o = store.Offer{Conv: row.Contact, End: store.OfferOver}
			}
			f.Offers = append(f.Offers, o)
		case store.EventAccount:
			f.Accounts = append(f.Accounts, row.Contact)
		case store.EventSetup:
			f.Setup = true
		case store.EventHooks:
			f.Hooks = true
		}
		if c, ok := a.convs[row.Conv]; ok {
			f.Conv, f.Touched = c, true // it cannot be seen how
			if e, ok := a.events[eventPlace{row.Conv, row.Event}]; ok {
				f.Events = append(f.Events, e)
				f.Turn = a.turns[e.ID]
			}
		}
	}
	return f
}
