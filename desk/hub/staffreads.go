package hub

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-eddy/eddy/desk/mask"
	"github.com/go-eddy/eddy/desk/perm"
	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/store"
	"github.com/go-eddy/eddy/desk/store/words"
)

const (
	historyRows  = 20
	cannedItems  = 50
	snippetChars = 120
	auditAgain   = 10 * time.Minute // a session that reads on in one conversation is logged once in this time
	maxAudited   = 1024             // conversations that a session remembers for this
)

// scope is what an agent may read.
func scope(who identity) store.Scope {
	s := store.Scope{Agent: who.actor.ID, All: who.role.Can(perm.ReadOthers)}
	if who.masked {
		s.Seen = mask.Text
	}
	return s
}

// mayRead returns an error unless the identity may read a conversation. A conversation of another agent takes the
// permission, and is logged first. mayRead blocks: call it where reads run.
func (s *Session) mayRead(ctx context.Context, r store.Reader, who identity, conv string) error {
	if who.actor.Kind != store.Agent {
		return nil // the caller compares the contact
	}
	if s.hub.shares(who, conv) {
		return nil
	}
	access, err := r.Access(ctx, scope(who), conv)
	switch {
	case err != nil:
		return err
	case access == store.NoAccess:
		return store.ErrNotFound
	case access == store.OtherAccess:
		return s.readsOther(ctx, "conversation "+conv)
	}
	return nil
}

// readsOther logs that the session reads a conversation of another agent.
func (s *Session) readsOther(ctx context.Context, target string) error {
	now := s.hub.o.Now()
	s.mu.Lock()
	at, ok := s.audited[target]
	s.mu.Unlock()
	if ok && now.Sub(at) < auditAgain {
		return nil
	}
	if err := s.audit(ctx, store.AuditRead, target, ""); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.audited == nil || len(s.audited) >= maxAudited {
		s.audited = make(map[string]time.Time)
	}
	s.audited[target] = now
	return nil
}

// staffRead answers a command with what f reads, on the agent's share of the agent pool.
func (s *Session) staffRead(cmd proto.Command, who identity, f func(ctx context.Context, r store.Reader) (any, error)) {
	s.read(cmd, who, func(ctx context.Context, r store.Reader) {
		d, err := f(ctx, r)
		if err != nil {
			s.fail(cmd, s.hub.readError(err))
			return
		}
		s.reply("ok", cmd, cmd.Conv, d)
	}, func() { s.fail(cmd, busy("too many requests are waiting")) })
}

// filter returns the filter of a command. An unknown site is an error.
func (h *Hub) filter(contact string, in *proto.Filter) (store.Filter, error) {
	f := store.Filter{Contact: contact, Tag: in.Tag, Agent: in.Agent, Group: in.Group, From: in.From, To: in.To, ScoreFrom: in.ScoreFrom, ScoreTo: in.ScoreTo}
	switch in.State {
	case "open":
		f.Open = true
	case "snoozed":
		f.Snoozed = true
	default:
		f.State = store.State(in.State)
	}
	if in.Site != "" {
		if f.Site = h.queue.roster.siteID(in.Site); f.Site == "" {
			return f, errNoSite
		}
	}
	return f, nil
}

// searching is staffRead with the time that a search may take.
func (s *Session) searching(cmd proto.Command, who identity, contact string, in *proto.Filter, f func(ctx context.Context, r store.Reader, in store.Filter) (any, error)) {
	s.staffRead(cmd, who, func(ctx context.Context, r store.Reader) (any, error) {
		ctx, cancel := context.WithTimeout(ctx, s.hub.o.Limits.SearchTimeout)
		defer cancel()
		in, err := s.hub.filter(contact, in)
		if err != nil {
			return nil, err
		}
		d, err := f(ctx, r, in)
		if err != nil && ctx.Err() != nil {
			err = errSlowSearch
		}
		return d, err
	})
}

func (s *Session) history(cmd proto.Command, who identity, p *proto.History) {
	s.searching(cmd, who, p.Contact, &p.In, func(ctx context.Context, r store.Reader, in store.Filter) (any, error) {
		return s.past(ctx, r, who, in, p.Cursor)
	})
}

// past reads one page of conversations.
func (s *Session) past(ctx context.Context, r store.Reader, who identity, f store.Filter, cursor string) (proto.Past, error) {
	convs, next, err := r.History(ctx, scope(who), f, cursor, historyRows)
	page := proto.Past{Convs: make([]proto.PastRow, 0, len(convs)), Cursor: next}
	if err != nil {
		return page, err
	}
	others := 0
	for i := range convs {
		c := &convs[i].Conversation
		if convs[i].Other {
			others++
		}
		page.Convs = append(page.Convs, proto.PastRow{Row: s.hub.row(c, s.hub.Online(c.Contact)), Page: convs[i].Page, Closed: c.ClosedAt, Reason: c.CloseReason})
	}
	switch {
	case others == 0:
	case f.Contact != "":
		err = s.readsOther(ctx, "contact "+f.Contact)
	default:
		err = s.foundOthers(ctx, "conversations", others)
	}
	return page, err
}

// foundOthers logs that a search has shown something of conversations of other agents.
func (s *Session) foundOthers(ctx context.Context, what string, n int) error {
	if n == 0 {
		return nil
	}
	return s.audit(ctx, store.AuditSearch, what, fmt.Sprintf("%d of other agents' conversations", n))
}

var (
	errSlowSearch = errors.New("hub: the search takes too long") // ends a search that has used up its time
	errNoSite     = errors.New("hub: there is no such site")
)

func (s *Session) search(cmd proto.Command, who identity, p *proto.Search) {
	s.searching(cmd, who, "", &p.In, func(ctx context.Context, r store.Reader, in store.Filter) (any, error) {
		hits, next, err := r.Search(ctx, scope(who), p.Q, in, p.Cursor, p.Limit)
		if err != nil {
			return nil, err
		}
		q, _ := words.Parse(p.Q)
		found := proto.Found{Hits: make([]proto.Hit, 0, len(hits)), Cursor: next}
		others := 0
		for i := range hits {
			h, e := &hits[i], &hits[i].Event
			if h.Other {
				others++
			}
			found.Hits = append(found.Hits, proto.Hit{
				Conv: e.Conv, S: e.Seq, Time: e.Time, Kind: e.Kind, From: party(e.From), Snippet: q.Snippet(e.Body, snippetChars),
				Contact: proto.HitContact{ID: h.Contact, Name: h.ContactName}, State: string(h.State),
			})
		}
		return found, s.foundOthers(ctx, "messages", others)
	})
}

func (s *Session) canned(cmd proto.Command, who identity, p *proto.CannedList) {
	s.staffRead(cmd, who, func(ctx context.Context, r store.Reader) (any, error) {
		all, err := r.Canned(ctx, who.actor.ID, p.Q, p.Locale, cannedItems)
		list := proto.CannedItems{Items: make([]proto.CannedItem, 0, len(all))}
		for _, c := range all {
			list.Items = append(list.Items, proto.CannedItem{ID: c.ID, Short: c.Short, Title: c.Title, Body: c.Body, Locale: c.Locale})
		}
		return list, err
	})
}

// known reads a contact that the agent may see, which is one with a conversation that the agent may see.
func (s *Session) known(ctx context.Context, r store.Reader, who identity, contact string) (store.Contact, error) {
	if sc := scope(who); !sc.All {
		convs, _, err := r.History(ctx, sc, store.Filter{Contact: contact}, "", 1)
		if err == nil && len(convs) == 0 {
			err = store.ErrNotFound
		}
		if err != nil {
			return store.Contact{}, err
		}
	}
	return r.Contact(ctx, contact)
}

func (s *Session) contactGet(cmd proto.Command, who identity, p *proto.ContactGet) {
	s.staffRead(cmd, who, func(ctx context.Context, r store.Reader) (any, error) {
		c, err := s.known(ctx, r, who, p.Contact)
		if err != nil {
			return nil, err
		}
		past, err := s.past(ctx, r, who, store.Filter{Contact: p.Contact}, "")
		if err != nil {
			return nil, err
		}
		visit, chats, err := s.hub.visits(ctx, r, p.Contact)
		if err != nil {
			return nil, err
		}
		k, own, err := card(ctx, r, who, &c)
		return proto.ContactGot{Contact: k, Visit: visit, Own: own, Chats: chats, Past: past}, err
	})
}

func (s *Session) contactPatch(cmd proto.Command, who identity, p *proto.ContactPatch) {
	s.staffRead(cmd, who, func(ctx context.Context, r store.Reader) (any, error) {
		if _, err := s.known(ctx, r, who, p.Contact); err != nil {
			return nil, err
		}
		if err := s.audit(ctx, store.AuditUpdate, "contact "+p.Contact, store.FieldsNamed(p.Fields)); err != nil {
			return nil, err
		}
		c, err := s.hub.o.Store.PatchContact(ctx, store.ContactPatch{Contact: p.Contact, Name: p.Name, Attributes: p.Attributes, Fields: p.Fields, Role: who.role})
		if err != nil {
			return nil, err
		}
		return changedCard(ctx, r, who, &c)
	})
}

// renamed takes over what a contact is called, and tells staff in its open conversations if that is new.
func (h *Hub) renamed(contact *store.Contact) {
	h.mu.Lock()
	sessions := h.sessions.contacts[contact.ID]
	h.mu.Unlock()
	for _, s := range sessions {
		s.change(func(who *identity) { who.actor.Name = contact.Name })
	}
	var convs []store.Conversation
	h.mu.Lock()
	staff, online := h.sessions.staff, h.sessions.customerThere(contact.ID)
	for _, e := range h.queue.dir.byContact[contact.ID] {
		if e.conv.ContactName != contact.Name {
			e.conv.ContactName = contact.Name
			convs = append(convs, e.conv)
		}
	}
	h.mu.Unlock()
	for i := range convs {
		h.tellRow(&convs[i], online, staff, func(s *Session, frame []byte) { s.newest("", frame) })
	}
}

func (s *Session) tag(cmd proto.Command, who identity, p *proto.Tag) {
	s.read(cmd, who, func(ctx context.Context, r store.Reader) {
		if err := s.mayRead(ctx, r, who, cmd.Conv); err != nil {
			s.fail(cmd, s.hub.readError(err))
			return
		}
		c := store.Tag{Conv: cmd.Conv, By: who.actor, Add: p.Add, Remove: p.Remove}
		s.run(s.hub.laneFor(s, cmd.Conv), cmd, c, func(out store.Outcome) {
			tags := out.Conv.TagList()
			if tags == nil {
				tags = []string{}
			}
			s.reply("ok", cmd, cmd.Conv, proto.Tagged{Tags: tags})
		})
	}, func() { s.fail(cmd, busy("too many requests are waiting")) })
}

func (s *Session) rate(cmd proto.Command, who identity, p *proto.Rate) {
	if wait := take(s.messages, s.hub.o.Now()); wait > 0 {
		s.fail(cmd, rateLimited(wait))
		return
	}
	c := store.Rate{Conv: cmd.Conv, By: who.actor, Score: p.Score, Comment: p.Comment}
	s.run(s.hub.laneFor(s, cmd.Conv), cmd, c, func(store.Outcome) { s.reply("ok", cmd, cmd.Conv, struct{}{}) })
}
