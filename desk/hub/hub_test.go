package hub

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-eddy/eddy/desk/bot"
	"github.com/go-eddy/eddy/desk/desktest"
	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/store"
)

func isType(t string) func(desktest.Frame) bool {
	return func(f desktest.Frame) bool { return f.T == t }
}

func position(n int) func(desktest.Frame) bool {
	return func(f desktest.Frame) bool {
		var p proto.QueuePosition
		return f.T == "ev.queue" && json.Unmarshal(f.D, &p) == nil && p.Position == n
	}
}

// The main story: greeting, hand-off, queue position, take, both talk, close.
func TestStory(t *testing.T) {
	r := newRig(t, Options{Limits: testLimits()})
	ann, ben, lin := r.customer(), r.customer(), r.agent("lin")
	r.ok(lin.Connected(r.ctx))

	conv := r.open(ann, "bot")
	greeting := r.event(ann, conv, fromBot)
	var m proto.Msg
	greeting.Decode(&m)
	if len(m.Buttons) == 0 || m.From.Name != "Eddy" || m.ClientID != "" {
		t.Errorf("greeting %+v", m)
	}
	ann.Send(conv, "where is my parcel?")
	r.event(ann, conv, func(f desktest.Frame) bool { return fromBot(f) && f.S > greeting.S })
	ann.SendPayload(conv, "Talk to a person", "human")
	r.event(ann, conv, state(store.Queued))
	r.other(ann, position(1))

	second := r.open(ben, "human")
	r.other(ben, position(2))
	r.other(lin, func(f desktest.Frame) bool { return f.T == "ev.conv" && f.C == second })

	r.ok(lin.Take(r.ctx, conv))
	r.event(ann, conv, state(store.Assigned))
	r.other(ben, position(1))
	lin.Send(conv, "hello, I am Lin")
	r.event(ann, conv, body("hello, I am Lin"))
	r.ok(errors.Join(ann.Flushed(r.ctx), lin.Flushed(r.ctx)))
	ann.Send(conv, "hello Lin")
	r.event(lin, conv, body("hello Lin"))
	r.ok(ann.EndConv(r.ctx, conv, "thanks"))
	r.event(lin, conv, state(store.Closed))
	r.checkView(ann, conv, store.CustomerSide)
	r.checkView(lin, conv, store.StaffSide)
	if got := r.do(lin, "msg.send", conv, proto.Send{ClientID: newClientID(), Body: "too late"}); got != proto.CodeClosed {
		t.Errorf("send after close: %q", got)
	}
	if c := &r.hub.Counters; c.Acks.Load() != 4 || c.Messages.Load() < 7 {
		t.Errorf("acks %d, messages %d", c.Acks.Load(), c.Messages.Load())
	}
}

// typing and presence reach the other side and nobody else.
func TestEphemeral(t *testing.T) {
	r := newRig(t, Options{Limits: testLimits()})
	ann, ben, lin := r.customer(), r.customer(), r.agent("lin")
	conv := r.open(ann, "human")
	r.open(ben, "human")
	r.ok(lin.Take(r.ctx, conv))
	send := func(c *desktest.Client, conv string) {
		ctx, cancel := context.WithCancel(r.ctx)
		cancel() // there is no reply to wait for
		_, err := c.Do(ctx, "typing", conv, proto.Typing{On: true})
		if err != nil && !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	}
	send(ann, conv)
	f := r.other(lin, isType("ev.typing"))
	var typing proto.TypingNow
	if f.Decode(&typing); typing.From.Kind != "customer" || !typing.On || f.C != conv {
		t.Errorf("%+v", typing)
	}
	send(lin, conv)
	r.other(ann, isType("ev.typing"))
	send(ben, conv) // a stranger
	send(ben, "nonsense")
	if got := r.do(ben, "ping", "", proto.Ping{}); got != "" {
		t.Error(got)
	}
	online := func(want bool) func(desktest.Frame) bool {
		return func(f desktest.Frame) bool {
			var p proto.Presence
			return f.T == "ev.presence" && f.C == conv && json.Unmarshal(f.D, &p) == nil && p.Online == want && p.Kind == "customer"
		}
	}
	ann.Break()
	r.other(lin, online(false))
	r.other(lin, online(true))
	lin.Break()
	r.other(ann, func(f desktest.Frame) bool { return f.T == "ev.presence" })
	if f, err := ben.Other(canceled(), isType("ev.typing")); err == nil {
		t.Errorf("a stranger got %+v", f)
	}
}

func canceled() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

func TestTwoAgentsTakeOneWins(t *testing.T) {
	rounds := 100 // the store's own test does 1,000
	if testing.Short() {
		rounds = 20
	}
	r := newRig(t, Options{Limits: testLimits()})
	agents := [2]*desktest.Client{r.agent("lin"), r.agent("kim")}
	ann := r.customer()
	for round := range rounds {
		conv := r.open(ann, "human")
		results := make(chan desktest.Frame, 2)
		for _, a := range agents {
			go func() {
				f, err := a.Do(r.ctx, "take", conv, proto.Take{})
				if err != nil {
					t.Error(err)
				}
				results <- f
			}()
		}
		won, lost := <-results, <-results
		if won.T == "err" {
			won, lost = lost, won
		}
		var w proto.Changed
		var l proto.Error
		won.Decode(&w)
		lost.Decode(&l)
		if won.T != "ok" || l.Code != proto.CodeConflict || l.Head == nil || l.Head.Owner == nil || l.Head.Owner.ID != w.Head.Owner.ID {
			t.Fatalf("round %d: %s and %s", round, won.D, lost.D)
		}
		r.ok(ann.EndConv(r.ctx, conv, ""))
	}
}

func TestKnowingAnIDGrantsNothing(t *testing.T) {
	r := newRig(t, Options{Limits: testLimits()})
	ann, ben, lin, kim := r.customer(), r.customer(), r.agent("lin"), r.agent("kim")
	conv := r.open(ann, "human")
	msg := func() proto.Send { return proto.Send{ClientID: newClientID(), Body: "x"} }
	for name, c := range map[string]struct {
		who  *desktest.Client
		t    string
		d    any
		want proto.Code
	}{
		"customer writes in another's":    {ben, "msg.send", msg(), proto.CodeNotFound},
		"customer reads another's":        {ben, "sync", proto.Sync{}, proto.CodeNotFound},
		"customer closes another's":       {ben, "conv.close", proto.Close{}, proto.CodeNotFound},
		"customer takes":                  {ann, "take", proto.Take{}, proto.CodeForbidden},
		"agent opens":                     {lin, "conv.open", proto.Open{}, proto.CodeForbidden},
		"agent writes before taking":      {lin, "msg.send", msg(), proto.CodeConflict},
		"agent closes what is not theirs": {lin, "conv.close", proto.Close{}, proto.CodeConflict},
		"stale revision":                  {lin, "take", proto.Take{Rev: 77}, proto.CodeConflict},
	} {
		if got := r.do(c.who, c.t, conv, c.d); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	r.ok(lin.Take(r.ctx, conv))
	if got := r.do(kim, "msg.send", conv, msg()); got != proto.CodeForbidden {
		t.Errorf("another agent writes: %q", got)
	}
	if got := r.do(kim, "conv.close", conv, proto.Close{}); got != proto.CodeForbidden {
		t.Errorf("another agent closes: %q", got)
	}
	if got := r.do(kim, "sync", conv, proto.Sync{}); got != proto.CodeNotFound {
		t.Errorf("another agent reads: %q", got)
	}
	if got := r.do(ben, "msg.send", "no such id", msg()); got != proto.CodeNotFound {
		t.Errorf("unknown conversation: %q", got)
	}
	events := ben.View(conv)
	if len(events) != 0 {
		t.Errorf("a stranger has %d events", len(events))
	}
}

func TestCapacityIsForbidden(t *testing.T) {
	r := newRig(t, Options{Limits: testLimits()})
	lin := r.agentClient(r.account("lin", 1))
	first, second := r.open(r.customer(), "human"), r.open(r.customer(), "human")
	r.ok(lin.Take(r.ctx, first))
	if got := r.do(lin, "take", second, proto.Take{}); got != proto.CodeForbidden {
		t.Fatalf("%q", got)
	}
}

func TestDupReturnsFirstAck(t *testing.T) {
	r := newRig(t, Options{Limits: testLimits()})
	ann := r.customer()
	conv := r.open(ann, "human")
	msg := proto.Send{ClientID: newClientID(), Body: "once"}
	var acks [2]proto.Ack
	for i := range acks {
		f, err := ann.Do(r.ctx, "msg.send", conv, msg)
		r.ok(err)
		f.Decode(&acks[i])
	}
	if acks[0].Dup || !acks[1].Dup || acks[0].ID != acks[1].ID || acks[0].S != acks[1].S {
		t.Errorf("%+v", acks)
	}
	r.checkView(ann, conv, store.CustomerSide)
	if n := r.hub.Counters.Dups.Load(); n != 1 {
		t.Errorf("%d dups counted", n)
	}
}

// An attempt of an earlier connection that arrives after a later one was refused for good is an attempt like any other: it is stored once, and the
// sender learns of it by the client_id of its event.
func TestLateAttemptIsToldByItsEvent(t *testing.T) {
	r := newRig(t, Options{Limits: testLimits()})
	ann, account := r.customer(), r.account("lin", 100)
	earlier, later := r.agentClient(account), r.agentClient(account)
	conv := r.open(ann, "human")
	msg := proto.Send{ClientID: newClientID(), Body: "late"}
	if got := r.do(later, "msg.send", conv, msg); got != proto.CodeConflict {
		t.Fatalf("a message to a conversation that waits: %q", got)
	}
	r.ok(later.Take(r.ctx, conv))
	if got := r.do(earlier, "msg.send", conv, msg); got != "" {
		t.Fatalf("the attempt that was under way: %q", got)
	}
	said := r.event(later, conv, body("late"))
	var d proto.Msg
	said.Decode(&d)
	if d.ClientID != msg.ClientID {
		t.Errorf("the event of %s carries client_id %q", msg.ClientID, d.ClientID)
	}
	r.event(ann, conv, body("late"))
	r.checkView(ann, conv, store.CustomerSide)
}

// Agents get their inbox on every connect, and rows as things change.
func TestInbox(t *testing.T) {
	r := newRig(t, Options{Limits: testLimits()})
	ann, ben := r.customer(), r.customer()
	first, second := r.open(ann, "human"), r.open(ben, "human")
	ann.Send(first, "anybody?")
	r.ok(ann.Flushed(r.ctx))
	lin := r.agent("lin")
	r.ok(lin.Connected(r.ctx))
	w, _ := lin.Welcome()
	if w.Inbox == nil || len(w.Inbox.Rows) != 2 || w.Inbox.Queued != 2 || w.Inbox.Rows[0].ID != first || w.Inbox.Rows[1].ID != second {
		t.Fatalf("inbox %+v", w.Inbox)
	}
	if row := w.Inbox.Rows[0]; row.Preview != "anybody?" || !row.Contact.Online || row.State != "queued" || row.PreviewFrom != "customer" || row.Site != "demo" {
		t.Errorf("row %+v", row)
	}
	queued := w.Inbox.Rows[1].Queued
	r.ok(lin.Take(r.ctx, second))
	ben.Send(second, "thanks")
	r.ok(ben.Flushed(r.ctx))
	lin.Break()
	r.ok(lin.Welcomed(r.ctx, 2))
	w, _ = lin.Welcome()
	if len(w.Inbox.Rows) != 2 || w.Inbox.Queued != 1 || w.Inbox.Rows[0].ID != second || w.Inbox.Rows[0].State != "assigned" || w.Inbox.Rows[0].Owner.ID != w.Me.ID {
		t.Errorf("inbox %+v", w.Inbox)
	}
	if queued == 0 || w.Inbox.Rows[0].Queued != queued || len(w.Heads) != 1 || w.Heads[0].Queued != queued {
		t.Errorf("the row and the heads %+v do not say that the customer asked at %d", w.Heads, queued)
	}
	r.checkView(lin, second, store.StaffSide)
}

// scripted is a bot under the control of a test.
type scripted struct {
	reply func(ctx context.Context, t bot.Turn) (bot.Reply, error)
}

func (s scripted) Reply(ctx context.Context, t bot.Turn) (bot.Reply, error) { return s.reply(ctx, t) }

func TestLateBotAnswerIsDiscarded(t *testing.T) {
	release, asked := make(chan struct{}), make(chan struct{})
	slow := scripted{func(ctx context.Context, t bot.Turn) (bot.Reply, error) {
		if t.Opening {
			return bot.Reply{}, nil
		}
		close(asked)
		<-release
		return bot.Reply{Say: []store.Say{{Body: "late"}}, Handoff: true, Reason: "late"}, nil
	}}
	r := newRig(t, Options{Limits: testLimits(), Bot: slow})
	ann, lin := r.customer(), r.agent("lin")
	conv := r.open(ann, "bot")
	ann.Send(conv, "hello?")
	r.ok(ann.Flushed(r.ctx)) // the bot is not in the way of the ack
	<-asked
	r.ok(lin.Take(r.ctx, conv))
	close(release)
	r.waitFor("the late answer", func() bool { return r.hub.Counters.BotLate.Load() == 1 })
	lin.Send(conv, "I am here")
	r.ok(lin.Flushed(r.ctx))
	r.checkView(ann, conv, store.CustomerSide)
	discarded := r.event(lin, conv, body("late"))
	var note proto.Msg
	discarded.Decode(&note)
	if note.Kind != store.KindNote || note.From.Kind != "bot" || note.Payload != store.PayloadDiscarded {
		t.Errorf("staff are shown %+v", note)
	}
	for _, f := range ann.View(conv) {
		if body("late")(f) {
			t.Fatal("the late answer was appended")
		}
	}
}

func TestBotFailsOrTalksTooMuch(t *testing.T) {
	r := newRig(t, Options{Limits: testLimits(), Bot: scripted{func(_ context.Context, t bot.Turn) (bot.Reply, error) {
		switch t.Text {
		case "panic":
			panic("boom")
		case "chatter":
			say := make([]store.Say, 50)
			for i := range say {
				say[i].Body = fmt.Sprint(i)
			}
			return bot.Reply{Say: say}, nil
		}
		return bot.Reply{}, nil
	}}})
	ann := r.customer()
	conv := r.open(ann, "bot")
	ann.Send(conv, "chatter")
	r.event(ann, conv, body("4"))
	ann.Send(conv, "panic")
	r.event(ann, conv, state(store.Queued))
	said := 0
	for _, f := range ann.View(conv) {
		if fromBot(f) {
			said++
		}
	}
	if said != store.MaxBotMessages+1 { // and the apology
		t.Errorf("the bot said %d messages", said)
	}
	if c := &r.hub.Counters; c.BotCut.Load() != 45 || c.BotFailed.Load() != 1 {
		t.Errorf("%d messages cut, %d turns failed", c.BotCut.Load(), c.BotFailed.Load())
	}
}

// A bot's answer that cannot be stored now is stored later, once.
func TestBotAnswerSurvivesAFailingStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newBubbleRig(t, Options{Limits: testLimits()})
		failures := 0
		r.fault.set(func(cmd store.Command, pass func(), fail func(error)) {
			if _, ok := cmd.(store.BotTurn); ok && failures < 2 {
				failures++
				fail(store.ErrUnavailable)
				return
			}
			pass()
		})
		ann := r.customer()
		conv := r.open(ann, "bot")
		r.event(ann, conv, fromBot)
		r.checkView(ann, conv, store.CustomerSide)
	})
}

// What a crash left unanswered is answered after the start.
func TestUnansweredTurnsAreRunAtStart(t *testing.T) {
	dead := make(chan struct{})
	r := newRig(t, Options{Limits: testLimits(), Bot: scripted{func(context.Context, bot.Turn) (bot.Reply, error) {
		<-dead
		return bot.Reply{}, errors.New("the process dies before the bot has answered")
	}}})
	ann, ben := r.customer(), r.customer()
	unanswered, ungreeted := r.open(ann, "bot"), r.open(ben, "bot")
	ann.Send(unanswered, "human")
	r.ok(ann.Flushed(r.ctx))
	go func() {
		defer close(dead)
		if _, err := ann.Other(r.ctx, isType("bye")); err != nil {
			t.Error(err)
		}
	}()
	r.stop()
	r.o.Bot = nil
	r.openStore()
	r.startHub()
	r.event(ann, unanswered, state(store.Queued))
	r.event(ben, ungreeted, fromBot)
	r.checkView(ann, unanswered, store.CustomerSide)
	r.checkView(ben, ungreeted, store.CustomerSide)
}

// Shutdown: a command that is under way is committed and acked, everybody hears bye and is closed with 4000.
func TestShutdownFinishesLanes(t *testing.T) {
	r := newRig(t, Options{Limits: testLimits()})
	w := r.dial(Peer{})
	c := r.raw(w)
	c.hello(r.visitor())
	conv := c.open()
	r.fault.set(func(_ store.Command, pass func(), _ func(error)) { r.fault.park(pass) })
	c.write("msg.send", "77", conv, proto.Send{ClientID: newClientID(), Body: "last words"})
	r.waitFor("the command to reach the store", func() bool { return r.fault.parkedCalls() == 1 })
	stopped := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		stopped <- r.hub.Shutdown(ctx)
	}()
	c.until(func(f desktest.Frame) bool {
		var b proto.Bye
		return f.T == "bye" && json.Unmarshal(f.D, &b) == nil && b.Reason == "draining"
	})
	c.write("msg.send", "78", conv, proto.Send{ClientID: newClientID(), Body: "too late"})
	if got := code(c.until(func(f desktest.Frame) bool { return f.RE == "78" })); got != proto.CodeUnavailable {
		t.Errorf("command while draining: %q", got)
	}
	r.fault.heal()
	if f := c.until(func(f desktest.Frame) bool { return f.RE == "77" }); f.T != "ok" {
		t.Errorf("the command under way: %s", f.D)
	}
	c.untilClosed(proto.CloseDraining)
	r.ok(<-stopped)
	if w := r.dial(Peer{}); w.closeCode() != proto.CloseDraining {
		t.Errorf("a new connection got %d", w.closeCode())
	}
}

func TestLogoutClosesSessions(t *testing.T) {
	r := newRig(t, Options{Limits: testLimits()})
	lin, moe := r.agent("lin"), r.agent("moe")
	r.ok(lin.Connected(r.ctx))
	r.ok(moe.Connected(r.ctx))
	of := make(map[string]*Session)
	for _, s := range r.hub.everySession() {
		of[s.who().actor.ID] = s
	}
	r.ok(r.db.DeleteAgentSession(r.ctx, r.login(store.AgentAccount{ID: lin.Me().ID}))) // another login
	for _, c := range []*desktest.Client{moe, lin} {
		s := of[c.Me().ID]
		if s.gone.Load() {
			t.Error("another login ends the session")
		}
		r.ok(r.db.DeleteAgentSession(r.ctx, s.who().login))
		r.waitFor("the close", s.gone.Load)
	}
	if r.hub.Counters.Closes()["4101"] < 2 {
		t.Errorf("closed by %v", r.hub.Counters.Closes())
	}
}
