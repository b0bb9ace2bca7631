package deskload

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/websocket"
)

// frame is one message of the server, as far as the load looks at it.
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

	conn   *websocket.Conn
	live   bool
	nextID int
	conv   string // of a customer
	state  string // of that conversation
	last   map[string]uint64
	asking map[string]bool    // conversations that are being synced
	own    map[string]*posted // by client id
	order  []*posted          // not acknowledged, oldest first
	flight map[string]*posted // by request id
}

// posted is one message of this client.
type posted struct {
	conv, clientID, body string
	due                  time.Time
	measured             bool
	acked                bool
	shown                int
	then                 func() // called with the ack, under Fleet.mu, nil = nothing
}

func (f *Fleet) newClient(hello func(context.Context) (proto.Hello, error)) *Client {
	return &Client{
		f: f, hello: hello, last: make(map[string]uint64), asking: make(map[string]bool), own: make(map[string]*posted), flight: make(map[string]*posted),
	}
}

// seen needs Fleet.mu.
func (c *Client) seen() map[string]uint64 {
	seen := make(map[string]uint64, len(c.last))
	for conv, s := range c.last {
		if len(seen) == proto.MaxSeen {
			break
		}
		seen[conv] = s
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

// HandleClose implements websocket.Handler: it connects again.
func (c *Client) HandleClose(*websocket.Conn, int, string) {
	c.f.note(func() {
		if c.live {
			c.f.live--
		}
		c.conn, c.live = nil, false
		clear(c.flight)
		clear(c.asking)
	})
	if c.f.ctx.Err() == nil {
		c.f.connect(c, 1)
	}
}

// HandleMessage implements websocket.Handler.
func (c *Client) HandleMessage(conn *websocket.Conn, _ websocket.Opcode, data []byte) error {
	now := time.Now()
	var m frame
	if err := json.Unmarshal(data, &m); err != nil {
		return err
	}
	var send []func() error
	var err error
	c.f.note(func() { send, err = c.receive(conn, &m, now) })
	for i := 0; err == nil && i < len(send); i++ {
		err = send[i]()
	}
	if closedByUs(err) {
		return nil
	}
	return err
}

// receive needs Fleet.mu; it returns what is to be written without it.
func (c *Client) receive(conn *websocket.Conn, m *frame, now time.Time) (send []func() error, err error) {
	switch m.T {
	case "welcome":
		return c.welcomed(conn, m)
	case "ok":
		return c.answered(m, now)
	case "err":
		return c.refused(conn, m)
	case "ev.msg", "ev.state":
		return c.event(m, now)
	}
	return nil, nil
}

func (c *Client) welcomed(conn *websocket.Conn, m *frame) (send []func() error, err error) {
	var w proto.Welcome
	if err := json.Unmarshal(m.D, &w); err != nil {
		return nil, err
	}
	c.live = true
	c.f.live++
	for i := range w.Heads {
		h := &w.Heads[i]
		c.head(h)
		if h.Truncated {
			send = append(send, c.sync(h.ID))
		}
	}
	for _, p := range c.order { // in their order, with the same client ids
		send = append(send, c.post(conn, p))
	}
	return send, nil
}

// head takes note of the state of a conversation.
func (c *Client) head(h *proto.Head) {
	if !c.staff {
		c.conv, c.state = h.ID, h.State
	}
	if h.Owner != nil && c.staff && h.State == "assigned" {
		c.f.owner[h.ID] = c
	}
}

// post needs Fleet.mu; what it returns writes the message.
func (c *Client) post(conn *websocket.Conn, p *posted) func() error {
	id := c.id()
	c.flight[id] = p
	return func() error {
		return c.write(conn, "msg.send", id, p.conv, proto.Send{ClientID: p.clientID, Kind: "text", Body: p.body})
	}
}

func (c *Client) answered(m *frame, now time.Time) (send []func() error, err error) {
	if p := c.flight[m.RE]; p != nil {
		delete(c.flight, m.RE)
		c.ack(p, now)
		return nil, nil
	}
	switch {
	case m.RE == "open":
		var o proto.Opened
		if err := json.Unmarshal(m.D, &o); err != nil {
			return nil, err
		}
		c.head(&o.Head)
		return nil, nil
	case c.asking[m.C]:
		return c.synced(m, now)
	}
	return nil, nil
}

func (c *Client) ack(p *posted, now time.Time) {
	if p.acked {
		return
	}
	p.acked = true
	for i, q := range c.order {
		if q == p {
			c.order = append(c.order[:i], c.order[i+1:]...)
			break
		}
	}
	if p.measured {
		c.f.acked++
		c.f.unacked--
		record(c.f.acks, now.Sub(p.due))
	}
	if p.then != nil {
		p.then()
	}
}

func (c *Client) refused(conn *websocket.Conn, m *frame) (send []func() error, err error) {
	var e proto.Error
	if err := json.Unmarshal(m.D, &e); err != nil {
		return nil, err
	}
	p := c.flight[m.RE]
	delete(c.flight, m.RE)
	if m.RE == probe {
		return nil, nil
	}
	c.f.refused(fmt.Sprintf("%s: %s", e.Code, e.Text))
	if p == nil || e.RetryMS == 0 {
		return nil, nil
	}
	time.AfterFunc(time.Duration(e.RetryMS)*time.Millisecond, func() { // again with the same client id
		c.f.mu.Lock()
		if c.conn != conn || p.acked {
			c.f.mu.Unlock()
			return
		}
		again := c.post(conn, p)
		c.f.mu.Unlock()
		_ = again() // a lost connection sends it again by itself
	})
	return nil, nil
}

// event takes an event in its turn; one that comes ahead of it makes the client fetch what is missing.
func (c *Client) event(m *frame, now time.Time) (send []func() error, err error) {
	last := c.last[m.C]
	switch {
	case m.S <= last:
		return nil, nil
	case m.S > last+1:
		if c.staff && last == 0 { // it has just become this agent's
			return []func() error{c.sync(m.C)}, nil
		}
		c.f.faults.Gaps++
		return []func() error{c.sync(m.C)}, nil
	}
	c.last[m.C] = m.S
	if m.T == "ev.state" {
		return nil, c.changed(m)
	}
	return nil, c.shown(m, now)
}

func (c *Client) changed(m *frame) error {
	var s proto.StateChange
	if err := json.Unmarshal(m.D, &s); err != nil {
		return err
	}
	if !c.staff && m.C == c.conv {
		c.state = s.State
	}
	if c.staff && s.State == "assigned" {
		c.f.owner[m.C] = c
	}
	return nil
}

// shown takes note of a message in the stream: of whom, and how long it took.
func (c *Client) shown(m *frame, now time.Time) error {
	var msg proto.Msg
	if err := json.Unmarshal(m.D, &msg); err != nil {
		return err
	}
	if p := c.own[msg.ClientID]; p != nil {
		p.shown++
		if p.shown > 1 {
			c.f.faults.Doubled++
		}
		return nil
	}
	if due, ok := dueOf(msg.Body); ok {
		c.f.arrived++
		record(c.f.peers, now.Sub(due))
	}
	return nil
}

// sync needs Fleet.mu; what it returns asks for the rest of a conversation.
func (c *Client) sync(conv string) func() error {
	if c.asking[conv] {
		return func() error { return nil }
	}
	c.asking[conv] = true
	conn, id, after := c.conn, c.id(), c.last[conv]
	return func() error {
		return c.write(conn, "sync", id, conv, proto.Sync{After: after, Limit: proto.MaxSyncEvents})
	}
}

func (c *Client) synced(m *frame, now time.Time) (send []func() error, err error) {
	delete(c.asking, m.C)
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
	if page.More || page.Head.Last > c.last[m.C] {
		send = append(send, c.sync(m.C))
	}
	return send, nil
}

// say needs Fleet.mu; what it returns writes the message, or nothing while there is no connection: the next welcome does.
func (c *Client) say(conv, body string, due time.Time, measured bool, then func()) func() error {
	p := &posted{conv: conv, clientID: uuid.NewString(), body: body, due: due, measured: measured, then: then}
	c.own[p.clientID] = p
	c.order = append(c.order, p)
	if measured {
		c.f.unacked++
	}
	if !c.live {
		return func() error { return nil }
	}
	return c.post(c.conn, p)
}
