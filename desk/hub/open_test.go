package hub

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/go-eddy/eddy/desk/auth"
	"github.com/go-eddy/eddy/desk/desktest"
	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/store"
)

// opener makes customers of one address.
type opener struct {
	*rig
	shift atomic.Int64 // nanoseconds that the clock is ahead
}

func newOpener(t *testing.T, limits Limits) *opener {
	t.Helper()
	o := &opener{}
	o.rig = newRig(t, Options{Limits: limits, Now: func() time.Time { return time.Now().Add(time.Duration(o.shift.Load())) }})
	return o
}

func (o *opener) on(site store.Site) *rawClient {
	o.t.Helper()
	token, hash := auth.NewToken()
	_, err := o.db.CreateVisitor(o.ctx, site, hash, time.Now().Add(24*time.Hour))
	o.ok(err)
	c := o.raw(o.dial(Peer{Network: "198.51.100.1"}))
	c.hello(token)
	return c
}

// ask sends a command and returns the reply, and the error that it may be.
func (o *opener) ask(c *rawClient, t, conv string, d any) (desktest.Frame, proto.Error) {
	o.t.Helper()
	id := uuid.NewString()
	c.write(t, id, conv, d)
	f := c.until(func(f desktest.Frame) bool { return f.RE == id })
	var e proto.Error
	if f.T == "err" {
		f.Decode(&e)
	}
	return f, e
}

func (o *opener) opens(c *rawClient, d proto.Open) (conv string) {
	o.t.Helper()
	f, e := o.ask(c, "conv.open", "", d)
	if e.Code != "" {
		o.t.Fatalf("conv.open: %+v", e)
	}
	return f.C
}

func (o *opener) says(c *rawClient, conv string) proto.Error {
	o.t.Helper()
	_, e := o.ask(c, "msg.send", conv, proto.Send{ClientID: uuid.NewString(), Body: "hello"})
	return e
}

// An address begins as many chats as it may with their first action, whatever its pages have opened, and again when time has
// passed; what goes on is never refused.
func TestChatsOfOneAddressAreCountedByTheirFirstAction(t *testing.T) {
	limits := testLimits()
	limits.Chats = 3
	o := newOpener(t, limits)
	var clients [8]*rawClient
	var convs [8]string
	for i := range clients {
		clients[i] = o.on(o.site)
		convs[i] = o.opens(clients[i], proto.Open{})
	}
	for range 2 { // the second time they go on
		for i := range 2 {
			if e := o.says(clients[i], convs[i]); e.Code != "" {
				t.Fatalf("customer %d: %+v", i, e)
			}
		}
	}
	if _, e := o.ask(clients[2], "conv.handoff", convs[2], proto.Handoff{}); e.Code != "" {
		t.Fatalf("asking for a person: %+v", e)
	}
	for name, e := range map[string]proto.Error{
		"the first message": o.says(clients[3], convs[3]),
		"a person":          second(o.ask(clients[4], "conv.handoff", convs[4], proto.Handoff{})),
		"straight to one":   second(o.ask(o.on(o.site), "conv.open", "", proto.Open{Wants: "human"})),
		"opening":           second(o.ask(o.on(o.site), "conv.open", "", proto.Open{})),
	} {
		if e.Code != proto.CodeRateLimited || e.Reason != reasonChats || !strings.Contains(e.Text, "3 new chats an hour") ||
			e.RetryMS < 19*time.Minute.Milliseconds() || e.RetryMS > 20*time.Minute.Milliseconds() {
			t.Errorf("%s beyond the limit: %+v", name, e)
		}
	}
	for i := range 3 {
		if e := o.says(clients[i], convs[i]); e.Code != "" {
			t.Errorf("customer %d in a chat that goes on: %+v", i, e)
		}
	}
	if c, err := o.db.Cold().Conversation(o.ctx, convs[3]); err != nil || c.ActedAt != 0 || c.Preview == "hello" {
		t.Errorf("the refused message: %+v %v", c, err)
	}
	o.shift.Add(int64(20 * time.Minute))
	if e := o.says(clients[3], convs[3]); e.Code != "" {
		t.Errorf("when there is room again: %+v", e)
	}
	if e := o.says(clients[4], convs[4]); e.Code != proto.CodeRateLimited {
		t.Errorf("the one after that: %+v", e)
	}
}

func second(_ desktest.Frame, e proto.Error) proto.Error { return e }

// What has come to nothing does not count: answers that are not accepted, the chat that is there already, a message that
// cannot be stored.
func TestOnlyNewChatsAreCounted(t *testing.T) {
	limits := testLimits()
	limits.Chats = 2
	o := newOpener(t, limits)
	site, err := o.db.CreateSite(o.ctx, store.Site{Key: "asks", Name: "Asks", Settings: store.SiteSettings{Consent: "We keep it."}})
	o.ok(err)
	ann, bob, eve := o.on(site), o.on(site), o.on(site)
	for range 5 {
		if _, e := o.ask(ann, "conv.open", "", proto.Open{Fields: map[string]string{"name": "Ann"}}); e.Code != proto.CodeBadRequest {
			t.Fatalf("without consent: %+v", e)
		}
	}
	agreed := proto.Open{Consent: true}
	conv := o.opens(ann, agreed)
	for range 3 { // the second, and twice the one that is there
		o.opens(bob, agreed)
	}
	if e := o.says(ann, conv); e.Code != "" {
		t.Errorf("a chat that was counted with its answers: %+v", e)
	}
	if _, e := o.ask(eve, "conv.open", "", agreed); e.Code != proto.CodeRateLimited {
		t.Errorf("the third: %+v", e)
	}

	first := o.on(o.site)
	conv = o.opens(first, proto.Open{})
	o.fault.set(func(_ store.Command, _ func(), fail func(error)) { fail(store.ErrUnavailable) })
	for range 5 {
		if e := o.says(first, conv); e.Code != proto.CodeUnavailable {
			t.Fatalf("with a store that fails: %+v", e)
		}
	}
	o.fault.heal()
	if e := o.says(first, conv); e.Code != "" {
		t.Errorf("afterwards: %+v", e)
	}
}

// A page that opens a chat for everybody who looks at it is let in for ten times as many as may write.
func TestChatsThatAreOnlyOpenedAreBounded(t *testing.T) {
	limits := testLimits()
	limits.Chats = 1
	o := newOpener(t, limits)
	for range opensPerChat {
		o.opens(o.on(o.site), proto.Open{})
	}
	if _, e := o.ask(o.on(o.site), "conv.open", "", proto.Open{}); e.Code != proto.CodeRateLimited {
		t.Errorf("one more: %+v", e)
	}
}

// A site may have a limit of its own; without one, 120 customers of one address begin at once.
func TestChatsOfOneAddressBySite(t *testing.T) {
	o := newOpener(t, testLimits())
	o.site.Settings.Chats = 1
	o.ok(o.db.UpdateSite(o.ctx, o.site))
	plain, err := o.db.CreateSite(o.ctx, store.Site{Key: "plain", Name: "Plain", BotName: "Eddy"})
	o.ok(err)
	o.knows(plain)
	begin := func(site store.Site) proto.Error {
		return second(o.ask(o.on(site), "conv.open", "", proto.Open{Wants: "human"}))
	}
	if a, b := begin(o.site), begin(o.site); a.Code != "" || b.Code != proto.CodeRateLimited || !strings.Contains(b.Text, "1 new chats an hour") {
		t.Errorf("a site for one: %+v, %+v", a, b)
	}
	for i := range 120 {
		if e := begin(plain); e.Code != "" {
			t.Fatalf("customer %d: %+v", i+1, e)
		}
	}
	if e := begin(plain); e.Code != proto.CodeRateLimited {
		t.Errorf("one more: %+v", e)
	}
}
