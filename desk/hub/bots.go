package hub

import (
	"context"
	"errors"
	"time"

	"github.com/go-eddy/eddy/desk/bot"
	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/store"
)

// botReacts starts a turn when the bot owns the conversation and a customer has done something. The customer's
// command has been committed and answered by now: the bot is never in its way. Bots do not react to bots.
func (h *Hub) botReacts(out store.Outcome) {
	if out.Conv.State != store.InBot {
		return
	}
	last := &out.Events[len(out.Events)-1]
	if last.From.Kind != store.Customer {
		return
	}
	if last.Kind == store.KindEvent {
		last = nil
	}
	h.botTurn(out.Conv, last, h.localeOf(out.Conv.Contact))
}

func (h *Hub) localeOf(contact string) string {
	h.mu.Lock()
	sessions := h.contacts[contact]
	h.mu.Unlock()
	if len(sessions) == 0 {
		return ""
	}
	return sessions[0].who().locale
}

// botTurn asks the bot on its own pool. The turn id is made of what it answers, so that a turn that runs twice, say
// after a crash, is applied once. A nil message means the opening.
func (h *Hub) botTurn(conv store.Conversation, msg *store.Event, locale string) {
	turn, id := bot.Turn{Opening: true, Locale: locale}, "opening"
	if msg != nil {
		turn, id = bot.Turn{Text: msg.Body, Payload: msg.Payload, Locale: locale}, msg.ID
	}
	err := h.bots.Submit(conv.ID, func() {
		h.Counters.BotTurns.Add(1)
		h.applyTurn(h.askBot(conv, turn, id), 1)
	})
	if err != nil {
		h.Counters.BotFailed.Add(1)
		h.o.Logger.Warn("desk: bot turn refused", "conversation", conv.ID, "err", err)
	}
}

// askBot returns the command that a reply amounts to. A bot that fails hands over.
func (h *Hub) askBot(conv store.Conversation, turn bot.Turn, id string) store.BotTurn {
	ctx, cancel := context.WithTimeout(context.Background(), h.o.Limits.BotTimeout)
	defer cancel()
	reply, err := h.safeReply(ctx, turn)
	if err != nil {
		h.Counters.BotFailed.Add(1)
		h.o.Logger.Warn("desk: bot failed, handing over", "conversation", conv.ID, "err", err)
		reply = bot.Reply{Handoff: true, Reason: "the bot failed"}
	}
	if len(reply.Say) > store.MaxBotMessages {
		reply.Say = reply.Say[:store.MaxBotMessages]
	}
	return store.BotTurn{Conv: conv.ID, Epoch: conv.Epoch, Turn: id, Say: reply.Say, Handoff: reply.Handoff, Reason: reply.Reason}
}

func (h *Hub) safeReply(ctx context.Context, t bot.Turn) (r bot.Reply, err error) {
	defer func() {
		if v := recover(); v != nil {
			h.o.Logger.Error("desk: panic in the bot", "panic", v)
			err = errors.New("hub: panic in the bot")
		}
	}()
	return h.o.Bot.Reply(ctx, t)
}

// applyTurn commits the bot's answer through the lane of the conversation. What fails for a while is tried again;
// what the bot may no longer say is discarded.
func (h *Hub) applyTurn(c store.BotTurn, attempt int) {
	if len(c.Say) == 0 && !c.Handoff {
		return
	}
	retry := func() {
		if attempt >= botAttempts || h.draining.Load() {
			h.Counters.BotFailed.Add(1)
			return
		}
		time.AfterFunc(botRetryDelay<<(attempt-1), func() { h.applyTurn(c, attempt+1) })
	}
	h.execute(c.Conv, c, func(out store.Outcome) {
		switch {
		case out.Err == nil:
		case errors.Is(out.Err, store.ErrConflict):
			h.Counters.BotLate.Add(1)
		case errors.Is(out.Err, store.ErrUnavailable), errors.Is(out.Err, store.ErrBusy):
			retry()
		default:
			h.Counters.BotFailed.Add(1)
			h.o.Logger.Error("desk: bot turn failed", "conversation", c.Conv, "err", out.Err)
		}
	}, func(*proto.Error) { retry() })
}
