package deskload

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/go-eddy/eddy/desk/proto"
)

// room is a customer and its agent, without a server.
type room struct {
	t               *testing.T
	f               *Fleet
	customer, agent *Client
}

func newRoom(t *testing.T) *room {
	f := New("demo", "http://127.0.0.1:0")
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	r := &room{t: t, f: f, customer: f.newClient(nil), agent: f.newClient(nil)}
	r.agent.staff = true
	return r
}

// show lets clients see a message as event s.
func (r *room) show(p *posted, s uint64, to ...*Client) {
	r.t.Helper()
	r.showAt(p, s, time.Now(), to...)
}

func (r *room) showAt(p *posted, s uint64, now time.Time, to ...*Client) {
	r.t.Helper()
	d, err := json.Marshal(proto.Msg{ClientID: p.clientID, Kind: "text", Body: p.body})
	if err != nil {
		r.t.Fatal(err)
	}
	for _, c := range to {
		if _, err := c.event(&frame{T: "ev.msg", C: p.conv, S: s, D: d}, now); err != nil {
			r.t.Fatal(err)
		}
	}
}

func (r *room) say(c *Client) *posted {
	before := len(c.stream("c").out)
	_ = c.say(&posted{conv: "c", body: "x", due: time.Now()})()
	return c.stream("c").out[before]
}

func TestLedger(t *testing.T) {
	for _, c := range []struct {
		name string
		run  func(r *room, a, b *posted)
		want Faults
	}{
		{"as it should be", func(r *room, a, b *posted) {
			r.show(a, 1, r.customer, r.agent)
			r.customer.ack(a, 1, time.Now())
			r.customer.ack(b, 2, time.Now())
			r.show(b, 2, r.customer, r.agent)
		}, Faults{}},
		{"acknowledged and in no stream", func(r *room, a, b *posted) { r.customer.ack(a, 1, time.Now()) }, Faults{Lost: 1}},
		{"never shown to the other side", func(r *room, a, b *posted) {
			r.customer.ack(a, 1, time.Now())
			r.show(a, 1, r.customer)
		}, Faults{Lost: 1}},
		{"twice for its sender", func(r *room, a, b *posted) {
			r.show(a, 1, r.customer, r.agent)
			r.show(a, 2, r.customer)
		}, Faults{Doubled: 1}},
		{"twice for its sender, with another one between", func(r *room, a, b *posted) {
			r.show(a, 1, r.customer)
			r.show(b, 2, r.customer)
			r.show(a, 3, r.customer)
		}, Faults{Doubled: 1}},
		{"twice for the other side", func(r *room, a, b *posted) {
			r.show(a, 1, r.agent)
			r.show(a, 2, r.agent)
		}, Faults{Doubled: 1}},
		{"swapped", func(r *room, a, b *posted) {
			r.show(b, 1, r.agent)
			r.show(a, 2, r.agent)
		}, Faults{Disordered: 1}},
		{"not where the ack says, shown first", func(r *room, a, b *posted) {
			r.show(a, 1, r.customer, r.agent)
			r.customer.ack(a, 2, time.Now())
		}, Faults{Disordered: 1}},
		{"not where the ack says, acknowledged first", func(r *room, a, b *posted) {
			r.customer.ack(a, 2, time.Now())
			r.show(a, 1, r.customer, r.agent)
		}, Faults{Disordered: 1}},
		{"the same event again", func(r *room, a, b *posted) {
			r.show(a, 1, r.customer, r.agent, r.customer)
		}, Faults{}},
		{"the same event again after a hello that said so", func(r *room, a, b *posted) {
			r.show(a, 1, r.customer)
			r.customer.seen()
			r.show(a, 1, r.customer)
		}, Faults{Replayed: 1}},
		{"ahead of its turn", func(r *room, a, b *posted) { r.show(a, 2, r.customer) }, Faults{Gaps: 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRoom(t)
			c.run(r, r.say(r.customer), r.say(r.customer))
			if got := r.f.Faults(); got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

// TestOutbox: one message of a conversation is under way at a time, and the next one follows its ack.
func TestOutbox(t *testing.T) {
	r := newRoom(t)
	a, b := r.say(r.customer), r.say(r.customer)
	other := r.customer.stream("d")
	_ = r.customer.say(&posted{conv: "d", body: "x", due: time.Now()})()
	if next := r.customer.ack(a, 1, time.Now()); next != b {
		t.Fatalf("after the first one %+v", next)
	}
	if again := r.customer.ack(a, 1, time.Now()); again != nil {
		t.Fatalf("a second ack made %+v go out", again)
	}
	if next := r.customer.ack(b, 2, time.Now()); next != nil || r.f.unacked != 1 || len(other.out) != 1 {
		t.Fatalf("then %+v, %d not acknowledged", next, r.f.unacked)
	}
}

// TestUntilNames: who waits in vain is told for what, and how much of it is missing.
func TestUntilNames(t *testing.T) {
	r := newRoom(t)
	r.f.customers = []*Client{r.customer}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r.f.refused("busy: later")
	want := fmt.Sprintf("connecting: 1 of 1 clients are not welcomed: %v; the first error of a client was: busy: later", context.Canceled)
	if err := r.f.Welcomed(ctx); err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

// TestResumes: a resume that took minutes is not made shorter.
func TestResumes(t *testing.T) {
	r := newRoom(t)
	r.f.customers, r.f.agents = []*Client{r.customer}, []*Client{r.agent}
	from := time.Now()
	r.customer.back, r.agent.back = from.Add(3*time.Minute), from.Add(time.Second)
	times, _ := r.f.Resumes(from)
	if got := time.Duration(times.Max()).Round(time.Second); times.TotalCount() != 2 || got != 3*time.Minute {
		t.Errorf("%d resumes, the longest %v", times.TotalCount(), got)
	}
}

func TestBackoff(t *testing.T) {
	now := time.Now()
	var b backoff
	longest := func(attempt int) (most time.Duration) {
		for range 200 {
			b.attempt = attempt
			most = max(most, b.next(now))
		}
		return most
	}
	for attempt, limit := range []time.Duration{500 * time.Millisecond, time.Second, 2 * time.Second} {
		if got := longest(attempt); got >= limit || got < limit/4 {
			t.Errorf("attempt %d: up to %v of %v", attempt, got, limit)
		}
	}
	if got := longest(50); got >= backoffCap || got < backoffCap/4 {
		t.Errorf("much later: up to %v", got)
	}
	b = backoff{attempt: 3}
	b.notYet = now.Add(7 * time.Second)
	if got := b.next(now); got < 7*time.Second || got >= 11*time.Second || b.attempt != 4 {
		t.Errorf("the server asked for 7 s: %v, attempt %d", got, b.attempt)
	}
	b.welcomed(now)
	if b.lost(now.Add(59 * time.Second)); b.attempt != 4 || !b.notYet.IsZero() {
		t.Errorf("after 59 s %+v", b)
	}
	b.welcomed(now)
	if b.lost(now.Add(time.Minute)); b.attempt != 0 {
		t.Errorf("after a minute %+v", b)
	}
}
