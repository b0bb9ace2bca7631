package hub

import (
	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/store"
)

// veiled returns a row for an agent who may not read the conversation. The row shows that it exists and whose it is, not
// what was said.
func veiled(r proto.Row) proto.Row {
	r.Preview, r.PreviewFrom, r.Tags, r.ReplyTo = "", "", nil, ""
	r.Score, r.Comment = 0, ""
	return r
}

// rowFor returns a conversation's row as one member of staff may see it.
func (h *Hub) rowFor(who identity, c *store.Conversation) proto.Row {
	h.mu.Lock()
	online, may := h.sessions.customerThere(c.Contact), h.queue.sees(who, c)
	h.mu.Unlock()
	if may == blind {
		return veiled(h.row(c, online))
	}
	return h.row(c, online)
}

// tellRow sends a conversation's row to staff, to each member as that member may see it.
func (h *Hub) tellRow(c *store.Conversation, online bool, staff []*Session, send func(s *Session, frame []byte)) {
	if len(staff) == 0 {
		return
	}
	r := h.row(c, online)
	full := proto.Event("ev.conv", c.ID, 0, r)
	var less []byte
	blinded := make([]bool, len(staff))
	h.mu.Lock()
	for i, s := range staff {
		blinded[i] = h.queue.sees(s.who(), c) == blind
	}
	h.mu.Unlock()
	for i, s := range staff {
		if !blinded[i] {
			send(s, full)
			continue
		}
		if less == nil {
			less = proto.Event("ev.conv", c.ID, 0, veiled(r))
		}
		send(s, less)
	}
}
