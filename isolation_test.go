package eddy_test

import (
	"bufio"
	"io"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/buf"
	"github.com/go-eddy/eddy/internal/testkit"
)

// TestStuckPoolLeavesOthersAlone: handlers that hang in the agents' pool, until it is full and refuses, and go on hanging,
// leave the customers' echo through the same loop as it was: each line is answered, and so is who comes only now. How much
// slower it is depends on the machine and is logged; `scripts/long isolation` measures it where nothing else runs.
func TestStuckPoolLeavesOthersAlone(t *testing.T) {
	agents := newPool(t, 4, 16)
	customers := newPool(t, 2, 1024)
	gate := make(chan struct{})
	release := sync.OnceFunc(func() { close(gate) })
	defer release()
	var busy atomic.Int64
	agentInit := func(p *eddy.Pipeline) error {
		p.Add("lines", &lines{})
		return p.Add("agent", eddy.Handle(func(ctx *eddy.Context, m *buf.Bytes) error { <-gate; return reply(ctx, m) }),
			eddy.On(agents), eddy.RejectReply(func(any) any { busy.Add(1); return nil }))
	}
	customerInit := func(p *eddy.Pipeline) error {
		p.Add("lines", &lines{})
		return p.Add("customer", eddy.Handle(reply), eddy.On(customers))
	}
	isAgent := make(chan bool, 64)
	srv := &eddy.Server{Loops: 1, Init: func(p *eddy.Pipeline) error {
		if <-isAgent {
			return agentInit(p)
		}
		return customerInit(p)
	}}
	addr := start(t, srv)
	connect := func(agent bool) net.Conn {
		isAgent <- agent
		return dial(t, addr)
	}
	var crowd []net.Conn
	for range 4 {
		crowd = append(crowd, connect(false))
	}
	p99 := func() time.Duration { // of the answers to 500 lines of each customer
		var mu sync.Mutex
		var all []time.Duration
		var wg sync.WaitGroup
		for _, c := range crowd {
			wg.Go(func() {
				r := bufio.NewReader(c)
				for range 500 {
					begin := time.Now()
					c.SetDeadline(time.Now().Add(testkit.Patience))
					io.WriteString(c, "customer\n")
					if got, err := r.ReadString('\n'); err != nil || got != "customer\n" {
						t.Errorf("read %q, %v, want the customer's line", got, err)
						return
					}
					d := time.Since(begin)
					mu.Lock()
					all = append(all, d)
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		if t.Failed() {
			t.FailNow()
		}
		slices.Sort(all)
		return all[len(all)*99/100]
	}
	undisturbed := p99()
	for range 30 {
		a := connect(true)
		io.WriteString(a, "stuck\n")
	}
	full := func() bool {
		st := agents.Stats()
		return st.Running == 4 && st.Queued == 16 && busy.Load() == 10
	}
	waitFor(t, "a full agent pool", full)
	crowd = append(crowd, connect(false))
	t.Logf("p99 undisturbed %v, with all agents stuck %v", undisturbed, p99())
	if !full() {
		t.Errorf("the agents were not stuck all the time: %+v, %d refused", agents.Stats(), busy.Load())
	}
}

// TestTaskStormDoesNotStarveReads: goroutines that post to a loop without pause leave its connections served, and are
// refused when the queue is full.
func TestTaskStormDoesNotStarveReads(t *testing.T) {
	conns := make(chan *eddy.Conn, 1)
	srv := &eddy.Server{Loops: 1, TaskQueue: 2048, Init: initWith(captureConn(conns))}
	c := dial(t, start(t, srv))
	io.WriteString(c, "x")
	conn := <-conns
	io.ReadFull(c, make([]byte, 1))
	stop := make(chan struct{})
	var ran, accepted, refused atomic.Int64
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				switch err := conn.Post(func() { ran.Add(1) }); err {
				case nil:
					accepted.Add(1)
				case eddy.ErrSaturated:
					refused.Add(1)
				default:
					t.Error(err)
					return
				}
			}
		})
	}
	for range 200 {
		io.WriteString(c, "y")
		if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
	}
	waitFor(t, "a refusal, since nothing holds the producers back", func() bool { return refused.Load() > 0 })
	close(stop)
	wg.Wait()
	waitFor(t, "the accepted tasks", func() bool { return ran.Load() == accepted.Load() })
}
