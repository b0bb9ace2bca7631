package push

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-eddy/eddy/desk/safehttp"
	"github.com/go-eddy/eddy/desk/store"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/internal/sample"
)

// Options configure a Push. Store, Connected and Idle are required.
type Options struct {
	Store     store.Store
	Connected func(agent string) bool // a console of the agent is open
	Idle      time.Duration           // after which an unused login has ended

	Barred  func(store.AgentAccount) bool // the account gets no calls; default none
	Contact string                        // https address by which push services reach the operator; default none

	Private  bool              // push services may have private addresses, and http; of tests
	Resolver safehttp.Resolver // of their names; default net.DefaultResolver
	TLS      *tls.Config       // of connections to them; default the roots of the system
	Logger   *slog.Logger      // default slog.Default()
	Now      func() time.Time  // default time.Now
	// After returns a channel that gets a value when Now has advanced by d, and a function that gives it up. Default is
	// a time.Timer.
	After func(d time.Duration) (<-chan time.Time, func() bool)

	client func() (doer, error) // of tests
}

const (
	settle      = 5 * time.Second  // from the first thing that happened to the call: consoles that are loaded again come back
	every       = 30 * time.Second // between two calls of one agent, at least
	storePause  = 5 * time.Second  // after the store has failed
	storeWithin = 5 * time.Second  // of one read or change

	lanes       = 32   // agents that are called at once
	maxAccounts = 1000 // agents that are remembered
	maxChats    = 100  // chats of one agent that are told apart
	logEvery    = time.Minute
)

func (o *Options) fill() error {
	if o.Store == nil || o.Connected == nil || o.Idle <= 0 {
		return errors.New("push: Options.Store, Options.Connected and Options.Idle are required")
	}
	if o.Barred == nil {
		o.Barred = func(store.AgentAccount) bool { return false }
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.After == nil {
		o.After = func(d time.Duration) (<-chan time.Time, func() bool) {
			t := time.NewTimer(d)
			return t.C, t.Stop
		}
	}
	return nil
}

// Push calls agents. Any goroutine may call its methods, also those of a nil *Push, which calls nobody.
type Push struct {
	o       Options
	keys    keys
	clients *safehttp.Pair
	pool    *executor.Pool // TLS handshakes
	ctx     context.Context
	cancel  context.CancelFunc
	running sync.WaitGroup
	kick    chan struct{} // holds one element while accounts have to be looked at
	log     sample.Seldom
	n       counters

	mu       sync.Mutex
	accounts map[string]*account // by agent
	busy     int                 // of lanes
}

type counters struct{ sent, failed, gone, lost atomic.Uint64 }

// Stats are the numbers of a Push since its start.
type Stats struct {
	Sent    uint64 // taken by a push service
	Failed  uint64 // requests that were not
	Gone    uint64 // subscriptions that their push service knows no more
	Lost    uint64 // calls given up, and what nobody could be told of because too many agents are remembered
	Waiting int    // agents that are still to be called now
}

// New returns a Push, which Start makes work. The key pair by which push services know this server is made with the first
// one, and is kept in the store.
func New(ctx context.Context, o Options) (*Push, error) {
	if err := o.fill(); err != nil {
		return nil, err
	}
	p := &Push{o: o, kick: make(chan struct{}, 1), accounts: make(map[string]*account)}
	var err error
	if p.keys, err = loadKeys(ctx, o.Store); err != nil {
		return nil, err
	}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	return p, nil
}

// Key returns the public key that browsers subscribe with, in base64url; "" if nobody is called.
func (p *Push) Key() string {
	if p == nil {
		return ""
	}
	return p.keys.public
}

// Check returns an error if an endpoint could not be asked.
func (p *Push) Check(endpoint string) error {
	_, err := safehttp.CheckURL(endpoint, p.o.Private)
	return err
}

// Start begins to work. Call it once; Stop ends it.
func (p *Push) Start() error {
	if p == nil {
		return nil
	}
	pool, err := executor.NewFixed(executor.Options{Name: "push", Workers: 2, Queue: 64, Logger: p.o.Logger})
	if err != nil {
		return err
	}
	p.pool = pool
	p.clients = safehttp.NewPair("desk-push", safehttp.Options{Handshakes: pool, TLS: p.o.TLS, Resolver: p.o.Resolver, Logger: p.o.Logger})
	if p.o.client == nil {
		p.o.client = func() (doer, error) { return p.clients.Client(p.o.Private) }
	}
	p.running.Go(p.run)
	return nil
}

// Stop ends everything. Calls that wait are lost. A second call does nothing.
func (p *Push) Stop() error {
	if p == nil {
		return nil
	}
	p.cancel()
	p.running.Wait()
	if p.pool == nil {
		return nil
	}
	err := p.clients.Close()
	p.pool.Close()
	_, down := p.pool.Shutdown(context.Background())
	p.pool = nil
	return errors.Join(err, down)
}

// Call notes something that an agent without a console would like to know. It does not block.
func (p *Push) Call(c Call) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	a := p.accounts[c.Agent]
	if a == nil && !p.room() {
		p.n.lost.Add(1)
		return
	}
	if a == nil {
		a = newAccount()
		p.accounts[c.Agent] = a
	}
	if a.add(c, p.o.Now()) {
		p.wake()
	}
}

// room makes room for one account more, at the cost of one for which there is nothing to do. p.mu is held.
func (p *Push) room() bool {
	if len(p.accounts) < maxAccounts {
		return true
	}
	for agent, a := range p.accounts {
		if _, waits := a.due(); !waits && !a.running {
			delete(p.accounts, agent)
			return true
		}
	}
	return false
}

// Back forgets what has happened for an agent, who has a console now. It does not block.
func (p *Push) Back(agent string) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.accounts, agent)
}

// Stats returns the numbers.
func (p *Push) Stats() Stats {
	if p == nil {
		return Stats{}
	}
	s := Stats{Sent: p.n.sent.Load(), Failed: p.n.failed.Load(), Gone: p.n.gone.Load(), Lost: p.n.lost.Load()}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, a := range p.accounts {
		if _, waits := a.due(); waits || a.running {
			s.Waiting++
		}
	}
	return s
}

func (p *Push) wake() {
	select {
	case p.kick <- struct{}{}:
	default:
	}
}

// run calls agents when it is time.
func (p *Push) run() {
	for p.ctx.Err() == nil {
		wait, waits := p.launch()
		var after <-chan time.Time
		stop := func() bool { return true }
		if waits {
			after, stop = p.o.After(wait)
		}
		select {
		case <-after:
		case <-p.kick:
		case <-p.ctx.Done():
		}
		stop()
	}
}

// launch begins the rounds that are due, as far as there are lanes. It returns how long until the next one is.
func (p *Push) launch() (wait time.Duration, waits bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.o.Now()
	for agent, a := range p.accounts {
		due, has := a.due()
		switch {
		case a.running || !has:
		case due.After(now):
			if d := due.Sub(now); !waits || d < wait {
				wait, waits = d, true
			}
		case p.busy < lanes: // beyond, the end of a round looks again
			a.running = true
			p.busy++
			p.running.Go(func() { p.round(agent, a) })
		}
	}
	return wait, waits
}

// round calls one agent.
func (p *Push) round(agent string, a *account) {
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		a.running = false
		p.busy--
		p.wake()
	}()
	if p.o.Connected(agent) {
		p.forget(agent, a)
		return
	}
	subs, err := p.subscriptions(agent)
	switch {
	case err != nil:
		p.mu.Lock()
		a.rest = p.o.Now().Add(storePause)
		p.mu.Unlock()
		if p.ctx.Err() == nil {
			p.warn("desk: the subscriptions of an agent could not be read", "agent", agent, "err", err)
		}
		return
	case len(subs) == 0:
		p.forget(agent, a)
		return
	}
	p.mu.Lock()
	n, todo := a.begin(subs, p.o.Now())
	p.mu.Unlock()
	var sends sync.WaitGroup
	for i := range todo {
		sends.Go(func() { p.send(a, &todo[i], n) })
	}
	sends.Wait()
}

// forget removes an account, unless it is another one by now.
func (p *Push) forget(agent string, a *account) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.accounts[agent] == a {
		delete(p.accounts, agent)
	}
}

// subscriptions returns those that count at this moment.
func (p *Push) subscriptions(agent string) ([]store.PushSubscription, error) {
	ctx, cancel := context.WithTimeout(p.ctx, storeWithin)
	defer cancel()
	now := p.o.Now()
	all, err := p.o.Store.Cold().PushSubscriptions(ctx, agent, now, now.Add(-p.o.Idle))
	return slices.DeleteFunc(all, func(s store.PushSubscription) bool { return p.o.Barred(s.Agent) }), err
}

// warn logs a failure, but not every one of a row.
func (p *Push) warn(text string, args ...any) {
	if ok, held := p.log.Allow(logEvery); ok {
		p.o.Logger.Warn(text, append(args, "held_back", held)...)
	}
}
