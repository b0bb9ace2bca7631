package hub

import (
	"errors"

	"github.com/go-eddy/eddy/desk/bot"
	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/store"
)

// leaveMessage leaves a message of the customer in its open conversation, or in a new one.
func (s *Session) leaveMessage(cmd proto.Command, who identity, p *proto.Leave) {
	h := s.hub
	if wait := take(s.messages, h.o.Now()); wait > 0 {
		s.fail(cmd, rateLimited(wait))
		return
	}
	conv := ""
	if open := h.openOf(who.actor.ID); len(open) > 0 {
		conv = open[0]
	}
	lane, giveBack, ok := conv, func() {}, true
	if cmd.Conv = conv; conv == "" {
		lane = "contact " + who.actor.ID
		giveBack, ok = s.count(cmd, who, true)
	} else {
		giveBack, ok = s.begins(cmd, who)
	}
	if !ok {
		return
	}
	c := store.LeftMessage{
		Open: store.Open{
			Contact: store.Contact{ID: who.actor.ID, Site: who.site, Name: who.actor.Name, Locale: who.locale}, Page: h.pageKept(who.site, p.Page), Fields: p.Fields, Consent: p.Consent,
		},
		ClientID: p.ClientID, Name: p.Name, Email: p.Email, Body: p.Body,
	}
	s.runElse(lane, cmd, c, func(out store.Outcome) {
		if out.Dup {
			giveBack()
		}
		s.reply("ok", cmd, out.Conv.ID, proto.Changed{Head: head(&out.Conv, store.CustomerSide)})
	}, giveBack)
}

// nobodyTakes returns what a bot says whose hand-off was refused with err.
func nobodyTakes(err error, text, locale string) []store.Say {
	say := store.Say{Body: bot.NobodyFree(text, locale), Buttons: []store.Button{bot.LeaveButton(text, locale)}}
	if errors.Is(err, store.ErrAway) {
		say.Body = bot.NobodyThere(text, locale)
	}
	return []store.Say{say}
}
