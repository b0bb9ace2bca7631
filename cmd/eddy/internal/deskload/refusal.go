package deskload

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/websocket"
)

// refused handles an error. A command that the server is too busy for is sent again when the server says, with the same
// client id.
func (c *Client) refused(conn *websocket.Conn, m *frame) (send []func() error, err error) {
	var e proto.Error
	if err := json.Unmarshal(m.D, &e); err != nil {
		return nil, err
	}
	p, st := c.flight[m.RE], c.asked[m.RE]
	conv, taking := c.taking[m.RE]
	delete(c.flight, m.RE)
	delete(c.asked, m.RE)
	switch {
	case m.RE == probe:
		return nil, nil
	case taking && e.RetryMS == 0:
		delete(c.taking, m.RE)
		c.f.taking--
		if e.Code != proto.CodeConflict || e.Head == nil || e.Head.Owner == nil || e.Head.Owner.ID != c.me { // else it was taken by the command before, whose answer came too late
			c.f.refused(fmt.Sprintf("%s: %s", e.Code, e.Text))
		}
		return nil, nil
	case e.RetryMS == 0:
		c.f.refused(fmt.Sprintf("%s: %s", e.Code, e.Text))
		if st != nil {
			st.asking = false
		}
		if p != nil { // the message will never be there
			delete(c.f.posts, p.clientID)
			c.f.unacked--
			if p.measured {
				c.f.arrived++
			}
			if next := c.stream(p.conv).done(p); next != nil {
				send = append(send, c.post(conn, next))
			}
		}
		return send, nil
	}
	c.f.faults.Busy++
	time.AfterFunc(time.Duration(e.RetryMS)*time.Millisecond, func() {
		c.f.mu.Lock()
		if c.conn != conn { // a new connection sends the command by itself
			c.f.mu.Unlock()
			return
		}
		var again []func() error
		switch {
		case p != nil && !p.acked:
			again = append(again, c.post(conn, p))
		case st != nil:
			st.asking = false
			again = c.sync(st)
		case taking:
			again = append(again, c.takeAs(m.RE, conv))
		case m.RE == "open" && c.conv == "":
			again = append(again, c.open(conn))
		}
		c.f.mu.Unlock()
		for _, send := range again {
			_ = send()
		}
	})
	return nil, nil
}
