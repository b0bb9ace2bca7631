package hub

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-eddy/eddy/desk/auth"
	"github.com/go-eddy/eddy/desk/desktest"
	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/store"
)

func TestTooManySessions(t *testing.T) {
	limits := testLimits()
	limits.CustomerSessions, limits.AgentSessions = 2, 3
	r := newRig(t, Options{Limits: limits})
	token, account := r.visitor(), r.account("lin", 100)
	session := r.login(account)
	for name, c := range map[string]struct {
		limit int
		hello func(c *rawClient)
	}{
		"customer": {2, func(c *rawClient) { c.write("hello", "h", "", proto.Hello{Token: token}) }},
		"agent": {3, func(c *rawClient) {
			ticket := r.hub.o.Tickets.Issue(account.ID, session)
			c.write("hello", "h", "", proto.Hello{Ticket: ticket})
		}},
	} {
		var open []*rawClient
		for range c.limit {
			client := r.raw(r.dial(Peer{}))
			c.hello(client)
			client.until(isType("welcome"))
			open = append(open, client)
		}
		over := r.raw(r.dial(Peer{}))
		c.hello(over)
		if got := code(over.until(func(f desktest.Frame) bool { return f.RE == "h" })); got != proto.CodeForbidden {
			t.Errorf("%s: %q", name, got)
		}
		over.untilClosed(proto.CloseTooManySessions)
		r.ok(open[0].w.client().Close())
		again := r.raw(r.dial(Peer{}))
		c.hello(again)
		again.until(isType("welcome"))
	}
}

// A session does not outlive the login it came from.
func TestSessionEndsWithItsLogin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newBubbleRig(t, Options{Limits: testLimits()})
		account := r.account("lin", 100)
		_, hash := auth.NewToken()
		r.ok(r.db.CreateAgentSession(r.ctx, hash, account.ID, time.Now().Add(time.Minute)))
		ticket := r.hub.o.Tickets.Issue(account.ID, hash)
		began := time.Now()
		c := r.raw(r.dial(Peer{}))
		c.write("hello", "h", "", proto.Hello{Ticket: ticket})
		c.untilClosed(proto.CloseTokenExpired)
		if lived := time.Since(began); lived != time.Minute {
			t.Errorf("closed after %v, the login ends after a minute", lived)
		}
	})
}

// A ticket is worth nothing once its login is gone.
func TestTicketOfAnEndedLogin(t *testing.T) {
	r := newRig(t, Options{Limits: testLimits()})
	account := r.account("lin", 100)
	for name, end := range map[string]func(session store.Token){
		"logged out": func(s store.Token) { r.ok(r.db.DeleteAgentSession(r.ctx, s)) },
		"disabled": func(store.Token) {
			a := account
			a.Disabled = true
			r.ok(r.db.UpdateAgent(r.ctx, a))
		},
	} {
		session := r.login(account)
		ticket := r.hub.o.Tickets.Issue(account.ID, session)
		end(session)
		c := r.raw(r.dial(Peer{}))
		c.write("hello", "h", "", proto.Hello{Ticket: ticket})
		if got := code(c.until(func(f desktest.Frame) bool { return f.RE == "h" })); got != proto.CodeUnauthorized {
			t.Errorf("%s: %q", name, got)
		}
		c.untilClosed(proto.CloseUnauthorized)
	}
}

// TestBarredAccount: a barred account connects by no ticket, not even one from before, and its sessions end when they are
// checked again.
func TestBarredAccount(t *testing.T) {
	var barred atomic.Bool
	r := newRig(t, Options{Limits: testLimits(), Barred: func(store.AgentAccount) bool { return barred.Load() }})
	account := r.account("lin", 100)
	session := r.login(account)
	hello := func() *rawClient {
		ticket := r.hub.o.Tickets.Issue(account.ID, session)
		c := r.raw(r.dial(Peer{}))
		c.write("hello", "h", "", proto.Hello{Ticket: ticket})
		return c
	}
	open := hello()
	open.until(func(f desktest.Frame) bool { return f.T == "welcome" })
	barred.Store(true)
	r.ok(r.db.UpdateAgent(r.ctx, account))
	open.untilClosed(proto.CloseUnauthorized)
	late := hello()
	if got := code(late.until(func(f desktest.Frame) bool { return f.RE == "h" })); got != proto.CodeForbidden {
		t.Errorf("a late hello: %q", got)
	}
	late.untilClosed(proto.CloseUnauthorized)
}

// What is taken back while a hello is between its read and its place in the books does not slip through.
func TestHelloMeetsRevocation(t *testing.T) {
	r := newRig(t, Options{Limits: testLimits()})
	h := r.hub
	r.calm()
	for name, c := range map[string]struct {
		take func(token store.Token, contact string)
		code int
	}{
		"nothing": {func(store.Token, string) {}, 0},
		"blocked": {func(_ store.Token, contact string) {
			_, err := r.db.BlockContact(r.ctx, contact, true)
			r.ok(err)
		}, proto.CloseBlocked},
		"logged out": {func(token store.Token, _ string) {
			r.ok(r.db.DropVisitor(r.ctx, token))
		}, proto.CloseUnauthorized},
		"merged": {func(_ store.Token, contact string) {
			into, err := r.db.Hot().ContactByToken(r.ctx, auth.HashToken(r.visitor()), time.Now())
			r.ok(err)
			_, err = r.db.MergeContacts(r.ctx, contact, into.ID)
			r.ok(err)
		}, proto.CloseTryLater},
		"erased": {func(_ store.Token, contact string) { r.ok(r.db.EraseContact(r.ctx, contact)) }, proto.CloseUnauthorized},
	} {
		token := store.Token(auth.HashToken(r.visitor()))
		before := h.rechecks.count.Load()
		contact, no, err := h.knownCustomer(r.ctx, r.db.Hot(), Peer{}, token)
		if no != nil || err != nil {
			t.Fatal(no, err)
		}
		c.take(token, contact.ID)
		w := r.dial(Peer{})
		s := w.session
		s.mu.Lock()
		s.phase = greeting
		s.mu.Unlock()
		who := identity{actor: contact.Actor(), site: contact.Site, login: token}
		h.resume(r.ctx, r.db.Hot(), s, who, proto.Command{Type: "hello", ID: "h"}, &proto.Hello{}, before)
		s.mu.Lock()
		welcomed := s.phase == live
		s.mu.Unlock()
		if welcomed != (c.code == 0) {
			t.Errorf("%s: welcomed %v", name, welcomed)
		}
		r.waitFor(name, func() bool { return w.closeCode() == c.code })
	}
}

// TestRecheckFails: a session whose login cannot be looked at ends, and comes back when it can.
func TestRecheckFails(t *testing.T) {
	r := newRig(t, Options{Limits: testLimits()})
	ann, lin := r.customer(), r.agent("lin")
	r.ok(ann.Connected(r.ctx))
	r.ok(lin.Connected(r.ctx))
	before := r.hub.Counters.Welcomes.Load()
	r.hub.doubt(&store.Fed{Accounts: []string{lin.Me().ID}, Ended: []store.ContactEnd{{Contact: ann.Me().ID}}})
	dead, cancel := context.WithCancel(r.ctx)
	cancel()
	r.hub.recheck(dead)
	if n := r.hub.Counters.Closes()[fmt.Sprint(proto.CloseTryLater)]; n != 2 {
		t.Errorf("%d sessions closed", n)
	}
	r.waitFor("both to come back", func() bool { return r.hub.Counters.Welcomes.Load() == before+2 })
	r.hub.recheck(dead)
	if n := r.hub.Counters.Closes()[fmt.Sprint(proto.CloseTryLater)]; n != 2 {
		t.Errorf("%d sessions closed without a reason", n)
	}
}

func TestBlockedContactIsNotLetIn(t *testing.T) {
	r := newRig(t, Options{Limits: testLimits()})
	token := r.visitor()
	contact, err := r.db.Hot().ContactByToken(r.ctx, auth.HashToken(token), time.Now())
	r.ok(err)
	_, err = r.db.BlockContact(r.ctx, contact.ID, true)
	r.ok(err)
	c := r.raw(r.dial(Peer{}))
	c.write("hello", "h", "", proto.Hello{Token: token})
	if got := code(c.until(func(f desktest.Frame) bool { return f.RE == "h" })); got != proto.CodeBlocked {
		t.Errorf("%q", got)
	}
	c.untilClosed(proto.CloseBlocked)
	_, err = r.db.BlockContact(r.ctx, contact.ID, false)
	r.ok(err)
	again := r.raw(r.dial(Peer{}))
	again.write("hello", "h", "", proto.Hello{Token: token})
	again.until(isType("welcome"))
}
