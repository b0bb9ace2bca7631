package desk

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-eddy/eddy/desk/store"
	"github.com/go-eddy/eddy/internal/testkit"
)

// leaving is a store whose clients go away as soon as their login is found.
type leaving struct {
	store.Store
	leave context.CancelFunc
}

// Cold implements store.Store.
func (l *leaving) Cold() store.Reader { return leavingReader{l.Store.Cold(), l} }

type leavingReader struct {
	store.Reader
	l *leaving
}

// AgentSession implements store.Reader.
func (r leavingReader) AgentSession(ctx context.Context, t store.Token, now time.Time) (store.AgentSession, error) {
	s, err := r.Reader.AgentSession(ctx, t, now)
	r.l.leave()
	return s, err
}

// TestGoneClientsAreNoErrors: whoever closes a page before it has come, or in the middle of a request, on whatever route,
// is nothing that an operator has to look at.
func TestGoneClientsAreNoErrors(t *testing.T) {
	var logged testkit.Output
	l := &leaving{leave: func() {}}
	o := testOptions(t)
	o.WrapStore = func(s store.Store) store.Store { l.Store = s; return l }
	o.Logger = slog.New(slog.NewTextHandler(&logged, &slog.HandlerOptions{Level: slog.LevelWarn}))
	d := openDesk(t, o)
	boss, err := d.store.Cold().AgentByLogin(t.Context(), "agent")
	if err != nil {
		t.Fatal(err)
	}
	ask := func(pattern, cookie string, early bool) {
		method, path := request(pattern)
		ctx, cancel := context.WithCancel(testkit.Context(t))
		defer cancel()
		l.leave = cancel
		if early {
			cancel()
		}
		r := httptest.NewRequestWithContext(ctx, method, path, strings.NewReader("{}"))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Cookie", cookie)
		defer func() {
			if v := recover(); v != nil && v != http.ErrAbortHandler {
				panic(v)
			}
			l.leave = func() {}
		}()
		d.Handler().ServeHTTP(httptest.NewRecorder(), r)
	}
	for _, pattern := range routePatterns(t) {
		for _, early := range []bool{false, true} {
			before := logged.String()
			ask(pattern, enter(t, d, boss), early)
			if news := strings.TrimPrefix(logged.String(), before); strings.Contains(news, "ERROR") || strings.Contains(news, "cancel") {
				t.Errorf("%s, gone before it is read %v: %s", pattern, early, news)
			}
		}
	}
}
