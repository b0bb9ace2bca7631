package desk

import (
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-eddy/eddy/cmd/eddy/internal/cmdtest"
	"github.com/go-eddy/eddy/desk/desktest"
	"github.com/go-eddy/eddy/desk/store/pgtest"
	"github.com/go-eddy/eddy/internal/testkit"
)

// nodes are servers on one database, behind something that knows which of them are there.
type nodes struct {
	t    *testing.T
	args []string // that all have

	mu  sync.Mutex
	all []*cmdtest.Process // nil = it is not there
}

func startNodes(t *testing.T, n int, args ...string) *nodes {
	t.Helper()
	c := &nodes{t: t, args: args, all: make([]*cmdtest.Process, n)}
	for i := range n {
		c.start(i)
	}
	return c
}

func (c *nodes) start(i int) {
	c.t.Helper()
	data := filepath.Join(c.t.TempDir(), "data")
	p := cmdtest.StartServer(c.t, append([]string{"desk", "--addr", "127.0.0.1:0", "--data", data}, c.args...)...)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all[i] = p
}

func (c *nodes) end(i int) *cmdtest.Process {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.all[i]
	c.all[i] = nil
	return p
}

// base is one of the servers that are there, or nowhere.
func (c *nodes) base() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	there := slices.DeleteFunc(slices.Clone(c.all), func(p *cmdtest.Process) bool { return p == nil })
	if len(there) == 0 {
		return "http://127.0.0.1:1"
	}
	return "http://" + there[rand.IntN(len(there))].Addr
}

// TestNodesKilled runs three servers on one database, and kills one after the other with SIGKILL while customers and an agent send. Each
// connection goes to any of them. In the end every message is stored once, as TestKillLosesNothing has it.
func TestNodesKilled(t *testing.T) {
	t.Parallel()
	rounds := 6
	if testing.Short() {
		rounds = 2
	}
	const servers, customers, taken, open = 3, 6, 3, 6
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	ctx := testkit.Context(t)
	url := pgtest.Database(t, nil)
	data, account := cmdtest.MadeDesk(t)
	if out, errs, code := cmdtest.Run(t, "desk", "migrate", "--data", data, "--to", url); code != 0 || !strings.Contains(out, "all check sums agree") {
		t.Fatalf("exit code %d, %q, %q", code, out, errs)
	}
	c := startNodes(t, servers, "--store", url, "--files", filepath.Join(data, "files"))
	web := desktest.NewWeb(c.base)
	defer web.CloseIdle()
	agent := web.Agent(account[1], account[2])
	defer agent.Close()
	senders := gatherSenders(ctx, t, web, agent, customers, taken)
	for round := range rounds {
		before := acked(senders)
		for _, s := range senders {
			s.fill(open)
		}
		waitAcks(ctx, t, senders, before+random.IntN(len(senders)*open))
		victim := round % servers
		p := c.end(victim)
		p.Signal(syscall.SIGKILL)
		p.Wait()
		t.Logf("round %d: server %d killed after %d acknowledgements of this round", round+1, victim, acked(senders)-before)
		c.start(victim)
	}
	for _, s := range senders {
		if err := s.client.Flushed(ctx); err != nil {
			t.Fatal(err)
		}
	}
	checkLogs(ctx, t, web, account, senders)
	for i := range servers {
		c.end(i).Stop()
	}
}
