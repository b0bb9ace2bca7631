package desk

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-eddy/eddy/desk/bot"
	"github.com/go-eddy/eddy/desk/desktest"
	"github.com/go-eddy/eddy/desk/store"
	"github.com/go-eddy/eddy/internal/testkit"
)

// A webhook bot through real sockets: it accepts the greeting, calls back over HTTP, and hands over. What is not signed by it, or
// comes again or too late, changes nothing.
func TestWebhookBotOverHTTP(t *testing.T) {
	s := serve(t, testOptions(t))
	const secret = "a secret of the test"
	turns := make(chan string, 10)
	program := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || bot.Verify(secret, r.Header.Get(bot.HeaderTimestamp), r.Header.Get(bot.HeaderSignature), body, time.Now()) != nil {
			t.Errorf("asked %q (%v)", body, err)
		}
		turns <- r.Header.Get(bot.HeaderTurn)
		w.WriteHeader(http.StatusAccepted)
	}))
	t.Cleanup(program.Close)
	account, err := s.desk.store.CreateBot(s.ctx, store.BotAccount{
		Name: "Hal", Kind: store.BotWebhook, Config: fmt.Sprintf(`{"url":%q,"secret":%q,"allow_private":true,"timeout_ms":60000}`, program.URL, secret),
	})
	s.ok(err)
	_, err = s.desk.store.CreateSite(s.ctx, store.Site{Key: "shop", Name: "Shop", Bot: account.ID})
	s.ok(err)
	ann := s.web.Customer("shop")
	t.Cleanup(ann.Close)
	conv, err := ann.Open(s.ctx, "bot")
	s.ok(err)
	turn := testkit.Receive(t, "the greeting to be asked for", turns)

	call := func(turn, signature, body string, header ...string) (int, string) {
		t.Helper()
		at := time.Now().Unix()
		if signature == "" {
			signature = bot.Sign(secret, at, []byte(body))
		}
		r, err := http.NewRequestWithContext(s.ctx, http.MethodPost, s.base.Load().(string)+"/api/v1/bot/turns/"+turn, strings.NewReader(body))
		s.ok(err)
		r.Header.Set(bot.HeaderTimestamp, strconv.FormatInt(at, 10))
		r.Header.Set(bot.HeaderSignature, signature)
		for i := 0; i+1 < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		resp, err := http.DefaultClient.Do(r)
		s.ok(err)
		defer func() { _ = resp.Body.Close() }()
		var answer struct{ Result, Code string }
		b, err := io.ReadAll(resp.Body)
		s.ok(err)
		_ = json.Unmarshal(b, &answer) // what the HTTP layer refuses is a line of text
		return resp.StatusCode, answer.Result + answer.Code
	}
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	const hello = `{"messages":[{"text":"hello","buttons":[{"label":"Person","value":"human"}]}]}`
	for _, c := range []struct {
		name, turn, signature, body string
		status                      int
		want                        string
		header                      []string
	}{
		{"no signature", turn, "v1=", hello, 401, "unauthorized", nil},
		{"signature of another body", turn, bot.Sign(secret, time.Now().Unix(), []byte("{}")), hello, 401, "unauthorized", nil},
		{"old timestamp", turn, bot.Sign(secret, 1, []byte(hello)), hello, 401, "unauthorized", []string{bot.HeaderTimestamp, "1"}},
		{"unknown turn", "nothing", "", hello, 401, "unauthorized", nil},
		{"no turn of a program", s.otherTurn(), "", hello, 401, "unauthorized", nil},
		{"no reply", turn, "", "<html>", 400, "bad_request", nil},
		{"too long", turn, "", `{"x":"` + strings.Repeat("x", bot.MaxReplyBytes-7) + `"}`, 413, "", nil},
		{"of another site in a browser", turn, "", hello, 403, "forbidden", []string{"Origin", "https://evil.example"}},
		{"good", turn, "", hello, 200, "applied", nil},
		{"again", turn, "", hello, 200, "duplicate", nil},
	} {
		if status, answer := call(c.turn, c.signature, c.body, c.header...); status != c.status || (c.want != "" && answer != c.want) {
			t.Errorf("%s: %d %s, want %d %s", c.name, status, answer, c.status, c.want)
		}
	}
	_, err = ann.Event(s.ctx, conv, func(f desktest.Frame) bool { return strings.Contains(string(f.D), `"body":"hello"`) })
	s.ok(err)
	ann.SendPayload(conv, "Person", "human")
	if status, answer := call(testkit.Receive(t, "the next turn", turns), "", `{"messages":[{"text":"bye"}],"handoff":true,"summary":"wants a person"}`); status != 200 || answer != "applied" {
		t.Errorf("%d %s", status, answer)
	}
	_, err = ann.Event(s.ctx, conv, stateIs(store.Queued))
	s.ok(err)
	for _, f := range ann.View(conv) {
		if strings.Contains(string(f.D), "wants a person") {
			t.Errorf("the customer sees %s", f.D)
		}
	}
	testkit.Eventually(t, "the acceptance is counted", func() bool { return s.desk.Stats().BotAccepted >= 2 }) // the callback may be faster than the answer to the question
	st := s.desk.Stats()
	if st.BotAccepted != 2 || st.BotDups != 1 || st.BotBadCallbacks != 6 || len(st.Bots) != 1 || st.Bots[0].Accepted != 2 || st.Bots[0].Breaker != bot.BreakerClosed {
		t.Errorf("%+v", st)
	}
}

// otherTurn is the id of a turn of the built-in bot.
func (s *served) otherTurn() string {
	s.t.Helper()
	ben := s.customer()
	conv, err := ben.Open(s.ctx, "bot")
	s.ok(err)
	_, err = ben.Event(s.ctx, conv, func(f desktest.Frame) bool { return f.T == "ev.msg" })
	s.ok(err)
	events, _, err := s.desk.store.Cold().Events(s.ctx, conv, store.StaffSide, 0, 1, 1<<20)
	s.ok(err)
	return events[0].ID
}
