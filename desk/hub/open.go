package hub

import (
	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/store"
)

// open starts a conversation of the customer, or finds the one that is open.
func (s *Session) open(cmd proto.Command, who identity, p *proto.Open) {
	h := s.hub
	giveBack := func() {}
	if !h.hasOpen(who.actor.ID) {
		var ok bool
		if giveBack, ok = s.count(cmd, who, p.Wants == "human" || p.Consent || len(p.Fields) > 0); !ok {
			return
		}
	}
	c := store.Open{
		Contact: store.Contact{ID: who.actor.ID, Site: who.site, Name: who.actor.Name, Locale: who.locale}, Human: p.Wants == "human", Page: h.pageKept(who.site, p.Page),
		Fields: p.Fields, Consent: p.Consent, Without: h.botStaff.shut(), Greeter: who.greeter.bot.ID, Greeting: who.greeter.say,
		Away: h.away,
	}
	s.runElse("contact "+who.actor.ID, cmd, c, func(out store.Outcome) {
		if out.Existing {
			giveBack()
		}
		s.saveVisit(who)
		s.reply("ok", cmd, out.Conv.ID, proto.Opened{Head: head(&out.Conv, store.CustomerSide), Existing: out.Existing})
	}, giveBack)
}

func (h *Hub) hasOpen(contact string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.queue.dir.byContact[contact]) > 0
}
