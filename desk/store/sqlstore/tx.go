package sqlstore

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/go-eddy/eddy/desk/store"
)

// SQL shared by the writer and the readers.
const (
	convColumns = `c.id, c.site, c.contact, p.name, c.state, c.owner_kind, c.owner_id, c.owner_name, c.epoch, c.rev,
		c.last_seq, c.last_pseq, c.opened_at, c.queued_at, c.assigned_at, c.closed_at, c.close_reason, c.preview, c.preview_from, c.at,
		c.grp, c.priority, c.abandoned, c.waiting_since, c.replied_at, c.excluded, c.last_agent, c.prev,
		c.last_agent_at, c.warned_at, c.left_at, c.locale, c.acted_at, c.reply_to, c.skills, c.relaxed, c.answered_at, c.snoozed_until, c.told_warned, c.told_missed, ` + readColumns
	convFrom     = ` FROM conversation c JOIN contact p ON p.id = c.contact `
	eventColumns = `conversation, seq, coalesce(pseq, 0), id, kind, sender_kind, sender_id, sender_name, coalesce(client_id, ''), body, meta, created`

	sqlConv     = `SELECT ` + convColumns + convFrom + `WHERE c.id = ?`
	sqlOpenOf   = `SELECT ` + convColumns + convFrom + `WHERE c.contact = ? AND c.state <> 'closed' ORDER BY c.opened_at DESC LIMIT 1`
	sqlOpenedBy = `SELECT ` + convColumns + convFrom + `JOIN message m ON m.conversation = c.id AND m.seq = 1
		WHERE c.contact = ? AND m.sender_kind = ? AND m.sender_id = ? AND m.client_id = ?`
	sqlByClient = `SELECT ` + eventColumns + ` FROM message INDEXED BY message_client WHERE conversation = ?1 AND sender_kind = ?2
		AND sender_id IN (SELECT ?3 UNION ALL SELECT id FROM contact WHERE merged = ?3 AND merged <> '') AND client_id = ?4`
	sqlInsertMsg = `INSERT INTO message (conversation, seq, pseq, id, kind, sender_kind, sender_id, sender_name, client_id, body, meta, epoch, created, doc)
		VALUES (?, ?, nullif(CAST(? AS BIGINT), 0), ?, ?, ?, ?, ?, nullif(?, ''), ?, ?, ?, ?, nullif(CAST(? AS BIGINT), 0))`
	sqlLastClosed = `SELECT ` + convColumns + convFrom + `WHERE c.contact = ? AND c.state = 'closed' AND ` + sqlSpoken + ` ORDER BY c.opened_at DESC, c.id DESC LIMIT 1`
	sqlInsertConv = `INSERT INTO conversation (id, workspace, site, contact, state, owner_kind, owner_id, owner_name, epoch, rev, last_seq, last_pseq,
		opened_at, queued_at, assigned_at, closed_at, close_reason, page, preview, preview_from, at, grp, last_agent, last_agent_at, prev, locale)
		SELECT ?, s.workspace, s.id, ?, 'queued', '', '', '', 0, 0, 0, 0, 0, 0, 0, 0, '', ?, '', '', 0, s.grp, ?, ?, ?, ? FROM site s WHERE s.id = ?`
	sqlUpdateConv = `UPDATE conversation SET state = ?, owner_kind = ?, owner_id = ?, owner_name = ?, epoch = ?, rev = ?, last_seq = ?, last_pseq = ?,
		opened_at = ?, queued_at = ?, assigned_at = ?, closed_at = ?, close_reason = ?, preview = ?, preview_from = ?, at = ?,
		grp = ?, priority = ?, abandoned = ?, waiting_since = ?, replied_at = ?, excluded = ?, last_agent = ?,
		last_agent_at = ?, warned_at = ?, left_at = ?, acted_at = ?, skills = ?, relaxed = ?, snoozed_until = ?
		WHERE id = ? AND rev = ? AND last_seq = ?`
	sqlTakeSeat = `UPDATE agent_state SET active = active + 1, last_assigned_at = ? WHERE agent = ?
		AND (? OR EXISTS (SELECT 1 FROM agent a WHERE a.id = agent AND active < a.capacity))`
	sqlFreeSeat   = `UPDATE agent_state SET active = greatest(active - 1, 0) WHERE agent = ?`
	sqlLoad       = `SELECT s.active, a.capacity FROM agent_state s JOIN agent a ON a.id = s.agent WHERE s.agent = ?`
	sqlBegin      = `INSERT INTO assignment (conversation, epoch, agent, event, since, until) VALUES (?, ?, ?, ?, ?, 0)`
	sqlEnd        = `UPDATE assignment SET until = ? WHERE conversation = ? AND until = 0`
	sqlMember     = `SELECT count(*) FROM group_member WHERE grp = ? AND agent = ?`
	sqlLastQueued = `SELECT coalesce((SELECT queued_at FROM conversation WHERE state = 'queued' AND priority = ? ORDER BY queued_at DESC LIMIT 1), 0)`
	sqlOtherOf    = `SELECT count(*) FROM conversation WHERE contact = ? AND state <> 'closed' AND id <> ?`
	sqlSite       = `SELECT s.bot_name, s.bot, coalesce(b.name, ''), s.grp, s.reopen_window, s.reopen_to_bot FROM site s LEFT JOIN bot b ON b.id = s.bot WHERE s.id = ?`
)

// sqlSpoken leaves out the conversations c that have ended without a word of anybody but a bot.
const sqlSpoken = `(c.acted_at > 0 OR c.assigned_at > 0 OR c.state <> 'closed')`

const previewChars = 120

// meta is the part of an event that is stored as JSON.
type meta struct {
	Payload string         `json:"payload,omitempty"`
	Buttons []store.Button `json:"buttons,omitempty"`
	Memo    string         `json:"memo,omitempty"`
	Change  *store.Change  `json:"change,omitempty"`
}

// tx runs statements on the writer's connection, inside the transaction of the current group.
type tx struct {
	session // nil = there is no connection

	db     *DB
	words  []docWords // of the messages of this transaction, see addWords
	maxDoc int64      // highest doc that exists or was given away; 0 = not known yet

	minute int64 // the last minute counted in the roll-ups

	seq     int64             // last number of the outbox
	stored  int64             // what the database has of it
	rows    []store.OutboxRow // of this transaction, see flush
	written int               // of rows
	told    bool              // readers of the outbox have something to do
	trace   string            // of the command, see store.OutboxRow
	part    store.Fed         // what the command has changed besides its conversation

	me     string // names this process to others
	notify string // see dialect, "" = nobody is told

	begin, end, rollback, savepoint, undo, release string
}

func newTx(db *DB) *tx {
	t := &tx{
		db:    db,
		me:    uuid.NewString(),
		begin: db.on.dialect().begin, end: `COMMIT`, rollback: `ROLLBACK`,
		savepoint: `SAVEPOINT command`, undo: `ROLLBACK TO command`, release: `RELEASE command`,
	}
	if !db.o.Alone {
		t.notify = db.on.dialect().notify
	}
	return t
}

// takeBack undoes what the command has done.
func (t *tx) takeBack() error {
	err := t.exec(t.undo)
	if err == nil {
		err = t.sync()
	}
	if err != nil { // a statement before it has failed
		err = t.force(t.undo)
	}
	return err
}

// all reads all rows of a query.
func all[T any](t *tx, scan func(scanner) (T, error), query string, args ...any) ([]T, error) {
	rows, err := t.query(query, args...)
	if err != nil {
		return nil, err
	}
	return collect(rows, scan)
}

type scanner interface{ Scan(dest ...any) error }

type failedRow struct{ err error }

func (r failedRow) Scan(...any) error { return r.err }

func scanConv(r scanner) (store.Conversation, error) { return scanConvAnd(r) }

// scanConvAnd reads convColumns, and the columns after them into more.
func scanConvAnd(r scanner, more ...any) (store.Conversation, error) {
	var c store.Conversation
	err := r.Scan(append([]any{&c.ID, &c.Site, &c.Contact, &c.ContactName, &c.State, &c.Owner.Kind, &c.Owner.ID, &c.Owner.Name, &c.Epoch, &c.Rev,
		&c.LastSeq, &c.LastPSeq, &c.OpenedAt, &c.QueuedAt, &c.AssignedAt, &c.ClosedAt, &c.CloseReason, &c.Preview, &c.PreviewFrom, &c.At,
		&c.Group, &c.Priority, &c.Abandoned, &c.WaitingSince, &c.RepliedAt, &c.Excluded, &c.LastAgent, &c.Prev,
		&c.LastAgentAt, &c.WarnedAt, &c.LeftAt, &c.Locale, &c.ActedAt, &c.ReplyTo, &c.Skills, &c.Relaxed, &c.AnsweredAt, &c.SnoozedUntil, &c.Told.Warned, &c.Told.Missed,
		&c.Marks.Customer.Delivered, &c.Marks.Customer.Read, &c.Marks.Staff.Delivered, &c.Marks.Staff.Read, &c.Tags, &c.Score, &c.Comment, &c.Blocked}, more...)...)
	return c, notFound(err)
}

func scanEvent(r scanner) (store.Event, error) {
	var e store.Event
	var m string
	err := r.Scan(&e.Conv, &e.Seq, &e.PSeq, &e.ID, &e.Kind, &e.From.Kind, &e.From.ID, &e.From.Name, &e.ClientID, &e.Body, &m, &e.Time)
	if err != nil {
		return e, notFound(err)
	}
	var x meta
	if err := json.Unmarshal([]byte(m), &x); err != nil {
		return e, fmt.Errorf("store: meta of event %d of %s: %w", e.Seq, e.Conv, err)
	}
	e.Payload, e.Buttons, e.Memo, e.Change = x.Payload, x.Buttons, x.Memo, x.Change
	return e, nil
}

func notFound(err error) error {
	if errors.Is(err, sql.ErrNoRows) {
		return store.ErrNotFound
	}
	return err
}

// newID returns a time-ordered UUID.
func newID() (string, error) {
	id, err := uuid.NewV7()
	return id.String(), err
}

func (t *tx) now() int64 { return t.db.Now().UnixMilli() }
