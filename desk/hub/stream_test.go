package hub

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-eddy/eddy/desk/desktest"
	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/store"
	"github.com/go-eddy/eddy/internal/testkit"
)

// modelService is a service of a language model whose streams a test scripts.
type modelService struct {
	*httptest.Server
	mu     sync.Mutex
	asked  []string // the last message of each request
	ended  atomic.Int32
	script func(s *stream, question string)
}

// stream is one answer under way.
type stream struct {
	w    http.ResponseWriter
	r    *http.Request
	open sync.Once
}

func (s *stream) event(data string) {
	s.open.Do(func() { s.w.Header().Set("Content-Type", "text/event-stream") })
	_, _ = fmt.Fprintf(s.w, "data: %s\n\n", data) // the client may have gone
	_ = http.NewResponseController(s.w).Flush()
}

func (s *stream) say(text string) {
	b, _ := json.Marshal(text)
	s.event(`{"choices":[{"delta":{"content":` + string(b) + `}}]}`)
}

func (s *stream) end() {
	s.event(`{"choices":[{"delta":{},"finish_reason":"stop"}]}`)
	s.event(`{"choices":[],"usage":{"prompt_tokens":30,"completion_tokens":4}}`)
	s.event("[DONE]")
}

// gone waits until the client has ended the request.
func (s *stream) gone() { <-s.r.Context().Done() }

func (m *modelService) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	defer m.ended.Add(1)
	var sent struct{ Messages []struct{ Content string } }
	if body, err := io.ReadAll(r.Body); err != nil || json.Unmarshal(body, &sent) != nil || len(sent.Messages) == 0 {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	question := sent.Messages[len(sent.Messages)-1].Content
	m.mu.Lock()
	m.asked = append(m.asked, question)
	m.mu.Unlock()
	m.script(&stream{w: w, r: r}, question)
}

func (m *modelService) questions() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.asked)
}

// assistant hires a bot with a language model; more are further settings.
func (r *rig) assistant(more string, script func(s *stream, question string)) (*modelService, store.BotAccount) {
	r.t.Helper()
	m := &modelService{script: script}
	m.Server = httptest.NewServer(m)
	r.t.Cleanup(m.Close)
	return m, r.hire(store.BotAssistant, modelSettings(m.URL, more))
}

// far are limits that a slow machine keeps.
const far = `"limits":{"first_ms":120000,"idle_ms":120000,"total_ms":600000`

func modelSettings(url, more string) string {
	return fmt.Sprintf(`{"url":%q,"model":"m","allow_private":true,"handoff":{"en":"Wait."},"apology":{"en":"Sorry!"},%s}%s}`, url, far, more)
}

func piece(text string) func(desktest.Frame) bool {
	return func(f desktest.Frame) bool {
		var p proto.Partial
		if f.T != "ev.partial" {
			return false
		}
		f.Decode(&p)
		return strings.Contains(p.Text, text)
	}
}

// said returns the texts of the bot that a customer sees.
func said(c *desktest.Client, conv string) (all []string) {
	for _, f := range c.View(conv) {
		var m proto.Msg
		if f.T != "ev.msg" {
			continue
		}
		if f.Decode(&m); m.From.Kind == "bot" {
			all = append(all, m.Body+"|"+m.Payload)
		}
	}
	return all
}

// The customer sees the text while it comes, and one message in the end, which is marked. Two customers are answered at
// once, and what was used is written down.
func TestStreamStory(t *testing.T) {
	r := newRig(t, Options{Limits: testLimits()})
	var both sync.WaitGroup
	both.Add(2)
	goOn := make(chan struct{})
	m, account := r.assistant("", func(s *stream, question string) {
		s.say("")
		both.Done()
		both.Wait() // each waits for the other
		s.say("Your ")
		<-goOn
		s.say(question)
		s.end()
	})
	_ = m
	ann, bob := r.customer(), r.customer()
	a, b := r.open(ann, "bot"), r.open(bob, "bot")
	ann.Send(a, "parcel")
	bob.Send(b, "refund")
	r.other(ann, func(f desktest.Frame) bool { return f.T == "ev.partial" && f.C == a })
	r.other(bob, func(f desktest.Frame) bool { return f.T == "ev.partial" && f.C == b })
	close(goOn)
	for _, c := range []struct {
		*desktest.Client
		conv, want string
	}{{ann, a, "Your parcel|generated"}, {bob, b, "Your refund|generated"}} {
		r.event(c.Client, c.conv, fromBot)
		if got := said(c.Client, c.conv); !slices.Equal(got, []string{c.want}) {
			t.Errorf("said %q, want %s", got, c.want)
		}
		r.checkView(c.Client, c.conv, store.CustomerSide)
	}
	used, err := r.db.Cold().BotUsage(r.ctx, account.ID, time.Now().Format(time.DateOnly))
	if r.ok(err); used != (store.BotUsage{Calls: 2, Prompt: 60, Completion: 8}) {
		t.Errorf("used %+v", used)
	}
	if s := r.hub.BotStats(); len(s) != 1 || s[0].Asked != 2 || s[0].Failed != 0 {
		t.Errorf("%+v", s)
	}
}

// A person who takes over ends the stream. Nothing of it is said, and nobody but its customer has seen pieces.
func TestStreamTakenOver(t *testing.T) {
	r := newRig(t, Options{Limits: testLimits()})
	m, _ := r.assistant("", func(s *stream, _ string) {
		s.say("I think")
		s.gone()
	})
	ann, lin := r.customer(), r.agent("lin")
	conv := r.open(ann, "bot")
	ann.Send(conv, "hello")
	r.other(ann, piece(""))
	r.ok(lin.Take(r.ctx, conv))
	r.event(ann, conv, state(store.Assigned))
	r.waitFor("the stream to end", func() bool { return m.ended.Load() == 1 })
	lin.Send(conv, "I am here")
	r.event(ann, conv, body("I am here"))
	if got := said(ann, conv); len(got) != 0 {
		t.Errorf("said %q", got)
	}
	if n := r.hub.Counters.BotFailed.Load(); n != 0 {
		t.Errorf("%d turns failed", n)
	}
	if f, err := lin.Other(canceled(), piece("")); err == nil {
		t.Errorf("staff were sent %s", f.D)
	}
}

// A restart in the middle begins the turn anew; there is one message.
func TestStreamRestart(t *testing.T) {
	r := newRig(t, Options{Limits: testLimits()})
	var asked atomic.Int32
	m, _ := r.assistant("", func(s *stream, _ string) {
		first := asked.Add(1) == 1 // before anybody hears of it
		s.say("Hello ")
		if first {
			s.gone()
			return
		}
		s.say("again")
		s.end()
	})
	ann := r.customer()
	conv := r.open(ann, "bot")
	ann.Send(conv, "hi")
	r.other(ann, piece(""))
	r.halt()
	r.startHub()
	r.event(ann, conv, fromBot)
	if got := said(ann, conv); !slices.Equal(got, []string{"Hello again|generated"}) || len(m.questions()) != 2 {
		t.Errorf("said %q to %q", got, m.questions())
	}
	r.checkView(ann, conv, store.CustomerSide)
}

// The end of an answer races a take-over: the customer sees all of it before, or nothing of it, and the stream is over.
func TestStreamRacesTakeOver(t *testing.T) {
	r := newRig(t, Options{Limits: testLimits()})
	ends := make(chan chan struct{}, 1)
	r.assistant("", func(s *stream, _ string) {
		s.say("Done")
		end := make(chan struct{})
		ends <- end
		<-end
		s.end()
	})
	lin := r.agentClient(r.account("lin", 100))
	for range 20 {
		ann := r.customer()
		conv := r.open(ann, "bot")
		ann.Send(conv, "hello")
		end := testkit.Receive(t, "the stream", ends)
		taken := make(chan error, 1)
		go func() { taken <- lin.Take(r.ctx, conv) }()
		close(end)
		r.ok(testkit.Receive(t, "the take-over", taken))
		lin.Send(conv, "me")
		r.event(ann, conv, body("me"))
		if got := said(ann, conv); len(got) > 1 {
			t.Fatalf("said %q", got)
		}
		r.checkView(ann, conv, store.CustomerSide)
	}
}

// A customer who has gone ends the stream; what was written until then is stored, so that both sides see the same.
func TestStreamCustomerGoes(t *testing.T) {
	var ahead atomic.Int64
	r := newRig(t, Options{Limits: testLimits(), Now: func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }})
	goOn := make(chan struct{})
	m, _ := r.assistant("", func(s *stream, _ string) {
		s.say("one ")
		<-goOn
		s.say("two")
		s.gone()
	})
	ann := r.customer()
	conv := r.open(ann, "bot")
	ann.Send(conv, "count")
	r.other(ann, piece("one"))
	ann.Close()
	r.waitFor("the customer to be gone", func() bool {
		r.hub.mu.Lock()
		defer r.hub.mu.Unlock()
		return len(r.hub.sessions.contacts) == 0
	})
	ahead.Store(int64(goneAfter))
	close(goOn)
	r.waitFor("the stream to end", func() bool { return m.ended.Load() == 1 })
	r.waitFor("what was written to be stored", func() bool { return slices.Contains(r.stored(conv), "one two…|generated") })
}

// The pieces of one attempt are numbered from 0, and those of the second begin anew.
func TestStreamPiecesAreNumbered(t *testing.T) {
	r := newRig(t, Options{Limits: testLimits()})
	var asked atomic.Int32
	goOn := make(chan struct{})
	r.assistant("", func(s *stream, _ string) {
		if asked.Add(1) == 1 {
			s.event("nonsense")
			return
		}
		s.say("Hello")
		<-goOn
		s.end()
	})
	ann := r.customer()
	conv := r.open(ann, "bot")
	ann.Send(conv, "hi")
	r.other(ann, piece("Hello"))
	close(goOn)
	r.event(ann, conv, fromBot)
	var got []proto.Partial
	for _, f := range ann.Others() {
		if f.T == "ev.partial" {
			var p proto.Partial
			f.Decode(&p)
			got = append(got, p)
		}
	}
	if len(got) != 3 || got[0].N != 0 || got[1].N != 0 || got[2].N != 1 || got[2].Text != "Hello" || got[0].Turn == "" || got[0].Turn != got[2].Turn {
		t.Errorf("%+v", got)
	}
}

// A customer who does not read holds no stream.
func TestStreamOfASlowCustomer(t *testing.T) {
	r := newRig(t, Options{Limits: testLimits()})
	m, _ := r.assistant("", func(s *stream, _ string) {
		for range 50 {
			s.say("word ")
		}
		s.end()
	})
	ann := r.customer()
	conv := r.open(ann, "bot")
	r.mu.Lock()
	w := r.wires[len(r.wires)-1]
	r.mu.Unlock()
	w.mu.Lock()
	w.stall = true
	w.mu.Unlock()
	ann.Send(conv, "hello")
	r.waitFor("the stream to end", func() bool { return m.ended.Load() == 1 })
	r.waitFor("the answer to be stored", func() bool { return len(r.stored(conv)) == 1 })
}

// stored returns the texts of the bot in a conversation.
func (r *rig) stored(conv string) (all []string) {
	r.t.Helper()
	events, _, err := r.db.Cold().Events(r.ctx, conv, store.CustomerSide, 0, 100, 1<<20)
	r.ok(err)
	for _, e := range events {
		if e.Kind == store.KindText && e.From.Kind == store.Bot {
			all = append(all, e.Body+"|"+e.Payload)
		}
	}
	return all
}

// What goes wrong in the middle is followed by an apology and a person, and never by half an answer.
func TestStreamFaults(t *testing.T) {
	for name, c := range map[string]struct {
		script func(s *stream)
		want   []string
	}{
		"ends in the middle": {func(s *stream) { s.say("Your par") }, []string{"Sorry!|"}},
		"breaks":             {func(s *stream) { s.say("Your par"); panic(http.ErrAbortHandler) }, []string{"Sorry!|"}},
		"garbage":            {func(s *stream) { s.event("<html>") }, []string{"Sorry!|"}},
		"a huge line":        {func(s *stream) { s.event(strings.Repeat("x", 1<<20)) }, []string{"Sorry!|"}},
		"500":                {func(s *stream) { s.w.WriteHeader(500) }, []string{"Sorry!|"}},
		"429":                {func(s *stream) { s.w.WriteHeader(429) }, []string{"Sorry!|"}},
		"asks for a person":  {func(s *stream) { s.say("No idea. [[PERSON]]"); s.end() }, []string{"No idea.|generated", "Wait.|"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // some wait for the second attempt
			r := newRig(t, Options{Limits: testLimits()})
			r.assistant("", func(s *stream, _ string) { c.script(s) })
			ann := r.customer()
			conv := r.open(ann, "bot")
			ann.Send(conv, "hello")
			r.event(ann, conv, state(store.Queued))
			if got := said(ann, conv); !slices.Equal(got, c.want) {
				t.Errorf("said %q, want %q", got, c.want)
			}
		})
	}
}

// When the tokens of the day are used up, the customer who asks gets a person and a word, and the next ones begin there.
func TestStreamBudget(t *testing.T) {
	r := newRig(t, Options{Limits: testLimits()})
	m, account := r.assistant("", func(s *stream, _ string) { s.say("yes"); s.end() })
	account.Config = strings.Replace(modelSettings(m.URL, ""), far, far+`,"tokens_day":2000`, 1)
	r.ok(r.db.UpdateBot(r.ctx, account))
	ann := r.customer()
	conv := r.open(ann, "bot")
	ann.Send(conv, "hello")
	r.event(ann, conv, fromBot)
	r.ok(r.db.AddBotUsage(r.ctx, account.ID, time.Now().Format(time.DateOnly), store.BotUsage{Prompt: 1900}))
	ann.Send(conv, "and?")
	r.event(ann, conv, state(store.Queued))
	if got := said(ann, conv); !slices.Equal(got, []string{"yes|generated", "Wait.|"}) || len(m.questions()) != 1 {
		t.Errorf("said %q to %q", got, m.questions())
	}
	events, _, err := r.db.Cold().Events(r.ctx, conv, store.StaffSide, 0, 100, 1<<20)
	r.ok(err)
	if !slices.ContainsFunc(events, func(e store.Event) bool {
		return e.Kind == store.KindNote && strings.Contains(e.Body, "limits.tokens_day") && strings.Contains(e.Body, "2000")
	}) {
		t.Errorf("staff are not told the bound: %+v", events)
	}
	bob := r.customer()
	r.event(bob, r.open(bob, "bot"), state(store.Queued))
	if n := r.hub.Counters.BotBounds.Load(); n != 1 {
		t.Errorf("%d bounds counted", n)
	}
}

// A webhook bot with a greeting says it before the customer writes, and is not asked for it.
func TestWebhookGreetsFirst(t *testing.T) {
	r := newRig(t, Options{Limits: testLimits()})
	b, _ := r.webhook(`,"greeting":{"en":"Welcome","zh":"您好"}`, func(w http.ResponseWriter, _ *http.Request, a asked) { say(w, "You said "+a.Message.Text) })
	r.knows(r.site)
	ann := r.customer()
	conv := r.open(ann, "bot")
	ann.Send(conv, "hello")
	r.event(ann, conv, body("You said hello"))
	events, _, err := r.db.Cold().Events(r.ctx, conv, store.StaffSide, 0, 100, 1<<20)
	r.ok(err)
	if len(events) != 4 || events[1].Body != "Welcome" || events[2].Body != "hello" || len(b.seen()) != 1 {
		t.Errorf("%+v; asked %+v", events, b.seen())
	}
}
