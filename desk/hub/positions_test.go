package hub

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/go-eddy/eddy/desk/desktest"
	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/store"
)

// Positions follow the order of the queue and are told at most once per interval.
func TestQueuePositions(t *testing.T) {
	limits := testLimits()
	limits.QueueEvery = time.Hour
	r := newRig(t, Options{Limits: limits})
	clients := make([]*desktest.Client, 4)
	convs := make([]string, len(clients))
	for i := range clients {
		clients[i] = r.customer()
		convs[i] = r.open(clients[i], "human")
		r.other(clients[i], position(i+1)) // the first one comes at once
	}
	r.ok(clients[1].EndConv(r.ctx, convs[1], "tired"))
	r.ok(clients[0].EndConv(r.ctx, convs[0], "tired"))
	p := r.hub.ticker
	var due time.Duration
	r.waitFor("the early change to be held back", func() bool { due = p.round(time.Now()); return due > 0 })
	if due > time.Hour || due < 59*time.Minute {
		t.Errorf("due in %v", due)
	}
	if got := told(r, clients[2]); got != "[3]" {
		t.Errorf("told %s within the interval", got)
	}
	if due := p.round(time.Now().Add(time.Hour)); due != 0 {
		t.Errorf("still due in %v", due)
	}
	for i, want := range map[int]string{2: "[3 1]", 3: "[4 2]"} {
		if got := told(r, clients[i]); got != want {
			t.Errorf("customer %d was told %s, want %s", i, got, want)
		}
	}
}

// told returns the positions a client has heard, after everything sent before has arrived.
func told(r *rig, c *desktest.Client) string {
	r.t.Helper()
	r.do(c, "ping", "", proto.Ping{})
	positions := []int{}
	for _, f := range c.Others() {
		var q proto.QueuePosition
		if f.T == "ev.queue" && json.Unmarshal(f.D, &q) == nil {
			positions = append(positions, q.Position)
		}
	}
	return fmt.Sprint(positions)
}

// A customer is told no place before the change that made it wait, although its conversation is in the queue already.
func TestPlaceAfterNews(t *testing.T) {
	limits := testLimits()
	limits.QueueEvery = time.Hour
	r := newRig(t, Options{Limits: limits})
	ann, lin := r.customer(), r.agent("lin")
	conv := r.open(ann, "human")
	r.other(ann, position(1))
	r.ok(lin.Take(r.ctx, conv))
	r.calm()
	waits := r.hub.known()[0]
	waits.State, waits.Owner, waits.Rev = store.Queued, store.Actor{}, waits.Rev+1
	p, later := r.hub.ticker, time.Now().Add(2*time.Hour)
	n := r.hub.takeOver(&store.Fed{Conv: waits, Touched: true})
	p.round(later)
	if got := told(r, ann); got != "[1]" {
		t.Errorf("told %s before the news", got)
	}
	r.hub.publish(n)
	p.round(later)
	if got := told(r, ann); got != "[1 1]" {
		t.Errorf("told %s after the news", got)
	}
}

// backlog is a connection with bytes that wait for its client.
type backlog struct {
	queued int
	sent   int
}

func (b *backlog) Send([]byte) error { b.sent++; return nil }
func (b *backlog) Queued() int       { return b.queued }
func (*backlog) Close(int, string)   {}

// A place that a connection with a backlog has lost is told once more, and one that arrived is not.
func TestLostPlaceComesAgain(t *testing.T) {
	h := &Hub{sessions: newSessions()}
	h.queue = newQueue(h)
	h.o.Limits.CustomerOutbound = 1 << 10
	h.queue.dir.apply(store.Conversation{ID: "chat", Contact: "ann", State: store.Queued})
	slow := &backlog{queued: 1 << 10}
	h.sessions.contacts["ann"] = []*Session{{hub: h, conn: slow, phase: live}}
	p, now := newPositions(h, time.Second), time.Now()
	for i, want := range []struct {
		due  time.Duration
		sent int
	}{{time.Second, 0}, {time.Second, 0}, {0, 1}, {0, 1}} {
		if i == 2 {
			slow.queued = 0
		}
		if due := p.round(now.Add(time.Duration(i) * time.Second)); due != want.due || slow.sent != want.sent {
			t.Errorf("round %d: due in %v, %d told; want %v", i, due, slow.sent, want)
		}
	}
}
