package sqlstore

import (
	"context"

	"github.com/go-eddy/eddy/desk/store"
)

const sqlInsertAudit = `INSERT INTO audit_log (at, who_kind, who_id, who_name, action, target, detail, ip) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`

// auditTextChars and auditNameChars bound texts whose length others may have chosen.
const (
	auditTextChars = 500
	auditNameChars = 200
)

// audit appends a line to the audit log. The table itself refuses changes of its rows.
func (t *tx) audit(a store.Audit) (store.Outcome, error) {
	return store.Outcome{}, t.exec(sqlInsertAudit, t.now(), string(a.Who.Kind), shorten(a.Who.ID, auditNameChars), shorten(a.Who.Name, auditNameChars),
		a.Action, shorten(a.Target, auditNameChars), shorten(a.Detail, auditTextChars), a.IP)
}

// Audit implements store.Reader.
func (r *reader) Audit(ctx context.Context, q store.AuditQuery) ([]store.AuditRow, error) {
	if q.Limit < 1 || q.Limit > store.MaxAuditPage {
		q.Limit = store.MaxAuditPage
	}
	query := `SELECT id, at, who_kind, who_id, who_name, action, target, detail, ip FROM audit_log WHERE TRUE`
	var args []any
	also := func(condition string, set bool, arg any) {
		if set {
			query += ` AND ` + condition
			args = append(args, arg)
		}
	}
	also(`who_id = ?`, q.Who != "", q.Who)
	also(`action = ?`, q.Action != "", q.Action)
	also(`target = ?`, q.Target != "", q.Target)
	also(`at >= ?`, q.From != 0, q.From)
	also(`at < ?`, q.To != 0, q.To)
	also(`id < ?`, q.Before != 0, q.Before)
	return list(ctx, r.db, func(s scanner) (a store.AuditRow, err error) {
		err = s.Scan(&a.ID, &a.Time, &a.Who.Kind, &a.Who.ID, &a.Who.Name, &a.Action, &a.Target, &a.Detail, &a.IP)
		return a, err
	}, query+` ORDER BY id DESC LIMIT ?`, append(args, q.Limit)...)
}
