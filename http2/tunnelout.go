package http2

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/buf"
	"github.com/go-eddy/eddy/internal/reactor"
)

// tunnelMessages bounds the messages of all classes that wait on a tunnel.
const tunnelMessages = 4096

// Writable implements httpserve.Tunnel.
func (t *tunnel) Writable() bool {
	o := &t.st.out
	o.mu.Lock()
	defer o.mu.Unlock()
	return !o.full
}

// QueuedBytes implements httpserve.Tunnel.
func (t *tunnel) QueuedBytes() int64 { return int64(t.st.out.size()) }

// Write implements httpserve.Tunnel.
func (t *tunnel) Write(msg any) error { return t.WriteClass(nil, msg) }

// WriteClass implements httpserve.Tunnel.
func (t *tunnel) WriteClass(class *eddy.MessageClass, msg any) error {
	err := t.submit(class, msg)
	t.st.sc.post(t.st)
	if err == nil {
		return nil
	}
	if r, ok := msg.(eddy.Releaser); ok {
		r.Release()
	}
	if refused := (*eddy.ClassError)(nil); errors.As(err, &refused) {
		if refused.Dropped {
			return nil
		}
		return err
	}
	if errors.Is(err, eddy.ErrBackpressure) && (class != nil || t.Conn().Overflow() == eddy.OverflowClose) {
		t.CloseWith(eddy.CloseBackpressureLimit, err)
	}
	return err
}

// submit queues a message, or says why not.
func (t *tunnel) submit(class *eddy.MessageClass, msg any) (err error) {
	o := &t.st.out
	o.mu.Lock()
	defer o.mu.Unlock()
	n := sizeOf(msg)
	switch {
	case n < 0:
		err = fmt.Errorf("http2: a tunnel cannot carry a %T", msg)
	case o.err != nil || o.ended:
		err = t.over()
	case class != nil:
		err = class.Admit(&tunnelQueue{o, t.Conn().Watermarks().Max}, n)
	default:
		err = o.admit(n, t.Conn().Watermarks().Max)
	}
	if err == nil {
		o.queue(class, msg, n)
	}
	o.level()
	return err
}

// level decides whether a tunnel's queue is full. mu is held.
func (o *outgoing) level() {
	switch {
	case o.met():
		o.full = true
	case o.full && o.n <= int(o.low): // a class has dropped messages
		o.full = false
		o.room.Broadcast()
	}
}

// over returns why a tunnel takes no more.
func (t *tunnel) over() error {
	if end := t.ends.Load(); end != nil {
		return end
	}
	return eddy.ErrClosed
}

// sizeOf returns the number of bytes of a message, -1 for what is none.
func sizeOf(msg any) (n int) {
	switch m := msg.(type) {
	case []byte:
		return len(m)
	case *buf.Shared:
		return m.Len()
	case [][]byte:
		for _, p := range m {
			n += len(p)
		}
		return n
	}
	return -1
}

// queue adds a message of n bytes. One of a class is a chunk of its own, so that it can be dropped. mu is held.
func (o *outgoing) queue(class *eddy.MessageClass, msg any, n int) {
	var c chunk
	switch m := msg.(type) {
	case []byte:
		if class == nil && n < maxFrame/2 {
			o.join(m)
			return
		}
		c.b = m
	case *buf.Shared:
		c.b, c.m = m.Bytes(), &memory{shared: m}
	case [][]byte:
		if class == nil {
			for _, p := range m {
				o.queue(nil, p, len(p))
			}
			return
		}
		for _, p := range m {
			c.b = append(c.b, p...)
		}
	}
	if class != nil && c.m == nil {
		c.m = new(memory)
	}
	if class != nil {
		c.m.class = class
	}
	c.b = c.b[:n:n] // nothing is joined to memory of others
	o.chunks = append(o.chunks, c)
	o.n += n
}

// admit returns the bound that n more bytes would pass, as an eddy.Conn does. mu is held.
func (o *outgoing) admit(n, most int) error {
	if !o.met() || o.n+n <= most {
		return nil
	}
	return fmt.Errorf("http2: %w: %d bytes queued on the stream, %d more, limit %d", eddy.ErrBackpressure, o.n, n, most)
}

// WriteContext implements httpserve.Tunnel.
func (t *tunnel) WriteContext(ctx context.Context, msg any) error {
	if reactor.OnLoop() {
		return eddy.ErrOnLoop
	}
	if err := t.awaitRoom(ctx); err != nil {
		if r, ok := msg.(eddy.Releaser); ok {
			r.Release()
		}
		return err
	}
	return t.Write(msg)
}

// awaitRoom waits until the queue is below its high watermark.
func (t *tunnel) awaitRoom(ctx context.Context) error {
	o := &t.st.out
	stop := context.AfterFunc(ctx, func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.room.Broadcast()
	})
	defer stop()
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.full && o.err == nil && !o.ended && ctx.Err() == nil {
		o.room.Wait()
	}
	switch {
	case o.err != nil || o.ended:
		return t.over()
	case o.full:
		return ctx.Err()
	}
	return nil
}

// tunnelQueue is the queue of a tunnel as a class sees it. Its mutex is held.
type tunnelQueue struct {
	*outgoing
	most int
}

// Room implements eddy.ClassQueue.
func (q *tunnelQueue) Room(k *eddy.MessageClass, n int) error {
	if err := q.admit(n, q.most); err != nil {
		return err
	}
	messages, bytes, units := 0, 0, 0
	for i := range q.chunks {
		c := &q.chunks[i]
		if c.class() != nil {
			units++
		}
		if c.class() == k {
			messages++
			bytes += len(c.b)
		}
	}
	switch {
	case k.MaxMessages > 0 && messages >= k.MaxMessages:
		return fmt.Errorf("http2: %w: %d messages wait, limit %d", eddy.ErrBackpressure, messages, k.MaxMessages)
	case k.MaxBytes > 0 && bytes > 0 && bytes+n > k.MaxBytes:
		return fmt.Errorf("http2: %w: %d bytes wait, %d more, limit %d", eddy.ErrBackpressure, bytes, n, k.MaxBytes)
	case units >= tunnelMessages:
		return fmt.Errorf("http2: %w: %d messages wait, limit %d", eddy.ErrBackpressure, units, tunnelMessages)
	}
	return nil
}

// DropOldest implements eddy.ClassQueue.
func (q *tunnelQueue) DropOldest(k *eddy.MessageClass, _ error) bool {
	for i := range q.chunks {
		if c := &q.chunks[i]; c.class() == k {
			q.n -= len(c.b)
			c.m.release()
			q.chunks = slices.Delete(q.chunks, i, i+1)
			return true
		}
	}
	return false
}
