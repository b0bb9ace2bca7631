//go:build unix

package admin

import (
	"net"
	"os"
	"sync"
	"syscall"
	"testing"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/internal/testkit"
)

// manyConns is as many as a process may hold both ends of, up to ten thousand.
func manyConns(t *testing.T) int {
	if os.Getenv("EDDY_POLLER") == "select" { // which takes descriptors below 1024 only
		return 400
	}
	if raceDetector || testing.Short() {
		return 700
	}
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	n := 10_000
	for int64(2*n+300) > int64(limit.Cur) && n > 100 {
		n -= 100
	}
	return n
}

// TestManyConnections: a table of very many connections delays none of them, because their loop looks at 256 slots in one turn and
// no more, and does its other work before it looks at the next.
func TestManyConnections(t *testing.T) {
	s := newAdmin(t, nil)
	srv := echoServer(t, &eddy.Server{Loops: 1, Backlog: 4096})
	if err := s.Watch("main", srv); err != nil {
		t.Fatal(err)
	}
	conns := manyConns(t)
	var mu sync.Mutex
	var all []net.Conn
	defer func() {
		for _, c := range all {
			c.Close()
		}
	}()
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for k := i; k < conns; k += 8 {
				c, err := net.Dial("tcp", srv.Addr().String())
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				all = append(all, c)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	testkit.Eventually(t, "the connections", func() bool { return srv.Stats().Active == int64(conns) && srv.Stats().Loops[0].Active == int64(conns) })
	before := srv.Stats().Loops[0]
	got := table(t, s, "limit=1000&sort=id&offset=300")
	if got.Looked != conns || got.Matched != conns || len(got.Connections) != min(1000, conns-300) || len(got.Errors) != 0 {
		t.Fatalf("looked at %d, %d match, %d rows, errors %v; there are %d", got.Looked, got.Matched, len(got.Connections), got.Errors, conns)
	}
	pieces := uint64((conns + 255) / 256)
	testkit.Eventually(t, "the loop's numbers", func() bool { return srv.Stats().Loops[0].TailCallbacks-before.TailCallbacks >= pieces })
	after := srv.Stats().Loops[0]
	if n := after.TailCallbacks - before.TailCallbacks; n != pieces || after.Iterations-before.Iterations < pieces {
		t.Errorf("%d connections were looked at in %d pieces and %d turns, want %d pieces in as many turns", conns, n, after.Iterations-before.Iterations, pieces)
	}
	ids := make(map[string]bool)
	for _, c := range got.Connections {
		ids[c.ID] = true
	}
	if len(ids) != len(got.Connections) {
		t.Error("a connection is there twice")
	}
	t.Logf("%d connections, %.1f ms", conns, got.Took)
}
