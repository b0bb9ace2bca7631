package hooks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.uber.org/goleak"

	"github.com/go-eddy/eddy/desk/safehttp"
	"github.com/go-eddy/eddy/desk/store"
	"github.com/go-eddy/eddy/desk/store/sqlstore"
	"github.com/go-eddy/eddy/desk/store/sqlstore/sqlitetest"
	"github.com/go-eddy/eddy/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// clock is a time that its test moves on, with the timers that wait for it.
type clock struct {
	mu     sync.Mutex
	now    time.Time
	timers map[chan time.Time]time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) after(d time.Duration) (<-chan time.Time, func() bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	ch := make(chan time.Time, 1)
	c.timers[ch] = c.now.Add(d)
	return ch, func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		_, waits := c.timers[ch]
		delete(c.timers, ch)
		return waits
	}
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
	for ch, at := range c.timers {
		if !at.After(c.now) {
			ch <- c.now
			delete(c.timers, ch)
		}
	}
}

// sent is one request.
type sent struct {
	host, lane, id string
	event          uint64
	header         http.Header
	body           []byte
}

// rig is a store, and receivers that answer as the test says.
type rig struct {
	*sqlstore.DB
	t     *testing.T
	clock *clock
	o     Options
	hooks *Hooks
	site  store.Site

	mu    sync.Mutex
	sent  []sent
	serve func(s sent) (int, error) // 0 = never
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{t: t, clock: &clock{now: time.Now(), timers: make(map[chan time.Time]time.Time)}, serve: func(sent) (int, error) { return http.StatusOK, nil }}
	path := filepath.Join(t.TempDir(), "desk.db")
	sqlitetest.Prepare(t, path)
	db, err := sqlstore.Open(t.Context(), sqlstore.Options{Path: path, Now: r.clock.Now, Logger: slog.New(slog.DiscardHandler)})
	r.ok(err)
	r.DB = db
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	r.site, err = db.CreateSite(t.Context(), store.Site{Key: "demo", Name: "Demo"})
	r.ok(err)
	turns := make(chan struct{}, 2)
	r.o = Options{
		Store: db, Now: r.clock.Now, After: r.clock.after, Logger: slog.New(slog.DiscardHandler),
		Turn: func(context.Context) (func(), error) {
			turns <- struct{}{}
			return func() { <-turns }, nil
		},
		Tell: func(_ context.Context, row *store.OutboxRow) (json.RawMessage, error) {
			return json.Marshal(map[string]any{"id": row.ID, "lane": row.Lane(), "event": row.Event})
		},
		Keep:   100_000 * time.Hour,
		client: func(bool) (doer, error) { return r, nil },
	}
	t.Cleanup(func() { r.stop() })
	return r
}

func (r *rig) ok(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// Do implements doer.
func (r *rig) Do(req *http.Request, _ int64, done func(safehttp.Response, error)) {
	body, err := io.ReadAll(req.Body)
	s := sent{host: req.URL.Host, header: req.Header, body: body, id: req.Header.Get(HeaderEvent)}
	var v struct {
		Lane  string `json:"lane"`
		Event uint64 `json:"event"`
	}
	if err := errors.Join(err, json.Unmarshal(body, &v)); err != nil {
		r.t.Error(err)
	}
	s.lane, s.event = v.Lane, v.Event
	r.mu.Lock()
	r.sent = append(r.sent, s)
	status, err := r.serve(s)
	r.mu.Unlock()
	switch {
	case err != nil:
		done(safehttp.Response{}, err)
	case status != 0:
		done(safehttp.Response{Status: status}, nil)
	}
}

// answers sets how receivers answer.
func (r *rig) answers(serve func(s sent) (int, error)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.serve = serve
}

// to returns what was sent to a host.
func (r *rig) to(host string) (all []sent) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.sent {
		if s.host == host {
			all = append(all, s)
		}
	}
	return all
}

func (r *rig) start() {
	r.t.Helper()
	h, err := New(r.o)
	r.ok(err)
	r.hooks = h
	r.ok(h.Start())
}

func (r *rig) stop() {
	if r.hooks != nil {
		r.ok(r.hooks.Stop())
		r.hooks = nil
	}
}

func (r *rig) hook(host string, change ...func(*store.Webhook)) store.Webhook {
	r.t.Helper()
	w := store.Webhook{URL: "https://" + host + "/hook", Secrets: []string{strings.Repeat("s", store.MinSecret)}}
	for _, c := range change {
		c(&w)
	}
	w, err := r.CreateWebhook(r.t.Context(), w)
	r.ok(err)
	if r.hooks != nil {
		r.hooks.Changed()
	}
	return w
}

// open begins a conversation, and returns its id: one event.
func (r *rig) open() string {
	r.t.Helper()
	id := uuid.New()
	var token store.Token
	copy(token[:], id[:])
	c, err := r.CreateVisitor(r.t.Context(), r.site, token, time.Now().Add(time.Hour))
	r.ok(err)
	return r.do(store.Open{Contact: c, Human: true}).Conv.ID
}

// say adds a message: one event.
func (r *rig) say(conv string) {
	r.t.Helper()
	r.do(store.Append{Conv: conv, From: store.Actor{Kind: store.System, ID: "x"}, ClientID: uuid.NewString(), Body: "x"})
}

func (r *rig) do(cmd store.Command) store.Outcome {
	r.t.Helper()
	result := make(chan store.Outcome, 2)
	r.Do2(cmd, func(out store.Outcome) { result <- out })
	out := <-result
	r.ok(out.Err)
	return out
}

// Do2 is that of the store, since the rig's is that of a client.
func (r *rig) Do2(cmd store.Command, done func(store.Outcome)) {
	r.DB.Do(cmd, time.Now().Add(time.Hour), done)
}

func (r *rig) eventually(what string, cond func() bool) {
	r.t.Helper()
	testkit.Eventually(r.t, what, cond)
}

// passes lets time go by in steps until something holds. What waits for a time in between is woken in turn.
func (r *rig) passes(what string, step time.Duration, cond func() bool) {
	r.t.Helper()
	r.eventually(what, func() bool {
		if cond() {
			return true
		}
		r.clock.advance(step)
		return false
	})
}

func (r *rig) numbers(w store.Webhook) store.HookNumbers {
	r.t.Helper()
	n, err := r.Cold().HookNumbers(r.t.Context(), w.ID)
	r.ok(err)
	return n
}

// inOrder fails unless the first deliveries of each lane are in order and without a gap.
func (r *rig) inOrder(host string, want int) {
	r.t.Helper()
	seen, last := make(map[string]bool), make(map[string]uint64)
	for _, s := range r.to(host) {
		if seen[s.id] {
			continue
		}
		if seen[s.id] = true; s.event != last[s.lane]+1 {
			r.t.Errorf("%s: event %d of %s after %d", host, s.event, s.lane, last[s.lane])
		}
		last[s.lane] = s.event
	}
	if len(seen) != want {
		r.t.Errorf("%s: %d events, want %d", host, len(seen), want)
	}
}

// Two webhooks are told everything in order, each what it wants; one that never answers, fails, redirects or closes
// delays no other.
func TestOneReceiverDelaysNoOther(t *testing.T) {
	for name, serve := range map[string]func() (int, error){
		"never answers": func() (int, error) { return 0, nil },
		"fails":         func() (int, error) { return http.StatusInternalServerError, nil },
		"redirects":     func() (int, error) { return http.StatusFound, nil },
		"closes":        func() (int, error) { return 0, io.ErrUnexpectedEOF },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.answers(func(s sent) (int, error) {
				if s.host == "bad.example" {
					return serve()
				}
				return http.StatusOK, nil
			})
			r.start()
			bad := r.hook("bad.example")
			r.hook("good.example")
			only := r.hook("only.example", func(w *store.Webhook) { w.Types = []store.EventType{store.EventOpened} })
			var convs []string
			for range 20 {
				convs = append(convs, r.open())
			}
			for range 4 {
				for _, c := range convs {
					r.say(c)
				}
			}
			r.eventually("the good one has all", func() bool { return len(r.to("good.example")) == 100 })
			r.inOrder("good.example", 100)
			r.eventually("the modest one has its own", func() bool { return len(r.to("only.example")) == 20 })
			r.passes("the bad one gets one request at a time", Timeout, func() bool {
				for _, s := range r.hooks.Stats() {
					if s.ID == bad.ID && s.Failing && s.Failed >= breakAfter {
						return true
					}
				}
				return false
			})
			r.eventually("the store knows that it fails", func() bool {
				w, err := r.Cold().Webhook(t.Context(), bad.ID)
				r.ok(err)
				return w.Failing != 0 && w.Failure != ""
			})
			if n := len(r.to("bad.example")); n > 40 {
				t.Errorf("%d requests to one that does not take them", n)
			}
			r.answers(func(sent) (int, error) { return http.StatusOK, nil })
			r.passes("it has all", time.Minute, func() bool { n := r.numbers(bad); return n.Waiting == 0 && n.Behind == 0 })
			seen := make(map[string]bool)
			for _, s := range r.to("bad.example") {
				seen[s.id] = true
			}
			if n := r.numbers(bad); len(seen) != 100 || n.Dead != 0 {
				t.Errorf("%d of 100 events, %+v", len(seen), n)
			}
			r.eventually("the modest one has passed the others", func() bool { return r.numbers(only).Behind == 0 })
		})
	}
}

// An event that a receiver cannot take holds up its conversation and no other, and is given up after a day. Then those
// behind it come. It can be tried again, or discarded.
func TestOnePoisonousEvent(t *testing.T) {
	r := newRig(t)
	w := r.hook("shop.example")
	bad := r.open()
	var poison atomic.Bool
	poison.Store(true)
	r.answers(func(s sent) (int, error) {
		if s.lane == bad && s.event == 2 && poison.Load() {
			return http.StatusBadRequest, nil
		}
		return http.StatusOK, nil
	})
	r.say(bad)
	r.say(bad) // in one round with the one before it
	r.start()
	var others []string
	for range 30 {
		others = append(others, r.open())
	}
	for _, c := range others {
		r.say(c)
	}
	r.eventually("all others", func() bool { return r.numbers(w).Behind == 0 })
	of := func(event uint64) (n int) {
		for _, s := range r.to("shop.example") {
			if s.lane == bad && s.event == event {
				n++
			}
		}
		return n
	}
	if n := r.numbers(w); n.Waiting != 2 || of(3) != 0 || of(1) != 1 {
		t.Errorf("%+v, the event behind was sent %d times", n, of(3))
	}
	r.passes("it is given up", 30*time.Minute, func() bool { return r.numbers(w).Dead == 1 })
	r.eventually("the one behind it comes", func() bool { return of(3) == 1 })
	if s := r.hooks.Stats(); s[0].Failing {
		t.Error("one event makes the webhook fail")
	}
	if n := of(2); n < 2 || n > 40 {
		t.Errorf("it was tried %d times in a day", n)
	}
	dead, err := r.Cold().DeadEvents(t.Context(), w.ID, 10)
	if err != nil || len(dead) != 1 || dead[0].Event != 2 || dead[0].Attempts != of(2) || !strings.Contains(dead[0].Failure, "400") {
		t.Fatalf("%+v %v", dead, err)
	}
	tries := of(2)
	again := func() {
		_, err := r.RetryDead(t.Context(), w.ID, dead[0].Seq)
		r.ok(err)
		r.hooks.Changed()
	}
	again()
	r.eventually("it is given up again", func() bool { return of(2) == tries+1 && r.numbers(w).Dead == 1 })
	poison.Store(false)
	again()
	r.eventually("it is taken", func() bool { return of(2) == tries+2 && r.numbers(w).Dead == 0 && r.numbers(w).Waiting == 0 })
	if got, err := r.Cold().Webhook(t.Context(), w.ID); err != nil || got.Failing != 0 || got.Failure != "" {
		t.Errorf("%+v %v", got, err)
	}
}

// What a receiver that is dead for days is not told is given up after a day each, within bounds, and what the outbox has
// deleted is counted.
func TestDeadReceiver(t *testing.T) {
	r := newRig(t)
	r.answers(func(sent) (int, error) { return http.StatusBadGateway, nil })
	w := r.hook("shop.example")
	for range 200 {
		r.open()
	}
	r.start()
	r.passes("everything is given up", time.Hour, func() bool { n := r.numbers(w); return n.Dead+n.Waiting == 200 && n.Behind == 0 && n.Waiting == 0 })
	if n := len(r.to("shop.example")); n > 700 {
		t.Errorf("%d requests to a receiver that is dead", n)
	}
	r.stop()
	for range 10 {
		r.open()
	}
	if _, err := r.TrimOutbox(t.Context(), store.OutboxTrim{Keep: 4, Limit: 1000}); err != nil {
		t.Fatal(err)
	}
	r.answers(func(sent) (int, error) { return http.StatusNoContent, nil })
	before := len(r.to("shop.example"))
	r.start()
	r.passes("the rest is told", time.Minute, func() bool { n := r.numbers(w); return n.Behind == 0 && len(r.to("shop.example")) >= before+4 })
	if got, err := r.Cold().Webhook(t.Context(), w.ID); err != nil || got.Lost != 6 {
		t.Errorf("%+v %v", got, err)
	}
}

// cut is a store that loses what webhooks have got to, as a crash between the answer and the commit does.
type cut struct {
	store.Store
	off atomic.Bool
}

func (c *cut) SaveHook(ctx context.Context, p store.HookProgress) error {
	if c.off.Load() {
		return store.ErrUnavailable
	}
	return c.Store.SaveHook(ctx, p)
}

// What was sent and not marked is sent again after a restart, with the same ids and in the same order.
func TestCrashBetweenSendAndMark(t *testing.T) {
	r := newRig(t)
	c := &cut{Store: r.DB}
	r.o.Store = c
	w := r.hook("shop.example")
	var convs []string
	for range 5 {
		conv := r.open()
		convs = append(convs, conv)
		r.say(conv)
	}
	c.off.Store(true)
	r.start()
	r.eventually("the first are sent", func() bool { return len(r.to("shop.example")) >= 10 })
	r.stop()
	first, before := make(map[string]bool), len(r.to("shop.example"))
	for _, s := range r.to("shop.example") {
		first[s.id] = true
	}
	c.off.Store(false)
	r.say(convs[0])
	r.start()
	r.eventually("all are told", func() bool { return r.numbers(w).Behind == 0 })
	again := 0
	for _, s := range r.to("shop.example")[before:] {
		if first[s.id] {
			again++
		}
	}
	if again != 10 {
		t.Errorf("%d of 10 come again", again)
	}
	r.inOrder("shop.example", 11)
	r.stop()
	n := len(r.to("shop.example"))
	r.start()
	r.say(convs[1])
	r.eventually("the new one comes", func() bool { return r.numbers(w).Behind == 0 && len(r.to("shop.example")) > n })
	if got := len(r.to("shop.example")); got != n+1 {
		t.Errorf("%d come again after an orderly end", got-n-1)
	}
	n = len(r.to("shop.example"))
	r.answers(func(sent) (int, error) { return 0, nil })
	r.say(convs[2])
	r.eventually("one is under way", func() bool { return len(r.to("shop.example")) == n+1 })
	r.stop()
	r.answers(func(sent) (int, error) { return http.StatusOK, nil })
	r.start()
	r.eventually("what had no answer comes again", func() bool { return r.numbers(w).Behind == 0 })
	if all := r.to("shop.example"); len(all) != n+2 || all[n].id != all[n+1].id {
		t.Errorf("%d requests, want %d", len(all), n+2)
	}
}

// TestTraceparent: what belongs to a trace is sent with its traceparent, at each try and also by the next start; nothing else has one.
func TestTraceparent(t *testing.T) {
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	r := newRig(t)
	r.hook("a.example")
	r.answers(func(sent) (int, error) { return http.StatusServiceUnavailable, nil })
	r.start()
	conv := r.open()
	r.do(store.Traced{Command: store.Append{Conv: conv, From: store.Actor{Kind: store.System, ID: "x"}, ClientID: uuid.NewString(), Body: "x"}, Trace: parent})
	r.passes("a second try", time.Second, func() bool { return len(r.to("a.example")) >= 2 })
	r.stop()
	r.answers(func(sent) (int, error) { return http.StatusOK, nil })
	r.start()
	before := len(r.to("a.example"))
	r.passes("both events", time.Second, func() bool { return len(r.to("a.example")) >= before+2 })
	for i, s := range r.to("a.example") {
		want := ""
		if s.event == 2 {
			want = parent
		}
		if got := s.header.Get("traceparent"); got != want {
			t.Errorf("request %d, event %d: traceparent %q, want %q", i, s.event, got, want)
		}
	}
}

// A receiver checks the signatures of both secrets by itself.
func TestSignature(t *testing.T) {
	r := newRig(t)
	secrets := []string{strings.Repeat("new", 20), strings.Repeat("old", 20)}
	w := r.hook("shop.example", func(w *store.Webhook) { w.Secrets = secrets })
	r.open()
	r.start()
	r.eventually("it is told", func() bool { return r.numbers(w).Behind == 0 })
	s := r.to("shop.example")[0]
	for _, secret := range secrets {
		if !verify(secret, s.header.Get("Eddy-Timestamp"), s.header.Get("Eddy-Signature"), s.body) {
			t.Errorf("%v", s.header)
		}
	}
	if verify("another", s.header.Get("Eddy-Timestamp"), s.header.Get("Eddy-Signature"), s.body) || verify(secrets[0], "1", s.header.Get("Eddy-Signature"), s.body) ||
		verify(secrets[0], s.header.Get("Eddy-Timestamp"), s.header.Get("Eddy-Signature"), append(slices.Clone(s.body), ' ')) {
		t.Error("a wrong signature is taken")
	}
	if s.header.Get("Content-Type") != "application/json" || s.header.Get("Eddy-Event") == "" || s.header.Get("Eddy-Timestamp") != fmt.Sprint(r.clock.Now().Unix()) {
		t.Errorf("%v", s.header)
	}
}

// A webhook that is changed is tried at once, and one that is removed is told nothing more.
func TestChangedAndRemoved(t *testing.T) {
	r := newRig(t)
	r.answers(func(s sent) (int, error) {
		if s.host == "old.example" {
			return http.StatusNotFound, nil
		}
		return http.StatusOK, nil
	})
	w := r.hook("old.example")
	for range 10 {
		r.open()
	}
	r.start()
	r.eventually("it fails", func() bool { s := r.hooks.Stats(); return len(s) == 1 && s[0].Failing })
	w, err := r.Cold().Webhook(t.Context(), w.ID)
	r.ok(err)
	w.URL = "https://new.example/hook"
	r.ok(r.UpdateWebhook(t.Context(), w))
	r.hooks.Changed()
	r.passes("the new address has all", time.Second, func() bool { n := r.numbers(w); return n.Waiting == 0 && n.Behind == 0 })
	r.ok(r.DeleteWebhook(t.Context(), w.ID))
	r.hooks.Changed()
	r.eventually("its worker ends", func() bool { return len(r.hooks.Stats()) == 0 })
}
