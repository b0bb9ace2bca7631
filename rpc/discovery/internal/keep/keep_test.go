package keep

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/go-eddy/eddy/rpc/discovery"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var quiet = slog.New(slog.DiscardHandler)

// fake is a registry that has one instance, or none, and can fail.
type fake struct {
	mu       sync.Mutex
	fails    error
	has      bool
	tries    int
	removals int
	lost     chan struct{}
}

func (f *fake) holding(name string) Holding {
	return Holding{Name: name, Keep: f.keep, Remove: f.remove}
}

func (f *fake) keep(ctx context.Context, has func()) error {
	f.mu.Lock()
	f.tries++
	err, lost := f.fails, f.lost
	f.has = err == nil
	f.mu.Unlock()
	if err != nil {
		return err
	}
	has()
	select {
	case <-lost:
		return errors.New("lost")
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (f *fake) remove(ctx context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.removals++
	if f.fails == nil {
		f.has = false
	}
	return f.fails
}

func (f *fake) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fails = err
}

func (f *fake) state() (has bool, tries, removals int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.has, f.tries, f.removals
}

// TestHold: a registration is tried with growing pauses until the registry has it, and again when it is lost.
func TestHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, f := New("fake", quiet), &fake{fails: errors.New("down"), lost: make(chan struct{})}
		reg, err := k.Hold(f.holding("a"))
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		if _, tries, _ := f.state(); tries < 3600/18 || tries > 3600/12+10 || reg.Err() == nil || reg.Err().Error() != "down" {
			t.Errorf("%d tries in an hour, %v", tries, reg.Err())
		}
		f.fail(nil)
		time.Sleep(mostPause * 2)
		if has, _, _ := f.state(); !has || reg.Err() != nil {
			t.Errorf("has %v, %v", has, reg.Err())
		}
		close(f.lost)
		synctest.Wait()
		if reg.Err() == nil || reg.Err().Error() != "lost" {
			t.Error(reg.Err())
		}
		if err := reg.Withdraw(t.Context()); err != nil || !errors.Is(reg.Err(), discovery.ErrUnregistered) {
			t.Errorf("%v, %v", err, reg.Err())
		}
		if has, _, removals := f.state(); has || removals != 1 {
			t.Errorf("has %v, %d removals", has, removals)
		}
		k.Close()
	})
}

// TestWithdrawGoesOn: a withdrawal whose caller has gone is tried until it is done, and the instance is registered again behind it.
func TestWithdrawGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, f := New("fake", quiet), &fake{}
		defer k.Close()
		reg, err := k.Hold(f.holding("a"))
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if _, err := k.Hold(f.holding("a")); err == nil || !strings.Contains(err.Error(), "a is registered") {
			t.Error(err)
		}
		f.fail(errors.New("down"))
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if err := reg.Withdraw(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		next, err := k.Hold(f.holding("a"))
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if _, tries, _ := f.state(); tries != 1 {
			t.Errorf("%d tries while the withdrawal goes on", tries)
		}
		f.fail(nil)
		if err := reg.Withdraw(t.Context()); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if has, _, _ := f.state(); !has || next.Err() != nil {
			t.Errorf("has %v, %v", has, next.Err())
		}
	})
}

// TestClose: Close removes what is registered, once if the registry is down, and ends watches.
func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, up, down := New("fake", quiet), &fake{}, &fake{}
		for name, f := range map[string]*fake{"up": up, "down": down} {
			if _, err := k.Hold(f.holding(name)); err != nil {
				t.Fatal(err)
			}
		}
		watched := make(chan error, 1)
		go func() {
			watched <- k.Watch(t.Context(), func(ctx context.Context) error {
				<-ctx.Done()
				return errors.New("another error")
			})
		}()
		synctest.Wait()
		down.fail(errors.New("down"))
		begin := time.Now()
		k.Close()
		if took := time.Since(begin); took > lastRemoval {
			t.Errorf("Close took %v", took)
		}
		if has, _, removals := up.state(); has || removals != 1 {
			t.Errorf("has %v, %d removals", has, removals)
		}
		if _, _, removals := down.state(); removals != 1 {
			t.Errorf("%d removals", removals)
		}
		if err := <-watched; !errors.Is(err, discovery.ErrClosed) {
			t.Error(err)
		}
		if _, err := k.Hold(up.holding("x")); !errors.Is(err, discovery.ErrClosed) {
			t.Error(err)
		}
		if err := k.Watch(t.Context(), nil); !errors.Is(err, discovery.ErrClosed) {
			t.Error(err)
		}
		if err := k.Go(nil); !errors.Is(err, discovery.ErrClosed) {
			t.Error(err)
		}
		k.Close()
	})
}

// TestWatch: the errors of a watch are its own, unless its caller has gone.
func TestWatch(t *testing.T) {
	k := New("fake", quiet)
	defer k.Close()
	mine := errors.New("mine")
	if err := k.Watch(t.Context(), func(context.Context) error { return mine }); !errors.Is(err, mine) {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	if err := k.Watch(ctx, func(context.Context) error { cancel(); return mine }); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestRegistrationsAreBounded: one registration more than the limit is refused, and there is room again when one has gone.
func TestRegistrationsAreBounded(t *testing.T) {
	k, f := New("fake", quiet), &fake{}
	defer k.Close()
	var last discovery.Registration
	for i := range MaxRegistrations {
		var err error
		if last, err = k.Hold(f.holding(fmt.Sprint(i))); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := k.Hold(f.holding("x")); err == nil || !strings.Contains(err.Error(), "more than 16384") {
		t.Error(err)
	}
	if err := last.Withdraw(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := k.Hold(f.holding("x")); err != nil {
		t.Error(err)
	}
}

// TestWake: what Wake returns ends a pause.
func TestWake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, f, wake := New("fake", quiet), &fake{fails: errors.New("down")}, make(chan struct{})
		defer k.Close()
		h := f.holding("a")
		h.Wake = func() <-chan struct{} { return wake }
		reg, err := k.Hold(h)
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		f.fail(nil)
		close(wake)
		synctest.Wait()
		if reg.Err() != nil {
			t.Error(reg.Err())
		}
	})
}

// TestTeller: what is told is checked, sorted, without doubles and bounded, and told only when it has changed. Nothing but garbage is an error.
func TestTeller(t *testing.T) {
	var told [][]discovery.Instance
	tl := Teller{Log: quiet, To: func(list []discovery.Instance) { told = append(told, list) }}
	tell := func(want int, entries ...Entry) error {
		t.Helper()
		err := tl.Tell(entries)
		if len(told) != want {
			t.Fatalf("%d answers, want %d", len(told), want)
		}
		return err
	}
	at := func(addr string, since int64) Entry {
		return Entry{Instance: discovery.Instance{Addr: addr, Since: time.Unix(since, 0)}}
	}
	bad := Entry{Err: errors.New("odd")}
	if err := tell(0, bad, Entry{Other: true}, Entry{Instance: discovery.Instance{Addr: "x"}}); err == nil || !strings.Contains(err.Error(), "2 of 3 entries do not parse, such as: odd") {
		t.Error(err)
	}
	_ = tell(1)
	_ = tell(1, Entry{Other: true})
	_ = tell(2, at("b:1", 1), bad, at("a:1", 2), at("b:1", 3))
	if got := told[1]; len(got) != 2 || got[0].Addr != "a:1" || got[1].Since.Unix() != 3 {
		t.Errorf("%+v", got)
	}
	told[1][0].Addr = "mine"
	_ = tell(2, at("a:1", 2), at("b:1", 3))
	_ = tell(3, at("a:1", 2), at("b:1", 4))
	var many []Entry
	for i := range discovery.MaxInstances + 1 {
		many = append(many, at(fmt.Sprintf("a:%d", i+1), 1))
	}
	_ = tell(4, many...)
	if got := told[3]; len(got) != discovery.MaxInstances || !slices.IsSortedFunc(got, func(a, b discovery.Instance) int { return strings.Compare(a.Addr, b.Addr) }) {
		t.Errorf("%d instances", len(got))
	}
}

// TestSpeaks: tri is gRPC; no protocol is any.
func TestSpeaks(t *testing.T) {
	for _, c := range []struct {
		want, have string
		ok         bool
	}{{"", "x", true}, {"tri", "grpc", true}, {"grpc", "tri", true}, {"frame", "frame", true}, {"frame", "tri", false}, {"grpc", "dubbo", false}} {
		if Speaks(c.want, c.have) != c.ok {
			t.Errorf("%+v", c)
		}
	}
}
