package files

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/go-eddy/eddy/desk/lease"
	"github.com/go-eddy/eddy/desk/store"
)

// Scanner decides whether a file may be handed out. Scan runs on a goroutine of the Keeper, one file at a time. An error
// means that it could not decide, and Scan is called again later. path is the file on the disk, or a copy of it, which must
// not be changed.
type Scanner interface {
	Scan(ctx context.Context, path string, a store.Attachment) (ok bool, err error)
}

// KeeperOptions configure a Keeper. Store and Files are required.
type KeeperOptions struct {
	Store   store.Store
	Files   *Store
	Scanner Scanner    // nil: files are ready at once
	Hold    lease.Hold // one of several servers does everything but adding up; default lease.Alone

	Every       time.Duration // between two rounds, default 10 min
	Loose       time.Duration // how long a file may wait to be sent, default 24 h
	Grace       time.Duration // how long a file may be in the store without a row, default 1 h
	ScanTimeout time.Duration // default 1 min
	ScanRetry   time.Duration // after a failed scan, default 1 min

	Logger *slog.Logger     // default slog.Default()
	Now    func() time.Time // of the store's rows, default time.Now
}

// Keeper does the background work on files, and removes closed conversations that their site keeps no longer. It also
// removes files that were never sent and files without a row, adds up the sizes by site, and has new files scanned. Its
// work is bounded per round.
type Keeper struct {
	o      KeeperOptions
	wake   chan struct{}
	asked  chan struct{} // see Erase
	cancel context.CancelFunc
	done   sync.WaitGroup
	shard  int   // the next shard to be checked
	failed error // why this round removes no more files

	mu    sync.Mutex
	sites map[string]int64
}

const (
	looseAtOnce    = 100
	looseBatches   = 50
	closedAtOnce   = 200 // rows of conversations in one command, which other commands wait for
	closedBatches  = 500
	shardsPerRound = 32
	scanAtOnce     = 256
	roundTimeout   = time.Minute
)

// NewKeeper returns a Keeper; Start makes it work.
func NewKeeper(o KeeperOptions) (*Keeper, error) {
	if o.Store == nil || o.Files == nil {
		return nil, errors.New("files: KeeperOptions.Store and KeeperOptions.Files are required")
	}
	for _, f := range []struct {
		value *time.Duration
		zero  time.Duration
	}{{&o.Every, 10 * time.Minute}, {&o.Loose, 24 * time.Hour}, {&o.Grace, time.Hour}, {&o.ScanTimeout, time.Minute}, {&o.ScanRetry, time.Minute}} {
		if *f.value <= 0 {
			*f.value = f.zero
		}
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Hold == nil {
		o.Hold = lease.Alone
	}
	return &Keeper{o: o, wake: make(chan struct{}, 1), asked: make(chan struct{}, 1), sites: make(map[string]int64)}, nil
}

// Start reads the sizes by site and begins to work. Call it once.
func (k *Keeper) Start(ctx context.Context) error {
	if err := k.addUp(ctx); err != nil {
		return err
	}
	ctx, k.cancel = context.WithCancel(context.WithoutCancel(ctx))
	k.done.Go(func() { k.adding(ctx) })
	k.done.Go(func() { k.o.Hold(ctx, k.work) })
	return nil
}

func (k *Keeper) work(ctx context.Context) {
	var scanning sync.WaitGroup
	if k.o.Scanner != nil {
		scanning.Go(func() { k.scanning(ctx) })
	}
	k.rounds(ctx)
	scanning.Wait()
}

// adding adds the files up from time to time.
func (k *Keeper) adding(ctx context.Context) {
	tick := time.NewTicker(k.o.Every)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		if err := k.addUp(ctx); err != nil && ctx.Err() == nil {
			k.o.Logger.Warn("desk: the files could not be added up", "err", err)
		}
	}
}

// Stop ends the work and returns when it has ended. It does nothing to a Keeper that was not started.
func (k *Keeper) Stop() {
	if k.cancel != nil {
		k.cancel()
	}
	k.done.Wait()
}

// SiteBytes returns the size of all files of a site.
func (k *Keeper) SiteBytes(site string) int64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.sites[site]
}

// Added counts a new file, and has it scanned if its state says so.
func (k *Keeper) Added(a store.Attachment, site string) {
	k.mu.Lock()
	k.sites[site] += a.Size
	k.mu.Unlock()
	if a.State == store.FileChecking {
		select {
		case k.wake <- struct{}{}:
		default: // the scanner is awake already
		}
	}
}

func (k *Keeper) rounds(ctx context.Context) {
	tick := time.NewTicker(k.o.Every)
	defer tick.Stop()
	work := k.round
	for {
		if err := work(ctx); err != nil && ctx.Err() == nil {
			k.o.Logger.Warn("desk: clearing files away failed", "err", err)
		}
		select {
		case <-tick.C:
			work = k.round
		case <-k.asked:
			work = k.eraseAsked
		case <-ctx.Done():
			return
		}
	}
}

// Round does everything but scanning once, which the Keeper does from time to time. One goroutine at a time may call it.
func (k *Keeper) Round(ctx context.Context) error { return errors.Join(k.round(ctx), k.addUp(ctx)) }

// round clears away what is left of erased contacts, conversations kept long enough, files not sent in time, and in a part of the directories what has
// no row.
func (k *Keeper) round(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, roundTimeout)
	defer cancel()
	k.failed = nil
	err := errors.Join(k.erase(ctx), k.dropClosed(ctx), k.dropLoose(ctx))
	if k.failed == nil {
		err = errors.Join(err, k.o.Files.o.Place.Sweep(ctx, time.Now().Add(-k.o.Grace)))
	}
	for i := 0; i < shardsPerRound && k.failed == nil; i++ {
		k.failed = k.lookThrough(ctx, k.shard)
		k.shard = (k.shard + 1) % Shards
	}
	return errors.Join(err, k.failed)
}

// addUp sets the sums of the sites.
func (k *Keeper) addUp(ctx context.Context) error {
	sites, err := k.o.Store.Cold().SiteBytes(ctx)
	if err != nil {
		return err
	}
	k.mu.Lock()
	k.sites = sites
	k.mu.Unlock()
	return nil
}

// dropLoose removes files that were uploaded and never sent. The row goes first, so that nobody can send the file any
// more.
func (k *Keeper) dropLoose(ctx context.Context) error {
	before := k.o.Now().Add(-k.o.Loose).UnixMilli()
	for range looseBatches {
		gone, err := k.o.Store.DropLoose(ctx, before, looseAtOnce)
		if err != nil {
			return err
		}
		k.remove(ctx, gone)
		if len(gone) < looseAtOnce {
			return nil
		}
	}
	return nil
}

// dropClosed removes conversations that were closed longer ago than their site keeps them, and that nobody can reopen.
func (k *Keeper) dropClosed(ctx context.Context) error {
	sites, err := k.o.Store.Cold().Sites(ctx)
	batches := closedBatches
	for i := 0; err == nil && i < len(sites); i++ {
		s := &sites[i]
		if s.Settings.Keeps() == 0 {
			continue
		}
		before := k.o.Now().Add(-max(s.Settings.Keeps(), s.ReopenWindow)).UnixMilli()
		gone, more := 0, true
		for ; err == nil && more && batches > 0; batches-- {
			var d store.Dropped
			d, err = k.o.Store.DropClosed(ctx, s.ID, before, closedAtOnce)
			gone, more = gone+d.Conversations, d.More
			k.remove(ctx, d.Files)
		}
		if gone > 0 {
			k.o.Logger.Info("desk: chats were kept long enough and have been deleted", "site", s.Key, "chats", gone)
		}
	}
	return err
}

// remove removes the bytes of files whose rows are gone. Once it fails, the round goes on with rows only, because nobody
// waits for a place that fails to delete what is in the database. A later round finds the files that stay.
func (k *Keeper) remove(ctx context.Context, gone []store.Attachment) {
	if k.failed != nil || len(gone) == 0 {
		return
	}
	names := make([]string, len(gone))
	for i := range gone {
		names[i] = gone[i].Storage
	}
	k.failed = k.o.Files.Remove(ctx, names...)
}

// lookThrough removes the files of one directory that have no row. A crash may leave such files, and a scanner refuse
// them.
func (k *Keeper) lookThrough(ctx context.Context, shard int) error {
	return k.o.Files.each(ctx, shard, time.Now().Add(-k.o.Grace), func(names []string) error {
		known, err := k.o.Store.Cold().Stored(ctx, names)
		if err != nil {
			return err
		}
		return k.o.Files.Remove(ctx, slices.DeleteFunc(names, func(name string) bool { return known[name] })...)
	})
}

// scanning scans the files that wait for it, the oldest first. The rows are the queue, so a restart loses nothing.
func (k *Keeper) scanning(ctx context.Context) {
	tick := time.NewTicker(k.o.ScanRetry)
	defer tick.Stop()
	later := make(map[string]time.Time) // files that could not be scanned, and when they are tried again
	for {
		if err := k.scanAll(ctx, later); err != nil && ctx.Err() == nil {
			k.o.Logger.Warn("desk: files could not be scanned", "err", err)
		}
		select {
		case <-k.wake:
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

func (k *Keeper) scanAll(ctx context.Context, later map[string]time.Time) error {
	waiting, err := k.o.Store.Cold().Checking(ctx, scanAtOnce)
	if err != nil {
		return err
	}
	still := make(map[string]bool, len(waiting))
	var errs []error
	for _, a := range waiting {
		still[a.ID] = true
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if time.Now().Before(later[a.ID]) {
			continue
		}
		if err := k.scan(ctx, a); err != nil {
			later[a.ID] = time.Now().Add(k.o.ScanRetry)
			if errs = append(errs, err); errors.Is(err, ErrUnavailable) {
				break // so would be the others
			}
		}
	}
	for id := range later {
		if !still[id] {
			delete(later, id)
		}
	}
	return errors.Join(errs...)
}

// scan has the scanner decide about one file.
func (k *Keeper) scan(ctx context.Context, a store.Attachment) (err error) {
	defer func() {
		if v := recover(); v != nil {
			k.o.Logger.Error("desk: panic in the scanner", "panic", v)
			err = errors.New("files: panic in the scanner")
		}
	}()
	path, done, err := k.o.Files.o.Place.Local(ctx, a.Storage)
	if err != nil {
		return err
	}
	defer done()
	limited, cancel := context.WithTimeout(ctx, k.o.ScanTimeout)
	ok, err := k.o.Scanner.Scan(limited, path, a)
	cancel()
	if err != nil {
		return err
	}
	decided, err := k.o.Store.DecideAttachment(ctx, a.ID, ok)
	if err != nil {
		return err
	}
	if decided.State == store.FileRefused {
		return k.o.Files.Remove(ctx, decided.Storage)
	}
	return nil
}
