package eddy

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/go-eddy/eddy/executor"
)

// TestErrorOfARemovedHandler: a handler that takes itself out and then returns an error has had HandleRemove: the error goes
// to those behind it.
func TestErrorOfARemovedHandler(t *testing.T) {
	s := newChangeStage(t, func(p *Pipeline, j *journal) error {
		h := &quitter{probe{j: j, name: "q"}}
		p.Add("q", h)
		return p.Add("errors", errorsOnly{j})
	})
	s.j.take()
	s.c.fireReadFromHead("m")
	s.j.expect(t, "the error", "q remove", "error quits")
}

type quitter struct{ probe }

func (q *quitter) HandleRead(ctx *Context, _ any) error {
	if err := ctx.Pipeline().Remove("q"); err != nil {
		return err
	}
	return errors.New("quits")
}

// TestRemoveBehindParked: a handler that is taken out while messages for it wait for room in its pool handles them first.
func TestRemoveBehindParked(t *testing.T) {
	for _, how := range []string{"room", "close"} {
		pool := oneWorker(t, 1)
		s := newChangeStage(t, func(p *Pipeline, j *journal) error {
			p.Add("u", &probe{j: j, name: "u"}, On(pool), RejectPause())
			return p.Add("tail", eventsOnly{})
		})
		s.untilIdle()
		s.j.take()
		gate, entered := make(chan struct{}), make(chan struct{})
		pool.SubmitFunc(func() { close(entered); <-gate })
		<-entered
		pool.SubmitFunc(func() {})
		for range 3 {
			s.c.fireReadFromHead("m")
		}
		if s.c.paused&pausePark == 0 {
			t.Fatal("nothing waits")
		}
		if err := s.p.Remove("u"); err != nil {
			t.Fatal(err)
		}
		want := []string{"u read", "u read", "u read", "u remove"}
		if how == "close" {
			s.c.Close(CloseNormal)
			s.settle()
			want = want[3:]
		}
		s.j.expect(t, "while the pool is full")
		close(gate)
		s.untilIdle()
		s.j.expect(t, how, want...)
	}
}

// relay passes everything on and may be added anywhere.
type relay struct{ added, removed *atomic.Int64 }

func (r relay) HandleAdd(*Context) error                { r.added.Add(1); return nil }
func (r relay) HandleRemove(*Context)                   { r.removed.Add(1) }
func (r relay) HandleRead(ctx *Context, msg any) error  { ctx.FireRead(msg); return nil }
func (r relay) HandleWrite(ctx *Context, msg any) error { return ctx.Write(msg) }

// TestChangesFromManyGoroutines: bytes go through handlers on the loop and two pools and back in their order while several
// goroutines change the pipeline; each is told what became of its changes, and everybody who was added is removed.
func TestChangesFromManyGoroutines(t *testing.T) {
	const total = 600
	p, q := oneWorker(t, 1000), oneWorker(t, 1000)
	executors := [][]AddOption{nil, {On(p)}, {On(q)}}
	var added, removed, taken, told atomic.Int64
	r := relay{&added, &removed}
	conns := make(chan *Conn, 1)
	srv := &Server{Loops: 1, Init: func(b *Pipeline) error {
		b.Add("bytes", oneByte{})
		b.Add("first", r, On(p))
		b.Add("last", r, On(q))
		b.Add("open", openFunc(func(ctx *Context) error { conns <- ctx.conn; return nil }))
		return b.Add("echo", Handle(func(ctx *Context, v byte) error { return ctx.Write([]byte{v}) }))
	}}
	client := serveOne(t, srv)
	c := <-conns
	var stop atomic.Bool
	var wg sync.WaitGroup
	for id := range 3 {
		rnd := rand.New(rand.NewPCG(uint64(id), 1))
		wg.Go(func() {
			name := fmt.Sprint("m", id)
			for i := 0; !stop.Load(); i++ {
				on := executors[rnd.IntN(3)]
				kind := rnd.IntN(3)
				done := make(chan error, 1)
				err := c.Change(func(b *Pipeline) error {
					switch {
					case b.Context(name) == nil:
						return b.AddAfter("first", name, r, on...)
					case kind == 0:
						return b.Replace(name, name, r, on...)
					}
					return b.Remove(name)
				}, func(err error) { told.Add(1); done <- err })
				if err != nil {
					return
				}
				taken.Add(1)
				if err := <-done; err != nil && !errors.Is(err, ErrSaturated) && !errors.Is(err, ErrClosed) && !errors.Is(err, executor.ErrRejected) {
					t.Errorf("change %d of %s: %v", i, name, err)
				}
			}
		})
	}
	until(t, "changes to be under way", func() bool { return taken.Load() >= 10 })
	go func() {
		w := bufio.NewWriter(client)
		for i := range total {
			w.WriteByte(byte(i))
		}
		w.Flush()
	}()
	got := make([]byte, total)
	if n, err := io.ReadFull(client, got); err != nil {
		t.Errorf("%d of %d bytes came back: %v", n, total, err)
	}
	for i, v := range got {
		if v != byte(i) {
			t.Errorf("byte %d is %d: the order is lost", i, v)
			break
		}
	}
	stop.Store(true)
	wg.Wait()
	c.Close(CloseNormal)
	<-c.CloseFuture().Done()
	until(t, "every HandleRemove", func() bool { return added.Load() == removed.Load() })
	if taken.Load() != told.Load() {
		t.Errorf("%d changes taken, %d told", taken.Load(), told.Load())
	}
	t.Logf("%d changes, %d handlers", taken.Load(), added.Load())
}
