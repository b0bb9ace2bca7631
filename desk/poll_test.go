package desk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/go-eddy/eddy/desk/desktest"
	"github.com/go-eddy/eddy/desk/perm"
	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/store"
	"github.com/go-eddy/eddy/internal/testkit"
)

// poll opens a session, with extra request headers if given.
func (s *served) poll(header http.Header) *desktest.Poll {
	s.t.Helper()
	p, err := desktest.DialPoll(s.ctx, s.base.Load().(string), header)
	s.ok(err)
	s.t.Cleanup(func() { _ = p.Close() })
	return p
}

// asked makes a request about a session that must have this status.
func (s *served) asked(p *desktest.Poll, want int, method, rest, body string) *proto.Error {
	s.t.Helper()
	var b []byte
	if body != "" {
		b = []byte(body)
	}
	status, err := p.Ask(s.ctx, method, rest, b, nil)
	var e *proto.Error
	if status != want || (err != nil && !errors.As(err, &e)) {
		s.t.Fatalf("%s %s: %d, want %d: %v", method, rest, status, want, err)
	}
	return e
}

// until polls until an event of a type has come, and returns it and what to acknowledge.
func (s *served) until(p *desktest.Poll, after uint64, typ string) (desktest.Frame, uint64) {
	s.t.Helper()
	for {
		got, err := p.Events(s.ctx, after)
		s.ok(err)
		for i, e := range got.Events {
			var f desktest.Frame
			s.ok(json.Unmarshal(e, &f))
			if f.T == typ {
				return f, got.Last - uint64(len(got.Events)-1-i)
			}
		}
		if after = got.Last; got.Close != nil {
			s.t.Fatalf("the session ended with %d %s before %s", got.Close.Code, got.Close.Reason, typ)
		}
	}
}

// visitor returns the token of a new visitor of the demo site.
func (s *served) visitor() string {
	s.t.Helper()
	var v struct{ Token string }
	s.ok(s.web.Post(s.ctx, "/api/v1/widget/session", map[string]string{"site": "demo"}, &v))
	return v.Token
}

func hello(token string) string {
	return fmt.Sprintf(`{"t":"hello","id":"h","d":{"token":%q}}`, token)
}

// By nothing but HTTP: a lost answer comes again, a doubled request runs once, a gap is refused, an array is many commands,
// and an old poll makes way for a new one.
func TestPollLosesAndDoublesNothing(t *testing.T) {
	s := serve(t, testOptions(t))
	p := s.poll(nil)
	s.asked(p, http.StatusOK, "POST", "?n=1", hello(s.visitor()))
	first, err := p.Events(s.ctx, 0)
	s.ok(err)
	again, err := p.Events(s.ctx, 0)
	s.ok(err)
	if len(first.Events) == 0 || string(again.Events[0]) != string(first.Events[0]) || !strings.HasPrefix(string(first.Events[0]), `{"t":"welcome"`) {
		t.Fatalf("%s, then %s", first.Events, again.Events)
	}
	open := `[{"t":"conv.open","id":"1","d":{"wants":"bot"}},{"t":"ping","id":"2","d":{"time":1}}]`
	s.asked(p, http.StatusOK, "POST", "?n=2", open)
	s.asked(p, http.StatusOK, "POST", "?n=2", open)
	if e := s.asked(p, http.StatusConflict, "POST", "?n=4", open); !strings.Contains(e.Text, "3 comes next") {
		t.Errorf("a gap: %v", e)
	}
	s.asked(p, http.StatusOK, "POST", "?n=3", `{"t":"ping","id":"end","d":{"time":2}}`)
	replies, after, conv := map[string]int{}, again.Last, ""
	for replies["1"] == 0 || replies["end"] == 0 {
		got, err := p.Events(s.ctx, after)
		s.ok(err)
		after = got.Last
		for _, e := range got.Events {
			var f desktest.Frame
			s.ok(json.Unmarshal(e, &f))
			if f.RE != "" {
				replies[f.RE]++
			}
			if f.RE == "1" {
				conv = f.C
			}
		}
	}
	if conv == "" || replies["1"] != 1 || replies["2"] != 1 || replies["end"] != 1 {
		t.Errorf("replies %v, conversation %q", replies, conv)
	}
}

// Of two polls at once one is answered without events, and the other one gets what comes.
func TestTwoPollsAtOnce(t *testing.T) {
	s := serve(t, testOptions(t))
	p := s.poll(nil)
	ended := make(chan desktest.Polled, 2)
	for range 2 {
		go func() {
			got, err := p.Events(s.ctx, 0)
			if err != nil {
				t.Error(err)
			}
			ended <- got
		}()
	}
	if got := testkit.Receive(t, "the end of one poll", ended); len(got.Events) != 0 || got.Last != 0 {
		t.Fatalf("the old poll got %+v", got)
	}
	s.asked(p, http.StatusOK, "POST", "?n=1", `{"t":"ping","id":"early"}`)
	if got := testkit.Receive(t, "the answer to the other one", ended); len(got.Events) != 1 {
		t.Errorf("the new poll got %+v", got)
	}
}

func TestPollRequestsThatAreRefused(t *testing.T) {
	o := testOptions(t)
	o.MaxConns = 1000
	s := serve(t, o)
	p := s.poll(nil)
	s.asked(p, http.StatusBadRequest, "POST", "", hello("x"))
	s.asked(p, http.StatusBadRequest, "POST", "?n=-1", hello("x"))
	s.asked(p, http.StatusBadRequest, "POST", "?n=1", `[{"t":"ping"}`)
	s.asked(p, http.StatusBadRequest, "POST", "?n=1", "{\"t\":\"\xff\"}")
	s.asked(p, http.StatusUnsupportedMediaType, "POST", "?n=1", "")
	s.asked(p, http.StatusBadRequest, "GET", "?after=x", "")
	if e := s.asked(p, http.StatusRequestEntityTooLarge, "POST", "?n=1", `"`+strings.Repeat("x", proto.MaxAgentBytes+256)+`"`); !strings.Contains(e.Text, "256 KiB") {
		t.Errorf("too large: %v", e)
	}
	stranger := s.poll(nil)
	stranger.ID = "guessed"
	s.asked(stranger, http.StatusNotFound, "POST", "?n=1", hello("x"))
	s.asked(stranger, http.StatusNotFound, "GET", "?after=0", "")
	s.asked(stranger, http.StatusNotFound, "POST", "/close", "")

	// What is wrong within the protocol has the answers of a WebSocket.
	s.asked(p, http.StatusOK, "POST", "?n=1", `no JSON`)
	f, after := s.until(p, 0, "err")
	var e proto.Error
	if f.Decode(&e); e.Code != proto.CodeBadRequest {
		t.Errorf("no JSON: %v", e)
	}
	s.asked(p, http.StatusOK, "POST", "?n=2", `{"t":"hello","id":"1","d":{"token":"`+strings.Repeat("x", proto.MaxHelloBytes)+`"}}`)
	end, err := p.Events(s.ctx, after)
	s.ok(err)
	if end.Close == nil || end.Close.Code != proto.CloseTooLarge {
		t.Errorf("a hello that is too large: %+v", end)
	}
	s.asked(p, http.StatusGone, "POST", "?n=3", hello("x"))

	p = s.poll(nil)
	s.asked(p, http.StatusNoContent, "POST", "/close", "")
	s.asked(p, http.StatusNotFound, "GET", "?after=0", "")
}

// A session belongs to the login and to the origin that it was opened with, whoever else learns its id.
func TestPollSessionsAreBound(t *testing.T) {
	clock := desktest.NewClock()
	o := testOptions(t)
	o.Now = clock.Now
	s := serve(t, o)
	newShop(t, s.desk, store.SiteSettings{Origins: []string{"https://shop.example", "https://other.example"}})
	clock.Move(time.Minute)
	_, cookie := employ(t, s.desk, perm.Agent, "lin")
	_, another := employ(t, s.desk, perm.Agent, "kim")
	own := s.base.Load().(string)
	for name, c := range map[string]struct{ opened, used http.Header }{
		"without the cookie":      {http.Header{"Cookie": {cookie}, "Origin": {own}}, http.Header{"Origin": {own}}},
		"with another's cookie":   {http.Header{"Cookie": {cookie}, "Origin": {own}}, http.Header{"Cookie": {another}, "Origin": {own}}},
		"without the origin":      {http.Header{"Origin": {"https://shop.example"}}, nil},
		"by a page of another":    {http.Header{"Origin": {"https://shop.example"}}, http.Header{"Origin": {"https://other.example"}}},
		"our session by a page":   {http.Header{"Origin": {own}}, http.Header{"Origin": {"https://shop.example"}}},
		"a program's by a page":   {nil, http.Header{"Origin": {"https://shop.example"}}},
		"a login's by no browser": {http.Header{"Cookie": {cookie}}, nil},
	} {
		p, thief := s.poll(c.opened), s.poll(c.used)
		thief.ID = p.ID
		if status, err := thief.Ask(s.ctx, "GET", "?after=0", nil, nil); status != http.StatusNotFound {
			t.Errorf("%s: %d %v", name, status, err)
		}
		s.asked(p, http.StatusOK, "POST", "?n=1", hello("wrong"))
		s.until(p, 0, "err")
	}
	for _, origin := range []string{"https://evil.example", "null", "https://shop.example.evil"} {
		if _, err := desktest.DialPoll(s.ctx, own, http.Header{"Origin": {origin}}); err == nil || !strings.Contains(err.Error(), "403") {
			t.Errorf("from %s: %v", origin, err)
		}
	}
}

func TestPollsPerAddressAndInAll(t *testing.T) {
	o := testOptions(t)
	o.TrustedProxies = prefixes(t, "127.0.0.0/8")
	o.ConnsPerIP = 2
	o.MaxConns = 50
	s := serve(t, o)
	from := http.Header{"X-Forwarded-For": {"198.51.100.1"}}
	refused := func(header http.Header, want string) {
		t.Helper()
		if _, err := desktest.DialPoll(s.ctx, s.base.Load().(string), header); err == nil || !strings.Contains(err.Error(), want) {
			t.Fatalf("one more: %v", err)
		}
	}
	p := s.poll(from)
	socket, err := desktest.Dial(s.ctx, s.base.Load().(string), from)
	s.ok(err)
	defer func() { _ = socket.Close() }()
	refused(from, "429")
	s.asked(p, http.StatusNoContent, "POST", "/close", "")
	_ = p.Close()
	p = s.poll(from)
	_ = p.Close() // the connection, not the session
	for range 49 {
		_ = s.poll(nil).Close()
	}
	refused(nil, "503")
	if n := s.desk.Stats().SocketsRefused; n != 2 {
		t.Errorf("%d counted", n)
	}
}

// A client that does not ask for its events is closed like a WebSocket that is not read, learns that behind what it has
// missed, and goes on where it was.
func TestPollOfASlowClient(t *testing.T) {
	o := testOptions(t)
	o.Limits.CustomerOutbound = 16 << 10
	s := serve(t, o)
	token := s.visitor()
	slow, writer := s.poll(nil), s.poll(nil)
	s.asked(writer, http.StatusOK, "POST", "?n=1", hello(token))
	_, after := s.until(writer, 0, "welcome")
	s.asked(writer, http.StatusOK, "POST", "?n=2", `{"t":"conv.open","id":"1","d":{"wants":"human"}}`)
	opened, after := s.until(writer, after, "ok")
	s.asked(slow, http.StatusOK, "POST", "?n=1", hello(token))
	_, seen := s.until(slow, 0, "welcome")
	sent := 0
	for n := 3; s.desk.Stats().Closes["4008"] == 0; n++ {
		sent++
		s.asked(writer, http.StatusOK, "POST", fmt.Sprintf("?n=%d", n),
			fmt.Sprintf(`{"t":"msg.send","id":"%d","c":%q,"d":{"client_id":"00000000-0000-4000-8000-%012d","body":%q}}`, n, opened.C, n, strings.Repeat("x", 2000)))
		_, after = s.until(writer, after, "ok")
	}
	var last uint64
	bodies := 0
	for {
		got, err := slow.Events(s.ctx, seen)
		s.ok(err)
		for _, e := range got.Events {
			var f desktest.Frame
			s.ok(json.Unmarshal(e, &f))
			last = max(last, f.S)
			if f.T == "ev.msg" {
				bodies++
			}
		}
		if seen = got.Last; got.Close == nil {
			continue
		}
		if got.Close.Code != proto.CloseSlow {
			t.Fatalf("closed with %+v", got.Close)
		}
		break
	}
	next := s.poll(nil)
	s.asked(next, http.StatusOK, "POST", "?n=1", fmt.Sprintf(`{"t":"hello","id":"h","d":{"token":%q,"seen":{%q:%d}}}`, token, opened.C, last))
	_, seen = s.until(next, 0, "welcome")
	for bodies < sent {
		_, seen = s.until(next, seen, "ev.msg")
		bodies++
	}
}

// A drain answers the polls that wait with bye and the close code, and ends although their clients stay.
func TestDrainOfPolls(t *testing.T) {
	s := serve(t, testOptions(t))
	p := s.poll(nil)
	s.asked(p, http.StatusOK, "POST", "?n=1", hello(s.visitor()))
	s.until(p, 0, "welcome")
	ended := make(chan error, 1)
	go func() { ended <- s.desk.Shutdown(s.ctx) }()
	byes := 0
	var data []byte
	var err error
	for ; err == nil; data, err = p.Read(s.ctx) {
		if strings.Contains(string(data), `"bye"`) {
			byes++
			testkit.Eventually(t, "the session is over while the client is between two polls", func() bool { return s.desk.hub.Load().Customers == 0 })
		}
	}
	if websocket.CloseStatus(err) != proto.CloseDraining || byes != 1 {
		t.Errorf("%v after %d byes", err, byes)
	}
	s.ok(testkit.Receive(t, "the end of the shutdown", ended))
	if _, err := p.Ask(s.ctx, "GET", "?after=0", nil, nil); err == nil {
		t.Error("a stopped server answers")
	}
	s.start()
}

// Hundreds of clients wait without a worker of the HTTP pool.
func TestWaitingPollsHoldNoWorker(t *testing.T) {
	o := testOptions(t)
	s := serve(t, o)
	const n = 300
	done := make(chan error, n)
	ctx, cancel := context.WithCancel(s.ctx)
	for range n {
		p := s.poll(nil)
		go func() {
			_, err := p.Events(ctx, 0)
			done <- err
		}()
	}
	testkit.Eventually(t, "the polls", func() bool {
		waiting, pool := s.desk.http.Stats(), s.desk.pool.Stats()
		open := int(waiting.Requests)
		for _, n := range waiting.Responses {
			open -= int(n)
		}
		return open == n && pool.Running == 0 && pool.Parked == 0
	})
	cancel()
	for range n {
		<-done
	}
}
