package model

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-eddy/eddy/desk/auth"
	"github.com/go-eddy/eddy/desk/datadir"
	"github.com/go-eddy/eddy/desk/desktest"
	"github.com/go-eddy/eddy/desk/perm"
	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/store"
	"github.com/go-eddy/eddy/desk/store/sqlstore"
)

const boss = "boss" // the administrator, who blocks, merges and erases guests

// hosts is how often the administrator has guests of every kind.
func hosts() int { return max(1, *modelSteps/200) }

// hostReaches are the commands of the store that the visits of guests, the logins of all and the checks behind them reach.
func hostReaches() []string {
	return []string{
		"AcceptInvitation", "Audit", "BlockContact", "CreateAgentSession", "CreateVisitor", "DescribeAgentSession", "EraseContact", "EraseMore", "MergeContacts", "Move", "Open",
		"Reconcile", "Recount",
	}
}

// token of an invitation.
func token(n int) string { return fmt.Sprint("invitation ", n) }

// found makes what pages make before anybody comes: the administrator, whose account is that of an agent otherwise,
// and invitations.
func (m *model) found() {
	db, err := sqlstore.Open(m.ctx, sqlstore.Options{Path: datadir.Database(m.dir)})
	m.ok(err)
	first, err := db.Cold().AgentByLogin(m.ctx, "agent0")
	m.ok(err)
	admin, err := db.CreateAgent(m.ctx, store.AgentAccount{Login: boss, Name: "Boss", Password: first.Password, Role: perm.Admin, NoChats: true, Capacity: 1})
	m.ok(err)
	for i := range hosts() {
		_, err = db.CreateInvitation(m.ctx, store.Invitation{Role: perm.Agent, By: admin.Actor(), Expires: time.Now().Add(time.Hour).UnixMilli()}, auth.HashToken(token(i)))
		m.ok(err)
	}
	m.ok(db.Close())
}

// guest is a customer whom the administrator blocks, merges or erases.
type guest struct {
	*desktest.Client
	id, conv string
	sent     []string // client ids of what was acknowledged
}

// hosted is a guest whose visit is over, and what was done: "blocked", "merged" or "erased".
type hosted struct {
	*guest
	what string
	into *guest
}

// host has guests and new colleagues.
func (m *model) host() {
	for i := range hosts() {
		for _, visit := range []func() hosted{m.blocked, m.merged, m.erased} {
			h := visit()
			if m.ctx.Err() != nil {
				return
			}
			m.mu.Lock()
			m.hosted = append(m.hosted, h)
			m.mu.Unlock()
			m.count("guest " + h.what)
		}
		m.invited(i)
	}
}

// retry repeats something until it is known to be done.
func (m *model) retry(what string, try func() string) {
	for m.later() {
		switch try() {
		case done:
			return
		case refused:
			m.t.Errorf("%s is refused (-model-seed %d)", what, m.seed)
			return
		}
	}
}

// later waits a moment, and reports whether the run goes on.
func (m *model) later() bool {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	select {
	case <-m.ctx.Done():
		return false
	case <-tick.C:
		return true
	}
}

// visit lets a new guest write.
func (m *model) visit() *guest {
	web := desktest.NewWeb(func() string { return "http://" + m.proxy.Addr() })
	m.t.Cleanup(web.CloseIdle)
	g := &guest{Client: web.Customer("demo")}
	m.t.Cleanup(g.Close)
	conv, err := g.Open(m.ctx, "human")
	if err == nil {
		err = g.Connected(m.ctx)
	}
	if err != nil {
		m.t.Errorf("a guest: %v (-model-seed %d)", err, m.seed)
		return g
	}
	g.id, g.conv = g.Me().ID, conv
	m.mu.Lock()
	m.guests[conv] = true
	m.mu.Unlock()
	for i := range 2 {
		g.sent = append(g.sent, g.Send(conv, fmt.Sprint("guest ", i)))
	}
	if err := g.Flushed(m.ctx); err != nil {
		m.t.Errorf("a guest: %v (-model-seed %d)", err, m.seed)
	}
	return g
}

func (m *model) blocked() hosted {
	g := m.visit()
	m.retry("blocking", func() string { return m.boss.do("contact.block", "", proto.ContactBlock{Contact: g.id, Blocked: true}) })
	return hosted{guest: g, what: "blocked"}
}

// erased erases a guest who is writing. An attempt whose answer was lost may have done it.
func (m *model) erased() hosted {
	g := m.visit()
	g.Send(g.conv, "what is on its way")
	tried := false
	m.retry("erasing", func() string {
		outcome := m.boss.do("contact.erase", "", proto.ContactErase{Contact: g.id})
		if outcome == refused && tried {
			return done
		}
		tried = true
		return outcome
	})
	g.Close()
	return hosted{guest: g, what: "erased"}
}

// merged makes a guest a part of another one, as which it goes on to write.
func (m *model) merged() hosted {
	g, into := m.visit(), m.visit()
	if err := g.EndConv(m.ctx, g.conv, "done"); err != nil {
		if _, answered := errors.AsType[*proto.Error](err); !answered { // an earlier attempt has closed it
			m.t.Errorf("a guest's close: %v (-model-seed %d)", err, m.seed)
		}
	}
	m.retry("merging", func() string {
		return m.boss.form("/admin/contacts/"+g.id+"/merge", url.Values{"into": {into.id}})
	})
	for g.Me().ID != into.id && m.later() {
	}
	into.sent = append(into.sent, g.Send(into.conv, "as the other one"))
	if err := g.Flushed(m.ctx); err != nil {
		m.t.Errorf("a merged guest: %v (-model-seed %d)", err, m.seed)
	}
	return hosted{guest: g, what: "merged", into: into}
}

// form sends a form of the management and says how it ended. One that does not find what it is about has done it before.
func (p *person) form(path string, v url.Values) string {
	outcome := unknown
	if status, err := p.web.PostForm(p.m.ctx, path, v); err == nil {
		switch {
		case status < 300 || status == http.StatusNotFound:
			outcome = done
		case status < 500 && status != http.StatusTooManyRequests:
			outcome = refused
		}
	}
	p.m.count(path[:strings.IndexByte(path[1:], '/')+1] + ": " + outcome)
	return outcome
}

// invited lets two people use one invitation at once.
func (m *model) invited(n int) {
	var both sync.WaitGroup
	for _, name := range []string{"a", "b"} {
		both.Go(func() {
			web := desktest.NewWeb(func() string { return "http://" + m.proxy.Addr() })
			defer web.CloseIdle()
			for m.later() {
				err := web.Post(m.ctx, "/api/v1/agent/invitation/accept", map[string]string{"token": token(n), "login": fmt.Sprint("invited", n, name), "name": "New", "password": password}, nil)
				e, answered := errors.AsType[*proto.Error](err)
				if err == nil || answered && (e.Code == proto.CodeNotFound || e.Code == proto.CodeConflict) {
					m.count(fmt.Sprint("invitation: ", err == nil))
					return
				}
			}
		})
	}
	both.Wait()
}

// checkHosted looks for what the store has of guests and new colleagues. What is erased goes in the background.
func (m *model) checkHosted(db *sqlstore.DB) {
	m.t.Helper()
	for _, h := range m.hosted {
		c, err := db.Cold().Contact(m.ctx, h.id)
		switch {
		case h.what == "blocked":
			if err != nil || !c.Blocked {
				m.t.Errorf("blocked: %+v %v", c, err)
			}
			m.checkGuest(db, h.guest, h.id)
		case !errors.Is(err, store.ErrNotFound):
			m.t.Errorf("%s: %+v %v", h.what, c, err)
		case h.what == "merged":
			m.checkGuest(db, h.guest, h.into.id)
			m.checkGuest(db, h.into, h.into.id)
		default:
			m.gone(db, h.guest)
		}
	}
	for i := range hosts() {
		var made []string
		for _, name := range []string{"a", "b"} {
			if a, err := db.Cold().AgentByLogin(m.ctx, fmt.Sprint("invited", i, name)); err == nil {
				made = append(made, a.ID)
			}
		}
		all, err := db.Cold().Invitations(m.ctx)
		m.ok(err)
		if len(made) != 1 || !slices.ContainsFunc(all, func(v store.Invitation) bool { return v.Agent == made[0] && v.Ended > 0 }) {
			m.t.Errorf("invitation %d has made %d accounts: %+v", i, len(made), all)
		}
	}
}

// checkGuest looks for a guest's messages, each once, in a conversation of a contact.
func (m *model) checkGuest(db *sqlstore.DB, g *guest, contact string) {
	m.t.Helper()
	head, err := db.Cold().Conversation(m.ctx, g.conv)
	m.ok(err)
	events := m.events(db, g.conv, store.StaffSide)
	m.checkHistory(g.conv, events)
	if head.Contact != contact {
		m.t.Errorf("the conversation of a guest is of %s, not of %s: %+v", head.Contact, contact, head)
	}
	for _, id := range g.sent {
		n := 0
		for i := range events {
			if events[i].ClientID == id {
				n++
			}
		}
		if n != 1 {
			m.t.Errorf("a message of a guest is stored %d times", n)
		}
	}
}

// gone waits until nothing is left of a guest, and looks for the line that says who has erased it.
func (m *model) gone(db *sqlstore.DB, g *guest) {
	m.t.Helper()
	for {
		_, err := db.Cold().Conversation(m.ctx, g.conv)
		if errors.Is(err, store.ErrNotFound) {
			break
		}
		if err != nil || !m.later() {
			m.t.Errorf("a conversation of an erased guest is there: %v (-model-seed %d)", err, m.seed)
			return
		}
	}
	if rows, err := db.Cold().Audit(m.ctx, store.AuditQuery{Action: store.AuditErase, Target: "contact " + g.id}); err != nil || len(rows) == 0 {
		m.t.Errorf("nobody has erased a guest: %v", err)
	}
}
