package sqlite

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"unicode/utf8"

	"github.com/go-eddy/eddy/desk/store"
)

// execute runs one command inside the current savepoint.
func (t *tx) execute(cmd store.Command) (store.Outcome, error) {
	switch c := cmd.(type) {
	case store.Open:
		return t.open(c)
	case store.Append:
		return t.append(c)
	case store.Move:
		return t.move(c)
	case store.BotTurn:
		return t.botTurn(c)
	}
	return store.Outcome{}, fmt.Errorf("sqlite: unknown command %T", cmd)
}

// draft is a conversation being changed: the row as it was read, as it will be, and the new events.
type draft struct {
	store.Conversation
	rev    int64
	seq    uint64
	events []store.Event
}

func (t *tx) load(id string) (*draft, error) {
	c, err := scanConv(t.row(sqlConv, id))
	if err != nil {
		return nil, err
	}
	return &draft{Conversation: c, rev: c.Rev, seq: c.LastSeq}, nil
}

// add appends an event that everybody may see: it takes the next number of both sequences.
func (t *tx) add(d *draft, e store.Event) error {
	id, err := newID()
	if err != nil {
		return err
	}
	d.LastSeq++
	d.LastPSeq++
	e.Conv, e.ID, e.Seq, e.PSeq, e.Time = d.ID, id, d.LastSeq, d.LastPSeq, t.now()
	m, err := json.Marshal(meta{Payload: e.Payload, Buttons: e.Buttons, Change: e.Change})
	if err != nil {
		return err
	}
	d.At = e.Time
	if e.Kind == store.KindText {
		d.Preview, d.PreviewFrom = shorten(e.Body, previewChars), e.From.Kind
	}
	d.events = append(d.events, e)
	return t.exec(sqlInsertMsg, e.Conv, e.Seq, e.PSeq, e.ID, e.Kind, string(e.From.Kind), e.From.ID, e.From.Name, e.ClientID, e.Body, string(m), d.Epoch, e.Time)
}

// save writes the row back, on the condition that nobody else has changed it.
func (t *tx) save(d *draft) (store.Outcome, error) {
	n, err := t.change(sqlUpdateConv, string(d.State), string(d.Owner.Kind), d.Owner.ID, d.Owner.Name, d.Epoch, d.Rev, d.LastSeq, d.LastPSeq,
		d.QueuedAt, d.AssignedAt, d.ClosedAt, d.CloseReason, d.Preview, string(d.PreviewFrom), d.At, d.ID, d.rev, d.seq)
	if err != nil {
		return store.Outcome{}, err
	}
	if n != 1 {
		return store.Outcome{}, store.ErrConflict
	}
	return store.Outcome{Conv: d.Conversation, Events: d.events}, nil
}

// open starts a conversation. One contact has at most one open conversation.
func (t *tx) open(c store.Open) (store.Outcome, error) {
	existing, err := scanConv(t.row(sqlOpenOf, c.Contact.ID))
	if err == nil {
		return store.Outcome{Conv: existing, Existing: true}, nil
	}
	if !errors.Is(err, store.ErrNotFound) {
		return store.Outcome{}, err
	}
	var botName string
	if err := t.row(sqlSite, c.Contact.Site).Scan(&botName); err != nil {
		return store.Outcome{}, notFound(err)
	}
	trigger := store.OpenWithBot
	if c.Human || botName == "" {
		trigger = store.OpenForHuman
	}
	id, err := newID()
	if err != nil {
		return store.Outcome{}, err
	}
	d := &draft{Conversation: store.Conversation{ID: id, Site: c.Contact.Site, Contact: c.Contact.ID, ContactName: c.Contact.Name}}
	if err := t.insert(d, c.Page); err != nil {
		return store.Outcome{}, err
	}
	return t.transition(d, trigger, c.Contact.Actor(), store.Actor{Kind: store.Bot, ID: "rules", Name: botName}, "")
}

// insert writes the row of a new conversation; transition gives it its real state in the same transaction.
func (t *tx) insert(d *draft, page string) error {
	return t.exec(sqlInsertConv, d.ID, d.Contact, string(store.Queued), "", "", "", 0, 0, 0, 0, t.now(), 0, 0, 0, "", page, "", "", t.now(), d.Site)
}

// transition applies one row of the state machine and appends its event.
func (t *tx) transition(d *draft, trigger store.Trigger, by, bot store.Actor, reason string) (store.Outcome, error) {
	if err := t.step(d, trigger, by, bot, reason); err != nil {
		return store.Outcome{Conv: d.Conversation}, err
	}
	return t.save(d)
}

func (t *tx) step(d *draft, trigger store.Trigger, by, bot store.Actor, reason string) error {
	rule, ok := store.FindRule(d.State, trigger)
	if !ok {
		return store.ErrConflict
	}
	if rule.Guard&store.ByOwner != 0 && !by.Is(d.Owner) {
		return store.ErrForbidden
	}
	if rule.Guard&store.UnderCapacity != 0 {
		if err := t.capacity(by); err != nil {
			return err
		}
	}
	change := rule.Apply(&d.Conversation, by, bot, reason, t.now())
	return t.add(d, store.Event{Kind: store.KindEvent, From: by, Change: &change})
}

func (t *tx) capacity(agent store.Actor) error {
	var capacity, active int
	if err := t.row(sqlActive, agent.ID).Scan(&capacity, &active); err != nil {
		return notFound(err)
	}
	if capacity > 0 && active >= capacity {
		return fmt.Errorf("%w: %d of %d", store.ErrCapacity, active, capacity)
	}
	return nil
}

// move is a change that a participant asks for.
func (t *tx) move(c store.Move) (store.Outcome, error) {
	d, err := t.load(c.Conv)
	if err != nil {
		return store.Outcome{}, err
	}
	if !mayTouch(d, c.By) {
		return store.Outcome{}, store.ErrNotFound
	}
	if c.Rev != 0 && c.Rev != d.Rev {
		return store.Outcome{Conv: d.Conversation}, store.ErrConflict
	}
	return t.transition(d, c.Trigger, c.By, store.Actor{}, c.Reason)
}

// mayTouch: a customer knows only its own conversations.
func mayTouch(d *draft, by store.Actor) bool {
	return by.Kind != store.Customer || by.ID == d.Contact
}

// append adds a message once.
func (t *tx) append(c store.Append) (store.Outcome, error) {
	d, err := t.load(c.Conv)
	if err != nil {
		return store.Outcome{}, err
	}
	if !mayTouch(d, c.From) {
		return store.Outcome{}, store.ErrNotFound
	}
	first, err := scanEvent(t.row(sqlByClient, c.Conv, string(c.From.Kind), c.From.ID, c.ClientID))
	if err == nil {
		return store.Outcome{Conv: d.Conversation, Events: []store.Event{first}, Dup: true}, nil
	}
	if !errors.Is(err, store.ErrNotFound) {
		return store.Outcome{}, err
	}
	if err := maySpeak(d, c.From); err != nil {
		return store.Outcome{Conv: d.Conversation}, err
	}
	e := store.Event{Kind: store.KindText, From: c.From, ClientID: c.ClientID, Body: c.Body, Payload: c.Payload}
	if err := t.add(d, e); err != nil {
		return store.Outcome{}, err
	}
	return t.save(d)
}

func maySpeak(d *draft, from store.Actor) error {
	switch {
	case d.State == store.Closed:
		return store.ErrClosed
	case from.Kind == store.Customer:
		return nil
	case d.State != store.Assigned:
		return store.ErrConflict
	case !from.Is(d.Owner):
		return store.ErrForbidden
	}
	return nil
}

// botTurn adds the answers of a bot and perhaps its hand-off. The client id of each message is made of the turn id,
// so a turn that is run again is found.
func (t *tx) botTurn(c store.BotTurn) (store.Outcome, error) {
	if len(c.Say) > store.MaxBotMessages {
		return store.Outcome{}, fmt.Errorf("sqlite: a bot turn of %d messages, the limit is %d", len(c.Say), store.MaxBotMessages)
	}
	d, err := t.load(c.Conv)
	if err != nil {
		return store.Outcome{}, err
	}
	if d.State != store.InBot || d.Epoch != c.Epoch {
		return store.Outcome{Conv: d.Conversation}, store.ErrConflict
	}
	bot := d.Owner
	for i, say := range c.Say {
		clientID := c.Turn + "/" + strconv.Itoa(i)
		if _, err := scanEvent(t.row(sqlByClient, c.Conv, string(bot.Kind), bot.ID, clientID)); err == nil {
			return store.Outcome{Conv: d.Conversation, Dup: true}, nil
		} else if !errors.Is(err, store.ErrNotFound) {
			return store.Outcome{}, err
		}
		if err := t.add(d, store.Event{Kind: store.KindText, From: bot, ClientID: clientID, Body: say.Body, Buttons: say.Buttons}); err != nil {
			return store.Outcome{}, err
		}
	}
	if c.Handoff {
		return t.transition(d, store.Handoff, bot, store.Actor{}, c.Reason)
	}
	return t.save(d)
}

// shorten cuts s to at most n characters.
func shorten(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	r := []rune(s)
	return string(r[:n-1]) + "…"
}
