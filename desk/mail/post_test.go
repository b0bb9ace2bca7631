package mail

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-eddy/eddy/desk/desktest"
	"github.com/go-eddy/eddy/desk/store"
	"github.com/go-eddy/eddy/desk/store/sqlstore"
	"github.com/go-eddy/eddy/desk/store/sqlstore/sqlitetest"
	"github.com/go-eddy/eddy/internal/testkit"
)

// postRig is a Post whose test does its steps, with a mail server of functions.
type postRig struct {
	*Post
	t     *testing.T
	db    store.Store
	clock *desktest.Clock
	said  []Letter
	fail  func(Letter) error // the server's answer
}

// Send implements Sender.
func (r *postRig) Send(_ context.Context, l Letter) error {
	r.said = append(r.said, l)
	if r.fail != nil {
		return r.fail(l)
	}
	return nil
}

func newPostRig(t *testing.T) *postRig {
	t.Helper()
	r := &postRig{t: t, clock: desktest.NewClock()}
	r.db = sqlitetest.Lend(t, r.clock.Now)
	r.restart()
	return r
}

// restart makes a new Post on the same store.
func (r *postRig) restart() {
	r.t.Helper()
	var err error
	r.Post, err = New(Options{
		Store: r.db, Settings: Settings{Server: "mail.example:25", From: "a@b.example", PerMinute: MaxPerMinute}, PublicURL: "https://desk.example", Sender: r,
		Compose: map[store.MailKind]Composer{"panic": func(context.Context, store.Mail) (Letter, error) { panic("no text") }},
		Logger:  slog.New(slog.DiscardHandler), Now: r.clock.Now,
	})
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *postRig) queue(to ...string) (all []store.Mail) {
	r.t.Helper()
	for _, a := range to {
		m, err := r.db.QueueMail(r.t.Context(), store.Mail{Kind: store.MailTest, To: a + "@shop.example"})
		if err != nil {
			r.t.Fatal(err)
		}
		all = append(all, m)
	}
	return all
}

// after lets time pass, does what is due and returns to whom mails were tried to be sent.
func (r *postRig) after(d time.Duration) (to []string) {
	r.t.Helper()
	r.clock.Move(d)
	r.said = nil
	r.run(testkit.Context(r.t))
	for _, l := range r.said {
		to = append(to, strings.TrimSuffix(l.To, "@shop.example"))
	}
	return to
}

func (r *postRig) want(what string, got []string, want ...string) {
	r.t.Helper()
	if !slices.Equal(got, want) {
		r.t.Errorf("%s: %q, want %q", what, got, want)
	}
}

func (r *postRig) counts(queued, dead int) {
	r.t.Helper()
	n, err := r.db.Cold().MailCounts(r.t.Context())
	if err != nil || n != (store.MailCounts{Queued: queued, Dead: dead}) {
		r.t.Errorf("%+v %v, want %d and %d", n, err, queued, dead)
	}
	if st := r.Stats(); st.Queued != queued || st.Kept != dead {
		r.t.Errorf("%+v, want %d and %d", st, queued, dead)
	}
}

// TestPostSends: mails leave once each, in their order, under their own ids.
func TestPostSends(t *testing.T) {
	r := newPostRig(t)
	all := r.queue("a", "b", "c")
	r.want("at once", r.after(0), "a", "b", "c")
	for i, l := range r.said {
		if l.ID != all[i].ID || l.check() != nil || !strings.Contains(l.Body, "https://desk.example") || l.Date.IsZero() {
			t.Errorf("%+v", l)
		}
	}
	r.want("later", r.after(time.Hour))
	r.counts(0, 0)
	if st := r.Stats(); st.Sent != 3 || st.Failed+st.Dead != 0 {
		t.Errorf("%+v", st)
	}
	if last, problem := r.Server(); last.IsZero() || problem.Why != "" {
		t.Errorf("%v %+v", last, problem)
	}
}

// TestPostRetries: a mail refused for now is tried again after a minute, two, four, and so on for a day. Mails to others
// go on meanwhile.
func TestPostRetries(t *testing.T) {
	r := newPostRig(t)
	r.fail = func(l Letter) error {
		if strings.HasPrefix(l.To, "busy") {
			return &Failure{Err: errors.New("450 later"), Code: 450}
		}
		return nil
	}
	r.queue("busy", "a")
	r.want("at once", r.after(0), "busy", "a")
	for _, wait := range []time.Duration{time.Minute, 2 * time.Minute, 4 * time.Minute, 8 * time.Minute, 16 * time.Minute, 32 * time.Minute, 64 * time.Minute, 128 * time.Minute} {
		r.want("too early", r.after(wait-time.Second))
		r.want(fmt.Sprint("after ", wait), r.after(time.Second), "busy")
	}
	r.queue("b")
	r.want("others", r.after(0), "b")
	for range 4 {
		r.want("at last", r.after(longRetry), "busy")
	}
	r.want("the end", r.after(longRetry))
	r.counts(0, 1)
	dead, err := r.db.Cold().DeadMails(t.Context())
	if err != nil || len(dead) != 1 || dead[0].Error != "not sent in time: 450 later" {
		t.Errorf("%+v %v", dead, err)
	}
	r.fail = nil
	if err := r.db.RetryMail(t.Context(), dead[0].ID); err != nil {
		t.Fatal(err)
	}
	r.want("tried again", r.after(0), "busy")
	if r.said[0].ID != dead[0].ID {
		t.Errorf("id %s, was %s", r.said[0].ID, dead[0].ID)
	}
	r.counts(0, 0)
}

// TestPostGivesUp: a mail that is refused for good, or whose text cannot be made, is not tried again, and tells why.
func TestPostGivesUp(t *testing.T) {
	r := newPostRig(t)
	r.fail = func(Letter) error { return &Failure{Err: errors.New("550 nobody here"), Code: 550, Permanent: true} }
	r.queue("a")
	r.o.Compose[store.MailTest], r.o.Compose["ok"] = r.o.Compose["panic"], r.o.Compose[store.MailTest]
	r.want("a panic", r.after(0))
	r.o.Compose[store.MailTest] = r.o.Compose["ok"]
	r.queue("b")
	r.want("at once", r.after(0), "b")
	r.want("later", r.after(23*time.Hour))
	r.counts(0, 2)
	dead, err := r.db.Cold().DeadMails(t.Context())
	if err != nil || len(dead) != 2 || dead[0].Error != "550 nobody here" || !strings.Contains(dead[1].Error, "could not be made") {
		t.Errorf("%+v %v", dead, err)
	}
	if st := r.Stats(); st.Dead != 2 || st.Failed != 1 || st.Sent != 0 {
		t.Errorf("%+v", st)
	}
}

// TestComposersDecide: a mail that need not be sent any more goes, one that is too early waits, and trouble of the store
// is no failure of a mail.
func TestComposersDecide(t *testing.T) {
	r := newPostRig(t)
	var answer error
	test := r.o.Compose[store.MailTest]
	r.o.Compose[store.MailTest] = func(ctx context.Context, m store.Mail) (Letter, error) {
		if answer != nil {
			return Letter{}, answer
		}
		return test(ctx, m)
	}
	for _, answer = range []error{ErrNothing, fmt.Errorf("the chat: %w", store.ErrNotFound)} {
		r.queue("a")
		r.want("nothing", r.after(0))
		r.counts(0, 0)
	}
	r.queue("b")
	answer = store.ErrUnavailable
	r.want("the store", r.after(0))
	answer = &Later{r.clock.Now().Add(time.Hour)}
	r.want("early", r.after(0))
	answer = nil
	r.want("too early", r.after(time.Hour-time.Second))
	r.want("in time", r.after(time.Second), "b")
	if st := r.Stats(); st.Failed+st.Dead != 0 || st.Sent != 1 {
		t.Errorf("%+v", st)
	}
}

// TestPostWaitsForTheServer: while the server cannot be used it is asked ever more seldom, with one mail at a time. Nobody
// asks it about mails whose time is over.
func TestPostWaitsForTheServer(t *testing.T) {
	r := newPostRig(t)
	r.fail = func(Letter) error { return errors.New("connection refused") }
	r.queue("a", "b", "c")
	r.want("at once", r.after(0), "a")
	_, problem := r.Server()
	if problem.Why != "connection refused" || !problem.At.Equal(r.clock.Now()) {
		t.Errorf("%+v", problem)
	}
	r.want("too early", r.after(shortPause-time.Millisecond))
	r.want("another", r.after(time.Millisecond), "b")
	r.want("too early", r.after(2*shortPause-time.Millisecond))
	r.want("the last", r.after(time.Millisecond), "c")
	tries := 0
	for passed := time.Duration(0); passed < time.Hour; passed += time.Second {
		tries += len(r.after(time.Second))
	}
	if tries < 8 || tries > 20 {
		t.Errorf("%d tries in an hour", tries)
	}
	r.counts(3, 0)
	r.fail = nil
	if sent := r.after(longRetry); len(sent) != 3 {
		t.Errorf("%q", sent)
	}
	if last, problem := r.Server(); !last.Equal(r.clock.Now()) || problem.Why != "" {
		t.Errorf("%v %+v", last, problem)
	}
	r.fail = func(Letter) error { return errors.New("connection refused") }
	r.queue("d", "e", "f")
	r.after(24*time.Hour - time.Second)
	r.queue("g")
	if tried := r.after(longPause); len(tried) > 1 {
		t.Errorf("%q", tried)
	}
	r.after(longPause)
	r.counts(1, 3)
}

// TestPostKeepsItsRate: no more mails a minute than the settings allow, and no more to one address than a person reads.
func TestPostKeepsItsRate(t *testing.T) {
	r := newPostRig(t)
	var one []string
	for range perRecipient + 5 {
		one = append(one, "one")
	}
	r.queue(one...)
	r.queue("other")
	if sent := r.after(0); len(sent) != perRecipient+1 || sent[perRecipient] != "other" {
		t.Errorf("%q", sent)
	}
	r.want("too early", r.after(recipientGap-time.Second))
	r.want("the next", r.after(2*time.Second), "one")
	r.counts(4, 0)

	slow := newPostRig(t)
	slow.o.Settings.PerMinute = 6
	again, err := New(slow.o)
	if err != nil {
		t.Fatal(err)
	}
	slow.Post = again
	slow.queue("a", "b", "c")
	slow.want("one at once", slow.after(0), "a")
	slow.want("too early", slow.after(9*time.Second))
	slow.want("one in ten seconds", slow.after(time.Second), "b")
	if st := slow.Stats(); st.Failed != 0 {
		t.Errorf("%+v", st)
	}
}

// faulty is a store that does not take notice of mails that were sent.
type faulty struct {
	store.Store
	broken bool
	asked  int
}

func (f *faulty) MailSent(ctx context.Context, id string) error {
	f.asked++
	if f.broken {
		return store.ErrUnavailable
	}
	return f.Store.MailSent(ctx, id)
}

// TestSentIsMarked: when the store fails after a mail was sent, the mail is not sent again by this run. The next one may
// send it again, under the same id.
func TestSentIsMarked(t *testing.T) {
	r := newPostRig(t)
	db := &faulty{Store: r.db, broken: true}
	r.db = db
	r.restart()
	a := r.queue("a", "b")[0]
	r.want("at once", r.after(0), "a")
	r.want("while the store fails", r.after(time.Hour))
	if db.asked < 2 {
		t.Errorf("the store was asked %d times", db.asked)
	}
	r.restart() // as after a crash
	r.want("the next run", r.after(0), "a")
	if r.said[0].ID != a.ID {
		t.Errorf("id %s, was %s", r.said[0].ID, a.ID)
	}
	db.broken = false
	r.want("the store is back", r.after(0), "b")
	r.counts(0, 0)
}

// hanging is a server that never answers.
type hanging chan string

func (h hanging) Send(ctx context.Context, l Letter) error {
	h <- l.To
	<-ctx.Done()
	return ctx.Err()
}

// TestPostStops: a Post ends at once, whatever the server does, and the mail stays as it was.
func TestPostStops(t *testing.T) {
	r := newPostRig(t)
	server := make(hanging, 1)
	r.o.Sender = server
	r.Start()
	r.queue("a")
	r.Wake()
	testkit.Receive(t, "the attempt", server)
	r.Stop()
	m, err := r.db.Cold().NextMail(t.Context())
	if err != nil || m.Attempts != 0 || m.Error != "" {
		t.Errorf("%+v %v", m, err)
	}
	var none *Post
	none.Start()
	none.Wake()
	none.Stop()
	last, problem := none.Server()
	if off := none.Settings(); none.On() || off.On() || none.Stats() != (Stats{}) || !last.IsZero() || problem != (Problem{}) {
		t.Error("a Post that does not exist does something")
	}
	if off, err := New(Options{}); off != nil || err != nil {
		t.Errorf("%v %v", off, err)
	}
}

// TestPostLooksByItself: a mail that nobody has told the Post about is sent, and one that is due later is sent then.
func TestPostLooksByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, err := sqlstore.Open(t.Context(), sqlstore.Options{Path: filepath.Join(t.TempDir(), "desk.db"), Wait: time.Hour, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		sent := make(chan Letter, 10)
		p, err := New(Options{Store: db, Settings: Settings{Server: "mail.example:25", From: "a@b.example"}, Sender: told(sent), Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		p.Start()
		began := time.Now()
		for _, in := range []time.Duration{0, time.Hour} {
			if _, err := db.QueueMail(t.Context(), store.Mail{Kind: store.MailTest, To: "a@shop.example", Due: began.Add(in).UnixMilli()}); err != nil {
				t.Fatal(err)
			}
		}
		for _, want := range []time.Duration{lookEvery, time.Hour} {
			<-sent
			if took := time.Since(began); took > want+lookEvery || took < want-lookEvery {
				t.Errorf("after %v, want %v", took, want)
			}
		}
		p.Stop()
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
}

type told chan Letter

func (s told) Send(_ context.Context, l Letter) error { s <- l; return nil }
