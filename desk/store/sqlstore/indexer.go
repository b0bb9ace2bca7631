package sqlstore

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-eddy/eddy/desk/store"
)

const (
	indexBatch    = 100              // messages in one command, which other commands wait for
	indexAgain    = time.Second      // pause after a command that was refused
	indexAttempts = 10               // failures in a row before it gives up; the next start goes on
	indexSay      = 10 * time.Second // between two lines of progress in the log
)

// indexer adds the messages that are older than the search index to it, in small commands among those of others. The
// rows themselves show what is done, so after a restart it goes on where it was. It owns one goroutine that ends when
// nothing is left or on stop.
type indexer struct {
	db     *DB
	left   atomic.Int64 // messages, -1 = not counted yet
	ctx    context.Context
	cancel context.CancelFunc
	done   sync.WaitGroup
}

func newIndexer(db *DB) *indexer {
	x := &indexer{db: db}
	x.ctx, x.cancel = context.WithCancel(context.Background())
	x.left.Store(-1)
	return x
}

func (x *indexer) start() { x.done.Go(x.run) }

func (x *indexer) stop() {
	x.cancel()
	x.done.Wait()
}

func (x *indexer) run() {
	var total int64
	err := x.insist(func() error {
		return x.db.back.db.QueryRowContext(x.ctx, `SELECT count(*) FROM message WHERE doc IS NULL AND kind IN ('text', 'note', 'file')`).Scan(&total)
	})
	if err != nil {
		x.failed(err)
		return
	}
	x.left.Store(total)
	if total == 0 {
		return
	}
	log := x.db.o.Logger
	log.Info("store: older messages are being added to the search", "messages", total)
	said := time.Now()
	for x.left.Load() > 0 {
		var n int
		err := x.insist(func() (err error) {
			n, err = x.batch()
			return err
		})
		if err != nil {
			x.failed(err)
			return
		}
		left := max(x.left.Load()-int64(n), 0)
		if n < indexBatch { // that was the last one
			left = 0
		}
		x.left.Store(left)
		if time.Since(said) >= indexSay {
			said = time.Now()
			log.Info("store: older messages are being added to the search", "messages", total, "left", left)
		}
	}
	log.Info("store: every message can be searched", "added", total)
}

// insist tries do a few times, with pauses.
func (x *indexer) insist(do func() error) (err error) {
	for range indexAttempts {
		if err = do(); err == nil || !x.wait(indexAgain) {
			return err
		}
	}
	return err
}

func (x *indexer) failed(err error) {
	if x.ctx.Err() == nil && !errors.Is(err, store.ErrStopped) {
		x.db.o.Logger.Error("store: older messages cannot be searched until the next start", "left", x.left.Load(), "err", err)
	}
}

// wait returns false when the store is closed before d is over.
func (x *indexer) wait(d time.Duration) bool {
	select {
	case <-x.ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

func (x *indexer) batch() (int, error) {
	added := make(chan int, 1)
	err := x.db.write(x.ctx, func(t *tx) error {
		n, err := t.indexOld(indexBatch)
		added <- n
		return err
	})
	if err != nil {
		return 0, err
	}
	return <-added, nil
}
