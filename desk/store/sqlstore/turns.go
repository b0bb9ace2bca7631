package sqlstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"unicode/utf8"

	"github.com/go-eddy/eddy/desk/store"
)

const (
	turnColumns  = `t.id, t.conversation, t.seq, t.epoch, t.bot, t.bot_name, t.state, t.until`
	sqlTurn      = `SELECT ` + turnColumns + ` FROM bot_turn t WHERE t.id = ?`
	sqlBeginTurn = `INSERT INTO bot_turn (id, conversation, seq, epoch, bot, bot_name, state, created, until, node) VALUES (?, ?, ?, ?, ?, ?, 'asked', ?, 0, ?)`
	sqlOpenTurns = ` WHERE t.state IN ('asked', 'accepted') `
	sqlPending   = `SELECT ` + turnColumns + ` FROM bot_turn t JOIN conversation c ON c.id = t.conversation` + sqlOpenTurns +
		`AND c.state = 'bot' AND c.epoch = t.epoch AND (CAST(?1 AS TEXT) = '' OR t.node = ?1) ORDER BY t.conversation, t.seq`
	sqlEvent = `SELECT ` + eventColumns + ` FROM message WHERE conversation = ? AND seq = ?`
)

func scanTurn(r scanner) (u store.Turn, err error) {
	u.Bot.Kind = store.Bot
	err = r.Scan(&u.ID, &u.Conv, &u.Seq, &u.Epoch, &u.Bot.ID, &u.Bot.Name, &u.State, &u.Until)
	return u, notFound(err)
}

// saveTurn saves the row. If a bot owns the conversation, its turn begins, to answer the last event.
func (t *tx) saveTurn(d *draft) (store.Outcome, error) {
	out, err := t.save(d)
	if err != nil || d.State != store.InBot {
		return out, err
	}
	e := &d.events[len(d.events)-1]
	out.Turn = e.ID
	return out, t.exec(sqlBeginTurn, e.ID, d.ID, e.Seq, d.Epoch, d.Owner.ID, d.Owner.Name, e.Time, t.db.Node())
}

// endTurns ends the turns of a bot that loses the conversation.
func (t *tx) endTurns(conv string) error {
	return t.exec(`UPDATE bot_turn AS t SET state = 'failed'`+sqlOpenTurns+`AND t.conversation = ?`, conv)
}

func (t *tx) setTurn(id string, s store.TurnState) error {
	return t.exec(`UPDATE bot_turn SET state = ? WHERE id = ?`, string(s), id)
}

// botTurn ends a turn with the bot's answer, or discards it.
func (t *tx) botTurn(c store.BotTurn) (store.Outcome, error) {
	if len(c.Say) > store.MaxBotMessages {
		return store.Outcome{}, fmt.Errorf("store: a bot turn of %d messages, the limit is %d", len(c.Say), store.MaxBotMessages)
	}
	turn, err := scanTurn(t.row(sqlTurn, c.Turn))
	if err == nil && turn.Conv != c.Conv {
		err = store.ErrNotFound
	}
	if err != nil {
		return store.Outcome{}, err
	}
	d, err := t.load(c.Conv)
	if err != nil {
		return store.Outcome{}, err
	}
	head := store.Outcome{Conv: d.Conversation}
	switch {
	case turn.State == store.TurnAnswered, turn.State == store.TurnLate, turn.State == store.TurnFailed && c.Failed:
		head.Dup = true
		return head, nil
	case !turn.State.Open(), d.State != store.InBot, d.Epoch != turn.Epoch:
		return t.discard(d, &turn, &c)
	}
	out, err := t.answer(d, &turn, &c)
	if err != nil {
		return head, err
	}
	return out, nil
}

// discard stores what the bot would have said as a note for staff, unless the conversation is closed.
func (t *tx) discard(d *draft, turn *store.Turn, c *store.BotTurn) (store.Outcome, error) {
	out := store.Outcome{Conv: d.Conversation}
	text := c.Discarded()
	if c.Failed {
		return out, nil
	}
	if text != "" && d.State != store.Closed {
		err := t.add(d, store.Event{Kind: store.KindNote, From: turn.Bot, ClientID: turn.ID + "/discarded", Body: text, Payload: store.PayloadDiscarded})
		if err == nil {
			out, err = t.save(d)
		}
		if err != nil {
			return store.Outcome{}, err
		}
	}
	out.Discarded = true
	return out, t.setTurn(turn.ID, store.TurnLate)
}

// answer adds the bot's messages and does what the bot asks for.
func (t *tx) answer(d *draft, turn *store.Turn, c *store.BotTurn) (store.Outcome, error) {
	state := store.TurnAnswered
	if c.Failed {
		state = store.TurnFailed
	}
	if err := t.setTurn(turn.ID, state); err != nil { // first, because a hand-off ends the turns that are open
		return store.Outcome{}, err
	}
	if err := t.say(d, turn.ID, c.Say); err != nil {
		return store.Outcome{}, err
	}
	if err := t.learn(d.Contact, c.Attributes); err != nil {
		return store.Outcome{}, err
	}
	if c.Handoff {
		bot := d.Owner
		if err := t.step(d, store.Input{Trigger: store.Handoff, By: bot, Reason: c.Reason, Away: c.Away}); err != nil {
			return store.Outcome{}, err
		}
		if c.Note != "" {
			if err := t.add(d, store.Event{Kind: store.KindNote, From: bot, ClientID: turn.ID + "/summary", Body: c.Note}); err != nil {
				return store.Outcome{}, err
			}
		}
	}
	return t.save(d)
}

// say adds messages of the bot that owns the conversation. turn is the event that they answer.
func (t *tx) say(d *draft, turn string, all []store.Say) error {
	for i, say := range all {
		err := t.add(d, store.Event{
			Kind: store.KindText, From: d.Owner, ClientID: turn + "/" + strconv.Itoa(i), Body: say.Body, Buttons: say.Buttons, Memo: say.Memo, Payload: say.Payload,
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// learn adds attributes to a contact.
func (t *tx) learn(contact string, attributes map[string]string) error {
	if len(attributes) == 0 {
		return nil
	}
	var kept string
	if err := t.row(`SELECT attributes FROM contact WHERE id = ?`, contact).Scan(&kept); err != nil {
		return notFound(err)
	}
	all := make(map[string]string)
	if err := json.Unmarshal([]byte(kept), &all); err != nil {
		return fmt.Errorf("store: attributes of contact %s: %w", contact, err)
	}
	for k, v := range attributes {
		if utf8.RuneCountInString(v) > store.MaxAttributeChars {
			return fmt.Errorf("store: attribute %s of %d characters, the limit is %d", k, utf8.RuneCountInString(v), store.MaxAttributeChars)
		}
		if _, has := all[k]; has || len(all) < store.MaxAttributes {
			all[k] = v
		}
	}
	b, err := json.Marshal(all)
	if err != nil {
		return err
	}
	if err := t.exec(`UPDATE contact SET attributes = ? WHERE id = ?`, string(b), contact); err != nil {
		return err
	}
	return t.tellContact(contact)
}

// acceptTurn notes until when the bot may answer.
func (t *tx) acceptTurn(c store.AcceptTurn) error {
	turn, err := scanTurn(t.row(sqlTurn, c.Turn))
	if err != nil {
		return err
	}
	if !turn.State.Open() {
		return store.ErrConflict
	}
	return t.exec(`UPDATE bot_turn SET state = 'accepted', until = ? WHERE id = ?`, c.Until, c.Turn)
}

// BotTurn implements store.Reader.
func (r *reader) BotTurn(ctx context.Context, id string) (store.Turn, error) {
	return scanTurn(r.db.QueryRowContext(ctx, sqlTurn, id))
}

// BotPending implements store.Reader.
func (r *reader) BotPending(ctx context.Context) ([]store.PendingTurn, error) {
	turns, err := list(ctx, r.db, scanTurn, sqlPending, r.node)
	if err != nil {
		return nil, err
	}
	var pending []store.PendingTurn
	for _, u := range turns {
		p := store.PendingTurn{Turn: u}
		if p.Conv, err = r.Conversation(ctx, u.Conv); err == nil {
			p.Event, err = scanEvent(r.db.QueryRowContext(ctx, sqlEvent, u.Conv, u.Seq))
		}
		switch {
		case errors.Is(err, store.ErrNotFound):
			continue // erased meanwhile
		case err != nil:
			return nil, err
		}
		pending = append(pending, p)
	}
	return pending, nil
}
