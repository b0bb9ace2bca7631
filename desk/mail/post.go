package mail

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-eddy/eddy/desk/auth"
	"github.com/go-eddy/eddy/desk/lease"
	"github.com/go-eddy/eddy/desk/store"
	"github.com/go-eddy/eddy/internal/sample"
)

// Sender gives one letter to a mail server. It blocks and honours ctx. Its error is a *Failure, or counts as one of the
// server.
type Sender interface {
	Send(ctx context.Context, l Letter) error
}

// Composer makes the text of a mail when it is sent. ErrNothing and store.ErrNotFound mean that there is nothing to say
// any more, a *Later that it is too early, and store.ErrUnavailable that it has to be tried again. After any other error
// the mail is given up.
type Composer func(ctx context.Context, m store.Mail) (Letter, error)

// ErrNothing means that a mail need not be sent any more.
var ErrNothing = errors.New("mail: nothing to say")

// Later means that a mail is not to be sent before a time.
type Later struct{ Until time.Time }

// Error implements error.
func (l *Later) Error() string { return "mail: not before " + l.Until.Format(time.RFC3339) }

// Options configure a Post. Store is required.
type Options struct {
	Store     store.Store
	Settings  Settings
	PublicURL string // address by which people reach this server, without a slash at the end
	Chats     Chats  // default: nobody is connected

	Hold    lease.Hold                  // one of several servers sends; default lease.Alone
	Sender  Sender                      // default an SMTP of Settings
	Compose map[store.MailKind]Composer // in place of those of this package, by kind

	Logger *slog.Logger     // default slog.Default()
	Now    func() time.Time // default time.Now
}

// Post sends the mails of the queue. Any goroutine may call its methods, also those of a nil *Post, which sends none.
type Post struct {
	o    Options
	all  *auth.Buckets // mails
	each *auth.Buckets // mails by recipient

	wake   chan struct{}
	cancel context.CancelFunc
	done   sync.WaitGroup

	sent     string    // a mail that was sent and is still in the queue, because the store has failed
	failures int       // of the server in a row
	resume   time.Time // nothing is sent before
	storeLog sample.Seldom

	counters counters
}

type counters struct {
	sent, failed, dead atomic.Uint64
	queued, kept       atomic.Int64

	mu      sync.Mutex
	lastOK  time.Time
	problem Problem
}

// Problem is what the mail server did last, if that was a failure.
type Problem struct {
	Why string // "" = none
	At  time.Time
}

// Stats are the numbers of a Post.
type Stats struct {
	Sent   uint64 // taken by the server
	Failed uint64 // attempts that were not
	Dead   uint64 // mails given up
	Queued int    // that wait now
	Kept   int    // dead ones to be looked at
}

const (
	lookEvery    = 15 * time.Second // at the queue, when nobody says that there is something new
	storeRetry   = 5 * time.Second
	storeTimeout = 5 * time.Second
	shortPause   = 5 * time.Second // after the first failure of the server; doubles
	longPause    = 5 * time.Minute
	firstRetry   = time.Minute // of one mail; doubles
	longRetry    = 4 * time.Hour
	perRecipient = 10 // mails at once, one in six minutes after that
	recipientGap = 6 * time.Minute
	maxKeys      = 20_000
	logEvery     = time.Minute
)

// New returns a Post, which Start makes work. It returns nil if Settings are off. The error is that of Settings.Check.
func New(o Options) (*Post, error) {
	if err := o.Settings.Check(); err != nil || !o.Settings.On() {
		return nil, err
	}
	if o.Store == nil {
		return nil, errors.New("mail: Options.Store is required")
	}
	o.Settings.Fill()
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Hold == nil {
		o.Hold = lease.Alone
	}
	if o.Sender == nil {
		smtp, err := NewSMTP(o.Settings)
		if err != nil {
			return nil, err
		}
		o.Sender = smtp
	}
	compose := (&texts{o.Store, o.PublicURL, o.Chats, o.Now}).composers()
	maps.Copy(compose, o.Compose)
	o.Compose = compose
	perMinute := o.Settings.PerMinute
	return &Post{
		o: o, wake: make(chan struct{}, 1),
		all:  auth.NewBuckets(float64(perMinute)/time.Minute.Seconds(), max(perMinute/6, 1), 1),
		each: auth.NewBuckets(1/recipientGap.Seconds(), perRecipient, maxKeys),
	}, nil
}

// Start begins to send. Call it once.
func (p *Post) Start() {
	if p == nil {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	p.cancel = cancel
	p.done.Go(func() { p.o.Hold(ctx, p.work) })
}

// Stop ends the work and returns when it has ended. A mail that the server is just taking may be sent again after the
// next start.
func (p *Post) Stop() {
	if p == nil {
		return
	}
	if p.cancel != nil {
		p.cancel()
	}
	p.done.Wait()
}

// On reports whether mails are sent.
func (p *Post) On() bool { return p != nil }

// Settings returns the settings without the password.
func (p *Post) Settings() Settings {
	if p == nil {
		return Settings{}
	}
	s := p.o.Settings
	s.Password = ""
	return s
}

// Wake says that there may be a new mail. It does not block.
func (p *Post) Wake() {
	if p == nil {
		return
	}
	select {
	case p.wake <- struct{}{}:
	default: // it is awake already
	}
}

// Stats returns the numbers without asking the database.
func (p *Post) Stats() Stats {
	if p == nil {
		return Stats{}
	}
	c := &p.counters
	return Stats{Sent: c.sent.Load(), Failed: c.failed.Load(), Dead: c.dead.Load(), Queued: int(c.queued.Load()), Kept: int(c.kept.Load())}
}

// Server returns when the server took a mail last, zero for never since the start, and what went wrong since.
func (p *Post) Server() (last time.Time, problem Problem) {
	if p == nil {
		return last, problem
	}
	p.counters.mu.Lock()
	defer p.counters.mu.Unlock()
	return p.counters.lastOK, p.counters.problem
}

func (p *Post) work(ctx context.Context) {
	for ctx.Err() == nil {
		timer := time.NewTimer(p.run(ctx))
		select {
		case <-p.wake:
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// run sends what is due, and returns how long there is nothing to do.
func (p *Post) run(ctx context.Context) time.Duration {
	for ctx.Err() == nil {
		wait, err := p.step(ctx)
		if err != nil && ctx.Err() == nil {
			if ok, held := p.storeLog.Allow(logEvery); ok {
				p.o.Logger.Warn("desk: the queue of mails could not be read or changed", "err", err, "held_back", held)
			}
			return storeRetry
		}
		if wait > 0 {
			return min(wait, lookEvery)
		}
	}
	return 0
}

// step sends one mail, if one is due, or returns how long there is none to send. The error is one of the store.
func (p *Post) step(ctx context.Context) (wait time.Duration, err error) {
	if p.sent != "" {
		return 0, p.marked(ctx, p.sent)
	}
	now := p.o.Now()
	if wait := p.resume.Sub(now); wait > 0 {
		return wait, p.count(ctx)
	}
	m, err := p.next(ctx)
	if errors.Is(err, store.ErrNotFound) {
		return lookEvery, p.count(ctx)
	}
	if err != nil {
		return 0, err
	}
	if wait := time.UnixMilli(m.Due).Sub(now); wait > 0 {
		return wait, p.count(ctx)
	}
	if now.UnixMilli() >= m.Expires {
		return 0, p.giveUp(ctx, &m, "not sent in time: "+m.Error)
	}
	if wait := p.each.Take(m.To, now); wait > 0 {
		return 0, p.change(ctx, func(ctx context.Context) error {
			return p.o.Store.DelayMail(ctx, m.ID, now.Add(wait).UnixMilli(), "")
		})
	}
	if wait := p.all.Take("", now); wait > 0 {
		p.each.Return(m.To)
		return wait, p.count(ctx)
	}
	return 0, p.send(ctx, &m)
}

// next returns the mail that is due first.
func (p *Post) next(ctx context.Context) (store.Mail, error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	return p.o.Store.Cold().NextMail(ctx)
}

// count looks how many mails there are.
func (p *Post) count(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	n, err := p.o.Store.Cold().MailCounts(ctx)
	if err == nil {
		p.counters.queued.Store(int64(n.Queued))
		p.counters.kept.Store(int64(n.Dead))
	}
	return err
}

// change makes a change of the queue, also while the Post ends. What is gone meanwhile needs none.
func (p *Post) change(ctx context.Context, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	if err := f(ctx); !errors.Is(err, store.ErrNotFound) {
		return err
	}
	return nil
}

// send makes one attempt.
func (p *Post) send(ctx context.Context, m *store.Mail) error {
	letter, err := p.letter(ctx, m)
	if later, ok := errors.AsType[*Later](err); ok {
		return p.change(ctx, func(ctx context.Context) error {
			return p.o.Store.DelayMail(ctx, m.ID, later.Until.UnixMilli(), "")
		})
	}
	switch {
	case errors.Is(err, ErrNothing), errors.Is(err, store.ErrNotFound):
		return p.change(ctx, func(ctx context.Context) error { return p.o.Store.MailSent(ctx, m.ID) })
	case errors.Is(err, store.ErrUnavailable), errors.Is(err, store.ErrBusy), errors.Is(err, store.ErrStopped), ctx.Err() != nil:
		return err
	case err != nil:
		p.o.Logger.Error("desk: the text of a mail could not be made", "kind", m.Kind, "mail", m.ID, "err", err)
		return p.giveUp(ctx, m, err.Error())
	}
	err = p.o.Sender.Send(ctx, letter)
	if err == nil {
		p.counters.sent.Add(1)
		p.ok()
		return p.marked(ctx, m.ID)
	}
	if ctx.Err() != nil {
		return err // the end of the Post is no failure of the server
	}
	return p.failed(ctx, m, err)
}

// letter has the text of a mail made. A panic is an error.
func (p *Post) letter(ctx context.Context, m *store.Mail) (l Letter, err error) {
	defer func() {
		if v := recover(); v != nil {
			p.o.Logger.Error("desk: panic in a mail", "kind", m.Kind, "panic", v, "stack", string(debug.Stack()))
			err = fmt.Errorf("mail: the text could not be made")
		}
	}()
	compose := p.o.Compose[m.Kind]
	if compose == nil {
		return l, fmt.Errorf("mail: this program knows no mails of kind %q", m.Kind)
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	l, err = compose(ctx, *m)
	l.ID, l.To, l.Date = m.ID, m.To, p.o.Now()
	return l, err
}

// marked takes a mail that was sent out of the queue. If the store fails, that is tried again before anything else is
// sent, so that this run does not send it twice.
func (p *Post) marked(ctx context.Context, id string) error {
	p.sent = id
	err := p.change(ctx, func(ctx context.Context) error { return p.o.Store.MailSent(ctx, id) })
	if err == nil {
		p.sent = ""
	}
	return err
}

// ok notes that the server took a mail.
func (p *Post) ok() {
	p.failures = 0
	p.counters.mu.Lock()
	defer p.counters.mu.Unlock()
	p.counters.lastOK, p.counters.problem = p.o.Now(), Problem{}
}

// failed decides what becomes of a mail that the server did not take.
func (p *Post) failed(ctx context.Context, m *store.Mail, err error) error {
	p.counters.failed.Add(1)
	f, ok := errors.AsType[*Failure](err)
	if !ok {
		f = &Failure{Err: err, Server: true}
	}
	switch {
	case f.Permanent:
		p.o.Logger.Warn("desk: a mail was refused for good", "kind", m.Kind, "mail", m.ID, "code", f.Code)
		return p.giveUp(ctx, m, err.Error())
	case f.Server:
		p.serverFailed(err)
		if err := p.expire(ctx, err.Error()); err != nil {
			return err
		}
	}
	due := min(p.o.Now().Add(retryAfter(m.Attempts)).UnixMilli(), m.Expires)
	return p.change(ctx, func(ctx context.Context) error { return p.o.Store.DelayMail(ctx, m.ID, due, err.Error()) })
}

// retryAfter returns how long a mail waits after so many attempts before this one.
func retryAfter(attempts int) time.Duration { return min(firstRetry<<min(attempts, 10), longRetry) }

// serverFailed lets all mails wait, longer each time.
func (p *Post) serverFailed(err error) {
	now := p.o.Now()
	pause := min(shortPause<<min(p.failures, 10), longPause)
	p.failures++
	p.resume = now.Add(pause)
	p.counters.mu.Lock()
	p.counters.problem = Problem{err.Error(), now}
	p.counters.mu.Unlock()
	p.o.Logger.Warn("desk: the mail server cannot be used", "err", err, "next_attempt_in", pause)
}

// expire gives up what has waited too long, so that a server that stays away leaves no endless queue.
func (p *Post) expire(ctx context.Context, why string) error {
	return p.change(ctx, func(ctx context.Context) error {
		n, err := p.o.Store.ExpireMails(ctx, "not sent in time: "+why)
		p.counters.dead.Add(uint64(n))
		return err
	})
}

func (p *Post) giveUp(ctx context.Context, m *store.Mail, why string) error {
	return p.change(ctx, func(ctx context.Context) error {
		err := p.o.Store.GiveUpMail(ctx, m.ID, why)
		if err == nil {
			p.counters.dead.Add(1)
		}
		return err
	})
}
