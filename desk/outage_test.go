package desk

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	_ "modernc.org/sqlite" // a second program on the same file

	"github.com/go-eddy/eddy/desk/datadir"
	"github.com/go-eddy/eddy/desk/desktest"
	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/internal/chaos"
	"github.com/go-eddy/eddy/internal/testkit"
)

// occupy keeps the database's write lock, as a program that hangs in the middle of a transaction does, until the returned function is called.
func (s *served) occupy() (free func()) {
	s.t.Helper()
	db, err := sql.Open("sqlite", "file:"+datadir.Database(s.o.DataDir))
	s.ok(err)
	conn, err := db.Conn(s.ctx)
	s.ok(err)
	_, err = conn.ExecContext(s.ctx, `BEGIN IMMEDIATE`)
	s.ok(err)
	done := false
	free = func() {
		if done {
			return
		}
		done = true
		_, err := conn.ExecContext(context.Background(), `ROLLBACK`)
		s.ok(err)
		s.ok(conn.Close())
		s.ok(db.Close())
	}
	s.t.Cleanup(free)
	return free
}

func (s *served) status(path string) int {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.ctx, http.MethodGet, s.base.Load().(string)+path, nil)
	s.ok(err)
	req.Close = true
	r, err := http.DefaultClient.Do(req)
	s.ok(err)
	s.ok(r.Body.Close())
	return r.StatusCode
}

// texts are the messages that a client shows of a conversation, in order.
func texts(c *desktest.Client, conv string) []string {
	var all []string
	for _, f := range c.View(conv) {
		var m proto.Msg
		if f.T == "ev.msg" && json.Unmarshal(f.D, &m) == nil && m.From.Kind != "bot" {
			all = append(all, m.Body)
		}
	}
	return all
}

// While the database hangs, senders are told within the deadline, connections stay, commands without the database work
// and the server says that it is not ready. Afterwards every message is there once and in order, without a restart.
func TestDatabaseHangs(t *testing.T) {
	t.Parallel() // it waits for time limits
	o := testOptions(t)
	o.Limits.CommandAge = 3 * time.Second // what comes before is tried again if it takes a busy machine longer
	s := serve(t, o)
	customer, agent := s.customer(), s.agent()
	conv, err := customer.Open(s.ctx, "human")
	s.ok(err)
	s.ok(agent.Take(s.ctx, conv))
	customer.Send(conv, "before")
	s.ok(customer.Flushed(s.ctx))
	_, err = agent.Event(s.ctx, conv, func(f desktest.Frame) bool { return f.T == "ev.msg" })
	s.ok(err)

	free := s.occupy()
	var sent []string
	for i := range 5 {
		sent = append(sent, fmt.Sprint("meanwhile ", i))
		customer.Send(conv, sent[i])
	}
	testkit.Eventually(t, "unavailable", func() bool {
		return slices.ContainsFunc(customer.Refusals(), func(e proto.Error) bool { return e.Code == proto.CodeUnavailable && e.RetryMS > 0 })
	})
	testkit.Eventually(t, "not ready", func() bool { return s.status("/readyz") == http.StatusServiceUnavailable })
	if got := s.status("/healthz"); got != http.StatusOK {
		t.Errorf("healthz %d", got)
	}
	if f, err := customer.Do(s.ctx, "ping", "", proto.Ping{}); err != nil || f.T != "pong" {
		t.Errorf("ping: %+v %v", f, err)
	}
	if f, err := agent.Do(s.ctx, "sync", conv, proto.Sync{}); err != nil || f.T != "ok" {
		t.Errorf("reading: %+v %v", f, err)
	}
	_, err = customer.Do(s.ctx, "ping", "", proto.Ping{})
	s.ok(err)
	free()

	s.ok(customer.Flushed(s.ctx))
	testkit.Eventually(t, "ready again", func() bool { return s.status("/readyz") == http.StatusOK })
	want := append([]string{"before"}, sent...)
	testkit.Eventually(t, "both have everything", func() bool { return min(len(texts(customer, conv)), len(texts(agent, conv))) >= len(want) }) // acks come before events
	for who, c := range map[string]*desktest.Client{"customer": customer, "agent": agent} {
		if got := texts(c, conv); !slices.Equal(got, want) {
			t.Errorf("%s sees %q", who, got)
		}
		if _, n := c.Welcome(); n != 1 {
			t.Errorf("%s was welcomed %d times", who, n)
		}
	}
}

// A connection that is cut after any number of bytes loses and doubles nothing.
func TestCutAtAnyByte(t *testing.T) {
	t.Parallel() // it waits for clients to connect again
	s := serve(t, testOptions(t))
	proxy, err := chaos.New(s.desk.Addr().String())
	s.ok(err)
	t.Cleanup(proxy.Close)
	web := desktest.NewWeb(func() string { return "http://" + proxy.Addr() })
	t.Cleanup(web.CloseIdle)
	c := web.Customer("demo")
	t.Cleanup(c.Close)
	conv, err := c.Open(s.ctx, "human")
	s.ok(err)
	step := int64(61)
	if testing.Short() {
		step = 487
	}
	shown := func() (n int) { // as len(texts(c, conv)), in less time
		for _, f := range c.View(conv) {
			if bytes.Contains(f.D, []byte(`"body":"after `)) {
				n++
			}
		}
		return n
	}
	var want []string
	const most = 4000 // the upgrade, hello, welcome, two messages with their acks and events
	for n := int64(1); n < most; n += step {
		cut := proxy.Stats().Cut
		proxy.CutAfter(n)
		proxy.Cut() // the next connection is the one
		for i := range 2 {
			text := fmt.Sprint("after ", n, " bytes, ", i)
			want = append(want, text)
			c.Send(conv, text)
		}
		testkit.Eventually(t, "a cut, or everything shown because nothing was left to be cut", func() bool {
			return proxy.Stats().Cut >= cut+2 || shown() >= len(want)
		})
		proxy.CutAfter(0)
	}
	s.ok(c.Flushed(s.ctx))
	testkit.Eventually(t, "everything shown", func() bool { return shown() >= len(want) })
	if got := texts(c, conv); !slices.Equal(got, want) {
		t.Errorf("%d messages are shown of %d", len(got), len(want))
	}
	fresh := s.agent()
	f, err := fresh.Do(s.ctx, "sync", conv, proto.Sync{Limit: proto.MaxSyncEvents})
	s.ok(err)
	var page proto.Synced
	f.Decode(&page)
	if page.Head.Last < uint64(len(want)) {
		t.Errorf("the store has %d events", page.Head.Last)
	}
	t.Logf("%d messages, %d cuts", len(want), proxy.Stats().Cut)
}
