package deskload

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/go-eddy/eddy/desk"
	"github.com/go-eddy/eddy/desk/auth"
	"github.com/go-eddy/eddy/desk/hub"
	"github.com/go-eddy/eddy/desk/store"
	"github.com/go-eddy/eddy/internal/chaos"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("database/sql.(*DB).connectionOpener"))
}

// held is a store whose hellos of customers can be held up, and that can be too busy for some commands.
type held struct {
	store.Store

	mu     sync.Mutex
	hellos chan struct{} // closed = they pass
	busy   int           // messages of agents that are still to be refused
}

type heldReader struct {
	store.Reader
	h *held
}

func (h *held) Hot() store.Reader { return heldReader{h.Store.Hot(), h} }

// ContactByToken is the first read of a customer's hello.
func (r heldReader) ContactByToken(ctx context.Context, t store.Token, now time.Time) (store.Contact, error) {
	r.h.mu.Lock()
	gate := r.h.hellos
	r.h.mu.Unlock()
	select {
	case <-gate:
		return r.Reader.ContactByToken(ctx, t, now)
	case <-ctx.Done():
		return store.Contact{}, ctx.Err()
	}
}

// Do implements store.Store.
func (h *held) Do(cmd store.Command, deadline time.Time, done func(store.Outcome)) {
	h.mu.Lock()
	message, _ := cmd.(store.Append)
	refused := message.From.Kind == store.Agent && h.busy > 0
	if refused {
		h.busy--
	}
	h.mu.Unlock()
	if refused {
		done(store.Outcome{Err: store.ErrBusy})
		return
	}
	h.Store.Do(cmd, deadline, done)
}

// hold makes customers wait at the door.
func (h *held) hold() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.hellos = make(chan struct{})
}

// refuse makes the store too busy for the next n messages of agents.
func (h *held) refuse(n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.busy = n
}

// left returns for how many messages the store is still too busy.
func (h *held) left() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.busy
}

func (h *held) welcome() {
	h.mu.Lock()
	defer h.mu.Unlock()
	close(h.hellos)
}

// stormPatience only guards against a hang.
const stormPatience = 5 * time.Minute

// stormDesk is a Desk behind a proxy, and a fleet in front of it.
func stormDesk(t *testing.T, agents, capacity int) (*held, *chaos.Proxy, *Fleet, []Account) {
	const plenty = 1e6
	fast := hub.Rate{PerSecond: plenty, Burst: plenty}
	h := &held{hellos: make(chan struct{})}
	h.welcome()
	d, err := desk.Open(t.Context(), desk.Options{
		DataDir: t.TempDir(), Addr: "127.0.0.1:0", NewVisitors: fast, NewVisitorsPerIP: fast, ConnsPerIP: -1, Passwords: auth.Params{MemoryKiB: 64, Passes: 1, Lanes: 1},
		Limits: hub.Limits{
			CustomerMessages: fast, AgentMessages: fast, CustomerCommands: fast, AgentCommands: fast,
			HelloTimeout: stormPatience, CommandAge: stormPatience, ReadTimeout: stormPatience,
		},
		WrapStore: func(s store.Store) store.Store { h.Store = s; return h },
		Logger:    slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	var accounts []Account
	for i := range agents {
		a := Account{Login: fmt.Sprint("storm", i), Password: "correct horse battery"}
		if err := d.AddAgent(t.Context(), a.Login, a.Login, a.Password, capacity); err != nil {
			t.Fatal(err)
		}
		accounts = append(accounts, a)
	}
	if err := d.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	p, err := chaos.New(d.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	f := New("demo", "http://"+p.Addr())
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	return h, p, f, accounts
}

// TestReconnectStorm cuts every connection at once, twice in a row, while messages flow, at a server that is too busy for some of
// them. Nothing is lost, nothing doubled, nothing out of order; who is too many is told to come later and nobody is sent away; the agents are
// served while the crowd of customers still waits at the door.
func TestReconnectStorm(t *testing.T) {
	const agents, refused = 4, 20
	customers := 300
	if testing.Short() || raceDetector { // the database is ten times slower with it
		customers = 60
	}
	h, proxy, f, accounts := stormDesk(t, agents, store.MaxCapacity)
	ctx, cancel := context.WithTimeout(t.Context(), stormPatience)
	defer cancel()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%v; %+v", err, f.Faults())
		}
	}
	must(f.AddAgents(ctx, accounts))
	must(f.Rest(ctx))
	must(f.AddCustomers(ctx, customers))
	must(f.Open(ctx))
	must(f.Serve(ctx))
	must(f.Say(16))
	for storm := range 2 {
		f.Outage()
		must(f.Say(16))
		h.hold()
		if n := proxy.Cut(); n < customers+agents {
			t.Fatalf("%d connections were cut", n)
		}
		must(f.until(ctx, "agents come back", func() string {
			back := 0
			for _, c := range f.agents {
				if c.live && !c.back.IsZero() {
					back++
				}
			}
			return missing(agents-back, agents, "are not welcomed")
		}))
		busy := f.Faults().Busy
		h.refuse(refused)
		must(f.Say(16)) // the agents' go out, those of the customers when they are back
		must(f.until(ctx, "agents are served", func() string {
			waiting := 0
			for _, c := range f.agents {
				for _, st := range c.streams {
					waiting += len(st.out)
				}
			}
			return missing(waiting, customers, "messages of agents are not acknowledged")
		}))
		if n := f.Faults().Busy - busy; n == 0 || n > refused || h.left() > 0 { // a refusal can go to a connection that was cut
			t.Errorf("%d commands were told to come later, want up to %d; %d are still to be refused", n, refused, h.left())
		}
		f.mu.Lock()
		for _, c := range f.customers {
			if c.live {
				t.Error("a customer came in before the door was opened: the agents' turn proves nothing")
				break
			}
		}
		f.mu.Unlock()
		h.welcome()
		must(f.Resumed(ctx))
		faults := f.Faults()
		t.Logf("storm %d: %d commands were told to come later, %d events came again", storm+1, faults.Busy, faults.Replayed)
		faults.Busy, faults.Replayed = 0, 0
		if faults != (Faults{}) {
			t.Fatalf("storm %d: %+v", storm+1, faults)
		}
	}
	times, dials := f.Resumes(time.Now())
	if n := int64(customers + agents); times.TotalCount() != n || dials < n {
		t.Errorf("%d of %d clients resumed with %d connects", times.TotalCount(), n, dials)
	}
}
