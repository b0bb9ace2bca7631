package hub

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/go-eddy/eddy/desk/desktest"
	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/store"
)

func (r *rig) dialer(token string) desktest.Dialer {
	return func(context.Context) (desktest.Transport, proto.Hello, error) {
		return r.dial(Peer{}).client(), proto.Hello{Token: token}, nil
	}
}

// Clients are cut at random while everybody writes. At the end every view equals the store: nothing missing, nothing
// twice, in order; and every acked message is there, once.
func TestResumeWithRandomCuts(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 2))
	r := newRig(t, Options{Limits: testLimits()})
	const customers, each = 4, 25
	const mostCuts = 200 // on a slow machine they would leave no time for messages
	lin, kim := r.agent("lin"), r.agent("kim")
	agents := []*desktest.Client{lin, kim}
	var clients []*desktest.Client
	var convs []string
	for i := range customers {
		c := r.customer()
		conv := r.open(c, "human")
		r.ok(agents[i%2].Take(r.ctx, conv))
		clients, convs = append(clients, c), append(convs, conv)
	}
	everybody := append([]*desktest.Client{lin, kim}, clients...)
	stop := make(chan struct{})
	var cutter, writers sync.WaitGroup
	cutter.Go(func() {
		for n := range mostCuts {
			select {
			case <-stop:
				return
			default:
			}
			victim := everybody[rng.IntN(len(everybody))]
			_, before := victim.Welcome()
			victim.Break()
			if err := victim.Wait(r.ctx, func() bool { return true }); err != nil {
				return
			}
			if n%3 == 0 { // sometimes let it come back first, sometimes cut while it resumes
				if err := victim.Welcomed(r.ctx, before+1); err != nil {
					t.Error("a client that was cut off does not come back:", err)
					return
				}
			}
		}
	})
	for i := range customers {
		for _, c := range []*desktest.Client{clients[i], agents[i%2]} {
			writers.Go(func() {
				for n := range each {
					c.Send(convs[i], fmt.Sprintf("%s %d", c.Me().Kind, n))
				}
				if err := c.Flushed(r.ctx); err != nil {
					t.Error(err)
				}
			})
		}
	}
	writers.Wait()
	close(stop)
	cutter.Wait()
	for i, conv := range convs {
		r.checkView(clients[i], conv, store.CustomerSide)
		r.checkView(agents[i%2], conv, store.StaffSide)
		r.checkOrder(conv, each)
	}
	for _, c := range everybody {
		for _, a := range c.Acks() {
			r.checkAcked(a)
		}
	}
	if r.hub.Counters.Resumes.Load() == 0 {
		t.Error("nobody resumed")
	}
	t.Logf("%d welcomes, %d events replayed, %d re-sends", r.hub.Counters.Welcomes.Load(), r.hub.Counters.Replayed.Load(), r.hub.Counters.Dups.Load())
}

// checkOrder: each sender's messages are all there, once, in the order of sending.
func (r *rig) checkOrder(conv string, each int) {
	r.t.Helper()
	events, _, err := r.db.Cold().Events(r.ctx, conv, store.StaffSide, 0, 1_000_000, 1<<30)
	r.ok(err)
	next := map[store.ActorKind]int{}
	for _, e := range events {
		if e.Kind != store.KindText {
			continue
		}
		if want := fmt.Sprintf("%s %d", e.From.Kind, next[e.From.Kind]); e.Body != want {
			r.t.Fatalf("message %q where %q was due", e.Body, want)
		}
		next[e.From.Kind]++
	}
	if next[store.Customer] != each || next[store.Agent] != each {
		r.t.Fatalf("messages %v, want %d of each", next, each)
	}
}

func (r *rig) checkAcked(a desktest.Acked) {
	r.t.Helper()
	events, _, err := r.db.Cold().Events(r.ctx, a.Conv, store.StaffSide, a.S-1, 1, 1<<30)
	r.ok(err)
	if len(events) != 1 || events[0].ID != a.ID || events[0].ClientID != a.ClientID || events[0].Body != a.Body {
		r.t.Fatalf("acked %+v, stored %+v", a, events)
	}
}

// More than a resume sends by itself: the head says truncated, and paging brings the rest.
func TestLongAbsenceIsPaged(t *testing.T) {
	r := newRig(t, Options{Limits: testLimits()})
	token := r.visitor()
	first := r.client(r.dialer(token))
	conv := r.open(first, "human")
	const n = resumeEvents*2 + 50
	for i := range n {
		first.Send(conv, fmt.Sprint(i))
	}
	r.ok(first.Flushed(r.ctx))
	second := r.client(r.dialer(token))
	r.ok(second.Connected(r.ctx))
	w, _ := second.Welcome()
	if len(w.Heads) != 1 || !w.Heads[0].Truncated || w.Heads[0].Last != n+1 {
		t.Fatalf("heads %+v", w.Heads)
	}
	r.checkView(second, conv, store.CustomerSide)
	r.checkView(first, conv, store.CustomerSide)
}

// A client that already has everything is sent nothing again, one that claims too much is not harmed.
func TestSeenIsHonoured(t *testing.T) {
	r := newRig(t, Options{Limits: testLimits()})
	token := r.visitor()
	c := r.raw(r.dial(Peer{}))
	c.hello(token)
	conv := c.open()
	c.write("msg.send", "m", conv, proto.Send{ClientID: newClientID(), Body: "x"})
	c.until(func(f desktest.Frame) bool { return f.RE == "m" })
	events, _, err := r.db.Cold().Events(r.ctx, conv, store.CustomerSide, 0, 10, 1<<20)
	r.ok(err)
	if len(events) != 2 {
		t.Fatalf("%d events", len(events))
	}
	for name, x := range map[string]struct {
		seen map[string]uint64
		want []uint64
	}{
		"nothing":    {nil, []uint64{1, 2}},
		"a part":     {map[string]uint64{conv: 1}, []uint64{2}},
		"everything": {map[string]uint64{conv: 2}, nil},
		"the future": {map[string]uint64{conv: 1 << 60}, nil},
		"not theirs": {map[string]uint64{"other": 3, conv: 2}, nil},
	} {
		c := r.raw(r.dial(Peer{}))
		c.write("hello", "h", "", proto.Hello{Token: token, Seen: x.seen})
		c.until(isType("welcome"))
		c.write("ping", "p", "", proto.Ping{})
		var got []uint64
		c.until(func(f desktest.Frame) bool {
			if f.S > 0 {
				got = append(got, f.S)
			}
			return f.T == "pong"
		})
		if fmt.Sprint(got) != fmt.Sprint(x.want) {
			t.Errorf("%s: got %v, want %v", name, got, x.want)
		}
	}
}

// A contact's second tab hears what the first one does.
func TestEveryTabHears(t *testing.T) {
	r := newRig(t, Options{Limits: testLimits()})
	token := r.visitor()
	one, two := r.client(r.dialer(token)), r.client(r.dialer(token))
	r.ok(one.Connected(r.ctx))
	r.ok(two.Connected(r.ctx))
	conv := r.open(one, "human")
	two.Send(conv, "from two")
	one.Send(conv, "from one")
	r.ok(one.Flushed(r.ctx))
	r.ok(two.Flushed(r.ctx))
	r.checkView(one, conv, store.CustomerSide)
	r.checkView(two, conv, store.CustomerSide)
}
