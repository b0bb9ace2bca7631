package bot

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-eddy/eddy/desk/safehttp"
	"github.com/go-eddy/eddy/desk/store"
)

// PartialEvery is the shortest time between two pieces of an answer.
const PartialEvery = time.Second / 4

// completion is one turn of an Assistant, with both of its attempts.
type completion struct {
	w       *Assistant
	ctx     context.Context // of the turn
	t       Turn
	memo    ledgerMemo
	body    []byte
	prompt  int64 // tokens of body, as estimated
	most    int64 // tokens reserved
	partial func(string) bool
	done    func(Answer)
	day     string
	until   time.Time // the end of both attempts
	used    store.BotUsage
	shown   bool // a piece of text was shown, so there is no second attempt
}

// errEnough ends an answer because its reader has gone, or it is long enough. What has come is the answer.
var errEnough = errors.New("bot: enough")

// send makes one attempt. It runs where line lets it and does not block.
func (q *completion) send(a *ask, probe bool) {
	w, l := q.w, &q.w.c.Limits
	w.mu.Lock()
	closed := w.closed
	if !closed {
		w.under.Add(1)
	}
	w.mu.Unlock()
	if closed {
		a.dropped(ErrClosed, probe)
		return
	}
	if q.until.IsZero() {
		q.until = w.now().Add(ms(l.TotalMS))
	}
	ctx, cancel := context.WithCancelCause(q.ctx)
	total := time.AfterFunc(q.until.Sub(w.now()), func() { cancel(late("limits.total_ms", l.TotalMS)) })
	var begun atomic.Bool
	idle := time.AfterFunc(ms(l.FirstMS), func() {
		if begun.Load() {
			cancel(late("limits.idle_ms", l.IdleMS))
		} else {
			cancel(late("limits.first_ms", l.FirstMS))
		}
	})
	unhook := context.AfterFunc(w.base, func() { cancel(ErrClosed) })
	over := func(h *heard, err error, again bool) {
		total.Stop()
		idle.Stop()
		unhook()
		if err != nil && ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		cancel(nil)
		q.over(a, probe, h, err, again)
		w.under.Done()
	}
	r, err := w.c.request(ctx, q.body)
	if err != nil {
		over(nil, err, false)
		return
	}
	traced(r, &q.t)
	alive := func() {
		begun.Store(true)
		idle.Reset(ms(l.IdleMS))
	}
	w.client.Open(r, func(resp *http.Response, err error) {
		go func() { // the callback runs on a loop, and the body is read by waiting for it
			if err != nil {
				over(nil, err, !errors.Is(err, safehttp.ErrForbidden))
				return
			}
			h, err := q.hear(resp, alive)
			over(h, err, !q.shown)
		}()
	})
}

// hear reads an answer. The result is nil if the status is one of failure.
func (q *completion) hear(resp *http.Response, alive func()) (*heard, error) {
	defer func() { _ = resp.Body.Close() }() // nobody reads any more
	if resp.StatusCode != http.StatusOK {
		return nil, &statusError{resp.StatusCode}
	}
	h := &heard{q: q, alive: alive}
	return h, h.listen(resp)
}

// statusError is an answer with a status other than 200.
type statusError struct{ status int }

func (e *statusError) Error() string { return fmt.Sprintf("bot: answered status %d", e.status) }

func late(limit string, most int) error {
	return fmt.Errorf("bot: too slow: %s is %d", limit, most)
}

func (c *AssistantConfig) request(ctx context.Context, body []byte) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.URL, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("bot: %w", err)
	}
	for k, v := range map[string]string{"Content-Type": "application/json", "Accept": "text/event-stream", "User-Agent": userAgent} {
		r.Header.Set(k, v)
	}
	if c.Key != "" {
		r.Header.Set("Authorization", "Bearer "+c.Key)
	}
	return r, nil
}

// over ends an attempt. h is nil if no answer has begun.
func (q *completion) over(a *ask, probe bool, h *heard, err error, again bool) {
	if h != nil {
		q.used.Add(h.usage())
	}
	if errors.Is(err, errEnough) {
		err = nil
	}
	again = again && q.w.now().Before(q.until)
	status, bad := errors.AsType[*statusError](err)
	switch {
	case q.ctx.Err() != nil:
		a.dropped(ErrLeft, probe)
	case errors.Is(err, ErrClosed):
		a.dropped(ErrClosed, probe)
	case bad:
		a.refused(status.status, probe)
	case err != nil:
		a.failed(err, probe, again)
	default:
		reply, err := q.reply(h)
		if err != nil {
			a.failed(err, probe, again)
			return
		}
		a.answered(Answer{Reply: reply}, probe)
	}
}

// end writes down what the turn has used and reports its outcome.
func (q *completion) end(answer Answer) {
	w := q.w
	q.memo.Tokens += q.used.Tokens()
	unwritten := w.settle(q)
	failed := answer.Err != nil && !errors.Is(answer.Err, ErrLeft) && !errors.Is(answer.Err, ErrClosed)
	if failed {
		q.memo.Failed++
	} else {
		q.memo.Failed = 0
	}
	if failed && q.memo.Failed < w.c.Failures {
		say := store.Say{Body: w.c.Again.In(spoken(&q.t), w.c.Language)}
		answer = Answer{Reply: Reply{Say: []store.Say{say}}, Note: answer.Err}
	}
	if n := len(answer.Reply.Say); n > 0 {
		answer.Reply.Say[n-1].Memo = q.memo.String()
	}
	if answer.Note == nil {
		answer.Note = unwritten
	}
	q.done(answer)
}

// reply makes the bot's answer of what the model has said.
func (q *completion) reply(h *heard) (Reply, error) {
	text := strings.TrimSpace(h.visible(true))
	if h.cut && text != "" {
		text = shorten(text+"…", MaxSayChars)
		q.w.cut.Add(1)
	}
	var r Reply
	if h.asked {
		r = q.w.handoff(&q.t, "the bot asked for a person")
		r.Summary = shorten(h.reason(), maxReasonChars)
	}
	if text != "" {
		r.Say = append([]store.Say{{Body: text, Payload: store.PayloadGenerated}}, r.Say...)
	}
	if len(r.Say) == 0 && !h.left {
		return r, errors.New("bot: an empty answer")
	}
	return r, nil
}

// heard is what has come of one answer.
type heard struct {
	q     *completion
	alive func() // something has come

	mu      sync.Mutex // of the stream's goroutine and of the timer
	timer   *time.Timer
	over    bool
	text    strings.Builder
	sent    int // bytes of the text that the reader has been given
	sentAt  time.Time
	args    strings.Builder // of the function that asks for a person
	asked   bool            // a person is asked for
	cut     bool            // the text is not the whole answer
	left    bool            // the reader has gone
	ended   bool            // the model has said so
	counted *store.BotUsage
}

// chunk is the data of one event of a stream.
type chunk struct {
	Choices []struct {
		Delta struct {
			Content   string `json:"content"`
			ToolCalls []struct {
				Function struct {
					Name      string `json:"name"`
					Arguments string `json:"arguments"`
				} `json:"function"`
			} `json:"tool_calls"`
		} `json:"delta"`
		FinishReason string `json:"finish_reason"`
	} `json:"choices"`
	Usage *struct {
		Prompt     int64 `json:"prompt_tokens"`
		Completion int64 `json:"completion_tokens"`
	} `json:"usage"`
	Error *struct {
		Message string `json:"message"`
	} `json:"error"`
}

// listen reads a stream to its end. errEnough means that the rest does not matter.
func (h *heard) listen(resp *http.Response) error {
	const stream = "text/event-stream"
	if kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); kind != stream {
		return fmt.Errorf("bot: the answer is %q, want %q", resp.Header.Get("Content-Type"), stream)
	}
	if !h.show("") {
		return errEnough
	}
	defer h.stop()
	events := newEventReader(resp.Body)
	for {
		data, err := events.next()
		switch {
		case err == io.EOF && h.ended: //nolint:errorlint // never wrapped
			return nil
		case err == io.EOF: //nolint:errorlint // never wrapped
			return errors.New("bot: the stream ended in the middle")
		case err != nil:
			return err
		}
		h.alive()
		if string(data) == "[DONE]" {
			return nil
		}
		var c chunk
		if err := json.Unmarshal(data, &c); err != nil {
			return fmt.Errorf("bot: an event of the stream is not the JSON it should be: %w", err)
		}
		if err := h.take(&c); err != nil {
			return err
		}
	}
}

// take adds one event.
func (h *heard) take(c *chunk) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if c.Error != nil {
		return fmt.Errorf("bot: the service says: %s", shorten(c.Error.Message, maxReasonChars))
	}
	if u := c.Usage; u != nil {
		h.counted = &store.BotUsage{Calls: 1, Prompt: max(u.Prompt, 0), Completion: max(u.Completion, 0)}
	}
	for _, choice := range c.Choices[:min(len(c.Choices), 1)] {
		h.text.WriteString(choice.Delta.Content)
		for _, call := range choice.Delta.ToolCalls {
			h.asked = h.asked || call.Function.Name == handoffTool
			if h.args.Len() < MaxSayChars {
				h.args.WriteString(call.Function.Arguments)
			}
		}
		h.ended = h.ended || choice.FinishReason != ""
		h.cut = h.cut || choice.FinishReason == "length"
	}
	visible := h.visible(h.ended)
	if len([]rune(visible)) > MaxSayChars {
		h.cut = true
		return errEnough
	}
	if !h.showMore(visible) {
		h.cut, h.left = true, true
		return errEnough
	}
	return nil
}

// showMore gives the reader what is new of the text, now or, if the last piece was just now, a little later. It returns
// false when the reader has gone. h.mu is held.
func (h *heard) showMore(visible string) bool {
	if len(visible) <= h.sent || h.timer != nil {
		return true
	}
	if wait := PartialEvery - h.q.w.now().Sub(h.sentAt); wait > 0 {
		h.timer = time.AfterFunc(wait, h.later)
		return true
	}
	piece := visible[h.sent:]
	h.sent = len(visible)
	return h.show(piece)
}

// later shows what has come since the last piece.
func (h *heard) later() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.timer = nil
	if !h.over {
		h.showMore(h.visible(h.ended)) // that the reader has gone is seen at the next event
	}
}

// stop ends the showing of pieces.
func (h *heard) stop() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.over = true
	if h.timer != nil {
		h.timer.Stop()
	}
}

// show gives the reader a piece of text, and returns whether it wants more.
func (h *heard) show(piece string) bool {
	h.sentAt = h.q.w.now()
	h.q.shown = h.q.shown || piece != ""
	return h.q.partial(piece)
}

// visible returns the text before the marker. Until whole, it leaves out an end that the marker may begin with.
func (h *heard) visible(whole bool) string {
	text, marker := h.text.String(), h.q.w.c.Marker
	if before, _, found := strings.Cut(text, marker); found {
		h.asked = true
		return before
	}
	if whole {
		return text
	}
	for n := min(len(marker)-1, len(text)); n > 0; n-- {
		if strings.HasSuffix(text, marker[:n]) {
			return text[:len(text)-n]
		}
	}
	return text
}

// reason returns why the model asks for a person, as it has said in its call.
func (h *heard) reason() string {
	var args struct{ Reason string }
	_ = json.Unmarshal([]byte(h.args.String()), &args) // without it there is no reason
	return args.Reason
}

// usage returns what the answer has used, as the service has counted or else as estimated.
func (h *heard) usage() store.BotUsage {
	if h.counted != nil {
		return *h.counted
	}
	n := tokensOf(h.text.String())
	return store.BotUsage{Calls: 1, Prompt: h.q.prompt, Completion: n, Estimated: h.q.prompt + n}
}
