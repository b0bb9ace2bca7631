package hub

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-eddy/eddy/desk/bot"
	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/store"
)

// TurnResult says what became of an answer that a bot has sent by a callback.
type TurnResult string

// Results of AnswerTurn.
const (
	TurnApplied   TurnResult = "applied"
	TurnDuplicate TurnResult = "duplicate" // the turn had been answered before
	TurnDiscarded TurnResult = "discarded" // too late: the bot no longer has the conversation, or the turn has failed
)

// AnswerTurn takes the answer to a turn that a bot sends by itself, signed as bot.Verify wants it. It blocks until the
// answer is committed or ctx ends, so do not call it on a loop. Errors are *proto.Error: unauthorized, bad_request, busy
// and unavailable. unauthorized does not tell a wrong signature from an unknown turn.
func (h *Hub) AnswerTurn(ctx context.Context, id, timestamp, signature string, body []byte) (TurnResult, error) {
	if h.draining.Load() {
		return "", unavailable("the server is shutting down")
	}
	turn, err := h.authenticTurn(ctx, id, timestamp, signature, body)
	if err != nil {
		return "", err
	}
	reply, cut, err := bot.DecodeReply(body)
	if err != nil {
		h.Counters.BotBadCallbacks.Add(1)
		return "", &proto.Error{Code: proto.CodeBadRequest, Text: err.Error()}
	}
	h.Counters.BotCut.Add(uint64(cut))
	out, refusal := awaited(ctx, func(tell func(store.Outcome, *proto.Error)) { h.commitTurn(turnCommand(&turn, &reply), 1, tell) })
	switch {
	case refusal != nil:
		return "", refusal
	case out.Err != nil:
		return "", &proto.Error{Code: proto.CodeInternal, Text: "something went wrong on our side"}
	case out.Dup:
		return TurnDuplicate, nil
	case out.Discarded:
		return TurnDiscarded, nil
	}
	return TurnApplied, nil
}

// authenticTurn returns a turn if the caller has proved to be its bot.
func (h *Hub) authenticTurn(ctx context.Context, id, timestamp, signature string, body []byte) (store.Turn, error) {
	turn, err := h.o.Store.Hot().BotTurn(ctx, id)
	var b *readyBot
	if err == nil {
		if b, err = h.botStaff.get(ctx, turn.Bot.ID); err == nil {
			defer h.botStaff.release(b)
		}
	}
	if err == nil && b.hook == nil {
		err = fmt.Errorf("%w: not a bot that calls back", bot.ErrSignature)
	}
	if err == nil {
		err = bot.Verify(b.hook.Config().Secret, timestamp, signature, body, h.o.Now())
	}
	switch {
	case err == nil:
		return turn, nil
	case errors.Is(err, store.ErrNotFound), errors.Is(err, errBotGone), errors.Is(err, bot.ErrSignature):
		h.Counters.BotBadCallbacks.Add(1)
		h.o.Logger.Warn("desk: callback of a bot refused", "turn", id, "err", err)
		return turn, &proto.Error{Code: proto.CodeUnauthorized, Text: "The signature is wrong, or there is no such turn."}
	}
	return turn, h.readError(err)
}
