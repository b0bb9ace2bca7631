package desk

import (
	"context"
	"database/sql"
	"errors"
	"maps"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/go-eddy/eddy/desk/desktest"
	"github.com/go-eddy/eddy/desk/store"
	"github.com/go-eddy/eddy/desk/store/pgtest"
	"github.com/go-eddy/eddy/desk/store/sqlstore"
	"github.com/go-eddy/eddy/internal/testkit"
)

// stubborn is the store of a server that was paused, and takes the leases that it had before for its own.
type stubborn struct {
	store.Store

	mu      sync.Mutex
	paused  bool
	held    map[string]store.Lease
	refused map[string]int // writes, by what they do
	wrong   []string       // writes that were not
}

// Claim implements store.Leases.
func (s *stubborn) Claim(ctx context.Context, name string, life time.Duration) (store.Lease, error) {
	s.mu.Lock()
	had, paused := s.held[name], s.paused
	s.mu.Unlock()
	if paused && had.Token != 0 {
		return had, nil
	}
	l, err := s.Store.Claim(ctx, name, life)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held[name] = l; s.paused { // between the two
		return had, nil
	}
	return l, err
}

// has returns the names that the server holds.
func (s *stubborn) has() map[string]store.Lease {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := maps.Clone(s.held)
	maps.DeleteFunc(all, func(_ string, l store.Lease) bool { return l.Token == 0 })
	return all
}

func (s *stubborn) pause(yes bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.paused = yes
}

// wrote notes what became of a write that belongs to a lease.
func (s *stubborn) wrote(l store.Lease, what string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !s.paused:
	case errors.Is(err, store.ErrLeased):
		s.refused[what]++
	case err == nil || l.Token == 0:
		s.wrong = append(s.wrong, what)
	}
}

// Do implements store.Store.
func (s *stubborn) Do(cmd store.Command, deadline time.Time, done func(store.Outcome)) {
	leased, ok := cmd.(store.Leased)
	s.Store.Do(cmd, deadline, func(out store.Outcome) {
		if ok {
			s.wrote(leased.Lease, "chats", out.Err)
		}
		done(out)
	})
}

// Bury implements store.Nodes.
func (s *stubborn) Bury(ctx context.Context) (bool, error) {
	more, err := s.Store.Bury(ctx)
	s.wrote(store.LeaseOf(ctx), "dead servers", err)
	return more, err
}

// MailSent implements store.MailWrites.
func (s *stubborn) MailSent(ctx context.Context, id string) error {
	err := s.Store.MailSent(ctx, id)
	s.wrote(store.LeaseOf(ctx), "mail", err)
	return err
}

// SaveHook implements store.OutboxWrites.
func (s *stubborn) SaveHook(ctx context.Context, h store.HookProgress) error {
	err := s.Store.SaveHook(ctx, h)
	s.wrote(store.LeaseOf(ctx), "webhooks", err)
	return err
}

// EraseMore implements store.People.
func (s *stubborn) EraseMore(ctx context.Context, limit int) (store.Dropped, error) {
	d, err := s.Store.EraseMore(ctx, limit)
	s.wrote(store.LeaseOf(ctx), "retention", err)
	return d, err
}

// TestPausedHolder: a server has been paused, and goes on in the belief that it holds its leases, which another server has. Whatever it does for all is refused: giving chats
// out, ending dead servers, mail, webhooks, and clearing away. What it has sent already it sends no second time. When it learns the truth, and gets the leases back, it does the work.
func TestPausedHolder(t *testing.T) {
	url := pgtest.Database(t, sqlstore.Blank)
	server, hook := desktest.NewMailServer(t, "starttls"), newReceiver(t)
	o := mailing(t, server)
	s := &stubborn{held: make(map[string]store.Lease), refused: make(map[string]int)}
	o.Store, o.Files = url, filepath.Join(t.TempDir(), "files")
	o.WrapStore = func(db store.Store) store.Store { s.Store = db; return s }
	d := openDesk(t, o)
	if err := d.Start(testkit.Context(t)); err != nil {
		t.Fatal(err)
	}
	names := []string{"files", "hooks", "mail", "router"}
	testkit.Eventually(t, "the server to hold every lease", func() bool { return len(s.has()) == len(names) })
	other, err := sqlstore.Open(t.Context(), sqlstore.Options{URL: url, Several: true})
	if err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("pgx", url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := errors.Join(other.Close(), db.Close()); err != nil {
			t.Error(err)
		}
	}()
	s.pause(true)
	had := s.has()
	var taken []store.Lease
	for _, name := range names {
		if _, err := db.ExecContext(t.Context(), `UPDATE lease SET until = 0 WHERE name = $1`, name); err != nil {
			t.Fatal(err)
		}
		l, err := other.Claim(t.Context(), name, time.Hour)
		if err != nil || l.Token <= had[name].Token {
			t.Fatalf("%+v after %+v: %v", l, had[name], err)
		}
		taken = append(taken, l)
	}

	ctx := testkit.Context(t)
	web := desktest.NewWeb(func() string { return "http://" + d.Addr().String() })
	defer web.CloseIdle()
	login, password, _ := d.FirstLogin()
	agent := web.Agent(login, password)
	defer agent.Close()
	if err := agent.Connected(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := other.CreateWebhook(ctx, store.Webhook{URL: hook.url, Secrets: []string{hook.secret}, Private: true}); err != nil {
		t.Fatal(err)
	}
	customer := web.Customer("demo")
	defer customer.Close()
	conv, err := customer.Open(ctx, "human")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.QueueMail(ctx, store.Mail{Kind: store.MailTest, To: "kim@home.example"}); err != nil {
		t.Fatal(err)
	}
	d.post.Wake()
	d.hooks.Changed()
	d.keeper.Erase()
	refusals := func() map[string]int {
		s.mu.Lock()
		defer s.mu.Unlock()
		return maps.Clone(s.refused)
	}
	testkit.Eventually(t, "writes of every kind to be refused", func() bool {
		n := refusals()
		return min(n["chats"], n["dead servers"], n["mail"], n["webhooks"], n["retention"]) > 0
	})
	mails := refusals()["mail"]
	testkit.Eventually(t, "another write to be refused", func() bool { return refusals()["mail"] > mails })
	t.Logf("refused: %v", refusals())
	for what, n := range refusals() {
		if n > 50 {
			t.Errorf("%s: tried again without a pause, %d times", what, n)
		}
	}
	if c, err := other.Cold().Conversation(ctx, conv); err != nil || c.State != store.Queued {
		t.Errorf("the chat is %+v: %v", c, err)
	}
	if n, err := other.Cold().MailCounts(ctx); err != nil || n.Queued != 1 || server.Begun() != 1 {
		t.Errorf("%+v mails wait, %d were begun: %v", n, server.Begun(), err)
	}

	s.mu.Lock()
	if s.paused = false; len(s.wrong) > 0 {
		t.Errorf("not refused: %q", s.wrong)
	}
	s.mu.Unlock()
	testkit.Eventually(t, "the server to have lost every lease", func() bool { return len(s.has()) == 0 })
	for _, l := range taken {
		if err := other.Release(ctx, l); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := customer.Event(ctx, conv, func(f desktest.Frame) bool { return f.T == "ev.state" }); err != nil {
		t.Fatal("the chat was not given out:", err)
	}
	testkit.Eventually(t, "the mail to count as sent", func() bool {
		n, err := other.Cold().MailCounts(ctx)
		return err == nil && n.Queued == 0
	})
	if n := server.Begun(); n != 1 {
		t.Errorf("the mail was sent %d times", n)
	}
	testkit.Eventually(t, "the webhook to be told", func() bool { return len(hook.got()) > 0 })
}
