package sim_test

import (
	"context"
	"flag"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"regexp"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/internal/simhook"
	"github.com/go-eddy/eddy/internal/sys/sim"
)

var (
	seedsFlag    = flag.Int("seeds", 0, "how many seeds TestSim runs; 0 = 120, or 1 with -seed")
	seedFlag     = flag.Uint64("seed", 0, "the first seed; 0 = 1")
	scenarioFlag = flag.String("scenario", "", "run only this scenario, with every seed")
	linesFlag    = flag.Int("lines", 40, "how many of the last happenings a failure shows")
	matchFlag    = flag.String("match", "", "of those only the ones that match this regular expression")
)

// A scenario sets up servers, peers and more, lets them run, and checks the outcome.
type scenario struct {
	name string
	run  func(*trial)
}

// scenarios get the seeds in turn.
var scenarios = []scenario{
	{"echo", echo},
	{"frames", frames},
	{"push", push},
	{"classes", classes},
	{"deadlines", deadlines},
	{"admission", admission},
	{"placed", placed},
	{"dial", dial},
	{"hops", hops},
	{"broadcast", broadcast},
	{"inner", inner},
	{"responses", responses},
	{"relay", func(t *trial) { relays(t, t.once(4)) }},
	{"relay bulk", func(t *trial) { relays(t, true) }},
	{"readers", readers},
	{"both ask", bothAsk},
	{"http1", http1Pipelines},
	{"http2", http2Streams},
	{"http2 drain", http2Drain},
}

const defaultSeeds = 120

// maxSteps is far more than any trial needs to end.
const maxSteps = 400_000

// TestSim runs whole servers on simulated machines.
func TestSim(t *testing.T) {
	first, n := max(*seedFlag, 1), *seedsFlag
	if n == 0 {
		n = defaultSeeds
		if *seedFlag != 0 {
			n = 1
		}
	}
	r := &runner{t: t}
	begin := time.Now()
	r.seeds(first, uint64(n))
	d := time.Since(begin)
	t.Logf("%d seeds, %d steps in %v: %.1f seeds/s", n, r.steps.Load(), d.Round(time.Millisecond), float64(n)/d.Seconds())
	t.Logf("%d splices, %d pipes closed with bytes", r.splices.Made, r.splices.Lost)
	if t.Failed() || *seedFlag != 0 || *scenarioFlag != "" {
		return
	}
	for _, f := range sim.Faults() {
		t.Logf("%8d × %v", r.counts[f], f)
		if r.counts[f] == 0 && n >= defaultSeeds {
			t.Errorf("no seed had this fault: %v", f)
		}
	}
	if n >= defaultSeeds && (r.splices.Made == 0 || r.splices.Lost == 0) {
		t.Error("no seed had such splices")
	}
}

// runner spreads seeds over the processors. Worlds share nothing.
type runner struct {
	t      *testing.T
	mu     sync.Mutex
	counts sim.Counts
	steps  atomic.Int64
	failed atomic.Int32
	next   atomic.Uint64

	splices sim.Splices
}

// enough reports whether enough failures have been seen to stop.
const enough = 3

func (r *runner) seeds(first, n uint64) {
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for i := r.next.Add(1) - 1; i < n && r.failed.Load() < enough; i = r.next.Add(1) - 1 {
				r.one(first + i)
			}
		})
	}
	wg.Wait()
}

func (r *runner) one(seed uint64) {
	sc := scenarios[seed%uint64(len(scenarios))]
	for _, s := range scenarios {
		if s.name == *scenarioFlag {
			sc = s
		}
	}
	tr := play(sc, seed)
	r.mu.Lock()
	r.counts.Add(tr.w.Counts())
	r.splices.Made += tr.w.Splices().Made
	r.splices.Lost += tr.w.Splices().Lost
	r.mu.Unlock()
	r.steps.Add(int64(tr.w.Steps()))
	if err := tr.w.Err(); err != nil {
		r.failed.Add(1)
		r.t.Errorf("seed %d, %s: %v\n%s\nreplay: go test ./internal/sys/sim -run 'TestSim$' -scenario %s -seed %d",
			seed, sc.name, err, tr.w.Trace(*linesFlag, regexp.MustCompile(*matchFlag)), sc.name, seed)
	}
}

// play runs one seed of a scenario.
func play(sc scenario, seed uint64) (tr *trial) {
	tr = &trial{w: sim.New(seed), peers: map[netip.AddrPort]*client{}}
	if *seedFlag != 0 {
		tr.w.Remember(*linesFlag)
	}
	defer func() {
		if v := recover(); v != nil {
			tr.w.Failf("panic: %v", v)
		}
	}()
	sc.run(tr)
	return tr
}

// TestSimReplays runs seeds twice: the second run does what the first did, to the last call.
func TestSimReplays(t *testing.T) {
	for i, sc := range scenarios {
		seed := uint64(i + 1)
		a, b := play(sc, seed).w, play(sc, seed).w
		if a.Digest() != b.Digest() || a.Steps() != b.Steps() {
			t.Errorf("%s, seed %d: %d steps with digest %x, then %d with %x", sc.name, seed, a.Steps(), a.Digest(), b.Steps(), b.Digest())
		}
		if c := play(sc, seed+1000).w; a.Digest() == c.Digest() {
			t.Errorf("%s: two seeds had the same run", sc.name)
		}
	}
}

// trial is one run of a scenario.
type trial struct {
	w       *sim.World
	peers   map[netip.AddrPort]*client // by address
	clients []*client
	lives   []*life
	allowed []eddy.CloseReason
	servers []*eddy.Server
	crowds  []*crowd
	reliefs []*relief

	promises promises
	waits    int // OnWritable calls that were not told

	panics   uint64        // of handlers
	queues   bool          // peers may wait in the kernel's queue until others end
	dialed   bool          // connections are not only accepted
	calmEnd  bool          // the peers came to rest before the end began
	endsFrom int64         // when the servers were told to end, 0 before
	groups   []*eddy.Group // to be closed at the end
	scripted netip.AddrPort

	enders []ender  // the servers, and dialers that end with them
	endure bool     // a drain may take for ever
	drains bool     // the servers drain in the middle of the trouble, with time for all of it
	whole  bool     // they have, and nothing was cut
	atRest []func() // what holds when all trouble is over and nothing moves any more
}

// ender is a server or a dialer.
type ender interface {
	Close() error
	Shutdown(ctx context.Context) (eddy.DrainReport, error)
}

// n returns a random number below max.
func (t *trial) n(max int) int { return t.w.Rand().IntN(max) }

// once returns true once in n times.
func (t *trial) once(n int) bool { return t.n(n) == 0 }

func pick[T any](t *trial, of ...T) T { return of[t.n(len(of))] }

func quiet() *slog.Logger {
	return slog.New(slog.NewTextHandler(io.Discard, &slog.HandlerOptions{Level: slog.LevelError + 4}))
}

// listen starts a server whose unset fields are chosen by the seed.
func (t *trial) listen(srv *eddy.Server) netip.AddrPort {
	srv.Logger = quiet()
	switch {
	case srv.Group != nil:
	case t.once(2): // a group whose strategy leaves others time between the last look at the queue and the sleep
		srv.Topology = pick(t, eddy.BossWorkers, eddy.SingleReactor, eddy.ListenerPerLoop)
		srv.Group = t.newGroup(1 + t.n(3))
		if srv.Topology == eddy.SingleReactor {
			srv.Group.Loops = 1
		}
		t.groups = append(t.groups, srv.Group)
	default:
		srv.Loops, srv.TaskQueue = 1+t.n(3), pick(t, 0, 500)
		if srv.Topology = pick(t, eddy.BossWorkers, eddy.BossWorkers, eddy.SingleReactor, eddy.ListenerPerLoop); srv.Topology == eddy.SingleReactor {
			srv.Loops = 1
		}
		simhook.Simulate(t.w.Host(), srv)
	}
	srv.AcceptBatch = pick(t, 0, 1, 3)
	init := srv.Init
	srv.Init = func(p *eddy.Pipeline) error {
		if err := init(p); err != nil {
			return err
		}
		return p.Add("life", &life{t: t, conn: p.Conn()})
	}
	host := pick(t, "127.0.0.1", "127.0.0.1", "0.0.0.0")
	for n := 0; ; n++ {
		err := srv.Listen("tcp", host+":0")
		if err == nil {
			break
		}
		if n == 20 || t.w.Err() != nil {
			t.w.Failf("listen: %v", err)
			panic("no server")
		}
	}
	t.servers, t.enders = append(t.servers, srv), append(t.enders, srv)
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), srv.Addr().(*net.TCPAddr).AddrPort().Port())
}

func (t *trial) newGroup(loops int) *eddy.Group {
	g := &eddy.Group{
		Loops: loops, Logger: quiet(), Chooser: pick(t, eddy.RoundRobin(), eddy.LeastConnections(), eddy.LeastTasks()),
		IORatio: pick(t, 0, 10, 100), TaskBudget: pick(t, 0, 7, 100), TaskQueue: pick(t, 0, 500), RebuildAfter: pick(t, 0, 3, -1), MaxEvents: pick(t, 0, 1, 5),
		Strategy: func(time.Duration, int) eddy.WaitDecision {
			t.w.Instant()
			if !t.w.IsCalm() && t.once(8) {
				return eddy.BusyWait
			}
			return eddy.Block
		},
	}
	simhook.Simulate(t.w.Host(), g)
	return g
}

// allow names reasons that connections of this trial may end with, besides those that follow from faults.
func (t *trial) allow(rs ...eddy.CloseReason) { t.allowed = append(t.allowed, rs...) }

// life is the last handler of every connection. It checks that each connection ends once, for a possible reason.
type life struct {
	t      *trial
	conn   *eddy.Conn
	id     eddy.ConnID
	opened int
	closed int
	dialed bool
	told   int64 // when it was told to end
	ended  int64
	heard  int   // DrainEvents
	taken  []int // ids of the requests that a handler has taken, in scenarios that say so
	moved  int64 // when the other side last took bytes of this one, or gave some
	full   bool  // somebody was told that it is not writable
	waits  int   // OnWritable calls that were not told
	reason eddy.CloseReason
	err    error
}

func (l *life) HandleOpen(*eddy.Context) error {
	if l.opened++; l.opened > 1 || l.closed > 0 {
		l.t.w.Failf("connection %v was opened %d times, closed %d times", l.conn.ID(), l.opened, l.closed)
	}
	l.id = l.conn.ID()
	l.t.lives = append(l.t.lives, l)
	return nil
}

func (l *life) HandleRead(ctx *eddy.Context, msg any) error {
	if l.closed > 0 {
		l.t.w.Failf("connection %v read a message after its end", l.conn.ID())
	}
	ctx.FireRead(msg)
	return nil
}

func (l *life) HandleClose(ctx *eddy.Context, reason eddy.CloseReason, err error) {
	l.reason, l.err, l.ended, l.full = reason, err, l.t.w.Now(), false
	if c := l.t.peers[l.conn.RemoteAddr()]; c != nil && c.p != nil {
		l.moved = l.ended - int64(c.p.Silence())
	}
	if l.closed++; l.closed > 1 {
		l.t.w.Failf("connection %v was closed %d times", l.conn.ID(), l.closed)
	}
	if e := l.conn.CloseError(); e == nil || e.Reason != reason {
		l.t.w.Failf("connection %v closed with %v, but says %v", l.conn.ID(), reason, e)
	}
	l.t.judge(l)
}

func (l *life) HandleEvent(ctx *eddy.Context, ev any) error {
	if ev == (eddy.DrainEvent{}) {
		if l.heard++; l.heard > 1 || l.closed > 0 {
			l.t.w.Failf("connection %v was told to end %d times, closed %d times", l.conn.ID(), l.heard, l.closed)
		}
	}
	ctx.FireEvent(ev)
	return nil
}

func (l *life) HandleWritability(_ *eddy.Context, writable bool) error {
	l.full = !writable
	return nil
}

// ask is a goroutine that wants to write. The event that it is told to wait for has to come.
func (l *life) ask() {
	if l.closed == 0 && !l.conn.Writable() {
		l.full = true
	}
	if !l.t.once(4) {
		return
	}
	l.waits++
	l.t.waits++
	told := false
	l.conn.OnWritable(func(err error) {
		if told || err == nil && l.closed > 0 {
			l.t.w.Failf("connection %v: told %v, twice or after its end", l.id, err)
		}
		told = true
		l.waits--
		l.t.waits--
		l.t.w.Progress()
	})
}

// forgotten fails the trial if a goroutine waits for a queue that is short.
func (l *life) forgotten() {
	if q := l.conn.QueuedBytes(); l.closed == 0 && q == 0 && (l.full || l.waits > 0) {
		l.t.w.Failf("connection %v has an empty queue; told false and not true: %v, %d calls wait", l.id, l.full, l.waits)
	}
}

// took returns how long an orderly end took.
func (l *life) took() time.Duration { return time.Duration(l.ended - l.told) }

// judge fails the trial when nothing that happened explains the reason.
func (t *trial) judge(l *life) {
	if slices.Contains(t.allowed, l.reason) {
		return
	}
	c := t.peers[l.conn.RemoteAddr()]
	ok := t.explained(l, c) || c != nil && c.other != nil && t.explained(l, c.other)
	if !ok {
		t.w.Failf("connection %v (%v) ended with %v, %v: nothing explains that", l.conn.ID(), l.conn.RemoteAddr(), l.reason, l.err)
	}
}

// explained reports whether what happened to a peer explains how the connection ended.
func (t *trial) explained(l *life, c *client) bool {
	counts := t.w.Counts()
	ok := c != nil && slices.Contains(c.closedFor, l.reason)
	switch l.reason {
	case eddy.CloseInternalError:
		ok = ok || counts[sim.AddFails]+counts[sim.ModifyFails]+counts[sim.WaitFails] > 0
	case eddy.CloseWriteTimeout: // of an orderly end
		ok = ok || counts[sim.TimeJump]+counts[sim.Stall] > 0 || c != nil && c.ending == vanish && c.over
	case eddy.CloseIOError:
		ok = ok || c == nil || c.p == nil || c.p.Harmed() || c.broke || c.left
	case eddy.ClosePeerClosed, eddy.CloseIncompleteRequest:
		ok = ok || c == nil || c.p == nil || c.p.Harmed() || c.ended || c.broke || c.left
	}
	return ok
}
