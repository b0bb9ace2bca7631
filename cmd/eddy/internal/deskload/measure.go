package deskload

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/go-eddy/eddy/desk/proto"
)

// start is what the times in message bodies count from: sender and receiver are in this process.
var start = time.Now()

// bodyOf makes the text of a message that tells when it was due.
func bodyOf(due time.Time, size int) string {
	text := fmt.Sprintf("%d due ", due.Sub(start).Nanoseconds())
	return text + strings.Repeat("x", max(size-len(text), 0))
}

func dueOf(body string) (time.Time, bool) {
	var n int64
	if _, err := fmt.Sscanf(body, "%d due", &n); err != nil {
		return time.Time{}, false
	}
	return start.Add(time.Duration(n)), true
}

func record(h *hdrhistogram.Histogram, d time.Duration) {
	if h != nil {
		_ = h.RecordValue(int64(min(max(d, 0), maxLatency)))
	}
}

func newHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(1000, int64(maxLatency), 3)
}

// Open lets every customer open a conversation and waits until each has an agent.
func (f *Fleet) Open(ctx context.Context) error {
	f.mu.Lock()
	all := append([]*Client(nil), f.customers...)
	f.mu.Unlock()
	for _, c := range all {
		f.mu.Lock()
		conn := c.conn
		f.mu.Unlock()
		if conn == nil {
			return errors.New("a customer has lost its connection")
		}
		if err := c.write(conn, "conv.open", "open", "", proto.Open{Wants: "human"}); err != nil {
			return err
		}
	}
	return f.until(ctx, "waiting for agents", func() bool {
		for _, c := range all {
			if c.state != "assigned" || f.owner[c.conv] == nil {
				return false
			}
		}
		return true
	})
}

// Result is what a measurement has found. Latencies are in nanoseconds and count from when a message was due.
type Result struct {
	Sent, Acked, Arrived int64
	Elapsed              time.Duration
	Acks, Peers          *hdrhistogram.Histogram
}

// Rate sends messages at a constant rate, however fast the answers come, customers and agents in turns, and waits for what is under way
// at the end. Every customer must have an agent.
func (f *Fleet) Rate(ctx context.Context, perSecond, size int, duration time.Duration) (Result, error) {
	f.begin()
	from := time.Now()
	n := 0
	for ; ctx.Err() == nil; n++ {
		due := from.Add(time.Duration(float64(n) / float64(perSecond) * float64(time.Second)))
		if due.Sub(from) >= duration {
			break
		}
		time.Sleep(time.Until(due))
		if err := f.send(n, due, size); err != nil {
			return Result{}, err
		}
	}
	return f.finish(ctx, int64(n), from)
}

// send makes the nth message of a measurement: a customer's or its agent's.
func (f *Fleet) send(n int, due time.Time, size int) error {
	f.mu.Lock()
	customer := f.customers[(n/2)%len(f.customers)]
	who := customer
	if n%2 == 1 {
		who = f.owner[customer.conv]
	}
	if who == nil {
		f.mu.Unlock()
		return fmt.Errorf("conversation %s has no agent", customer.conv)
	}
	write := who.say(customer.conv, bodyOf(due, size), due, true, nil)
	f.mu.Unlock()
	if err := write(); err != nil && !closedByUs(err) {
		return err
	}
	return nil
}

// Full keeps one message of every customer under way for some time: as many as the server can take.
func (f *Fleet) Full(ctx context.Context, size int, duration time.Duration) (Result, error) {
	f.begin()
	from := time.Now()
	end := from.Add(duration)
	var sent int64
	next := make(chan *Client, len(f.customers))
	for _, c := range f.customers {
		next <- c
	}
	for done := false; !done; {
		select {
		case c := <-next:
			now := time.Now()
			if done = !now.Before(end); done {
				break
			}
			f.mu.Lock()
			write := c.say(c.conv, bodyOf(now, size), now, true, func() { next <- c })
			f.mu.Unlock()
			sent++
			if err := write(); err != nil && !closedByUs(err) {
				return Result{}, err
			}
		case <-time.After(time.Until(end)):
			done = true
		case <-ctx.Done():
			return Result{}, ctx.Err()
		}
	}
	f.mu.Lock()
	acked, elapsed := f.acked, time.Since(from)
	f.mu.Unlock()
	r, err := f.finish(ctx, sent, from)
	r.Acked, r.Elapsed = acked, elapsed // what came by the end of the time
	return r, err
}

func (f *Fleet) begin() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.acks, f.peers = newHistogram(), newHistogram()
	f.acked, f.arrived = 0, 0
}

// finish waits until everything sent is acknowledged and has arrived.
func (f *Fleet) finish(ctx context.Context, sent int64, from time.Time) (Result, error) {
	r := Result{Sent: sent, Elapsed: time.Since(from)}
	err := f.until(ctx, "waiting for the last messages", func() bool { return f.unacked == 0 && f.arrived >= sent })
	f.mu.Lock()
	defer f.mu.Unlock()
	r.Acked, r.Arrived, r.Acks, r.Peers = f.acked, f.arrived, f.acks, f.peers
	f.acks, f.peers = nil, nil
	return r, err
}

// Resumed waits until every client has been welcomed again, has all of its messages acknowledged and shown, and has no gap.
func (f *Fleet) Resumed(ctx context.Context) error {
	return f.until(ctx, "waiting for the clients to resume", func() bool {
		if f.live < len(f.customers)+len(f.agents) || f.unacked > 0 {
			return false
		}
		for _, c := range f.customers {
			if len(c.order) > 0 || len(c.asking) > 0 {
				return false
			}
			for _, m := range c.own {
				if m.shown == 0 {
					return false
				}
			}
		}
		return true
	})
}

// Welcomed waits until every client has been welcomed.
func (f *Fleet) Welcomed(ctx context.Context) error {
	return f.until(ctx, "waiting for the clients to connect", func() bool { return f.live == len(f.customers)+len(f.agents) })
}

// Say lets every customer with a conversation send one message, acknowledged or not.
func (f *Fleet) Say(size int) error {
	f.mu.Lock()
	all := append([]*Client(nil), f.customers...)
	f.mu.Unlock()
	for _, c := range all {
		now := time.Now()
		f.mu.Lock()
		write := c.say(c.conv, bodyOf(now, size), now, false, nil)
		f.mu.Unlock()
		if err := write(); err != nil && !closedByUs(err) {
			return err
		}
	}
	return nil
}

// probe is the request id of commands whose answers nobody waits for.
const probe = "probe"

// Occupy lets every agent ask for n pages of history at once.
func (f *Fleet) Occupy(n int) error {
	f.mu.Lock()
	all := append([]*Client(nil), f.agents...)
	conv := f.customers[0].conv
	f.mu.Unlock()
	for _, c := range all {
		f.mu.Lock()
		conn := c.conn
		f.mu.Unlock()
		for range n {
			if conn == nil {
				return errors.New("an agent has lost its connection")
			}
			if err := c.write(conn, "sync", probe, conv, proto.Sync{Limit: proto.MaxSyncEvents}); err != nil {
				return err
			}
		}
	}
	return nil
}
