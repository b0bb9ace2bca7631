package desk

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-eddy/eddy/cmd/eddy/internal/cmdtest"
	"github.com/go-eddy/eddy/desk/bus/bustest"
	"github.com/go-eddy/eddy/desk/desktest"
	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/store/pgtest"
	"github.com/go-eddy/eddy/internal/testkit"
)

// nodes are servers on one database, behind something that knows which of them are there.
type nodes struct {
	t    *testing.T
	args []string             // that all have
	env  []string             // beside that of the tests
	own  func(i int) []string // arguments of one; nil = none

	mu  sync.Mutex
	all []*cmdtest.Process // nil = it is not there
}

func startNodes(t *testing.T, n int, args ...string) *nodes {
	t.Helper()
	return (&nodes{t: t, args: args}).startAll(n)
}

func (c *nodes) startAll(n int) *nodes {
	c.t.Helper()
	c.all = make([]*cmdtest.Process, n)
	for i := range n {
		c.start(i)
	}
	return c
}

func (c *nodes) start(i int) {
	c.t.Helper()
	data := filepath.Join(c.t.TempDir(), "data")
	args := append([]string{"desk", "--addr", "127.0.0.1:0", "--data", data}, c.args...)
	if c.own != nil {
		args = append(args, c.own(i)...)
	}
	cmd := cmdtest.Program(args...)
	cmd.Env = append(cmd.Env, c.env...)
	p := cmdtest.StartProcess(c.t, cmd)
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

// at is a program that talks to one of the servers only.
func (c *nodes) at(i int) *desktest.Web {
	return desktest.NewWeb(func() string {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.all[i] == nil {
			return "http://127.0.0.1:1"
		}
		return "http://" + c.all[i].Addr
	})
}

// ready waits until every server says that it is.
func (c *nodes) ready(ctx context.Context) {
	c.t.Helper()
	for i := range c.all {
		web := c.at(i)
		testkit.Eventually(c.t, fmt.Sprintf("server %d to be ready", i), func() bool {
			ready, _ := isReady(ctx, web)
			return ready
		})
		web.CloseIdle()
	}
}

// isReady asks a server whether it is ready, and why not.
func isReady(ctx context.Context, web *desktest.Web) (ready bool, why string) {
	resp, body, err := web.Get(ctx, "/readyz", nil)
	if err != nil {
		return false, err.Error()
	}
	return resp.StatusCode == http.StatusOK, string(body)
}

// gather is gatherSenders at every server, and returns the customers of each, too.
func (c *nodes) gather(ctx context.Context, agent *desktest.Client, each, taken int) (customers [][]*sender, all []*sender) {
	c.t.Helper()
	for i := range c.all {
		web := c.at(i)
		c.t.Cleanup(web.CloseIdle)
		gathered := gatherSenders(ctx, c.t, web, agent, each, taken)
		all = append(all, gathered...)
		customers = append(customers, slices.DeleteFunc(slices.Clone(gathered), func(s *sender) bool { return s.client == agent }))
	}
	return customers, all
}

// shared moves a new desk to a database, and starts servers on it.
func shared(t *testing.T, n int, args ...string) (c *nodes, account []string) {
	t.Helper()
	url, data, account := moved(t)
	return startNodes(t, n, append([]string{"--store", url, "--files", filepath.Join(data, "files")}, args...)...), account
}

// moved moves a new desk to a database.
func moved(t *testing.T) (url, data string, account []string) {
	t.Helper()
	url = pgtest.Database(t, nil)
	data, account = movedTo(t, url)
	return url, data, account
}

// movedTo moves a new desk to an empty database.
func movedTo(t *testing.T, url string) (data string, account []string) {
	t.Helper()
	data, account = cmdtest.MadeDesk(t)
	if out, errs, code := cmdtest.Run(t, "desk", "migrate", "--data", data, "--to", url); code != 0 || !strings.Contains(out, "all check sums agree") {
		t.Fatalf("exit code %d, %q, %q", code, out, errs)
	}
	return data, account
}

// TestNodesAreOneDesk is an ordinary day with two servers: a customer at one, an agent at the other, a file, and a server that is stopped and comes back
// while they talk.
func TestNodesAreOneDesk(t *testing.T) {
	t.Parallel()
	ctx := testkit.Context(t)
	c, account := shared(t, 2)
	one, two := c.at(0), c.at(1)
	defer one.CloseIdle()
	defer two.CloseIdle()
	agent := two.Agent(account[1], account[2])
	defer agent.Close()
	if err := agent.Connected(ctx); err != nil {
		t.Fatal(err)
	}
	visitor := new(desktest.Visitor)
	customer := one.CustomerBy("demo", visitor)
	defer customer.Close()
	conv, err := customer.Open(ctx, "human")
	if err != nil {
		t.Fatal(err)
	}
	// The router is at the first server, and gives the chat to the agent at the second one.
	if _, err := agent.Event(ctx, conv, func(f desktest.Frame) bool { return f.T == "ev.state" }); err != nil {
		t.Fatal(err)
	}
	hears := func(who *desktest.Client, text string) {
		t.Helper()
		if _, err := who.Event(ctx, conv, func(f desktest.Frame) bool { return bodyOf(f) == text }); err != nil {
			t.Fatal(err)
		}
	}
	customer.Send(conv, "hello")
	hears(agent, "hello")
	agent.Send(conv, "good day")
	hears(customer, "good day")

	const content = "the text of a file"
	f, err := one.Upload(ctx, visitor.Token(), conv, "note.txt", strings.NewReader(content), int64(len(content)))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := customer.SendFiles(ctx, conv, "a file", f.ID); err != nil {
		t.Fatal(err)
	}
	hears(agent, "a file")
	links, err := agent.Links(ctx, f.ID)
	if err != nil {
		t.Fatal(err)
	}
	for i, web := range []*desktest.Web{one, two} {
		if resp, got, err := web.Get(ctx, links.Links[f.ID], nil); err != nil || resp.StatusCode != http.StatusOK || string(got) != content {
			t.Errorf("the file from server %d: %+v, %q, %v", i+1, resp, got, err)
		}
	}

	c.end(0).Stop() // the customer's server, which leads
	agent.Send(conv, "are you there?")
	c.start(0)
	hears(customer, "are you there?")
	customer.Send(conv, "I am")
	hears(agent, "I am")
	second := one.Customer("demo")
	defer second.Close()
	next, err := second.Open(ctx, "human")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := agent.Event(ctx, next, func(f desktest.Frame) bool { return f.T == "ev.state" }); err != nil {
		t.Fatal("the chat was not given to the agent by the server that is left:", err)
	}
	if err := agent.EndConv(ctx, conv, "done"); err != nil {
		t.Fatal(err)
	}
	if _, err := customer.Event(ctx, conv, func(f desktest.Frame) bool { return f.T == "ev.state" && strings.Contains(string(f.D), `"closed"`) }); err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		c.end(i).Stop()
	}
}

// TestNodesKilled runs three servers on one database and one bus, and kills one after the other with SIGKILL while customers and an agent send. Every
// other time the bus is gone, too. Each connection goes to any of the servers. In the end every message is stored once, as TestKillLosesNothing has it.
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
	between := bustest.Start(t, nil)
	c, account := shared(t, servers, "--bus", between.URL())
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
		if between.End(); round%2 == 0 {
			between.Begin()
		}
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

// TestNodesOnABus: over the bus a customer at one server and an agent at another one see each other type and read. Without it they talk, and
// when it comes back they see each other again.
func TestNodesOnABus(t *testing.T) {
	t.Parallel()
	ctx := testkit.Context(t)
	between := bustest.Start(t, nil)
	between.End() // the servers begin without it
	c, account := shared(t, 2, "--bus", between.URL())
	between.Begin()
	one, two := c.at(0), c.at(1)
	defer one.CloseIdle()
	defer two.CloseIdle()
	agent := two.Agent(account[1], account[2])
	defer agent.Close()
	customer := one.Customer("demo")
	defer customer.Close()
	if err := agent.Connected(ctx); err != nil {
		t.Fatal(err)
	}
	conv, err := customer.Open(ctx, "human")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := agent.Event(ctx, conv, func(f desktest.Frame) bool { return f.T == "ev.state" }); err != nil {
		t.Fatal(err)
	}
	sees := func(who *desktest.Client, from *desktest.Client, what string, do string, d any) {
		t.Helper()
		before := len(who.Others())
		testkit.Eventually(t, "to see "+what, func() bool { // what comes over the bus may be lost
			if err := from.Tell(ctx, do, conv, d); err != nil {
				t.Fatal(err)
			}
			return slices.ContainsFunc(who.Others()[before:], func(f desktest.Frame) bool { return f.T == what })
		})
	}
	for round := range 2 {
		text := fmt.Sprintf("round %d", round)
		testkit.Eventually(t, "both servers to be on the bus", func() bool { return between.Clients() == 2 })
		sees(agent, customer, "ev.typing", "typing", proto.Typing{On: true})
		sees(customer, agent, "ev.typing", "typing", proto.Typing{On: true})
		between.End()
		customer.Send(conv, text)
		if _, err := agent.Event(ctx, conv, func(f desktest.Frame) bool { return bodyOf(f) == text }); err != nil {
			t.Fatal(err)
		}
		between.Begin()
	}
	testkit.Eventually(t, "both servers to be on the bus", func() bool { return between.Clients() == 2 })
	sees(customer, agent, "ev.typing", "typing", proto.Typing{On: false})
	customer.Send(conv, "read this")
	f, err := agent.Event(ctx, conv, func(f desktest.Frame) bool { return bodyOf(f) == "read this" })
	if err != nil {
		t.Fatal(err)
	}
	sees(customer, agent, "ev.receipt", "receipt", proto.Receipt{Delivered: f.S, Read: f.S})

	type server struct {
		Name, Version, Bus string
		Agents, Customers  int
		Duties             []string
		Here               bool
	}
	var wall struct{ Servers []server }
	testkit.Eventually(t, "the wall to show both servers", func() bool {
		_, body, err := two.Get(ctx, "/api/v1/supervisor/wall", nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(body, &wall); err != nil {
			t.Fatalf("%v: %s", err, body)
		}
		duties, there := 0, 0
		for _, s := range wall.Servers {
			duties += len(s.Duties)
			if s.Duties == nil {
				t.Fatalf("a server has no list of duties, which the page counts on: %s", body)
			}
			if s.Bus == "up" && s.Name != "" && s.Version != "" && (s.Here && s.Agents == 1 && s.Customers == 0 || !s.Here && s.Agents == 0 && s.Customers == 1) {
				there++
			}
		}
		return len(wall.Servers) == 2 && there == 2 && duties == 3 // chats, webhooks, files
	})
	between.End()
	testkit.Eventually(t, "a server to say that the bus is away", func() bool {
		resp, body, err := one.Get(ctx, "/readyz", nil)
		return err == nil && resp.StatusCode == http.StatusOK && strings.Contains(string(body), "no connection to the bus")
	})
	for i := range 2 {
		c.end(i).Stop()
	}
}

// TestNodePaused stops a server with SIGSTOP while it has an agent. The other one says that the agent is gone, and goes on. When the first one goes on,
// its agent is back, and nothing is lost.
func TestNodePaused(t *testing.T) {
	if testing.Short() {
		t.Skip("it waits for 20 s until the other server takes over")
	}
	t.Parallel()
	ctx := testkit.Context(t)
	c, account := shared(t, 2)
	one, two := c.at(0), c.at(1)
	defer one.CloseIdle()
	defer two.CloseIdle()
	agent := one.Agent(account[1], account[2])
	defer agent.Close()
	if err := agent.Connected(ctx); err != nil {
		t.Fatal(err)
	}
	customer := two.Customer("demo")
	defer customer.Close()
	conv, err := customer.Open(ctx, "human")
	if err != nil {
		t.Fatal(err)
	}
	if err := agent.Take(ctx, conv); err != nil {
		t.Fatal(err)
	}
	if _, err := customer.Event(ctx, conv, func(f desktest.Frame) bool { return f.T == "ev.state" && strings.Contains(string(f.D), `"assigned"`) }); err != nil {
		t.Fatal(err)
	}
	c.all[0].Signal(pause)
	customer.Send(conv, "hello?")
	online := func(want string) {
		t.Helper()
		testkit.Eventually(t, "the customer to be told that the agent is online: "+want, func() bool {
			last := ""
			for _, f := range customer.Others() {
				if f.T == "ev.presence" {
					last = string(f.D)
				}
			}
			return strings.Contains(last, `"online":`+want)
		})
	}
	online("false")
	waiting := two.Customer("demo")
	defer waiting.Close()
	if _, err := waiting.Open(ctx, "human"); err != nil {
		t.Fatal(err)
	}
	if err := customer.Flushed(ctx); err != nil {
		t.Fatal(err)
	}
	c.all[0].Signal(resume)
	if _, err := agent.Event(ctx, conv, func(f desktest.Frame) bool { return bodyOf(f) == "hello?" }); err != nil {
		t.Fatal(err)
	}
	agent.Send(conv, "here I am again")
	if _, err := customer.Event(ctx, conv, func(f desktest.Frame) bool { return bodyOf(f) == "here I am again" }); err != nil {
		t.Fatal(err)
	}
	online("true")
	for i := range 2 {
		c.end(i).Stop()
	}
}
