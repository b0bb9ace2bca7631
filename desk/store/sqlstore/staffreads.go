package sqlstore

import (
	"context"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/go-eddy/eddy/desk/store"
)

// readColumns are the columns of a conversation that its commands do not change.
const readColumns = `c.customer_delivered, c.customer_read, c.staff_delivered, c.staff_read, ` + tagsColumn + `, c.score, c.comment, p.blocked`

const tagsColumn = `coalesce((SELECT string_agg(x.tag, ',' ORDER BY x.tag) FROM conversation_tag x WHERE x.conversation = c.id), '')`

// sqlAccess is the store.Access to the conversation c. Its arguments are the agent, four times, and Scope.All, once.
const sqlAccess = `CASE
		WHEN c.state = 'assigned' AND c.owner_id = ? OR EXISTS (SELECT 1 FROM assignment s WHERE s.conversation = c.id AND s.agent = ?)
			OR c.state IN ('bot', 'queued', 'deferred') AND c.grp = ''
			OR c.state <> 'assigned' AND EXISTS (SELECT 1 FROM group_member g WHERE g.grp = c.grp AND g.agent = ?)
			OR c.state = 'closed' AND EXISTS (SELECT 1 FROM conversation o WHERE o.contact = c.contact AND o.state = 'assigned' AND o.owner_id = ?) THEN 1
		WHEN ? THEN 2 ELSE 0 END`

// Lists of conversations, each on the index of its first condition. The others are looked at one by one.
const (
	listSelect = `SELECT ` + convColumns + `, c.page, CASE WHEN ` + sqlSpoken + ` THEN ` + sqlAccess + ` ELSE 0 END`
	listPage   = `(c.opened_at, c.id) < (?, ?) AND c.opened_at >= ? ORDER BY c.opened_at DESC, c.id DESC LIMIT ?`

	sqlHistory = listSelect + convFrom + `WHERE c.contact = ? AND ` + listPage
	sqlListTag = listSelect + ` FROM conversation_tag t CROSS JOIN conversation c ON c.id = t.conversation CROSS JOIN contact p ON p.id = c.contact
		WHERE t.tag = ? AND (t.opened, t.conversation) < (?, ?) AND t.opened >= ? ORDER BY t.opened DESC, t.conversation DESC LIMIT ?`
	sqlListAgent = listSelect + convFrom + `WHERE c.last_agent = ? AND ` + listPage
	sqlListRated = listSelect + convFrom + `WHERE c.score > 0 AND ` + listPage
	sqlListOpen  = listSelect + convFrom + `WHERE c.state <> 'closed' AND ` + listPage
	sqlListState = listSelect + convFrom + `WHERE c.state = ? AND ` + listPage
	sqlListAll   = listSelect + convFrom + `WHERE ` + listPage
)

const listed = 2000 // conversations that one page looks at

// listOf returns the statement for a filter, its arguments before those of the page, and how many conversations a page
// looks at. Those of one contact are few.
func listOf(f *store.Filter) (query string, args []any, most int) {
	switch {
	case f.Contact != "":
		return sqlHistory, []any{f.Contact}, math.MaxInt64
	case f.Tag != "":
		return sqlListTag, []any{f.Tag}, listed
	case f.Agent != "":
		return sqlListAgent, []any{f.Agent}, listed
	case f.ScoreFrom > 0 || f.ScoreTo > 0:
		return sqlListRated, nil, listed
	case f.State != store.None:
		return sqlListState, []any{string(f.State)}, listed
	case f.Snoozed:
		return sqlListState, []any{string(store.Assigned)}, listed
	case f.Open:
		return sqlListOpen, nil, listed
	}
	return sqlListAll, nil, listed
}

func accessArgs(s store.Scope) []any { return []any{s.Agent, s.Agent, s.Agent, s.Agent, s.All} }

// Places implements store.StaffReader.
func (r *reader) Places(ctx context.Context, conv string) ([]store.Places, error) {
	const ( // CROSS: from the conversations to their messages, of which there are many more
		hidden = ` FROM conversation c CROSS JOIN message m INDEXED BY message_hidden ON m.conversation = c.id AND m.pseq IS NULL WHERE `
		unread = ` FROM conversation c CROSS JOIN message m ON m.conversation = c.id AND m.seq > c.staff_read WHERE m.sender_kind = 'customer' AND m.kind <> 'event' AND `
		one    = `c.id = ?`
		open   = `c.state <> 'closed' AND ? = ''`
	)
	which := one
	if conv == "" {
		which = open
	}
	rows, err := r.db.QueryContext(ctx, `SELECT m.conversation, m.seq, 0`+hidden+which+` UNION ALL SELECT m.conversation, m.seq, 1`+unread+which+
		` ORDER BY 1, 3, 2`, conv, conv)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	var all []store.Places
	for rows.Next() {
		var id string
		var seq uint64
		var waits bool
		if err := rows.Scan(&id, &seq, &waits); err != nil {
			return nil, err
		}
		if len(all) == 0 || all[len(all)-1].Conv != id {
			all = append(all, store.Places{Conv: id})
		}
		p := &all[len(all)-1]
		switch {
		case !waits:
			p.Hidden = append(p.Hidden, seq)
		case len(p.Unread) < store.MaxUnread:
			p.Unread = append(p.Unread, seq)
		}
	}
	return all, rows.Err()
}

// Access implements store.StaffReader.
func (r *reader) Access(ctx context.Context, s store.Scope, conv string) (a store.Access, err error) {
	err = r.db.QueryRowContext(ctx, `SELECT `+sqlAccess+` FROM conversation c WHERE c.id = ?`, append(accessArgs(s), conv)...).Scan(&a)
	return a, notFound(err)
}

// cursorAfter returns the cursor that continues behind a conversation: the time of its opening and its id.
func cursorAfter(c *store.Conversation) string {
	return strconv.FormatInt(c.OpenedAt, 36) + "." + c.ID
}

// cursorAt reads a cursor of cursorAfter. "" is the beginning.
func cursorAt(cursor string) (opened int64, id string, err error) {
	if cursor == "" {
		return 1<<63 - 1, "", nil
	}
	at, id, ok := strings.Cut(cursor, ".")
	if opened, err = strconv.ParseInt(at, 36, 64); err != nil || !ok {
		return 0, "", store.ErrCursor
	}
	return opened, id, nil
}

// History implements store.StaffReader. The time of opening does not change, so pages stay where they are.
func (r *reader) History(ctx context.Context, s store.Scope, f store.Filter, cursor string, limit int) ([]store.Past, string, error) {
	opened, id, err := cursorAt(cursor)
	if err != nil {
		return nil, "", err
	}
	if f.To != 0 && f.To <= opened {
		opened, id = f.To, ""
	}
	query, args, most := listOf(&f)
	rows, err := r.db.QueryContext(ctx, query, slices.Concat(accessArgs(s), args, []any{opened, id, f.From, most})...)
	if err != nil {
		return nil, "", err
	}
	defer func() { _ = rows.Close() }()
	var page []store.Past
	looked, next := 0, ""
	for rows.Next() {
		var past store.Past
		var access store.Access
		if past.Conversation, err = scanConvAnd(rows, &past.Page, &access); err != nil {
			return nil, "", err
		}
		looked++
		if access != store.NoAccess && f.Match(&past.Conversation) {
			if len(page) == limit { // there is more
				return page, next, nil
			}
			past.Other = access == store.OtherAccess
			page = append(page, past)
		}
		next = cursorAfter(&past.Conversation)
	}
	if looked != most {
		next = ""
	}
	return page, next, rows.Err()
}

// Canned implements store.StaffReader.
func (r *reader) Canned(ctx context.Context, agent, q, locale string, limit int) ([]store.Canned, error) {
	language, _, _ := strings.Cut(locale, "-")
	pattern := strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`).Replace(lower(q))
	return list(ctx, r.db, func(row scanner) (c store.Canned, err error) {
		err = row.Scan(&c.ID, &c.Short, &c.Locale, &c.Title, &c.Body, &c.Group)
		return c, err
	}, `SELECT id, short, locale, title, body, grp FROM canned
		WHERE (grp = '' OR EXISTS (SELECT 1 FROM group_member g WHERE g.grp = canned.grp AND g.agent = ?))
			AND (? = '' OR locale = '' OR locale = ? OR locale LIKE ? || '-%')
			AND (lower(short) LIKE ? || '%' ESCAPE '\' OR lower(title) LIKE '%' || ? || '%' ESCAPE '\' OR lower(body) LIKE '%' || ? || '%' ESCAPE '\')
		ORDER BY NOT lower(short) LIKE ? || '%' ESCAPE '\', locale <> ?, locale = '', short, locale, id LIMIT ?`,
		agent, language, language, language, pattern, pattern, pattern, pattern, locale, limit)
}

// lower does with a text what the lower of SQL does.
func lower(s string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			r += 'a' - 'A'
		}
		return r
	}, s)
}

// tag adds and removes tags.
func (t *tx) tag(c store.Tag) (store.Outcome, error) {
	d, err := t.load(c.Conv)
	if err != nil {
		return store.Outcome{}, err
	}
	head := store.Outcome{Conv: d.Conversation}
	if c.By.Kind != store.Agent && c.By.Kind != store.System {
		return head, store.ErrForbidden
	}
	for _, tag := range c.Remove {
		n, err := t.change(`DELETE FROM conversation_tag WHERE conversation = ? AND tag = ?`, c.Conv, tag)
		if err == nil && n > 0 {
			err = t.rollTag(c.Conv, tag, false)
		}
		if err != nil {
			return head, err
		}
	}
	for _, tag := range c.Add {
		n, err := t.change(`INSERT INTO conversation_tag (conversation, tag, opened) VALUES (?, ?, ?) ON CONFLICT DO NOTHING`, c.Conv, tag, d.OpenedAt)
		if err == nil && n > 0 {
			err = t.rollTag(c.Conv, tag, true)
		}
		if err != nil {
			return head, err
		}
	}
	after, err := t.load(c.Conv)
	if err != nil {
		return head, err
	}
	if len(after.TagList()) > store.MaxTags {
		return head, store.ErrTooMany
	}
	if after.Tags != d.Tags {
		if err := t.tellConv(&after.Conversation, store.EventTags, tagsChanged(d.TagList(), after.TagList())); err != nil {
			return head, err
		}
	}
	return store.Outcome{Conv: after.Conversation, Touched: after.Tags != d.Tags}, nil
}

// rate sets the score of a closed conversation.
func (t *tx) rate(c store.Rate) (store.Outcome, error) {
	d, err := t.load(c.Conv)
	if err != nil {
		return store.Outcome{}, err
	}
	if c.By, err = t.acting(&d.Conversation, c.By); err != nil {
		return store.Outcome{}, err
	}
	head := store.Outcome{Conv: d.Conversation}
	switch {
	case c.By.Kind != store.Customer:
		return store.Outcome{}, store.ErrNotFound
	case d.Blocked:
		return head, store.ErrBlocked
	case d.State != store.Closed:
		return head, store.ErrConflict
	}
	if err := t.exec(`UPDATE conversation SET score = ?, comment = ? WHERE id = ?`, c.Score, c.Comment, c.Conv); err != nil {
		return head, err
	}
	head.Touched = c.Score != d.Score || c.Comment != d.Comment
	head.Conv.Score, head.Conv.Comment = c.Score, c.Comment
	if err := t.rollRating(&head.Conv, c.Score); err != nil {
		return head, err
	}
	return head, t.tellConv(&d.Conversation, store.EventRated, store.TagChange{})
}

// SaveMarks implements store.StaffWrites.
func (db *DB) SaveMarks(ctx context.Context, marks []store.ConvMarks) error {
	return db.write(ctx, func(t *tx) error {
		for i := range marks {
			if err := t.saveMarks(&marks[i]); err != nil {
				return err
			}
		}
		return nil
	})
}

func (t *tx) saveMarks(m *store.ConvMarks) error {
	return t.exec(`UPDATE conversation SET
		customer_delivered = greatest(customer_delivered, least(greatest(CAST(?1 AS BIGINT), CAST(?2 AS BIGINT)), last_pseq)),
		customer_read = greatest(customer_read, least(?2, last_pseq)),
		staff_delivered = greatest(staff_delivered, least(greatest(CAST(?3 AS BIGINT), CAST(?4 AS BIGINT)), last_seq)),
		staff_read = greatest(staff_read, least(?4, last_seq)) WHERE id = ?5`,
		sqlInt(m.Customer.Delivered), sqlInt(m.Customer.Read), sqlInt(m.Staff.Delivered), sqlInt(m.Staff.Read), m.Conv)
}

// sqlInt keeps a number within what SQLite stores.
func sqlInt(n uint64) int64 { return int64(min(n, 1<<63-1)) }

// BlockContact implements store.StaffWrites.
func (db *DB) BlockContact(ctx context.Context, contact string, blocked bool) (store.Contact, error) {
	return db.changeContact(ctx, contact, func(t *tx, c *store.Contact) error {
		c.Blocked = blocked
		return t.exec(`UPDATE contact SET blocked = ? WHERE id = ?`, blocked, contact)
	})
}

// PatchContact implements store.StaffWrites.
func (db *DB) PatchContact(ctx context.Context, p store.ContactPatch) (store.Contact, error) {
	return db.changeContact(ctx, p.Contact, func(t *tx, c *store.Contact) error {
		if p.Name != "" {
			c.Name = p.Name
		}
		for k, v := range p.Attributes {
			if v == "" {
				delete(c.Attributes, k)
			} else {
				c.Attributes[k] = v
			}
		}
		if len(c.Attributes) > store.MaxAttributes {
			return store.ErrTooMany
		}
		if _, err := t.setFields(c.ID, p.Fields, p.Role); err != nil {
			return err
		}
		attributes, err := json.Marshal(c.Attributes)
		if err != nil {
			return err
		}
		return t.exec(`UPDATE contact SET name = ?, attributes = ? WHERE id = ?`, c.Name, string(attributes), p.Contact)
	})
}

// changeContact runs a change of a contact and returns the contact after it.
func (db *DB) changeContact(ctx context.Context, id string, change func(*tx, *store.Contact) error) (store.Contact, error) {
	done := make(chan store.Contact, 1)
	err := db.write(ctx, func(t *tx) error {
		c, err := scanContact(t.row(sqlContact, id))
		if err != nil {
			return err
		}
		if c.Attributes == nil {
			c.Attributes = make(map[string]string)
		}
		if err := change(t, &c); err != nil {
			return err
		}
		done <- c
		return t.tellContact(id)
	})
	if err != nil {
		return store.Contact{}, err
	}
	return <-done, nil
}
