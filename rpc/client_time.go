package rpc

import (
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/codec/frame"
	"github.com/go-eddy/eddy/rpc/balance"
	"github.com/go-eddy/eddy/rpc/internal/pending"
)

const (
	retryPost   = time.Millisecond // pause before a loop with a full queue is tried again
	expireBatch = 1024             // calls that may expire in one turn of the loop
	deadAfter   = 3                // heartbeats without a byte of the server that end a connection, as in Dubbo
)

// now returns the client's monotonic time in nanoseconds.
func (cl *Client) now() int64 { return int64(time.Since(cl.epoch)) }

// alarm has the loop look at the deadlines of calls.
type alarm struct {
	run   func()
	timer *eddy.Timer // nil when it is not armed
	at    int64       // when it fires
}

// pulse notices a server that sends nothing.
type pulse struct {
	run    func()
	heard  bool // since the last beat
	silent int  // beats in a row without a byte of the server
	pings  uint32
}

// arm has the loop call expire at the given time at the latest. On the loop.
func (w *wire) arm(when, now int64) {
	if w.alarm.timer != nil {
		if w.alarm.at <= when {
			return
		}
		w.alarm.timer.Stop()
	}
	w.alarm.at = when
	t, err := w.ctx.After(time.Duration(max(0, when-now)), w.alarm.run)
	if err == nil { // else the connection is ending
		w.alarm.timer = t
	}
}

// expire ends the calls whose time is over. On the loop.
func (w *wire) expire() {
	w.alarm.timer = nil
	now := w.client.now()
	var over []*call
	w.mu.Lock()
	w.table.Expire(now, expireBatch, func(_ uint64, c *call) {
		over = append(over, c)
		w.freed()
		if !c.sent.Load() {
			w.dropQueued(c)
		}
	})
	next, armed := w.table.Next()
	w.unlock()
	if armed {
		w.arm(next, now)
	}
	for _, c := range over {
		w.observe(c, balance.Failed)
		if c.claim() {
			w.client.stats.expired.Add(1)
			c.fail(c.error(errDeadline, c.executed()))
		}
		c.release()
	}
}

// nextBeat arms the heartbeat. On the loop.
func (w *wire) nextBeat() error {
	if w.client.o.Heartbeat <= 0 {
		return nil
	}
	_, err := w.ctx.After(w.client.o.Heartbeat, w.pulse.run)
	return err
}

// beat sends a PING to a silent server, and ends the connection after deadAfter silent heartbeats.
func (w *wire) beat() {
	if w.pulse.heard {
		w.pulse.heard, w.pulse.silent = false, 0
		_ = w.nextBeat() // an error means that the connection is ending
		return
	}
	w.pulse.silent++
	if w.pulse.silent >= deadAfter {
		w.conn.CloseWith(eddy.CloseIdleTimeout, &silence{w.client.o.Heartbeat * deadAfter})
		return
	}
	w.pulse.pings++
	_ = w.ctx.WriteBytes(frame.AppendHeader(w.flush.head[:0], uint64(w.pulse.pings)<<32|pending.PingSlot, uint8(frame.Ping), 0)) // an error means that the connection ends
	w.client.stats.pings.Add(1)
	_ = w.nextBeat()
}

// silence is the error of a connection that ends because its server sent nothing.
type silence struct{ d time.Duration }

func (e *silence) Error() string { return "rpc: not a byte from the server in " + e.d.String() }
