package desk

import (
	"context"
	"log/slog"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-eddy/eddy/desk/auth"
	"github.com/go-eddy/eddy/desk/store"
	"github.com/go-eddy/eddy/desk/store/sqlstore"
	"github.com/go-eddy/eddy/desk/store/sqlstore/sqlitetest"
	"github.com/go-eddy/eddy/internal/testkit"
)

// TestLimitsOfTwoServers: a limit of an address counts for two servers together.
func TestLimitsOfTwoServers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "desk.db")
	sqlitetest.Prepare(t, path)
	var servers []*limits
	var tables []*auth.Buckets
	var conns []*auth.Held
	for range 2 {
		db, err := sqlstore.Open(t.Context(), sqlstore.Options{Path: path, Wait: time.Hour, BusyTimeout: time.Hour, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		d := &Desk{o: Options{Now: db.Now, Logger: slog.New(slog.DiscardHandler)}, store: db}
		if err := d.openLimits(t.Context()); err != nil {
			t.Fatal(err)
		}
		servers = append(servers, d.limits)
		tables = append(tables, d.limits.counting().Count("visitors", auth.NewBuckets(0, 100, 1000)))
		conns = append(conns, d.limits.counting().Hold("conns", auth.NewHeld()))
		t.Cleanup(func() {
			d.limits.stop()
			if err := db.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	now := time.Now()
	spend := func(server, n int) (spent int) {
		for range n {
			if tables[server].Allow("192.0.2.1", now) {
				spent++
			}
		}
		return spent
	}
	exchange := func() {
		t.Helper()
		for _, i := range []int{0, 1, 0} {
			if err := servers[i].exchange(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	for i, c := range []struct{ server, spend, want int }{{0, 60, 60}, {1, 30, 30}, {0, 8, 8}, {1, 100, 2}, {0, 1, 0}} {
		if got := spend(c.server, c.spend); got != c.want {
			t.Errorf("step %d: server %d has let %d in, want %d", i, c.server, got, c.want)
		}
		exchange()
	}
	for i := range 100 {
		if _, ok := conns[i%2].Enter("192.0.2.1", 20, now); ok != (i < 20) {
			t.Errorf("connection %d: %v", i, ok)
		}
		exchange()
	}
	for _, l := range servers {
		l.start()
	}
	tables[0].Allow("192.0.2.2", now)
	testkit.Eventually(t, "the other server to hear of it by itself", func() bool { return tables[1].Len() == 2 })
	var alone *limits
	alone.start()
	alone.stop()
	if alone.counting() != nil {
		t.Error("a server that is alone shares")
	}
}

// told is a store that others cannot be seen in. It notes when it was told something.
type told struct {
	store.Store
	store.Reader
	at chan time.Time
}

func (s *told) Hot() store.Reader { return s }

func (s *told) ShareSpent(_ context.Context, all []store.Spent) error {
	if len(all) > 0 {
		s.at <- time.Now()
	}
	return nil
}

func (s *told) OthersSpent(_ context.Context, after int64) ([]store.Spent, int64, bool, error) {
	return nil, after, false, nil
}

// TestLimitsAreToldInTime: the others are told once a second, at once if a tenth of a limit is spent, and not more often than that.
func TestLimitsAreToldInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &told{at: make(chan time.Time, 100)}
		l := &limits{shared: auth.NewShared([]byte("secret")), store: s, now: time.Now, logger: slog.New(slog.DiscardHandler)}
		table := l.shared.Count("visitors", auth.NewBuckets(0, 100, 10))
		l.start()
		<-time.After(10 * limitsEvery)
		begin := time.Now()
		table.Allow("one", begin)
		if took := (<-s.at).Sub(begin); took > limitsEvery+limitsPause || took < limitsPause {
			t.Errorf("told after %v", took)
		}
		<-time.After(limitsPause)
		synctest.Wait()
		begin = time.Now()
		for range 10 {
			table.Allow("two", begin)
		}
		if took := (<-s.at).Sub(begin); took > limitsPause {
			t.Errorf("a tenth was told after %v", took)
		}
		for range 10 {
			table.Allow("two", begin)
		}
		if took := (<-s.at).Sub(begin); took != limitsPause {
			t.Errorf("the next tenth was told after %v", took)
		}
		l.stop()
	})
}
