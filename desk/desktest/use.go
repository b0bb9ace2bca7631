package desktest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/go-eddy/eddy/desk/proto"
)

// Send puts a message into the outbox and returns its client id. The message is sent, and sent again, until it is acked
// or refused for good.
func (c *Client) Send(conv, body string) (clientID string) { return c.SendPayload(conv, body, "") }

// SendPayload is Send with the value of a pressed button.
func (c *Client) SendPayload(conv, body, payload string) (clientID string) {
	o := &outgoing{conv: conv, clientID: uuid.NewString(), body: body, payload: payload}
	c.note(func() { c.outbox[conv] = append(c.outbox[conv], o) })
	c.pump()
	return o.clientID
}

// Do sends one command and returns the reply, ok, pong or err, or ErrLost. It waits for the welcome first.
func (c *Client) Do(ctx context.Context, t, conv string, d any) (Frame, error) {
	if err := c.Wait(ctx, c.isLive); err != nil {
		return Frame{}, err
	}
	reply := make(chan Frame, 1)
	c.mu.Lock()
	conn, id := c.conn, c.id()
	if !c.live {
		c.mu.Unlock()
		return Frame{}, ErrLost
	}
	c.waiters[id] = reply
	c.mu.Unlock()
	if err := c.write(ctx, conn, t, id, conv, d); err != nil {
		return Frame{}, ErrLost
	}
	select {
	case f, ok := <-reply:
		if !ok {
			return f, ErrLost
		}
		return f, nil
	case <-ctx.Done():
		return Frame{}, ctx.Err()
	}
}

// Tell sends a command that has no reply. It waits for the welcome first.
func (c *Client) Tell(ctx context.Context, t, conv string, d any) error {
	if err := c.Wait(ctx, c.isLive); err != nil {
		return err
	}
	c.mu.Lock()
	conn, live, id := c.conn, c.live, c.id()
	c.mu.Unlock()
	if !live || c.write(ctx, conn, t, id, conv, d) != nil {
		return ErrLost
	}
	return nil
}

func (c *Client) isLive() bool { return c.live }

// retry repeats Do until a connection lives long enough for a reply that is not "try again".
func (c *Client) retry(ctx context.Context, t, conv string, d any) (Frame, error) {
	for {
		f, err := c.Do(ctx, t, conv, d)
		if errors.Is(err, ErrLost) {
			continue
		}
		if err != nil || f.T != "err" {
			return f, err
		}
		var e proto.Error
		f.Decode(&e)
		if e.RetryMS == 0 {
			return f, &e
		}
		select {
		case <-time.After(time.Duration(e.RetryMS) * time.Millisecond):
		case <-ctx.Done():
			return f, ctx.Err()
		}
	}
}

// Open asks for a conversation, wants being "bot" or "human", and returns its id.
func (c *Client) Open(ctx context.Context, wants string) (string, error) {
	f, err := c.retry(ctx, "conv.open", "", proto.Open{Wants: wants})
	return f.C, err
}

// Take makes this agent the owner. After a lost reply, the head in the conflict shows the success.
func (c *Client) Take(ctx context.Context, conv string) error {
	_, err := c.retry(ctx, "take", conv, proto.Take{})
	var e *proto.Error
	if errors.As(err, &e) && e.Code == proto.CodeConflict && e.Head != nil && e.Head.Owner != nil && e.Head.Owner.ID == c.Me().ID {
		return nil
	}
	return err
}

// EndConv closes a conversation.
func (c *Client) EndConv(ctx context.Context, conv, reason string) error {
	_, err := c.retry(ctx, "conv.close", conv, proto.Close{Reason: reason})
	return err
}

// Wait blocks until cond, which is called with the client's lock held, is true.
func (c *Client) Wait(ctx context.Context, cond func() bool) error {
	for {
		c.mu.Lock()
		ok, changed, last := cond(), c.changed, c.lastErr
		c.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			if last == nil {
				return fmt.Errorf("desktest: gave up waiting: %w", ctx.Err())
			}
			return fmt.Errorf("desktest: gave up waiting: %w; last connection error: %w", ctx.Err(), last)
		}
	}
}

// Connected waits for a welcome.
func (c *Client) Connected(ctx context.Context) error { return c.Wait(ctx, c.isLive) }

// Disconnected waits until the client has no welcomed connection.
func (c *Client) Disconnected(ctx context.Context) error {
	return c.Wait(ctx, func() bool { return !c.live })
}

// Welcomed waits until there have been n welcomes and the last one's connection lives.
func (c *Client) Welcomed(ctx context.Context, n int) error {
	return c.Wait(ctx, func() bool { return c.live && c.welcomes >= n })
}

// Flushed waits until nothing is left to be sent.
func (c *Client) Flushed(ctx context.Context) error {
	return c.Wait(ctx, func() bool {
		for _, list := range c.outbox {
			if len(list) > 0 {
				return false
			}
		}
		return true
	})
}

// Event waits for a durable event of a conversation that satisfies match, in what was received or will be.
func (c *Client) Event(ctx context.Context, conv string, match func(Frame) bool) (found Frame, err error) {
	err = c.Wait(ctx, func() bool {
		if v := c.views[conv]; v != nil {
			for _, f := range v.events {
				if match(f) {
					found = f
					return true
				}
			}
		}
		return false
	})
	return found, err
}

// Other waits for an event without sequence, received at any time, that satisfies match.
func (c *Client) Other(ctx context.Context, match func(Frame) bool) (found Frame, err error) {
	err = c.Wait(ctx, func() bool {
		for _, f := range c.others {
			if match(f) {
				found = f
				return true
			}
		}
		return false
	})
	return found, err
}

// Others returns the events without sequence received so far.
func (c *Client) Others() []Frame {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.others)
}

// View returns the durable events of a conversation as this client shows them: in order, each once.
func (c *Client) View(conv string) []Frame {
	c.mu.Lock()
	defer c.mu.Unlock()
	if v := c.views[conv]; v != nil {
		return slices.Clone(v.events)
	}
	return nil
}

// Conversations returns the ids of the conversations that this client has events of, in order.
func (c *Client) Conversations() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Sorted(maps.Keys(c.views))
}

// Complete waits until the view of a conversation has reached sequence s.
func (c *Client) Complete(ctx context.Context, conv string, s uint64) error {
	return c.Wait(ctx, func() bool { v := c.views[conv]; return v != nil && v.last >= s })
}

// Acks returns the acknowledged messages in the order of their acks.
func (c *Client) Acks() []Acked {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.acked)
}

// Drops returns the messages that were refused for good, in the order of their refusals.
func (c *Client) Drops() []Dropped {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.dropped)
}

// Refusals returns the errors that messages were answered with, retryable ones included.
func (c *Client) Refusals() []proto.Error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.refused)
}

// Welcome returns the newest welcome and how many there were.
func (c *Client) Welcome() (proto.Welcome, int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.welcome, c.welcomes
}

// Closes returns the close codes with which the server has ended this client's connections so far.
func (c *Client) Closes() []int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.closes)
}

// Me returns the identity that the server has given this client.
func (c *Client) Me() proto.Party {
	w, _ := c.Welcome()
	return w.Me.Party
}
