//go:build unix

package pgtest

import (
	"path/filepath"
	"sync"
	"testing"

	"github.com/go-eddy/eddy/internal/testkit"
)

// Pair is two PostgreSQL servers of one test: a primary with one database, and a standby that has every commit before it is acknowledged.
type Pair struct {
	folder, database string

	mu      sync.Mutex
	ends    [2]*server // nil = none is there
	primary int
}

// StartPair starts a primary, with an empty database, and its standby, which run until the test ends. See Database for machines without PostgreSQL.
func StartPair(t testing.TB) *Pair {
	t.Helper()
	p := &Pair{folder: installed(t)}
	t.Cleanup(func() {
		for i := range p.ends {
			p.end(t, i)
		}
	})
	p.set(0, start(t, p.folder, ""))
	p.database = p.ends[0].create(t, nil)
	p.Rejoin(t)
	return p
}

func (p *Pair) set(i int, s *server) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ends[i] = s
}

// end ends a server for good.
func (p *Pair) end(t testing.TB, i int) {
	t.Helper()
	s := p.ends[i]
	if s == nil {
		return
	}
	p.set(i, nil)
	if err := s.close(); err != nil {
		t.Error(err)
	}
}

// URL returns the address of the database on the primary. Any goroutine may call it.
func (p *Pair) URL() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ends[p.primary].url(p.database)
}

// Socket returns the path of a server's socket, 0 or 1, or "" if it is not there. Any goroutine may call it.
func (p *Pair) Socket(i int) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ends[i] == nil {
		return ""
	}
	return filepath.Join(p.ends[i].dir, ".s.PGSQL.5432")
}

// Primary returns which server takes writes: 0 or 1.
func (p *Pair) Primary() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.primary
}

// Stop ends the primary as a crash does.
func (p *Pair) Stop(t testing.TB) {
	t.Helper()
	p.ends[p.primary].control(t, "-m", "immediate", "stop")
}

// Start starts the primary again that Stop has ended.
func (p *Pair) Start(t testing.TB) { t.Helper(); p.ends[p.primary].control(t, "start") }

// Promote makes the standby the primary. The former primary stays as it is.
func (p *Pair) Promote(t testing.TB) {
	t.Helper()
	p.ends[1-p.primary].control(t, "promote")
	p.mu.Lock()
	defer p.mu.Unlock()
	p.primary = 1 - p.primary
}

// Rejoin makes the server that is not the primary its standby, from nothing. What it had is lost.
func (p *Pair) Rejoin(t testing.TB) {
	t.Helper()
	p.end(t, 1-p.primary)
	first := p.ends[p.primary]
	p.set(1-p.primary, start(t, p.folder, first.dir))
	follows := func(state string) func() bool {
		return func() bool {
			var n int
			if err := first.admin.QueryRowContext(t.Context(), `SELECT count(*) FROM pg_stat_replication WHERE `+state).Scan(&n); err != nil {
				t.Fatal(err)
			}
			return n == 1
		}
	}
	testkit.Eventually(t, "the standby follows", follows(`state = 'streaming'`))
	for _, statement := range []string{`ALTER SYSTEM SET synchronous_standby_names = '*'`, `SELECT pg_reload_conf()`} { // not before: a copy must not wait for others
		if _, err := first.admin.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	testkit.Eventually(t, "commits wait for the standby", follows(`sync_state = 'sync'`))
}
