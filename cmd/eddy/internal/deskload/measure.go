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

// bodyOf makes the text of a message.
func bodyOf(size int) string { return strings.Repeat("x", max(size, 1)) }

func record(h *hdrhistogram.Histogram, d time.Duration) {
	if h != nil {
		_ = h.RecordValue(int64(min(max(d, 0), maxLatency)))
	}
}

// maxOutage is longer than any measurement waits.
const maxOutage = time.Hour

func newHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(1000, int64(maxLatency), 3)
}

// errRefused ends the wait for what will never come.
var errRefused = errors.New("a client was refused")

// unlessRefused returns a context that ends as soon as a client is refused for good, and a function that ends it anyway.
func (f *Fleet) unlessRefused(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refusals = cancel
	return ctx, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.refusals = nil
		cancel(nil)
	}
}

// Open lets every customer open a conversation, some at a time, and waits until all are open. Serve gives them agents
// later.
func (f *Fleet) Open(ctx context.Context) error {
	ctx, cancel := f.unlessRefused(ctx)
	defer cancel()
	f.mu.Lock()
	all := append([]*Client(nil), f.customers...)
	f.mu.Unlock()
	room := func() string {
		if f.opening < openPlaces {
			return ""
		}
		return fmt.Sprintf("%d of %d are under way", f.opening, openPlaces)
	}
	for _, c := range all {
		if err := f.until(ctx, "opening conversations", room); err != nil {
			return err
		}
		f.mu.Lock()
		write := func() error { return nil } // else the conversation is asked for after the next welcome
		c.wants, c.opening = "human", true
		f.opening++
		if c.live {
			write = c.open(c.conn)
		}
		f.mu.Unlock()
		if err := write(); err != nil && !closedByUs(err) {
			return err
		}
	}
	return f.until(ctx, "opening conversations", func() string { return missing(f.opening, len(all), "are not open") })
}

// Serve gives every customer an agent, in turns, and waits until all have one. The agents take the conversations
// themselves, some at a time, because the router hands them over one after the other. Serve fails at once if they have fewer
// places than there are customers.
func (f *Fleet) Serve(ctx context.Context) error {
	ctx, cancel := f.unlessRefused(ctx)
	defer cancel()
	f.mu.Lock()
	customers, turns, free := append([]*Client(nil), f.customers...), inTurns(f.agents), 0
	for _, c := range f.agents {
		free += c.room
	}
	f.mu.Unlock()
	if len(customers) > free {
		return fmt.Errorf("taking conversations: %d customers need a place each, and the %d agents have %d free: use more agents, or fewer customers", len(customers), len(f.agents), free)
	}
	room := func() string {
		if f.taking < takePlaces {
			return ""
		}
		return fmt.Sprintf("%d of %d are under way", f.taking, takePlaces)
	}
	for _, customer := range customers {
		if err := f.until(ctx, "taking conversations", room); err != nil {
			return err
		}
		f.mu.Lock()
		agent, conv := turns(), customer.conv
		if agent == nil || !agent.live || conv == "" {
			f.mu.Unlock()
			return errors.New("taking conversations: a client has lost its connection")
		}
		f.taking++
		agent.room--
		write := agent.takeAs(agent.id(), conv)
		f.mu.Unlock()
		if err := write(); err != nil && !closedByUs(err) {
			return err
		}
	}
	return f.until(ctx, "taking conversations", func() string {
		waiting := 0
		for _, c := range f.customers {
			if c.state != "assigned" || f.owner[c.conv] == nil {
				waiting++
			}
		}
		return missing(waiting, len(f.customers), "conversations have no agent")
	})
}

// inTurns returns a function that returns one agent after the other, without those that have no room, nil if none has. The caller
// holds Fleet.mu.
func inTurns(agents []*Client) func() *Client {
	i := -1
	return func() *Client {
		for range agents {
			if i = (i + 1) % len(agents); agents[i].room > 0 {
				return agents[i]
			}
		}
		return nil
	}
}

// Rest makes the router give the agents nothing, so that conversations wait until an agent takes them.
func (f *Fleet) Rest(ctx context.Context) error {
	f.mu.Lock()
	agents := append([]*Client(nil), f.agents...)
	var writes []func() error
	for _, c := range agents {
		conn := c.conn
		if conn != nil {
			writes = append(writes, func() error {
				return c.write(conn, "status", rest, "", proto.Status{Status: "online", Accepting: new(bool)})
			})
		}
	}
	f.mu.Unlock()
	for _, write := range writes {
		if err := write(); err != nil && !closedByUs(err) {
			return err
		}
	}
	return f.until(ctx, "taking the agents from the router", func() string {
		accepting := 0
		for _, c := range agents {
			if !c.resting {
				accepting++
			}
		}
		return missing(accepting, len(agents), "agents are still given conversations")
	})
}

// missing says how many of all are not as they should be, "" for none.
func missing(n, of int, what string) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d %s", n, of, what)
}

// Result is what a measurement has found. Latencies are in nanoseconds, from when a message was due.
type Result struct {
	Sent, Acked, Arrived int64
	Elapsed              time.Duration
	Acks, Peers          *hdrhistogram.Histogram
}

// Rate sends messages at a constant rate, however fast the answers come, from customers and agents in turns. At the end
// it waits for what is under way. Every customer must have an agent.
func (f *Fleet) Rate(ctx context.Context, perSecond, size int, duration time.Duration) (Result, error) {
	return f.RateUntil(ctx, perSecond, size, func(passed time.Duration) bool { return passed >= duration })
}

// RateUntil is Rate until over says so, which is asked with the time that has passed when the next message is due.
func (f *Fleet) RateUntil(ctx context.Context, perSecond, size int, over func(passed time.Duration) bool) (Result, error) {
	f.begin()
	from := time.Now()
	n := 0
	for ; ctx.Err() == nil; n++ {
		due := from.Add(time.Duration(float64(n) / float64(perSecond) * float64(time.Second)))
		if over(due.Sub(from)) {
			break
		}
		time.Sleep(time.Until(due))
		if err := f.send(n, due, size); err != nil {
			return Result{}, err
		}
	}
	return f.finish(ctx, int64(n), from)
}

// send sends the nth message of a measurement, from a customer or its agent.
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
	write := who.say(&posted{conv: customer.conv, body: bodyOf(size), due: due, measured: true})
	f.mu.Unlock()
	if err := write(); err != nil && !closedByUs(err) {
		return err
	}
	return nil
}

// Full keeps one message of every customer under way for some time, so as many as the server can take.
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
			write := c.say(&posted{conv: c.conv, body: bodyOf(size), due: now, measured: true, then: func() { next <- c }})
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
	r.Acked, r.Elapsed = acked, elapsed // only what came before the end of the time
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
	err := f.until(ctx, "waiting for the last messages", func() string {
		if f.unacked > 0 {
			return fmt.Sprintf("%d are not acknowledged", f.unacked)
		}
		return missing(int(max(sent-f.arrived, 0)), int(sent), "have not arrived")
	})
	f.mu.Lock()
	defer f.mu.Unlock()
	r.Acked, r.Arrived, r.Acks, r.Peers = f.acked, f.arrived, f.acks, f.peers
	f.acks, f.peers = nil, nil
	return r, err
}

// Outage tells the fleet that its server is about to go. Resumed and Resumes are about the connections after that.
func (f *Fleet) Outage() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dials = 0
	f.each(func(c *Client) { c.back = time.Time{} })
}

// each calls do for all clients. The caller holds mu.
func (f *Fleet) each(do func(*Client)) {
	for _, list := range [][]*Client{f.customers, f.agents} {
		for _, c := range list {
			do(c)
		}
	}
}

// Resumes returns how long after from each client was welcomed again, in nanoseconds, and how many connects were tried.
func (f *Fleet) Resumes(from time.Time) (times *hdrhistogram.Histogram, dials int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	times = hdrhistogram.New(1000, int64(maxOutage), 3)
	f.each(func(c *Client) { _ = times.RecordValue(int64(min(max(c.back.Sub(from), 0), maxOutage))) })
	return times, f.dials
}

// Resumed waits until every client has been welcomed again, has all of its messages acknowledged and has nothing to
// fetch. Every message must also have been shown to both sides.
func (f *Fleet) Resumed(ctx context.Context) error {
	return f.until(ctx, "waiting for the clients to resume", func() string {
		gone, fetching := 0, 0
		f.each(func(c *Client) {
			if !c.live || c.back.IsZero() {
				gone++
			}
			fetching += len(c.asked) + len(c.waiting)
		})
		if gone > 0 {
			return missing(gone, len(f.customers)+len(f.agents), "clients are not welcomed")
		}
		if f.unacked > 0 {
			return missing(int(f.unacked), len(f.posts), "messages are not acknowledged")
		}
		if fetching > 0 {
			return fmt.Sprintf("%d conversations are being fetched", fetching)
		}
		unseen := 0
		for _, p := range f.posts {
			if p.at == 0 || !p.peer {
				unseen++
			}
		}
		return missing(unseen, len(f.posts), "messages have not been shown to both sides")
	})
}

// Welcomed waits until every client has been welcomed.
func (f *Fleet) Welcomed(ctx context.Context) error {
	return f.until(ctx, "connecting", func() string {
		n := len(f.customers) + len(f.agents)
		return missing(n-f.live, n, "clients are not welcomed")
	})
}

// Say lets every customer, and the agent of every customer, send one message, acknowledged or not.
func (f *Fleet) Say(size int) error {
	f.mu.Lock()
	all := append([]*Client(nil), f.customers...)
	f.mu.Unlock()
	for _, c := range all {
		for _, staff := range []bool{false, true} {
			now := time.Now()
			f.mu.Lock()
			who := c
			if staff {
				who = f.owner[c.conv]
			}
			var write func() error
			if who != nil {
				write = who.say(&posted{conv: c.conv, body: bodyOf(size), due: now})
			}
			f.mu.Unlock()
			if write == nil {
				continue
			}
			if err := write(); err != nil && !closedByUs(err) {
				return err
			}
		}
	}
	return nil
}

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
