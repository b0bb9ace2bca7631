package hub

import (
	"context"

	"github.com/go-eddy/eddy/desk/bot"
	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/store"
)

// greeter is the bot that a customer's next conversation begins with. say is what it says first, nil for a bot that has
// to be asked. The zero value is no bot.
type greeter struct {
	bot store.Actor
	say []store.Say
}

// greeter returns the bot of a site. It blocks.
func (b *botStaff) greeter(ctx context.Context, site, locale string) greeter {
	b.hub.mu.Lock()
	s := b.hub.queue.roster.sites[site]
	b.hub.mu.Unlock()
	id, name := s.Bot, s.BotName
	if id == "" && name != "" {
		id = store.BuiltInBot
	}
	if id == "" {
		return greeter{}
	}
	r, err := b.get(ctx, id)
	if r == nil {
		return greeter{} // the bot is gone
	}
	if err == nil {
		defer b.release(r)
	}
	far := r.remote()
	if far != nil && far.Shut() {
		return greeter{} // new conversations go to the queue
	}
	if name == "" {
		name = r.account.Name
	}
	g := greeter{bot: store.Actor{Kind: store.Bot, ID: id, Name: name}}
	if rules, ok := r.rules.(*bot.Rules); ok && err == nil {
		g.say = rules.Greet(locale)
	} else if far != nil {
		g.say = far.Greet(locale)
	}
	return g
}

// wire returns the greeter as the page is told, nil for none.
func (g *greeter) wire() *proto.Greeter {
	if g.bot.IsZero() {
		return nil
	}
	w := &proto.Greeter{ID: g.bot.ID, Name: g.bot.Name, Greeting: []proto.Greeting{}}
	for _, say := range g.say {
		w.Greeting = append(w.Greeting, proto.Greeting{Body: say.Body, Buttons: buttons(say.Buttons)})
	}
	return w
}

// buttons returns the buttons of a message as clients see them.
func buttons(all []store.Button) (list []proto.Button) {
	for _, b := range all {
		list = append(list, proto.Button(b))
	}
	return list
}
