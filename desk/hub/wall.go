package hub

import (
	"cmp"
	"slices"

	"github.com/go-eddy/eddy/desk/mask"
	"github.com/go-eddy/eddy/desk/proto"
)

// wallQueue and wallChats bound the rows of a wall, so that its size does not follow that of the queue.
const (
	wallQueue = 20
	wallChats = 20 // of one agent
)

// WallChat is a conversation on the wall. Times are Unix milliseconds.
type WallChat struct {
	ID      string `json:"id"`
	Contact string `json:"contact"`           // name
	Group   string `json:"group,omitempty"`   // id
	Since   int64  `json:"since"`             // in the queue, or with the agent
	Waiting int64  `json:"waiting,omitempty"` // time of the customer's first unanswered text
}

// WallAgent is an agent and its conversations.
type WallAgent struct {
	proto.AgentInfo
	Chats []WallChat `json:"chats"`
}

// Wall is the present state, from the hub's memory.
type Wall struct {
	Time     int64             `json:"time"`
	Waiting  int               `json:"waiting"`
	Longest  int64             `json:"longest"` // milliseconds
	Assigned int               `json:"assigned"`
	Bot      int               `json:"bot"`
	Ready    int               `json:"ready"` // agents that take conversations
	Groups   []proto.GroupInfo `json:"groups"`
	Agents   []WallAgent       `json:"agents"`
	Queue    []WallChat        `json:"queue"` // the first conversations of the queue
	Targets  []Target          `json:"targets"`
}

// Mask hides private text in the names of customers, for readers without perm.Private.
func (w *Wall) Mask() {
	hide := func(chats []WallChat) {
		for i := range chats {
			chats[i].Contact = mask.Text(chats[i].Contact)
		}
	}
	hide(w.Queue)
	for i := range w.Agents {
		hide(w.Agents[i].Chats)
	}
}

// Wall returns the present state. It asks no database, and any goroutine may call it.
func (h *Hub) Wall() Wall {
	staff := h.staffList()
	w := Wall{Time: h.o.Now().UnixMilli(), Groups: staff.Groups, Agents: make([]WallAgent, 0, len(staff.Agents)), Queue: []WallChat{}, Targets: []Target{}}
	for _, g := range staff.Groups {
		if g.ID == "" {
			w.Ready = g.Online
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.queue.dir.tally(w.Time)
	w.Bot, w.Waiting, w.Assigned, w.Longest = t.bot, t.queued, t.assigned, t.longest
	targets, _ := h.queue.standings(w.Time)
	for _, g := range staff.Groups { // in their order
		if t := targets[g.ID]; t != nil {
			w.Targets = append(w.Targets, *t)
		}
	}
	for _, e := range h.queue.dir.queue[:min(len(h.queue.dir.queue), wallQueue)] {
		w.Queue = append(w.Queue, WallChat{ID: e.conv.ID, Contact: e.conv.ContactName, Group: e.conv.Group, Since: e.conv.QueuedAt, Waiting: e.conv.WaitingSince})
	}
	for _, a := range staff.Agents {
		chats := make([]WallChat, 0, len(h.queue.dir.byAgent[a.ID]))
		for _, e := range h.queue.dir.byAgent[a.ID] {
			if e.conv.Snoozed() {
				continue
			}
			chats = append(chats, WallChat{ID: e.conv.ID, Contact: e.conv.ContactName, Group: e.conv.Group, Since: e.conv.AssignedAt, Waiting: e.conv.WaitingSince})
		}
		slices.SortFunc(chats, func(a, b WallChat) int { return cmp.Or(cmp.Compare(a.Since, b.Since), cmp.Compare(a.ID, b.ID)) })
		w.Agents = append(w.Agents, WallAgent{a, chats[:min(len(chats), wallChats)]})
	}
	return w
}
