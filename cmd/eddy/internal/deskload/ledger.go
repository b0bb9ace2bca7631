package deskload

import (
	"time"

	"github.com/google/uuid"

	"github.com/go-eddy/eddy/desk/proto"
)

// Faults count what must not happen, except for Busy and Gaps. FirstError is the first of them, or of the refusals.
type Faults struct {
	Lost       int64  // acknowledged messages that the sender has not seen, or that nobody on the other side has seen
	Doubled    int64  // messages that appeared twice in one stream
	Disordered int64  // messages that appeared before one that was sent earlier, or not where their ack said
	Replayed   int64  // events that came again although the client's hello had said that it has them
	Gaps       int64  // events that came ahead of their turn and had to be fetched
	Busy       int64  // commands that the server asked to send again later
	Refused    int64  // commands, and clients, that were refused for good
	FirstError string // "" = none
}

// Sub returns the faults that have come since before.
func (f Faults) Sub(before Faults) Faults {
	f.Lost -= before.Lost
	f.Doubled -= before.Doubled
	f.Disordered -= before.Disordered
	f.Replayed -= before.Replayed
	f.Gaps -= before.Gaps
	f.Busy -= before.Busy
	f.Refused -= before.Refused
	if f.FirstError == before.FirstError {
		f.FirstError = ""
	}
	return f
}

// posted is one message of a client. Fleet.mu guards it.
type posted struct {
	from     *Client
	conv     string
	clientID string
	body     string
	n        int64 // grows with each message of the fleet
	due      time.Time
	measured bool
	acked    bool
	s        uint64 // by its ack, in its sender's numbers
	at       uint64 // where the sender saw the message, 0 = not yet
	peer     bool   // somebody on the other side has seen the message
	then     func() // called with the ack, under Fleet.mu, nil = nothing

	// arrived is called when somebody on the other side is shown the message, under Fleet.mu. It returns a write. nil = nothing.
	arrived func(p *posted, by *Client, now time.Time) func() error
}

// say puts a message into the outbox of its conversation. The caller holds Fleet.mu. It returns a write, which does nothing
// while an earlier message is under way or there is no connection.
func (c *Client) say(p *posted) func() error {
	c.f.said++
	p.from, p.clientID, p.n = c, uuid.NewString(), c.f.said
	c.f.posts[p.clientID] = p
	c.f.unacked++
	st := c.stream(p.conv)
	st.out = append(st.out, p)
	if !c.live || len(st.out) > 1 {
		return func() error { return nil }
	}
	return c.post(c.conn, p)
}

// ack records an acknowledgement and returns the next message of the conversation, nil = none. The caller holds
// Fleet.mu.
func (c *Client) ack(p *posted, s uint64, now time.Time) (next *posted) {
	if p.acked {
		return nil
	}
	p.acked, p.s = true, s
	if p.at != 0 && p.at != p.s {
		c.f.faults.Disordered++
	}
	c.f.unacked--
	if p.measured {
		c.f.acked++
		record(c.f.acks, now.Sub(p.due))
	}
	if p.then != nil {
		p.then()
	}
	return c.stream(p.conv).done(p)
}

// shown checks a message in a stream against what was sent. The caller holds Fleet.mu. It returns a write, nil = none.
func (c *Client) shown(conv string, s uint64, m *proto.Msg, now time.Time) func() error {
	p := c.f.posts[m.ClientID]
	if p == nil {
		return nil
	}
	st := c.stream(conv)
	newest := &st.peer
	if p.from == c {
		newest = &st.own
	}
	switch {
	case p.n == *newest || (p.from == c && p.at != 0):
		c.f.faults.Doubled++
		return nil
	case p.n < *newest:
		c.f.faults.Disordered++
		return nil
	}
	*newest = p.n
	if p.from == c {
		if p.at = s; p.acked && p.s != s {
			c.f.faults.Disordered++
		}
		return nil
	}
	if p.peer {
		return nil
	}
	p.peer = true
	if p.measured {
		c.f.arrived++
		record(c.f.peers, now.Sub(p.due))
	}
	if p.arrived == nil {
		return nil
	}
	return p.arrived(p, c, now)
}

// Faults returns what has gone wrong so far. Acknowledged messages that are not shown yet count as lost.
func (f *Fleet) Faults() Faults {
	f.mu.Lock()
	defer f.mu.Unlock()
	faults := f.faults
	for _, p := range f.posts {
		if p.acked && (p.at == 0 || !p.peer) {
			faults.Lost++
		}
	}
	return faults
}

// refused counts a refusal. The caller holds Fleet.mu.
func (f *Fleet) refused(text string) {
	f.faults.Refused++
	if f.faults.FirstError == "" {
		f.faults.FirstError = text
	}
	if f.refusals != nil {
		f.refusals(errRefused)
	}
}
