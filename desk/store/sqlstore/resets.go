package sqlstore

import (
	"context"
	"errors"
	"time"

	"github.com/go-eddy/eddy/desk/store"
)

const (
	sqlResetAccount = `SELECT ` + agentColumns + ` FROM password_reset p JOIN agent a ON a.id = p.agent WHERE p.token = ? AND p.expires > ? AND NOT a.disabled`
	sqlInsertReset  = `INSERT INTO password_reset (token, agent, expires) SELECT ?, id, ? FROM agent WHERE id = ? AND email = ? AND email <> '' AND NOT disabled`
	sqlLiveResets   = `SELECT (SELECT count(*) FROM password_reset WHERE agent = ?1 AND expires > ?2) + (SELECT count(*) FROM mail WHERE agent = ?1 AND kind = 'reset' AND state = 'queued')`
	sqlDropResets   = `DELETE FROM password_reset WHERE agent = ? OR expires <= ?`
)

// ResetAccount implements store.ResetReader.
func (r *reader) ResetAccount(ctx context.Context, t store.Token, now time.Time) (store.AgentAccount, error) {
	return scanAgent(r.db.QueryRowContext(ctx, sqlResetAccount, t[:], now.UnixMilli()))
}

// NewReset implements store.ResetWrites.
func (db *DB) NewReset(ctx context.Context, agent, email string, token store.Token) error {
	return db.write(ctx, func(t *tx) error {
		return one(t.change(sqlInsertReset, token[:], t.now()+store.ResetLife.Milliseconds(), agent, email))
	})
}

// UseReset implements store.ResetWrites.
func (db *DB) UseReset(ctx context.Context, token store.Token, hash string) error {
	return db.write(ctx, func(t *tx) error {
		a, err := scanAgent(t.row(sqlResetAccount, token[:], t.now()))
		if err != nil {
			return err
		}
		if err := t.exec(`UPDATE agent SET password = ? WHERE id = ?`, hash, a.ID); err != nil {
			return err
		}
		return t.passwordChanged(a.ID, store.Token{})
	})
}

// passwordChanged ends what the password before has opened: the logins except keep, all push subscriptions, and the links
// of mails.
func (t *tx) passwordChanged(agent string, keep store.Token) error {
	if err := t.exec(sqlDropResets, agent, t.now()); err != nil {
		return err
	}
	if err := t.exec(sqlDropPushes, agent); err != nil {
		return err
	}
	return t.endLogins(agent, keep)
}

// askReset queues the mail for a forgotten password, where there is an account that gets one, and writes a line of the
// audit log in any case.
func (t *tx) askReset(c store.AskReset) (store.Outcome, error) {
	line := store.Audit{Action: store.AuditReset, Target: "no such account", IP: c.IP}
	var m store.Mail
	var disabled bool
	err := notFound(t.row(`SELECT id, email, locale, disabled FROM agent WHERE login = ?`, c.Login).Scan(&m.Agent, &m.To, &m.Locale, &disabled))
	if err == nil {
		line.Target = "agent " + m.Agent
		line.Detail, err = t.queueReset(m, disabled)
	}
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return store.Outcome{}, err
	}
	return t.audit(line)
}

// queueReset queues the mail, and returns what became of it in a few words.
func (t *tx) queueReset(m store.Mail, disabled bool) (string, error) {
	var live int
	if err := t.row(sqlLiveResets, m.Agent, t.now()).Scan(&live); err != nil {
		return "", err
	}
	switch {
	case disabled:
		return "no mail: disabled", nil
	case m.To == "":
		return "no mail: no address", nil
	case live >= store.MaxResets:
		return "no mail: too many", nil
	}
	m.Kind = store.MailReset
	_, err := t.queueMail(m)
	if errors.Is(err, store.ErrMailFull) {
		return "no mail: the queue is full", nil
	}
	return "mail", err
}
