package sqlstore

import (
	"context"
	"errors"
	"strings"
	"unicode"

	"github.com/go-eddy/eddy/desk/store"
)

const (
	mailColumns = `id, kind, recipient, locale, conversation, agent, first, upto, state, attempts, error, created, due, expires`

	sqlNextMail   = `SELECT ` + mailColumns + ` FROM mail WHERE state = 'queued' ORDER BY due, id LIMIT 1`
	sqlDeadMails  = `SELECT ` + mailColumns + ` FROM mail WHERE state = 'dead' ORDER BY due DESC, id DESC LIMIT ?`
	sqlCountMail  = `SELECT count(*) FROM mail WHERE state = ?`
	sqlInsertMail = `INSERT INTO mail (id, workspace, kind, recipient, locale, conversation, agent, first, upto, state, attempts, error, created, due, expires)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, 0, 'queued', 0, '', ?, ?, ?)`
	sqlSameMail   = `SELECT ` + mailColumns + ` FROM mail WHERE conversation = ? AND kind = ? AND recipient = ? AND upto = 0 AND state = 'queued' LIMIT 1`
	sqlCollecting = `SELECT count(*) FROM mail WHERE conversation = ? AND kind = 'answers' AND upto = 0 AND state = 'queued'`
	sqlSealMail   = `UPDATE mail SET upto = (SELECT c.last_pseq FROM conversation c WHERE c.id = mail.conversation) WHERE id = ? AND upto = 0 AND state = 'queued'
		AND kind IN ('answers', 'transcript')`
	sqlMailSent  = `DELETE FROM mail WHERE id = ? AND state = 'queued'`
	sqlDelayMail = `UPDATE mail SET due = ?1, attempts = attempts + CASE ?2 WHEN '' THEN 0 ELSE 1 END, error = CASE ?2 WHEN '' THEN error ELSE ?2 END,
		upto = CASE kind WHEN 'transcript' THEN 0 ELSE upto END WHERE id = ?3 AND state = 'queued'`
	sqlGiveUpMail = `UPDATE mail SET state = 'dead', due = ?1, attempts = attempts + 1, error = ?2 WHERE id = ?3 AND state = 'queued'`
	sqlExpireMail = `UPDATE mail SET state = 'dead', due = ?1, error = ?2 WHERE state = 'queued' AND expires <= ?1`
	sqlOldMails   = `DELETE FROM mail WHERE state = 'dead' AND (due < ? OR id IN (SELECT id FROM mail WHERE state = 'dead' ORDER BY due DESC, id DESC LIMIT 9223372036854775807 OFFSET ?))`
	sqlRetryMail  = `UPDATE mail SET state = 'queued', attempts = 0, due = ?, expires = ?,
		upto = CASE kind WHEN 'transcript' THEN 0 ELSE upto END WHERE id = ? AND state = 'dead'`
	sqlDropMail = `DELETE FROM mail WHERE id = ? AND state = 'dead'`
)

func scanMail(r scanner) (store.Mail, error) {
	var m store.Mail
	err := r.Scan(&m.ID, &m.Kind, &m.To, &m.Locale, &m.Conv, &m.Agent, &m.First, &m.Upto, &m.State, &m.Attempts, &m.Error, &m.Created, &m.Due, &m.Expires)
	return m, notFound(err)
}

// NextMail implements store.MailReader.
func (r *reader) NextMail(ctx context.Context) (store.Mail, error) {
	return scanMail(r.db.QueryRowContext(ctx, sqlNextMail))
}

// DeadMails implements store.MailReader. The time at which a mail was given up is its due.
func (r *reader) DeadMails(ctx context.Context) ([]store.Mail, error) {
	return list(ctx, r.db, scanMail, sqlDeadMails, store.MaxMailsOfPage)
}

// MailCounts implements store.MailReader.
func (r *reader) MailCounts(ctx context.Context) (c store.MailCounts, err error) {
	if err = r.db.QueryRowContext(ctx, sqlCountMail, string(store.MailQueued)).Scan(&c.Queued); err != nil {
		return c, err
	}
	return c, r.db.QueryRowContext(ctx, sqlCountMail, string(store.MailDead)).Scan(&c.Dead)
}

// QueueMail implements store.MailWrites.
func (db *DB) QueueMail(ctx context.Context, m store.Mail) (store.Mail, error) {
	return written(ctx, db, func(t *tx) (store.Mail, error) { return t.queueMail(m) })
}

// queueMail adds a mail in the transaction of what causes it.
func (t *tx) queueMail(m store.Mail) (store.Mail, error) {
	if err := m.Check(); err != nil {
		return m, err
	}
	if m.Conv != "" { // it may have been erased while somebody asked for it
		if _, err := t.load(m.Conv); err != nil {
			return m, err
		}
	}
	if m.Kind == store.MailTranscript {
		if same, err := scanMail(t.row(sqlSameMail, m.Conv, string(m.Kind), m.To)); err == nil || !errors.Is(err, store.ErrNotFound) {
			return same, err
		}
	}
	var waiting int
	if err := t.row(sqlCountMail, string(store.MailQueued)).Scan(&waiting); err != nil {
		return m, err
	}
	if waiting >= store.MaxMails {
		return m, store.ErrMailFull
	}
	return m, t.insertMail(&m)
}

// insertMail adds a mail, and fills in what it has at the beginning.
func (t *tx) insertMail(m *store.Mail) error {
	id, err := newID()
	if err != nil {
		return err
	}
	if err := t.workspace(); err != nil {
		return err
	}
	m.ID, m.State, m.Attempts, m.Error, m.Created = id, store.MailQueued, 0, "", t.now()
	m.Due = max(m.Due, m.Created)
	if m.Kind == store.MailAnswers {
		m.Due = m.Created + store.AnswerDelay.Milliseconds()
	}
	if m.Expires == 0 {
		m.Expires = m.Due + m.Kind.Life().Milliseconds()
	}
	return t.exec(sqlInsertMail, m.ID, workspaceID, string(m.Kind), m.To, m.Locale, m.Conv, m.Agent, m.First, m.Created, m.Due, m.Expires)
}

// mailAnswer queues the mail with a message of an agent to a customer who waits for it by mail, unless there is one that
// still collects. The bound of the queue does not count: there is one such mail of a conversation. That mail could not be
// queued is no reason to refuse the message.
func (t *tx) mailAnswer(d *draft, e *store.Event, to string) error {
	if !t.db.o.Mail || to == "" || e.From.Kind != store.Agent || e.Kind != store.KindText && e.Kind != store.KindFile {
		return nil
	}
	var collecting int
	if err := t.row(sqlCollecting, d.ID).Scan(&collecting); err != nil || collecting > 0 {
		return err
	}
	return t.insertMail(&store.Mail{Kind: store.MailAnswers, To: to, Locale: d.Locale, Conv: d.ID, First: e.PSeq})
}

// SealMail implements store.MailWrites.
func (db *DB) SealMail(ctx context.Context, id string) (uint64, error) {
	return written(ctx, db, func(t *tx) (upto uint64, err error) {
		if err := t.exec(sqlSealMail, id); err != nil {
			return 0, err
		}
		return upto, notFound(t.row(`SELECT upto FROM mail WHERE id = ? AND kind IN ('answers', 'transcript') AND state = 'queued'`, id).Scan(&upto))
	})
}

// MailSent implements store.MailWrites.
func (db *DB) MailSent(ctx context.Context, id string) error {
	return db.write(ctx, func(t *tx) error { return one(t.change(sqlMailSent, id)) })
}

// DelayMail implements store.MailWrites.
func (db *DB) DelayMail(ctx context.Context, id string, due int64, why string) error {
	return db.write(ctx, func(t *tx) error { return one(t.change(sqlDelayMail, due, mailError(why), id)) })
}

// GiveUpMail implements store.MailWrites.
func (db *DB) GiveUpMail(ctx context.Context, id, why string) error {
	return db.write(ctx, func(t *tx) error {
		if err := one(t.change(sqlGiveUpMail, t.now(), mailError(why), id)); err != nil {
			return err
		}
		return t.dropOldMails()
	})
}

// ExpireMails implements store.MailWrites.
func (db *DB) ExpireMails(ctx context.Context, why string) (int, error) {
	return written(ctx, db, func(t *tx) (int, error) {
		n, err := t.change(sqlExpireMail, t.now(), mailError(why))
		if err != nil || n == 0 {
			return 0, err
		}
		return int(n), t.dropOldMails()
	})
}

func (t *tx) dropOldMails() error {
	return t.exec(sqlOldMails, t.now()-store.KeepDeadMails.Milliseconds(), store.MaxDeadMails)
}

// RetryMail implements store.MailWrites.
func (db *DB) RetryMail(ctx context.Context, id string) error {
	return db.write(ctx, func(t *tx) error {
		var kind store.MailKind
		if err := t.row(`SELECT kind FROM mail WHERE id = ? AND state = 'dead'`, id).Scan(&kind); err != nil {
			return notFound(err)
		}
		return one(t.change(sqlRetryMail, t.now(), t.now()+kind.Life().Milliseconds(), id))
	})
}

// DiscardMail implements store.MailWrites.
func (db *DB) DiscardMail(ctx context.Context, id string) error {
	return db.write(ctx, func(t *tx) error { return one(t.change(sqlDropMail, id)) })
}

// mailError returns a mail server's reason as one short line.
func mailError(why string) string {
	printable := strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(why, "�"))
	return shorten(strings.Join(strings.Fields(printable), " "), store.MaxMailError)
}
