package frame

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/internal/testkit"
)

// newRouted returns a rig whose requests go to its pool, to the loop if they begin with "loop", and nowhere if they
// begin with "no".
func newRouted(t testing.TB, c *set) (r *rig, done *atomic.Int64) {
	t.Helper()
	done = new(atomic.Int64)
	pool, err := executor.NewFixed(executor.Options{Name: t.Name(), Workers: 2, Queue: 100})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pool.Shutdown(context.Background()) })
	c.o.Route = func(f *Frame) (*executor.Pool, error) {
		f.Tag = "tagged"
		switch {
		case bytes.HasPrefix(f.Payload, []byte("no")):
			return nil, &StatusError{Status: StatusNotFound, Message: "no route"}
		case bytes.HasPrefix(f.Payload, []byte("loop")):
			return nil, nil
		}
		return pool, nil
	}
	c.o.Done = func(f *Frame) {
		if f.Tag == "tagged" {
			done.Add(1)
		}
	}
	r = newRig(t, c)
	return r, done
}

// TestMadePayloads: payloads of any size that are made in a request's memory arrive as they were made, from a pool and from
// the loop, in any order of sizes, and a failure or a late end leaves nothing of them behind.
func TestMadePayloads(t *testing.T) {
	r, done := newRouted(t, &set{o: Options{MaxPayload: 200_000, Append: func(ctx context.Context, f *Frame, dst []byte) ([]byte, error) {
		if len(dst) < HeaderSize || f.Tag != "tagged" || f.Conn() == nil {
			return nil, fmt.Errorf("%d bytes, tag %v", len(dst), f.Tag)
		}
		switch _, word, _ := strings.Cut(string(f.Payload), " "); word {
		case "fail":
			return append(dst, "half"...), errors.New("failed")
		case "panic":
			panic("on purpose")
		case "exit":
			runtime.Goexit()
		case "late":
			dst = append(dst, bytes.Repeat([]byte("l"), 100)...)
			<-ctx.Done()
			return append(dst, bytes.Repeat([]byte("l"), 100)...), nil
		default:
			var n int
			fmt.Sscan(word, &n)
			for range n {
				dst = append(dst, byte('a'+n%26))
			}
			return dst, nil
		}
		return nil, nil
	}}})
	c := r.dial()
	id, asked := uint64(0), int64(0)
	ask := func(payload string, want answer) {
		t.Helper()
		id++
		asked++
		want.id = id
		c.ask(id, 2, payload)
		c.expect(want)
	}
	for _, where := range []string{"pool", "loop"} {
		for _, n := range []int{0, 1, firstMade - HeaderSize, firstMade, 5000, keptBuffer - HeaderSize, keptBuffer, 200_000, 3} {
			ask(fmt.Sprint(where, " ", n), answer{payload: strings.Repeat(string(rune('a'+n%26)), n)})
		}
		ask(where+" 200001", answer{status: 9, payload: "0 response of 200001 bytes, limit 200000"})
		ask(where+" fail", answer{status: 3, payload: "0 failed"})
		ask(where+" panic", answer{status: 4, payload: "0 the handler panicked"})
		ask(where+" 5", answer{payload: "fffff"})
	}
	ask("pool exit", answer{status: 4, payload: "0 the handler ended its goroutine"})
	for range 20 {
		id++
		asked++
		c.ask(id, 2, "pool late")
		c.ask(id, 4, "")
		c.expect(answer{id, 7, "0 "})
		ask("pool 7", answer{payload: "hhhhhhh"})
	}
	id++
	c.ask(id, 2, "no way")
	c.expect(answer{id, 2, "0 no route"})
	testkit.Eventually(t, "the end of all", func() bool { return done.Load() == asked })
	c.ask(id+1, 1, "loop echo") // ECHO is routed, PING is not
	c.ask(id+2, 0, "no ping")
	c.expect(answer{id + 1, 0, "loop echo"}, answer{id + 2, 0, "no ping"})
	c.ask(id+3, 1, "no echo")
	c.expect(answer{id + 3, 2, "0 no route"})
}

// TestRoutingOptions: what makes no sense is refused, by name.
func TestRoutingOptions(t *testing.T) {
	route := func(*Frame) (*executor.Pool, error) { return nil, nil }
	handle := func(context.Context, *Frame) ([]byte, error) { return nil, nil }
	appending := func(context.Context, *Frame, []byte) ([]byte, error) { return nil, nil }
	for name, o := range map[string]Options{
		"Handle and Append": {Route: route, Handle: handle, Append: appending},
		"Pool is nil":       {Append: appending},
	} {
		if _, err := NewServer(o); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := NewServer(Options{Route: route, Append: appending}); err != nil {
		t.Error(err)
	}
}

// TestMadePayloadsAllocateNothing: the memory of a response is that of the frame.
func TestMadePayloadsAllocateNothing(t *testing.T) {
	s, err := NewServer(Options{
		Route:  func(*Frame) (*executor.Pool, error) { return nil, nil },
		Append: func(_ context.Context, f *Frame, dst []byte) ([]byte, error) { return append(dst, f.Payload...), nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	d := newDecoder(request, nil)
	wire := AppendRequest(nil, 7, Call, make([]byte, 1000))
	f := d.frame(wire)
	n := testing.AllocsPerRun(100, func() {
		if _, err := s.run(context.Background(), f); err != nil {
			t.Fatal(err)
		}
		if s.answer(f, nil, nil) == nil {
			t.Fatal("no answer")
		}
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
	if got := f.out.Bytes(); !bytes.Equal(got, AppendResponse(nil, 7, make([]byte, 1000))) {
		t.Errorf("%X", got)
	}
}
