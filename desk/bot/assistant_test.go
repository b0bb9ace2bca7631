package bot

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-eddy/eddy/desk/store"
)

// What leaves is the settings and what the customer sees; what comes back is shown in pieces and said once.
func TestAssistantStory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s, b := assistant(t, `,"system":"Be kind.","knowledge":"Parcels take two days.","history":3,"temperature":0.5,"max_tokens":100`, func(_ int, w io.Writer) int {
			for _, piece := range []string{"Par", "cels ", "take ", "two ", "days."} {
				delta(w, piece)
				time.Sleep(90 * time.Millisecond)
			}
			finish(w, 40, 7)
			return 200
		})
		customer, agent, machine := store.Actor{Kind: store.Customer}, store.Actor{Kind: store.Agent}, store.Actor{Kind: store.Bot}
		event := func(id, kind string, from store.Actor, body string) store.Event {
			return store.Event{ID: id, Kind: kind, From: from, Body: body, Memo: `{"tokens":5}`}
		}
		a, pieces := w.hear(t.Context(), Turn{
			ID: "t1", Text: "when? call 13800138000", Locale: "en", Attributes: map[string]string{"plan": "vip"}, Trace: traceparent,
			History: []store.Event{
				event("1", store.KindText, customer, "too old"), event("2", store.KindText, agent, "I am Lin"), event("3", store.KindNote, agent, "a secret of staff"),
				event("4", store.KindNotice, store.Actor{Kind: store.System}, "idle"), event("5", store.KindText, customer, "mail me at ann@example.com"),
				event("t1", store.KindText, customer, "when?"), event("6", store.KindText, machine, "Hello"), event("7", store.KindText, customer, "later"),
			},
		})
		if a.Err != nil || !slices.Equal(texts(a.Reply), []string{"Parcels take two days."}) || a.Reply.Say[0].Payload != store.PayloadGenerated || a.Reply.Handoff {
			t.Fatalf("%+v", a)
		}
		if a.Reply.Say[0].Memo != `{"tokens":52}` {
			t.Errorf("memo %s", a.Reply.Say[0].Memo)
		}
		if want := []string{"", "Parcels take "}; !slices.Equal(pieces, want) { // 450 ms, at most one every 250 ms
			t.Errorf("pieces %q, want %q", pieces, want)
		}
		var sent wirePrompt
		if err := json.Unmarshal([]byte(s.seen[0]), &sent); err != nil {
			t.Fatal(err)
		}
		if !sent.Stream || !sent.Options.Usage || sent.Model != "m1" || sent.MaxTokens != 100 || *sent.Temperature != 0.5 || len(sent.Messages) != 5 {
			t.Errorf("sent %s", s.seen[0])
		}
		for i, want := range []wireSaid{{"system", "Be kind.\n\nWhat you know:\nParcels take two days.\n\nIf the customer wants a person"}, {"assistant", "I am Lin"}, {"user", "mail me at a"}, {"assistant", "Hello"}, {"user", "when? call "}} {
			if got := sent.Messages[i]; got.Role != want.Role || !strings.HasPrefix(got.Content, want.Content) {
				t.Errorf("message %d: %+v, want %+v", i, got, want)
			}
		}
		for _, secret := range []string{"13800138000", "ann@example.com", "secret of staff", "too old", "later", "vip", "k3y"} {
			if strings.Contains(s.seen[0], secret) {
				t.Errorf("%q was sent", secret)
			}
		}
		if h := s.heads[0]; h.Get("Authorization") != "Bearer k3y" || h.Get("Accept") != "text/event-stream" || h.Get("traceparent") != traceparent {
			t.Errorf("%v", h)
		}
		if u := b.today(); u != (store.BotUsage{Calls: 1, Prompt: 40, Completion: 7}) {
			t.Errorf("used %+v", u)
		}
	})
}

// Whatever goes wrong ends within its bound, and is tried again only if nothing was shown.
func TestAssistantFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		flood := strings.Repeat("x", maxLine)
		for name, c := range map[string]struct {
			more  string
			serve func(n int, w io.Writer) int
			tries int
			want  string // of the error
			after time.Duration
		}{
			"silence":            {"", func(int, io.Writer) int { return -1 }, 2, "limits.first_ms is 20000", 40*time.Second + retryDelay},
			"a comment":          {"", func(_ int, w io.Writer) int { _, _ = io.WriteString(w, ": wait\n\n"); return -1 }, 2, "limits.first_ms is 20000", 40*time.Second + retryDelay},
			"stalls":             {"", func(_ int, w io.Writer) int { delta(w, "a"); time.Sleep(time.Second); delta(w, "b"); return -1 }, 1, "limits.idle_ms is 15000", 16 * time.Second},
			"never ends":         {"", func(_ int, w io.Writer) int { drip(w, 1000, 10*time.Second); return 200 }, 1, "limits.total_ms is 90000", 90 * time.Second},
			"no connection":      {"", func(int, io.Writer) int { return 0 }, 2, "no connection", retryDelay},
			"500":                {"", func(int, io.Writer) int { return 500 }, 2, "status 500", retryDelay},
			"429":                {"", func(int, io.Writer) int { return 429 }, 2, "status 429", retryDelay},
			"401":                {"", func(int, io.Writer) int { return 401 }, 1, "status 401", 0},
			"a redirect":         {"", func(int, io.Writer) int { return 307 }, 1, "redirects are not followed", 0},
			"garbage":            {"", func(_ int, w io.Writer) int { _, _ = io.WriteString(w, "data: <html>\n\n"); return 200 }, 2, "not the JSON", retryDelay},
			"no events":          {"", func(_ int, w io.Writer) int { _, _ = io.WriteString(w, "<html>\n"); return 200 }, 2, "ended in the middle", retryDelay},
			"ends in the middle": {"", func(_ int, w io.Writer) int { delta(w, "Par"); time.Sleep(time.Second); delta(w, "cels"); return 200 }, 1, "ended in the middle", time.Second},
			"a huge line":        {"", func(_ int, w io.Writer) int { _, _ = io.WriteString(w, "data: "+flood); return 200 }, 2, "a line of the stream is too long", retryDelay},
			"a huge event": {"", func(_ int, w io.Writer) int {
				_, _ = io.WriteString(w, "data: "+flood[:40_000]+"\ndata: "+flood[:40_000]+"\n\n")
				return 200
			}, 2, "an event of the stream is too long", retryDelay},
			"a huge stream": {"", func(_ int, w io.Writer) int { drip(w, maxStream/50, 0); return 200 }, 2, "the stream is too long", retryDelay},
			"an error": {"", func(_ int, w io.Writer) int {
				_, _ = io.WriteString(w, "data: {\"error\":{\"message\":\"overloaded\"}}\n\n")
				return 200
			}, 2, "overloaded", retryDelay},
			"nothing":          {"", func(_ int, w io.Writer) int { finish(w, 0, 0); return 200 }, 2, "an empty answer", retryDelay},
			"a short patience": {`,"limits":{"first_ms":100}`, func(int, io.Writer) int { return -1 }, 2, "limits.first_ms is 100", 200*time.Millisecond + retryDelay},
		} {
			w, s, b := assistant(t, c.more, c.serve)
			begun := time.Now()
			a, _ := w.hear(t.Context(), Turn{ID: "t", Text: "hello"})
			if a.Err == nil || !strings.Contains(a.Err.Error(), c.want) || s.asked() != c.tries || time.Since(begun) != c.after {
				t.Errorf("%s: %v after %v and %d tries, want %q after %v and %d", name, a.Err, time.Since(begun), s.asked(), c.want, c.after, c.tries)
			}
			if n := w.Stats(); n.Failed != 1 || n.Running != 0 {
				t.Errorf("%s: %+v", name, n)
			}
			if u := b.today(); u.Calls != 0 && u.Estimated == 0 {
				t.Errorf("%s: used %+v: what was sent costs, though it was not counted", name, u)
			}
			w.Close()
		}
		time.Sleep(time.Minute) // until every service has noticed
	})
}

// drip streams many events without text.
func drip(w io.Writer, n int, every time.Duration) {
	for range n {
		if _, err := io.WriteString(w, "data: {\"choices\":[{\"delta\":{},\"finish_reason\":null}]}\n\n"); err != nil {
			return
		}
		if every > 0 {
			<-time.After(every)
		}
	}
}

func TestAssistantWrongKind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s, _ := assistant(t, "", func(_ int, w io.Writer) int { _, _ = io.WriteString(w, `{"choices":[]}`); return 200 })
		s.kind = "application/json"
		if a, _ := w.hear(t.Context(), Turn{Text: "hello"}); a.Err == nil || !strings.Contains(a.Err.Error(), `"application/json"`) {
			t.Errorf("%+v", a)
		}
		w.Close()
	})
}

// A service that is back answers in the second attempt, and one that fails often is not asked any more.
func TestAssistantRecovers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _, _ := assistant(t, "", func(n int, w io.Writer) int {
			if n == 0 {
				return 503
			}
			delta(w, "here")
			finish(w, 0, 0)
			return 200
		})
		if a, _ := w.hear(t.Context(), Turn{Text: "hello"}); a.Err != nil || a.Reply.Say[0].Body != "here" {
			t.Errorf("%+v", a)
		}
		w, s, _ := assistant(t, "", func(int, io.Writer) int { return 500 })
		for range 3 {
			w.hear(t.Context(), Turn{Text: "hello"})
		}
		asked := s.asked()
		if a, _ := w.hear(t.Context(), Turn{Text: "hello"}); !errors.Is(a.Err, ErrBreakerOpen) || !w.Shut() || s.asked() != asked {
			t.Errorf("%+v", a)
		}
		w.Close()
	})
}

// A person is asked for by the customer's words or button, by the marker or by a call. Nobody sees the marker.
func TestAssistantHandsOver(t *testing.T) {
	call := "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"function\":{\"name\":\"handoff\",\"arguments\":\"{\\\"reason\\\":\"}}]}}]}\n\n" +
		"data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"function\":{\"arguments\":\"\\\"angry\\\"}\"}}]},\"finish_reason\":\"tool_calls\"}]}\n\n"
	for name, c := range map[string]struct {
		more    string
		turn    Turn
		pieces  []string
		raw     string
		want    []string
		summary string
		asked   int
	}{
		"a word":            {turn: Turn{Text: "a HUMAN, please"}, want: []string{"I am passing you to a person. You can keep writing, it will be seen."}},
		"a word in Chinese": {turn: Turn{Text: "我要人工"}, want: []string{"正在为您转接人工客服。您可以继续留言，客服会看到。"}},
		"a word of its own": {more: `,"handoff_words":["boss"],"handoff":{"en":"Wait."}`, turn: Turn{Text: "your boss"}, want: []string{"Wait."}},
		"the button":        {more: `,"handoff":{"en":"Wait."}`, turn: Turn{Text: "Talk", Payload: "human"}, want: []string{"Wait."}},
		"the marker": {more: `,"handoff":{"en":"Wait."}`, turn: Turn{Text: "?"}, pieces: []string{"I do not know. ", "[", "[PER", "SON", "]] more"},
			want: []string{"I do not know.", "Wait."}, asked: 1},
		"the marker alone": {more: `,"handoff":{"en":"Wait."},"marker":"###"`, turn: Turn{Text: "?"}, pieces: []string{"##", "#"}, want: []string{"Wait."}, asked: 1},
		"nearly a marker":  {turn: Turn{Text: "?"}, pieces: []string{"[[PERSONAL]]"}, want: []string{"[[PERSONAL]]"}, asked: 1},
		"a call":           {more: `,"handoff":{"en":"Wait."},"tool":true`, turn: Turn{Text: "?"}, raw: call, want: []string{"Wait."}, summary: "angry", asked: 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, s, _ := assistant(t, c.more, func(_ int, w io.Writer) int {
					_, _ = io.WriteString(w, c.raw)
					for _, p := range c.pieces {
						delta(w, p)
						time.Sleep(time.Second)
					}
					finish(w, 0, 0)
					return 200
				})
				a, pieces := w.hear(t.Context(), c.turn)
				if a.Err != nil || !slices.Equal(texts(a.Reply), c.want) || a.Reply.Handoff != (name != "nearly a marker") || a.Reply.Summary != c.summary || s.asked() != c.asked {
					t.Errorf("%+v, want %q", a, c.want)
				}
				if shown := strings.Join(pieces, ""); c.asked == 1 && !strings.HasPrefix(c.want[0]+" ", shown) {
					t.Errorf("shown %q", shown)
				}
				w.Close()
			})
		})
	}
}

// Nothing is asked beyond a bound. The error names the bound, what would be used, and the limit.
func TestAssistantBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fine := func(_ int, w io.Writer) int { delta(w, "yes"); finish(w, 700, 100); return 200 }
		w, s, b := assistant(t, `,"max_tokens":100,"limits":{"tokens_day":2000}`, fine)
		for range 2 {
			if a, _ := w.hear(t.Context(), Turn{Text: "hello"}); a.Err != nil || a.Reply.Handoff {
				t.Fatalf("%+v", a)
			}
		}
		for range 2 {
			if a, _ := w.hear(t.Context(), Turn{Text: "hello"}); a.Err != nil || a.Reply.Handoff {
				break
			}
		}
		a, _ := w.hear(t.Context(), Turn{Text: "hello"})
		var bound *BoundError
		if !errors.As(a.Note, &bound) || bound.Limit != "limits.tokens_day" || bound.Most != 2000 || bound.Used <= 2000 || !a.Reply.Handoff ||
			!strings.Contains(a.Reply.Summary, "limits.tokens_day") || !w.Shut() {
			t.Errorf("the day: %+v", a)
		}
		if u := b.today(); u.Tokens() > 2000+800 || int(u.Calls) != s.asked() {
			t.Errorf("used %+v in %d calls", u, s.asked())
		}
		time.Sleep(24 * time.Hour)
		if a, _ := w.hear(t.Context(), Turn{Text: "hello"}); a.Reply.Handoff || w.Shut() {
			t.Errorf("the day after: %+v", a)
		}

		w, s, _ = assistant(t, `,"max_tokens":100,"limits":{"tokens_chat":1000}`, fine)
		spent := store.Event{ID: "m", Kind: store.KindText, From: store.Actor{Kind: store.Bot}, Memo: `{"tokens":950}`}
		if a, _ := w.hear(t.Context(), Turn{Text: "hello", History: []store.Event{spent}}); !errors.As(a.Note, &bound) || bound.Limit != "limits.tokens_chat" || s.asked() != 0 {
			t.Errorf("one chat: %+v", a)
		}
		if a, _ := w.hear(t.Context(), Turn{Text: "hello"}); a.Note != nil || w.Shut() {
			t.Errorf("another chat: %+v", a)
		}

		w, s, _ = assistant(t, `,"limits":{"calls_minute":2}`, fine)
		for range 2 {
			w.hear(t.Context(), Turn{Text: "hello"})
		}
		if a, _ := w.hear(t.Context(), Turn{Text: "hello"}); !errors.As(a.Note, &bound) || *bound != (BoundError{"limits.calls_minute", 3, 2}) || s.asked() != 2 {
			t.Errorf("the minute: %+v", a)
		}
		time.Sleep(time.Minute)
		if a, _ := w.hear(t.Context(), Turn{Text: "hello"}); a.Note != nil {
			t.Errorf("the minute after: %+v", a)
		}
	})
}

// Two turns at once do not share the last tokens of a day, and what the ledger does not take is not forgotten.
func TestAssistantLedger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s, b := assistant(t, `,"max_tokens":700,"limits":{"tokens_day":1000}`, func(_ int, w io.Writer) int {
			time.Sleep(time.Second)
			delta(w, "yes")
			finish(w, 100, 50)
			return 200
		})
		b.err = errors.New("the disk is full")
		answers := make(chan Answer, 2)
		for range 2 {
			w.Ask(t.Context(), Turn{Text: "hello"}, func(string) bool { return true }, func(a Answer) { answers <- a })
		}
		first, second := <-answers, <-answers
		if first.Reply.Handoff == second.Reply.Handoff || s.asked() != 1 || w.Shut() {
			t.Fatalf("%+v and %+v", first, second)
		}
		if !strings.Contains(second.Note.Error(), "the disk is full") {
			t.Errorf("%v", second.Note)
		}
		b.err = nil
		if a, _ := w.hear(t.Context(), Turn{Text: "hello"}); a.Note != nil {
			t.Errorf("%+v", a)
		}
		if u := b.today(); u != (store.BotUsage{Calls: 2, Prompt: 200, Completion: 100}) {
			t.Errorf("used %+v", u)
		}
	})
}

// A turn that is given up ends at once, costs what it has cost and says nothing about the service. So does Close.
func TestAssistantLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s, b := assistant(t, "", func(_ int, w io.Writer) int { drip(w, 1000, time.Second); return 200 })
		for range 2 * BreakerFailures {
			ctx, leave := context.WithTimeout(t.Context(), 5*time.Second)
			begun := time.Now()
			if a, _ := w.hear(ctx, Turn{Text: "hello"}); !errors.Is(a.Err, ErrLeft) || time.Since(begun) != 5*time.Second {
				t.Errorf("%v after %v", a.Err, time.Since(begun))
			}
			leave()
		}
		if n := w.Stats(); n.Breaker != BreakerClosed || n.Failed != 0 || n.Running != 0 {
			t.Errorf("%+v", n)
		}
		if u := b.today(); int(u.Calls) != s.asked() || u.Estimated != u.Tokens() || u.Prompt == 0 {
			t.Errorf("used %+v", u)
		}
		answer := make(chan Answer, 1)
		w.Ask(t.Context(), Turn{Text: "hello"}, func(string) bool { return true }, func(a Answer) { answer <- a })
		synctest.Wait()
		w.Close()
		if a := <-answer; !errors.Is(a.Err, ErrClosed) {
			t.Errorf("closed: %+v", a)
		}
		if a, _ := w.hear(t.Context(), Turn{Text: "hello"}); !errors.Is(a.Err, ErrClosed) {
			t.Errorf("after the end: %+v", a)
		}
		time.Sleep(time.Minute) // until every service has noticed
	})
}

// A reader that goes ends the answer where it is.
func TestAssistantReaderGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _, _ := assistant(t, "", func(_ int, w io.Writer) int {
			for range 100 {
				delta(w, "word ")
				time.Sleep(time.Second)
			}
			return 200
		})
		n := 0
		answer := make(chan Answer, 1)
		w.Ask(t.Context(), Turn{Text: "hello"}, func(string) bool { n++; return n < 4 }, func(a Answer) { answer <- a })
		if a := <-answer; a.Err != nil || !slices.Equal(texts(a.Reply), []string{"word word word…"}) {
			t.Errorf("%+v", a)
		}
		w.Close()
		time.Sleep(2 * time.Minute) // until the service has noticed
	})
}

// An answer that is too long is cut, and the service is not listened to any more.
func TestAssistantLongAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _, _ := assistant(t, "", func(_ int, w io.Writer) int {
			for range 100 {
				delta(w, strings.Repeat("长", 100))
			}
			finish(w, 0, 0)
			return 200
		})
		a, _ := w.hear(t.Context(), Turn{Text: "hello"})
		if r := []rune(a.Reply.Say[0].Body); a.Err != nil || len(r) != MaxSayChars || r[len(r)-1] != '…' || w.Stats().Cut != 1 {
			t.Errorf("%d characters, %v", len(r), a.Err)
		}
		w.Close()
	})
}

// The settings say after how many failures in a row a person comes.
func TestAssistantFailsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _, _ := assistant(t, `,"failures":2,"again":{"en":"Once more?"}`, func(int, io.Writer) int { return 404 })
		a, _ := w.hear(t.Context(), Turn{Text: "hello"})
		if a.Err != nil || a.Note == nil || !slices.Equal(texts(a.Reply), []string{"Once more?"}) || a.Reply.Handoff {
			t.Fatalf("the first: %+v", a)
		}
		last := store.Event{ID: "m", Kind: store.KindText, From: store.Actor{Kind: store.Bot}, Memo: a.Reply.Say[0].Memo}
		if a, _ := w.hear(t.Context(), Turn{Text: "hello", History: []store.Event{last}}); a.Err == nil {
			t.Errorf("the second: %+v", a)
		}
	})
}

func TestAssistantGreets(t *testing.T) {
	w, s, _ := assistant(t, `,"greeting":{"en":"Hi","zh":"您好"}`, nil)
	if a, _ := w.hear(t.Context(), Turn{Opening: true, Locale: "zh-CN"}); !slices.Equal(texts(a.Reply), []string{"您好"}) || s.asked() != 0 {
		t.Errorf("%+v", a)
	}
	w, _, _ = assistant(t, "", nil)
	if a, _ := w.hear(t.Context(), Turn{Opening: true}); a.Err != nil || len(a.Reply.Say) != 0 {
		t.Errorf("%+v", a)
	}
}

func TestAssistantSettings(t *testing.T) {
	for more, want := range map[string]string{
		`,"max_tokens":5`:              "max_tokens: 5, want 16 up to 32000",
		`,"limits":{"tokens_day":999}`: "limits.tokens_day: 999, want 1000 up to",
		`,"temperature":2.5`:           "temperature: 2.5, want 0 up to 2",
		`,"marker":"x"`:                "marker: 1 characters, want 3 up to 64",
		`,"knowledge":"` + strings.Repeat("x", MaxKnowledgeBytes+1) + `"`: "knowledge: 65537 bytes, the limit is 65536",
		`,"system":"` + strings.Repeat("x", MaxSystemChars+1) + `"`:       "system: 16001 characters, want 0 up to 16000",
		`,"key":"a b"`:              "key: only the visible characters",
		`,"handoff_words":["?"]`:    "handoff_words[0]: \"?\"",
		`,"url":"http://x.example"`: "url: ",
		`,"model":""`:               "model: 0 characters",
		`,"typo":1`:                 "typo",
	} {
		if err := Check(store.BotAssistant, fmt.Sprintf(modelConfig, more)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40s: %v, want %q", more, err, want)
		}
	}
}
