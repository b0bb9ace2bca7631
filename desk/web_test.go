package desk

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/desk/desktest"
	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/store"
	"github.com/go-eddy/eddy/internal/testkit"
)

// served is a Desk on a port of its own, which may be restarted.
type served struct {
	t    *testing.T
	ctx  context.Context
	o    Options
	desk *Desk
	base atomic.Value // string
	web  *desktest.Web
	pass string

	polls bool // new clients use long polls
}

func serve(t *testing.T, o Options) *served {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 8*time.Minute) // for the whole test: only against a hang
	t.Cleanup(cancel)
	s := &served{t: t, ctx: ctx, o: o}
	s.start()
	_, s.pass, _ = s.desk.FirstLogin()
	t.Cleanup(s.stop)
	s.web = s.newWeb()
	return s
}

func (s *served) newWeb() *desktest.Web {
	w := desktest.NewWeb(func() string { return s.base.Load().(string) })
	w.Polls = s.polls
	s.t.Cleanup(w.CloseIdle)
	return w
}

func (s *served) start() {
	s.t.Helper()
	d, err := Open(s.ctx, s.o)
	if err != nil {
		s.t.Fatal(err)
	}
	if err := d.Start(s.ctx); err != nil {
		s.t.Fatal(err)
	}
	s.desk = d
	s.base.Store("http://" + d.Addr().String())
}

func (s *served) stop() {
	ctx, cancel := context.WithTimeout(context.Background(), testkit.Patience)
	defer cancel()
	if err := s.desk.Shutdown(ctx); err != nil {
		s.t.Error(err)
	}
	if err := s.desk.Wait(); !errors.Is(err, eddy.ErrServerClosed) {
		s.t.Errorf("Wait: %v", err)
	}
}

func (s *served) ok(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *served) customer() *desktest.Client {
	c := s.web.Customer("demo")
	s.t.Cleanup(c.Close)
	return c
}

func (s *served) agent() *desktest.Client {
	c := s.newWeb().Agent("agent", s.pass)
	s.t.Cleanup(c.Close)
	return c
}

func stateIs(want store.State) func(desktest.Frame) bool {
	return func(f desktest.Frame) bool {
		if f.T != "ev.state" {
			return false
		}
		var ch proto.StateChange
		f.Decode(&ch)
		return ch.State == string(want)
	}
}

// Through real sockets: greeting, hand-off, queue, take, both talk; the server restarts in the middle; everything is
// there once and in order on both sides.
func TestStoryOverSocketsWithRestart(t *testing.T) { tellStory(t, false) }

// The same by long polls.
func TestStoryOverPollsWithRestart(t *testing.T) { tellStory(t, true) }

func tellStory(t *testing.T, polls bool) {
	o := testOptions(t)
	o.Routing.Strategy = store.Manual // the router would now and then be quicker than the first word about the place in the queue
	s := serve(t, o)
	s.polls, s.web.Polls = polls, polls
	ann, lin := s.customer(), s.agent()
	conv, err := ann.Open(s.ctx, "bot")
	s.ok(err)
	_, err = ann.Event(s.ctx, conv, func(f desktest.Frame) bool { return f.T == "ev.msg" })
	s.ok(err)
	ann.Send(conv, "I want a human")
	_, err = ann.Event(s.ctx, conv, stateIs(store.Queued))
	s.ok(err)
	_, err = ann.Other(s.ctx, func(f desktest.Frame) bool { return f.T == "ev.queue" })
	s.ok(err)
	s.ok(lin.Take(s.ctx, conv))
	for i := range 10 {
		ann.Send(conv, fmt.Sprint("customer ", i))
		lin.Send(conv, fmt.Sprint("agent ", i))
	}
	s.ok(ann.Flushed(s.ctx))
	s.stop()
	s.start()
	for i := range 10 {
		ann.Send(conv, fmt.Sprint("customer again ", i))
		lin.Send(conv, fmt.Sprint("agent again ", i))
	}
	s.ok(ann.Flushed(s.ctx))
	s.ok(lin.Flushed(s.ctx))
	const events = 1 + 1 + 1 + 1 + 1 + 1 + 40 // opened, greeting, message, answer, handed over, taken, the rest
	s.ok(ann.Complete(s.ctx, conv, events))
	s.ok(lin.Complete(s.ctx, conv, events))
	a, l := ann.View(conv), lin.View(conv)
	if len(a) != events || len(l) != events {
		t.Fatalf("the customer sees %d events, the agent %d, want %d", len(a), len(l), events)
	}
	for i := range a {
		if a[i].S != uint64(i+1) || string(a[i].D) != string(l[i].D) {
			t.Fatalf("event %d: %+v and %+v", i, a[i], l[i])
		}
	}
}

// hello is a raw, welcomed connection of a new visitor.
func (s *served) hello(header http.Header) (*websocket.Conn, error) {
	conn, _, err := websocket.Dial(s.ctx, s.base.Load().(string)+"/ws", &websocket.DialOptions{
		Subprotocols: []string{proto.Subprotocol}, HTTPHeader: header, HTTPClient: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}},
	})
	if err != nil {
		return nil, err
	}
	var v visitorInfo
	s.ok(s.web.Post(s.ctx, "/api/v1/widget/session", map[string]string{"site": "demo"}, &v))
	s.ok(conn.Write(s.ctx, websocket.MessageText, []byte(`{"t":"hello","id":"1","d":{"token":"`+v.Token+`"}}`)))
	_, data, err := conn.Read(s.ctx)
	s.ok(err)
	if !strings.Contains(string(data), `"t":"welcome"`) {
		s.t.Fatalf("%s", data)
	}
	return conn, nil
}

func TestBadInputOverSockets(t *testing.T) {
	s := serve(t, testOptions(t))
	bystander := s.customer()
	conv, err := bystander.Open(s.ctx, "human")
	s.ok(err)
	for name, c := range map[string]struct {
		kind websocket.MessageType
		data []byte
		want websocket.StatusCode
	}{
		"binary":    {websocket.MessageBinary, []byte(`{"t":"ping","id":"1"}`), proto.CloseUnsupportedData},
		"bad UTF-8": {websocket.MessageText, []byte("{\"t\":\"ping\",\"id\":\"\xff\"}"), 1007},
		"too large": {websocket.MessageText, []byte(`{"t":"ping","id":"1","x":"` + strings.Repeat("x", proto.MaxCustomerBytes) + `"}`), proto.CloseTooLarge},
		"gigantic":  {websocket.MessageText, []byte(strings.Repeat("x", proto.MaxAgentBytes+1)), proto.CloseTooLarge},
	} {
		conn, err := s.hello(nil)
		s.ok(err)
		_ = conn.Write(s.ctx, c.kind, c.data) // may fail when the server closes in the middle of it
		for err == nil {
			_, _, err = conn.Read(s.ctx)
		}
		var ce websocket.CloseError
		if !errors.As(err, &ce) || ce.Code != c.want || ce.Reason == "" {
			t.Errorf("%s: %v, want close %d with a reason", name, err, c.want)
		}
	}
	bystander.Send(conv, "still here")
	s.ok(bystander.Flushed(s.ctx))
	if _, n := bystander.Welcome(); n != 1 {
		t.Errorf("the bystander was disturbed: %d welcomes", n)
	}
}

func TestOriginAndSubprotocol(t *testing.T) {
	s := serve(t, testOptions(t))
	base := s.base.Load().(string)
	for name, c := range map[string]struct {
		origin string
		ok     bool
	}{
		"own":           {base, true},
		"none":          {"", true}, // a program; hello still needs a token
		"other host":    {"http://evil.example", false},
		"other port":    {base + "1", false},
		"null":          {"null", false},
		"not a URL":     {"http://[", false},
		"other scheme":  {strings.Replace(base, "http", "file", 1), false},
		"prefix of own": {base + ".evil.example", false},
	} {
		header := http.Header{}
		if c.origin != "" {
			header.Set("Origin", c.origin)
		}
		conn, err := s.hello(header)
		if (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
		if err != nil && !strings.Contains(err.Error(), "403") {
			t.Errorf("%s: %v, want 403", name, err)
		}
		if conn != nil {
			_ = conn.CloseNow()
		}
	}
	if n := s.desk.Stats().OriginRefused; n != 6 {
		t.Errorf("%d refusals counted", n)
	}
	_, resp, err := websocket.Dial(s.ctx, base+"/ws", &websocket.DialOptions{HTTPClient: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}})
	if err == nil || resp == nil || resp.StatusCode != http.StatusBadRequest {
		t.Errorf("without the subprotocol: %v", err)
	}
}

// An agent's page has its cookie and its ticket; logging out closes its connection.
func TestLogoutOverSockets(t *testing.T) {
	s := serve(t, testOptions(t))
	web := s.newWeb()
	lin := web.Agent("agent", s.pass)
	t.Cleanup(lin.Close)
	s.ok(lin.Connected(s.ctx))
	s.ok(web.Post(s.ctx, "/api/v1/agent/logout", nil, nil))
	testkit.Eventually(t, "the session to be closed", func() bool { return s.desk.Stats().Closes["4101"] == 1 })
}
