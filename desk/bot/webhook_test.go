package bot

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-eddy/eddy/desk/safehttp"
	"github.com/go-eddy/eddy/desk/store"
)

const hookConfig = `{"url":"https://bot.example/turn","secret":"0123456789abcdef","concurrency":2,"queue":3,"timeout_ms":1000,"attributes":["plan"],"history":3}`

const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// doer answers requests as a test says, each on a goroutine of its own.
type doer struct {
	mu    sync.Mutex
	seen  []*http.Request
	serve func(n int, r *http.Request) (safehttp.Response, error)
}

func (d *doer) Do(r *http.Request, limit int64, done func(safehttp.Response, error)) {
	d.mu.Lock()
	n := len(d.seen)
	d.seen = append(d.seen, r)
	d.mu.Unlock()
	if limit != MaxReplyBytes {
		done(safehttp.Response{}, fmt.Errorf("limit %d", limit))
		return
	}
	go func() { done(d.serve(n, r)) }()
}

func (d *doer) requests() []*http.Request {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.seen
}

func hook(t *testing.T, serve func(n int, r *http.Request) (safehttp.Response, error)) (*Webhook, *doer) {
	t.Helper()
	c, err := ParseWebhook(hookConfig)
	if err != nil {
		t.Fatal(err)
	}
	d := &doer{serve: serve}
	return NewWebhook(c, d, nil), d
}

func status(code int, body string) (safehttp.Response, error) {
	return safehttp.Response{Status: code, Body: []byte(body)}, nil
}

// ask waits for the answer.
func (w *Webhook) ask(t Turn) Answer {
	answer := make(chan Answer, 2)
	w.Ask(t, func(a Answer) { answer <- a })
	return <-answer
}

func TestWebhookRequest(t *testing.T) {
	w, d := hook(t, func(int, *http.Request) (safehttp.Response, error) {
		return status(200, `{"messages":[{"text":"hi","buttons":[{"label":"Yes","value":"y"}]}],"handoff":true,"reason":"r","summary":"s","more":1}`)
	})
	customer, agent := store.Actor{Kind: store.Customer}, store.Actor{Kind: store.Agent}
	text := func(id string, from store.Actor, body string) store.Event {
		return store.Event{ID: id, Kind: store.KindText, From: from, Body: body, Time: 5}
	}
	note := store.Event{ID: "n", Kind: store.KindNote, From: agent, Body: "a secret of staff"}
	a := w.ask(Turn{
		ID: "t1", Conv: "c1", Epoch: 3, Text: "hello", Payload: "p", Locale: "en", Attributes: map[string]string{"plan": "vip", "card": "4711"}, Trace: traceparent,
		History: []store.Event{text("0", customer, "too old"), text("1", customer, "one"), note, text("2", agent, "two"), {Kind: store.KindEvent}, text("3", customer, "three"), text("t1", customer, "hello")},
	})
	want := Reply{Say: []store.Say{{Body: "hi", Buttons: []store.Button{{Label: "Yes", Value: "y"}}}}, Handoff: true, Reason: "r", Summary: "s"}
	if a.Err != nil || a.Accepted || fmt.Sprint(a.Reply) != fmt.Sprint(want) {
		t.Fatalf("%+v", a)
	}
	r := d.requests()[0]
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	const sent = `{"turn":"t1","conversation":"c1","epoch":3,"opening":false,"locale":"en","message":{"text":"hello","payload":"p"},` +
		`"history":[{"from":"customer","text":"one","time":5},{"from":"agent","text":"two","time":5},{"from":"customer","text":"three","time":5}],"contact":{"attributes":{"plan":"vip"}}}`
	if string(body) != sent {
		t.Errorf("sent %s\nwant %s", body, sent)
	}
	if err := Verify("0123456789abcdef", r.Header.Get(HeaderTimestamp), r.Header.Get(HeaderSignature), body, time.Now()); err != nil {
		t.Error(err)
	}
	if r.Method != "POST" || r.URL.String() != "https://bot.example/turn" || r.Header.Get(HeaderTurn) != "t1" || r.Header.Get("Content-Type") != "application/json" {
		t.Errorf("%s %s %v", r.Method, r.URL, r.Header)
	}
	if got := r.Header.Get("traceparent"); got != traceparent {
		t.Errorf("traceparent %q", got)
	}
	w.ask(Turn{ID: "t2", Conv: "c1"})
	if h := d.requests()[1].Header; h.Values("traceparent") != nil {
		t.Errorf("a turn that is not traced: %v", h)
	}
	if s := w.Stats(); s.Asked != 2 || s.Failed != 0 || s.Running != 0 || s.Breaker != BreakerClosed {
		t.Errorf("%+v", s)
	}
}

// What is sent has a bound, whatever the history is.
func TestWebhookHistoryIsBounded(t *testing.T) {
	c, err := ParseWebhook(strings.Replace(hookConfig, `"history":3`, `"history":100`, 1))
	if err != nil {
		t.Fatal(err)
	}
	var turn Turn
	for i := range 100 {
		turn.History = append(turn.History, store.Event{ID: fmt.Sprint(i), Kind: store.KindText, Body: strings.Repeat("x", 8000)})
	}
	b, err := c.encodeTurn(&turn)
	var w wireTurn
	if err != nil || json.Unmarshal(b, &w) != nil || len(w.History) != maxHistoryBytes/8000 || len(b) > maxHistoryBytes+4096 {
		t.Fatalf("%d bytes with %d messages (%v)", len(b), len(w.History), err)
	}
}

// Each answer has its outcome: what may get better is tried once more with the same turn id, everything else is not.
func TestWebhookAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refused := errors.New("connection refused")
		for name, c := range map[string]struct {
			first, second func() (safehttp.Response, error)
			tries         int
			want          string // of the error, "" = none
		}{
			"silence":            {first: func() (safehttp.Response, error) { return status(204, "") }, tries: 1},
			"empty object":       {first: func() (safehttp.Response, error) { return status(200, "{}") }, tries: 1},
			"accepted":           {first: func() (safehttp.Response, error) { return status(202, "whatever") }, tries: 1},
			"garbage":            {first: func() (safehttp.Response, error) { return status(200, "<html>") }, tries: 1, want: "not the JSON"},
			"nothing":            {first: func() (safehttp.Response, error) { return status(200, "") }, tries: 1, want: "not the JSON"},
			"redirect":           {first: func() (safehttp.Response, error) { return status(302, "") }, tries: 1, want: "redirects are not followed"},
			"client error":       {first: func() (safehttp.Response, error) { return status(404, "") }, tries: 1, want: "status 404"},
			"too long":           {first: func() (safehttp.Response, error) { return safehttp.Response{}, safehttp.ErrTooLong }, tries: 1, want: "too long"},
			"forbidden address":  {first: func() (safehttp.Response, error) { return safehttp.Response{}, safehttp.ErrForbidden }, tries: 1, want: "may not be used"},
			"500 twice":          {first: func() (safehttp.Response, error) { return status(500, "") }, tries: 2, want: "status 500"},
			"503 then fine":      {first: func() (safehttp.Response, error) { return status(503, "") }, second: func() (safehttp.Response, error) { return status(200, "{}") }, tries: 2},
			"429 then fine":      {first: func() (safehttp.Response, error) { return status(429, "") }, second: func() (safehttp.Response, error) { return status(204, "") }, tries: 2},
			"down":               {first: func() (safehttp.Response, error) { return safehttp.Response{}, refused }, tries: 2, want: "refused"},
			"down then accepted": {first: func() (safehttp.Response, error) { return safehttp.Response{}, refused }, second: func() (safehttp.Response, error) { return status(202, "") }, tries: 2},
		} {
			w, d := hook(t, func(n int, _ *http.Request) (safehttp.Response, error) {
				if n > 0 && c.second != nil {
					return c.second()
				}
				return c.first()
			})
			a := w.ask(Turn{ID: "same"})
			if (a.Err != nil) != (c.want != "") || (a.Err != nil && !strings.Contains(a.Err.Error(), c.want)) || a.Accepted != strings.Contains(name, "accepted") {
				t.Errorf("%s: %+v", name, a)
			}
			seen := d.requests()
			if len(seen) != c.tries {
				t.Errorf("%s: %d attempts, want %d", name, len(seen), c.tries)
			}
			for _, r := range seen {
				if r.Header.Get(HeaderTurn) != "same" {
					t.Errorf("%s: turn %q", name, r.Header.Get(HeaderTurn))
				}
			}
			if s := w.Stats(); s.Running != 0 || s.Failed != btoi(c.want != "") || s.Retried != uint64(c.tries-1) {
				t.Errorf("%s: %+v", name, s)
			}
		}
	})
}

func btoi(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

// A bot that hangs holds Concurrency places, Queue turns wait for at most Timeout, the rest is refused at once.
func TestWebhookBulkhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, d := hook(t, func(_ int, r *http.Request) (safehttp.Response, error) {
			<-r.Context().Done()
			return safehttp.Response{}, r.Context().Err()
		})
		var mu sync.Mutex
		outcomes := make(map[string]time.Duration)
		began := time.Now()
		for i := range 7 {
			id := fmt.Sprint(i)
			w.Ask(Turn{ID: id}, func(a Answer) {
				mu.Lock()
				defer mu.Unlock()
				if a.Err == nil {
					t.Errorf("turn %s: %+v", id, a)
				}
				outcomes[id] = time.Since(began)
			})
		}
		synctest.Wait()
		if s := w.Stats(); s.Running != 2 || s.Waiting != 3 || s.Refused != 2 || len(d.requests()) != 2 {
			t.Fatalf("%+v, %d requests", s, len(d.requests()))
		}
		time.Sleep(time.Minute)
		mu.Lock()
		defer mu.Unlock()
		if len(outcomes) != 7 {
			t.Fatalf("outcomes %v", outcomes)
		}
		for id, after := range outcomes {
			want := map[bool]time.Duration{true: 2*time.Second + retryDelay, false: time.Second}[id < "2"]
			if id > "4" {
				want = 0
			}
			if after != want {
				t.Errorf("turn %s ended after %v, want %v", id, after, want)
			}
		}
		if s := w.Stats(); s.Running != 0 || s.Waiting != 0 || s.Failed != 2 || s.Refused != 5 {
			t.Errorf("%+v", s)
		}
	})
}

// The places that become free go to those that wait, in their order.
func TestWebhookQueueOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, d := hook(t, func(int, *http.Request) (safehttp.Response, error) {
			time.Sleep(100 * time.Millisecond)
			return status(204, "")
		})
		w.places = 1 // two at once have no order
		for i := range 4 {
			w.Ask(Turn{ID: fmt.Sprint(i)}, func(a Answer) {
				if a.Err != nil {
					t.Error(a.Err)
				}
			})
		}
		time.Sleep(time.Second)
		var order string
		for _, r := range d.requests() {
			order += r.Header.Get(HeaderTurn)
		}
		if order != "0123" {
			t.Errorf("order %s", order)
		}
		// After Close nothing begins.
		w.Close()
		if a := w.ask(Turn{ID: "x"}); !errors.Is(a.Err, ErrClosed) {
			t.Errorf("%+v", a)
		}
	})
}

func TestWebhookCloseEndsThoseThatWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		w, _ := hook(t, func(int, *http.Request) (safehttp.Response, error) {
			<-release
			return safehttp.Response{}, errors.New("the client was closed")
		})
		var mu sync.Mutex
		var errs []error
		for i := range 4 {
			w.Ask(Turn{ID: fmt.Sprint(i)}, func(a Answer) {
				mu.Lock()
				defer mu.Unlock()
				errs = append(errs, a.Err)
			})
		}
		synctest.Wait()
		w.Close()
		close(release)
		synctest.Wait()
		if len(errs) != 4 || !errors.Is(errs[0], ErrClosed) || !errors.Is(errs[1], ErrClosed) || errs[2] == nil || errs[3] == nil {
			t.Errorf("%v", errs)
		}
	})
}

// Closed → open by 5 failures in 30 s → half-open after a rest, one turn → open again or closed.
func TestBreaker(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	b := breaker{now: func() time.Time { return now }}
	expect := func(step string, state BreakerState, ok, probe bool) {
		t.Helper()
		if s := b.State(); s != state {
			t.Fatalf("%s: %s, want %s", step, s, state)
		}
		if shut := b.shut(); shut == ok {
			t.Fatalf("%s: shut %v", step, shut)
		}
		if o, p := b.allow(); o != ok || p != probe {
			t.Fatalf("%s: allowed %v as probe %v, want %v %v", step, o, p, ok, probe)
		}
	}
	for range 20 { // four in every window: never enough
		for range 4 {
			b.failed(false)
		}
		now = now.Add(BreakerWindow)
	}
	expect("slow failures", BreakerClosed, true, false)
	for i := range BreakerFailures {
		if opened := b.failed(false); opened != (i == BreakerFailures-1) {
			t.Fatalf("failure %d opened: %v", i+1, opened)
		}
		now = now.Add(BreakerWindow/BreakerFailures - time.Millisecond)
	}
	now = now.Add(-(BreakerWindow/BreakerFailures - time.Millisecond))
	expect("opened", BreakerOpen, false, false)
	if b.failed(false) { // one that was on its way
		t.Error("opened twice")
	}
	b.succeeded(false)
	expect("a success from before", BreakerOpen, false, false)
	now = now.Add(BreakerRest - 1)
	expect("before its rest is over", BreakerOpen, false, false)
	now = now.Add(1)
	expect("first try", BreakerHalfOpen, true, true)
	if ok, _ := b.allow(); ok || !b.shut() {
		t.Fatal("a second try beside the first")
	}
	if !b.failed(true) {
		t.Fatal("the failed try did not open it")
	}
	expect("open again", BreakerOpen, false, false)
	now = now.Add(BreakerRest)
	expect("second try", BreakerHalfOpen, true, true)
	b.succeeded(true)
	expect("closed again", BreakerClosed, true, false)
	for range BreakerFailures - 1 {
		b.failed(false)
	}
	expect("the failures before do not count", BreakerClosed, true, false)
	if b.opens != 2 {
		t.Errorf("opened %d times", b.opens)
	}
}

// A bot that is down is asked five times, then not at all, then once every 30 s, and is back with the first success.
func TestWebhookBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		up := false
		w, d := hook(t, func(int, *http.Request) (safehttp.Response, error) {
			mu.Lock()
			defer mu.Unlock()
			if up {
				return status(204, "")
			}
			return status(500, "")
		})
		for range 10 {
			if a := w.ask(Turn{}); a.Err == nil {
				t.Fatal("answered")
			}
		}
		if n := len(d.requests()); n != BreakerFailures || !w.Shut() {
			t.Fatalf("%d requests", n)
		}
		if a := w.ask(Turn{}); !errors.Is(a.Err, ErrBreakerOpen) {
			t.Fatalf("%+v", a)
		}
		time.Sleep(BreakerRest)
		if w.Shut() || w.Stats().Breaker != BreakerHalfOpen {
			t.Fatalf("%+v", w.Stats())
		}
		if a := w.ask(Turn{}); a.Err == nil || len(d.requests()) != BreakerFailures+1 || !w.Shut() {
			t.Fatalf("%+v after %d requests", a, len(d.requests()))
		}
		mu.Lock()
		up = true
		mu.Unlock()
		time.Sleep(BreakerRest)
		for range 3 {
			if a := w.ask(Turn{}); a.Err != nil {
				t.Fatal(a.Err)
			}
		}
		for range BreakerFailures { // turns that were accepted and never answered count, too
			w.Missed()
		}
		if s := w.Stats(); s.Breaker != BreakerOpen || s.Opened != 3 {
			t.Fatalf("%+v", s)
		}
	})
}

func TestDecodeReply(t *testing.T) {
	text := func(n int) string { return strings.Repeat("长", n) }
	for _, c := range []struct{ body, want string }{
		{`{"messages":[{"text":""}]}`, "messages[0] has 0 characters"},
		{`{"messages":[{"text":"` + text(MaxSayChars) + `"}]}`, ""},
		{`{"messages":[{"text":"` + text(MaxSayChars+1) + `"}]}`, "messages[0] has 4001 characters"},
		{`{"messages":[{"text":"x","buttons":[{"label":"a"}]}]}`, "buttons[0]"},
		{`{"messages":[{"text":"x","buttons":[{"value":"a"}]}]}`, "buttons[0]"},
		{`{"messages":[{"text":"x","buttons":[{"label":"a","value":"` + strings.Repeat("x", maxValueBytes+1) + `"}]}]}`, "buttons[0]"},
		{`{"messages":[{"text":"x","buttons":[` + strings.Repeat(`{"label":"a","value":"b"},`, MaxButtons) + `{"label":"a","value":"b"}]}]}`, "11 buttons"},
		{`{"messages":"x"}`, "not the JSON"},
		{`[]`, "not the JSON"},
		{`{} {}`, "not the JSON"},
		{"{\"reason\":\"\xff\"}", "UTF-8"},
		{`{"x":"` + strings.Repeat("x", MaxReplyBytes) + `"}`, "limit is 65536"},
		{strings.Repeat(`[`, 60000), "not the JSON"},
	} {
		if _, _, err := DecodeReply([]byte(c.body)); (err != nil) != (c.want != "") || (err != nil && !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%.80s: %v, want %q", c.body, err, c.want)
		}
	}
	flood := `{"messages":[` + strings.Repeat(`{"text":"x"},`, 999) + `{"text":"x"}],"handoff":true,"reason":"` + text(500) + `","summary":"` + text(5000) + `"}`
	r, cut, err := DecodeReply([]byte(flood))
	if err != nil || len(r.Say) != store.MaxBotMessages || cut != 995 || len([]rune(r.Reason)) != maxReasonChars || len([]rune(r.Summary)) != maxSummaryChars {
		t.Errorf("%d messages, %d cut, %v", len(r.Say), cut, err)
	}
	if r, _, _ := DecodeReply([]byte(`{"reason":"x","summary":"x"}`)); r.Reason != "" || r.Summary != "" {
		t.Errorf("a reason without a hand-off: %+v", r)
	}
	if r, _, _ := DecodeReply([]byte(`{"handoff":true}`)); r.Reason == "" {
		t.Error("a hand-off without a reason")
	}
}

func TestVerify(t *testing.T) {
	const secret = "0123456789abcdef"
	now := time.Unix(1_700_000_000, 0)
	body := []byte(`{"a":1}`)
	good := Sign(secret, now.Unix(), body)
	if good != "v1=9eb18f493f8ec135d9eb2dad817c369bb4e9cbfa818657897a7437c1cd8c3a23" { // as openssl dgst -sha256 -hmac makes it
		t.Errorf("signature %s", good)
	}
	for name, c := range map[string]struct {
		secret, timestamp, signature string
		body                         []byte
		shift                        time.Duration
		ok                           bool
	}{
		"good":             {secret, "1700000000", good, body, 0, true},
		"at its limit":     {secret, "1700000000", good, body, SignatureAge, true},
		"ahead":            {secret, "1700000000", good, body, -SignatureAge, true},
		"too old":          {secret, "1700000000", good, body, SignatureAge + time.Second, false},
		"too far ahead":    {secret, "1700000000", good, body, -SignatureAge - time.Second, false},
		"other body":       {secret, "1700000000", good, []byte(`{"a":2}`), 0, false},
		"other timestamp":  {secret, "1700000001", good, body, 0, false},
		"other secret":     {secret + "x", "1700000000", good, body, 0, false},
		"no secret":        {"", "1700000000", Sign("", now.Unix(), body), body, 0, false},
		"no signature":     {secret, "1700000000", "", body, 0, false},
		"upper case":       {secret, "1700000000", strings.ToUpper(good), body, 0, false},
		"no timestamp":     {secret, "", good, body, 0, false},
		"timestamp is hex": {secret, "0x1", good, body, 0, false},
		"huge timestamp":   {secret, "99999999999999999999", good, body, 0, false},
		"far timestamp":    {secret, strconv.FormatInt(1<<62, 10), good, body, 0, false},
	} {
		err := Verify(c.secret, c.timestamp, c.signature, c.body, now.Add(c.shift))
		if (err == nil) != c.ok || (err != nil && !errors.Is(err, ErrSignature)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Whatever a bot answers: it is an error, or within every limit.
func FuzzDecodeReply(f *testing.F) {
	for _, s := range []string{
		`{"messages":[{"text":"hi","buttons":[{"label":"Yes","value":"y"}]}],"handoff":true,"reason":"r","summary":"s"}`, `{}`, `null`, `[]`, `{"messages":null}`,
		`{"messages":[{"text":"\ud800"}]}`, `{"messages":[{},{},{},{},{},{}]}`, `{"handoff":"yes"}`, "\x00", `{"messages":[{"text":1e400}]}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		r, cut, err := DecodeReply(bytes.Clone(body))
		if err != nil {
			if !strings.HasPrefix(err.Error(), "bot: ") {
				t.Fatal(err)
			}
			return
		}
		if len(r.Say) > store.MaxBotMessages || cut < 0 || r.Handoff == (r.Reason == "") || len([]rune(r.Summary)) > maxSummaryChars {
			t.Fatalf("%+v, cut %d", r, cut)
		}
		for _, s := range r.Say {
			if n := len([]rune(s.Body)); n == 0 || n > MaxSayChars || len(s.Buttons) > MaxButtons || s.Memo != "" {
				t.Fatalf("%+v", s)
			}
		}
	})
}
