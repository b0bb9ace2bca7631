package hub

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/go-eddy/eddy/desk/desktest"
	"github.com/go-eddy/eddy/desk/proto"
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
