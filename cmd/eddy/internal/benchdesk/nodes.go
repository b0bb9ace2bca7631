package benchdesk

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/go-eddy/eddy/cmd/eddy/internal/cli"
	"github.com/go-eddy/eddy/cmd/eddy/internal/deskload"
)

// deskDeath is what a killed server does to its clients, and to what they say. Times are in seconds, from the kill.
type deskDeath struct {
	Nodes         int             `json:"nodes"`
	Visitors      int             `json:"visitors"` // that were connected to the server
	Agents        int             `json:"agents"`
	Conversations int             `json:"conversations"` // with one of them
	Messages      int64           `json:"messages"`      // at the constant rate, of everybody
	PerSecond     float64         `json:"per_second"`
	Resumed       deskTimes       `json:"resumed_s"` // until a client was welcomed at another server
	GoOn          deskTimes       `json:"go_on_s"`   // until a message had reached the agent, and the answer the customer
	Faults        deskload.Faults `json:"faults"`
}

// deskTimes are times in seconds.
type deskTimes struct {
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

// timesOf returns the percentiles of sorted durations.
func timesOf(all []time.Duration) (t deskTimes) {
	if len(all) == 0 {
		return t
	}
	at := func(percent int) float64 { return all[(len(all)*percent+99)/100-1].Seconds() }
	return deskTimes{P50: at(50), P99: at(99), Max: at(100)}
}

// deathAfter is the share of the time of death that passes before the server is killed.
const deathAfter = 3

// during runs what happens while messages flow at the constant rate, for a time, 0 = for as long as it takes. It returns when
// all of them have arrived.
func (r *deskRun) during(ctx context.Context, duration time.Duration, happens func(context.Context) error) (res deskload.Result, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var over atomic.Bool
	done := make(chan error)
	go func() {
		var err error
		res, err = r.fleet.RateUntil(ctx, r.rate, r.size, func(passed time.Duration) bool { return over.Load() || duration > 0 && passed >= duration })
		done <- err
	}()
	if err = happens(ctx); err != nil {
		cancel()
		<-done
		return res, err
	}
	over.Store(duration == 0)
	err = <-done
	return res, err
}

// death kills one server while messages flow at a constant rate. It is the one that has begun first, which does what one server
// does for all.
func (r *deskRun) death(ctx context.Context) error {
	before := r.fleet.Faults()
	var loss *deskload.Loss
	flowed, err := r.during(ctx, r.duration, func(ctx context.Context) (err error) {
		loss, err = r.killOne(ctx)
		return err
	})
	if err != nil {
		return err
	}
	back, round, err := loss.Over(ctx)
	if err == nil {
		err = r.fleet.Resumed(ctx)
	}
	if err != nil {
		return err
	}
	r.report.Death = &deskDeath{
		Nodes: r.nodes, Visitors: loss.Customers, Agents: loss.Agents, Conversations: len(round), Messages: flowed.Acked, PerSecond: float64(flowed.Acked) / flowed.Elapsed.Seconds(),
		Resumed: timesOf(back), GoOn: timesOf(round), Faults: r.fleet.Faults().Sub(before),
	}
	return r.again(0)
}

// killOne waits for its moment and kills a server. In each conversation of its clients somebody says something then.
func (r *deskRun) killOne(ctx context.Context) (*deskload.Loss, error) {
	select {
	case <-time.After(r.duration / deathAfter):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	loss := r.fleet.Lose(r.servers[0].base())
	if err := r.servers[0].kill(); err != nil {
		return nil, err
	}
	return loss, loss.Talk(r.size)
}

// deskRolling is a restart of one server after the other, each stopped in order. Its deskResumed counts from the end of that.
type deskRolling struct {
	deskResumed
	Took      float64    `json:"took_s"`   // from the first stop until the last server listened again
	Messages  int64      `json:"messages"` // at the constant rate
	PerSecond float64    `json:"per_second"`
	Servers   []deskStop `json:"servers"`
}

// deskStop is what happened to one of the servers. Times are in seconds, from when it was told to stop.
type deskStop struct {
	Visitors int       `json:"visitors"` // that were connected to it
	Agents   int       `json:"agents"`
	Stopped  float64   `json:"stopped_s"` // until it had ended
	Started  float64   `json:"started_s"` // until it listened again
	Starts   int       `json:"starts"`    // that this took
	Back     deskTimes `json:"back_s"`    // until a client of it was welcomed, anywhere
}

// rolledOver stops each server in order and starts it again, the next one as soon as it listens, while messages flow.
func (r *deskRun) rolledOver(ctx context.Context) error {
	if err := r.crowd(ctx, r.rolling); err != nil {
		return err
	}
	before := r.fleet.Faults()
	r.fleet.Outage()
	found := deskRolling{Servers: make([]deskStop, len(r.servers))}
	losses := make([]*deskload.Loss, len(r.servers))
	var listening time.Time
	flowed, err := r.during(ctx, 0, func(ctx context.Context) error {
		began := time.Now()
		for i := range r.servers {
			if err := r.rollOne(ctx, i, &losses[i], &found.Servers[i]); err != nil {
				return err
			}
		}
		listening = time.Now()
		found.Took = listening.Sub(began).Seconds()
		return nil
	})
	if err != nil {
		return err
	}
	if found.deskResumed, err = r.resumed(ctx, listening, before); err != nil {
		return err
	}
	found.Visitors, found.Messages, found.PerSecond = r.rolling, flowed.Acked, float64(flowed.Acked)/flowed.Elapsed.Seconds()
	for i, loss := range losses {
		back, _, err := loss.Over(ctx)
		if err != nil {
			return err
		}
		one := &found.Servers[i]
		one.Visitors, one.Agents, one.Back = loss.Customers, loss.Agents, timesOf(back)
	}
	r.report.Rolling = &found
	return nil
}

// restartPause is what a supervisor waits before it starts a program that has ended again.
const restartPause = time.Second

// rollOne stops a server in order and starts it again, as often as it takes.
func (r *deskRun) rollOne(ctx context.Context, i int, loss **deskload.Loss, one *deskStop) error {
	*loss = r.fleet.Lose(r.servers[i].base())
	from := time.Now()
	if err := r.servers[i].stop(); err != nil {
		return err
	}
	one.Stopped = time.Since(from).Seconds()
	for {
		one.Starts++
		err := r.again(i)
		if err == nil {
			break
		}
		r.t.Note("bench desk: server %d does not start: %s", i+1, cli.OneLine(err))
		select {
		case <-time.After(restartPause):
		case <-ctx.Done():
			return err
		}
	}
	one.Started = time.Since(from).Seconds()
	r.t.Note("bench desk: server %d of %d listens again", i+1, len(r.servers))
	return nil
}

func (d *deskDeath) print(t *cli.Terminal) {
	t.Say("death: one of %d servers was killed, with %d visitors, %d agents and %d conversations, at %.0f messages/s", d.Nodes, d.Visitors, d.Agents, d.Conversations, d.PerSecond)
	d.GoOn.print(t, "go on", "a message was answered")
	d.Resumed.print(t, "resumed", "welcomed at another server")
	printFaults(t, d.Faults)
}

func (d *deskTimes) print(t *cli.Terminal, what, how string) {
	t.Say("  %-13s p50 %.1f s, p99 %.1f s, max %.1f s (%s)", what, d.P50, d.P99, d.Max, how)
}

func (d *deskRolling) print(t *cli.Terminal) {
	t.Say("rolling: %d visitors, %d servers one after the other in %.1f s, at %.0f messages/s; all had resumed %.1f s after that", d.Visitors, len(d.Servers), d.Took, d.PerSecond, d.Seconds)
	for i, one := range d.Servers {
		t.Say("  server %-6d %d clients; it had ended after %.1f s and listened after %.1f s, with the start number %d", i+1, one.Visitors+one.Agents, one.Stopped, one.Started, one.Starts)
		one.Back.print(t, "", "its clients were welcomed")
	}
	d.deskResumed.print(t)
}
