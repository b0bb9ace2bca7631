package deskload

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"syscall"
	"time"
)

// anywhere calls do with any server, and with another one if nobody listens there, as a proxy in front of them does.
func (f *Fleet) anywhere(do func(base string) error) (err error) {
	for _, i := range rand.Perm(len(f.bases)) {
		if err = do(f.bases[i]); !errors.Is(err, syscall.ECONNREFUSED) {
			return err
		}
	}
	return err
}

// Loss tells what becomes of the clients of one server that goes. Any goroutine may call its methods.
type Loss struct {
	Customers, Agents int // that were connected to it

	f     *Fleet
	from  time.Time
	lost  map[*Client]bool
	back  []time.Duration // of each of them that was welcomed again, at whatever server
	chats int
	round []time.Duration // of each conversation of theirs in which Talk was answered
}

// Lose tells the fleet that a server is about to go, or has just gone. Times count from now.
func (f *Fleet) Lose(base string) *Loss {
	f.mu.Lock()
	defer f.mu.Unlock()
	l := &Loss{f: f, from: time.Now(), lost: make(map[*Client]bool)}
	f.each(func(c *Client) {
		if c.conn == nil || c.at != base {
			return
		}
		l.lost[c] = true
		c.losses = append(c.losses, l)
		if c.staff {
			l.Agents++
		} else {
			l.Customers++
		}
	})
	return l
}

// regained notes that a client is back. The caller holds Fleet.mu.
func (c *Client) regained(now time.Time) {
	for _, l := range c.losses {
		l.back = append(l.back, now.Sub(l.from))
	}
	c.losses = nil
}

// Talk lets the customer of every conversation of a lost client send a message, which the agent answers when it has arrived.
func (l *Loss) Talk(size int) error {
	var writes []func() error
	l.f.mu.Lock()
	for _, c := range l.f.customers {
		if l.lost[c] || l.lost[l.f.owner[c.conv]] {
			l.chats++
			writes = append(writes, c.say(&posted{conv: c.conv, body: bodyOf(size), due: l.from, arrived: l.answer}))
		}
	}
	l.f.mu.Unlock()
	for _, write := range writes {
		if err := write(); err != nil && !closedByUs(err) {
			return err
		}
	}
	return nil
}

// answer sends the agent's answer to a message of Talk.
func (l *Loss) answer(p *posted, agent *Client, now time.Time) func() error {
	return agent.say(&posted{conv: p.conv, body: p.body, due: now, arrived: func(_ *posted, _ *Client, now time.Time) func() error {
		l.round = append(l.round, now.Sub(l.from))
		return nil
	}})
}

// Over waits until all lost clients have been welcomed again and every message of Talk is answered. It returns both times,
// sorted.
func (l *Loss) Over(ctx context.Context) (back, round []time.Duration, err error) {
	err = l.f.until(ctx, "waiting for the clients of the server that is gone", func() string {
		if n := len(l.lost) - len(l.back); n > 0 {
			return missing(n, len(l.lost), "are not welcomed anywhere")
		}
		return missing(l.chats-len(l.round), l.chats, "conversations do not go on")
	})
	l.f.mu.Lock()
	defer l.f.mu.Unlock()
	return slices.Sorted(slices.Values(l.back)), slices.Sorted(slices.Values(l.round)), err
}
