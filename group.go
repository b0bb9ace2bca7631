package eddy

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/go-eddy/eddy/buf"
)

// Group is a fixed set of loops. Servers and Dialers share one by naming it; each without one makes its own. Fill the
// fields before the first use; the zero Group is ready. The first Listen or Dial starts it, or Start; Close ends it,
// after the servers and dialers that use it.
type Group struct {
	Name      string       // of the loops: Name-0, Name-1, …; "" = "worker"
	Loops     int          // 0 = GOMAXPROCS
	Poller    string       // readiness backend; "" = $EDDY_POLLER, else the platform's best
	WaitMode  WaitMode     // how the loops wait
	TaskQueue int          // bound of each loop's task queue; 0 = 65536
	Chooser   Chooser      // which loop gets a new connection; nil = RoundRobin()
	Logger    *slog.Logger // nil = slog.Default()

	// LeakDetection watches the loops' segments and the buffers of Buffers for being dropped without their release
	// (docs/buffers.md); buf.LeakDefault = $EDDY_LEAKS, else off. OnLeak is told what Logger is; it must not block.
	LeakDetection buf.LeakLevel
	OnLeak        func(buf.Leak)

	mu       sync.Mutex
	crew     atomic.Pointer[crew] // nil until started
	closed   bool
	platform *kernel // nil = the real one
}

// crew is what a started Group consists of. Immutable.
type crew struct {
	set    *loopSettings
	kernel *kernel
	loops  []*loop
	turn   atomic.Uint32 // of the servers that take one loop as their boss
	leaks  *buf.Leaks    // nil when leak detection is off
	shared *buf.SharedPool
	logs   logSamplers
}

// loopSettings are a Group's fields after validation. Immutable, shared by its loops.
type loopSettings struct {
	name      string
	loops     int
	poller    string
	wait      WaitMode
	taskQueue int
	chooser   Chooser
	log       *slog.Logger
}

var errGroupClosed = errors.New("eddy: the Group is closed")

// Start builds the loops and starts them, unless that has happened before. If building one fails, those built are
// closed and the error names the loop. Any goroutine.
func (g *Group) Start() error {
	_, err := g.start()
	return err
}

func (g *Group) start() (*crew, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return nil, errGroupClosed
	}
	if w := g.crew.Load(); w != nil {
		return w, nil
	}
	w, err := g.build()
	if err != nil {
		return nil, err
	}
	for _, l := range w.loops {
		w.kernel.launch(l)
	}
	g.crew.Store(w)
	return w, nil
}

// build makes the loops without running them.
func (g *Group) build() (*crew, error) {
	w, err := g.prepare()
	if err != nil {
		return nil, err
	}
	for i := range w.set.loops {
		l, err := newLoop(w, i, w.loopName(i))
		if err != nil {
			for _, built := range w.loops {
				_ = built.poller.Close() // the error that led here is the one to report
			}
			return nil, err
		}
		w.loops = append(w.loops, l)
	}
	return w, nil
}

// prepare validates the fields.
func (g *Group) prepare() (*crew, error) {
	err := notNegative("Group", []field{{"Loops", int64(g.Loops)}, {"TaskQueue", int64(g.TaskQueue)}})
	if err != nil {
		return nil, err
	}
	set := &loopSettings{
		name:      orString(g.Name, "worker"),
		loops:     orInt(g.Loops, runtime.GOMAXPROCS(0)),
		poller:    orString(g.Poller, os.Getenv("EDDY_POLLER")),
		wait:      g.WaitMode,
		taskQueue: orInt(g.TaskQueue, DefaultTaskQueue),
		chooser:   g.Chooser,
		log:       orLogger(g.Logger),
	}
	if set.chooser == nil {
		set.chooser = RoundRobin()
	}
	k := g.platform
	if k == nil {
		k = realKernel(set.poller)
	}
	leaks, err := g.leaks(set.log)
	if err != nil {
		return nil, err
	}
	return &crew{set: set, kernel: k, leaks: leaks, shared: buf.NewSharedPool(retainedBuffers*set.loops, leaks)}, nil
}

// leaks makes the detector of the configured level, nil when that is off.
func (g *Group) leaks(log *slog.Logger) (*buf.Leaks, error) {
	level := g.LeakDetection
	if level == buf.LeakDefault {
		var err error
		if level, err = buf.ParseLeakLevel(os.Getenv("EDDY_LEAKS")); err != nil {
			return nil, fmt.Errorf("eddy: $EDDY_LEAKS: %w", err)
		}
	}
	leaks, err := buf.NewLeaks(level, log, g.OnLeak)
	if err != nil {
		return nil, fmt.Errorf("eddy: Group.LeakDetection: %w", err)
	}
	return leaks, nil
}

// Buffers returns the pool of counted buffers for messages that several connections share, nil before the start. Any
// goroutine.
func (g *Group) Buffers() *buf.SharedPool {
	w := g.crew.Load()
	if w == nil {
		return nil
	}
	return w.shared
}

// bossName is the name of a group that a server makes for its listener: its loop is called just that.
const bossName = "boss"

func (w *crew) loopName(i int) string {
	if w.set.name == bossName && w.set.loops == 1 {
		return bossName
	}
	return w.set.name + "-" + strconv.Itoa(i)
}

// nextBoss returns the loop that serves the next listener.
func (w *crew) nextBoss() *loop {
	return w.loops[int(w.turn.Add(1)-1)%len(w.loops)]
}

// onLoop reports whether the caller runs on one of the loops. It is slow and meant for calls that block anyway.
func (w *crew) onLoop() bool {
	id := goroutineID()
	for _, l := range w.loops {
		if l.goid.Load() == id {
			return true
		}
	}
	return false
}

// Stats returns the numbers of each loop, nil before the start. Any goroutine.
func (g *Group) Stats() []LoopStats {
	w := g.crew.Load()
	if w == nil {
		return nil
	}
	return w.stats()
}

func (w *crew) stats() []LoopStats {
	all := make([]LoopStats, len(w.loops))
	for i, l := range w.loops {
		all[i] = l.snapshot()
	}
	return all
}

// Close ends the loops and waits for them. What is still open on them closes with CloseServerShutdown, so close or
// shut down the servers and dialers first. It returns nil, also when the Group was closed before or never started.
// Any goroutine but one of the loops, where it returns ErrOnLoop.
func (g *Group) Close() error {
	g.mu.Lock()
	g.closed = true
	w := g.crew.Load()
	g.mu.Unlock()
	if w == nil {
		return nil
	}
	if w.onLoop() {
		return ErrOnLoop
	}
	for _, l := range w.loops {
		l.do(func() {
			l.closeAll(nil, CloseServerShutdown, nil)
			l.stopping = true
		})
	}
	for _, l := range w.loops {
		w.kernel.wait(l.done, nil)
	}
	return nil
}

// do runs f on the loop and waits for it, or for the end of the loop. Any goroutine but a loop.
func (l *loop) do(f func()) {
	ran := make(chan struct{})
	err := l.tasks.push(task{kind: taskFunc, msg: func() {
		defer close(ran)
		f()
	}}, true)
	if err != nil {
		return
	}
	l.kernel.wait(ran, l.done)
}
