package api

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/store"
)

func bad(format string, args ...any) *proto.Error {
	return &proto.Error{Code: proto.CodeBadRequest, Text: fmt.Sprintf(format, args...)}
}

// number reads a parameter of 0 to most, def if it is absent.
func (r *Request) number(name string, def, most uint64) (uint64, error) {
	if !r.Query.Has(name) {
		return def, nil
	}
	n, err := strconv.ParseUint(r.Query.Get(name), 10, 64)
	if err != nil || n > most {
		return 0, bad("%s is %.40q, it must be a number from 0 to %d", name, r.Query.Get(name), most)
	}
	return n, nil
}

const maxInt = 1<<63 - 1

// limit reads the size of a page.
func (r *Request) limit(most int) (int, error) {
	n, err := r.number("limit", defaultPage, uint64(most))
	if err == nil && n == 0 {
		err = bad("limit is 0, it must be 1 to %d", most)
	}
	return int(n), err
}

// convQuery reads the parameters of a list of conversations.
func (r *Request) convQuery() (q store.ConvQuery, err error) {
	q.State, q.Cursor = store.State(r.Query.Get("state")), r.Query.Get("cursor")
	switch q.State {
	case store.None, store.InBot, store.Queued, store.Assigned, store.Deferred, store.Closed:
	default:
		return q, bad("state is %.40q, it must be bot, queued, assigned, deferred or closed", q.State)
	}
	if len(q.Cursor) > maxCursor {
		return q, bad("cursor has %d bytes, the limit is %d", len(q.Cursor), maxCursor)
	}
	from, err1 := r.number("from", 0, maxInt)
	to, err2 := r.number("to", 0, maxInt)
	q.From, q.To = int64(from), int64(to)
	q.Limit, err = r.limit(store.MaxConvPage)
	return q, errors.Join(err1, err2, err)
}

func (a *API) conversations(ctx context.Context, r *Request) (page Conversations, err error) {
	q, err := r.convQuery()
	if err != nil {
		return page, err
	}
	if err := r.Read(ctx, "conversations"); err != nil {
		return page, err
	}
	sites, err := a.sites(ctx)
	if err != nil {
		return page, err
	}
	convs, next, err := a.Store.Cold().Conversations(ctx, q)
	if errors.Is(err, store.ErrCursor) {
		return page, bad("cursor is not one of the page before")
	}
	page = Conversations{Conversations: make([]Conversation, len(convs)), Cursor: next}
	for i := range convs {
		page.Conversations[i] = conversation(&convs[i], sites)
	}
	return page, err
}

// sites returns the keys of the sites by id.
func (a *API) sites(ctx context.Context) (map[string]string, error) {
	all, err := a.Store.Cold().Sites(ctx)
	keys := make(map[string]string, len(all))
	for i := range all {
		keys[all[i].ID] = all[i].Key
	}
	return keys, err
}

// head reads the conversation that the path names, and logs that it is read.
func (a *API) head(ctx context.Context, r *Request) (store.Conversation, error) {
	c, err := a.Store.Cold().Conversation(ctx, r.ID)
	if errors.Is(err, store.ErrNotFound) {
		return c, &proto.Error{Code: proto.CodeNotFound, Text: "There is no such conversation."}
	}
	if err == nil {
		err = r.Read(ctx, "conversation "+c.ID)
	}
	return c, err
}

func (a *API) conversation(ctx context.Context, r *Request) (d Detail, err error) {
	c, err := a.head(ctx, r)
	if err != nil {
		return d, err
	}
	sites, err := a.sites(ctx)
	return Detail{Conversation: conversation(&c, sites), Reason: c.CloseReason, Comment: c.Comment}, err
}

func (a *API) events(ctx context.Context, r *Request) (page Events, err error) {
	after, err1 := r.number("after", 0, maxInt)
	limit, err2 := r.limit(MaxEvents)
	if err := errors.Join(err1, err2); err != nil {
		return page, err
	}
	c, err := a.head(ctx, r)
	if err != nil {
		return page, err
	}
	events, more, err := a.Store.Cold().Events(ctx, c.ID, store.StaffSide, after, limit, maxPageBytes)
	page = Events{Events: make([]Event, len(events)), Last: c.LastSeq, More: more}
	for i := range events {
		page.Events[i] = event(&events[i])
		page.Last = max(page.Last, events[i].Seq) // it may have come since the head was read
	}
	return page, err
}

func (a *API) contact(ctx context.Context, r *Request) (c Contact, err error) {
	contact, err := a.Store.Cold().Contact(ctx, r.ID)
	if errors.Is(err, store.ErrNotFound) {
		return c, &proto.Error{Code: proto.CodeNotFound, Text: "There is no such contact."}
	}
	if err == nil {
		err = r.Read(ctx, "contact "+contact.ID)
	}
	if err != nil {
		return c, err
	}
	sites, err := a.sites(ctx)
	if err != nil {
		return c, err
	}
	return contactOf(ctx, a.Store.Cold(), &contact, sites[contact.Site])
}

// send adds a message of the program, which changes neither owner nor state of the conversation.
func (a *API) send(ctx context.Context, r *Request, m *Message) (s Sent, err error) {
	if err := checkIdempotency(r.Idempotency); err != nil {
		return s, err
	}
	if err := proto.CheckText("text", m.Text, true); err != nil {
		return s, err
	}
	out, err := a.Hub.Run(ctx, r.ID, store.Append{Conv: r.ID, From: r.Key.Actor(), ClientID: r.Idempotency, Body: m.Text})
	if err != nil {
		return s, err
	}
	e := &out.Events[len(out.Events)-1]
	if out.Dup && e.Body != m.Text {
		return s, &proto.Error{Code: proto.CodeConflict, Text: "This Idempotency-Key was used for another message of this conversation."}
	}
	return Sent{ID: e.ID, Seq: e.Seq, Time: e.Time, Duplicate: out.Dup}, nil
}

func checkIdempotency(key string) error {
	if key == "" || len(key) > maxIdempotent {
		return bad("the header Idempotency-Key has %d characters, it must have 1 to %d: the same for the same message, so that it is sent once", len(key), maxIdempotent)
	}
	for i := range len(key) {
		if key[i] <= ' ' || key[i] > '~' {
			return bad("the header Idempotency-Key may have visible ASCII characters only")
		}
	}
	return nil
}

func (a *API) tag(ctx context.Context, r *Request, t *proto.Tag) (tagged proto.Tagged, err error) {
	if err := t.Check(); err != nil {
		return tagged, err
	}
	out, err := a.Hub.Run(ctx, r.ID, store.Tag{Conv: r.ID, By: r.Key.Actor(), Add: t.Add, Remove: t.Remove})
	if tagged.Tags = out.Conv.TagList(); tagged.Tags == nil {
		tagged.Tags = []string{}
	}
	return tagged, err
}

func (a *API) report(ctx context.Context, r *Request) (Report, error) {
	return a.Report(ctx, r.Query)
}
