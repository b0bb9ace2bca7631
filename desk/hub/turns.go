package hub

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/go-eddy/eddy/desk/bot"
	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/store"
)

// Guarantee G9 of desk/PROTOCOL.md: the store begins a turn together with what it answers, so that none is lost. A turn
// is asked at least once, and again after a restart. Its answer is committed at most once, and only while its bot has the
// conversation. The turns of one conversation run one after the other. Nothing here delays the customer's own commands,
// which are committed and answered when a turn begins.

// turns are the turns under way, those that bots have accepted and not yet answered included.
type turns struct {
	mu     sync.Mutex
	open   map[string]*turn // by conversation, which has one at a time
	closed bool
}

// turn is one turn under way. Its end is told once, by the first that ends it.
type turn struct {
	store.PendingTurn
	hook  *bot.Webhook // the bot that has accepted the turn
	timer *time.Timer  // ends the wait for the answer
	stop  func()       // ends a stream, nil if there is none
	done  func()       // lets the next turn of the conversation begin
}

// end lets go of what the turn still has and lets the next one begin.
func (t *turn) end(timer *time.Timer, stop func()) {
	if timer != nil {
		timer.Stop()
	}
	if stop != nil {
		stop()
	}
	t.done()
}

// turnBegan starts the turn that a change has begun, and drops the one that it has ended.
func (h *Hub) turnBegan(before *store.Conversation, part *store.Fed) {
	if before.State == store.InBot && before.Epoch != part.Conv.Epoch {
		h.leaveTurn(before.ID, "")
	}
	for i := range part.Events {
		if e := &part.Events[i]; e.From.Kind == store.Bot && e.ClientID != "" { // the bot may have told another server
			id, _, _ := strings.Cut(e.ClientID, "/")
			h.leaveTurn(part.Conv.ID, id)
		}
	}
	if part.Turn == "" {
		return
	}
	c, e := &part.Conv, &part.Events[len(part.Events)-1]
	h.startTurn(store.PendingTurn{
		Turn: store.Turn{ID: part.Turn, Conv: c.ID, Seq: e.Seq, Epoch: c.Epoch, Bot: c.Owner, State: store.TurnAsked}, Conv: *c, Event: *e, Trace: part.Trace,
	})
}

// startTurn queues a turn behind the others of its conversation. It does not block.
func (h *Hub) startTurn(p store.PendingTurn) {
	err := h.bots.SubmitAsync(p.Conv.ID, func(done func()) {
		if t := h.enterTurn(p, done); t != nil {
			h.runTurn(t)
		}
	})
	if err != nil && !h.draining.Load() {
		h.Counters.BotRefused.Add(1)
		h.failTurn(p, nil, errBotBusy)
	}
}

// enterTurn books a turn. If the hub ends, it returns nil and lets the next turn begin.
func (h *Hub) enterTurn(p store.PendingTurn, done func()) *turn {
	h.turns.mu.Lock()
	defer h.turns.mu.Unlock()
	if h.turns.closed {
		done()
		return nil
	}
	t := &turn{PendingTurn: p, done: done}
	h.turns.open[p.Conv.ID] = t
	return t
}

// leaveTurn ends the turn id of a conversation, or the one under way if id is "".
func (h *Hub) leaveTurn(conv, id string) {
	h.turns.mu.Lock()
	t := h.turns.open[conv]
	if t == nil || (id != "" && t.Turn.ID != id) {
		h.turns.mu.Unlock()
		return
	}
	delete(h.turns.open, conv)
	timer, stop := t.timer, t.stop
	h.turns.mu.Unlock()
	t.end(timer, stop)
}

// turnText returns the customer's text that a turn under way is to answer.
func (h *Hub) turnText(conv, id string) string {
	h.turns.mu.Lock()
	defer h.turns.mu.Unlock()
	if t := h.turns.open[conv]; t != nil && t.Turn.ID == id {
		return t.Event.Body
	}
	return ""
}

// stopTurns drops all turns. They are in the store and begin again at the next start.
func (h *Hub) stopTurns() {
	h.turns.mu.Lock()
	h.turns.closed = true
	left := h.turns.open
	h.turns.open = nil
	h.turns.mu.Unlock()
	for _, t := range left {
		t.end(t.timer, t.stop)
	}
}

// runTurn asks the bot. It runs on a worker of the bots and may read. A bot that takes its time holds no worker.
func (h *Hub) runTurn(t *turn) {
	ctx, cancel := context.WithTimeout(context.Background(), h.o.Limits.BotTimeout)
	defer cancel()
	b, err := h.botStaff.get(ctx, t.Turn.Bot.ID)
	if err != nil {
		h.failTurn(t.PendingTurn, nil, err)
		return
	}
	defer h.botStaff.release(b)
	if t.Turn.State == store.TurnAccepted && b.hook != nil {
		h.awaitTurn(t, b.hook, time.UnixMilli(t.Turn.Until))
		return
	}
	h.Counters.BotTurns.Add(1)
	question, err := h.question(ctx, t)
	switch {
	case errors.Is(err, errNotOurs):
		h.leaveTurn(t.Conv.ID, t.Turn.ID)
		return
	case err != nil:
		h.failTurn(t.PendingTurn, b.apologist(), err)
		return
	}
	switch {
	case b.model != nil:
		h.stream(t, b.model, question)
	case b.hook != nil:
		h.askHook(t, b.hook, question)
	default:
		reply, err := h.safeReply(ctx, b.rules, question)
		if err != nil {
			h.failTurn(t.PendingTurn, nil, err)
			return
		}
		h.endTurn(t.PendingTurn, reply)
	}
}

func (h *Hub) askHook(t *turn, hook *bot.Webhook, question bot.Turn) {
	hook.Ask(question, func(a bot.Answer) {
		switch {
		case a.Err != nil:
			h.failTurn(t.PendingTurn, hook, a.Err)
		case a.Accepted:
			h.acceptTurn(t, hook)
		default:
			h.endTurn(t.PendingTurn, a.Reply)
		}
	})
}

// errNotOurs says that the bot lost the conversation before it was asked, and that the store has ended the turn.
var errNotOurs = errors.New("hub: the bot no longer has the conversation")

// question reads what the bot is told with a turn.
func (h *Hub) question(ctx context.Context, t *turn) (bot.Turn, error) {
	q := bot.Turn{ID: t.Turn.ID, Conv: t.Conv.ID, Epoch: t.Turn.Epoch, Opening: t.Event.Kind == store.KindEvent, Text: t.Event.Body, Payload: t.Event.Payload, Trace: t.Trace}
	r := h.o.Store.Hot()
	contact, err := r.Contact(ctx, t.Conv.Contact)
	if err != nil {
		return q, err
	}
	q.Attributes = contact.Attributes
	if q.Locale = h.localeOf(contact.ID); q.Locale == "" {
		q.Locale = contact.Locale
	}
	conv, err := r.Conversation(ctx, t.Conv.ID) // the hub's own copy may be older than the answer before
	if err != nil {
		return q, err
	}
	if conv.State != store.InBot || conv.Epoch != t.Turn.Epoch {
		return q, errNotOurs
	}
	q.History, _, err = r.Events(ctx, t.Conv.ID, store.StaffSide, conv.LastSeq-min(conv.LastSeq, botHistory), botHistory, botHistoryBytes)
	return q, err
}

func (h *Hub) localeOf(contact string) string {
	h.mu.Lock()
	sessions := h.sessions.contacts[contact]
	h.mu.Unlock()
	if len(sessions) == 0 {
		return ""
	}
	return sessions[0].who().locale
}

func (h *Hub) safeReply(ctx context.Context, b bot.Bot, t bot.Turn) (r bot.Reply, err error) {
	defer func() {
		if v := recover(); v != nil {
			h.o.Logger.Error("desk: panic in the bot", "panic", v)
			err = errors.New("hub: panic in the bot")
		}
	}()
	return b.Reply(ctx, t)
}

// acceptTurn notes that the bot will call back. After a restart the hub then waits for as long, and does not ask again.
func (h *Hub) acceptTurn(t *turn, hook *bot.Webhook) {
	h.Counters.BotAccepted.Add(1)
	until := h.o.Now().Add(hook.Config().Accepted())
	h.awaitTurn(t, hook, until)
	h.o.Store.Do(store.AcceptTurn{Turn: t.Turn.ID, Until: until.UnixMilli()}, time.Now().Add(h.o.Limits.CommandAge), func(out store.Outcome) {
		if out.Err != nil && !errors.Is(out.Err, store.ErrConflict) && !out.Late { // ErrConflict: the answer was faster
			h.o.Logger.Warn("desk: an accepted turn of a bot could not be noted; after a restart it is asked again", "conversation", t.Conv.ID, "err", out.Err)
		}
	})
}

// awaitTurn waits for the answer to an accepted turn, without holding a worker.
func (h *Hub) awaitTurn(t *turn, hook *bot.Webhook, until time.Time) {
	h.turns.mu.Lock()
	defer h.turns.mu.Unlock()
	if h.turns.open[t.Conv.ID] != t {
		return // answered, or the hub ends
	}
	t.hook = hook
	t.timer = time.AfterFunc(max(until.Sub(h.o.Now()), 0), func() {
		hook.Missed()
		h.failTurn(t.PendingTurn, hook, errors.New("hub: the bot accepted the turn and did not answer in time"))
	})
}

// failTurn hands the conversation over with an apology, because the bot has no answer.
func (h *Hub) failTurn(p store.PendingTurn, by apologist, err error) {
	if h.draining.Load() {
		h.leaveTurn(p.Conv.ID, p.Turn.ID) // asked again by the next start
		return
	}
	h.Counters.BotFailed.Add(1)
	h.o.Logger.Warn("desk: bot failed, handing over", "conversation", p.Conv.ID, "bot", p.Turn.Bot.ID, "turn", p.Turn.ID, "err", err)
	locale := h.localeOf(p.Conv.Contact)
	text := bot.Apology(p.Event.Body, locale)
	if by != nil {
		text = by.Apology(p.Event.Body, locale)
	}
	h.commitTurn(store.BotTurn{
		Conv: p.Conv.ID, Turn: p.Turn.ID, Failed: true, Handoff: true, Reason: "the bot did not answer", Say: []store.Say{{Body: text}},
	}, 1, nil)
}

// endTurn commits what the bot has answered.
func (h *Hub) endTurn(p store.PendingTurn, reply bot.Reply) {
	if cut := len(reply.Say) - store.MaxBotMessages; cut > 0 {
		h.Counters.BotCut.Add(uint64(cut))
		reply.Say = reply.Say[:store.MaxBotMessages]
	}
	h.commitTurn(turnCommand(&p.Turn, &reply), 1, nil)
}

func turnCommand(t *store.Turn, r *bot.Reply) store.BotTurn {
	return store.BotTurn{
		Conv: t.Conv, Turn: t.ID, Say: r.Say, Handoff: r.Handoff, Reason: r.Reason, Note: r.Summary, Attributes: r.Attributes,
	}
}

// commitTurn commits the end of a turn through the lane of the conversation, and lets the next turn begin. While the
// store does not answer, the commit is tried again. If told is not nil, the caller is told instead.
func (h *Hub) commitTurn(c store.BotTurn, attempt int, told func(store.Outcome, *proto.Error)) {
	c.Away = h.away
	retry := func(e *proto.Error) {
		switch {
		case told != nil:
			told(store.Outcome{}, e)
		case h.draining.Load():
			h.leaveTurn(c.Conv, c.Turn)
		default:
			time.AfterFunc(min(botRetryDelay<<min(attempt-1, 10), botRetryMax), func() { h.commitTurn(c, attempt+1, nil) })
		}
	}
	h.execute(c.Conv, h.ofTurn(c), func(out store.Outcome) {
		switch {
		case out.Err == nil && out.Discarded:
			h.Counters.BotLate.Add(1)
		case out.Err == nil && out.Dup:
			h.Counters.BotDups.Add(1)
		case out.Err == nil:
		case errors.Is(out.Err, store.ErrUnavailable), errors.Is(out.Err, store.ErrBusy):
			retry(unavailable("the answer could not be stored now"))
			return
		case (errors.Is(out.Err, store.ErrQueueFull) || errors.Is(out.Err, store.ErrAway)) && c.Handoff: // the bot keeps the conversation
			h.Counters.BotNoPlace.Add(1)
			c.Handoff, c.Note, c.Say = false, "", nobodyTakes(out.Err, h.turnText(c.Conv, c.Turn), h.localeOf(out.Conv.Contact))
			h.commitTurn(c, attempt, told)
			return
		default:
			h.Counters.BotFailed.Add(1)
			h.o.Logger.Error("desk: bot turn failed", "conversation", c.Conv, "turn", c.Turn, "err", out.Err)
		}
		if told != nil {
			told(out, nil)
		}
		h.leaveTurn(c.Conv, c.Turn)
	}, retry)
}
