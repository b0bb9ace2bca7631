package desk

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"net/url"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-eddy/eddy/desk/bus/bustest"
	"github.com/go-eddy/eddy/desk/desktest"
	"github.com/go-eddy/eddy/desk/store/pgtest"
	"github.com/go-eddy/eddy/internal/testkit"
)

var (
	faultTime = flag.Duration("faults", 0, "how long TestNodesFaults goes on, as scripts/long has it; 0 = some rounds")
	faultSeed = flag.Uint64("faults-seed", 0, "seed of the tests with faults; 0 = a new one")
)

// checkEvery is after how many rounds the tables are checked: that reads them whole.
const checkEvery = 10

// seeded is the randomness of a test with faults.
func seeded(t *testing.T) *rand.Rand {
	t.Helper()
	seed := *faultSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// faulty are servers with a cable of each to every machine of the database, and one to the bus.
type faulty struct {
	*nodes
	random  *rand.Rand
	data    []cables
	buses   []*cable
	between *bustest.Server
	pair    *pgtest.Pair  // nil = the database is that of all tests of the package
	address func() string // of the database
}

// startFaulty moves a new desk to a database, and starts servers on it.
func startFaulty(t *testing.T, n int, random *rand.Rand) (f *faulty, account []string) {
	t.Helper()
	address := pgtest.Database(t, nil)
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(u.Query().Get("host"), ".s.PGSQL.5432")
	f = &faulty{random: random, address: func() string { return address }}
	return f, f.begin(t, n, address, func() string { return socket })
}

// startPaired is startFaulty on a database of its own that has a standby.
func startPaired(t *testing.T, n int, random *rand.Rand) (f *faulty, account []string) {
	t.Helper()
	pair := pgtest.StartPair(t)
	f = &faulty{random: random, pair: pair, address: pair.URL}
	return f, f.begin(t, n, pair.URL(), func() string { return pair.Socket(0) }, func() string { return pair.Socket(1) })
}

func (f *faulty) begin(t *testing.T, n int, address string, sockets ...func() string) (account []string) {
	t.Helper()
	files, account := movedTo(t, address)
	f.nodes, f.between = &nodes{t: t}, bustest.Start(t, nil)
	bus := f.between.Addr()
	for range n {
		var all cables
		for _, socket := range sockets {
			all = append(all, newCable(t, func() (net.Conn, error) { return net.Dial("unix", socket()) }))
		}
		f.data = append(f.data, all)
		f.buses = append(f.buses, newCable(t, func() (net.Conn, error) { return net.Dial("tcp", bus) }))
	}
	f.own = func(i int) []string {
		return []string{"--store", f.data[i].postgres(t, address), "--files", filepath.Join(files, "files"), "--bus", "nats://" + f.buses[i].addr()}
	}
	f.startAll(n)
	return account
}

// cables lead to the machines of one database.
type cables []*cable

func (c cables) be(s cableState) {
	for _, one := range c {
		one.be(s)
	}
}

// postgres is the address of the database with this name at the far ends.
func (c cables) postgres(t *testing.T, address string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	var hosts []string
	for _, one := range c { // by name, because the first address that a server says is taken for its own
		hosts = append(hosts, strings.Replace(one.addr(), "127.0.0.1", "localhost", 1))
	}
	store := url.URL{Scheme: "postgres", User: u.User, Host: strings.Join(hosts, ","), Path: u.Path, RawQuery: "sslmode=disable&target_session_attrs=read-write"}
	return store.String()
}

// strike makes something fail, and returns what that is and how it is mended.
func (f *faulty) strike() (what string, mend func()) {
	i := f.random.IntN(len(f.all))
	p := f.all[i]
	cable := func(name string, c interface{ be(cableState) }) (string, func()) {
		state := cableState(1 + f.random.IntN(cableFaults))
		c.be(state)
		return fmt.Sprintf("server %d to the %s: %s", i, name, state), func() { c.be(cableWhole) }
	}
	kinds := 5
	if f.pair != nil {
		kinds += 2
	}
	switch f.random.IntN(kinds) {
	case 6:
		return "the database: " + f.failOver(), f.failBack
	case 5:
		f.pair.Stop(f.t)
		return "the database: crashed", func() { f.pair.Start(f.t) }
	case 0:
		f.end(i)
		p.Signal(syscall.SIGKILL)
		p.Wait()
		return fmt.Sprintf("server %d: killed", i), func() { f.start(i) }
	case 1:
		p.Signal(pause)
		return fmt.Sprintf("server %d: paused", i), func() { p.Signal(resume) }
	case 2:
		f.between.End()
		return "the bus: gone", f.between.Begin
	case 3:
		return cable("bus", f.buses[i])
	default:
		return cable("database", f.data[i])
	}
}

// TestNodesFaults: three servers, of which always something fails by a seed: one is killed or hangs, is cut from the database or from the bus, in
// one direction or both, or the bus is gone. With -faults the database crashes or fails over, too. Customers and an agent write meanwhile, and two agents take chats from each other. The
// tables agree at any time, and in the end every message is stored once, as TestKillLosesNothing has it.
func TestNodesFaults(t *testing.T) {
	t.Parallel()
	const customers, taken, open = 6, 3, 4
	rounds := 8
	if testing.Short() {
		rounds = 3
	}
	random := seeded(t)
	ctx, cancel := context.WithTimeout(context.Background(), testkit.Patience+2*(*faultTime))
	defer cancel()
	end, stop := context.WithTimeout(ctx, *faultTime)
	defer stop()
	start := startFaulty
	if *faultTime > 0 {
		start = startPaired
	}
	f, account := start(t, 3, random)
	web := desktest.NewWeb(f.base)
	defer web.CloseIdle()
	agent := web.Agent(account[1], account[2])
	defer agent.Close()
	senders := gatherSenders(ctx, t, web, agent, customers, taken)
	others := startRivals(ctx, t, f.base, f.address())
	for round := 0; round < rounds || end.Err() == nil; round++ {
		before := acked(senders)
		what, mend := f.strike()
		for _, s := range senders {
			s.fill(open)
		}
		others.meet()
		// Whoever is connected to the server in question may get no answer, and perhaps everybody is.
		during := []time.Duration{300 * time.Millisecond, 3 * time.Second, 20 * time.Second}[min(f.random.IntN(10)/4, 2)]
		if *faultTime == 0 {
			during = min(during, 3*time.Second)
		}
		wait, enough := context.WithTimeout(ctx, during)
		goal := before + 1 + f.random.IntN(len(senders)*open)
		_ = ackedWithin(wait, senders, goal) // perhaps not
		enough()
		t.Logf("round %d: %s; %d acknowledgements meanwhile", round+1, what, acked(senders)-before)
		mend()
		for _, s := range senders {
			checkDrops(t, s)
		}
		if round%checkEvery == 0 {
			checkTables(ctx, t, f.address())
		}
	}
	others.stop(t)
	for _, s := range senders {
		if err := s.client.Flushed(ctx); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range senders {
		checkDrops(t, s)
	}
	checkTables(ctx, t, f.address())
	checkLogs(ctx, t, web, account, senders)
	for i := range f.all {
		f.end(i).Stop()
	}
}
