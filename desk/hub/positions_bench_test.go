package hub

import (
	"fmt"
	"testing"
	"time"

	"github.com/go-eddy/eddy/desk/store"
)

// nowhere is a connection that takes everything.
type nowhere struct{}

func (nowhere) Send([]byte) error { return nil }
func (nowhere) Queued() int       { return 0 }
func (nowhere) Close(int, string) {}

// BenchmarkPositions is one round with 10,000 customers who wait, each of whom has moved up.
func BenchmarkPositions(b *testing.B) {
	h := &Hub{sessions: newSessions()}
	h.queue = newQueue(h)
	h.queue.pace[""] = &pace{}
	h.o.Limits.CustomerOutbound = 1 << 20
	now := time.Now()
	for i := range paceSamples + 1 {
		h.queue.pace[""].handedOver(now.Add(time.Duration(i*i) * time.Second))
	}
	for i := range 10_000 {
		id := fmt.Sprint("conversation ", i)
		h.queue.dir.apply(store.Conversation{ID: id, Contact: id, State: store.Queued, QueuedAt: int64(i)})
		h.sessions.contacts[id] = []*Session{{hub: h, conn: nowhere{}, phase: live}}
	}
	p := newPositions(h, time.Nanosecond)
	for b.Loop() {
		now = now.Add(time.Second)
		for _, e := range h.queue.dir.queue {
			e.sent = 0
		}
		p.round(now)
	}
}
