package hub

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/go-eddy/eddy/desk/bot"
	"github.com/go-eddy/eddy/desk/store"
)

// hookOf returns a bot elsewhere as it is asked now.
func (r *rig) hookOf(account store.BotAccount) *bot.Webhook {
	r.t.Helper()
	b, err := r.hub.botStaff.get(r.ctx, account.ID)
	r.ok(err)
	r.hub.botStaff.release(b)
	return b.hook
}

// resettled changes the settings of a bot.
func (r *rig) resettled(account *store.BotAccount, n int) {
	r.t.Helper()
	was := fmt.Sprintf("Sorry %d!", n-1)
	if n == 1 {
		was = "Sorry!"
	}
	account.Config = strings.Replace(account.Config, was, fmt.Sprintf("Sorry %d!", n), 1)
	r.ok(r.db.UpdateBot(r.ctx, *account))
}

func (r *rig) retired() int {
	b := r.hub.botStaff
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.retired)
}

// closed reports whether a bot elsewhere refuses turns, because it is closed.
func closedBot(w *bot.Webhook) bool {
	var got error
	done := make(chan struct{})
	w.Ask(bot.Turn{ID: "x", Text: "x"}, func(a bot.Answer) {
		got = a.Err
		close(done)
	})
	<-done
	return errors.Is(got, bot.ErrClosed)
}

// Bots with settings of before end when their turns have, and no earlier: however often settings change, none stays.
func TestRetiredBotsAreClosed(t *testing.T) {
	r := newRig(t, Options{Limits: testLimits()})
	letGo := make(chan struct{})
	_, account := r.webhook("", func(w http.ResponseWriter, q *http.Request, a asked) {
		switch {
		case a.Opening:
			silent(w, q, a)
			return
		case a.Message.Text == "hang":
			select {
			case <-letGo:
			case <-q.Context().Done():
			}
		}
		say(w, "You said "+a.Message.Text)
	})
	hanging := r.customer()
	held := r.open(hanging, "bot")
	hanging.Send(held, "hang")
	r.waitFor("the turn to hang", func() bool {
		s := r.hub.BotStats()
		return len(s) == 1 && s[0].Running == 1 && s[0].Asked == 2
	})
	old := []*bot.Webhook{r.hookOf(account)}
	const changes = 5
	for n := 1; n <= changes; n++ {
		r.resettled(&account, n)
		c := r.customer()
		conv := r.open(c, "bot")
		c.Send(conv, fmt.Sprint("hello ", n))
		r.event(c, conv, body(fmt.Sprint("You said hello ", n)))
		old = append(old, r.hookOf(account))
		r.waitFor("those without turns to go", func() bool { return r.retired() == 1 })
	}
	close(letGo)
	r.event(hanging, held, body("You said hang")) // the bot that was asked has answered, though its settings have changed
	hanging.Send(held, "again")
	r.event(hanging, held, body("You said again"))
	r.waitFor("the last of them to go", func() bool { return r.retired() == 0 })
	for n, w := range old[:changes] {
		r.waitFor(fmt.Sprint("old bot ", n, " to be closed"), func() bool { return closedBot(w) })
	}
}

// A bot that a turn is about to ask stays, though its settings change twice meanwhile.
func TestRetiredBotWaitsForWhoHasIt(t *testing.T) {
	r := newRig(t, Options{Limits: testLimits()})
	_, account := r.webhook("", silent)
	staff := r.hub.botStaff
	first, err := staff.get(r.ctx, account.ID)
	r.ok(err)
	for n := 1; n <= 2; n++ {
		r.resettled(&account, n)
		r.hookOf(account)
	}
	if n := r.retired(); n != 1 {
		t.Errorf("%d are kept", n)
	}
	staff.release(first)
	if n := r.retired(); n != 0 || !closedBot(first.hook) {
		t.Errorf("%d are kept, closed: %v", n, closedBot(first.hook))
	}
	if n := len(staff.ready); n != 1 {
		t.Errorf("%d are ready", n)
	}
}
