package api

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/go-eddy/eddy/desk/hub"
	"github.com/go-eddy/eddy/desk/store"
)

const (
	MaxFeed = 100              // events of one page of the feed
	MaxWait = 25 * time.Second // for an event

	fromNow    = "latest" // the cursor behind everything
	epochChars = 8        // of the store's id in a cursor
)

// Happening is one thing that has happened, as programs are told of it: by the feed and by webhooks. What belongs to it
// is as it is now, but Entry, Added, Removed and Target are as it was.
type Happening struct {
	ID           string        `json:"id"`       // unique for ever
	Sequence     int64         `json:"sequence"` // grows, with gaps
	Type         string        `json:"type"`
	Time         int64         `json:"time"`
	Site         string        `json:"site"` // its key
	Conversation *Conversation `json:"conversation,omitempty"`
	Entry        *Event        `json:"entry,omitempty"`      // the message or the change
	Visibility   string        `json:"visibility,omitempty"` // of a message: "all", or "staff" for a note
	Added        []string      `json:"added,omitempty"`      // tags
	Removed      []string      `json:"removed,omitempty"`
	Target       *Target       `json:"target,omitempty"`  // of target.warned and target.missed
	Comment      string        `json:"comment,omitempty"` // on the score
	Contact      *Contact      `json:"contact,omitempty"` // of contact.changed
}

// Target is a group's target for the first answer to a customer, as it was.
type Target struct {
	Group string `json:"group"` // id
	In    int64  `json:"in"`    // the time in which the group wants to give it, in milliseconds
	Since int64  `json:"since"` // since when the customer waits
}

// Feed is one page of everything that has happened.
type Feed struct {
	Events []Happening `json:"events"`
	Cursor string      `json:"cursor"` // for the next page
	More   bool        `json:"more"`   // there are events after this page
	Gap    bool        `json:"gap"`    // events between the cursor and this page are missing
}

// teller reads what belongs to rows of the outbox.
type teller struct {
	store store.Reader
	sites map[string]string              // keys by id
	heads map[string]*store.Conversation // read already; nil = gone
}

func (a *API) teller(ctx context.Context) (*teller, error) {
	sites, err := a.sites(ctx)
	return &teller{a.Store.Cold(), sites, make(map[string]*store.Conversation)}, err
}

// gone turns ErrNotFound into nothing: what a row is about may have been deleted.
func gone(err error) error {
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	return err
}

// tell returns what a row is about, nil if that has been deleted.
func (t *teller) tell(ctx context.Context, r *store.OutboxRow) (*Happening, error) {
	if !r.Type.Valid() {
		return nil, nil
	}
	h := &Happening{
		ID: r.ID, Sequence: r.Seq, Type: string(r.Type), Time: r.Time, Site: t.sites[r.Site], Added: r.Tags.Added, Removed: r.Tags.Removed,
	}
	if r.Conv == "" {
		c, err := t.store.Contact(ctx, r.Contact)
		if err != nil {
			return nil, gone(err)
		}
		known, err := contactOf(ctx, t.store, &c, h.Site)
		h.Contact = &known
		return h, err
	}
	head, err := t.head(ctx, r.Conv)
	if err != nil || head == nil {
		return nil, err
	}
	c := conversation(head, t.sites)
	h.Conversation = &c
	switch r.Type {
	case store.EventRated:
		h.Comment = head.Comment
	case store.EventTargetWarned, store.EventTargetMissed:
		target := Target(r.Target)
		h.Target = &target
	}
	if r.Event == 0 {
		return h, nil
	}
	events, _, err := t.store.Events(ctx, r.Conv, store.StaffSide, r.Event-1, 1, maxPageBytes)
	if err != nil || len(events) == 0 || events[0].Seq != r.Event {
		return nil, gone(err)
	}
	e := event(&events[0])
	h.Entry = &e
	if r.Type == store.EventMessage {
		h.Visibility = "all"
		if events[0].PSeq == 0 {
			h.Visibility = "staff"
		}
	}
	return h, nil
}

func (t *teller) head(ctx context.Context, conv string) (*store.Conversation, error) {
	if c, read := t.heads[conv]; read {
		return c, nil
	}
	c, err := t.store.Conversation(ctx, conv)
	switch {
	case errors.Is(err, store.ErrNotFound):
		t.heads[conv] = nil
	case err != nil:
		return nil, err
	default:
		t.heads[conv] = &c
	}
	return t.heads[conv], nil
}

// Tell returns what a row of the outbox is about, as JSON with private data masked. It returns nil if that has been
// deleted meanwhile. The caller has a Turn.
func (a *API) Tell(ctx context.Context, r *store.OutboxRow) (json.RawMessage, error) {
	t, err := a.teller(ctx)
	if err != nil {
		return nil, err
	}
	h, err := t.tell(ctx, r)
	if err != nil || h == nil {
		return nil, err
	}
	object, err := json.Marshal(h)
	if err != nil {
		return nil, err
	}
	return hub.Mask(object)
}

// cursor returns the name of a place in the feed. It names the data, too, which a restored backup is not.
func (a *API) cursor(seq int64) string {
	return a.Store.ID()[:epochChars] + "-" + strconv.FormatInt(seq, 10)
}

// place returns the number that a cursor names, -1 for none. gap means that it is of other data.
func (a *API) place(cursor string) (seq int64, gap bool, err error) {
	if cursor == "" {
		return -1, false, nil
	}
	epoch, number, _ := strings.Cut(cursor, "-")
	seq, err = strconv.ParseInt(number, 10, 64)
	if err != nil || seq < 0 || len(epoch) != epochChars {
		return 0, false, bad("after is %.40q, it must be a cursor of an answer, or %s", cursor, fromNow)
	}
	if epoch != a.Store.ID()[:epochChars] {
		return -1, true, nil
	}
	return seq, false, nil
}

// feed returns a page of everything that happens, and waits for it if asked to.
func (a *API) feed(ctx context.Context, r *Request) (f Feed, err error) {
	limit, err1 := r.limit(MaxFeed)
	wait, err2 := r.number("wait", 0, uint64(MaxWait/time.Second))
	if err := errors.Join(err1, err2); err != nil {
		return f, err
	}
	if err := r.Read(ctx, "events"); err != nil {
		return f, err
	}
	if r.Query.Get("after") == fromNow {
		page, err := a.Store.Cold().Outbox(ctx, maxInt, 1)
		return Feed{Events: []Happening{}, Cursor: a.cursor(page.Last)}, err
	}
	after, gap, err := a.place(r.Query.Get("after"))
	if err != nil {
		return f, err
	}
	over := time.NewTimer(time.Duration(wait) * time.Second)
	defer over.Stop()
	for {
		news := a.Store.OutboxNews()
		if f, after, err = a.page(ctx, after, limit); err != nil {
			return f, err
		}
		if wait > 0 {
			if err := r.Works(ctx); err != nil { // it may have been revoked meanwhile
				return f, err
			}
		}
		if f.Gap = f.Gap || gap; len(f.Events) > 0 || f.More || f.Gap || wait == 0 {
			return f, nil
		}
		select {
		case <-news:
		case <-over.C:
			return f, nil
		case <-a.Draining:
			return f, nil
		case <-ctx.Done():
			return f, nil
		}
	}
}

// page reads the events behind a place, -1 = all that there are. It returns the place behind them.
func (a *API) page(ctx context.Context, after int64, limit int) (f Feed, next int64, err error) {
	release, err := a.Turn(ctx)
	if err != nil {
		return f, after, err
	}
	defer release()
	page, err := a.Store.Cold().Outbox(ctx, max(after, 0), limit)
	if err == nil && after > page.Last { // never given
		f.Gap, after = true, -1
		page, err = a.Store.Cold().Outbox(ctx, 0, limit)
	}
	if err != nil {
		return f, after, err
	}
	f.Gap = f.Gap || after >= 0 && after < page.Floor
	f.Events, f.More = make([]Happening, 0, len(page.Rows)), len(page.Rows) == limit
	next = max(after, page.Floor)
	tell, err := a.teller(ctx)
	if err != nil {
		return f, after, err
	}
	room := maxPageBytes
	for i := range page.Rows {
		h, err := tell.tell(ctx, &page.Rows[i])
		if err != nil {
			return f, after, err
		}
		next = page.Rows[i].Seq
		if h == nil {
			continue
		}
		f.Events = append(f.Events, *h)
		if h.Entry != nil {
			room -= len(h.Entry.Text)
		}
		if room < 0 && i+1 < len(page.Rows) {
			f.More = true
			break
		}
	}
	f.Cursor = a.cursor(next)
	return f, next, nil
}
