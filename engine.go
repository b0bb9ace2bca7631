package eddy

import (
	"fmt"
	"net"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/go-eddy/eddy/internal/accept"
	"github.com/go-eddy/eddy/internal/backend"
	"github.com/go-eddy/eddy/internal/sys"
)

// Topology says where a server's listener lives (docs/loops.md).
type Topology uint8

const (
	// BossWorkers gives the listener a loop of its own, which hands the connections to the workers. A storm of accepts does
	// not delay the workers, and the Chooser decides which of them gets a connection. The default.
	BossWorkers Topology = iota
	// SingleReactor puts the listener on the one loop that serves all connections: for tests, tools and small servers.
	// A long handler delays accepting, too.
	SingleReactor
	// ListenerPerLoop gives every loop a listening socket of its own on the same address, with SO_REUSEPORT; the kernel
	// distributes. There is no hand-over and no Chooser, so connections that differ much make it uneven. Connections given to
	// a stalled loop wait for that loop. How the kernel distributes depends on the system (docs/tuning.md).
	ListenerPerLoop
	topologies
)

// engine is the running part of a server: the loops, its own or shared ones, and its acceptors.
type engine struct {
	owner     *endpoint
	group     *Group // of the workers
	bossGroup *Group // nil when the listeners live on workers
	ownGroup  bool
	ownBoss   bool
	workers   []*loop
	boss      *loop // nil when the listeners live on workers
	acceptors []*accept.Acceptor[task]
	hosts     []*loop       // of the acceptors
	adopted   atomic.Uint64 // connections
	kernel    *kernel
	addr      net.Addr
	began     int64        // monotonic ns of the kernel's clock
	ended     atomic.Int64 // 0 while it runs
	unfollow  func() bool  // stops waiting for the end of BaseContext
	endOnce   sync.Once
	stopped   chan struct{}
}

// newEngine starts the loops. If that fails, what was started is ended.
func (s *Server) newEngine() (*engine, error) {
	e := &engine{owner: &s.endpoint, group: s.Group, stopped: make(chan struct{})}
	if e.group == nil {
		e.group, e.ownGroup = s.privateGroup(), true
	}
	crew, err := e.group.start()
	if err != nil {
		return nil, err
	}
	e.workers, e.kernel = crew.loops, crew.kernel
	e.owner.join(e.workers, s.memoryBudget(e.kernel))
	if n := len(e.workers); s.Topology == SingleReactor && n != 1 {
		return nil, fmt.Errorf("eddy: Server.Group has %d loops: SingleReactor has one", n)
	}
	if s.Topology != BossWorkers {
		return e, nil
	}
	e.bossGroup = s.Boss
	if e.bossGroup == nil {
		e.bossGroup, e.ownBoss = crew.privateBoss(), true
	}
	bosses, err := e.bossGroup.start()
	if err != nil {
		e.endLoops()
		return nil, err
	}
	if a, b := crew.set.poller, bosses.set.poller; backend.Virtual(a) != backend.Virtual(b) {
		e.endLoops()
		return nil, fmt.Errorf("eddy: Server.Boss has poller %q and Server.Group %q: both must be net, or neither", bosses.name(), crew.name())
	}
	e.boss = bosses.nextBoss()
	return e, nil
}

// privateGroup makes the group of a server that shares none.
func (s *Server) privateGroup() *Group {
	loops := s.Loops
	if s.Topology == SingleReactor {
		loops = 1
	}
	return &Group{Loops: loops, Poller: s.Poller, WaitMode: s.WaitMode, TaskQueue: s.TaskQueue, Logger: s.Logger, platform: s.platform}
}

// privateBoss makes the boss of a server that shares none: one loop that waits as the workers do. The boss has the
// workers' kernel, because descriptors go from one to the other.
func (w *crew) privateBoss() *Group {
	g := &Group{Name: bossName, Loops: 1, Poller: w.set.poller, WaitMode: w.set.wait, TaskQueue: w.set.taskQueue, Logger: w.set.log, platform: w.kernel}
	w.set.tuneBoss(g)
	return g
}

// open binds the address and lets the loops accept.
func (e *engine) open(set *settings, topology Topology, network, address string) error {
	e.hosts = []*loop{e.boss}
	if topology != BossWorkers {
		e.hosts = e.workers
	}
	if topology == ListenerPerLoop && !sys.ReusePortBalances {
		set.log.Warn("eddy: ListenerPerLoop: this system gives all connections to one of the listeners", "addr", address)
	}
	var wakes []func()
	for _, l := range e.hosts {
		workers := e.workers
		if topology == ListenerPerLoop {
			workers = []*loop{l}
		}
		a := l.acceptor(set, workers)
		if err := a.Bind(network, address, topology == ListenerPerLoop); err != nil {
			return err
		}
		e.acceptors, wakes = append(e.acceptors, a), append(wakes, a.Wake)
		e.addr = a.Addr
		address = samePort(address, e.addr) // the others take the port that the system chose for the first
	}
	e.owner.tally.Wake = wakes
	for i, a := range e.acceptors {
		var err error = errGroupClosed
		e.hosts[i].do(func() { err = a.Register() })
		if err != nil {
			return err
		}
	}
	return nil
}

// samePort returns address with the port of a listener that is bound already.
func samePort(address string, bound net.Addr) string {
	t, ok := bound.(*net.TCPAddr)
	if !ok {
		return address
	}
	host, _, _ := net.SplitHostPort(address) // it was bound, so it is well formed
	return net.JoinHostPort(host, strconv.Itoa(t.Port))
}

// discard undoes an open that failed.
func (e *engine) discard() {
	e.stopAccepting()
	e.owner.force(e.workers, nil)
	e.stopLoops()
}

// acceptLast takes what waits in the kernel's queues and closes the listeners.
func (e *engine) acceptLast() {
	for i, a := range e.acceptors {
		for over := false; !over; {
			over = true // a loop that has ended accepts nothing
			e.hosts[i].do(func() { over = a.LastBatch() })
		}
	}
}

// stopAccepting closes the listeners at once, and the refused sockets that their loops still hold.
func (e *engine) stopAccepting() {
	for i, a := range e.acceptors {
		e.hosts[i].do(a.Leave)
	}
}

// stopLoops ends what belongs to the server, the workers before the boss, and waits for the end.
func (e *engine) stopLoops() {
	e.stopAccepting()
	if !e.ownGroup {
		e.owner.leave(e.workers)
	}
	e.endLoops()
	for _, a := range e.acceptors {
		a.Release()
	}
}

// endLoops ends the groups that nobody else uses.
func (e *engine) endLoops() {
	if e.ownGroup {
		_ = e.group.Close() // not called on a loop, the only error
	}
	if e.ownBoss {
		_ = e.bossGroup.Close()
	}
}
