package sqlstore

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/go-eddy/eddy/desk/store"
)

const (
	sqlEventsStaff    = `SELECT ` + eventColumns + ` FROM message WHERE conversation = ? AND seq > ? ORDER BY seq LIMIT ?`
	sqlEventsCustomer = `SELECT ` + eventColumns + ` FROM message WHERE conversation = ? AND pseq > ? ORDER BY pseq LIMIT ?`
	sqlAllOpenOf      = `SELECT ` + convColumns + convFrom + `WHERE c.contact = ? AND c.state <> 'closed' ORDER BY c.opened_at`
	sqlOfAgent        = `SELECT ` + convColumns + convFrom + `WHERE c.state = 'assigned' AND c.owner_id = ? ORDER BY c.assigned_at, c.id`
	sqlQueue          = `SELECT ` + convColumns + ` FROM conversation c INDEXED BY conversation_queue JOIN contact p ON p.id = c.contact WHERE c.state = 'queued' ORDER BY ` + queueOrder + ` LIMIT ?`
	sqlLeft           = `SELECT ` + convColumns + convFrom + `WHERE c.state = 'deferred' ORDER BY c.waiting_since, c.id LIMIT ?`
	sqlAllOpen        = `SELECT ` + convColumns + convFrom + `WHERE c.state <> 'closed' ORDER BY ` + queueOrder
)

// reader answers reads on its own pool of read-only connections.
type reader struct {
	db   *statements
	node string // see DB.Node
}

var _ store.Reader = (*reader)(nil)

func openReader(on engine, node string, n int, class readerClass) (*reader, error) {
	db, err := on.reader(n, class)
	if err != nil {
		return nil, err
	}
	return &reader{newStatements(db, on.dialect()), node}, nil
}

func (r *reader) convs(ctx context.Context, query string, args ...any) ([]store.Conversation, error) {
	return list(ctx, r.db, scanConv, query, args...)
}

// Conversation implements store.Reader.
func (r *reader) Conversation(ctx context.Context, id string) (store.Conversation, error) {
	return scanConv(r.db.QueryRowContext(ctx, sqlConv, id))
}

// Events implements store.Reader.
func (r *reader) Events(ctx context.Context, conv string, side store.Side, after uint64, limit, maxBytes int) ([]store.Event, bool, error) {
	query := sqlEventsStaff
	if side == store.CustomerSide {
		query = sqlEventsCustomer
	}
	const maxSeq = 1<<63 - 1
	rows, err := r.db.QueryContext(ctx, query, conv, int64(min(after, maxSeq)), limit+1)
	if err != nil {
		return nil, false, err
	}
	defer func() { _ = rows.Close() }()
	var events []store.Event
	size, more := 0, false
	for rows.Next() {
		e, err := scanEvent(rows)
		if err != nil {
			return nil, false, err
		}
		size += len(e.Body)
		if len(events) == limit || (len(events) > 0 && size > maxBytes) {
			more = true
			break
		}
		events = append(events, e)
	}
	if err := rows.Err(); err != nil {
		return nil, false, err
	}
	return events, more, r.addFiles(ctx, conv, events)
}

// OfContact implements store.Reader.
func (r *reader) OfContact(ctx context.Context, contact string) ([]store.Conversation, error) {
	all, err := r.convs(ctx, sqlLastClosed, contact)
	if err != nil {
		return nil, err
	}
	open, err := r.convs(ctx, sqlAllOpenOf, contact)
	return append(all, open...), err
}

// OfAgent implements store.Reader.
func (r *reader) OfAgent(ctx context.Context, agent string) ([]store.Conversation, error) {
	return r.convs(ctx, sqlOfAgent, agent)
}

// Queue implements store.Reader.
func (r *reader) Queue(ctx context.Context, limit int) ([]store.Conversation, int, error) {
	all, err := r.convs(ctx, sqlQueue, limit)
	if err != nil {
		return nil, 0, err
	}
	var n int
	err = r.db.QueryRowContext(ctx, `SELECT count(*) FROM conversation WHERE state = 'queued'`).Scan(&n)
	return all, n, err
}

// LeftMessages implements store.Reader.
func (r *reader) LeftMessages(ctx context.Context, limit int) ([]store.Conversation, int, error) {
	all, err := r.convs(ctx, sqlLeft, limit)
	if err != nil {
		return nil, 0, err
	}
	var n int
	err = r.db.QueryRowContext(ctx, `SELECT count(*) FROM conversation WHERE state = 'deferred'`).Scan(&n)
	return all, n, err
}

// OpenConversations implements store.Reader.
func (r *reader) OpenConversations(ctx context.Context) ([]store.Conversation, error) {
	return r.convs(ctx, sqlAllOpen)
}

func (r *reader) site(ctx context.Context, where string, arg any) (store.Site, error) {
	return scanSite(r.db.QueryRowContext(ctx, sqlSites+` WHERE `+where, arg))
}

// SiteByKey implements store.Reader.
func (r *reader) SiteByKey(ctx context.Context, key string) (store.Site, error) {
	return r.site(ctx, "key = ?", key)
}

// Site implements store.Reader.
func (r *reader) Site(ctx context.Context, id string) (store.Site, error) {
	return r.site(ctx, "id = ?", id)
}

const contactColumns = `p.id, p.site, p.name, p.external, p.verified, p.blocked, p.locale, p.attributes, p.created`

// scanContact reads contactColumns, and the columns after them into more.
func scanContact(r scanner, more ...any) (store.Contact, error) {
	var c store.Contact
	var attributes string
	err := r.Scan(append([]any{&c.ID, &c.Site, &c.Name, &c.External, &c.Verified, &c.Blocked, &c.Locale, &attributes, &c.Created}, more...)...)
	if err != nil {
		return c, notFound(err)
	}
	if err := json.Unmarshal([]byte(attributes), &c.Attributes); err != nil {
		return c, fmt.Errorf("store: attributes of contact %s: %w", c.ID, err)
	}
	return c, nil
}

// ContactByToken implements store.Reader.
func (r *reader) ContactByToken(ctx context.Context, t store.Token, now time.Time) (store.Contact, error) {
	var expires int64
	c, err := scanContact(r.db.QueryRowContext(ctx, `SELECT `+contactColumns+`, t.expires FROM contact_token t JOIN contact p ON p.id = t.contact WHERE t.token = ?`, t[:]), &expires)
	if err == nil && expires <= now.UnixMilli() {
		return store.Contact{}, store.ErrExpired
	}
	return c, err
}

// Contact implements store.Reader.
func (r *reader) Contact(ctx context.Context, id string) (store.Contact, error) {
	return scanContact(r.db.QueryRowContext(ctx, sqlContact, id))
}

const agentColumns = `a.id, a.login, a.name, a.password, a.capacity, a.role, a.locale, a.disabled, a.skills, a.languages, a.email,
	coalesce((SELECT NOT t.accepting FROM agent_state t WHERE t.agent = a.id), FALSE), EXISTS (SELECT 1 FROM agent_factor f WHERE f.agent = a.id),
	EXISTS (SELECT 1 FROM agent_identity n WHERE n.agent = a.id)`

// scanAgent reads agentColumns, and the columns after them into more.
func scanAgent(r scanner, more ...any) (store.AgentAccount, error) {
	var a store.AgentAccount
	err := r.Scan(append([]any{&a.ID, &a.Login, &a.Name, &a.Password, &a.Capacity, &a.Role, &a.Locale, &a.Disabled, &a.Skills, &a.Languages, &a.Email, &a.NoChats, &a.Factor, &a.Linked}, more...)...)
	return a, notFound(err)
}

func (r *reader) agent(ctx context.Context, where string, arg any) (store.AgentAccount, error) {
	return scanAgent(r.db.QueryRowContext(ctx, `SELECT `+agentColumns+` FROM agent a WHERE `+where, arg))
}

// AgentByLogin implements store.Reader.
func (r *reader) AgentByLogin(ctx context.Context, login string) (store.AgentAccount, error) {
	return r.agent(ctx, "login = ?", login)
}

// AgentByID implements store.Reader.
func (r *reader) AgentByID(ctx context.Context, id string) (store.AgentAccount, error) {
	return r.agent(ctx, "id = ?", id)
}
