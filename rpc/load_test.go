package rpc

import (
	"context"
	"encoding/binary"
	"errors"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/internal/testkit"
	"github.com/go-eddy/eddy/responder"
)

// TestOverload: at twice the capacity each round has the goodput of one without overload, what is refused is refused while
// every worker is busy, and neither calls nor memory stay behind. Nothing is timed: the workers go on when the test says so.
func TestOverload(t *testing.T) {
	const capacity, rounds = 8, 60
	gates := make(chan *gate, 1)
	current := newGate()
	gates <- current
	s := serve(t, newServer(t, ServerOptions{Ports: []PortOptions{{Pool: PoolOptions{Threads: capacity}}}}),
		newService(t, rawKey, Raw("Hold", func(_ context.Context, body []byte) ([]byte, error) {
			g := <-gates
			gates <- g
			g.wait()
			return body, nil
		})))
	c := dialRaw(t, s.Addr("port0"))
	body := string(make([]byte, 1000))
	var id uint64
	var before uint64
	for round := range rounds {
		if round == 10 {
			before = heap()
		}
		testkit.Eventually(t, "idle workers", func() bool { return s.Stats().Pools["port port0"].Running == 0 })
		sent := map[uint64]bool{}
		for range 2 * capacity {
			id++
			sent[id] = true
			c.call(id, 0, rawKey, "Hold", body)
		}
		testkit.Eventually(t, "the workers", func() bool { return current.waiting.Load() == capacity })
		for range capacity { // the others are answered while no worker is free
			if a := c.next(); a.status != busy || !sent[a.id] {
				t.Fatalf("round %d: answer %d with status %d, want BUSY", round, a.id, a.status)
			} else {
				delete(sent, a.id)
			}
		}
		last := current
		<-gates
		current = newGate()
		gates <- current
		close(last.open)
		for range capacity {
			if a := c.next(); a.status != ok || !sent[a.id] || len(a.payload) != len(body) {
				t.Fatalf("round %d: answer %d with status %d, want OK", round, a.id, a.status)
			} else {
				delete(sent, a.id)
			}
		}
	}
	c.silent(id + 1)
	if after := heap(); after > before+4<<20 {
		t.Errorf("the heap grew from %d to %d bytes", before, after)
	}
	st := s.Stats().Ports["port0"]
	if st.Requests.Rejected != rounds*capacity || st.Engine.Memory.Outbound != 0 {
		t.Errorf("%+v %+v", st.Requests, st.Engine.Memory)
	}
}

func heap() uint64 {
	runtime.GC()
	runtime.GC() // what was in a sync.Pool
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// TestManyCallsOnOneConnection: ten thousand calls of one connection are in flight together, and each has its answer.
func TestManyCallsOnOneConnection(t *testing.T) {
	const calls = 10_000
	g := newGate()
	s := serve(t, newServer(t, ServerOptions{Ports: []PortOptions{{Pool: PoolOptions{Threads: 16, Queue: calls}}}}),
		newService(t, rawKey, Raw("Hold", func(_ context.Context, body []byte) ([]byte, error) {
			g.wait()
			return append([]byte("r"), body...), nil
		})))
	c := dialRaw(t, s.Addr("port0"))
	var all []byte
	for i := range uint64(calls) {
		all = append(all, rawFrame(i+1, 2, rawCall(0, 0, rawKey, "Hold", string(binary.BigEndian.AppendUint64(nil, i+1))))...)
	}
	go c.Write(all)
	key := Key{Interface: "test", Version: "1"}
	testkit.Eventually(t, "all calls", func() bool { return s.Stats().Services[key].InFlight == calls })
	c.silent(1 << 40) // which is answered at once
	close(g.open)
	seen := make([]bool, calls+1)
	for range calls {
		a := c.next()
		if a.status != ok || a.id > calls || seen[a.id] || len(a.payload) != 9 || binary.BigEndian.Uint64(a.payload[1:]) != a.id {
			t.Fatalf("answer %+v", a)
		}
		seen[a.id] = true
	}
	testkit.Eventually(t, "the end", func() bool { return s.Stats().Services[key].InFlight == 0 })
	c.silent(1 << 41)
}

// TestDrainUnderLoad: when the server drains, every call that was executed is answered OK, and every one that is told it was
// not executed was not.
func TestDrainUnderLoad(t *testing.T) {
	const conns, window = 4, 16
	var executed atomic.Int64
	s := serve(t, newServer(t, ServerOptions{Ports: []PortOptions{{Pool: PoolOptions{Threads: 4, Queue: 8}}}}),
		newService(t, rawKey, Raw("Count", func(context.Context, []byte) ([]byte, error) {
			executed.Add(1)
			runtime.Gosched()
			return nil, nil
		})))
	var done, refused, waved, served atomic.Int64
	var wg sync.WaitGroup
	for range conns {
		c := dialRaw(t, s.Addr("port0"))
		wg.Go(func() {
			defer c.Close()
			first := sync.OnceFunc(func() { served.Add(1) })
			inFlight := map[uint64]bool{}
			for id := uint64(1); ; {
				for len(inFlight) < window {
					inFlight[id] = true
					if _, err := c.Write(rawFrame(id, 2, rawCall(0, 0, rawKey, "Count", ""))); err != nil {
						break // the server is gone; what it has sent is still to be read
					}
					id++
				}
				a, err := c.read()
				if err != nil {
					return
				}
				switch {
				case a.id == 0 && a.status == goAwayStatus:
					waved.Add(1)
					continue
				case !inFlight[a.id]:
					t.Errorf("answer %+v to nothing", a)
				case a.status == ok:
					done.Add(1)
				case a.status == busy || a.status == unavailable:
					refused.Add(1)
				default:
					t.Errorf("answer %+v", a)
				}
				delete(inFlight, a.id)
				first()
			}
		})
	}
	testkit.Eventually(t, "some work for each", func() bool { return done.Load() > 200 && served.Load() == conns })
	report, err := s.Shutdown(testkit.Context(t))
	wg.Wait()
	if err != nil || report.Forced != 0 || report.Dropped != 0 {
		t.Errorf("%+v, %v", report, err)
	}
	if executed.Load() != done.Load() {
		t.Errorf("%d calls were executed and %d answered OK", executed.Load(), done.Load())
	}
	if waved.Load() != conns {
		t.Errorf("%d of %d connections were told GOAWAY", waved.Load(), conns)
	}
}

// TestCancellationRaces: calls that are cancelled at any time have one answer each, OK or CANCELLED, and their ids can be used
// again at once.
func TestCancellationRaces(t *testing.T) {
	const ids, rounds = 8, 150
	for _, d := range []Dispatcher{DispatchAll, DispatchDirect} {
		s := serve(t, newServer(t, ServerOptions{Ports: []PortOptions{{Dispatcher: d, Pool: PoolOptions{Threads: 4, Queue: ids * rounds}}}}), // cancelled calls keep their places until a worker finds them
			newService(t, rawKey, Raw("Turn", func(ctx context.Context, body []byte) ([]byte, error) {
				for range body[0] {
					runtime.Gosched()
				}
				if err := ctx.Err(); err != nil {
					return nil, err
				}
				return body[1:], nil
			})))
		c := dialRaw(t, s.Addr("port0"))
		for round := range rounds {
			var b []byte
			for id := range uint64(ids) {
				b = append(b, rawFrame(id+1, 2, rawCall(0, 0, rawKey, "Turn", string([]byte{byte(round % 5), byte(round)})))...)
				if round%3 != 0 {
					b = append(b, rawFrame(id+1, 4, nil)...)
				}
			}
			c.send(b)
			if round%3 == 0 {
				for id := range uint64(ids) {
					c.cancel(id + 1)
				}
			}
			seen := map[uint64]bool{}
			for range ids {
				a := c.next()
				fine := a.status == canceled || a.status == ok && len(a.payload) == 1 && a.payload[0] == byte(round)
				if !fine || seen[a.id] {
					t.Fatalf("%v, round %d: %+v", d, round, a)
				}
				seen[a.id] = true
			}
		}
		key := Key{Interface: "test", Version: "1"}
		testkit.Eventually(t, "the end", func() bool { return s.Stats().Services[key].InFlight == 0 })
		c.silent(1 << 40)
		if st := s.Stats().Services[key]; st.Calls != ids*rounds {
			t.Errorf("%d calls, want %d", st.Calls, ids*rounds)
		}
	}
}

// counted is a call with its place in its stream. On a loop it cannot be decoded or encoded.
type counted struct{ N int }

var errOnLoop, errOrder = errors.New("on the loop"), errors.New("out of order")

func (c counted) MarshalJSON() ([]byte, error) {
	if eddy.OnLoop() {
		return nil, errOnLoop
	}
	return strconv.AppendInt(nil, int64(c.N), 10), nil
}

func (c *counted) UnmarshalJSON(b []byte) (err error) {
	if eddy.OnLoop() {
		return errOnLoop
	}
	c.N, err = strconv.Atoi(string(b))
	return err
}

// TestSerialStreams: with responder.Serial the calls of one connection run one at a time in order, each decoded and encoded on a
// pool, and connections side by side (R160).
func TestSerialStreams(t *testing.T) {
	const calls = 100
	var order sync.Map // connection → last
	var beside atomic.Int64
	g := newGate()
	s := newServer(t, ServerOptions{Isolation: PerService, Ports: []PortOptions{{Ordering: responder.Serial, Pool: PoolOptions{Threads: 4, Queue: 100}}}})
	count := Unary("Count", func(ctx context.Context, req *counted) (*counted, error) {
		n := beside.Add(1)
		defer beside.Add(-1)
		peer := CallFrom(ctx).Peer
		if req.N == 0 {
			g.wait() // until both streams are here
		} else if last, _ := order.Load(peer); last != req.N-1 {
			return nil, errOrder
		}
		if n > 2 {
			return nil, errOrder
		}
		order.Store(peer, req.N)
		return req, nil
	})
	serve(t, s, newService(t, "/a:", count), newService(t, "/b:", count)) // pools of their own
	var wg sync.WaitGroup
	for range 2 {
		c := dialRaw(t, s.Addr("port0"))
		wg.Go(func() {
			var b []byte
			for i := range uint64(calls) {
				b = append(b, rawFrame(i+1, 2, rawCall(0, 1, []string{"/a:", "/b:"}[i%2], "Count", strconv.Itoa(int(i))))...)
			}
			if _, err := c.Write(b); err != nil {
				t.Error(err)
			}
			for i := range uint64(calls) {
				if a, err := c.read(); err != nil || a.id != i+1 || a.status != ok || string(a.payload) != strconv.Itoa(int(i)) {
					t.Errorf("answer %+v, %v, want %d", a, err, i+1)
					return
				}
			}
		})
	}
	testkit.Eventually(t, "both streams", func() bool { return g.waiting.Load() == 2 })
	close(g.open)
	wg.Wait()
}
