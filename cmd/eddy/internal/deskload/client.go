package deskload

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/websocket"
)

// frame is one message of the server, with the parts that the load looks at.
type frame struct {
	T  string          `json:"t"`
	RE string          `json:"re"`
	C  string          `json:"c"`
	S  uint64          `json:"s"`
	D  json.RawMessage `json:"d"`
}

// Client is one customer or agent. Fleet.mu guards its fields; its Handle methods run on the connection's loop.
type Client struct {
	f     *Fleet
	staff bool
	hello func(context.Context) (proto.Hello, error)

	conn    *websocket.Conn
	me      string // id, from welcome
	live    bool
	at      string  // the server of the connection
	losses  []*Loss // that wait for this client
	backoff backoff
	back    time.Time // the last welcome
	resting bool      // of an agent: the router gives it no conversations
	room    int       // of an agent: how many conversations it may still take, as welcome and Serve know
	nextID  int
	wants   string // what the customer wants to open, "" = nothing
	opening bool   // the conversation has been asked for
	conv    string // of a customer
	state   string // of that conversation
	streams map[string]*stream
	flight  map[string]*posted // by request id
	asked   map[string]*stream // syncs, by request id
	taking  map[string]string  // conversations that this agent takes, by request id
	waiting []*stream          // streams to be synced
}

// stream is one conversation as one client sees it.
type stream struct {
	conv      string
	last      uint64
	own, peer int64     // numbers of the newest messages shown, of this client and of the other side
	out       []*posted // not acknowledged; the first one is under way
	asking    bool      // the stream is being synced, or will be
	named     bool      // hello has told what this client has, and the client has not asked for more since
}

// done takes an acknowledged message out and returns the next one.
func (st *stream) done(p *posted) *posted {
	for i, q := range st.out {
		if q == p {
			st.out = append(st.out[:i], st.out[i+1:]...)
			break
		}
	}
	if len(st.out) == 0 {
		return nil
	}
	return st.out[0]
}

// probe is the request id of commands whose answers nobody waits for.
const probe = "probe"

// rest is the request id of the command by which an agent says that it wants no conversations.
const rest = "rest"

// agentSyncs is how many conversations of one client are fetched at a time.
const agentSyncs = 4

func (f *Fleet) newClient(hello func(context.Context) (proto.Hello, error)) *Client {
	return &Client{f: f, hello: hello, streams: make(map[string]*stream), flight: make(map[string]*posted), asked: make(map[string]*stream), taking: make(map[string]string)}
}

func (c *Client) stream(conv string) *stream {
	st := c.streams[conv]
	if st == nil {
		st = &stream{conv: conv}
		c.streams[conv] = st
	}
	return st
}

// seen returns what hello says about this client's streams. The caller holds Fleet.mu.
func (c *Client) seen() map[string]uint64 {
	seen := make(map[string]uint64, min(len(c.streams), proto.MaxSeen))
	for conv, st := range c.streams {
		if st.named = st.last > 0 && len(seen) < proto.MaxSeen; st.named {
			seen[conv] = st.last
		}
	}
	return seen
}

func (c *Client) id() string {
	c.nextID++
	return strconv.Itoa(c.nextID)
}

func (c *Client) write(conn *websocket.Conn, t, id, conv string, d any) error {
	data, err := json.Marshal(struct {
		T  string `json:"t"`
		ID string `json:"id"`
		C  string `json:"c,omitempty"`
		D  any    `json:"d,omitempty"`
	}{t, id, conv, d})
	if err != nil {
		return err
	}
	return conn.Write(websocket.Text, data)
}

// HandleOpen implements websocket.Handler.
func (c *Client) HandleOpen(conn *websocket.Conn) error {
	c.f.mu.Lock()
	defer c.f.mu.Unlock()
	c.conn = conn
	return nil
}

// HandleClose implements websocket.Handler. The client connects again, unless the server does not want that.
func (c *Client) HandleClose(_ *websocket.Conn, code int, reason string) {
	final := code >= 4100 && code < 4200
	c.f.mu.Lock()
	if c.live {
		c.f.live--
	}
	c.conn, c.live = nil, false
	c.backoff.lost(time.Now())
	clear(c.flight)
	clear(c.asked)
	c.f.taking -= len(c.taking)
	clear(c.taking)
	c.waiting = nil
	for _, st := range c.streams {
		st.asking = false
	}
	if final {
		c.f.refused(fmt.Sprintf("closed with %d %s", code, reason))
	}
	c.f.mu.Unlock()
	if !final && c.f.ctx.Err() == nil {
		c.f.connect(c, false)
	}
}

// HandleMessage implements websocket.Handler.
func (c *Client) HandleMessage(conn *websocket.Conn, _ websocket.Opcode, data []byte) error {
	now := time.Now()
	var m frame
	if err := json.Unmarshal(data, &m); err != nil {
		return err
	}
	c.f.mu.Lock()
	send, err := c.receive(conn, &m, now)
	c.f.mu.Unlock()
	for i := 0; err == nil && i < len(send); i++ {
		err = send[i]()
	}
	if closedByUs(err) {
		return nil
	}
	return err
}

// receive handles a message and returns the writes that it causes. The caller holds Fleet.mu, but not for the writes.
func (c *Client) receive(conn *websocket.Conn, m *frame, now time.Time) (send []func() error, err error) {
	switch m.T {
	case "welcome":
		return c.welcomed(conn, m, now)
	case "ok":
		return c.answered(conn, m, now)
	case "err":
		return c.refused(conn, m)
	case "ev.msg", "ev.state":
		return c.event(m, now)
	case "bye":
		var b proto.Bye
		err = json.Unmarshal(m.D, &b)
		c.backoff.notYet = now.Add(time.Duration(b.RetryMS) * time.Millisecond)
	}
	return nil, err
}

func (c *Client) welcomed(conn *websocket.Conn, m *frame, now time.Time) (send []func() error, err error) {
	var w proto.Welcome
	if err := json.Unmarshal(m.D, &w); err != nil {
		return nil, err
	}
	c.live, c.me = true, w.Me.ID
	if w.Status != nil {
		c.room = max(w.Status.Capacity-w.Status.Active, 0)
	}
	c.f.live++
	c.backoff.welcomed(now)
	c.back = now
	c.regained(now)
	for i := range w.Heads {
		h := &w.Heads[i]
		c.head(h)
		if h.Truncated {
			send = append(send, c.sync(c.stream(h.ID))...)
		}
	}
	for _, st := range c.streams { // each conversation's first, with the same client id
		if len(st.out) > 0 {
			send = append(send, c.post(conn, st.out[0]))
		}
	}
	if c.wants != "" && c.conv == "" {
		send = append(send, c.open(conn))
	}
	return send, nil
}

// open returns a write that asks for a conversation. The caller holds Fleet.mu.
func (c *Client) open(conn *websocket.Conn) func() error {
	wants := c.wants
	return func() error { return c.write(conn, "conv.open", "open", "", proto.Open{Wants: wants}) }
}

// takeAs returns a write that asks for a conversation of the queue. The caller holds Fleet.mu.
func (c *Client) takeAs(id, conv string) func() error {
	conn := c.conn
	c.taking[id] = conv
	return func() error { return c.write(conn, "take", id, conv, proto.Take{}) }
}

// head stores the state of a conversation.
func (c *Client) head(h *proto.Head) {
	if !c.staff {
		c.conv, c.state = h.ID, h.State
		if c.opening {
			c.opening = false
			c.f.opening--
		}
	}
	c.owns(h.ID, h.Owner)
}

// owns stores which agent has a conversation.
func (c *Client) owns(conv string, owner *proto.Party) {
	if c.staff && owner != nil && owner.ID == c.me {
		c.f.owner[conv] = c
	}
}

// post returns a write of the message. The caller holds Fleet.mu.
func (c *Client) post(conn *websocket.Conn, p *posted) func() error {
	id := c.id()
	c.flight[id] = p
	return func() error {
		return c.write(conn, "msg.send", id, p.conv, proto.Send{ClientID: p.clientID, Kind: "text", Body: p.body})
	}
}

func (c *Client) answered(conn *websocket.Conn, m *frame, now time.Time) (send []func() error, err error) {
	if p := c.flight[m.RE]; p != nil {
		delete(c.flight, m.RE)
		var a proto.Ack
		if err := json.Unmarshal(m.D, &a); err != nil {
			return nil, err
		}
		if next := c.ack(p, a.S, now); next != nil {
			send = append(send, c.post(conn, next))
		}
		return send, nil
	}
	if st := c.asked[m.RE]; st != nil {
		delete(c.asked, m.RE)
		st.asking = false
		return c.synced(st, m, now)
	}
	if _, ok := c.taking[m.RE]; ok {
		delete(c.taking, m.RE)
		c.f.taking--
		var changed proto.Changed
		if err := json.Unmarshal(m.D, &changed); err != nil {
			return nil, err
		}
		c.head(&changed.Head)
		return nil, nil
	}
	if m.RE == rest {
		c.resting = true
		return nil, nil
	}
	if m.RE == "open" {
		var o proto.Opened
		if err := json.Unmarshal(m.D, &o); err != nil {
			return nil, err
		}
		c.head(&o.Head)
	}
	return nil, nil
}

// event handles an event in its turn. An event ahead of its turn makes the client fetch what is missing.
func (c *Client) event(m *frame, now time.Time) (send []func() error, err error) {
	st := c.stream(m.C)
	switch {
	case m.S <= st.last:
		if st.named {
			c.f.faults.Replayed++
		}
		return nil, nil
	case m.S > st.last+1:
		if c.staff && st.last == 0 { // the conversation has just become this agent's
			return c.sync(st), c.changed(m)
		}
		if !st.asking {
			c.f.faults.Gaps++
		}
		return c.sync(st), nil
	}
	st.last = m.S
	if m.T == "ev.state" {
		return nil, c.changed(m)
	}
	var msg proto.Msg
	if err := json.Unmarshal(m.D, &msg); err != nil {
		return nil, err
	}
	if write := c.shown(m.C, m.S, &msg, now); write != nil {
		send = append(send, write)
	}
	return send, nil
}

func (c *Client) changed(m *frame) error {
	if m.T != "ev.state" {
		return nil
	}
	var s proto.StateChange
	if err := json.Unmarshal(m.D, &s); err != nil {
		return err
	}
	if !c.staff && m.C == c.conv {
		c.state = s.State
	}
	c.owns(m.C, s.Owner)
	return nil
}

// sync fetches the rest of a conversation, or puts it in line if others are being fetched. The caller holds Fleet.mu.
func (c *Client) sync(st *stream) []func() error {
	if !st.asking {
		st.asking, st.named = true, false
		c.waiting = append(c.waiting, st)
	}
	return c.fetch()
}

func (c *Client) fetch() (send []func() error) {
	for len(c.waiting) > 0 && len(c.asked) < agentSyncs && c.conn != nil {
		st := c.waiting[0]
		c.waiting = c.waiting[1:]
		conn, id, after := c.conn, c.id(), st.last
		c.asked[id] = st
		send = append(send, func() error {
			return c.write(conn, "sync", id, st.conv, proto.Sync{After: after, Limit: proto.MaxSyncEvents})
		})
	}
	return send
}

func (c *Client) synced(st *stream, m *frame, now time.Time) (send []func() error, err error) {
	var page proto.Synced
	if err := json.Unmarshal(m.D, &page); err != nil {
		return nil, err
	}
	c.head(&page.Head)
	for _, raw := range page.Events {
		var e frame
		if err := json.Unmarshal(raw, &e); err != nil {
			return nil, err
		}
		more, err := c.event(&e, now)
		if err != nil {
			return nil, err
		}
		send = append(send, more...)
	}
	if page.More || page.Head.Last > st.last {
		return append(send, c.sync(st)...), nil
	}
	return append(send, c.fetch()...), nil
}
