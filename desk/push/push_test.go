package push

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"go.uber.org/goleak"

	"github.com/go-eddy/eddy/desk/push/pushtest"
	"github.com/go-eddy/eddy/desk/safehttp"
	"github.com/go-eddy/eddy/desk/store"
	"github.com/go-eddy/eddy/desk/store/sqlstore"
	"github.com/go-eddy/eddy/desk/store/sqlstore/sqlitetest"
	"github.com/go-eddy/eddy/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is a Push in a bubble of synctest, on a store, with a push service that needs no network.
type rig struct {
	*sqlstore.DB
	*pushtest.Service
	t        *testing.T
	o        Options
	push     *Push
	log      testkit.Output
	silent   atomic.Bool // the service answers nobody
	broken   atomic.Bool // reads fail
	consoles sync.Map    // agents with one
	barred   atomic.Bool // all agents are
}

func bubble(t *testing.T, f func(r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &rig{t: t, Service: pushtest.New(t)}
		path := filepath.Join(t.TempDir(), "desk.db")
		sqlitetest.Prepare(t, path)
		r.openStore(path)
		r.o = Options{
			Store: failing{r.DB, &r.broken}, Idle: 30 * 24 * time.Hour, Logger: slog.New(slog.NewTextHandler(&r.log, nil)),
			Connected: func(agent string) bool {
				_, has := r.consoles.Load(agent)
				return has
			},
			Barred: func(store.AgentAccount) bool { return r.barred.Load() },
			client: func() (doer, error) { return r, nil },
		}
		r.start()
		f(r)
		r.ok(r.push.Stop())
		r.ok(r.push.Stop())
		r.ok(r.Close())
		if s := r.log.String(); strings.Contains(s, r.push.keys.private) || strings.Contains(s, "push.example/") {
			t.Errorf("a secret is in the log:\n%s", s)
		}
	})
}

func (r *rig) openStore(path string) {
	r.t.Helper()
	db, err := sqlstore.Open(r.t.Context(), sqlstore.Options{Path: path, Wait: sqlitetest.Far, BusyTimeout: sqlitetest.Far, Logger: slog.New(slog.DiscardHandler)})
	r.ok(err)
	r.DB = db
}

func (r *rig) start() {
	r.t.Helper()
	p, err := New(r.t.Context(), r.o)
	r.ok(err)
	r.ok(p.Start())
	r.push = p
}

func (r *rig) ok(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// Do implements doer.
func (r *rig) Do(req *http.Request, _ int64, done func(safehttp.Response, error)) {
	if r.silent.Load() {
		return
	}
	w := httptest.NewRecorder()
	r.ServeHTTP(w, req)
	done(safehttp.Response{Status: w.Code, Header: w.Header()}, nil)
}

// failing is a store whose reads can be made to fail.
type failing struct {
	store.Store
	broken *atomic.Bool
}

func (f failing) Cold() store.Reader { return failingReader{f.Store.Cold(), f.broken} }

type failingReader struct {
	store.Reader
	broken *atomic.Bool
}

var errBroken = errors.New("the disk is gone")

func (f failingReader) PushSubscriptions(ctx context.Context, agent string, now, since time.Time) ([]store.PushSubscription, error) {
	if f.broken.Load() {
		return nil, errBroken
	}
	return f.Reader.PushSubscriptions(ctx, agent, now, since)
}

// agent makes an account.
func (r *rig) agent(login string) store.AgentAccount {
	r.t.Helper()
	a, err := r.CreateAgent(r.t.Context(), store.AgentAccount{Login: login, Name: login, Password: "x", Capacity: 5})
	r.ok(err)
	return a
}

// subscribe gives an account a login with a browser of a name, and returns the login.
func (r *rig) subscribe(a store.AgentAccount, name, locale string) store.Token {
	r.t.Helper()
	login := store.Token(slices.Concat([]byte("0123456789abcdef"), uuidBytes()))
	r.ok(r.CreateAgentSession(r.t.Context(), login, a.ID, time.Now().Add(60*24*time.Hour)))
	b := r.Subscribe(name)
	r.ok(r.SavePush(r.t.Context(), store.PushSubscription{Login: login, Endpoint: b.Endpoint, Key: b.Key(), Auth: b.Auth, Locale: locale}))
	return login
}

func uuidBytes() []byte {
	id := uuid.New()
	return id[:]
}

// message tells that a customer has written in a chat of an account.
func (r *rig) message(a store.AgentAccount, conv string) {
	r.push.Call(Call{Agent: a.ID, Conv: conv, Kind: Message})
}

// remembered returns how many agents are.
func (r *rig) remembered() int {
	r.push.mu.Lock()
	defer r.push.mu.Unlock()
	return len(r.push.accounts)
}

// chats returns how many chats of an agent are told apart, 0 for one that is not remembered.
func (r *rig) chats(agent string) int {
	r.push.mu.Lock()
	defer r.push.mu.Unlock()
	if a := r.push.accounts[agent]; a != nil {
		return len(a.chats)
	}
	return 0
}

// after lets time go by until everything that it makes happen has happened.
func (r *rig) after(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// got checks what browsers have got so far, as "name title".
func (r *rig) got(what string, want ...string) {
	r.t.Helper()
	var got []string
	for _, c := range r.Calls() {
		title, _, _ := strings.Cut(strings.TrimPrefix(c.Text, `{"title":"`), `"`)
		got = append(got, c.Name+" "+title)
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		r.t.Errorf("%s: %q, want %q", what, got, want)
	}
}

func (r *rig) asked(what string, want int) {
	r.t.Helper()
	if n := r.Asked(); n != want {
		r.t.Errorf("%s: %d requests, want %d", what, n, want)
	}
}

// A message for an agent without a console becomes one call, which says how much there is and nothing else. A browser gets
// it, encrypted for it alone, and its length tells nothing.
func TestCall(t *testing.T) {
	bubble(t, func(r *rig) {
		lin := r.agent("lin")
		r.subscribe(lin, "phone", "en")
		r.subscribe(lin, "laptop", "zh-CN")
		r.message(lin, "conv-1")
		r.after(settle - time.Millisecond)
		r.got("a console that is loaded again comes back meanwhile")
		r.after(time.Millisecond)
		r.got("the calls", "laptop 1 条新消息", "phone 1 new message")
		for _, c := range r.Calls() {
			want := `{"title":"1 new message","lang":"en","c":"conv-1"}`
			if c.Name == "laptop" {
				want = `{"title":"1 条新消息","lang":"zh-CN","c":"conv-1"}`
			}
			h := c.Header
			if c.Text != want || c.Bytes != recordSize || c.Key != r.push.Key() || h.Get("TTL") != "3600" || h.Get("Urgency") != "high" || h.Get("Topic") != "desk" {
				t.Errorf("%+v", c)
			}
		}
		if s := r.push.Stats(); s != (Stats{Sent: 2}) {
			t.Errorf("%+v", s)
		}
	})
}

// However much happens, an agent is called once, and after that at most twice a minute, each time with all that there is.
func TestStormIsOneCall(t *testing.T) {
	bubble(t, func(r *rig) {
		lin, moe := r.agent("lin"), r.agent("moe")
		r.subscribe(lin, "lin", "en")
		r.subscribe(moe, "moe", "en")
		for i := range 40 {
			r.message(lin, fmt.Sprint("conv-", i%3))
		}
		r.message(moe, "conv-9")
		r.after(settle)
		first := []string{"lin 40 new messages in 3 chats", "moe 1 new message"}
		r.got("one call each", first...)
		for range 200 {
			r.message(lin, "conv-1")
		}
		r.after(every - time.Millisecond)
		r.got("not again so soon", first...)
		r.after(time.Millisecond)
		r.got("all that there is", append(first, "lin 99+ new messages in 3 chats")...)
		r.after(time.Hour)
		r.asked("nothing new, no call", 3)
		r.push.Call(Call{Agent: lin.ID, Conv: "conv-1", Kind: Given})
		r.after(settle)
		r.asked("something new, after a quiet time", 4)
	})
}

// An agent with a console is not called, and what a console has shown is not counted again.
func TestConsoleIsOpen(t *testing.T) {
	bubble(t, func(r *rig) {
		lin := r.agent("lin")
		r.subscribe(lin, "phone", "en")
		r.message(lin, "conv-1")
		r.consoles.Store(lin.ID, true) // it has come before the call was noted
		r.after(time.Hour)
		r.got("the console has come back")
		r.consoles.Delete(lin.ID)
		r.message(lin, "conv-1")
		r.message(lin, "conv-2")
		r.push.Back(lin.ID)
		r.after(time.Hour)
		r.got("it came and went")
		r.message(lin, "conv-1")
		r.after(settle)
		r.got("what was shown does not count", "phone 1 new message")
		if n := r.remembered(); n != 1 {
			t.Errorf("%d accounts", n)
		}
		r.push.Back(lin.ID)
		r.push.Back(lin.ID)
		if n := r.remembered(); n != 0 {
			t.Errorf("%d accounts are remembered", n)
		}
	})
}

// A service that asks to wait is asked again when it has said, with what there is by then. Others do not wait for it.
func TestRetryAfter(t *testing.T) {
	for name, header := range map[string]func() string{
		"seconds": func() string { return "120" },
		"a date":  func() string { return time.Now().Add(120 * time.Second).UTC().Format(http.TimeFormat) },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(r *rig) {
				lin := r.agent("lin")
				r.subscribe(lin, "phone", "en")
				r.subscribe(lin, "laptop", "en")
				r.Answer(func(name string) (int, string) {
					if name == "phone" {
						return http.StatusTooManyRequests, header()
					}
					return http.StatusCreated, ""
				})
				r.message(lin, "conv-1")
				r.after(settle)
				r.asked("both", 2)
				r.after(time.Minute)
				r.message(lin, "conv-1")
				r.after(settle)
				r.got("the other is told again", "laptop 1 new message", "laptop 2 new messages")
				r.asked("this one is left alone", 3)
				r.Answer(func(string) (int, string) { return http.StatusCreated, "" })
				r.after(120*time.Second - time.Minute - settle - time.Millisecond)
				r.asked("until its time", 3)
				r.after(time.Second)
				r.got("once, with everything", "laptop 1 new message", "laptop 2 new messages", "phone 2 new messages")
				r.after(time.Hour)
				r.asked("and no more", 4)
				if s := r.push.Stats(); s != (Stats{Sent: 3, Failed: 1}) {
					t.Errorf("%+v", s)
				}
			})
		})
	}
}

// A service that fails is asked ever less often, and not for ever. One that refuses is not asked again.
func TestServiceFails(t *testing.T) {
	bubble(t, func(r *rig) {
		lin, moe := r.agent("lin"), r.agent("moe")
		r.subscribe(lin, "lin", "en")
		r.subscribe(moe, "moe", "en")
		r.Answer(func(name string) (int, string) {
			if name == "moe" {
				return http.StatusForbidden, ""
			}
			return http.StatusServiceUnavailable, ""
		})
		r.message(lin, "conv-1")
		r.message(moe, "conv-2")
		r.after(settle)
		r.asked("both", 2)
		n, pause := 2, firstWait
		for range maxTries - 1 {
			r.after(pause - time.Millisecond)
			r.asked("not before its time", n)
			r.after(pause/4 + time.Millisecond)
			n++
			r.asked("again", n)
			pause *= 2
			synctest.Wait()
			r.push.mu.Lock()
			for _, h := range r.push.accounts[lin.ID].held { // the jitter is not the test's
				now := time.Now()
				pause = h.until.Sub(now)
			}
			r.push.mu.Unlock()
		}
		r.after(24 * time.Hour)
		r.asked("no more", 1+maxTries)
		if s := r.push.Stats(); s != (Stats{Failed: 1 + maxTries, Lost: 2}) {
			t.Errorf("%+v", s)
		}
		r.Answer(func(string) (int, string) { return http.StatusCreated, "" })
		r.message(lin, "conv-1")
		r.message(moe, "conv-1")
		r.after(settle)
		r.got("what comes later is told", "lin 2 new messages", "moe 2 new messages in 2 chats")
		if !strings.Contains(r.log.String(), "push.example") {
			t.Errorf("the log: %q", r.log.String())
		}
	})
}

// A service that asks for more time than a call is worth gets none, and is left alone all the same.
func TestRetryAfterTooLong(t *testing.T) {
	bubble(t, func(r *rig) {
		lin := r.agent("lin")
		r.subscribe(lin, "phone", "en")
		r.Answer(func(string) (int, string) { return http.StatusTooManyRequests, "86400" })
		r.message(lin, "conv-1")
		r.after(settle)
		r.message(lin, "conv-1")
		r.after(maxWait - time.Second)
		r.asked("it has asked for a day", 1)
		r.after(time.Minute)
		r.asked("an hour is the most", 2)
		r.message(lin, "conv-1")
		r.after(time.Minute)
		r.asked("it wants to be left alone, though the last call is given up", 2)
		r.Answer(func(string) (int, string) { return http.StatusCreated, "" })
		r.after(maxWait)
		r.got("what is new is told then", "phone 3 new messages")
		r.after(24 * time.Hour)
		r.asked("once", 3)
		r.Answer(func(string) (int, string) { return http.StatusTooManyRequests, "86400" })
		r.message(lin, "conv-1")
		r.after(settle + maxWait)
		r.asked("again, and an hour later", 5)
		r.after(24 * time.Hour)
		r.asked("then the call is worth nothing any more", 5)
	})
}

// A subscription that its service does not know any more is removed, and no other.
func TestGone(t *testing.T) {
	for _, status := range []int{http.StatusNotFound, http.StatusGone} {
		bubble(t, func(r *rig) {
			lin := r.agent("lin")
			r.subscribe(lin, "old", "en")
			r.subscribe(lin, "phone", "en")
			r.Answer(func(name string) (int, string) {
				if name == "old" {
					return status, ""
				}
				return http.StatusCreated, ""
			})
			r.message(lin, "conv-1")
			r.after(settle)
			all, err := r.Cold().PushSubscriptions(r.t.Context(), lin.ID, time.Now(), time.Time{})
			if err != nil || len(all) != 1 || all[0].Endpoint != r.URL+"/phone" {
				t.Errorf("%d: %+v %v", status, all, err)
			}
			if s := r.push.Stats(); s != (Stats{Sent: 1, Gone: 1}) {
				t.Errorf("%d: %+v", status, s)
			}
		})
	}
}

// Whoever may not know any more is not told: what counts is the moment of each request, not that of the call.
func TestEndedMeanwhile(t *testing.T) {
	for name, end := range map[string]func(r *rig, a store.AgentAccount, login store.Token){
		"disabled": func(r *rig, a store.AgentAccount, _ store.Token) {
			a.Disabled = true
			r.ok(r.UpdateAgent(r.t.Context(), a))
		},
		"logged out": func(r *rig, _ store.AgentAccount, login store.Token) {
			r.ok(r.DeleteAgentSession(r.t.Context(), login))
		},
		"another password": func(r *rig, a store.AgentAccount, login store.Token) {
			r.ok(r.ChangePassword(r.t.Context(), a.ID, "x", "y", login))
		},
		"barred":    func(r *rig, _ store.AgentAccount, _ store.Token) { r.barred.Store(true) },
		"a console": func(r *rig, a store.AgentAccount, _ store.Token) { r.consoles.Store(a.ID, true) },
	} {
		t.Run(name+" before the first request", func(t *testing.T) {
			bubble(t, func(r *rig) {
				lin := r.agent("lin")
				login := r.subscribe(lin, "phone", "en")
				r.message(lin, "conv-1")
				r.after(settle - time.Millisecond)
				end(r, lin, login)
				r.after(time.Hour)
				r.asked("nobody", 0)
				if n := r.remembered(); n != 0 {
					t.Errorf("%d accounts are remembered", n)
				}
			})
		})
		t.Run(name+" before the second", func(t *testing.T) {
			bubble(t, func(r *rig) {
				lin := r.agent("lin")
				login := r.subscribe(lin, "phone", "en")
				r.Answer(func(string) (int, string) { return http.StatusInternalServerError, "" })
				r.message(lin, "conv-1")
				r.after(settle)
				end(r, lin, login)
				r.after(time.Hour)
				r.asked("once", 1)
			})
		})
	}
}

// A login that nobody has used for too long has ended, though its time is not over.
func TestUnusedLogin(t *testing.T) {
	bubble(t, func(r *rig) {
		lin := r.agent("lin")
		r.subscribe(lin, "phone", "en")
		r.after(r.o.Idle - time.Minute)
		r.message(lin, "conv-1")
		r.after(settle)
		r.asked("still used", 1)
		r.after(time.Minute)
		r.message(lin, "conv-1")
		r.after(time.Hour)
		r.asked("not any more", 1)
	})
}

// A service that never answers keeps nobody else waiting, and is asked again. Stop does not wait for it.
func TestSilentService(t *testing.T) {
	bubble(t, func(r *rig) {
		lin, moe := r.agent("lin"), r.agent("moe")
		r.subscribe(lin, "lin", "en")
		r.subscribe(moe, "moe", "en")
		r.silent.Store(true)
		r.message(lin, "conv-1")
		r.after(settle)
		r.silent.Store(false)
		r.message(moe, "conv-2")
		r.after(settle)
		r.got("the other", "moe 1 new message")
		r.after(Timeout + 2*firstWait)
		r.got("this one later", "lin 1 new message", "moe 1 new message")
		r.silent.Store(true)
		r.message(lin, "conv-1")
		r.after(every)
		if n := r.push.Stats().Waiting; n != 1 {
			t.Errorf("%d wait", n)
		}
		began := time.Now()
		r.ok(r.push.Stop())
		if end := time.Now(); end != began {
			t.Errorf("Stop took %v", end.Sub(began))
		}
	})
}

// A store that fails delays the calls, and is not asked without a pause.
func TestStoreFails(t *testing.T) {
	bubble(t, func(r *rig) {
		lin := r.agent("lin")
		r.subscribe(lin, "phone", "en")
		r.broken.Store(true)
		r.message(lin, "conv-1")
		r.after(settle + 3*storePause/2)
		r.broken.Store(false)
		r.got("not read")
		r.after(storePause)
		r.got("later", "phone 1 new message")
	})
}

// The agents that are remembered have a bound. One for which there is nothing to do makes room.
func TestAccountsAreBounded(t *testing.T) {
	bubble(t, func(r *rig) {
		lin := r.agent("lin")
		r.subscribe(lin, "phone", "en")
		r.message(lin, "conv-1")
		r.after(settle)
		r.got("told", "phone 1 new message")
		for i := range maxAccounts + 5 {
			r.push.Call(Call{Agent: fmt.Sprint("agent-", i), Conv: "conv", Kind: Message})
		}
		if n := r.remembered(); n != maxAccounts || r.chats(lin.ID) != 0 {
			t.Errorf("%d accounts", n)
		}
		if s := r.push.Stats(); s.Lost != 5 || s.Waiting != maxAccounts {
			t.Errorf("%+v", s)
		}
		for i := range 3 * maxChats {
			r.push.Call(Call{Agent: "agent-0", Conv: fmt.Sprint("conv-", i), Kind: Message})
		}
		if n := r.chats("agent-0"); n != maxChats {
			t.Errorf("%d chats", n)
		}
		r.after(settle)
		r.asked("nobody of them has a browser", 1)
		if n := r.remembered(); n != 0 {
			t.Errorf("%d accounts are remembered", n)
		}
	})
}

// The key pair stays that of the data, over restarts. Without a Push nobody is called.
func TestKeyStays(t *testing.T) {
	bubble(t, func(r *rig) {
		before := r.push.keys
		r.ok(r.push.Stop())
		r.start()
		if r.push.keys != before || len(before.public) != 87 {
			t.Errorf("%q", r.push.Key())
		}
		lin := r.agent("lin")
		r.subscribe(lin, "phone", "en")
		r.message(lin, "conv-1")
		r.ok(r.push.Stop()) // a call that waits is lost
		r.start()
		r.message(lin, "conv-1")
		r.after(settle)
		r.got("after the start", "phone 1 new message")
	})
	seed := [32]byte(bytes.Repeat([]byte{0xff}, 32)) // above the order of the curve
	if k := derive(seed); len(k.public) != 87 || k != derive(seed) {
		t.Errorf("%q", k.public)
	}
	var none *Push
	none.Call(Call{})
	none.Back("")
	if err := errors.Join(none.Start(), none.Stop()); err != nil || none.Key() != "" || none.Stats() != (Stats{}) {
		t.Error(err)
	}
	if _, err := New(t.Context(), Options{}); err == nil {
		t.Error("no store")
	}
}

func TestWords(t *testing.T) {
	for _, c := range []struct {
		n      news
		en, zh words
	}{
		{news{messages: 1, chats: map[string]bool{"c": true}}, words{"1 new message", "", "en", "c"}, words{"1 条新消息", "", "zh-CN", "c"}},
		{news{messages: 7, chats: map[string]bool{"c": true}}, words{"7 new messages", "", "en", "c"}, words{"7 条新消息", "", "zh-CN", "c"}},
		{news{messages: 120, chats: map[string]bool{"c": true, "d": true}}, words{"99+ new messages in 2 chats", "", "en", ""}, words{"99+ 条新消息，来自 2 个对话", "", "zh-CN", ""}},
		{news{given: 1, messages: 2, chats: map[string]bool{"c": true}}, words{"A chat is yours now", "2 new messages", "en", "c"}, words{"有 1 个对话分配给了您", "2 条新消息", "zh-CN", "c"}},
		{news{given: 3, offers: 1, chats: map[string]bool{"c": true, "d": true}}, words{"A colleague offers you a chat", "3 chats are yours now", "en", ""}, words{"同事请您接手一个对话", "有 3 个对话分配给了您", "zh-CN", ""}},
		{news{offers: 2, messages: 1, chats: map[string]bool{"c": true, "d": true}}, words{"Colleagues offer you 2 chats", "1 new message", "en", ""}, words{"同事请您接手 2 个对话", "1 条新消息", "zh-CN", ""}},
	} {
		for locale, want := range map[string]words{"en": c.en, "zh-CN": c.zh, "": c.en} {
			if got := c.n.words(locale); got != want {
				t.Errorf("%+v in %q: %+v, want %+v", c.n, locale, got, want)
			}
		}
	}
}

// The requests go to public addresses over https only, whatever a browser has said. The real client is used, which tests
// of the other kind leave out.
func TestForbiddenEndpoints(t *testing.T) {
	r := &rig{t: t}
	path := filepath.Join(t.TempDir(), "desk.db")
	sqlitetest.Prepare(t, path)
	r.openStore(path)
	defer func() { r.ok(r.Close()) }()
	r.o = Options{
		Store: r.DB, Idle: time.Hour, Logger: slog.New(slog.DiscardHandler), Connected: func(string) bool { return false },
		After: func(time.Duration) (<-chan time.Time, func() bool) { return nil, func() bool { return true } },
	}
	r.start()
	defer func() { r.ok(r.push.Stop()) }()
	s := pushtest.New(t)
	s.Listen()
	b := s.Subscribe("phone")
	for _, endpoint := range []string{b.Endpoint, "http://push.example/x", "https://10.0.0.1/x", "https://user:pass@push.example/x", "ftp://push.example/", "x"} {
		if err := r.push.Check(endpoint); err == nil {
			t.Errorf("%s is taken", endpoint)
		}
	}
	if err := r.push.Check("https://push.example/x"); err != nil {
		t.Error(err)
	}
	sub := &store.PushSubscription{Endpoint: b.Endpoint, Key: b.Key(), Auth: b.Auth}
	if _, err := r.push.post(sub, news{messages: 1}); !errors.Is(err, safehttp.ErrForbidden) {
		t.Errorf("%v", err)
	}
	a := newAccount()
	r.push.send(a, sub, news{messages: 1}) // as if the address had become private after the check
	if n := r.push.Stats(); n.Lost != 1 || n.Failed != 1 || len(a.held) != 0 || s.Asked() != 0 {
		t.Errorf("%+v, %d requests", n, s.Asked())
	}
}
