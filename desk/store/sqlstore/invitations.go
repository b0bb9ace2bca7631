package sqlstore

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/go-eddy/eddy/desk/perm"
	"github.com/go-eddy/eddy/desk/store"
)

const (
	invitationColumns = `i.id, i.name, i.role, i.grps, i.by_id, i.by_name, i.created, i.expires, i.ended, i.agent`

	sqlInvitation = `SELECT ` + invitationColumns + ` FROM invitation i JOIN agent a ON a.id = i.by_id
		WHERE i.token = ? AND i.ended = 0 AND a.role = ? AND NOT a.disabled`
	sqlInvitations = `SELECT ` + invitationColumns + ` FROM invitation i WHERE i.ended = 0 ORDER BY i.created DESC, i.id DESC LIMIT ?`
	sqlInvited     = `SELECT ` + invitationColumns + ` FROM invitation i WHERE i.ended > 0 ORDER BY i.ended DESC, i.created DESC LIMIT ?`
)

func scanInvitation(r scanner) (store.Invitation, error) {
	v := store.Invitation{By: store.Actor{Kind: store.Agent}}
	var groups string
	err := r.Scan(&v.ID, &v.Name, &v.Role, &groups, &v.By.ID, &v.By.Name, &v.Created, &v.Expires, &v.Ended, &v.Agent)
	if groups != "" {
		v.Groups = strings.Split(groups, ",")
	}
	return v, notFound(err)
}

// unexpired returns an invitation that was read, if it has not expired.
func unexpired(v store.Invitation, err error, now time.Time) (store.Invitation, error) {
	if err == nil && v.Expires <= now.UnixMilli() {
		return store.Invitation{}, store.ErrExpired
	}
	return v, err
}

// Invitation implements store.InvitationReader.
func (r *reader) Invitation(ctx context.Context, t store.Token, now time.Time) (store.Invitation, error) {
	v, err := scanInvitation(r.db.QueryRowContext(ctx, sqlInvitation, t[:], string(perm.Admin)))
	return unexpired(v, err, now)
}

// Invitations implements store.InvitationReader.
func (r *reader) Invitations(ctx context.Context) ([]store.Invitation, error) {
	open, err := list(ctx, r.db, scanInvitation, sqlInvitations, store.MaxInvitations)
	if err != nil {
		return nil, err
	}
	ended, err := list(ctx, r.db, scanInvitation, sqlInvited, store.MaxInvitations)
	return append(open, ended...), err
}

// CreateInvitation implements store.InvitationWrites.
func (db *DB) CreateInvitation(ctx context.Context, v store.Invitation, token store.Token) (store.Invitation, error) {
	now := db.Now()
	if err := v.Check(now); err != nil {
		return v, err
	}
	id, err := newID()
	if err != nil {
		return v, err
	}
	v.ID, v.Created, v.Ended, v.Agent = id, now.UnixMilli(), 0, ""
	return v, exists("invitation", db.write(ctx, func(t *tx) error {
		old := now.Add(-store.MaxInvitationLife).UnixMilli()
		if err := t.exec(`DELETE FROM invitation WHERE ended = 0 AND expires <= ?`, old); err != nil {
			return err
		}
		var n int
		if err := t.row(`SELECT count(*) FROM invitation WHERE ended = 0`).Scan(&n); err != nil {
			return err
		}
		if n >= store.MaxInvitations {
			return store.Invalid{{Field: "invitations", Reason: store.ReasonMany, Limit: store.MaxInvitations}}
		}
		return t.exec(`INSERT INTO invitation (id, token, name, role, grps, by_id, by_name, created, expires, ended, agent) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 0, '')`,
			v.ID, token[:], v.Name, string(v.Role), strings.Join(v.Groups, ","), v.By.ID, v.By.Name, v.Created, v.Expires)
	}))
}

// AcceptInvitation implements store.InvitationWrites.
func (db *DB) AcceptInvitation(ctx context.Context, token store.Token, a store.AgentAccount, who store.Identity) (store.AgentAccount, error) {
	id, err := newID()
	if err != nil {
		return a, err
	}
	made := make(chan store.AgentAccount, 1)
	err = exists("agent "+a.Login, db.write(ctx, func(t *tx) error {
		v, err := scanInvitation(t.row(sqlInvitation, token[:], string(perm.Admin)))
		if v, err = unexpired(v, err, db.Now()); err != nil {
			return err
		}
		a := a
		a.ID, a.Role, a.NoChats = id, v.Role, !v.Role.TakesChats()
		if err := t.createAgent(a); err != nil {
			return err
		}
		if who != (store.Identity{}) {
			if err := t.link(a.ID, who); err != nil {
				return err
			}
			a.Linked = true
		}
		for _, g := range v.Groups {
			if err := t.join(g, a.ID); err != nil && !errors.Is(err, store.ErrNotFound) {
				return err
			}
		}
		made <- a
		return t.exec(`UPDATE invitation SET ended = ?, agent = ? WHERE id = ?`, max(t.now(), 1), a.ID, v.ID)
	}))
	if err != nil {
		return a, err
	}
	return <-made, nil
}

// RevokeInvitation implements store.InvitationWrites.
func (db *DB) RevokeInvitation(ctx context.Context, id string) error {
	return db.write(ctx, func(t *tx) error {
		return one(t.change(`UPDATE invitation SET ended = ? WHERE id = ? AND ended = 0`, max(t.now(), 1), id))
	})
}
