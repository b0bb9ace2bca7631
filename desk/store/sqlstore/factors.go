package sqlstore

import (
	"context"

	"github.com/go-eddy/eddy/desk/store"
)

// Factor implements store.FactorReader.
func (r *reader) Factor(ctx context.Context, agent string) (f store.Factor, err error) {
	err = r.db.QueryRowContext(ctx, `SELECT secret, step, created, (SELECT count(*) FROM agent_recovery c WHERE c.agent = f.agent)
		FROM agent_factor f WHERE f.agent = ?`, agent).Scan(&f.Secret, &f.Step, &f.Created, &f.Recovery)
	return f, notFound(err)
}

// SetFactor implements store.FactorWrites.
func (db *DB) SetFactor(ctx context.Context, agent string, f store.Factor, recovery []store.Token, keep store.Token) error {
	return exists("second factor", db.write(ctx, func(t *tx) error {
		if err := one(t.change(`INSERT INTO agent_factor (agent, secret, step, created) SELECT id, ?, ?, ? FROM agent WHERE id = ?`,
			f.Secret, f.Step, t.now(), agent)); err != nil {
			return err
		}
		if err := t.setRecovery(agent, recovery); err != nil {
			return err
		}
		return t.endLogins(agent, keep)
	}))
}

func (t *tx) setRecovery(agent string, codes []store.Token) error {
	if err := t.exec(`DELETE FROM agent_recovery WHERE agent = ?`, agent); err != nil {
		return err
	}
	for i := range codes {
		if err := t.exec(`INSERT INTO agent_recovery (agent, code) VALUES (?, ?)`, agent, codes[i][:]); err != nil {
			return err
		}
	}
	return nil
}

// factor returns nil if the account has a second factor, else store.ErrNotFound.
func (t *tx) factor(agent string) error {
	var step int64
	return notFound(t.row(`SELECT step FROM agent_factor WHERE agent = ?`, agent).Scan(&step))
}

// UseFactor implements store.FactorWrites.
func (db *DB) UseFactor(ctx context.Context, agent string, step int64) error {
	return db.write(ctx, func(t *tx) error {
		n, err := t.change(`UPDATE agent_factor SET step = ? WHERE agent = ? AND (step < ? OR step > ?)`, step, agent, step, step+2*store.FactorWindow)
		if err != nil || n > 0 {
			return err
		}
		if err := t.factor(agent); err != nil {
			return err
		}
		return store.ErrConflict
	})
}

// UseRecovery implements store.FactorWrites.
func (db *DB) UseRecovery(ctx context.Context, agent string, code store.Token) (int, error) {
	left := make(chan int, 1)
	err := db.write(ctx, func(t *tx) error {
		if err := one(t.change(`DELETE FROM agent_recovery WHERE agent = ? AND code = ?`, agent, code[:])); err != nil {
			return err
		}
		var n int
		if err := t.row(`SELECT count(*) FROM agent_recovery WHERE agent = ?`, agent).Scan(&n); err != nil {
			return err
		}
		left <- n
		return nil
	})
	if err != nil {
		return 0, err
	}
	return <-left, nil
}

// SetRecovery implements store.FactorWrites.
func (db *DB) SetRecovery(ctx context.Context, agent string, codes []store.Token) error {
	return db.write(ctx, func(t *tx) error {
		if err := t.factor(agent); err != nil {
			return err
		}
		return t.setRecovery(agent, codes)
	})
}

// RemoveFactor implements store.FactorWrites.
func (db *DB) RemoveFactor(ctx context.Context, agent string, keep store.Token) error {
	return db.write(ctx, func(t *tx) error {
		if err := one(t.change(`DELETE FROM agent_factor WHERE agent = ?`, agent)); err != nil {
			return err
		}
		if err := t.setRecovery(agent, nil); err != nil {
			return err
		}
		return t.endLogins(agent, keep)
	})
}
