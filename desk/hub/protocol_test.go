package hub

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-eddy/eddy/desk/auth"
	"github.com/go-eddy/eddy/desk/desktest"
	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/store"
)

// rawClient speaks frame by frame.
type rawClient struct {
	*rig
	w *wire
	t desktest.Transport
}

func (r *rig) raw(w *wire) *rawClient { return &rawClient{r, w, w.client()} }

func (c *rawClient) text(frame string) { _ = c.t.Write(c.ctx, []byte(frame)) }

func (c *rawClient) write(t, id, conv string, d any) {
	c.rig.t.Helper()
	frame, err := json.Marshal(map[string]any{"t": t, "id": id, "c": conv, "d": d})
	c.ok(err)
	c.text(string(frame))
}

// until reads until a frame matches.
func (c *rawClient) until(match func(desktest.Frame) bool) desktest.Frame {
	c.rig.t.Helper()
	for {
		data, err := c.t.Read(c.ctx)
		c.ok(err)
		var f desktest.Frame
		c.ok(json.Unmarshal(data, &f))
		if match(f) {
			return f
		}
	}
}

func (c *rawClient) untilClosed(want int) {
	c.rig.t.Helper()
	for {
		if _, err := c.t.Read(c.ctx); err != nil {
			break
		}
	}
	if got := c.w.closeCode(); got != want {
		c.rig.t.Fatalf("closed with %d %q, want %d", got, c.w.reason, want)
	}
}

func (c *rawClient) hello(token string) proto.Welcome {
	c.rig.t.Helper()
	c.write("hello", "h", "", proto.Hello{Token: token})
	var w proto.Welcome
	c.until(isType("welcome")).Decode(&w)
	return w
}

func (c *rawClient) open() string {
	c.rig.t.Helper()
	c.write("conv.open", "o", "", proto.Open{Wants: "human"})
	return c.until(func(f desktest.Frame) bool { return f.RE == "o" }).C
}

// Every bad input has its answer, and the session lives on.
func TestBadInput(t *testing.T) {
	r := newRig(t, Options{Limits: testLimits()})
	c := r.raw(r.dial(Peer{}))
	c.hello(r.visitor())
	conv := c.open()
	bystander := r.customer()
	id := newClientID()
	for name, x := range map[string]struct {
		frame string
		want  proto.Code
	}{
		"not JSON":            {`{"t":`, proto.CodeBadRequest},
		"binary junk":         {"\x00\xff\xfe", proto.CodeBadRequest},
		"unknown type":        {`{"t":"dance","id":"x"}`, proto.CodeUnknownType},
		"no type":             {`{"id":"x"}`, proto.CodeBadRequest},
		"second hello":        {`{"t":"hello","id":"x","d":{"token":"y"}}`, proto.CodeOutOfOrder},
		"text too long":       {fmt.Sprintf(`{"t":"msg.send","id":"x","c":%q,"d":{"client_id":%q,"body":%q}}`, conv, id, strings.Repeat("界", proto.MaxTextChars+1)), proto.CodeTooLarge},
		"unknown and unknown": {`{"t":"msg.send","id":"x","c":"zzz","d":{"client_id":"` + id + `","body":"x"}}`, proto.CodeNotFound},
		"numbers too large":   {`{"t":"sync","id":"x","c":"` + conv + `","d":{"after":1e99}}`, proto.CodeBadRequest},
	} {
		c.text(x.frame)
		if got := code(c.until(func(f desktest.Frame) bool { return f.T == "err" })); got != x.want {
			t.Errorf("%s: %q, want %q", name, got, x.want)
		}
	}
	longest := strings.Repeat("界", proto.MaxTextChars)
	c.write("msg.send", "long", conv, proto.Send{ClientID: id, Body: longest})
	if f := c.until(func(f desktest.Frame) bool { return f.RE == "long" }); f.T != "ok" {
		t.Errorf("a text of %d characters: %s", proto.MaxTextChars, f.D)
	}
	r.ok(bystander.Connected(r.ctx))
	if n := r.hub.Counters.Errors()["unknown_type"]; n != 1 {
		t.Errorf("unknown_type counted %d times", n)
	}
}

func TestRepeatedBadRequestsClose(t *testing.T) {
	r := newRig(t, Options{Limits: testLimits()})
	c := r.raw(r.dial(Peer{}))
	c.hello(r.visitor())
	for range maxStrikes {
		c.text(`nonsense`)
	}
	c.untilClosed(proto.CloseProtocolError)
	if n := r.hub.Counters.Closes()["4109"]; n != 1 {
		t.Errorf("counted %d", n)
	}
}

func TestUnknownTypesDoNotClose(t *testing.T) {
	r := newRig(t, Options{Limits: testLimits()})
	c := r.raw(r.dial(Peer{}))
	c.hello(r.visitor())
	for range 3 * maxStrikes {
		c.text(`{"t":"from.the.future","id":"1"}`)
	}
	c.write("ping", "p", "", proto.Ping{Time: 5})
	var pong proto.Pong
	if c.until(isType("pong")).Decode(&pong); pong.Client != 5 || pong.Time == 0 {
		t.Errorf("%+v", pong)
	}
}

func TestSizeLimitsByState(t *testing.T) {
	r := newRig(t, Options{Limits: testLimits()})
	lin := r.account("lin", 100)
	pad := func(n int) string { // a ping of exactly n bytes
		frame := `{"t":"ping","id":"p","x":"`
		return frame + strings.Repeat("x", n-len(frame)-2) + `"}`
	}
	for name, c := range map[string]struct {
		limit int
		hello func(c *rawClient)
	}{
		"before hello": {proto.MaxHelloBytes, nil},
		"customer":     {proto.MaxCustomerBytes, func(c *rawClient) { c.hello(r.visitor()) }},
		"agent": {proto.MaxAgentBytes, func(c *rawClient) {
			ticket := r.hub.o.Tickets.Issue(lin.ID, r.login(lin))
			c.write("hello", "h", "", proto.Hello{Ticket: ticket})
			c.until(isType("welcome"))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			client := r.raw(r.dial(Peer{}))
			if c.hello != nil {
				c.hello(client)
			}
			client.text(pad(c.limit))
			client.until(func(f desktest.Frame) bool { return f.T == "pong" || code(f) == proto.CodeOutOfOrder })
			client.text(pad(c.limit + 1))
			client.untilClosed(proto.CloseTooLarge)
			if !strings.Contains(client.w.reason, fmt.Sprint(c.limit)) {
				t.Errorf("reason %q", client.w.reason)
			}
		})
	}
}

func TestHello(t *testing.T) {
	r := newRig(t, Options{Limits: testLimits()})
	expired, hash := auth.NewToken()
	if _, err := r.db.CreateVisitor(r.ctx, r.site, hash, time.Now().Add(-time.Hour)); err != nil {
		t.Fatal(err)
	}
	account := r.account("lin", 100)
	session := r.login(account)
	ticket := func() string { return r.hub.o.Tickets.Issue(account.ID, session) }
	spent := ticket()
	r.hub.o.Tickets.Spend(spent)
	for name, c := range map[string]struct {
		peer  Peer
		hello proto.Hello
		want  proto.Code
		close int
	}{
		"unknown token":              {Peer{}, proto.Hello{Token: "guess"}, proto.CodeUnauthorized, proto.CloseUnauthorized},
		"expired token":              {Peer{}, proto.Hello{Token: expired}, proto.CodeTokenExpired, proto.CloseTokenExpired},
		"unknown ticket":             {Peer{}, proto.Hello{Ticket: "guess"}, proto.CodeUnauthorized, proto.CloseUnauthorized},
		"spent ticket":               {Peer{}, proto.Hello{Ticket: spent}, proto.CodeUnauthorized, proto.CloseUnauthorized},
		"ticket without the cookie":  {Peer{Browser: true}, proto.Hello{Ticket: ticket()}, proto.CodeUnauthorized, proto.CloseUnauthorized},
		"ticket of another's cookie": {Peer{Browser: true, Login: store.Token{9}}, proto.Hello{Ticket: ticket()}, proto.CodeUnauthorized, proto.CloseUnauthorized},
	} {
		client := r.raw(r.dial(c.peer))
		client.write("hello", "1", "", c.hello)
		if got := code(client.until(func(f desktest.Frame) bool { return f.RE == "1" })); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		client.untilClosed(c.close)
	}
	good := r.raw(r.dial(Peer{Browser: true, Login: session}))
	good.write("hello", "1", "", proto.Hello{Ticket: ticket()})
	good.until(isType("welcome"))
	early := r.raw(r.dial(Peer{}))
	early.write("ping", "0", "", proto.Ping{Time: 5}) // is answered, so that a client learns whether messages come through
	early.until(isType("pong"))
	early.write("conv.open", "1", "", proto.Open{})
	if got := code(early.until(func(f desktest.Frame) bool { return f.RE == "1" })); got != proto.CodeOutOfOrder {
		t.Errorf("command before hello: %q", got)
	}
	synctest.Test(t, func(t *testing.T) {
		r := newBubbleRig(t, Options{Limits: Limits{HelloTimeout: 5 * time.Second}})
		silent, began := r.raw(r.dial(Peer{})), time.Now()
		silent.untilClosed(proto.CloseTryLater)
		if waited := time.Since(began); waited != 5*time.Second {
			t.Errorf("closed without a hello after %v", waited)
		}
	})
}

// fakeClock is a clock that moves when it is told to.
type fakeClock struct {
	mu sync.Mutex
	t  time.Time
}

func (c *fakeClock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.t
}

func (c *fakeClock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.t.Add(d)
}

func TestMessageRate(t *testing.T) {
	clock := &fakeClock{t: time.Now()}
	r := newRig(t, Options{Now: clock.now, Limits: patient()}) // the default rates
	c := r.raw(r.dial(Peer{}))
	c.hello(r.visitor())
	conv := c.open()
	send := func(id string) (proto.Code, int64) {
		c.write("msg.send", id, conv, proto.Send{ClientID: newClientID(), Body: "x"})
		f := c.until(func(f desktest.Frame) bool { return f.RE == id })
		var e proto.Error
		if f.T == "err" {
			f.Decode(&e)
		}
		return e.Code, e.RetryMS
	}
	for i := range 10 {
		if got, _ := send(fmt.Sprint(i)); got != "" {
			t.Fatalf("message %d of the burst: %q", i, got)
		}
	}
	if got, retry := send("11"); got != proto.CodeRateLimited || retry != 1000 {
		t.Fatalf("eleventh: %q, retry %d", got, retry)
	}
	clock.advance(time.Second)
	if got, _ := send("12"); got != "" {
		t.Fatalf("a second later: %q", got)
	}
	if got, _ := send("13"); got != proto.CodeRateLimited {
		t.Fatalf("at once again: %q", got)
	}
}

func TestCommandFloodIsClosed(t *testing.T) {
	clock := &fakeClock{t: time.Now()}
	r := newRig(t, Options{Now: clock.now, Limits: patient()})
	c := r.raw(r.dial(Peer{}))
	c.hello(r.visitor())
	for range 100 + maxRefusals {
		c.text(`{"t":"ping","id":"1"}`)
	}
	c.until(func(f desktest.Frame) bool {
		var e proto.Error
		if f.T != "err" {
			return false
		}
		if f.Decode(&e); e.RetryMS != proto.MinRetry.Milliseconds() { // there is room in 50 ms
			t.Errorf("%+v", e)
		}
		return true
	})
	c.untilClosed(proto.CloseRateLimited)
}

// TestByesAreSpread: nobody is asked to come back at once, and few at the same time.
func TestByesAreSpread(t *testing.T) {
	for _, c := range []struct {
		sessions int
		most     time.Duration
	}{{1, time.Second}, {1_000_000, maxByeSpread}} {
		seen := make(map[int64]bool)
		for range 1000 {
			ms := comeBack(c.sessions)
			if ms < proto.MinRetry.Milliseconds() || ms > (proto.MinRetry+c.most).Milliseconds() {
				t.Fatalf("%d sessions: %d ms", c.sessions, ms)
			}
			seen[ms] = true
		}
		if len(seen) < 100 {
			t.Errorf("%d sessions: %d different times", c.sessions, len(seen))
		}
	}
}

func TestSlowConsumerIsClosed(t *testing.T) {
	limits := testLimits()
	limits.CustomerOutbound = 32 << 10
	r := newRig(t, Options{Limits: limits})
	token := r.visitor()
	slow := r.raw(r.dial(Peer{}))
	slow.hello(token)
	conv := slow.open()
	slow.w.mu.Lock()
	slow.w.stall = true
	slow.w.mu.Unlock()
	lin := r.agent("lin")
	r.ok(lin.Take(r.ctx, conv))
	for range 30 {
		lin.Send(conv, strings.Repeat("x", 4000))
	}
	r.ok(lin.Flushed(r.ctx))
	r.waitFor("the close", func() bool { return slow.w.closeCode() == proto.CloseSlow })
	if queued := slow.w.Queued(); queued > limits.CustomerOutbound+8<<10 {
		t.Errorf("%d bytes were queued", queued)
	}
	back := r.client(r.dialer(token)) // resumes completely
	r.checkView(back, conv, store.CustomerSide)
}

// Ephemeral events are dropped long before a session is slow enough to be closed.
func TestEphemeralIsDroppedFirst(t *testing.T) {
	limits := testLimits()
	limits.CustomerOutbound = 32 << 10
	r := newRig(t, Options{Limits: limits})
	c := r.raw(r.dial(Peer{}))
	c.hello(r.visitor())
	conv := c.open()
	lin := r.agent("lin")
	r.ok(lin.Take(r.ctx, conv))
	c.until(isType("ev.state"))
	c.w.mu.Lock()
	c.w.stall = true
	c.w.mu.Unlock()
	for i := range 3 {
		lin.Send(conv, fmt.Sprint(i, strings.Repeat("x", 3000)))
	}
	r.ok(lin.Flushed(r.ctx))
	r.waitFor("the events to be queued", func() bool { return c.w.Queued() > 9000 })
	queued, dropped := c.w.Queued(), r.hub.Counters.Dropped.Load()
	_, _ = lin.Do(canceled(), "typing", conv, proto.Typing{On: true})
	r.waitFor("the hint to be dropped", func() bool { return r.hub.Counters.Dropped.Load() > dropped })
	if c.w.Queued() != queued || c.w.closeCode() != 0 {
		t.Errorf("queued %d, before %d, close code %d", c.w.Queued(), queued, c.w.closeCode())
	}
	c.w.mu.Lock()
	c.w.stall = false
	c.w.mu.Unlock()
	c.until(func(f desktest.Frame) bool { return strings.Contains(string(f.D), `"2xxx`) })
}
