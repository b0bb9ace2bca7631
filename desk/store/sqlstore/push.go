package sqlstore

import (
	"context"
	"time"

	"github.com/go-eddy/eddy/desk/store"
)

const (
	sqlPushes = `SELECT ` + agentColumns + `, p.login, p.endpoint, p.key, p.auth, p.locale FROM agent_session s
		JOIN push_subscription p ON p.login = s.token JOIN agent a ON a.id = s.agent
		WHERE s.agent = ? AND s.expires > ? AND s.seen >= ? AND NOT a.disabled ORDER BY p.saved DESC, p.login`
	sqlPushLogin = `SELECT s.agent FROM agent_session s JOIN agent a ON a.id = s.agent WHERE s.token = ? AND s.expires > ? AND NOT a.disabled`
	sqlMovePush  = `DELETE FROM push_subscription WHERE endpoint = ? AND login <> ?`
	sqlSavePush  = `INSERT INTO push_subscription (login, endpoint, key, auth, locale, saved) VALUES (?, ?, ?, ?, ?, ?)
		ON CONFLICT (login) DO UPDATE SET endpoint = excluded.endpoint, key = excluded.key, auth = excluded.auth, saved = excluded.saved,
			locale = CASE excluded.locale WHEN '' THEN push_subscription.locale ELSE excluded.locale END`
	sqlOldPushes = `DELETE FROM push_subscription WHERE login IN (SELECT p.login FROM agent_session s JOIN push_subscription p ON p.login = s.token
		WHERE s.agent = ? ORDER BY p.login = ? DESC, p.saved DESC LIMIT 9223372036854775807 OFFSET ?)`
	sqlDropPush    = `DELETE FROM push_subscription WHERE login = ?1 AND ?2 IN ('', endpoint)`
	sqlDropPushes  = `DELETE FROM push_subscription WHERE login IN (SELECT token FROM agent_session WHERE agent = ?)`
	sessionHasPush = `EXISTS (SELECT 1 FROM push_subscription WHERE login = s.token)`
)

func scanPush(r scanner) (s store.PushSubscription, err error) {
	var login []byte
	s.Agent, err = scanAgent(r, &login, &s.Endpoint, &s.Key, &s.Auth, &s.Locale)
	s.Agent.Password = ""
	copy(s.Login[:], login)
	return s, err
}

// PushSubscriptions implements store.PushReader.
func (r *reader) PushSubscriptions(ctx context.Context, agent string, now, since time.Time) ([]store.PushSubscription, error) {
	return list(ctx, r.db, scanPush, sqlPushes, agent, now.UnixMilli(), since.UnixMilli())
}

// SavePush implements store.PushWrites.
func (db *DB) SavePush(ctx context.Context, s store.PushSubscription) error {
	if err := s.Check(); err != nil {
		return err
	}
	return db.write(ctx, func(t *tx) error {
		var agent string
		if err := t.row(sqlPushLogin, s.Login[:], t.now()).Scan(&agent); err != nil {
			return notFound(err)
		}
		if err := t.exec(sqlMovePush, s.Endpoint, s.Login[:]); err != nil {
			return err
		}
		if err := t.exec(sqlSavePush, s.Login[:], s.Endpoint, s.Key, s.Auth, s.Locale, t.now()); err != nil {
			return err
		}
		return t.exec(sqlOldPushes, agent, s.Login[:], store.MaxPush)
	})
}

// DropPush implements store.PushWrites.
func (db *DB) DropPush(ctx context.Context, login store.Token, endpoint string) error {
	return db.write(ctx, func(t *tx) error { return one(t.change(sqlDropPush, login[:], endpoint)) })
}
