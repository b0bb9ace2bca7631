package sqlstore

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/go-eddy/eddy/desk/store"
)

// execute runs one command inside the current savepoint.
func (t *tx) execute(cmd store.Command) (store.Outcome, error) {
	switch c := cmd.(type) {
	case store.Open:
		return t.open(c)
	case store.LeftMessage:
		return t.leftMessage(c)
	case store.Append:
		return t.append(&appending{Append: c})
	case store.Move:
		return t.move(c)
	case store.BotTurn:
		return t.botTurn(c)
	case store.Warn:
		return t.warn(c)
	case store.Leave:
		return t.leave(c)
	case store.Arrange:
		return t.arrange(c)
	case store.Relax:
		return t.relax(c)
	case store.Snooze:
		return t.snooze(c)
	case store.TellTarget:
		return t.tellTarget(c)
	case store.AcceptTurn:
		return store.Outcome{}, t.acceptTurn(c)
	case store.Audit:
		return t.audit(c)
	case store.Visited:
		return store.Outcome{}, t.visited(c)
	case store.AskReset:
		return t.askReset(c)
	case store.Tag:
		return t.tag(c)
	case store.Rate:
		return t.rate(c)
	case store.MakeOffer:
		return t.makeOffer(c)
	case store.AcceptOffer:
		return t.acceptOffer(c)
	case store.EndOffer:
		return t.endOffer(c)
	case store.Leased:
		if err := t.holds(c.Lease); err != nil {
			return store.Outcome{}, err
		}
		return t.execute(c.Command)
	}
	return store.Outcome{}, fmt.Errorf("store: unknown command %T", cmd)
}

// draft is a conversation being changed: the row as read, the row as it will be, and the new events.
type draft struct {
	store.Conversation
	set    store.Priority // that rules do not change, 0 = none
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

// add appends an event. The event gets the next number of the staff stream and, unless it is a note, of the customer's
// stream.
func (t *tx) add(d *draft, e store.Event) error {
	id, err := newID()
	if err != nil {
		return err
	}
	d.LastSeq++
	e.Conv, e.ID, e.Seq, e.Time = d.ID, id, d.LastSeq, t.now()
	if e.Kind != store.KindNote {
		d.LastPSeq++
		e.PSeq = d.LastPSeq
	}
	for i := range e.Files {
		e.Files[i].PSeq = e.PSeq
	}
	m, err := json.Marshal(meta{Payload: e.Payload, Buttons: e.Buttons, Memo: e.Memo, Change: e.Change})
	if err != nil {
		return err
	}
	if e.Kind != store.KindNotice { // nobody has done anything
		d.At, d.WarnedAt = e.Time, 0
	}
	if e.Kind == store.KindText || e.Kind == store.KindFile {
		d.Preview, d.PreviewFrom = shorten(previewOf(&e), previewChars), e.From.Kind
		first := e.From.Kind == store.Agent && d.RepliedAt == 0
		d.Said(e.From.Kind, e.Time)
		if first {
			if err := t.exec(sqlMet, e.From.ID); err != nil {
				return err
			}
			if err := t.rollReply(&d.Conversation, e.From.ID, e.Time); err != nil {
				return err
			}
		}
	}
	if err := t.mailAnswer(d, &e, d.ReplyTo); err != nil {
		return err
	}
	d.events = append(d.events, e)
	doc, err := t.index(&e)
	if err != nil {
		return err
	}
	if err := t.tell(store.OutboxRow{Type: store.TypeOf(&e), Site: d.Site, Conv: d.ID, Contact: d.Contact, Event: e.Seq}); err != nil {
		return err
	}
	return t.exec(sqlInsertMsg, e.Conv, e.Seq, e.PSeq, e.ID, e.Kind, string(e.From.Kind), e.From.ID, e.From.Name, e.ClientID, e.Body, string(m), d.Epoch, e.Time, doc)
}

// save writes the row back, provided that nobody else has changed it.
func (t *tx) save(d *draft) (store.Outcome, error) {
	err := t.update(sqlUpdateConv, string(d.State), string(d.Owner.Kind), d.Owner.ID, d.Owner.Name, d.Epoch, d.Rev, d.LastSeq, d.LastPSeq,
		d.OpenedAt, d.QueuedAt, d.AssignedAt, d.ClosedAt, d.CloseReason, d.Preview, string(d.PreviewFrom), d.At,
		d.Group, d.Priority, d.Abandoned, d.WaitingSince, d.RepliedAt, d.Excluded, d.LastAgent,
		d.LastAgentAt, d.WarnedAt, d.LeftAt, d.ActedAt, d.Skills, d.Relaxed, d.SnoozedUntil, d.ID, d.rev, d.seq)
	if err != nil {
		return store.Outcome{}, err
	}
	return store.Outcome{Conv: d.Conversation, Events: d.events}, nil
}

// site is what a change may need to know about the site of a conversation.
type site struct {
	bot         store.Actor // zero = the site has no bot
	group       string
	window      int64
	reopenToBot bool
}

func (t *tx) site(id string) (site, error) {
	var s site
	var shown, bot, name string
	if err := t.row(sqlSite, id).Scan(&shown, &bot, &name, &s.group, &s.window, &s.reopenToBot); err != nil {
		return s, notFound(err)
	}
	switch {
	case name != "":
		s.bot = store.Actor{Kind: store.Bot, ID: bot, Name: cmp.Or(shown, name)}
	case shown != "":
		s.bot = store.Actor{Kind: store.Bot, ID: store.BuiltInBot, Name: shown}
	}
	return s, nil
}

// open starts a conversation. One contact has at most one open conversation.
func (t *tx) open(c store.Open) (store.Outcome, error) {
	blocked, err := t.present(&c.Contact)
	if err != nil {
		return store.Outcome{}, err
	}
	if c.By.IsZero() || c.By.Kind == store.Customer {
		c.By = c.Contact.Actor()
	}
	if c.ClientID != "" {
		before, err := scanConv(t.row(sqlOpenedBy, c.Contact.ID, string(c.By.Kind), c.By.ID, c.ClientID))
		if !errors.Is(err, store.ErrNotFound) {
			return store.Outcome{Conv: before, Dup: true}, err
		}
	}
	if blocked {
		return store.Outcome{}, store.ErrBlocked
	}
	existing, err := scanConv(t.row(sqlOpenOf, c.Contact.ID))
	if err == nil {
		return store.Outcome{Conv: existing, Existing: true}, nil
	}
	if !errors.Is(err, store.ErrNotFound) {
		return store.Outcome{}, err
	}
	s, err := t.site(c.Contact.Site)
	if err != nil {
		return store.Outcome{}, err
	}
	answered := false
	if c.By.Kind == store.Customer {
		if answered, err = t.preChat(&c); err != nil {
			return store.Outcome{}, err
		}
		c.By = c.Contact.Actor() // the answers may have its name
	}
	in := store.Input{Trigger: store.OpenWithBot, By: c.By, To: s.bot, Away: c.Away, ClientID: c.ClientID}
	if c.Human || s.bot.IsZero() || slices.Contains(c.Without, s.bot.ID) {
		in.Trigger = store.OpenForHuman
	}
	d, err := t.insert(c, s)
	if err != nil {
		return store.Outcome{}, err
	}
	if answered || c.Human {
		d.ActedAt = t.now()
	}
	if err := t.step(d, in); err != nil {
		return store.Outcome{}, err
	}
	if d.State != store.InBot || c.Greeter != d.Owner.ID || len(c.Greeting) == 0 {
		return t.saveTurn(d)
	}
	if err := t.say(d, d.events[0].ID, c.Greeting); err != nil {
		return store.Outcome{}, err
	}
	return t.save(d)
}

// insert writes the row of a new conversation. Its first change gives it its real state in the same transaction.
func (t *tx) insert(c store.Open, s site) (*draft, error) {
	id, err := newID()
	if err != nil {
		return nil, err
	}
	before, err := scanConv(t.row(sqlLastClosed, c.Contact.ID))
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return nil, err
	}
	d := &draft{set: c.Priority, Conversation: store.Conversation{
		ID: id, Site: c.Contact.Site, Contact: c.Contact.ID, ContactName: c.Contact.Name, Group: s.group, Priority: cmp.Or(c.Priority, store.PriorityNormal),
		LastAgent: before.LastAgent, LastAgentAt: before.LastAgentAt, Prev: before.ID, Locale: c.Contact.Locale,
	}}
	return d, t.exec(sqlInsertConv, d.ID, d.Contact, c.Page, d.LastAgent, d.LastAgentAt, d.Prev, d.Locale, d.Site)
}

// move makes a change that a participant asks for.
func (t *tx) move(c store.Move) (store.Outcome, error) {
	d, err := t.load(c.Conv)
	if err != nil {
		return store.Outcome{}, err
	}
	if c.By, err = t.acting(&d.Conversation, c.By); err != nil {
		return store.Outcome{}, err
	}
	head := store.Outcome{Conv: d.Conversation}
	if (c.Rev != 0 && c.Rev != d.Rev) || (c.Seq != 0 && c.Seq != d.LastSeq) {
		return head, store.ErrConflict
	}
	in := store.Input{Trigger: c.Trigger.Forced(d.State, c.Force), By: c.By, Group: c.Group, Reason: c.Reason, Force: c.Force, Away: c.Away}
	if err := t.resolve(&in, c.To, c.Note); err != nil {
		return head, err
	}
	if c.Trigger == store.Handoff && c.By.Kind == store.Customer {
		if err := t.act(d); err != nil {
			return head, err
		}
	}
	if err := t.step(d, in); err != nil {
		return head, err
	}
	if c.Note != "" {
		if err := t.add(d, store.Event{Kind: store.KindNote, From: c.By, Body: c.Note}); err != nil {
			return head, err
		}
	}
	return t.save(d)
}

// resolve looks up the agent or group that a move names, and refuses a move that nobody may ask for.
func (t *tx) resolve(in *store.Input, to, note string) error {
	switch in.Trigger {
	case store.OpenWithBot, store.OpenForHuman, store.LeaveMessage:
		return store.ErrConflict
	case store.Assign, store.TransferAgent:
		in.To = store.Actor{Kind: store.Agent, ID: to}
		if err := t.row(`SELECT name FROM agent WHERE id = ?`, to).Scan(&in.To.Name); err != nil {
			return notFound(err)
		}
	case store.TransferGroup:
		var id string
		if err := t.row(`SELECT id FROM grp WHERE id = ?`, in.Group).Scan(&id); err != nil {
			return notFound(err)
		}
	}
	if note != "" && in.By.Kind != store.Agent {
		return store.ErrForbidden
	}
	return nil
}

// shorten cuts s to at most n characters.
func shorten(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	r := []rune(s)
	return string(r[:n-1]) + "…"
}
