package model

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/go-eddy/eddy/desk"
	"github.com/go-eddy/eddy/desk/desktest"
	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/internal/chaos"
)

var (
	modelSteps = flag.Int("model-steps", 100, "steps of each participant in TestModel")
	modelSeed  = flag.Uint64("model-seed", 0, "seed of TestModel, 0 = a new one")
)

const (
	customers = 6
	agents    = 3
	password  = "correct horse battery"
	patience  = 3 * time.Minute // only guards against a hang
)

// model is one run.
type model struct {
	t      *testing.T
	ctx    context.Context
	dir    string
	seed   uint64
	server *server
	proxy  *chaos.Proxy
	people []*person
	boss   *person
	hosted []hosted // guests whose visit is over

	mu       sync.Mutex
	convs    []string        // opened so far
	guests   map[string]bool // conversations of guests, which nobody else looks for
	agentIDs []string
	counts   map[string]int // of steps by what they were and how they ended
}

// person is one participant with its own sequence of random steps.
type person struct {
	m     *model
	name  string
	staff bool
	rng   *rand.Rand
	*desktest.Client
	web   *desktest.Web
	first []step            // that it has not taken yet
	set   map[string]*word  // what it has set
	sent  map[string]string // bodies by client id
	left  []string          // client ids of messages that were left
	kept  []string          // those of them that were acknowledged
}

// TestModel lets random people use a Desk whose network and process fail at random, and compares afterwards what each of them saw with what is
// stored: G1 to G5 of the protocol, the rules of the state machine, and the counters.
func TestModel(t *testing.T) {
	seed := *modelSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("-model-seed %d -model-steps %d", seed, *modelSteps)
	ctx, cancel := context.WithTimeout(t.Context(), patience+time.Duration(*modelSteps)*200*time.Millisecond)
	defer cancel()
	m := &model{t: t, ctx: ctx, dir: filepath.Join(t.TempDir(), "data"), seed: seed, counts: make(map[string]int), guests: make(map[string]bool)}
	m.prepare()
	m.run()
	m.settle()
	m.check()
	t.Logf("%d conversations; steps %v", len(m.convs), m.counts)
}

// prepare makes the accounts, the server, the proxy in front of it and the people.
func (m *model) prepare() {
	d, err := desk.Open(m.ctx, options(m.dir))
	if err != nil {
		m.t.Fatal(err)
	}
	for i := range agents {
		if err := d.AddAgent(m.ctx, fmt.Sprint("agent", i), fmt.Sprint("Agent ", i), password, 3); err != nil {
			m.t.Fatal(err)
		}
	}
	if err := d.Close(); err != nil {
		m.t.Fatal(err)
	}
	m.found()
	m.server = startServer(m.t, m.dir)
	if m.proxy, err = chaos.New(m.server.addr); err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(m.proxy.Close)
	base := func() string { return "http://" + m.proxy.Addr() }
	for i := range customers + agents {
		web := desktest.NewWeb(base)
		m.t.Cleanup(web.CloseIdle)
		p := &person{m: m, web: web, rng: rand.New(rand.NewPCG(m.seed, uint64(i))), staff: i >= customers, set: make(map[string]*word), sent: make(map[string]string)}
		if p.staff {
			p.name, p.first = fmt.Sprint("agent", i-customers), agentSteps()
			p.Client = web.Agent(p.name, password)
		} else {
			p.name, p.first = fmt.Sprint("customer", i), customerSteps()
			p.Client = web.Customer("demo")
		}
		p.rng.Shuffle(len(p.first), func(i, j int) { p.first[i], p.first[j] = p.first[j], p.first[i] })
		m.t.Cleanup(p.Close)
		m.people = append(m.people, p)
	}
	web := desktest.NewWeb(base)
	m.t.Cleanup(web.CloseIdle)
	m.boss = &person{m: m, web: web, name: boss, staff: true, Client: web.Agent(boss, password)}
	m.t.Cleanup(m.boss.Close)
	for _, p := range append(slices.Clone(m.people), m.boss) {
		m.ok(p.Connected(m.ctx))
	}
	for _, p := range m.people[customers:] {
		m.agentIDs = append(m.agentIDs, p.Me().ID)
	}
}

func (m *model) ok(err error) {
	m.t.Helper()
	if err != nil {
		m.t.Fatalf("%v (-model-seed %d)", err, m.seed)
	}
}

// run lets everybody take their steps, and the faults beside them.
func (m *model) run() {
	var all sync.WaitGroup
	for _, p := range m.people {
		all.Go(func() {
			for range *modelSteps {
				if m.ctx.Err() != nil {
					return
				}
				p.step()
			}
		})
	}
	all.Go(m.host)
	over := make(chan struct{})
	go func() { all.Wait(); close(over) }()
	rng := rand.New(rand.NewPCG(m.seed, 1000))
	for n := 0; ; n++ {
		pause := time.NewTimer(time.Duration(50+rng.IntN(300)) * time.Millisecond)
		select {
		case <-over:
			pause.Stop()
			return
		case <-pause.C:
			m.fault(rng, n)
		}
	}
}

// always are the faults that come first, so that a short run has them, too.
func always() []int { return []int{cut, kill, whole, restart, cutAfter, cut, whole} }

// Faults, and how often each comes: one with a number below it and not below the one before, of total.
const (
	cut      = 7
	stall    = 10
	cutAfter = 12
	shred    = 14
	kill     = 15
	restart  = 16
	whole    = 24
)

// fault does one thing that networks and machines do.
func (m *model) fault(rng *rand.Rand, number int) {
	n := rng.IntN(whole)
	if number < len(always()) {
		n = always()[number] - 1
	}
	what := ""
	switch {
	case n < cut:
		what = "cut"
		m.proxy.Cut()
	case n < stall:
		what = "stall"
		m.proxy.Stall(true)
		time.Sleep(time.Duration(rng.IntN(100)) * time.Millisecond)
		m.proxy.Stall(false)
	case n < cutAfter:
		what = "cut after"
		m.proxy.CutAfter(int64(1 + rng.IntN(100_000)))
		m.proxy.Cut()
	case n < shred:
		what = "shred"
		m.proxy.Shred(1 + rng.IntN(200))
	case n < kill:
		what = "kill"
		m.server.kill(m.t)
		m.restart()
	case n < restart:
		what = "restart"
		m.server.stop(m.t)
		m.restart()
	default:
		what = "whole"
		m.whole()
	}
	m.count("fault " + what)
}

func (m *model) restart() {
	m.server = startServer(m.t, m.dir)
	m.proxy.Redirect(m.server.addr)
	m.proxy.Cut()
}

// whole takes all faults of the network away.
func (m *model) whole() {
	m.proxy.Stall(false)
	m.proxy.CutAfter(0)
	m.proxy.Shred(0)
}

func (m *model) count(what string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.counts[what]++
}

// anyConv returns one of the conversations opened so far, sooner a late one, or "".
func (m *model) anyConv(rng *rand.Rand) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.convs) == 0 {
		return ""
	}
	if rng.IntN(4) > 0 {
		return m.convs[max(0, len(m.convs)-1-rng.IntN(customers))]
	}
	return m.convs[rng.IntN(len(m.convs))]
}

// leave leaves a message, often again as if the answer had been lost; it is stored once at most.
func (p *person) leave() {
	cmd := proto.Leave{ClientID: uuid.NewString(), Name: p.name, Email: p.name + "@example.com", Body: fmt.Sprintf("%s leaves %d", p.name, p.rng.Uint32())}
	p.left = append(p.left, cmd.ClientID)
	for range 1 + p.rng.IntN(2) {
		f, err := p.Do(p.m.ctx, "conv.leave", "", cmd)
		p.m.count("conv.leave: " + ended(f, err))
		if err == nil && f.T == "ok" {
			p.kept = append(p.kept, cmd.ClientID)
			p.m.opened(f.C)
		}
	}
}

// own is the conversation that a customer writes in: the newest it has seen.
func (p *person) own() string {
	w, _ := p.Welcome()
	conv := ""
	for _, h := range w.Heads {
		conv = max(conv, h.ID)
	}
	p.m.mu.Lock()
	defer p.m.mu.Unlock()
	for _, id := range p.m.convs {
		if id > conv && len(p.View(id)) > 0 {
			conv = id
		}
	}
	return conv
}

func (p *person) open() {
	wants := []string{"bot", "human"}[p.rng.IntN(2)]
	f, err := p.Do(p.m.ctx, "conv.open", "", proto.Open{Wants: wants})
	if err != nil || f.T != "ok" {
		p.m.count("conv.open: " + ended(f, err))
		return
	}
	p.m.count("conv.open: ok")
	p.m.opened(f.C)
}

// opened notes a conversation.
func (m *model) opened(conv string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !slices.Contains(m.convs, conv) {
		m.convs = append(m.convs, conv)
	}
}

// say puts a message into the outbox; the client sends it until it is acknowledged or refused.
func (p *person) say(conv, text string) {
	p.sent[p.Send(conv, text)] = text
	p.m.count("msg.send")
}

// settle ends the faults and waits until everybody has said what they had to say.
func (m *model) settle() {
	m.whole()
	m.proxy.Cut()
	for _, p := range m.people {
		if err := p.Flushed(m.ctx); err != nil {
			m.t.Fatalf("%s: %v (-model-seed %d)", p.name, err, m.seed)
		}
	}
}
