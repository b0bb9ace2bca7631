package follow

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-eddy/eddy/rpc/balance"
	"github.com/go-eddy/eddy/rpc/discovery"
	"github.com/go-eddy/eddy/rpc/internal/retry"
)

// registry is a Resolver that says what a test says. An answer that is an error ends the Watch.
type registry struct {
	says    chan any
	watches int
}

func (r *registry) Watch(ctx context.Context, tell func([]discovery.Instance)) error {
	r.watches++
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case v := <-r.says:
			switch v := v.(type) {
			case error:
				return v
			case string:
				panic(v)
			case nil:
				return nil
			case []discovery.Instance:
				tell(v)
			}
		}
	}
}

// rig is a Follower of a registry.
type rig struct {
	registry
	Follower
	mu      sync.Mutex
	applied []string
	failed  []string
	cancel  context.CancelFunc
	over    chan struct{}
}

func newRig() *rig {
	r := &rig{over: make(chan struct{})}
	r.says = make(chan any)
	r.Resolver = &r.registry
	r.Pauses = retry.Schedule{Min: 100 * time.Millisecond, Max: 10 * time.Second, Random: func() float64 { return 0.5 }}
	r.Apply = func(list []discovery.Instance) {
		var addrs []string
		for _, i := range list {
			addrs = append(addrs, i.Addr)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.applied = append(r.applied, strings.Join(addrs, ","))
	}
	r.Failed = func(err error, first bool) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.failed = append(r.failed, fmt.Sprint(first, " ", err))
	}
	var ctx context.Context
	ctx, r.cancel = context.WithCancel(context.Background())
	go func() {
		r.Run(ctx)
		close(r.over)
	}()
	return r
}

func (r *rig) say(v any) {
	r.says <- v
	synctest.Wait()
}

func (r *rig) end() balance.Stats {
	r.cancel()
	<-r.over
	var s balance.Stats
	r.Put(&s)
	return s
}

// TestBadAnswers: an error, garbage, too many and none are counted, and the last good answer stays.
func TestBadAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		good := discovery.Addrs("a:1", "b:1")
		r.say(good)
		for _, bad := range []any{
			discovery.Addrs("c:1", "garbage"), make([]discovery.Instance, discovery.MaxInstances+1), []discovery.Instance{}, []discovery.Instance{{Addr: "c:1", Weight: -1}},
			errors.New("the registry is away"), nil, "no such method",
		} {
			time.Sleep(time.Minute)
			r.say(bad)
		}
		time.Sleep(time.Minute)
		r.say(discovery.Addrs("c:1"))
		s := r.end()
		if got := fmt.Sprint(r.applied); got != "[a:1,b:1 c:1]" {
			t.Error(got)
		}
		if s.Resolves != 2 || s.ResolveFailures != 3 || s.ResolveEmpty != 1 || s.ResolveRefused != 3 || s.ResolveHeld != 0 || r.watches != 4 {
			t.Errorf("%+v, %d watches", s, r.watches)
		}
		for _, want := range []string{"garbage", "limit 4096", "without instances", "is -1", "away", "has returned", "no such method"} {
			if !slices.ContainsFunc(r.failed, func(f string) bool { return strings.HasPrefix(f, "false ") && strings.Contains(f, want) }) {
				t.Errorf("nobody was told of %q: %q", want, r.failed)
			}
		}
	})
}

// TestFirstAnswer: an empty answer is one when nothing is known, and so is an error.
func TestFirstAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		r.say(errors.New("away"))
		time.Sleep(time.Minute)
		r.say([]discovery.Instance{})
		if s := r.end(); fmt.Sprint(r.applied, r.failed) != "[] [true away]" || len(r.applied) != 1 || s.Resolves != 1 {
			t.Errorf("%q %q %+v", r.applied, r.failed, s)
		}
	})
}

// TestFlapping: of a thousand answers in a second the first and the last are applied, and of those that go on, one a second.
func TestFlapping(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		for i := range 1000 {
			r.say(discovery.Addrs(fmt.Sprintf("a%d:1", i)))
		}
		time.Sleep(Every)
		synctest.Wait()
		if got := fmt.Sprint(r.applied); got != "[a0:1 a999:1]" {
			t.Error(got)
		}
		for i := range 100 {
			time.Sleep(Every / 10)
			r.say(discovery.Addrs(fmt.Sprintf("b%d:1", i)))
		}
		time.Sleep(Every)
		if s := r.end(); len(r.applied) < 12 || len(r.applied) > 13 || r.applied[len(r.applied)-1] != "b99:1" || s.ResolveHeld < 1080 {
			t.Errorf("%v %+v", r.applied, s)
		}
	})
}

// TestPauses: a Watch that fails is called again with growing pauses, and an end does not wait for the next.
func TestPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig()
		for range 10 {
			r.says <- errors.New("away") // taken when Watch is called again
		}
		synctest.Wait()
		begun := time.Now()
		r.says <- discovery.Addrs("a:1")
		if d := time.Since(begun); d != 10*time.Second {
			t.Errorf("the pause after ten failures is %v", d)
		}
		r.say(errors.New("away"))
		begun = time.Now()
		r.end()
		if time.Since(begun) != 0 {
			t.Error("the end has waited")
		}
		r.Refresh() // cannot be
	})
}

// TestBookEnds: Close waits for the tasks of a Book, which ends their context; there are no later ones.
func TestBookEnds(t *testing.T) {
	b, err := NewBook(balance.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ended := false
	b.Go(func() {
		<-b.Context.Done()
		ended = true
	})
	b.Close()
	b.Go(func() { t.Error("a task after the end") })
	b.Close()
	if !ended {
		t.Error("Close has not waited")
	}
}
