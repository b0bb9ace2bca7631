package hub

import (
	"context"
	"errors"
	"time"

	"github.com/go-eddy/eddy/desk/bot"
	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/store"
)

// The text of a language model is shown to the customer while it is written, in ev.partial, and stored once, when it is
// complete. A slow customer misses pieces and gets the whole in the end; a stream waits for nobody.

const (
	goneAfter   = 10 * time.Second // without a connection of the customer, after which a stream ends
	usageWithin = 5 * time.Second  // for reading and writing what a bot has used
)

// stream asks a bot whose answer comes in pieces.
func (h *Hub) stream(t *turn, model *bot.Assistant, question bot.Turn) {
	var ctx context.Context
	h.turns.mu.Lock()
	if h.turns.open[t.Conv.ID] == t {
		ctx, t.stop = context.WithCancel(context.Background())
	}
	h.turns.mu.Unlock()
	if ctx == nil {
		return // the bot has lost the conversation, or the hub ends
	}
	p := &partial{hub: h, turn: t, seen: h.o.Now()}
	model.Ask(ctx, question, p.show, func(a bot.Answer) {
		switch {
		case errors.Is(a.Err, bot.ErrLeft):
			return // leaveTurn has told everybody
		case a.Err != nil:
			h.failTurn(t.PendingTurn, model, a.Err)
			return
		case a.Note != nil:
			h.Counters.BotBounds.Add(1)
			h.o.Logger.Warn("desk: a bot did not answer as it should", "conversation", t.Conv.ID, "bot", t.Turn.Bot.ID, "turn", t.Turn.ID, "err", a.Note)
		}
		h.endTurn(t.PendingTurn, a.Reply)
	})
}

// partial shows the customer what is being written. One goroutine at a time uses it.
type partial struct {
	hub  *Hub
	turn *turn
	n    int
	seen time.Time // when the customer was last there
}

// show sends a piece of text; the empty one begins anew. It returns false when the customer has gone.
func (p *partial) show(text string) bool {
	h, c := p.hub, &p.turn.Conv
	h.mu.Lock()
	to := h.sessions.contacts[c.Contact]
	h.mu.Unlock()
	now := h.o.Now()
	if len(to) > 0 {
		p.seen = now
	}
	if text == "" {
		p.n = 0
	}
	frame := proto.Event("ev.partial", c.ID, 0, proto.Partial{From: party(p.turn.Turn.Bot), Turn: p.turn.Turn.ID, N: p.n, Text: text})
	p.n++
	for _, s := range to {
		s.ephemeral(frame)
	}
	return now.Sub(p.seen) < goneAfter
}

// ledger keeps what one bot has used in the store.
type ledger struct {
	hub *Hub
	bot string
}

// Used implements bot.Ledger.
func (l ledger) Used(day string) (store.BotUsage, error) {
	ctx, cancel := context.WithTimeout(context.Background(), usageWithin)
	defer cancel()
	return l.hub.o.Store.Hot().BotUsage(ctx, l.bot, day)
}

// Use implements bot.Ledger.
func (l ledger) Use(day string, u store.BotUsage) error {
	ctx, cancel := context.WithTimeout(context.Background(), usageWithin)
	defer cancel()
	err := l.hub.o.Store.AddBotUsage(ctx, l.bot, day, u)
	if errors.Is(err, store.ErrNotFound) {
		return nil // the bot was deleted meanwhile
	}
	return err
}
