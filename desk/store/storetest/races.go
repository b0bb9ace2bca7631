package storetest

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-eddy/eddy/desk/store"
)

func testCapacity(t *testing.T, r *rig) {
	var convs []store.Conversation
	for range 8 {
		convs = append(convs, r.open(r.visitor(), true))
	}
	results := make(chan error, len(convs))
	for _, c := range convs {
		go func() { results <- r.try(store.Move{Conv: c.ID, Trigger: store.TakeOver, By: r.lin.Actor()}).Err }()
	}
	taken, refused := 0, 0
	for range convs {
		switch err := <-results; {
		case err == nil:
			taken++
		case errors.Is(err, store.ErrCapacity):
			refused++
		default:
			t.Error(err)
		}
	}
	if taken != 5 || refused != 3 || r.load(r.lin.ID).Active != 5 {
		t.Fatalf("taken %d, refused %d, capacity 5, counter %d", taken, refused, r.load(r.lin.ID).Active)
	}
}

func testTwoAgents(t *testing.T, r *rig) {
	agents := []store.Actor{r.agent("a", store.MaxCapacity).Actor(), r.agent("b", store.MaxCapacity).Actor()}
	ann := r.visitor()
	for round := range r.b.Rounds {
		conv := r.open(ann, true)
		results := make(chan store.Outcome, 2)
		for _, a := range agents {
			go func() { results <- r.try(store.Move{Conv: conv.ID, Trigger: store.TakeOver, By: a, Rev: conv.Rev}) }()
		}
		x, y := <-results, <-results
		if x.Err != nil {
			x, y = y, x
		}
		if x.Err != nil || !errors.Is(y.Err, store.ErrConflict) {
			t.Fatalf("round %d: %v, %v", round, x.Err, y.Err)
		}
		if y.Conv != x.Conv || y.Conv.State != store.Assigned {
			t.Fatalf("round %d: the loser's head is %+v, the winner's %+v", round, y.Conv, x.Conv)
		}
		r.do(store.Move{Conv: conv.ID, Trigger: store.CustomerClose, By: ann.Actor()})
	}
}

// burst watches the outcomes of a burst. They arrive one at a time in the order of commits.
type burst struct {
	mu     sync.Mutex
	active map[string]int
	last   store.Conversation // taken last
	taken  int
	wrong  []string
}

const burstAgents, burstCapacity = 10, 5

func (b *burst) took(c store.Conversation) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.taken++
	if b.active[c.Owner.ID]++; b.active[c.Owner.ID] > burstCapacity {
		b.wrong = append(b.wrong, fmt.Sprintf("%s has %d", c.Owner.ID, b.active[c.Owner.ID]))
	}
	if b.last.ID != "" && b.last.CompareQueue(&c) >= 0 {
		b.wrong = append(b.wrong, fmt.Sprintf("%s after %s", c.ID, b.last.ID))
	}
	b.last = c
}

func (b *burst) closed(agent string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.active[agent]--
}

// testBurst: customers, usually 200, enter while 10 agents with a capacity of 5 take the first of the queue. The
// capacity is never exceeded and no customer is passed over.
func testBurst(t *testing.T, r *rig) {
	b := &burst{active: make(map[string]int)}
	contacts := make([]store.Contact, r.b.Customers)
	for i := range contacts {
		contacts[i] = r.visitor()
	}
	var left atomic.Int64
	left.Store(int64(r.b.Customers))
	var all sync.WaitGroup
	for _, part := range [][]store.Contact{contacts[:len(contacts)/2], contacts[len(contacts)/2:]} {
		all.Go(func() {
			for _, c := range part {
				if out := r.try(store.Open{Contact: c, Human: true}); out.Err != nil {
					t.Error(out.Err)
				}
			}
		})
	}
	for i := range burstAgents {
		a := r.agent(fmt.Sprint("agent", i), burstCapacity)
		all.Go(func() { r.serve(b, a, &left) })
	}
	all.Wait()
	if len(b.wrong) > 0 || b.taken != r.b.Customers {
		t.Fatalf("%d taken, wrong: %.10q", b.taken, b.wrong)
	}
}

// serve is one agent of the burst: it takes the head of the queue, and closes its oldest conversation when it is full.
func (r *rig) serve(b *burst, a store.AgentAccount, left *atomic.Int64) {
	var mine []string
	for deadline := time.Now().Add(5 * time.Minute); left.Load() > 0; {
		if time.Now().After(deadline) {
			r.t.Error("the burst is not over after 5 minutes")
			return
		}
		queue, _, err := r.Cold().Queue(r.t.Context(), 1)
		if err != nil {
			r.t.Error(err)
			return
		}
		if len(queue) == 0 {
			time.Sleep(time.Millisecond) // the customers are still on their way in
			continue
		}
		switch out := r.watched(store.Move{Conv: queue[0].ID, Trigger: store.TakeOver, By: a.Actor(), Rev: queue[0].Rev}, b.took); {
		case out.Err == nil:
			mine = append(mine, out.Conv.ID)
			left.Add(-1)
		case errors.Is(out.Err, store.ErrCapacity):
			if len(mine) != burstCapacity {
				r.t.Errorf("refused with %d conversations", len(mine))
			}
			end := store.Move{Conv: mine[0], Trigger: store.AgentClose, By: a.Actor()}
			if out := r.watched(end, func(store.Conversation) { b.closed(a.ID) }); out.Err != nil {
				r.t.Error(out.Err)
				return
			}
			mine = mine[1:]
		case !errors.Is(out.Err, store.ErrConflict):
			r.t.Error(out.Err)
			return
		}
	}
}

// watched runs a command and tells its success where the store tells it.
func (r *rig) watched(cmd store.Command, told func(store.Conversation)) store.Outcome {
	result := make(chan store.Outcome, 2)
	r.Do(cmd, time.Now().Add(time.Minute), func(out store.Outcome) {
		if out.Err == nil {
			told(out.Conv)
		}
		result <- out
	})
	return <-result
}
