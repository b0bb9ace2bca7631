package desk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/go-eddy/eddy/desk/desktest"
	"github.com/go-eddy/eddy/desk/perm"
	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/store"
	"github.com/go-eddy/eddy/internal/testkit"
	"github.com/go-eddy/eddy/trace"
)

const (
	clientTrace = "0af7651916cd43dd8448eb211c80319c"
	clientSpan  = "b7ad6b7169203331"
	clientSays  = "00-" + clientTrace + "-" + clientSpan + "-01"
)

// spans is a Tracer that remembers the spans of requests to others, by their traceparent, and what they are below.
type spans struct {
	mu    sync.Mutex
	below map[string]string
	ended map[string]bool
}

// newSpan returns a span below another one, or of a new trace.
func newSpan(p trace.Parent) trace.Parent {
	if !p.Valid() {
		for i := range p.Trace {
			p.Trace[i] = byte(rand.Uint32())
		}
	}
	for i := range p.Span {
		p.Span[i] = byte(rand.Uint32())
	}
	p.Sampled = true
	return p
}

func (s *spans) Begin(r *trace.Request) (context.Context, trace.Parent) {
	if !r.Sampled() {
		return context.Background(), r.From()
	}
	return context.Background(), newSpan(r.From())
}

func (*spans) End(context.Context, *trace.Summary) {}

func (s *spans) BeginCall(below trace.Parent, _, _ string) (trace.Parent, func(error)) {
	self := newSpan(below)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.below[self.Traceparent()] = below.Traceparent()
	return self, func(error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.ended[self.Traceparent()] = true
	}
}

// above returns what the span of a request is below, "" if there is no such span or it has not ended.
func (s *spans) above(traceparent string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ended[traceparent] {
		return ""
	}
	return s.below[traceparent]
}

// tracedDesk is a Desk with a recorder, a webhook, and a site "shop" whose bot is a program.
type tracedDesk struct {
	*served
	rec   *trace.Recorder
	spans *spans
	turns chan string // traceparents of the questions to the bot

	mu   sync.Mutex
	told map[string][]string // traceparents of what the webhook was told, by type
}

func newTracedDesk(t *testing.T, share float64, trust bool) *tracedDesk {
	t.Helper()
	d := &tracedDesk{spans: &spans{below: make(map[string]string), ended: make(map[string]bool)}, turns: make(chan string, 100), told: make(map[string][]string)}
	var err error
	if d.rec, err = trace.New(trace.Options{Sample: share, Tracer: d.spans}); err != nil {
		t.Fatal(err)
	}
	bot := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		d.turns <- r.Header.Get("traceparent")
		_, _ = io.WriteString(w, `{"messages":[{"text":"here I am"}]}`)
	}))
	t.Cleanup(bot.Close)
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var h struct{ Type string }
		err := json.NewDecoder(r.Body).Decode(&h)
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return // Desk ends, and tells it again when it is back
		}
		if err != nil {
			t.Error(err)
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		d.told[h.Type] = append(d.told[h.Type], r.Header.Get("traceparent"))
	}))
	t.Cleanup(hook.Close)
	o := testOptions(t)
	o.Trace, o.TrustTrace, o.Frames = d.rec, trust, "127.0.0.1:0"
	d.served = serve(t, o)
	account, err := d.desk.store.CreateBot(d.ctx, store.BotAccount{
		Name: "Hal", Kind: store.BotWebhook, Config: fmt.Sprintf(`{"url":%q,"secret":"a secret of the test","allow_private":true,"timeout_ms":60000}`, bot.URL),
	})
	d.ok(err)
	_, err = d.desk.store.CreateSite(d.ctx, store.Site{Key: "shop", Name: "Shop", Bot: account.ID})
	d.ok(err)
	_, err = d.desk.store.CreateWebhook(d.ctx, store.Webhook{URL: hook.URL, Private: true, Secrets: []string{strings.Repeat("k", store.MinSecret)}})
	d.ok(err)
	return d
}

// hooked waits until the webhook was told of so many events of a type, and returns the traceparents.
func (d *tracedDesk) hooked(typ string, n int) (all []string) {
	d.t.Helper()
	testkit.Eventually(d.t, fmt.Sprintf("%d times %s", n, typ), func() bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		all = slices.Clone(d.told[typ])
		return len(all) >= n
	})
	return all
}

// record waits for the last record with a name.
func (d *tracedDesk) record(name string) (found *trace.Summary) {
	d.t.Helper()
	testkit.Eventually(d.t, name+" to be recorded", func() bool {
		for _, s := range d.rec.Slowest() {
			if s.About.Name == name && (found == nil || s.Number > found.Number) {
				found = s
			}
		}
		return found != nil
	})
	return found
}

// below fails unless a request to another service has a span below the record.
func (d *tracedDesk) below(s *trace.Summary, what, traceparent string) {
	d.t.Helper()
	want := s.Self.Traceparent()
	testkit.Eventually(d.t, what+" to have a span", func() bool { return traceparent == "" || d.spans.above(traceparent) != "" })
	if got := d.spans.above(traceparent); got != want {
		d.t.Errorf("%s has %q, which is below %q, want %q: %s", what, traceparent, got, want, s.About.Name)
	}
}

// client connects a new visitor of the site shop, whose handshake has header fields.
func (d *tracedDesk) client(dial func(context.Context, string, http.Header) (desktest.Transport, error), header http.Header) *desktest.Client {
	d.t.Helper()
	var v struct{ Token string }
	d.ok(d.web.Post(d.ctx, "/api/v1/widget/session", map[string]string{"site": "shop"}, &v))
	c := desktest.New(func(ctx context.Context) (desktest.Transport, proto.Hello, error) {
		t, err := dial(ctx, d.base.Load().(string), header)
		return t, proto.Hello{Token: v.Token, Locale: "en"}, err
	})
	d.t.Cleanup(c.Close)
	return c
}

func dialPoll(ctx context.Context, base string, header http.Header) (desktest.Transport, error) {
	return desktest.DialPoll(ctx, base, header)
}

// TestTraces: a command continues the trace of its trusted handshake, and all that it causes is below it in the same trace: the question
// to the bot, the webhook about what the client has said, and that about what the bot has answered.
func TestTraces(t *testing.T) {
	const stored = "handler queue wait queue wait handler hop"
	for name, c := range map[string]struct {
		dial   func(context.Context, string, http.Header) (desktest.Transport, error)
		stages string
	}{"WebSocket": {desktest.Dial, stored + " write"}, "long poll": {dialPoll, stored}} {
		t.Run(name, func(t *testing.T) {
			d := newTracedDesk(t, 0, true)
			ann := d.client(c.dial, http.Header{"Traceparent": {clientSays}})
			conv, err := ann.Open(d.ctx, "bot")
			d.ok(err)
			opened := d.record("conv.open")
			d.below(opened, "the question to greet", testkit.Receive(t, "the greeting to be asked for", d.turns))
			d.below(opened, "the webhook about the chat", d.hooked("conversation.opened", 1)[0])
			d.below(opened, "the webhook about the greeting", d.hooked("message.created", 1)[0])
			ann.Send(conv, "hello")
			d.ok(ann.Flushed(d.ctx))
			sent := d.record("msg.send")
			d.below(sent, "the question to answer", testkit.Receive(t, "the text to be answered", d.turns))
			for i, traceparent := range d.hooked("message.created", 3)[1:] {
				d.below(sent, fmt.Sprintf("webhook %d about messages", i), traceparent)
			}
			for _, s := range []*trace.Summary{d.record("hello"), opened, sent} {
				if s.About.Protocol != "desk" || s.From.Traceparent() != clientSays || s.Self.Trace.String() != clientTrace || s.Failed != "" {
					t.Errorf("%+v", s)
				}
			}
			var stages []string
			for _, p := range sent.Stages {
				if p.Stage != trace.LoopWait && p.Stage != trace.Dispatch {
					stages = append(stages, p.Stage.String())
				}
			}
			if got := strings.Join(stages, " "); got != c.stages {
				t.Errorf("%s, want %s", got, c.stages)
			}
		})
	}
}

// TestTracesUntrusted: a server that trusts nobody takes no trace. Each command that it samples, by WebSocket and by the frame protocol,
// begins a trace of its own.
func TestTracesUntrusted(t *testing.T) {
	d := newTracedDesk(t, 1, false)
	ann := d.client(desktest.Dial, http.Header{"Traceparent": {clientSays}})
	_, err := ann.Open(d.ctx, "bot")
	d.ok(err)
	opened := d.record("conv.open")
	d.below(opened, "the webhook about the chat", d.hooked("conversation.opened", 1)[0])
	bob := d.dial()
	bob.command(hello(d.visitor()))
	bob.until("welcome")
	bob.command(`{"t":"ping","id":"p","d":{}}`)
	bob.until("pong")
	ping := d.record("ping")
	if n := d.rec.Stats(); n.Untrusted != 1 || n.Received != 0 {
		t.Errorf("%+v", n)
	}
	if a, b := opened.Self.Trace, ping.Self.Trace; a == b || a.String() == clientTrace || opened.From.Valid() || ping.From.Valid() || ping.Failed != "" {
		t.Errorf("%+v, %+v", opened, ping)
	}
}

// TestTracesUnsampled: what is not sampled is not recorded, and nothing that it causes has a traceparent.
func TestTracesUnsampled(t *testing.T) {
	d := newTracedDesk(t, 0, true)
	for _, says := range []string{"", strings.TrimSuffix(clientSays, "1") + "0"} {
		header := http.Header{}
		if says != "" {
			header.Set("Traceparent", says)
		}
		_, err := d.client(desktest.Dial, header).Open(d.ctx, "bot")
		d.ok(err)
		if got := testkit.Receive(t, "the greeting to be asked for", d.turns); got != "" {
			t.Errorf("the bot got %q", got)
		}
	}
	for _, typ := range []string{"conversation.opened", "message.created"} {
		if got := strings.Join(d.hooked(typ, 2), ""); got != "" {
			t.Errorf("%s has %q", typ, got)
		}
	}
	if n := d.rec.Stats(); n.Sampled != 0 || n.Received != 1 || n.Unsampled < 4 {
		t.Errorf("%+v", n)
	}
}

// TestTracesOfCalls: a call of a program continues the trace of its traceparent where that is trusted. What it changes is in its trace, a
// conversation as well as a contact, and a refusal is its failure. Calls that wait for events are not recorded.
func TestTracesOfCalls(t *testing.T) {
	d := newTracedDesk(t, 0, true)
	conv, err := d.client(desktest.Dial, nil).Open(d.ctx, "human")
	d.ok(err)
	c, err := d.desk.store.Cold().Conversation(d.ctx, conv)
	d.ok(err)
	p := d.program(perm.KeySend, perm.KeyWrite, perm.KeyEvents)
	call := func(want int, method, path, body string) {
		t.Helper()
		if status, data := p.ask(method, path, body, "Traceparent", clientSays, "Idempotency-Key", path); status != want {
			t.Fatalf("%s %s: %d %s", method, path, status, data)
		}
	}
	before := len(d.hooked("conversation.opened", 1))
	call(http.StatusOK, "GET", "/api/v1/events", "")
	call(http.StatusOK, "POST", "/api/v1/conversations/"+conv+"/messages", `{"text":"hello"}`)
	said := d.record("POST /api/v1/conversations/{id}/messages")
	d.below(said, "the webhook about the message", d.hooked("message.created", before)[0])
	call(http.StatusOK, "PATCH", "/api/v1/contacts/"+c.Contact, `{"name":"Ann"}`)
	patched := d.record("PATCH /api/v1/contacts/{id}")
	d.below(patched, "the webhook about the contact", d.hooked("contact.changed", 1)[0])
	call(http.StatusNotFound, "PATCH", "/api/v1/contacts/nobody", `{"name":"Ann"}`)
	testkit.Eventually(t, "three records", func() bool { return d.rec.Stats().Ended >= 3 })
	refused := d.record("PATCH /api/v1/contacts/{id}")
	for _, s := range []*trace.Summary{said, patched, refused} {
		if s.About.Protocol != "desk" || s.From.Traceparent() != clientSays || (s.Failed != "") != (s == refused) {
			t.Errorf("%+v", s)
		}
	}
	if refused.Failed != "not_found" || refused == patched || d.rec.Stats().Sampled != 3 {
		t.Errorf("%+v; %+v", refused, d.rec.Stats())
	}
}
