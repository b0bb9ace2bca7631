package desktest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/go-eddy/eddy/desk/proto"
)

// Transport is one connection that carries protocol messages.
type Transport interface {
	Write(ctx context.Context, frame []byte) error
	Read(ctx context.Context) ([]byte, error)
	Close() error // closes at once, without a farewell
}

// Dialer makes a connection and returns the hello to send on it. The client fills in Seen.
type Dialer func(ctx context.Context) (Transport, proto.Hello, error)

// Frame is one message of the server.
type Frame struct {
	T  string          `json:"t"`
	RE string          `json:"re"`
	C  string          `json:"c"`
	S  uint64          `json:"s"`
	D  json.RawMessage `json:"d"`
}

// Decode unmarshals the payload into v and returns the frame for chaining. It panics on an unexpected shape.
func (f Frame) Decode(v any) Frame {
	if err := json.Unmarshal(f.D, v); err != nil {
		panic(fmt.Sprintf("desktest: payload of %s: %v: %s", f.T, err, f.D))
	}
	return f
}

// Acked is one message the server has promised to keep.
type Acked struct {
	Conv, ClientID, Body, ID string
	S                        uint64
	Dup                      bool
}

// ErrLost is returned by Do when the connection ended before the reply.
var ErrLost = errors.New("desktest: connection lost before the reply")

// Client is one customer or agent. Any goroutine may call all methods. Close it at the end.
type Client struct {
	dial   Dialer
	cancel context.CancelFunc
	done   chan struct{}

	mu       sync.Mutex
	changed  chan struct{} // closed and replaced whenever something below changes
	conn     Transport     // nil while disconnected
	live     bool
	welcome  proto.Welcome
	welcomes int
	nextID   int
	views    map[string]*view
	outbox   map[string][]*outgoing
	flight   map[string]*outgoing
	syncs    map[string]*view // asked for, by the id of the command
	waiters  map[string]chan Frame
	acked    []Acked
	refused  []proto.Error
	dropped  []Dropped
	others   []Frame // messages without a sequence that are no replies
	lastErr  error
	closes   []int
}

// view is what the client shows of one conversation.
type view struct {
	events  []Frame
	last    uint64
	newest  uint64 // highest sequence known
	syncing bool
	repeats int
	gaps    int
}

type outgoing struct {
	conv, clientID, body, payload string
	sending                       bool
	attempts                      int
}

// Dropped is one message the server has refused for good.
type Dropped struct {
	Conv, ClientID string
	Attempts       int // how often it was sent: an earlier attempt than the refused one may still be carried out
	Err            proto.Error
}

// New starts a client that connects, and connects again whenever the connection is lost, until Close.
func New(dial Dialer) *Client {
	ctx, cancel := context.WithCancel(context.Background())
	c := &Client{
		dial: dial, cancel: cancel, done: make(chan struct{}), changed: make(chan struct{}),
		views: make(map[string]*view), outbox: make(map[string][]*outgoing), flight: make(map[string]*outgoing), syncs: make(map[string]*view), waiters: make(map[string]chan Frame),
	}
	go c.run(ctx)
	return c
}

// Close ends the client and waits for its goroutine.
func (c *Client) Close() {
	c.cancel()
	c.Break()
	<-c.done
}

// Break cuts the current connection, if there is one, without a farewell.
func (c *Client) Break() {
	c.mu.Lock()
	conn := c.conn
	c.mu.Unlock()
	if conn != nil {
		_ = conn.Close()
	}
}

func (c *Client) run(ctx context.Context) {
	defer close(c.done)
	for ctx.Err() == nil {
		if err := c.session(ctx); err != nil {
			c.note(func() {
				c.lastErr = err
				if code := websocket.CloseStatus(err); code >= 0 {
					c.closes = append(c.closes, int(code))
				}
			})
		}
		select {
		case <-ctx.Done():
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// note changes the state under the lock and wakes all that wait for a change.
func (c *Client) note(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f()
	close(c.changed)
	c.changed = make(chan struct{})
}

// session is the life of one connection.
func (c *Client) session(ctx context.Context) error {
	conn, hello, err := c.dial(ctx)
	if err != nil {
		return err
	}
	defer c.lost(conn)
	c.note(func() {
		c.conn = conn
		hello.Seen = c.seen()
	})
	if err := c.write(ctx, conn, "hello", "hello", "", hello); err != nil {
		return err
	}
	for {
		data, err := conn.Read(ctx)
		if err != nil {
			return err
		}
		var f Frame
		if err := json.Unmarshal(data, &f); err != nil {
			return fmt.Errorf("desktest: %w: %.100s", err, data)
		}
		var send []func() error
		c.note(func() { send = c.receive(ctx, conn, f) })
		for _, s := range send {
			if err := s(); err != nil {
				return err
			}
		}
	}
}

func (c *Client) lost(conn Transport) {
	_ = conn.Close()
	c.note(func() {
		c.conn, c.live = nil, false
		clear(c.flight)
		clear(c.syncs)
		for _, v := range c.views {
			v.syncing = false
		}
		for _, list := range c.outbox {
			for _, o := range list {
				o.sending = false
			}
		}
		for _, w := range c.waiters {
			close(w)
		}
		clear(c.waiters)
	})
}

// seen returns the last sequence by conversation. If there are too many, only the newest conversations are named. c.mu
// is held.
func (c *Client) seen() map[string]uint64 {
	seen := make(map[string]uint64)
	for _, id := range slices.Backward(slices.Sorted(maps.Keys(c.views))) { // ids are ordered by time
		if len(seen) == proto.MaxSeen {
			break
		}
		seen[id] = c.views[id].last
	}
	return seen
}

func (c *Client) write(ctx context.Context, conn Transport, t, id, conv string, d any) error {
	frame, err := json.Marshal(map[string]any{"t": t, "id": id, "c": conv, "d": d})
	if err != nil {
		return err
	}
	return conn.Write(ctx, frame)
}

// receive handles one frame and returns what is to be written, without the lock. c.mu is held.
func (c *Client) receive(ctx context.Context, conn Transport, f Frame) (send []func() error) {
	switch {
	case f.T == "welcome":
		c.welcome = proto.Welcome{} // what is absent now must not stay
		f.Decode(&c.welcome)
		c.live, c.welcomes = true, c.welcomes+1
		for _, h := range c.welcome.Heads {
			v := c.view(h.ID)
			if h.Truncated {
				v.newest = max(v.newest, h.Last)
			}
		}
	case f.S > 0:
		c.event(f)
	case c.flight[f.RE] != nil:
		c.answered(f, c.flight[f.RE])
	case c.syncs[f.RE] != nil:
		c.synced(f, c.syncs[f.RE])
	case c.waiters[f.RE] != nil:
		c.waiters[f.RE] <- f
		delete(c.waiters, f.RE)
	case f.RE == "hello" && f.T == "err":
		var e proto.Error
		f.Decode(&e)
		c.lastErr = &e
	case f.RE == "":
		c.others = append(c.others, f)
	}
	return c.due(ctx, conn)
}

func (c *Client) view(conv string) *view {
	v := c.views[conv]
	if v == nil {
		v = &view{}
		c.views[conv] = v
	}
	return v
}

// event takes an event that is the next one, and drops one that it has. Otherwise it remembers that something is
// missing.
func (c *Client) event(f Frame) {
	v := c.view(f.C)
	v.newest = max(v.newest, f.S)
	switch {
	case f.S <= v.last:
		v.repeats++
	case f.S == v.last+1:
		v.events = append(v.events, f)
		v.last = f.S
	default:
		v.gaps++
	}
}

// synced handles the reply to a sync. After an error without a time for the next attempt, what is missing stays missing.
func (c *Client) synced(f Frame, v *view) {
	delete(c.syncs, f.RE)
	if f.T == "err" {
		var e proto.Error
		f.Decode(&e)
		c.lastErr = &e
		if e.RetryMS > 0 {
			c.again(e, func() { v.syncing = false })
		}
		return
	}
	var page proto.Synced
	f.Decode(&page)
	v.syncing = false
	for _, raw := range page.Events {
		var e Frame
		if err := json.Unmarshal(raw, &e); err != nil {
			panic(err)
		}
		c.event(e)
	}
	if page.More {
		v.newest = max(v.newest, v.last+1)
	} else {
		v.newest = max(v.newest, page.Head.Last) // an event may have come since the page was read
	}
}

// answered handles the reply to a message in flight.
func (c *Client) answered(f Frame, o *outgoing) {
	delete(c.flight, f.RE)
	if f.T == "ok" {
		var a proto.Ack
		f.Decode(&a)
		if c.drop(o) {
			c.acked = append(c.acked, Acked{Conv: o.conv, ClientID: o.clientID, Body: o.body, ID: a.ID, S: a.S, Dup: a.Dup})
		}
		return
	}
	var e proto.Error
	f.Decode(&e)
	c.refused = append(c.refused, e)
	if e.RetryMS > 0 {
		c.again(e, func() { o.sending = false })
		return
	}
	if c.drop(o) {
		c.dropped = append(c.dropped, Dropped{Conv: o.conv, ClientID: o.clientID, Attempts: o.attempts, Err: e})
	}
}

// again calls free, and sends what is due then, when the server is to be asked again. After the end of the connection it
// does nothing: what was under way is sent again on the next one. c.mu is held.
func (c *Client) again(e proto.Error, free func()) {
	conn := c.conn
	time.AfterFunc(time.Duration(e.RetryMS)*time.Millisecond, func() {
		c.note(func() {
			if c.conn == conn {
				free()
			}
		})
		c.pump()
	})
}

// drop takes a message out of its outbox, and reports whether it was still there.
func (c *Client) drop(o *outgoing) bool {
	list := c.outbox[o.conv]
	i := slices.Index(list, o)
	if i < 0 {
		return false
	}
	c.outbox[o.conv] = slices.Delete(list, i, i+1)
	return true
}

// due returns what can be written now: the first message of each outbox, and syncs for gaps. c.mu is held.
func (c *Client) due(ctx context.Context, conn Transport) (send []func() error) {
	if !c.live || c.conn != conn {
		return nil
	}
	for conv, list := range c.outbox {
		if len(list) == 0 || list[0].sending {
			continue
		}
		o, id := list[0], c.id()
		o.sending = true
		o.attempts++
		c.flight[id] = o
		send = append(send, func() error {
			return c.write(ctx, conn, "msg.send", id, conv, proto.Send{ClientID: o.clientID, Kind: "text", Body: o.body, Payload: o.payload})
		})
	}
	for conv, v := range c.views {
		if v.syncing || v.newest <= v.last {
			continue
		}
		v.syncing = true
		after, id := v.last, c.id()
		c.syncs[id] = v
		send = append(send, func() error { return c.write(ctx, conn, "sync", id, conv, proto.Sync{After: after}) })
	}
	return send
}

func (c *Client) id() string {
	c.nextID++
	return strconv.Itoa(c.nextID)
}

// pump writes what is due from outside the reading goroutine.
func (c *Client) pump() {
	c.mu.Lock()
	conn := c.conn
	send := c.due(context.Background(), conn)
	c.mu.Unlock()
	for _, s := range send {
		if s() != nil {
			_ = conn.Close()
			return
		}
	}
}
