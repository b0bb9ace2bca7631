package hub

import (
	"time"

	"github.com/go-eddy/eddy/desk/perm"
)

// Load is the work that the hub has now.
type Load struct {
	Customers int               // welcomed connections of customers
	Staff     map[perm.Role]int // welcomed connections of staff; the map has every role
	Bot       int               // conversations with a bot
	Queued    int               // conversations that wait for an agent
	Assigned  int               // conversations with an agent
	Longest   time.Duration     // the longest wait of the queue
	Missed    int               // groups that miss their target for first answers
}

// Load returns the work that the hub has now. It asks no database, and any goroutine may call it.
func (h *Hub) Load() Load {
	l := Load{Staff: make(map[perm.Role]int)}
	for _, r := range perm.Roles() {
		l.Staff[r] = 0
	}
	h.mu.Lock()
	staff := h.sessions.staff
	for _, sessions := range h.sessions.contacts {
		l.Customers += len(sessions)
	}
	t := h.queue.dir.tally(h.o.Now().UnixMilli())
	for _, a := range h.queue.targets.aims {
		if a.waiting || a.share {
			l.Missed++
		}
	}
	h.mu.Unlock()
	l.Bot, l.Queued, l.Assigned, l.Longest = t.bot, t.queued, t.assigned, time.Duration(t.longest)*time.Millisecond
	for _, s := range staff {
		l.Staff[s.who().role]++
	}
	return l
}
