package hub

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/go-eddy/eddy/desk/bot"
	"github.com/go-eddy/eddy/desk/safehttp"
	"github.com/go-eddy/eddy/desk/store"
)

// errBotGone and errBotBusy are errors of a turn before a bot is asked.
var (
	errBotGone = errors.New("hub: the bot is no longer there")
	errBotBusy = errors.New("hub: too many turns wait for bots")
)

// botStaff holds the bots that conversations have, ready to be asked, and the connections to webhook bots.
type botStaff struct {
	hub *Hub

	mu      sync.Mutex
	ready   map[string]*readyBot // by bot id
	clients *safehttp.Pair
	closed  bool
}

// readyBot is a bot with its settings read. Exactly one of rules and hook is set, unless the settings are not usable.
type readyBot struct {
	account store.BotAccount
	rules   bot.Bot
	hook    *bot.Webhook
	err     error
}

func newBotStaff(h *Hub) *botStaff {
	o := &h.o
	return &botStaff{hub: h, ready: make(map[string]*readyBot), clients: safehttp.NewPair("desk-out", safehttp.Options{
		Handshakes: h.botPool, TLS: o.ClientTLS, Resolver: o.Resolver, Logger: o.Logger,
	})}
}

// get returns a bot with its current settings. It blocks, because it reads the account every time. A change of the
// settings thus counts from the next turn on.
func (b *botStaff) get(ctx context.Context, id string) (*readyBot, error) {
	if id == store.BuiltInBot {
		return &readyBot{rules: b.hub.o.Bot}, nil
	}
	account, err := b.hub.o.Store.Hot().Bot(ctx, id)
	if errors.Is(err, store.ErrNotFound) {
		b.forget(id)
		return nil, errBotGone
	}
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	r := b.ready[id]
	if r == nil || r.account != account {
		if r = b.build(account); !b.closed {
			b.ready[id] = r
		}
	}
	return r, r.err
}

func (b *botStaff) forget(id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.ready, id)
}

// build makes a bot from its account. b.mu is held.
func (b *botStaff) build(account store.BotAccount) *readyBot {
	r := &readyBot{account: account}
	switch account.Kind {
	case store.BotRules:
		c, err := bot.ParseRules(account.Config)
		if r.err = err; err == nil {
			r.rules = bot.NewRules(c)
		}
	case store.BotWebhook:
		c, err := bot.ParseWebhook(account.Config)
		if r.err = err; err != nil {
			break
		}
		client, err := b.client(c.AllowPrivate)
		if r.err = err; err == nil {
			r.hook = bot.NewWebhook(c, client, b.hub.o.Now)
		}
	default:
		r.err = fmt.Errorf("hub: a bot of unknown kind %q", account.Kind)
	}
	return r
}

// client returns the client for one kind of addresses. b.mu is held.
func (b *botStaff) client(private bool) (*safehttp.Client, error) {
	if b.closed {
		return nil, bot.ErrClosed
	}
	return b.clients.Client(private)
}

// shut returns the ids of the bots that would refuse a turn now. It does not block.
func (b *botStaff) shut() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var ids []string
	for id, r := range b.ready {
		if r.hook != nil && r.hook.Shut() {
			ids = append(ids, id)
		}
	}
	return ids
}

// close ends everything that is under way.
func (b *botStaff) close() error {
	b.mu.Lock()
	b.closed = true
	ready := b.ready
	b.ready = nil
	b.mu.Unlock()
	for _, r := range ready {
		if r.hook != nil {
			r.hook.Close()
		}
	}
	return b.clients.Close()
}

// BotStats are the numbers of one webhook bot.
type BotStats struct {
	ID   string
	Name string
	bot.WebhookStats
}

// BotStats returns the numbers of the webhook bots that have been asked since the start, by name. The numbers of a bot
// begin anew when its settings change. Any goroutine.
func (h *Hub) BotStats() []BotStats {
	b := h.botStaff
	b.mu.Lock()
	defer b.mu.Unlock()
	var all []BotStats
	for id, r := range b.ready {
		if r.hook != nil {
			all = append(all, BotStats{id, r.account.Name, r.hook.Stats()})
		}
	}
	slices.SortFunc(all, func(x, y BotStats) int { return strings.Compare(x.Name+x.ID, y.Name+y.ID) })
	return all
}
