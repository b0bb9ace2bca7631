package attempts

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-eddy/eddy/rpc/balance"
)

var (
	errBusy = errors.New("busy")
	errLost = errors.New("lost")
	errApp  = errors.New("no such name")
)

// script is a service that answers as a test says: each step is how long an attempt takes, and its end.
type script struct {
	mu      sync.Mutex
	steps   []step
	made    int
	running int
	dropped int
	kept    int
}

type step struct {
	takes time.Duration
	err   error
}

func (s *script) attempt(ctx context.Context) (int, error) {
	s.mu.Lock()
	n := s.made
	st := s.steps[min(n, len(s.steps)-1)]
	s.made++
	s.running++
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.running--
		s.mu.Unlock()
	}()
	t := time.NewTimer(st.takes)
	defer t.Stop()
	select {
	case <-t.C:
		return n + 1, st.err
	case <-ctx.Done():
		return n + 1, ctx.Err()
	}
}

func judge(_ int, err error) Verdict {
	switch {
	case errors.Is(err, errBusy):
		return Verdict{balance.Refused, Yes, 50 * time.Millisecond}
	case errors.Is(err, errLost):
		return Verdict{balance.Failed, IfIdempotent, 0}
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return Verdict{balance.Unknown, No, 0}
	}
	return Verdict{balance.Succeeded, No, 0}
}

func (s *script) call(idempotent bool) *Call[int] {
	return &Call[int]{Service: "s", Idempotent: idempotent, Attempt: s.attempt, Judge: judge,
		Drop: func(int) { s.dropped++ },
		Keep: func(_ int, end context.CancelFunc) { s.kept++; end() },
	}
}

func maker(t *testing.T, o balance.Attempts) *Maker {
	t.Helper()
	m, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestNew: without settings there is no Maker, and bad ones are refused.
func TestNew(t *testing.T) {
	if m, err := New(balance.Attempts{}); m != nil || err != nil {
		t.Error(m, err)
	}
	for _, bad := range []balance.Attempts{{Max: -1}, {Max: 2, Budget: 2}} {
		if _, err := New(bad); err == nil {
			t.Errorf("%+v was taken", bad)
		}
	}
	var none *Maker
	none.Put(new(balance.Stats))
}

// TestRetries: what is made again, how often, and what is returned.
func TestRetries(t *testing.T) {
	for what, x := range map[string]struct {
		steps      []step
		idempotent bool
		made       int
		err        error
	}{
		"an answer":                {[]step{{0, nil}}, true, 1, nil},
		"an error of the method":   {[]step{{0, errApp}}, true, 1, errApp},
		"busy, then not":           {[]step{{0, errBusy}, {0, nil}}, false, 2, nil},
		"busy for ever":            {[]step{{0, errBusy}}, false, 3, errBusy},
		"lost":                     {[]step{{0, errLost}, {0, nil}}, false, 1, errLost},
		"lost, but idempotent":     {[]step{{0, errLost}, {0, nil}}, true, 2, nil},
		"lost, then another error": {[]step{{0, errLost}, {0, errApp}}, true, 2, errApp},
	} {
		synctest.Test(t, func(t *testing.T) {
			m, s := maker(t, balance.Attempts{Max: 3}), &script{steps: x.steps}
			v, err := Do(t.Context(), m, s.call(x.idempotent))
			if !errors.Is(err, x.err) || s.made != x.made || v != x.made || s.dropped != x.made-1 || s.kept != 1 {
				t.Errorf("%s: %d, %v after %d attempts, %d dropped, %d kept", what, v, err, s.made, s.dropped, s.kept)
			}
		})
	}
}

// TestNoTimeForAnother: a pause that does not fit the deadline is not begun, and one that is given up ends.
func TestNoTimeForAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, s := maker(t, balance.Attempts{Max: 3}), &script{steps: []step{{0, errBusy}}}
		c := s.call(false)
		c.By = time.Now().Add(40 * time.Millisecond) // the advice is 50 ms
		begun := time.Now()
		if _, err := Do(t.Context(), m, c); !errors.Is(err, errBusy) || s.made != 1 || time.Since(begun) != 0 {
			t.Errorf("%v after %d attempts and %v", err, s.made, time.Since(begun))
		}
		ctx, cancel := context.WithTimeout(t.Context(), 40*time.Millisecond)
		defer cancel()
		if _, err := Do(ctx, m, s.call(false)); !errors.Is(err, errBusy) || s.made != 2 || time.Since(begun) != 0 {
			t.Errorf("%v after %d attempts and %v", err, s.made, time.Since(begun))
		}
		ctx, cancel = context.WithCancel(t.Context())
		time.AfterFunc(10*time.Millisecond, cancel)
		if _, err := Do(ctx, m, s.call(false)); !errors.Is(err, errBusy) || s.made != 3 || time.Since(begun) != 10*time.Millisecond {
			t.Errorf("%v after %d attempts and %v", err, s.made, time.Since(begun))
		}
	})
}

// TestAmplification: when everything fails, the servers see 1.1 times the calls and the reserve.
func TestAmplification(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, s := maker(t, balance.Attempts{Max: 10, Hedge: time.Millisecond}), &script{steps: []step{{2 * time.Millisecond, errBusy}}}
		for range 1000 {
			_, _ = Do(t.Context(), m, s.call(true))
		}
		var st balance.Stats
		m.Put(&st)
		if s.made > 1100+balance.DefaultReserve || s.made < 1100 || st.OverBudget == 0 || st.Retries+st.Hedges != uint64(s.made-1000) {
			t.Errorf("%d attempts, %+v", s.made, st)
		}
	})
}

// TestHedge: a late call is made a second time, the first answer counts, and the other attempt ends at once.
func TestHedge(t *testing.T) {
	for what, x := range map[string]struct {
		steps []step
		takes time.Duration
		v     int
		err   error
		made  int
		won   uint64
	}{
		"in time":                          {[]step{{5 * time.Millisecond, nil}}, 5 * time.Millisecond, 1, nil, 1, 0},
		"the second is first":              {[]step{{time.Hour, nil}, {5 * time.Millisecond, nil}}, 15 * time.Millisecond, 2, nil, 2, 1},
		"the first is first":               {[]step{{12 * time.Millisecond, nil}, {time.Hour, nil}}, 12 * time.Millisecond, 1, nil, 2, 0},
		"the first fails":                  {[]step{{12 * time.Millisecond, errLost}, {5 * time.Millisecond, nil}}, 15 * time.Millisecond, 2, nil, 2, 1},
		"the second fails":                 {[]step{{20 * time.Millisecond, nil}, {time.Millisecond, errLost}}, 20 * time.Millisecond, 1, nil, 2, 0},
		"both fail":                        {[]step{{12 * time.Millisecond, errLost}, {5 * time.Millisecond, errBusy}}, 15 * time.Millisecond, 1, errLost, 2, 0},
		"an error of the method is enough": {[]step{{time.Hour, nil}, {time.Millisecond, errApp}}, 11 * time.Millisecond, 2, errApp, 2, 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			m, s := maker(t, balance.Attempts{Hedge: 10 * time.Millisecond}), &script{steps: x.steps}
			begun := time.Now()
			v, err := Do(t.Context(), m, s.call(true))
			var st balance.Stats
			m.Put(&st)
			if v != x.v || !errors.Is(err, x.err) || time.Since(begun) != x.takes || s.made != x.made || s.running != 0 || st.HedgesWon != x.won || s.dropped != x.made-1 || s.kept != 1 {
				t.Errorf("%s: %d, %v after %v; %+v, %+v", what, v, err, time.Since(begun), s.made, st)
			}
			if s.steps = []step{{time.Hour, nil}}; x.made == 1 { // a call that is not idempotent is never made twice
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				if _, err := Do(ctx, m, s.call(false)); !errors.Is(err, context.DeadlineExceeded) || s.made != 2 {
					t.Errorf("%v, %d", err, s.made)
				}
			}
		})
	}
}

// TestHedgeAt: a second attempt is made when most calls would have ended.
func TestHedgeAt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, s := maker(t, balance.Attempts{HedgeAt: 0.9}), &script{steps: []step{{10 * time.Millisecond, nil}}}
		for range 200 {
			_, _ = Do(t.Context(), m, s.call(true))
		}
		s.steps, s.made = []step{{time.Hour, nil}, {time.Millisecond, nil}}, 0
		begun := time.Now()
		if v, err := Do(t.Context(), m, s.call(true)); v != 2 || err != nil || time.Since(begun) > 13*time.Millisecond {
			t.Errorf("%d, %v after %v", v, err, time.Since(begun))
		}
	})
}

// TestPanicOfSecond: a second attempt that panics is one that failed.
func TestPanicOfSecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := maker(t, balance.Attempts{Hedge: time.Millisecond})
		var made atomic.Int32
		v, err := Do(t.Context(), m, &Call[int]{Idempotent: true, Judge: judge, Attempt: func(context.Context) (int, error) {
			if made.Add(1) == 2 {
				panic("no encoding")
			}
			time.Sleep(time.Second)
			return 1, nil
		}})
		if v != 1 || err != nil || made.Load() != 2 {
			t.Errorf("%d, %v, %d attempts", v, err, made.Load())
		}
	})
}

// TestBreakerOfService: calls to a service that only fails end at once, those to another one do not, and it is asked again later.
func TestBreakerOfService(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, s := maker(t, balance.Attempts{Breaker: balance.Trip{Failures: 5}}), &script{steps: []step{{0, errLost}}}
		for range 100 {
			_, _ = Do(t.Context(), m, s.call(false))
		}
		var st balance.Stats
		m.Put(&st)
		if _, err := Do(t.Context(), m, s.call(false)); !errors.Is(err, ErrBroken) || s.made != 5 || st.BrokenCalls != 95 {
			t.Errorf("%v, %d attempts, %+v", err, s.made, st)
		}
		other := s.call(false)
		other.Service = "another"
		if _, err := Do(t.Context(), m, other); !errors.Is(err, errLost) {
			t.Error(err)
		}
		time.Sleep(balance.DefaultOpen)
		s.steps = []step{{0, nil}}
		for i := range 10 {
			if _, err := Do(t.Context(), m, s.call(false)); err != nil {
				t.Errorf("%d: %v", i, err)
			}
		}
	})
	m := maker(t, balance.Attempts{Breaker: balance.Trip{Failures: 5}})
	for i := range 2 * most {
		m.breaker(fmt.Sprint(i))
	}
	if m.breaker("one more") != nil || m.breaker("0") == nil || !strings.Contains(ErrBroken.Error(), "open") {
		t.Error("the number of breakers has no bound")
	}
}
