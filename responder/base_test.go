package responder_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/internal/enginetest"
	"github.com/go-eddy/eddy/internal/testkit"
	"github.com/go-eddy/eddy/responder"
)

type (
	storeKey struct{}
	idKey    struct{}
)

// TestBaseContextOfRequests: the context of a request has the values of the server's BaseContext behind its own, on the
// pool and on the loop, and keeps them after its end. It ends when BaseContext ends, that of a one-way request as well.
func TestBaseContextOfRequests(t *testing.T) {
	due := time.Now().Add(time.Hour)
	base, stop := context.WithDeadline(context.WithValue(context.WithValue(context.Background(), storeKey{}, "store"), idKey{}, "of the server"), due)
	defer stop()
	local := make(chan any, 1)
	d := newDesk(t, newPool(t, 4, 64), func(o *responder.Options[*ask]) {
		o.Value = func(a *ask, key any) any {
			if key == (idKey{}) && a.id == 1 {
				return a.id
			}
			return nil
		}
		run := o.Run
		o.Run = func(ctx context.Context, a *ask) (any, error) {
			if a.verb == "local" {
				local <- ctx.Value(storeKey{})
			}
			return run(ctx, a)
		}
	})
	c := newClient(t, enginetest.Serve(t, &eddy.Server{Loops: 1, Init: d.init, Logger: quiet(), BaseContext: base}))
	c.say("1 wait", "2 wait", "3 onewaywait", "4 local")
	d.waitBegan(1, 2, 3)
	c.expect("4 ok")
	if v := <-local; v != "store" {
		t.Errorf("a local request sees %v", v)
	}
	for id, want := range map[uint64]any{1: uint64(1), 2: "of the server", 3: "of the server"} {
		ctx := d.context(id)
		if v, own := ctx.Value(storeKey{}), ctx.Value(idKey{}); v != "store" || own != want || ctx.Err() != nil {
			t.Errorf("request %d sees %v and %v, want store and %v; %v", id, v, own, want, ctx.Err())
		}
		if at, ok := ctx.Deadline(); !ok || !at.Equal(due) {
			t.Errorf("request %d has deadline %v, %v", id, at, ok)
		}
	}
	d.gate <- struct{}{} // one of them ends, its context was never waited for by anybody else
	stop()
	d.settle()
	for id := range uint64(3) {
		ctx := d.context(id + 1)
		testkit.Receive(t, "the end of a context", ctx.Done())
		if v, other := ctx.Value(storeKey{}), ctx.Value(idKey{}); v != "store" || other != "of the server" || !errors.Is(ctx.Err(), context.Canceled) {
			t.Errorf("after its end request %d sees %v and %v, %v", id+1, v, other, ctx.Err())
		}
	}
}

// TestBaseContextHasEnded: requests that begin after the end of BaseContext are told so, without a wait for their context.
func TestBaseContextHasEnded(t *testing.T) {
	base, stop := context.WithCancel(context.Background())
	defer stop()
	seen := make(chan error, 4)
	d := newDesk(t, newPool(t, 4, 64), func(o *responder.Options[*ask]) {
		o.Run = func(ctx context.Context, _ *ask) (any, error) {
			seen <- ctx.Err()
			return "ok", nil
		}
	})
	c := newClient(t, enginetest.Serve(t, &eddy.Server{Loops: 1, Init: d.init, Logger: quiet(), BaseContext: base}))
	for i, want := range []error{nil, context.Canceled} {
		// Each has its own id, because nobody is told when that of a one-way request is free again.
		c.say(fmt.Sprintf("1%d ok", i), fmt.Sprintf("2%d oneway", i))
		for range 2 {
			if err := testkit.Receive(t, "a context's error", seen); !errors.Is(err, want) {
				t.Errorf("%d: a context says %v, want %v", i, err, want)
			}
		}
		c.expect(fmt.Sprintf("1%d ok", i))
		stop()
	}
	d.settle()
}

// TestKeptContextKeepsItsValues: a context that was neither waited for nor ended by BaseContext has its values after its end.
func TestKeptContextKeepsItsValues(t *testing.T) {
	base, stop := context.WithCancel(context.WithValue(context.Background(), storeKey{}, "store"))
	defer stop()
	kept := make(chan context.Context, 1)
	d := newDesk(t, newPool(t, 1, 4), func(o *responder.Options[*ask]) {
		o.Run = func(ctx context.Context, _ *ask) (any, error) {
			kept <- ctx
			return "ok", nil
		}
	})
	c := newClient(t, enginetest.Serve(t, &eddy.Server{Loops: 1, Init: d.init, Logger: quiet(), BaseContext: base}))
	c.say("1 ok")
	c.expect("1 ok")
	d.settle()
	ctx := testkit.Receive(t, "the context", kept)
	if v := ctx.Value(storeKey{}); v != "store" || !errors.Is(ctx.Err(), context.Canceled) {
		t.Errorf("value %v, %v", v, ctx.Err())
	}
	testkit.Receive(t, "the end", ctx.Done())
	derived, cancel := context.WithCancel(ctx)
	defer cancel()
	if v := derived.Value(storeKey{}); v != "store" || derived.Err() == nil || base.Err() != nil {
		t.Errorf("a derived context: value %v, %v; base context: %v", v, derived.Err(), base.Err())
	}
}
