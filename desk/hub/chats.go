package hub

import (
	"fmt"
	"math"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/go-eddy/eddy/desk/auth"
	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/store"
)

// chats counts the conversations that customers begin, by network and site. A conversation counts with the customer's
// first action; one that is only opened counts a tenth.
type chats struct {
	warn   rate.Sometimes
	shared *auth.Shared

	mu     sync.Mutex
	tables map[int]*auth.Buckets // by chats an hour
}

const (
	opensPerChat = 10
	reasonChats  = "chats" // of the refusal
)

// of returns the buckets of a limit, of which n may be spent in an hour, and all at once.
func (c *chats) of(n int) *auth.Buckets {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.tables == nil {
		c.tables = make(map[int]*auth.Buckets)
	}
	if c.tables[n] == nil {
		c.tables[n] = c.shared.Count(fmt.Sprint("chats ", n), auth.NewBuckets(float64(n)/time.Hour.Seconds(), n, maxChatKeys))
	}
	return c.tables[n]
}

// chatsOf returns how many conversations customers of one network may begin in an hour on a site, 0 = any number.
func (h *Hub) chatsOf(site string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	if n := h.queue.roster.sites[site].Settings.Chats; n > 0 {
		return n
	}
	return max(h.o.Limits.Chats, 0)
}

// begins counts a command of a customer that is the first action in a conversation. giveBack takes the count back. false
// means that the network has begun as many as it may, and that the client has been told.
func (s *Session) begins(cmd proto.Command, who identity) (giveBack func(), ok bool) {
	h := s.hub
	h.mu.Lock()
	e := h.queue.dir.open[cmd.Conv]
	counts := e != nil && e.conv.ActedAt == 0 && who.actor.Kind == store.Customer && e.conv.Contact == who.actor.ID
	h.mu.Unlock()
	if !counts {
		return func() {}, true
	}
	return s.count(cmd, who, true)
}

// count spends a conversation of the session's network. One that is opened without an action of the customer is let in
// only while there is room for the action.
func (s *Session) count(cmd proto.Command, who identity, acts bool) (giveBack func(), ok bool) {
	n := s.hub.chatsOf(who.site)
	if s.peer.Network == "" || n == 0 {
		return func() {}, true
	}
	key, now := who.site+" "+s.peer.Network, s.hub.o.Now()
	table := s.hub.chats.of(n)
	wait := table.Take(key, now)
	if wait == 0 && !acts {
		table.Return(key)
		table = s.hub.chats.of(n * opensPerChat)
		key = "opened " + key
		wait = table.Take(key, now)
	}
	if wait == 0 {
		return func() { table.Return(key) }, true
	}
	s.hub.chats.warn.Do(func() {
		s.hub.o.Logger.Warn("desk: an address has begun as many chats as it may, and customers are asked to wait", "site", s.hub.queue.roster.siteKey(who.site),
			"per_hour", n, "address", s.peer.IP)
	})
	e := rateLimited(wait)
	e.Reason = reasonChats
	e.Text = fmt.Sprintf("%d new chats an hour is the limit for one address here: try again in %d s", n, int64(math.Ceil(wait.Seconds())))
	s.fail(cmd, e)
	return nil, false
}
