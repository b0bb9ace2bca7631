package sqlstore

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/go-eddy/eddy/desk/store"
)

const (
	packFirst = 10 * time.Second // after Open, when others have more to do
	packEvery = 5 * time.Minute
)

// packer packs the days that are over, so that reports read them fast. It owns one goroutine that ends on stop.
type packer struct {
	db     *DB
	ctx    context.Context
	cancel context.CancelFunc
	done   sync.WaitGroup
}

func newPacker(db *DB) *packer {
	p := &packer{db: db}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	return p
}

func (p *packer) start() { p.done.Go(p.run) }

func (p *packer) stop() {
	p.cancel()
	p.done.Wait()
}

func (p *packer) run() {
	for wait := packFirst; ; wait = packEvery {
		select {
		case <-p.ctx.Done():
			return
		case <-time.After(wait):
		}
		if err := p.db.PackDays(p.ctx); err != nil && p.ctx.Err() == nil && !errors.Is(err, store.ErrStopped) {
			p.db.o.Logger.Warn("store: days could not be packed; their reports are right and take longer", "err", err)
		}
	}
}

// PackDays packs the days before today that are not packed. The store does it by itself from time to time; any goroutine
// may ask for it earlier.
func (db *DB) PackDays(ctx context.Context) error {
	for _, tags := range []bool{false, true} {
		for before := db.Now().UnixMilli() / dayMS; ; {
			day, rev, err := db.back.toPack(ctx, rollupsOf(tags), before)
			if errors.Is(err, store.ErrNotFound) {
				break
			}
			if err == nil {
				err = db.packDay(ctx, rollupsOf(tags), day, rev)
			}
			if err != nil {
				return err
			}
			before = day
		}
	}
	return nil
}

// toPack returns the last day before another that is not packed.
func (r *reader) toPack(ctx context.Context, sql rollups, before int64) (day, rev int64, err error) {
	err = r.db.QueryRowContext(ctx, sql.toPack, before).Scan(&day, &rev)
	return day, rev, notFound(err)
}

// packDay packs a day, unless it has changed since it had the revision.
func (db *DB) packDay(ctx context.Context, sql rollups, day, rev int64) error {
	p := newPacking(day)
	q := &store.ReportQuery{From: day * dayMS, To: (day + 1) * dayMS}
	if err := db.back.eachFact(ctx, sql.rows, q, func(_ int64, _ []byte, o *origin, f *fact) { p.add(o, f) }); err != nil {
		return err
	}
	return db.write(ctx, func(t *tx) error { return t.exec(sql.packed, day, rev, p.bytes()) })
}
