package lease

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-eddy/eddy/desk/store"
)

// table is the leases of a database.
type table struct {
	mu     sync.Mutex
	tokens int64
	held   map[string]*held
}

type held struct {
	by    *server
	token int64
	until time.Time
}

// server is one of those that share a table.
type server struct {
	*table
	alone    bool
	fails    error         // of every claim
	hangs    chan struct{} // until it is closed claims do not end before their context
	claims   int
	releases int
}

func (s *server) Claim(ctx context.Context, name string, life time.Duration) (store.Lease, error) {
	s.mu.Lock()
	s.claims++
	hangs := s.hangs
	s.mu.Unlock()
	if hangs != nil {
		select {
		case <-hangs:
		case <-ctx.Done():
			return store.Lease{}, ctx.Err()
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.held[name]
	switch {
	case s.alone:
		return store.Lease{Name: name}, nil
	case s.fails != nil:
		return store.Lease{}, s.fails
	case h != nil && h.by != s && time.Now().Before(h.until):
		return store.Lease{}, store.ErrLeased
	case h == nil || h.by != s:
		s.tokens++
		h = &held{by: s, token: s.tokens}
		s.held[name] = h
	}
	h.until = time.Now().Add(life)
	return store.Lease{Name: name, Token: h.token}, nil
}

func (s *server) Release(ctx context.Context, l store.Lease) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.releases++
	if h := s.held[l.Name]; h != nil && h.token == l.Token {
		delete(s.held, l.Name)
	}
	return ctx.Err()
}

func (s *server) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

// worker is what one server does with the work.
type worker struct {
	*server
	stop func()
	mu   sync.Mutex
	runs []store.Lease
	now  bool // it works
}

// begin lets a server hold the name "work", or wait for it, until the test ends.
func begin(t *testing.T, s *server) *worker {
	ctx, cancel := context.WithCancel(t.Context())
	w := &worker{server: s}
	ended := make(chan struct{})
	w.stop = func() {
		cancel()
		<-ended
	}
	go func() {
		defer close(ended)
		Options{Store: s, Logger: slog.New(slog.DiscardHandler)}.Hold("work")(ctx, func(ctx context.Context) {
			w.note(true, store.LeaseOf(ctx))
			<-ctx.Done()
			w.note(false, store.Lease{})
		})
	}()
	synctest.Wait()
	return w
}

func (w *worker) note(works bool, l store.Lease) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.now = works; works {
		w.runs = append(w.runs, l)
	}
}

func (w *worker) works() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

// after lets time pass and looks at who works.
func after(t *testing.T, d time.Duration, one, two *worker, wantOne, wantTwo bool) {
	t.Helper()
	<-time.After(d)
	synctest.Wait()
	if a, b := one.works(), two.works(); a != wantOne || b != wantTwo {
		t.Fatalf("after %v the servers work: %v and %v, want %v and %v", d, a, b, wantOne, wantTwo)
	}
}

// handedOver waits until another server works, and sees that the first one has ended before.
func handedOver(t *testing.T, from, to *worker) {
	t.Helper()
	const step = DefaultLife / 100
	for range 2 * DefaultLife / step {
		<-time.After(step)
		synctest.Wait()
		if from.works() && to.works() {
			t.Fatal("both servers work")
		}
	}
	after(t, 0, from, to, false, true)
}

func pair() (a, b *server) {
	tab := &table{held: make(map[string]*held)}
	return &server{table: tab}, &server{table: tab}
}

// TestOneWorks: of two servers one works. When it ends, the other one goes on soon; when it dies, after the life of its claim.
func TestOneWorks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pair()
		one := begin(t, a)
		two := begin(t, b)
		after(t, time.Hour, one, two, true, false)
		if len(one.runs) != 1 || one.runs[0].Token == 0 {
			t.Errorf("the work was run with %+v", one.runs)
		}
		one.stop()
		if a.releases != 1 {
			t.Errorf("the lease was given back %d times", a.releases)
		}
		after(t, DefaultLife/claims, one, two, false, true)
		if two.runs[0].Token <= one.runs[0].Token {
			t.Errorf("tokens %+v, then %+v", one.runs, two.runs)
		}
		one = begin(t, a)
		b.set(func() { b.fails = store.ErrUnavailable })
		handedOver(t, two, one)
		b.set(func() { b.fails = nil })
		after(t, time.Hour, one, two, true, false)
		one.stop()
		two.stop()
	})
}

// TestFailuresAreBridged: claims that fail or hang for less than a life cost nothing, and those that hang longer end the work
// before another server may begin.
func TestFailuresAreBridged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pair()
		one, two := begin(t, a), begin(t, b)
		a.set(func() { a.fails = errors.New("no") })
		after(t, DefaultLife*2/3, one, two, true, false)
		a.set(func() { a.fails = nil })
		after(t, DefaultLife, one, two, true, false)
		hangs := make(chan struct{})
		a.set(func() { a.hangs = hangs })
		after(t, DefaultLife/2, one, two, true, false)
		handedOver(t, one, two)
		close(hangs)
		after(t, time.Hour, one, two, false, true)
		if len(one.runs) != 1 || len(two.runs) != 1 {
			t.Errorf("the work was run %d and %d times", len(one.runs), len(two.runs))
		}
		one.stop()
		two.stop()
	})
}

// TestTakenMeanwhile: a server whose lease was another's for a while begins its work anew, with the new token.
func TestTakenMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, _ := pair()
		one := begin(t, a)
		a.set(func() { delete(a.held, "work") })
		<-time.After(DefaultLife)
		synctest.Wait()
		if len(one.runs) != 2 || one.runs[1].Token <= one.runs[0].Token || !one.works() {
			t.Errorf("runs %+v", one.runs)
		}
		one.stop()
	})
}

// TestAlone: a server that is alone asks once, and its work runs until the end.
func TestAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, _ := pair()
		a.alone = true
		one := begin(t, a)
		<-time.After(time.Hour)
		one.stop()
		if len(one.runs) != 1 || one.runs[0] != (store.Lease{}) || a.claims != 1 || a.releases != 0 {
			t.Errorf("%+v, %d claims, %d released", one.runs, a.claims, a.releases)
		}
		ran := 0
		Alone(t.Context(), func(context.Context) { ran++ })
		if ran != 1 {
			t.Errorf("run %d times", ran)
		}
	})
}

// TestWorkThatEnds: work that ends by itself is run again, and not all the time.
func TestWorkThatEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, _ := pair()
		ctx, cancel := context.WithTimeout(t.Context(), DefaultLife)
		defer cancel()
		runs := 0
		Options{Store: a}.Hold("work")(ctx, func(context.Context) { runs++ })
		if runs < 2 || runs > 5 {
			t.Errorf("run %d times in %v", runs, DefaultLife)
		}
	})
}

// TestGivenBackAtTheEnd: a lease is given back when the work has ended, and not when it was told to.
func TestGivenBackAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, _ := pair()
		ctx, cancel := context.WithCancel(t.Context())
		ended, returned := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(returned)
			Options{Store: a}.Hold("work")(ctx, func(ctx context.Context) {
				<-ctx.Done()
				<-ended
			})
		}()
		synctest.Wait()
		cancel()
		synctest.Wait()
		if a.releases != 0 {
			t.Error("the lease was given back while the work went on")
		}
		close(ended)
		<-returned
		if a.releases != 1 {
			t.Errorf("the lease was given back %d times", a.releases)
		}
	})
}
