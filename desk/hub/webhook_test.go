package hub

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-eddy/eddy/desk/bot"
	"github.com/go-eddy/eddy/desk/desktest"
	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/store"
)

const botSecret = "a secret of the test"

// asked is a turn as a webhook bot sees it.
type asked struct {
	Turn    string
	Opening bool
	Message *struct{ Text, Payload string }
	History []struct{ From, Text string }
}

// fakeBot is a webhook bot whose faults a test scripts.
type fakeBot struct {
	*httptest.Server
	t     *testing.T
	mu    sync.Mutex
	turns []asked
	serve func(w http.ResponseWriter, r *http.Request, a asked)
}

func (b *fakeBot) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil { // the connection has ended: one side is going
		return
	}
	var a asked
	err = json.Unmarshal(body, &a)
	if err == nil {
		err = bot.Verify(botSecret, r.Header.Get(bot.HeaderTimestamp), r.Header.Get(bot.HeaderSignature), body, time.Now())
	}
	if err != nil {
		b.t.Errorf("the bot was asked %q: %v", body, err)
	}
	b.mu.Lock()
	b.turns = append(b.turns, a)
	serve := b.serve
	b.mu.Unlock()
	serve(w, r, a)
}

func (b *fakeBot) script(serve func(w http.ResponseWriter, r *http.Request, a asked)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.serve = serve
}

// seen returns the turns that have arrived.
func (b *fakeBot) seen() []asked {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.turns)
}

func say(w http.ResponseWriter, texts ...string) {
	var messages []map[string]string
	for _, t := range texts {
		messages = append(messages, map[string]string{"text": t})
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"messages": messages}) // the client may have gone
}

func silent(w http.ResponseWriter, _ *http.Request, _ asked) { w.WriteHeader(http.StatusNoContent) }

func accept(w http.ResponseWriter, _ *http.Request, _ asked) { w.WriteHeader(http.StatusAccepted) }

// hire makes a site with a bot of its own; visitors from now on are of that site.
func (r *rig) hire(kind, config string) store.BotAccount {
	r.t.Helper()
	account, err := r.db.CreateBot(r.ctx, store.BotAccount{Name: "Hal" + newClientID(), Kind: kind, Config: config})
	r.ok(err)
	r.site, err = r.db.CreateSite(r.ctx, store.Site{Key: "s" + newClientID(), Name: "Shop", Bot: account.ID, BotName: "Hal"})
	r.ok(err)
	return account
}

// webhook hires a fake bot; more are further settings.
func (r *rig) webhook(more string, serve func(http.ResponseWriter, *http.Request, asked)) (*fakeBot, store.BotAccount) {
	r.t.Helper()
	b := &fakeBot{t: r.t, serve: serve}
	b.Server = httptest.NewServer(b)
	r.t.Cleanup(b.Close)
	return b, r.hire(store.BotWebhook, hookConfig(b.URL, more))
}

func hookConfig(url, more string) string {
	return fmt.Sprintf(`{"url":%q,"secret":%q,"allow_private":true,"timeout_ms":60000,"apology":{"en":"Sorry!","zh":"抱歉"}%s}`, url, botSecret, more)
}

// callBack answers a turn as a bot does that has accepted it.
func (r *rig) callBack(turn string, texts ...string) (TurnResult, error) {
	rec := httptest.NewRecorder()
	say(rec, texts...)
	body := bytes.TrimSpace(rec.Body.Bytes())
	at := time.Now().Unix()
	return r.theHub().AnswerTurn(r.ctx, turn, strconv.FormatInt(at, 10), bot.Sign(botSecret, at, body), body)
}

func (r *rig) turnState(id string) store.TurnState {
	r.t.Helper()
	turn, err := r.db.Cold().BotTurn(r.ctx, id)
	r.ok(err)
	return turn.State
}

func TestWebhookStory(t *testing.T) {
	r := newRig(t, Options{Limits: testLimits()})
	b, _ := r.webhook("", func(w http.ResponseWriter, _ *http.Request, a asked) {
		switch {
		case a.Opening:
			say(w, "Welcome")
		case a.Message.Text == "person":
			_, _ = io.WriteString(w, `{"messages":[{"text":"Here you go"}],"handoff":true,"reason":"asked","summary":"wants a person"}`)
		default:
			say(w, "You said "+a.Message.Text)
		}
	})
	ann, lin := r.customer(), r.agent("lin")
	conv := r.open(ann, "bot")
	r.event(ann, conv, body("Welcome"))
	ann.Send(conv, "hello")
	r.event(ann, conv, body("You said hello"))
	ann.Send(conv, "person")
	r.event(ann, conv, state(store.Queued))
	r.ok(lin.Take(r.ctx, conv))
	r.checkView(ann, conv, store.CustomerSide)
	events, _, err := r.db.Cold().Events(r.ctx, conv, store.StaffSide, 0, 100, 1<<20)
	r.ok(err)
	if !slices.ContainsFunc(events, func(e store.Event) bool {
		return e.Kind == store.KindNote && e.Body == "wants a person" && e.From.Kind == store.Bot && e.PSeq == 0
	}) {
		t.Errorf("no summary for staff in %+v", events)
	}
	turns := b.seen()
	if len(turns) != 3 || len(turns[2].History) != 3 || turns[2].History[2].Text != "You said hello" || turns[2].History[2].From != "bot" {
		t.Errorf("the bot was asked %+v", turns)
	}
	if s := r.hub.BotStats(); len(s) != 1 || s[0].Asked != 3 || s[0].Breaker != bot.BreakerClosed {
		t.Errorf("%+v", s)
	}
}

// Whatever goes wrong with the bot, the customer's messages are acked and the conversation goes to people with an apology in
// the customer's language.
func TestWebhookFaults(t *testing.T) {
	var inner atomic.Int32
	target := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { inner.Add(1) }))
	hang := make(chan struct{})
	t.Cleanup(func() { // when the faults, which happen side by side, are over
		close(hang)
		target.Close()
		if inner.Load() != 0 {
			t.Error("a redirect was followed")
		}
	})
	for name, c := range map[string]struct {
		more  string
		tries int
		serve func(w http.ResponseWriter, r *http.Request, a asked)
	}{
		"slow": {`,"timeout_ms":1000`, 2, func(_ http.ResponseWriter, r *http.Request, _ asked) {
			select {
			case <-r.Context().Done():
			case <-hang:
			}
		}},
		"garbage": {"", 1, func(w http.ResponseWriter, _ *http.Request, _ asked) { _, _ = io.WriteString(w, "<html>sorry</html>") }},
		"huge": {"", 1, func(w http.ResponseWriter, _ *http.Request, _ asked) {
			_, _ = io.WriteString(w, `{"messages":[{"text":"`+strings.Repeat("x", 1<<20)+`"}]}`)
		}},
		"huge header": {"", 2, func(w http.ResponseWriter, _ *http.Request, _ asked) { w.Header().Set("X", strings.Repeat("x", 1<<16)) }},
		"redirect": {"", 1, func(w http.ResponseWriter, r *http.Request, _ asked) {
			http.Redirect(w, r, target.URL, http.StatusTemporaryRedirect)
		}},
		"500":      {"", 2, func(w http.ResponseWriter, _ *http.Request, _ asked) { w.WriteHeader(500) }},
		"404":      {"", 1, func(w http.ResponseWriter, _ *http.Request, _ asked) { w.WriteHeader(404) }},
		"hangs up": {"", 2, func(http.ResponseWriter, *http.Request, asked) { panic(http.ErrAbortHandler) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // each waits for the second attempt
			r := newRig(t, Options{Limits: testLimits()})
			b, account := r.webhook("", func(w http.ResponseWriter, q *http.Request, a asked) {
				if a.Opening {
					silent(w, q, a)
					return
				}
				c.serve(w, q, a)
			})
			ann := r.customer()
			conv := r.open(ann, "bot")
			r.waitFor("the opening to be over", func() bool { return len(b.seen()) == 1 && r.turnState(b.seen()[0].Turn) == store.TurnAnswered })
			asked := 1
			if c.more != "" { // for the turn that is to fail; the bot's numbers begin anew
				account.Config = hookConfig(b.URL, c.more)
				r.ok(r.db.UpdateBot(r.ctx, account))
				asked = 0
			}
			ann.Send(conv, "你好")
			r.event(ann, conv, body("抱歉"))
			r.event(ann, conv, state(store.Queued))
			if s := r.hub.BotStats()[0]; int(s.Asked+s.Retried) != asked+c.tries {
				t.Errorf("%+v, want %d requests", s, asked+c.tries)
			}
			turns := b.seen()[1:]
			if len(turns) == 0 || len(turns) > c.tries || turns[0].Turn != turns[len(turns)-1].Turn { // one that is given up may not even arrive
				t.Fatalf("asked %+v, want the same %d times", turns, c.tries)
			}
			if s := r.turnState(turns[0].Turn); s != store.TurnFailed {
				t.Errorf("the turn is %s", s)
			}
			if n := r.hub.Counters.BotFailed.Load(); n != 1 {
				t.Errorf("%d turns failed", n)
			}
			r.checkView(ann, conv, store.CustomerSide)
		})
	}
}

// resolver sends every name to one address.
type resolver netip.Addr

func (a resolver) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	return []netip.Addr{netip.Addr(a)}, nil
}

// Bots that are not there, or where nobody may look: the same end.
func TestWebhookUnreachable(t *testing.T) {
	r := newRig(t, Options{Limits: testLimits(), Resolver: resolver(netip.MustParseAddr("127.0.0.1"))})
	var hits atomic.Int32
	inner := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { hits.Add(1) }))
	defer inner.Close()
	_, port, _ := strings.Cut(strings.TrimPrefix(inner.URL, "http://"), ":")
	gone := r.hire(store.BotRules, bot.DefaultRules())
	goneSite := r.site
	for name, hire := range map[string]func(){
		"a name of this machine":  func() { r.hire(store.BotWebhook, `{"url":"https://bot.example:`+port+`/","secret":"`+botSecret+`"}`) },
		"an address that is none": func() { r.hire(store.BotWebhook, `{"url":"https://127.0.0.1:`+port+`/","secret":"`+botSecret+`"}`) },
		"nobody listens": func() {
			b, _ := r.webhook("", silent)
			b.Close()
		},
		"settings that are none": func() { r.hire(store.BotRules, `{"greeting":7}`) },
		"a bot that was deleted": func() {
			r.site = goneSite
			site := goneSite
			site.Bot = ""
			r.ok(r.db.UpdateSite(r.ctx, site))
		},
	} {
		hire()
		if name == "a bot that was deleted" {
			continue // below
		}
		ann := r.customer()
		conv := r.open(ann, "bot")
		r.event(ann, conv, state(store.Queued))
		if !slices.ContainsFunc(ann.View(conv), fromBot) {
			t.Errorf("%s: no apology", name)
		}
	}
	if hits.Load() != 0 {
		t.Errorf("%d requests got through", hits.Load())
	}
	r.site = goneSite
	goneSite.Bot = gone.ID
	r.ok(r.db.UpdateSite(r.ctx, goneSite))
	ann := r.customer()
	conv := r.open(ann, "bot")
	r.event(ann, conv, fromBot)
	goneSite.Bot = ""
	r.ok(r.db.UpdateSite(r.ctx, goneSite))
	r.ok(r.db.DeleteBot(r.ctx, gone.ID))
	ann.Send(conv, "are you there?")
	r.event(ann, conv, state(store.Queued))
}

// A flood is cut, a bot that answers late or twice is heard once.
func TestWebhookFlood(t *testing.T) {
	r := newRig(t, Options{Limits: testLimits()})
	r.webhook("", func(w http.ResponseWriter, _ *http.Request, a asked) {
		if a.Opening {
			say(w, strings.Split(strings.Repeat("x", 1000), "")...)
			return
		}
		say(w, "done")
	})
	ann := r.customer()
	conv := r.open(ann, "bot")
	ann.Send(conv, "hello")
	r.event(ann, conv, body("done"))
	said := 0
	for _, f := range ann.View(conv) {
		if fromBot(f) {
			said++
		}
	}
	if said != store.MaxBotMessages+1 {
		t.Errorf("the bot said %d messages", said)
	}
	if s := r.hub.BotStats()[0]; s.Cut != 995 {
		t.Errorf("%+v", s)
	}
}

// A turn that was accepted is answered by a callback: once, by its bot alone, and the next turn waits for it.
func TestWebhookAccepts(t *testing.T) {
	r := newRig(t, Options{Limits: testLimits()})
	b, _ := r.webhook("", accept)
	ann := r.customer()
	conv := r.open(ann, "bot")
	r.waitFor("the turn to be accepted", func() bool { return len(b.seen()) == 1 && r.turnState(b.seen()[0].Turn) == store.TurnAccepted })
	ann.Send(conv, "hello")
	r.ok(ann.Flushed(r.ctx))
	first := b.seen()[0].Turn
	at := strconv.FormatInt(time.Now().Unix(), 10)
	for name, c := range map[string]struct {
		turn, signature, body string
		want                  proto.Code
	}{
		"no signature":        {first, "", "{}", proto.CodeUnauthorized},
		"of another secret":   {first, bot.Sign("another secret here", time.Now().Unix(), []byte("{}")), "{}", proto.CodeUnauthorized},
		"an unknown turn":     {"nothing", bot.Sign(botSecret, time.Now().Unix(), []byte("{}")), "{}", proto.CodeUnauthorized},
		"signed but not JSON": {first, "sign", "<html>", proto.CodeBadRequest},
		"signed but too much": {first, "sign", `{"messages":[{"text":""}]}`, proto.CodeBadRequest},
	} {
		if c.signature == "sign" {
			n, _ := strconv.ParseInt(at, 10, 64)
			c.signature = bot.Sign(botSecret, n, []byte(c.body))
		}
		_, err := r.hub.AnswerTurn(r.ctx, c.turn, at, c.signature, []byte(c.body))
		var e *proto.Error
		if !errors.As(err, &e) || e.Code != c.want {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := r.hub.Counters.BotBadCallbacks.Load(); n != 5 {
		t.Errorf("%d bad callbacks counted", n)
	}
	if n := len(b.seen()); n != 1 {
		t.Fatalf("%d turns while the first is open", n)
	}
	for i, want := range []TurnResult{TurnApplied, TurnDuplicate, TurnDuplicate} {
		if got, err := r.callBack(first, "thought about it"); err != nil || got != want {
			t.Errorf("callback %d: %s %v", i, got, err)
		}
	}
	r.waitFor("the second turn", func() bool { return len(b.seen()) == 2 })
	second := b.seen()[1].Turn
	if h := b.seen()[1].History; len(h) == 0 || h[len(h)-1].Text != "thought about it" {
		t.Errorf("the second turn did not wait for the answer to the first: %+v", h)
	}
	if got, err := r.callBack(second, "hello to you"); err != nil || got != TurnApplied {
		t.Errorf("%s %v", got, err)
	}
	r.event(ann, conv, body("hello to you"))
	r.checkView(ann, conv, store.CustomerSide)
	r.waitFor("the second 202, which the callback may have overtaken", func() bool { return r.hub.Counters.BotAccepted.Load() >= 2 })
	if c := &r.hub.Counters; c.BotAccepted.Load() != 2 || c.BotDups.Load() != 2 {
		t.Errorf("accepted %d, duplicates %d", c.BotAccepted.Load(), c.BotDups.Load())
	}
}

// An accepted turn that is not answered in time is given up; what comes then is shown to staff and not to the customer.
func TestWebhookCallbackTooLate(t *testing.T) {
	r := newRig(t, Options{Limits: testLimits()})
	b, _ := r.webhook(`,"accepted_ms":1000`, accept)
	ann, lin := r.customer(), r.agent("lin")
	conv := r.open(ann, "bot")
	r.event(ann, conv, body("Sorry!"))
	r.event(ann, conv, state(store.Queued))
	r.ok(lin.Take(r.ctx, conv))
	turn := b.seen()[0].Turn
	if got, err := r.callBack(turn, "I would have said", "this"); err != nil || got != TurnDiscarded {
		t.Fatalf("%s %v", got, err)
	}
	var note proto.Msg
	f := r.event(lin, conv, body("I would have said\n\nthis"))
	f.Decode(&note)
	if note.Kind != store.KindNote || note.Payload != store.PayloadDiscarded || note.From.Name != "Hal" {
		t.Errorf("%+v", note)
	}
	if got, err := r.callBack(turn, "again"); err != nil || got != TurnDuplicate || r.turnState(turn) != store.TurnLate {
		t.Errorf("%s %v", got, err)
	}
	r.checkView(ann, conv, store.CustomerSide)
	if c := r.hub.Counters.BotLate.Load(); c != 1 {
		t.Errorf("%d late answers", c)
	}
}

// The answer of a bot races a take-over: it is there before it, or a note behind it, and never in between or twice.
func TestTakeOverRacesAnswer(t *testing.T) {
	r := newRig(t, Options{Limits: testLimits()})
	b, _ := r.webhook("", accept)
	lin := r.agent("lin")
	ann := r.customer()
	const rounds = 50 // a thousand, and ten thousand in CI, are run at the store (conformance test LateBot)
	results := make(map[TurnResult]int)
	delay := time.Millisecond
	for i := range rounds {
		conv := r.open(ann, "bot")
		r.waitFor("the turn", func() bool { return len(b.seen()) == i+1 })
		turn := b.seen()[i].Turn
		type outcome struct {
			result TurnResult
			err    error
		}
		told := make(chan outcome, 2)
		for range 2 {
			go func() {
				result, err := r.callBack(turn, "answer")
				told <- outcome{result, err}
			}()
		}
		time.Sleep(delay) // so long that now one is first, now the other
		r.ok(lin.Take(r.ctx, conv))
		one, two := <-told, <-told
		if one.result == TurnDuplicate {
			one, two = two, one
		}
		if one.err != nil || two.err != nil || two.result != TurnDuplicate {
			t.Fatalf("round %d: %+v %+v", i, one, two)
		}
		results[one.result]++
		if one.result == TurnApplied {
			delay -= delay / 8
		} else {
			delay += delay/8 + 1
		}
		events, _, err := r.db.Cold().Events(r.ctx, conv, store.StaffSide, 0, 100, 1<<20)
		r.ok(err)
		kinds := ""
		for _, e := range events {
			kinds += e.Kind + " "
		}
		want := map[TurnResult]string{TurnApplied: "event text event ", TurnDiscarded: "event event note "}[one.result]
		if kinds != want {
			t.Fatalf("round %d: %s, but the events are %s", i, one.result, kinds)
		}
		r.ok(lin.EndConv(r.ctx, conv, ""))
	}
	t.Logf("%v", results)
}

// The process ends between asking and the answer: the next start asks the same turn again, and it is applied once. What was
// accepted is not asked again but waited for.
func TestWebhookTurnsSurviveARestart(t *testing.T) {
	r := newRig(t, Options{Limits: testLimits()})
	release := make(chan struct{})
	b, _ := r.webhook("", func(w http.ResponseWriter, q *http.Request, a asked) {
		if a.Opening {
			accept(w, q, a)
			return
		}
		select {
		case <-release:
		case <-q.Context().Done():
		}
	})
	ann := r.customer()
	accepted := r.open(ann, "bot")
	r.waitFor("the turn to be accepted", func() bool { return len(b.seen()) == 1 && r.turnState(b.seen()[0].Turn) == store.TurnAccepted })
	b.script(func(w http.ResponseWriter, q *http.Request, a asked) {
		if a.Opening {
			silent(w, q, a)
			return
		}
		select {
		case <-release:
		case <-q.Context().Done():
		}
	})
	ben := r.customer()
	unanswered := r.open(ben, "bot")
	ben.Send(unanswered, "hello")
	r.waitFor("the bot to be asked", func() bool { return len(b.seen()) == 3 })
	first := b.seen()[2].Turn
	r.stop()
	close(release)
	b.script(func(w http.ResponseWriter, _ *http.Request, a asked) { say(w, "back") })
	r.openStore()
	r.startHub()
	r.event(ben, unanswered, body("back"))
	turns := b.seen()
	if len(turns) != 4 || turns[3].Turn != first {
		t.Errorf("asked %+v", turns)
	}
	if got, err := r.callBack(b.seen()[0].Turn, "thought about it"); err != nil || got != TurnApplied {
		t.Errorf("%s %v", got, err)
	}
	r.event(ann, accepted, body("thought about it"))
	r.checkView(ann, accepted, store.CustomerSide)
	r.checkView(ben, unanswered, store.CustomerSide)
}

// While the breaker is open new conversations go straight to the queue, without a word of the bot.
func TestBreakerSendsToTheQueue(t *testing.T) {
	r := newRig(t, Options{Limits: testLimits()})
	b, _ := r.webhook("", func(w http.ResponseWriter, _ *http.Request, _ asked) { w.WriteHeader(500) })
	for len(b.seen()) < bot.BreakerFailures {
		ann := r.customer()
		conv := r.open(ann, "bot")
		r.event(ann, conv, body("Sorry!"))
		r.event(ann, conv, state(store.Queued))
	}
	if s := r.hub.BotStats()[0]; s.Breaker != bot.BreakerOpen || s.Opened != 1 {
		t.Fatalf("%+v", s)
	}
	ann := r.customer()
	conv := r.open(ann, "bot")
	r.event(ann, conv, state(store.Queued))
	if v := ann.View(conv); len(v) != 1 || len(b.seen()) != bot.BreakerFailures {
		t.Errorf("%+v, %d requests", v, len(b.seen()))
	}
}

// A bot that hangs keeps nobody waiting but its own customers, and not even their acks.
func TestHangingBotHoldsNobody(t *testing.T) {
	r := newRig(t, Options{Limits: testLimits()})
	release := make(chan struct{})
	defer close(release)
	b, _ := r.webhook(`,"concurrency":2,"queue":2,"timeout_ms":60000`, func(_ http.ResponseWriter, q *http.Request, _ asked) {
		select {
		case <-release:
		case <-q.Context().Done():
		}
	})
	var stuck []*desktest.Client
	var convs []string
	for range 4 {
		c := r.customer()
		stuck = append(stuck, c)
		convs = append(convs, r.open(c, "bot"))
	}
	r.waitFor("all places to be taken", func() bool {
		s := r.hub.BotStats()
		return len(s) == 1 && s[0].Running == 2 && s[0].Waiting == 2
	})
	for i, c := range stuck {
		for range 5 {
			c.Send(convs[i], "hello")
		}
		r.ok(c.Flushed(r.ctx))
	}
	fifth := r.customer() // no place, no queue: to people at once
	conv := r.open(fifth, "bot")
	r.event(fifth, conv, state(store.Queued))
	r.hire(store.BotRules, bot.DefaultRules())
	other := r.customer()
	conv = r.open(other, "bot")
	r.event(other, conv, fromBot)
	r.waitFor("the requests to arrive", func() bool { return len(b.seen()) >= 2 })
	if n := len(b.seen()); n != 2 {
		t.Errorf("%d requests at once", n)
	}
}

// The rules bot goes on with its questions after a restart, keeps what it learns, and tells the agent.
func TestRulesBotSurvivesARestart(t *testing.T) {
	r := newRig(t, Options{Limits: testLimits()})
	account := r.hire(store.BotRules, `{"greeting":"Hi","unknown":{"say":"?","limit":2},"handoff":"A person comes",
		"rules":[{"name":"refund","keywords":["refund"],"ask":["order","email"],"handoff":true}],
		"fields":[{"name":"order","ask":"Order?"},{"name":"email","type":"email","ask":"Mail?"}]}`)
	ann, lin := r.customer(), r.agent("lin")
	conv := r.open(ann, "bot")
	ann.Send(conv, "refund")
	r.event(ann, conv, body("Order?"))
	r.stop()
	r.openStore()
	r.startHub()
	ann.Send(conv, "A-17")
	r.event(ann, conv, body("Mail?"))
	account.Config = strings.Replace(account.Config, "A person comes", "Somebody comes", 1) // counts from the next turn on
	r.ok(r.db.UpdateBot(r.ctx, account))
	ann.Send(conv, "ann@example.com")
	r.event(ann, conv, body("Somebody comes"))
	r.event(ann, conv, state(store.Queued))
	r.ok(lin.Take(r.ctx, conv))
	c, err := r.db.Cold().Conversation(r.ctx, conv)
	r.ok(err)
	contact, err := r.db.Cold().Contact(r.ctx, c.Contact)
	r.ok(err)
	if contact.Attributes["order"] != "A-17" || contact.Attributes["email"] != "ann@example.com" {
		t.Errorf("%v", contact.Attributes)
	}
	events, _, err := r.db.Cold().Events(r.ctx, conv, store.StaffSide, 0, 100, 1<<20)
	r.ok(err)
	if !slices.ContainsFunc(events, func(e store.Event) bool {
		return e.Kind == store.KindNote && strings.Contains(e.Body, "• order: A-17")
	}) {
		t.Errorf("no summary in %+v", events)
	}
	r.checkView(ann, conv, store.CustomerSide)
}

// A hand-off that the full queue of the group refuses leaves the conversation with the bot, and the customer is told.
func TestHandoffToAFullQueue(t *testing.T) {
	r := newRig(t, Options{Limits: testLimits()})
	g, err := r.db.CreateGroup(r.ctx, store.Group{Name: "small", Settings: store.GroupSettings{MaxQueue: 1}})
	r.ok(err)
	r.site, err = r.db.CreateSite(r.ctx, store.Site{Key: "small", Name: "Small", BotName: "Eddy", Group: g.ID})
	r.ok(err)
	first, second := r.customer(), r.customer()
	waits := r.open(first, "human")
	conv := r.open(second, "bot")
	second.Send(conv, "我要人工")
	r.event(second, conv, body(bot.NobodyFree("我", "")))
	if n := r.hub.Counters.BotNoPlace.Load(); n != 1 {
		t.Errorf("%d refused hand-offs counted", n)
	}
	r.ok(first.EndConv(r.ctx, waits, ""))
	second.Send(conv, "human")
	r.event(second, conv, state(store.Queued))
	r.checkView(second, conv, store.CustomerSide)
}
