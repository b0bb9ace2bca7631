package hub

import (
	"errors"
	"fmt"
	"strings"

	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/store"
	"github.com/go-eddy/eddy/desk/store/words"
)

func party(a store.Actor) proto.Party {
	return proto.Party{Kind: string(a.Kind), ID: a.ID, Name: a.Name}
}

func owner(a store.Actor) *proto.Party {
	if a.IsZero() {
		return nil
	}
	p := party(a)
	return &p
}

func head(c *store.Conversation, side store.Side) proto.Head {
	h := proto.Head{
		ID: c.ID, State: string(c.State), Rev: c.Rev, Epoch: c.Epoch, Owner: owner(c.Owner), Last: c.Last(side),
		Opened: c.OpenedAt, Queued: c.QueuedAt, Closed: c.ClosedAt, Reason: c.CloseReason, Group: c.Group,
	}
	h.Mine, h.Peer = seen(c, side)
	if side == store.CustomerSide {
		h.ReplyTo = c.ReplyTo
	}
	return h
}

// seen returns how far the reader's side and the other side have got, both in the numbers of the reader's stream.
func seen(c *store.Conversation, side store.Side) (mine, peer proto.Seen) {
	if side == store.CustomerSide {
		return proto.Seen(c.Marks.Customer), proto.Seen(c.Across.Staff)
	}
	return proto.Seen(c.Marks.Staff), proto.Seen(c.Across.Customer)
}

// row returns a conversation's inbox row as of now.
func (h *Hub) row(c *store.Conversation, online bool) proto.Row {
	r := proto.Row{
		ID: c.ID, State: string(c.State), Rev: c.Rev, Epoch: c.Epoch, Owner: owner(c.Owner), Last: c.LastSeq, Opened: c.OpenedAt, Queued: c.QueuedAt,
		Contact: proto.RowContact{ID: c.Contact, Name: c.ContactName, Online: online},
		Preview: c.Preview, PreviewFrom: string(c.PreviewFrom), At: c.At, Group: c.Group, Site: h.queue.roster.siteKey(c.Site), Locale: c.Locale,
		Tags: c.TagList(), Unread: c.Unread, ReplyTo: c.ReplyTo, Score: c.Score, Comment: c.Comment,
	}
	if c.WaitingSince != 0 {
		r.Waiting = max(h.o.Now().UnixMilli()-c.WaitingSince, 1)
	}
	if c.Priority != store.PriorityNormal {
		r.Priority = c.Priority.Name()
	}
	r.Snoozed = c.SnoozedUntil
	if !c.Relaxed {
		r.Skills = store.List(c.Skills)
	}
	return r
}

// eventFrame encodes an event for one side.
func eventFrame(e *store.Event, side store.Side) []byte {
	if e.Kind == store.KindEvent && e.Change != nil {
		ch := e.Change
		return proto.Event("ev.state", e.Conv, e.S(side), proto.StateChange{
			ID: e.ID, Event: ch.Event, From: string(ch.From), State: string(ch.State), Rev: ch.Rev, Epoch: ch.Epoch,
			Owner: owner(ch.Owner), Was: owner(ch.Was), By: party(e.From), Reason: ch.Reason, Group: ch.Group, Abandoned: ch.Abandoned, Time: e.Time,
		})
	}
	m := proto.Msg{ID: e.ID, Kind: e.Kind, From: party(e.From), Body: e.Body, ClientID: e.ClientID, Payload: e.Payload, Time: e.Time}
	if e.From.Kind == store.Bot || e.From.Kind == store.System {
		m.ClientID = ""
	}
	if e.From.Kind == store.System && side == store.CustomerSide {
		m.From = proto.Party{Kind: string(store.System)} // the name of a program is for staff
	}
	m.Buttons = buttons(e.Buttons)
	for i := range e.Files {
		m.Files = append(m.Files, FileOf(&e.Files[i]))
	}
	return proto.Event("ev.msg", e.Conv, e.S(side), m)
}

func sideOf(kind store.ActorKind) store.Side {
	if kind == store.Agent {
		return store.StaffSide
	}
	return store.CustomerSide
}

// storeError turns an error of the store into the error for the client. known is false for unexpected errors.
func storeError(err error, c *store.Conversation, side store.Side) (e *proto.Error, known bool) {
	withHead := func(code proto.Code, text string) *proto.Error {
		e := &proto.Error{Code: code, Text: text}
		if c.ID != "" {
			h := head(c, side)
			e.Head = &h
		}
		return e
	}
	if field, ok := errors.AsType[*store.FieldError](err); ok {
		e := &proto.Error{Code: proto.CodeBadRequest, Text: "field " + field.Field + " " + field.Why}
		if field.Barred {
			e.Code = proto.CodeForbidden
		}
		return e, true
	}
	switch {
	case errors.Is(err, store.ErrNotFound):
		return &proto.Error{Code: proto.CodeNotFound, Text: "there is no such conversation, agent or group for you"}, true
	case errors.Is(err, store.ErrConflict):
		return withHead(proto.CodeConflict, "the conversation has changed or does not allow this"), true
	case errors.Is(err, store.ErrClosed):
		return withHead(proto.CodeClosed, "the conversation is closed"), true
	case errors.Is(err, store.ErrForbidden):
		return &proto.Error{Code: proto.CodeForbidden, Text: "this conversation is not yours to change"}, true
	case errors.Is(err, store.ErrCapacity):
		return &proto.Error{Code: proto.CodeForbidden, Text: "the agent has as many conversations as its capacity allows"}, true
	case errors.Is(err, store.ErrFile):
		return &proto.Error{Code: proto.CodeNotFound, Text: "a file of this message is not there, or was sent already: upload it again"}, true
	case errors.Is(err, store.ErrBlocked):
		return &proto.Error{Code: proto.CodeBlocked, Text: "you may not write here any more"}, true
	case errors.Is(err, store.ErrQuery):
		return &proto.Error{Code: proto.CodeBadRequest, Text: fmt.Sprintf("a search needs 1 to %d words", words.MaxTerms)}, true
	case errors.Is(err, errSlowSearch):
		return unavailable("the search takes too long: another word or a shorter time makes it narrower"), true
	case errors.Is(err, errNoSite):
		return &proto.Error{Code: proto.CodeBadRequest, Text: "in.site is not the key of a site"}, true
	case errors.Is(err, store.ErrCursor):
		return &proto.Error{Code: proto.CodeBadRequest, Text: "the cursor is not one of the page before"}, true
	case errors.Is(err, store.ErrTooMany):
		return &proto.Error{Code: proto.CodeBadRequest, Text: fmt.Sprintf("a conversation has at most %d tags, a contact at most %d attributes", store.MaxTags, store.MaxAttributes)}, true
	case errors.Is(err, store.ErrSnooze):
		return &proto.Error{Code: proto.CodeBadRequest, Text: strings.TrimPrefix(err.Error(), "store: ")}, true
	case errors.Is(err, store.ErrQueueFull):
		full := proto.Later(proto.CodeBusy, "the queue is full: leave a message, or try again later", queueFullRetry)
		full.Reason = "queue_full"
		return full, true
	case errors.Is(err, store.ErrAway):
		away := proto.Later(proto.CodeBusy, "nobody is here to answer now: leave a message", queueFullRetry)
		away.Reason = reasonAway
		return away, true
	case errors.Is(err, store.ErrBusy):
		return busy("the server is busy"), true
	case errors.Is(err, store.ErrUnavailable), errors.Is(err, store.ErrStopped):
		return unavailable("the message could not be stored now"), true
	}
	return &proto.Error{Code: proto.CodeInternal, Text: "something went wrong on our side"}, false
}
