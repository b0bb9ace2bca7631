package eddy

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-eddy/eddy/internal/poll"
	"github.com/go-eddy/eddy/internal/sys"
)

// Server accepts connections on one address and serves them on its loops. Fill the fields before Listen; only Init is
// required. A Server serves once.
type Server struct {
	// Init builds the pipeline of each accepted connection. It runs on the connection's loop and must not block.
	// Connections whose Init adds the same handler values share everything but their state.
	Init func(p *Pipeline) error

	Loops         int            // worker loops; 0 = GOMAXPROCS
	Poller        string         // "epoll", "poll" or "kqueue"; "" = $EDDY_POLLER, else the platform's best
	WaitMode      WaitMode       // how loops wait
	MaxConns      int            // open connections; 0 = no limit; refused ones are closed at once
	AcceptBatch   int            // accepts per readiness; 0 = 256
	Backlog       int            // kernel accept queue; 0 = the system's maximum
	Watermarks    Watermarks     // bounds of each outbound queue; 0 = 256 KiB, 1 MiB, 8 MiB
	Overflow      OverflowPolicy // what happens beyond Watermarks.Max
	IdleTimeout   time.Duration  // close connections that neither read nor write for so long; 0 = never
	FlushTimeout  time.Duration  // for the last bytes of a closing connection; 0 = 10 s
	LingerTimeout time.Duration  // for the peer's end after ours; 0 = 2 s
	HalfClose     bool           // after the peer's end of stream, still answer what is in flight
	TaskQueue     int            // bound of each loop's task queue; 0 = 65536
	Logger        *slog.Logger   // nil = slog.Default()

	mu        sync.Mutex
	eng       *engine
	active    atomic.Int64
	released  chan struct{}
	hopPanics atomic.Uint64
	logs      logSamplers
	platform  *kernel // nil = the real one
}

// serverPhase is where a server stands (DESIGN section 4, drain).
type serverPhase int32

const (
	serverRunning serverPhase = iota
	serverDraining
	serverClosing
	serverStopped
)

// kernel is what a server takes from the system.
type kernel struct {
	sockets func() sys.Sockets
	clock   sys.Clock
	poller  func(name string, wait WaitMode) (sys.Poller, error)
}

func (s *Server) kernel() *kernel {
	if s.platform != nil {
		return s.platform
	}
	return &kernel{sockets: sys.NewSockets, clock: sys.NewClock(), poller: realPoller}
}

func realPoller(name string, wait WaitMode) (sys.Poller, error) {
	mode := poll.Parked
	if wait == WaitPinned {
		mode = poll.Pinned
	}
	return poll.New(name, mode)
}

// engine is the running part of a server: boss and workers.
type engine struct {
	boss     *loop
	workers  []*loop
	acceptor *acceptor
	phase    atomic.Int32
	forced   atomic.Int64 // connections that were cut, by Shutdown at its deadline or by Close
	dropped  atomic.Int64 // requests in flight on them
	stopOnce sync.Once
	stopped  chan struct{}
}

// Listen binds the address, starts the loops and returns when the server serves. network is "tcp", "tcp4" or "tcp6".
// The error names the field, the address or the loop that failed; nothing is left running then.
func (s *Server) Listen(network, address string) error {
	set, err := s.settings()
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.eng != nil {
		return errors.New("eddy: Server.Listen was called before; a Server serves once")
	}
	s.released = make(chan struct{}, 1)
	e, err := s.newEngine(set)
	if err != nil {
		return err
	}
	if err := e.acceptor.open(network, address); err != nil {
		e.discard()
		return err
	}
	for _, l := range e.workers {
		go l.run()
	}
	go e.boss.run()
	s.eng = e
	return nil
}

// newEngine builds boss and workers; if one fails, those built are closed.
func (s *Server) newEngine(set *settings) (*engine, error) {
	e := &engine{stopped: make(chan struct{})}
	for i := range set.loops {
		w, err := newLoop(s, set, i, "worker-"+strconv.Itoa(i))
		if err != nil {
			e.discard()
			return nil, err
		}
		e.workers = append(e.workers, w)
	}
	boss, err := newLoop(s, set, set.loops, "boss")
	if err != nil {
		e.discard()
		return nil, err
	}
	e.boss = boss
	e.acceptor = &acceptor{loop: boss, set: set, workers: e.workers}
	return e, nil
}

// discard gives back the pollers of loops that never ran.
func (e *engine) discard() {
	loops := e.workers
	if e.boss != nil {
		loops = append(loops, e.boss)
	}
	for _, l := range loops {
		_ = l.poller.Close() // the error that led here is the one to report
	}
}

func (e *engine) stopAccepting() { e.do(e.boss, e.acceptor.stop) }

// running returns the engine after Listen, nil before.
func (s *Server) running() *engine {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.eng
}

// ListenAndServe is Listen followed by Wait.
func (s *Server) ListenAndServe(network, address string) error {
	if err := s.Listen(network, address); err != nil {
		return err
	}
	return s.Wait()
}

// Wait blocks until the server has stopped and returns ErrServerClosed.
func (s *Server) Wait() error {
	e := s.running()
	if e == nil {
		return errors.New("eddy: Server.Wait before Listen")
	}
	<-e.stopped
	return ErrServerClosed
}

// Addr returns the address the server listens on, with the port the system chose; nil before Listen.
func (s *Server) Addr() net.Addr {
	if e := s.running(); e != nil {
		return e.acceptor.addr
	}
	return nil
}

// WriteTo submits msg to the connection that id names, through its outbound pipeline. Sending to a connection that has
// ended is a counted no-op. Any goroutine. Errors: ErrSaturated, ErrClosed after the server has stopped.
func (s *Server) WriteTo(id ConnID, msg any) error {
	e := s.running()
	if e == nil || int(id.loop) >= len(e.workers) {
		return fmt.Errorf("eddy: connection %v is not of this server", id)
	}
	l := e.workers[id.loop]
	return l.tasks.push(task{kind: taskFunc, msg: func() { l.writeTo(id, msg) }}, false)
}

func (l *loop) writeTo(id ConnID, msg any) {
	c := l.lookup(uint64(id.gen)<<32 | uint64(id.slot))
	if c == nil {
		l.counters[countDeadWrites]++
		return
	}
	l.runTask(task{kind: taskWrite, conn: c, msg: msg})
}

// onLoop reports whether the caller runs on one of the loops. It is slow and meant for calls that block anyway.
func (e *engine) onLoop() bool {
	id := goroutineID()
	for _, l := range e.workers {
		if l.goid.Load() == id {
			return true
		}
	}
	return e.boss.goid.Load() == id
}

// goroutineID reads the number of the calling goroutine from its stack header.
func goroutineID() uint64 {
	var b [64]byte
	header := string(b[:runtime.Stack(b[:], false)])
	field, _, _ := strings.Cut(strings.TrimPrefix(header, "goroutine "), " ")
	id, _ := strconv.ParseUint(field, 10, 64)
	return id
}

func typeName(v any) string { return fmt.Sprintf("%T", v) }
