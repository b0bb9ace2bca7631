package bot

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/go-eddy/eddy/desk/store"
)

const modelConfig = `{"url":"https://models.example/v1/chat/completions","model":"m1","key":"k3y"%s}`

// service answers requests as a test says: with a status, or with what write streams.
type service struct {
	mu    sync.Mutex
	seen  []string // bodies
	heads []http.Header
	kind  string // Content-Type, default that of a stream
	serve func(n int, w io.Writer) (status int)
}

// Open implements Streamer.
func (s *service) Open(r *http.Request, done func(*http.Response, error)) {
	body, _ := io.ReadAll(r.Body)
	s.mu.Lock()
	n := len(s.seen)
	s.seen, s.heads = append(s.seen, string(body)), append(s.heads, r.Header)
	s.mu.Unlock()
	in, out := io.Pipe()
	context.AfterFunc(r.Context(), func() { _ = out.CloseWithError(r.Context().Err()) })
	w := &late200{out: out, answer: func(status int) {
		done(&http.Response{StatusCode: status, Header: http.Header{"Content-Type": {s.kind}}, Body: in}, nil)
	}}
	go func() {
		status := s.serve(n, w)
		switch {
		case status < 0: // nothing comes, and the request ends with its context
			<-r.Context().Done()
			w.once.Do(func() { done(nil, r.Context().Err()) })
		case status == 0:
			w.once.Do(func() { done(nil, errors.New("no connection")) })
		default:
			w.once.Do(func() { w.answer(status) })
		}
		_ = out.Close()
	}()
}

// late200 answers with status 200 when something is written.
type late200 struct {
	out    *io.PipeWriter
	once   sync.Once
	answer func(int)
}

func (w *late200) Write(p []byte) (int, error) {
	w.once.Do(func() { w.answer(200) })
	return w.out.Write(p)
}

func (s *service) asked() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.seen)
}

// delta streams a piece of text.
func delta(w io.Writer, text string) {
	b, _ := json.Marshal(text)
	_, _ = fmt.Fprintf(w, "data: {\"choices\":[{\"delta\":{\"content\":%s},\"finish_reason\":null}]}\n\n", b)
}

// finish ends a stream, with the tokens that were used unless they are 0.
func finish(w io.Writer, prompt, completion int) {
	_, _ = io.WriteString(w, "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\r\n\r\n")
	if prompt > 0 {
		_, _ = fmt.Fprintf(w, ": a comment\ndata: {\"choices\":[],\"usage\":{\"prompt_tokens\":%d,\"completion_tokens\":%d}}\n\n", prompt, completion)
	}
	_, _ = io.WriteString(w, "data: [DONE]\n\n")
}

// book is a Ledger in memory.
type book struct {
	mu   sync.Mutex
	days map[string]store.BotUsage
	err  error
}

func (b *book) Used(day string) (store.BotUsage, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.days[day], nil
}

func (b *book) Use(day string, u store.BotUsage) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err != nil {
		return b.err
	}
	if b.days == nil {
		b.days = make(map[string]store.BotUsage)
	}
	all := b.days[day]
	all.Add(u)
	b.days[day] = all
	return nil
}

func (b *book) today() store.BotUsage { u, _ := b.Used(time.Now().Format(time.DateOnly)); return u }

func assistant(t *testing.T, more string, serve func(n int, w io.Writer) int) (*Assistant, *service, *book) {
	t.Helper()
	c, err := ParseAssistant(fmt.Sprintf(modelConfig, more))
	if err != nil {
		t.Fatal(err)
	}
	s, b := &service{serve: serve, kind: "text/event-stream; charset=utf-8"}, &book{}
	return NewAssistant(c, s, b, nil), s, b
}

// hear asks and waits; pieces are what was shown until then.
func (w *Assistant) hear(ctx context.Context, t Turn) (a Answer, pieces []string) {
	answer := make(chan Answer, 2)
	w.Ask(ctx, t, func(s string) bool { pieces = append(pieces, s); return true }, func(a Answer) { answer <- a })
	return <-answer, pieces
}

func texts(r Reply) (all []string) {
	for _, s := range r.Say {
		all = append(all, s.Body)
	}
	return all
}
