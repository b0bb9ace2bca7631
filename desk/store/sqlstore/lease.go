package sqlstore

import (
	"context"
	"time"

	"github.com/go-eddy/eddy/desk/store"
)

const (
	sqlClaim = `INSERT INTO lease (name, holder, token, until) VALUES (?1, ?2, 1, ?3)
		ON CONFLICT (name) DO UPDATE SET token = lease.token + CASE lease.holder WHEN ?2 THEN 0 ELSE 1 END, holder = ?2, until = ?3
		WHERE lease.holder IN (?2, '') OR lease.until <= ?4`
	sqlToken   = `SELECT token FROM lease WHERE name = ?`
	sqlHolds   = `SELECT count(*) FROM lease WHERE name = ? AND holder = ? AND token = ?`
	sqlRelease = `UPDATE lease SET holder = '', until = 0 WHERE name = ? AND holder = ? AND token = ?`
)

// Claim implements store.Leases.
func (db *DB) Claim(ctx context.Context, name string, life time.Duration) (store.Lease, error) {
	if db.o.Alone {
		return store.Lease{Name: name}, nil
	}
	return written(ctx, db, func(t *tx) (store.Lease, error) {
		now := t.now()
		n, err := t.change(sqlClaim, name, t.me, now+life.Milliseconds(), now)
		if err == nil && n == 0 {
			err = store.ErrLeased
		}
		l := store.Lease{Name: name}
		if err == nil {
			err = t.row(sqlToken, name).Scan(&l.Token)
		}
		return l, err
	})
}

// Release implements store.Leases.
func (db *DB) Release(ctx context.Context, l store.Lease) error {
	if l.Token == 0 {
		return nil
	}
	return db.write(ctx, func(t *tx) error { return t.exec(sqlRelease, l.Name, t.me, l.Token) })
}

// holds refuses the work of a lease that this server does not hold any more. Nobody can take the lease before the
// transaction ends, because one transaction at a time writes.
func (t *tx) holds(l store.Lease) error {
	if l.Token == 0 {
		return nil
	}
	var n int
	err := t.row(sqlHolds, l.Name, t.me, l.Token).Scan(&n)
	if err == nil && n == 0 {
		err = store.ErrLeased
	}
	return err
}
