package bot

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/go-eddy/eddy/desk/store"
)

// Streamer sends requests without blocking and hands over answers whose bodies are still to be read; *safehttp.Client
// is one.
type Streamer interface {
	Open(r *http.Request, done func(*http.Response, error))
}

// Ledger keeps what an assistant has used. Its methods block.
type Ledger interface {
	// Used returns what was used on a day, written as 2006-01-02.
	Used(day string) (store.BotUsage, error)
	// Use adds to that.
	Use(day string, u store.BotUsage) error
}

// BoundError says which bound of its settings keeps an assistant from being asked.
type BoundError struct {
	Limit string // its name in the settings
	Used  int64  // with what the turn may take
	Most  int64
}

// Error implements error.
func (e *BoundError) Error() string {
	return fmt.Sprintf("bot: the bound %s is reached: %d, the limit is %d", e.Limit, e.Used, e.Most)
}

// ErrLeft ends a turn that nobody waits for any more.
var ErrLeft = errors.New("bot: the turn has been given up")

// Assistant answers with what a language model writes. It speaks the usual wire form of chat completions, in which text
// comes in pieces as server-sent events. Any goroutine may use it, but Ask reads the Ledger and so may block.
type Assistant struct {
	line
	c      *AssistantConfig
	client Streamer
	ledger Ledger
	words  []keyword
	base   context.Context // ends with Close
	halt   context.CancelFunc
	under  sync.WaitGroup // attempts

	spending sync.Mutex
	reserved int64                     // tokens that turns under way may take
	owed     map[string]store.BotUsage // by day, what the ledger has not taken yet
	calls    []time.Time               // of the last minute
	spent    string                    // the day whose tokens are used up, "" = none
}

// NewAssistant returns a bot with checked settings (ParseAssistant). now is the clock of its bounds; nil means time.Now.
func NewAssistant(c *AssistantConfig, client Streamer, ledger Ledger, now func() time.Time) *Assistant {
	a := &Assistant{c: c, client: client, ledger: ledger, owed: make(map[string]store.BotUsage)}
	a.base, a.halt = context.WithCancel(context.Background())
	a.init(c.Limits.Concurrency, c.Limits.Queue, ms(c.Limits.FirstMS), now)
	for _, w := range c.HandoffWords {
		a.words = append(a.words, newKeyword(w))
	}
	return a
}

// Shut reports whether a turn that came now would be refused, by the breaker or because the tokens of today are used up.
func (w *Assistant) Shut() bool {
	w.spending.Lock()
	spent := w.spent
	w.spending.Unlock()
	return w.line.Shut() || (spent != "" && spent == w.today())
}

// Apology returns what a customer is told when the bot has failed.
func (w *Assistant) Apology(text, locale string) string {
	return w.c.Apology.In(languageOf(text, locale), w.c.Language)
}

// Greet returns what is said before the customer's first message, nil for nothing.
func (w *Assistant) Greet(locale string) []store.Say {
	return greet(w.c.Greeting, w.c.Language, locale)
}

// Close refuses later turns and ends those that wait or are under way, with ErrClosed. It waits for their end.
func (w *Assistant) Close() {
	w.line.Close()
	w.halt()
	w.under.Wait()
}

// ledgerMemo is what an assistant has to remember of a conversation until its next message.
type ledgerMemo struct {
	Tokens int64 `json:"tokens,omitempty"` // used since the bot has had the conversation
	Failed int   `json:"failed,omitempty"` // turns in a row
}

func (m ledgerMemo) String() string {
	b, _ := json.Marshal(m) // numbers cannot fail
	return string(b)
}

// Ask begins a turn. done is called exactly once, perhaps before Ask returns, on any goroutine, and must not block.
// partial gets the pieces of text as they come, in order and at most one every PartialEvery; it begins with the empty
// text. It must not block either, and returns false to end the answer where it is. When ctx ends, so does the turn, with
// ErrLeft.
func (w *Assistant) Ask(ctx context.Context, t Turn, partial func(text string) bool, done func(Answer)) {
	memo := recall[ledgerMemo](t.History)
	switch {
	case t.Opening:
		done(Answer{Reply: Reply{Say: w.Greet(t.Locale)}})
		return
	case w.wanted(&t):
		done(Answer{Reply: w.handoff(&t, "the customer asked for a person")})
		return
	}
	body, err := w.c.prompt(&t)
	if err != nil {
		done(Answer{Err: fmt.Errorf("bot: %w", err)})
		return
	}
	q := &completion{w: w, ctx: ctx, t: t, memo: memo, body: body, prompt: tokensOf(body), partial: partial, done: done, day: w.today()}
	if err := w.reserve(q); err != nil {
		bound, ok := errors.AsType[*BoundError](err)
		if !ok {
			done(Answer{Err: err})
			return
		}
		r := w.handoff(&t, "the bot has done what it may")
		r.Summary = bound.Error()
		done(Answer{Reply: r, Note: bound})
		return
	}
	w.enter(&ask{line: &w.line, send: q.send, done: q.end})
}

// wanted reports whether the customer asks for a person, by a word or by the button that everybody knows.
func (w *Assistant) wanted(t *Turn) bool {
	folded := fold(t.Text)
	all := words(folded)
	return t.Payload == handoffPayload || slices.ContainsFunc(w.words, func(k keyword) bool { return k.in(folded, all) })
}

// handoffPayload is the value of a button for a person.
const handoffPayload = "human"

func (w *Assistant) handoff(t *Turn, reason string) Reply {
	return Reply{Say: []store.Say{{Body: w.c.Handoff.In(spoken(t), w.c.Language)}}, Handoff: true, Reason: reason}
}

func (w *Assistant) today() string { return w.now().Format(time.DateOnly) }

// reserve takes what a turn may use out of the bounds. The error is a *BoundError, or that of the ledger.
func (w *Assistant) reserve(q *completion) error {
	l := &w.c.Limits
	q.most = q.prompt + int64(w.c.MaxTokens)
	if n := q.memo.Tokens + q.most; n > int64(l.TokensChat) {
		return &BoundError{"limits.tokens_chat", n, int64(l.TokensChat)}
	}
	used, err := w.ledger.Used(q.day)
	if err != nil {
		return fmt.Errorf("bot: reading what was used: %w", err)
	}
	w.spending.Lock()
	defer w.spending.Unlock()
	owed := w.owed[q.day]
	if n := used.Tokens() + owed.Tokens() + w.reserved + q.most; n > int64(l.TokensDay) {
		if used.Tokens()+owed.Tokens()+q.most > int64(l.TokensDay) { // also when those under way have taken nothing
			w.spent = q.day
		}
		return &BoundError{"limits.tokens_day", n, int64(l.TokensDay)}
	}
	now := w.now()
	w.calls = slices.DeleteFunc(w.calls, func(at time.Time) bool { return now.Sub(at) >= time.Minute })
	if n := len(w.calls) + 1; n > l.CallsMinute {
		return &BoundError{"limits.calls_minute", int64(n), int64(l.CallsMinute)}
	}
	w.calls = append(w.calls, now)
	w.reserved += q.most
	return nil
}

// settle writes down what a turn has used. What the ledger does not take is kept for the next time.
func (w *Assistant) settle(q *completion) error {
	w.spending.Lock()
	w.reserved -= q.most
	u := w.owed[q.day]
	u.Add(q.used)
	w.owed[q.day] = store.BotUsage{}
	w.spending.Unlock()
	if u == (store.BotUsage{}) {
		return nil
	}
	err := w.ledger.Use(q.day, u)
	w.spending.Lock()
	defer w.spending.Unlock()
	if err != nil {
		u.Add(w.owed[q.day])
		w.owed[q.day] = u
		return fmt.Errorf("bot: writing down what was used: %w", err)
	}
	if w.owed[q.day] == (store.BotUsage{}) {
		delete(w.owed, q.day)
	}
	return nil
}
