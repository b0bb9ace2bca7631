package storetest

import (
	"errors"
	"fmt"
	"math/rand/v2"
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

// testRandom: after random commands by anybody, data that the store keeps in several places agrees, whatever was
// refused.
func testRandom(t *testing.T, r *rig) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 7))
	r.listened()
	w := world{rig: r, rng: rng, group: r.aiming(20*time.Minute, r.lin).ID, agents: []store.AgentAccount{r.lin, r.moe, r.agent("kim", 1)}}
	for range 4 {
		w.contacts = append(w.contacts, r.visitor())
	}
	done := make(map[bool]int)
	for range r.b.Rounds {
		out := r.try(w.command())
		known := out.Err == nil
		for _, err := range []error{store.ErrNotFound, store.ErrConflict, store.ErrClosed, store.ErrForbidden, store.ErrCapacity} {
			known = known || errors.Is(out.Err, err)
		}
		if !known {
			t.Fatal(out.Err)
		}
		done[out.Err == nil]++
		if out.Err == nil && !out.Dup && !out.Existing && out.Conv != r.head(out.Conv.ID) {
			t.Fatalf("told %+v, kept %+v", out.Conv, r.head(out.Conv.ID))
		}
		if out.Conv.ID != "" {
			w.convs[out.Conv.ID] = out.Conv
		}
		r.shift.Add(int64(rng.IntN(int(time.Hour))))
	}
	for id := range w.convs {
		r.verifyConv(id)
	}
	r.verifyTold()
	if done[true] < r.b.Rounds/10 || done[false] == 0 {
		t.Errorf("%d commands succeeded, %d were refused", done[true], done[false])
	}
}

// world makes random commands.
type world struct {
	*rig
	rng      *rand.Rand
	group    string
	agents   []store.AgentAccount
	contacts []store.Contact
	convs    map[string]store.Conversation
	turns    map[string]string // conversation by turn
}

func pick[T any](rng *rand.Rand, from []T) T { return from[rng.IntN(len(from))] }

func (w *world) command() store.Command {
	if w.convs == nil {
		w.convs, w.turns = make(map[string]store.Conversation), make(map[string]string)
	}
	open, err := w.Cold().OpenConversations(w.t.Context())
	w.must(err)
	contact := pick(w.rng, w.contacts)
	if len(open) == 0 || w.rng.IntN(8) == 0 {
		return store.Open{Contact: contact, Human: w.rng.IntN(2) == 0}
	}
	conv := pick(w.rng, open)
	if w.rng.IntN(4) == 0 {
		for _, conv = range w.convs { // any, perhaps a closed one
			break
		}
	}
	for _, c := range w.contacts {
		if c.ID == conv.Contact && w.rng.IntN(4) > 0 {
			contact = c
		}
	}
	agent := pick(w.rng, w.agents)
	actor := pick(w.rng, []store.Actor{contact.Actor(), agent.Actor(), system})
	if conv.State == store.Assigned && w.rng.IntN(2) == 0 {
		actor = conv.Owner
	}
	switch w.rng.IntN(10) {
	case 0:
		return text(conv.ID, actor, "hello")
	case 1:
		msg := text(conv.ID, actor, "note")
		msg.Note = true
		return msg
	case 2:
		return store.BotTurn{Conv: conv.ID, Turn: w.turnOf(conv.ID), Say: []store.Say{{Body: "hi"}}, Handoff: w.rng.IntN(2) == 0, Note: "summary", Failed: w.rng.IntN(4) == 0}
	case 3:
		p, _ := store.ParsePriority(pick(w.rng, store.Priorities()))
		return store.Arrange{Conv: conv.ID, By: actor, Priority: p}
	case 5:
		return store.Snooze{Conv: conv.ID, By: actor, Until: int64(w.rng.IntN(2)) * (w.now().UnixMilli() + time.Hour.Milliseconds()), Force: w.rng.IntN(4) == 0}
	case 6:
		return store.TellTarget{Conv: conv.ID}
	case 4:
		return store.Relax{Conv: conv.ID, Rev: conv.Rev, Missed: []string{"returns"}}
	}
	if w.rng.IntN(12) == 0 {
		later := leave(contact, "later")
		later.Name = "" // the name of a contact is not that of its conversations' heads here
		return later
	}
	return store.Move{
		Conv: conv.ID, By: actor, To: pick(w.rng, w.agents).ID, Group: w.group, Force: w.rng.IntN(4) == 0, Rev: conv.Rev * int64(w.rng.IntN(2)),
		Trigger: pick(w.rng, []store.Trigger{
			store.Handoff, store.TakeOver, store.TakeOver, store.Assign, store.TransferAgent, store.TransferGroup, store.Return, store.OwnerGone, store.NoAnswer,
			store.CustomerClose, store.AgentClose, store.Idle, store.Abandon, store.Block, store.ReopenToQueue, store.ReopenToBot,
		}),
	}
}

// turnOf returns the id of a turn of a conversation, perhaps of one that is over or of another conversation.
func (w *world) turnOf(conv string) string {
	pending, err := w.Cold().BotPending(w.t.Context())
	w.must(err)
	for _, p := range pending {
		w.turns[p.Turn.ID] = p.Turn.Conv
	}
	for id, of := range w.turns {
		if of == conv || w.rng.IntN(10) == 0 {
			return id
		}
	}
	return "none"
}
