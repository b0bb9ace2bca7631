package e2e

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/go-eddy/eddy/desk/auth"
	"github.com/go-eddy/eddy/desk/desktest"
	"github.com/go-eddy/eddy/desk/perm"
	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/store"
	"github.com/go-eddy/eddy/desk/store/sqlstore"
	"github.com/go-eddy/eddy/internal/testkit"
)

// seed writes into the database of the running desk, as the user commands do.
func (d *desk) seed(write func(ctx context.Context, db store.Store) error) {
	d.t.Helper()
	ctx := testkit.Context(d.t)
	db, err := sqlstore.Open(ctx, sqlstore.Options{Path: filepath.Join(d.data, "desk.db"), Readers: 1, Wait: testkit.Patience, BusyTimeout: testkit.Patience})
	if err != nil {
		d.t.Fatal(err)
	}
	if err := write(ctx, db); err != nil {
		d.t.Errorf("seed: %v", err)
	}
	if err := db.Close(); err != nil {
		d.t.Errorf("seed: %v", err)
	}
}

// cheap makes hashes that take no time: the desk reads their cost from them.
var cheap = auth.Params{MemoryKiB: 8, Passes: 1, Lanes: 1}

// colleague adds an account whose password is its login.
func (d *desk) colleague(login, name string, role perm.Role, capacity int) {
	d.t.Helper()
	d.seed(func(ctx context.Context, db store.Store) error {
		hasher, err := auth.NewHasher(cheap, 1, 1)
		if err != nil {
			return err
		}
		hash, err := hasher.Hash(ctx, login)
		if err != nil {
			return err
		}
		_, err = db.CreateAgent(ctx, store.AgentAccount{Login: login, Name: name, Password: hash, Role: role, Capacity: capacity, NoChats: !role.TakesChats()})
		return err
	})
}

// visitor is a customer without a browser.
type visitor struct {
	*desktest.Client
	t    *testing.T
	conv string
}

// visit opens a chat with people and says something; the desk may have only just begun to answer.
func (d *desk) visit(texts ...string) *visitor {
	d.t.Helper()
	web := desktest.NewWeb(func() string { return d.url("") })
	v := &visitor{Client: web.Customer("demo"), t: d.t}
	d.t.Cleanup(func() {
		v.Close()
		web.CloseIdle()
	})
	ctx := testkit.Context(d.t)
	var err error
	if v.conv, err = v.Open(ctx, "human"); err != nil {
		d.t.Fatalf("open a chat: %v", err)
	}
	for _, text := range texts {
		v.say(text)
	}
	return v
}

// say sends a text and waits for its ack.
func (v *visitor) say(text string) {
	v.t.Helper()
	ctx := testkit.Context(v.t)
	v.Send(v.conv, text)
	if err := v.Flushed(ctx); err != nil {
		v.t.Fatalf("say %q: %v", text, err)
	}
}

// hears waits for a text.
func (v *visitor) hears(text string) {
	v.t.Helper()
	ctx := testkit.Context(v.t)
	_, err := v.Event(ctx, v.conv, func(f desktest.Frame) bool {
		var d struct{ Body string }
		return f.T == "ev.msg" && f.Decode(&d).T != "" && d.Body == text
	})
	if err != nil {
		v.t.Fatalf("wait for %q: %v", text, err)
	}
}

// reads tells the other side that everything up to a text was read.
func (v *visitor) reads(text string) {
	v.t.Helper()
	ctx := testkit.Context(v.t)
	for _, f := range v.View(v.conv) {
		var d struct{ Body string }
		if f.T != "ev.msg" || f.Decode(&d).T == "" || d.Body != text {
			continue
		}
		if err := v.Tell(ctx, "receipt", v.conv, proto.Receipt{Delivered: f.S, Read: f.S}); err != nil {
			v.t.Errorf("receipt: %v", err)
		}
	}
}

// console opens the page as an agent and waits until it is connected.
func (d *desk) console(b *profile, name, login, password string, width, height int64) *tab {
	d.t.Helper()
	p := b.stranger(name, width, height, d.url("/console"))
	p.fill("login-user", login)
	p.fill("login-password", password)
	p.click("login-submit")
	loginAnswered(p)
	p.until("the console is connected", `document.querySelector('[data-testid="quality"]').textContent.startsWith('Connected') || document.querySelector('[data-testid="quality"]').textContent.startsWith('已连接')`)
	return p
}

// takeAll makes an account the owner of these chats, from another place than the page.
func (d *desk) takeAll(login string, visitors []*visitor) {
	d.t.Helper()
	web := desktest.NewWeb(func() string { return d.url("") })
	agent := web.Agent(login, login)
	defer web.CloseIdle()
	defer agent.Close()
	ctx := testkit.Context(d.t)
	for _, v := range visitors {
		if err := agent.Take(ctx, v.conv); err != nil {
			d.t.Fatalf("take %s: %v", v.conv, err)
		}
	}
}

// answer lets the owner of a chat say something, from another place than the page.
func (d *desk) answer(login string, v *visitor) {
	d.t.Helper()
	web := desktest.NewWeb(func() string { return d.url("") })
	agent := web.Agent(login, login)
	defer web.CloseIdle()
	defer agent.Close()
	agent.Send(v.conv, "hello")
	if err := agent.Flushed(testkit.Context(d.t)); err != nil {
		d.t.Fatalf("answer in %s: %v", v.conv, err)
	}
}

// clickOn clicks the element of an expression by script, where there is no test id to point at.
func (p *tab) clickOn(what, expression string) {
	p.t.Helper()
	p.until(what, `((n) => { n?.click(); return n; })(`+expression+`)`)
}
