package eddy_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/buf"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/ring"
)

var soakFor = flag.Duration("soak", 0, "how long TestProducersFasterThanConsumers lets them produce; 0 = until they have lost 40 MiB")

// flood is one producer that is faster than its consumer.
type flood struct {
	name    string
	burst   func()       // produces some; called again and again by one goroutine
	within  func() error // whether the queues keep their bounds; any goroutine
	finish  func()       // ends the consumer after what was taken
	tally   *tally
	refuses bool // the policy refuses or drops; else it holds the producer back
}

// tally counts where everything went.
type tally struct{ produced, refused, handled, dropped atomic.Int64 }

func (c *tally) String() string {
	return fmt.Sprintf("%d produced, %d handled, %d refused, %d dropped", c.produced.Load(), c.handled.Load(), c.refused.Load(), c.dropped.Load())
}

const (
	burstSize = 64
	workTime  = 500 * time.Microsecond // of the consumers; a burst comes in less
	itemSize  = 512
)

// TestProducersFasterThanConsumers: side by side, a producer for every answer that there is to a full queue. However long they
// go on, memory stays flat, no queue passes its bound, and everything produced was handled, refused or dropped, and counted.
func TestProducersFasterThanConsumers(t *testing.T) {
	var floods []*flood
	floods = append(floods, poolFloods(t)...)
	floods = append(floods, laneFloods(t)...)
	floods = append(floods, ringFlood(t))
	floods = append(floods, hopFloods(t)...)
	var stop atomic.Bool
	var wg sync.WaitGroup
	var bursts sync.RWMutex // held for writing, nobody produces
	end := sync.OnceFunc(func() {
		stop.Store(true)
		wg.Wait()
		for _, f := range floods {
			f.finish()
		}
	})
	t.Cleanup(end) // a failure leaves nobody who produces beside the other tests
	for _, f := range floods {
		wg.Go(func() {
			for !stop.Load() {
				bursts.RLock()
				f.burst()
				bursts.RUnlock()
				time.Sleep(100 * time.Microsecond) // a share of the processors for everybody
			}
		})
	}
	watchMemory(t, floods, &bursts)
	for _, f := range floods { // a slow machine takes longer to fill the queues
		waitFor(t, f.name+": a full queue", func() bool {
			return f.tally.handled.Load() > 0 && (!f.refuses || f.tally.refused.Load()+f.tally.dropped.Load() > 0)
		})
	}
	end()
	for _, f := range floods {
		c := f.tally
		t.Logf("%-28s %v", f.name, c)
		if c.produced.Load() != c.handled.Load()+c.refused.Load()+c.dropped.Load() {
			t.Errorf("%s: %v", f.name, c)
		}
	}
}

// soakHolds is what all the queues together may hold: mostly the leftovers of the connections whose reads are paused.
// soakLoses is what has been refused and dropped when a run without a length of its own is over: more than that.
const (
	soakHolds = 64 << 20
	soakLoses = 80 << 20
)

// watchMemory looks at the heap in windows, and at the bounds more often. In a long run the last windows must hold no more
// than the first ones. Nobody produces meanwhile: what is made while the collector marks would count as held, and on a slow
// machine it marks for seconds.
func watchMemory(t *testing.T, floods []*flood, bursts *sync.RWMutex) {
	t.Helper()
	const windows, slack = 12, 8 << 20
	var heap [windows]int
	before := heapNow()
	for w := range heap {
		end := time.Now().Add(*soakFor / windows)
		waitFor(t, "the end of a window", func() bool {
			lost := int64(0)
			for _, f := range floods {
				if err := f.within(); err != nil {
					t.Fatalf("%s: %v", f.name, err)
				}
				lost += itemSize * (f.tally.refused.Load() + f.tally.dropped.Load())
			}
			if *soakFor > 0 {
				return time.Now().After(end)
			}
			return lost >= soakLoses*int64(w+1)/windows
		})
		bursts.Lock()
		heap[w] = heapNow() - before
		bursts.Unlock()
		if heap[w] > soakHolds {
			t.Fatalf("%d MiB held after window %d of %d, at most %d MiB are taken", heap[w]>>20, w+1, windows, soakHolds>>20)
		}
	}
	mean := func(heap []int) (sum int) {
		for _, n := range heap {
			sum += n / len(heap)
		}
		return sum
	}
	first, last := mean(heap[2:6]), mean(heap[8:])
	t.Logf("heap %d KiB after the first windows, %d KiB in the last ones, %d goroutines", first>>10, last>>10, runtime.NumGoroutine())
	if *soakFor >= 20*time.Second && last > first+slack {
		t.Errorf("the heap has grown in %v: %d", *soakFor, heap)
	}
}

func heapNow() int {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// soakRunner holds memory as work does.
type soakRunner struct {
	c    *tally
	body [itemSize]byte
}

func (r *soakRunner) Run() {
	r.body[0]++
	time.Sleep(workTime)
	r.c.handled.Add(1)
}

// poolFloods: the policies of a pool, on goroutines that may wait, and strands and keys, which refuse.
func poolFloods(t *testing.T) []*flood {
	always := func() bool { return true }
	var floods []*flood
	add := func(name string, policy func(c *tally) executor.Policy, refuses bool, submit func(p *executor.Pool, c *tally) func() error) {
		c := new(tally)
		p, err := executor.NewFixed(executor.Options{Name: name, Workers: 2, Queue: 256, Policy: policy(c), Logger: quiet()})
		if err != nil {
			t.Fatal(err)
		}
		one := submit(p, c)
		floods = append(floods, &flood{name: name, tally: c, refuses: refuses,
			burst: func() {
				for range burstSize {
					c.produced.Add(1)
					if err := one(); errors.Is(err, executor.ErrRejected) {
						c.refused.Add(1)
					} else if err != nil {
						t.Errorf("%s: %v", name, err)
					}
				}
			},
			within: func() error {
				if n := p.Stats().Queued; n > 256+2 {
					return fmt.Errorf("%d runners wait", n)
				}
				return nil
			},
			finish: func() {
				if _, err := p.Shutdown(context.Background()); err != nil {
					t.Error(err)
				}
			},
		})
	}
	told := func(c *tally) func(executor.Runner) { return func(executor.Runner) { c.dropped.Add(1) } }
	runner := func(p *executor.Pool, c *tally) func() error {
		return func() error { return p.Submit(&soakRunner{c: c}) }
	}
	abort := func(*tally) executor.Policy { return executor.Abort() }
	add("pool, abort", abort, true, runner)
	add("pool, caller runs", func(*tally) executor.Policy { return executor.CallerRuns(always) }, false, runner)
	add("pool, discard", func(c *tally) executor.Policy { return executor.Discard(told(c)) }, true, runner)
	add("pool, discard oldest", func(c *tally) executor.Policy { return executor.DiscardOldest(told(c)) }, true, runner)
	add("pool, block", func(*tally) executor.Policy { return executor.Block(10*time.Millisecond, always) }, false, runner)
	add("strand", abort, true, func(p *executor.Pool, c *tally) func() error {
		s := executor.NewStrand(p, 128, func(r *soakRunner) { r.Run() })
		return func() error { return s.Submit(&soakRunner{c: c}) }
	})
	add("keys", abort, true, func(p *executor.Pool, c *tally) func() error {
		k := executor.NewKeyed[int](p, 32, 128)
		i := 0
		return func() error { i++; return k.Submit(i%10, (&soakRunner{c: c}).Run) }
	})
	return floods
}

// laneFloods: full lanes that reject, grow first, and spill first.
func laneFloods(t *testing.T) []*flood {
	var floods []*flood
	for name, lane := range map[string]executor.Lane{
		"lane, reject": {Name: "reject", Capacity: 64},
		"lane, grow":   {Name: "grow", Capacity: 64, MaxWorkers: 4},
		"lane, spill": {Name: "spill", Capacity: 64,
			Spill: &ring.SpillOptions{Dir: t.TempDir(), Memory: 64, Buffer: 64, MaxBytes: 1 << 20, SegmentBytes: 1 << 18}},
	} {
		type item struct {
			n    uint64
			body [itemSize]byte
		}
		c := new(tally)
		wake := make(chan struct{}, 1)
		lanes, err := executor.NewLanes(executor.LanesOptions[item, uint64]{
			Lanes: []executor.Lane{lane},
			Run:   func(_ int, in *item, out *uint64) { time.Sleep(workTime); *out = in.n },
			Wake: func() error {
				select {
				case wake <- struct{}{}:
				default:
				}
				return nil
			},
			Encode: func(in *item) []byte {
				return append(binary.BigEndian.AppendUint64(nil, in.n), in.body[:]...)
			},
			Decode: func(b []byte, in *item) error { in.n = binary.BigEndian.Uint64(b); copy(in.body[:], b[8:]); return nil },
		})
		if err == nil {
			err = lanes.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		over, collected := make(chan struct{}), make(chan struct{})
		collect := func() { lanes.Collect(0, func(*uint64) { c.handled.Add(1) }) }
		go func() {
			defer close(collected)
			for {
				select {
				case <-wake:
					collect()
				case <-over:
					return
				}
			}
		}()
		var n uint64
		floods = append(floods, &flood{name: name, tally: c, refuses: true,
			burst: func() {
				for range burstSize {
					n++
					c.produced.Add(1)
					if err := lanes.Submit(0, item{n: n}); errors.Is(err, executor.ErrRejected) {
						c.refused.Add(1)
					} else if err != nil {
						t.Errorf("%s: %v", name, err)
					}
				}
			},
			within: func() error {
				st := lanes.Stats()[0]
				if workers := max(lane.MaxWorkers, 1); st.Queued > 64*workers || st.Workers > workers || st.Spilled > 64+64+(1<<20)/itemSize+64 {
					return fmt.Errorf("%+v", st)
				}
				return nil
			},
			finish: func() {
				// What lies on disk takes its time on a slow machine: as long as some of it ends.
				for st := lanes.Stats()[0]; st.Done+st.Lost < st.Accepted; st = lanes.Stats()[0] {
					waitFor(t, name+": the end of what was taken", func() bool { now := lanes.Stats()[0]; return now.Done+now.Lost > st.Done+st.Lost })
				}
				c.dropped.Add(int64(lanes.Stop(context.Background())))
				close(over)
				<-collected
				collect()
			},
		})
	}
	return floods
}

// ringFlood: a ring whose producer is told that it is full.
func ringFlood(t *testing.T) *flood {
	q, err := ring.NewMPSC[soakRunner](256)
	if err != nil {
		t.Fatal(err)
	}
	c := new(tally)
	over, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			if r, ok := q.Recv(); ok {
				r.Run()
				continue
			}
			select {
			case <-over:
				return
			case <-time.After(workTime):
			}
		}
	}()
	return &flood{name: "ring, full", tally: c, refuses: true,
		burst: func() {
			for range burstSize {
				c.produced.Add(1)
				if !q.Send(soakRunner{c: c}) {
					c.refused.Add(1)
				}
			}
		},
		within: func() error {
			if n := q.Len(); n > 256 {
				return fmt.Errorf("%d in a ring of 256", n)
			}
			return nil
		},
		finish: func() {
			close(over)
			<-done
			for r, ok := q.Recv(); ok; r, ok = q.Recv() {
				r.Run()
			}
		},
	}
}

// hopFloods: clients that send without pause to handlers on pools, one for each policy of a refused hop.
func hopFloods(t *testing.T) []*flood {
	var floods []*flood
	for _, on := range []struct {
		name string
		on   func(*executor.Pool) eddy.AddOption
	}{{"ordered", eddy.On}, {"unordered", eddy.OnUnordered}} {
		for policy, reject := range map[string]func(c *tally) eddy.AddOption{
			"close": func(*tally) eddy.AddOption { return eddy.RejectClose() },
			"pause": func(*tally) eddy.AddOption { return eddy.RejectPause() },
			"reply": func(c *tally) eddy.AddOption { return eddy.RejectReply(func(any) any { return "busy\n" }) },
			"function": func(c *tally) eddy.AddOption {
				return eddy.RejectFunc(func(ctx *eddy.Context, msg any, _ *eddy.HopError) error {
					msg.(*parcel).Release()
					return ctx.Write("busy\n")
				})
			},
		} {
			floods = append(floods, hopFlood(t, fmt.Sprintf("hop, %s, %s", on.name, policy), on.on, reject, policy != "pause"))
		}
	}
	return floods
}

// parcel is a message that is either handled or released by the engine.
type parcel struct {
	c    *tally
	body []byte
}

// Release implements eddy.Releaser.
func (p *parcel) Release() { p.c.dropped.Add(1) }

func hopFlood(t *testing.T, name string, on func(*executor.Pool) eddy.AddOption, reject func(*tally) eddy.AddOption, refuses bool) *flood {
	c := new(tally)
	const workers, queue, conns = 2, 16, 24
	pool, err := executor.NewFixed(executor.Options{Name: name, Workers: workers, Queue: queue, Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	policy := reject(c)
	srv := &eddy.Server{Loops: 1, Logger: quiet(), Pools: []*executor.Pool{pool}, LingerTimeout: 100 * time.Millisecond, RecvBuffer: 16 << 10, Init: func(p *eddy.Pipeline) error {
		p.Add("lines", &lines{})
		p.Add("count", eddy.Handle(func(ctx *eddy.Context, m *buf.Bytes) error {
			c.produced.Add(1)
			ctx.FireRead(&parcel{c, bytes.Clone(m.Bytes())})
			return nil
		}))
		return p.Add("slow", eddy.Handle(func(ctx *eddy.Context, m *parcel) error {
			time.Sleep(workTime)
			c.handled.Add(1)
			_ = ctx.Write(append(m.body, '\n')) // its connection may have ended
			return nil
		}), on(pool), policy)
	}}
	addr := start(t, srv)
	line := append(make([]byte, itemSize-1), '\n')
	for i := range line[:itemSize-1] {
		line[i] = 'x'
	}
	var clients [conns]net.Conn
	var reading sync.WaitGroup
	next := 0
	return &flood{name: name, tally: c, refuses: refuses,
		burst: func() {
			next = (next + 1) % conns
			if clients[next] == nil {
				conn, err := net.Dial("tcp", addr)
				if err != nil {
					return
				}
				_ = conn.(*net.TCPConn).SetWriteBuffer(16 << 10) // what waits in the kernel is worked off at the end
				clients[next] = conn
				reading.Go(func() { _, _ = io.Copy(io.Discard, conn) })
			}
			conn := clients[next]
			_ = conn.SetWriteDeadline(time.Now().Add(5 * time.Millisecond)) // who is held back goes on with the next one
			for range burstSize / 4 {
				if _, err := conn.Write(line); err != nil {
					if ne, ok := errors.AsType[net.Error](err); !ok || !ne.Timeout() {
						_ = conn.Close()
						clients[next] = nil
					}
					return
				}
			}
		},
		within: func() error {
			// A strand's further turn waits beside the bound: at most one for each connection.
			if n := pool.Stats().Queued; n > queue+workers+conns {
				return fmt.Errorf("%d wait in a queue of %d", n, queue)
			}
			return nil
		},
		finish: func() {
			for _, c := range clients {
				if c != nil { // in the middle of everything: what waits is released
					_ = c.(*net.TCPConn).SetLinger(0)
					_ = c.Close()
				}
			}
			reading.Wait()
			if _, err := srv.Shutdown(context.Background()); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		},
	}
}
