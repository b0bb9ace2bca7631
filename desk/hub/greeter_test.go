package hub

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/go-eddy/eddy/desk/auth"
	"github.com/go-eddy/eddy/desk/bot"
	"github.com/go-eddy/eddy/desk/desktest"
	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/store"
)

// knows reads the sites and waits until the hub has.
func (r *rig) knows(site store.Site) {
	r.t.Helper()
	r.waitFor("the hub to know the site", func() bool { return r.hub.queue.roster.siteKey(site.ID) == site.Key })
}

// The welcome says how the bot of rules greets. That is what stands in the conversation, in front of what the customer
// writes first, and nobody asks the bot again.
func TestGreetingBeforeTheConversation(t *testing.T) {
	r := newRig(t, Options{Limits: testLimits()})
	for locale, want := range map[string]string{"en": "Hello! I am", "zh-CN": "您好！"} {
		c := r.raw(r.dial(Peer{}))
		c.write("hello", "h", "", proto.Hello{Token: r.visitor(), Locale: locale})
		var w proto.Welcome
		welcome := c.until(func(f desktest.Frame) bool { return f.RE == "h" })
		welcome.Decode(&w)
		if w.Bot == nil || w.Bot.Name != "Eddy" || len(w.Bot.Greeting) != 1 || !strings.HasPrefix(w.Bot.Greeting[0].Body, want) || len(w.Bot.Greeting[0].Buttons) != 2 || len(w.Heads) != 0 {
			t.Fatalf("%s: welcome %s", locale, welcome.D)
		}
		c.write("conv.open", "o", "", proto.Open{})
		conv := c.until(func(f desktest.Frame) bool { return f.RE == "o" }).C
		c.write("msg.send", "m", conv, proto.Send{ClientID: uuid.NewString(), Body: "what is this?"})
		c.until(func(f desktest.Frame) bool { return f.T == "ev.msg" && f.S == 4 })
		events, _, err := r.db.Cold().Events(r.ctx, conv, store.StaffSide, 0, 100, 1<<20)
		r.ok(err)
		if len(events) != 4 || events[1].Body != w.Bot.Greeting[0].Body || events[2].Body != "what is this?" || events[3].From.Kind != store.Bot {
			t.Errorf("%s: %+v", locale, events)
		}
	}
	if n := r.hub.Counters.BotTurns.Load(); n != 2 {
		t.Errorf("the bot was asked %d times, want once for each message", n)
	}
}

// A bot that has to be asked has no greeting in the welcome and gets the turn of the opening; a site without a bot has none.
func TestNoGreetingBeforeTheConversation(t *testing.T) {
	r := newRig(t, Options{Limits: testLimits(), Bot: scripted{func(context.Context, bot.Turn) (bot.Reply, error) { return bot.Reply{}, nil }}})
	bare, err := r.db.CreateSite(r.ctx, store.Site{Key: "bare", Name: "Bare"})
	r.ok(err)
	r.knows(bare)
	for _, c := range []struct {
		site store.Site
		want string
	}{{r.site, `{"id":"rules","name":"Eddy","greeting":[]}`}, {bare, "null"}} {
		token, hash := auth.NewToken()
		_, err := r.db.CreateVisitor(r.ctx, c.site, hash, time.Now().Add(time.Hour))
		r.ok(err)
		raw := r.raw(r.dial(Peer{}))
		raw.write("hello", "h", "", proto.Hello{Token: token})
		var w proto.Welcome
		f := raw.until(func(f desktest.Frame) bool { return f.RE == "h" })
		f.Decode(&w)
		if got, _ := json.Marshal(w.Bot); string(got) != c.want {
			t.Errorf("%s: %s, want %s", c.site.Key, got, c.want)
		}
	}
}
