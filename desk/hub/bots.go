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

// botStaff holds the bots that conversations have, ready to be asked, and the connections to those elsewhere.
type botStaff struct {
	hub *Hub

	mu      sync.Mutex
	ready   map[string]*readyBot // by bot id
	clients *safehttp.Pair
	retired []*readyBot // with other settings now, and perhaps still answering
	closed  bool
}

// readyBot is a bot with its settings read. Exactly one of rules, hook and model is set, unless the settings are not
// usable.
type readyBot struct {
	account store.BotAccount
	rules   bot.Bot
	hook    *bot.Webhook
	model   *bot.Assistant
	err     error
	users   int // between get and release; botStaff.mu guards it
}

// remote is a bot that runs elsewhere.
type remote interface {
	apologist
	Greet(locale string) []store.Say
	Shut() bool
	Stats() bot.WebhookStats
	Close()
}

// apologist knows what to say when a bot has failed.
type apologist interface {
	Apology(text, locale string) string
}

// remote returns the bot if it runs elsewhere, else nil.
func (r *readyBot) remote() remote {
	switch {
	case r.hook != nil:
		return r.hook
	case r.model != nil:
		return r.model
	}
	return nil
}

// apologist returns who says that the bot has failed, nil for a bot that does not.
func (r *readyBot) apologist() apologist {
	if far := r.remote(); far != nil {
		return far
	}
	return nil
}

func newBotStaff(h *Hub) *botStaff {
	o := &h.o
	return &botStaff{hub: h, ready: make(map[string]*readyBot), clients: safehttp.NewPair("desk-out", safehttp.Options{
		Handshakes: h.botPool, TLS: o.ClientTLS, Resolver: o.Resolver, Logger: o.Logger, Trace: o.Trace,
	})}
}

// get returns a bot with its current settings, to be given back to release unless there is an error. It blocks, because it
// reads the account every time. A change of the settings thus counts from the next turn on.
func (b *botStaff) get(ctx context.Context, id string) (*readyBot, error) {
	if id == store.BuiltInBot {
		return &readyBot{rules: b.hub.o.Bot, users: 1}, nil
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
		b.retire(r)
		if r = b.build(account); !b.closed {
			b.ready[id] = r
		}
	}
	if r.err == nil {
		r.users++
	}
	return r, r.err
}

// release says that the turn of a caller of get has been handed to the bot, or needs it no more. It also closes the
// retired bots whose turns are over, and may wait a moment for their end.
func (b *botStaff) release(r *readyBot) {
	b.mu.Lock()
	r.users--
	var over []remote
	b.retired = slices.DeleteFunc(b.retired, func(r *readyBot) bool {
		if !r.over() {
			return false
		}
		over = append(over, r.remote())
		return true
	})
	b.mu.Unlock()
	for _, far := range over {
		far.Close()
	}
}

// over reports whether nobody will ask a retired bot any more, and none of its turns goes on. botStaff.mu is held.
func (r *readyBot) over() bool {
	s := r.remote().Stats()
	return r.users == 0 && s.Running+s.Waiting == 0
}

func (b *botStaff) forget(id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.retire(b.ready[id])
	delete(b.ready, id)
}

// retire keeps a bot that is asked no more until its turns are over. b.mu is held.
func (b *botStaff) retire(r *readyBot) {
	if r != nil && r.remote() != nil {
		b.retired = append(b.retired, r)
	}
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
	case store.BotAssistant:
		c, err := bot.ParseAssistant(account.Config)
		if r.err = err; err != nil {
			break
		}
		client, err := b.client(c.AllowPrivate)
		if r.err = err; err == nil {
			r.model = bot.NewAssistant(c, client, ledger{b.hub, account.ID}, b.hub.o.Now)
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
		if far := r.remote(); far != nil && far.Shut() {
			ids = append(ids, id)
		}
	}
	return ids
}

// close ends everything that is under way.
func (b *botStaff) close() error {
	b.mu.Lock()
	b.closed = true
	left := b.retired
	for _, r := range b.ready {
		left = append(left, r)
	}
	b.ready, b.retired = nil, nil
	b.mu.Unlock()
	for _, r := range left {
		if far := r.remote(); far != nil {
			far.Close()
		}
	}
	return b.clients.Close()
}

// BotStats are the numbers of one bot that runs elsewhere.
type BotStats struct {
	ID   string
	Name string
	bot.WebhookStats
}

// BotStats returns the numbers of the bots elsewhere that have been asked since the start, by name. The numbers of a bot
// begin anew when its settings change. Any goroutine.
func (h *Hub) BotStats() []BotStats {
	b := h.botStaff
	b.mu.Lock()
	defer b.mu.Unlock()
	var all []BotStats
	for id, r := range b.ready {
		if far := r.remote(); far != nil {
			all = append(all, BotStats{id, r.account.Name, far.Stats()})
		}
	}
	slices.SortFunc(all, func(x, y BotStats) int { return strings.Compare(x.Name+x.ID, y.Name+y.ID) })
	return all
}
