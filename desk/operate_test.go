package desk

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/desk/store"
	"github.com/go-eddy/eddy/internal/testkit"
)

// TestWhatAnOperatorLooksAt: the server and its pools can be looked at, the last closes are kept when that is asked for, and
// the database is ready until it is closed.
func TestWhatAnOperatorLooksAt(t *testing.T) {
	o := testOptions(t)
	o.KeepCloses = 4
	d := openDesk(t, o)
	if d.Engine() != nil || len(d.Pools()) != 4 {
		t.Errorf("before Start: %v, %d pools", d.Engine(), len(d.Pools()))
	}
	if err := d.Start(testkit.Context(t)); err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, p := range d.Pools() {
		names[p.Name()] = true
	}
	for _, want := range []string{"http", "conversation", "customer", "agent", "bot"} {
		if !names[want] {
			t.Errorf("no pool %q: %v", want, names)
		}
	}
	c, err := net.Dial("tcp", d.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	testkit.Eventually(t, "the close to be told of", func() bool { return len(d.Engine().RecentCloses()) > 0 })
	if got := d.Engine().RecentCloses()[0].Reason; got != eddy.ClosePeerClosed {
		t.Errorf("it ended with %v", got)
	}
	if err := d.Ready(testkit.Context(t)); err != nil {
		t.Errorf("not ready: %v", err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if err := d.Ready(testkit.Context(t)); err == nil {
		t.Error("ready with a closed database")
	}
}

// unready is a store that cannot write, or not read.
type unready struct {
	store.Store
	write, read error
}

func (u *unready) Ready() error { return u.write }

// Hot implements store.Store.
func (u *unready) Hot() store.Reader { return unreadable{u.Store.Hot(), u.read} }

type unreadable struct {
	store.Reader
	err error
}

// SiteByKey implements store.Reader.
func (u unreadable) SiteByKey(ctx context.Context, key string) (store.Site, error) {
	if u.err != nil {
		return store.Site{}, u.err
	}
	return u.Reader.SiteByKey(ctx, key)
}

// TestReadySaysWhatThePageSays: the operator's check and Desk's own page tell the same, in the same words.
func TestReadySaysWhatThePageSays(t *testing.T) {
	var u unready
	o := testOptions(t)
	o.WrapStore = func(s store.Store) store.Store { u.Store = s; return &u }
	d := openDesk(t, o)
	full, damaged := errors.New("sqlite: the last commit failed: the disk is full"), errors.New("database disk image is malformed")
	for _, c := range []struct{ write, read error }{{nil, nil}, {full, nil}, {nil, damaged}, {nil, store.ErrNotFound}} {
		u.write, u.read = c.write, c.read
		err := c.write
		if errors.Is(c.read, damaged) {
			err = damaged
		}
		status, page := call(d, "GET", "/readyz", "")
		body, _ := io.ReadAll(page.Body)
		got := d.Ready(t.Context())
		if (status == http.StatusOK) != (err == nil) || !errors.Is(got, err) || err != nil && string(body) != got.Error()+"\n" {
			t.Errorf("the store says %v, the page %d %q, the operator's check %v", err, status, body, got)
		}
	}
}

// stuck is a store whose reads of sites wait.
type stuck struct {
	store.Store
	waiting chan struct{} // gets one element for each read
	free    chan struct{}
}

// Hot implements store.Store.
func (s *stuck) Hot() store.Reader { return stuckReader{s.Store.Hot(), s} }

type stuckReader struct {
	store.Reader
	s *stuck
}

// SiteByKey implements store.Reader.
func (r stuckReader) SiteByKey(ctx context.Context, key string) (store.Site, error) {
	r.s.waiting <- struct{}{}
	<-r.s.free
	return r.Reader.SiteByKey(ctx, key)
}

// TestReadyHoldsFewReads: reads that hang hold a few requests about readiness, and the others are answered.
func TestReadyHoldsFewReads(t *testing.T) {
	s := stuck{waiting: make(chan struct{}, 100), free: make(chan struct{})}
	o := testOptions(t)
	o.WrapStore = func(db store.Store) store.Store { s.Store = db; return &s }
	d := openDesk(t, o)
	var asked sync.WaitGroup
	const few = 4
	for range few {
		asked.Go(func() {
			if err := d.Ready(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	for range few {
		testkit.Receive(t, "a read", s.waiting)
	}
	for range 10 {
		if status, _ := call(d, "GET", "/readyz", ""); status != http.StatusOK {
			t.Errorf("%d", status)
		}
	}
	close(s.free)
	asked.Wait()
}

// busyAtStart is a store that tells until when the writes of a start may wait.
type busyAtStart struct {
	store.Store
	mu    sync.Mutex
	until map[string]time.Time // the latest deadline, by name
}

func (b *busyAtStart) asked(ctx context.Context, name string) {
	until, _ := ctx.Deadline()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.until[name] = until
}

// CreateSite implements store.Store.
func (b *busyAtStart) CreateSite(ctx context.Context, s store.Site) (store.Site, error) {
	b.asked(ctx, "CreateSite")
	return b.Store.CreateSite(ctx, s)
}

// CreateAgent implements store.Store.
func (b *busyAtStart) CreateAgent(ctx context.Context, a store.AgentAccount) (store.AgentAccount, error) {
	b.asked(ctx, "CreateAgent")
	return b.Store.CreateAgent(ctx, a)
}

// Secret implements store.Store.
func (b *busyAtStart) Secret(ctx context.Context, name string) ([]byte, error) {
	b.asked(ctx, "Secret "+name)
	return b.Store.Secret(ctx, name)
}

// Reconcile implements store.Store.
func (b *busyAtStart) Reconcile(ctx context.Context) (int, error) {
	b.asked(ctx, "Reconcile")
	return b.Store.Reconcile(ctx)
}

// TestStartWaitsForABusyDatabase: what a start writes waits for minutes, not for the two seconds of a command. Else servers that start again together, with all their clients, end.
func TestStartWaitsForABusyDatabase(t *testing.T) {
	o, b := testOptions(t), busyAtStart{until: make(map[string]time.Time)}
	o.WrapStore = func(db store.Store) store.Store { b.Store = db; return &b }
	minute := time.Now().Add(time.Minute)
	d := openDesk(t, o)
	if err := d.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, name := range []string{"CreateSite", "CreateAgent", "Secret tickets", "Secret files", "Reconcile"} {
		if until := b.until[name]; until.Before(minute) {
			t.Errorf("%s may wait until %v, less than a minute", name, until)
		}
	}
}
