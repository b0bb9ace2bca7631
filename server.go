package eddy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/internal/goid"
	"github.com/go-eddy/eddy/internal/meter"
	"github.com/go-eddy/eddy/internal/reactor"
	"github.com/go-eddy/eddy/internal/transport"
)

// Server accepts connections on one address and serves them on its loops. Fill the fields before Listen; only Init is
// required. A Server serves once.
type Server struct {
	// Init builds the pipeline of each accepted connection. Init runs on the connection's loop and must not block.
	// Connections whose Init adds the same handler values share everything but their state.
	Init func(p *Pipeline) error

	Group    *Group   // loops shared with other servers and dialers; nil = own loops, set up by the next four fields
	Boss     *Group   // group whose next loop gets the listener; nil = a loop of its own. Only with BossWorkers
	Topology Topology // where the listener lives

	Loops     int      // worker loops of its own; 0 = GOMAXPROCS
	Poller    string   // readiness backend; "" = $EDDY_POLLER, else the platform's best
	WaitMode  WaitMode // how the loops wait
	TaskQueue int      // bound of each loop's task queue; 0 = 65536

	MaxConns      int            // open connections; 0 = no limit
	Admission     Admission      // the other limits, and the fate of connections beyond them
	Placement     Placement      // chooses loops by the first bytes; zero = the Group's Chooser alone decides
	MemoryBudget  int            // bytes that all connections may hold together; 0 = a quarter of what the process may use, negative = no limit
	AcceptBatch   int            // accepts per readiness; 0 = 256
	Backlog       int            // kernel accept queue; 0 = the system's maximum
	Watermarks    Watermarks     // bounds of each outbound queue; 0 = 256 KiB, 1 MiB (at first a sixteenth of both), 8 MiB
	Overflow      OverflowPolicy // what happens beyond Watermarks.Max
	FlushTimeout  time.Duration  // time for the last bytes of a closing connection; 0 = 10 s
	LingerTimeout time.Duration  // time for the peer's end of stream after ours, while at most 2 MiB are dropped; 0 = 2 s
	CloseOnEOF    bool           // end the connection at the peer's end of stream, instead of answering earlier requests
	KeepCloses    int            // ended connections that RecentCloses reports, at most 65536; 0 = none
	Logger        *slog.Logger   // nil = slog.Default()

	// BaseContext is the ancestor of the contexts of all requests. They have its values, such as a logger or a database
	// handle, and end when it ends, at its deadline at the latest. The end of BaseContext closes no connection and does not
	// end the server. nil = context.Background().
	BaseContext context.Context

	// ConnContext makes the context that takes the place of BaseContext for one connection. It is given BaseContext and
	// returns that, or a context made of it, for instance with values. ConnContext is called once for each connection, on
	// its loop before Init, and must not block. If it panics or returns nil, the connection closes with
	// CloseInternalError. The end of its result ends the contexts of the connection's requests. nil = BaseContext for all.
	ConnContext func(ctx context.Context, c *Conn) context.Context

	// Socket options.
	KeepAlive              time.Duration // silence before the peer is probed, in whole seconds; 0 = 15 s, negative = never
	RecvBuffer, SendBuffer int           // bytes of the kernel's buffers; 0 leaves them to the system
	Unsent                 int           // kernel's bytes beyond those on their way to the peer; 0 = 256 KiB, negative = its whole buffer

	// Deadlines of each connection; 0 = none. Conn.SetDeadlines replaces them for one connection. A deadline is rounded
	// up to the next 10 ms and costs nothing per message. Before ReadTimeout, BodyTimeout, HandlerTimeout or
	// HandshakeTimeout closes a connection, its ErrorHandlers on the loop are given a *DeadlineError. The handlers'
	// output is sent before the close.
	IdleTimeout         time.Duration // nothing read or written, and no request in flight
	ReadTimeout         time.Duration // from the first byte of a header or frame until its last, however many bytes arrive
	BodyTimeout         time.Duration // the same for a body, see Conn.SetPhase. Paused reads stop both
	HandlerTimeout      time.Duration // from a request's dispatch to its end, on loop or pool; see Conn.Begin, Request, Context.Context
	WriteTimeout        time.Duration // bytes are queued and the peer takes none; acknowledged bytes extend it, see MinWriteRate
	BackpressureTimeout time.Duration // the same from Watermarks.High until the outbound queue has fallen to Low
	MinWriteRate        int           // rate that keeps a slow peer clear of these two, in bytes per second; 0 = 256, negative = any byte does
	HandshakeTimeout    time.Duration // from the open to Conn.HandshakeDone, which the protocol must call

	// Pools are ended with the server, after its loops. Shutdown gives them until its ctx ends, Close gives them
	// FlushTimeout. Work that a pool could not run by then is dropped.
	Pools []*executor.Pool

	mu       sync.Mutex             // held during Listen
	eng      atomic.Pointer[engine] // nil until Listen has succeeded
	endpoint endpoint
	platform *kernel // nil = the real one
}

// Listen binds the address, starts the loops and returns when the server serves. network is "tcp", "tcp4" or "tcp6". The
// error names the field, the address or the loop that failed; nothing is left running after an error.
func (s *Server) Listen(network, address string) error { return s.listen(network, address, nil) }

// listen is Listen, on a listener that exists already if on is not nil.
func (s *Server) listen(network, address string, on net.Listener) error {
	set, err := s.settings()
	if err != nil {
		return err
	}
	set.accept.Listen.On = on
	if on != nil && s.Topology == ListenerPerLoop {
		return errors.New("eddy: Server.Serve: ListenerPerLoop needs listeners of its own: call ListenAndServe")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.endpoint.phase.Load() != int32(serverRunning) {
		return ErrServerClosed
	}
	if s.eng.Load() != nil {
		return errors.New("eddy: Server.Listen was called before; a Server serves once")
	}
	s.endpoint.recent = meter.NewRecent[closedConn](s.KeepCloses)
	e, err := s.newEngine()
	if err != nil {
		return err
	}
	if err := e.open(set, s.Topology, network, address); err != nil {
		e.discard()
		return err
	}
	e.began = e.kernel.clock.Now()
	e.unfollow = s.endpoint.follow(set.base, e.workers)
	s.eng.Store(e)
	return nil
}

// running returns the engine after Listen, nil before. Because running never blocks, handlers may call it on a loop that
// a Listen waits for.
func (s *Server) running() *engine { return s.eng.Load() }

// listened is running for callers that may block: it waits for a Listen that is under way.
func (s *Server) listened() *engine {
	if e := s.running(); e != nil {
		return e
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.eng.Load()
}

// toEnd is listened for callers that end the server. If there is no engine yet, Listen fails from then on.
func (s *Server) toEnd() *engine {
	if e := s.running(); e != nil {
		return e
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.eng.Load()
	if e == nil {
		s.endpoint.phase.Store(int32(serverStopped))
	}
	return e
}

// ListenAndServe is Listen followed by Wait.
func (s *Server) ListenAndServe(network, address string) error {
	if err := s.Listen(network, address); err != nil {
		return err
	}
	return s.Wait()
}

// Serve is ListenAndServe on a listener that exists already: one of a service manager (net.FileListener), one with options of
// your own, or one in memory. ln belongs to the server, which closes it, also after an error. Backlog does not apply.
//
// A poller of the system takes a *net.TCPListener or *net.UnixListener, by its descriptor. Any other listener, whose Accept
// may do more, needs Poller "net".
func (s *Server) Serve(ln net.Listener) error {
	if ln == nil {
		return errors.New("eddy: Server.Serve: the listener is nil")
	}
	if err := s.listen(ln.Addr().Network(), ln.Addr().String(), ln); err != nil {
		_ = ln.Close() // the error that led here is the one to report
		return err
	}
	return s.Wait()
}

// Adopt serves a connection that was made elsewhere, as if the server had accepted it: every limit of Admission applies, and
// the connection may be refused after Adopt has returned. c belongs to the server, which closes it, also after an error.
// RecvBuffer, SendBuffer and Unsent do not apply. Which types are taken is as for Serve. Any goroutine, after Listen.
// Errors: ErrServerClosed, ErrSaturated, and one that names the type of c.
func (s *Server) Adopt(c net.Conn) error {
	e := s.running()
	if e == nil {
		_ = c.Close()
		return errors.New("eddy: Server.Adopt before Listen")
	}
	i := int(e.adopted.Add(1) % uint64(len(e.acceptors)))
	a, host, sock := e.acceptors[i], e.hosts[i], e.kernel.sockets() // the acceptor's own are its loop's
	fd, peer, err := sock.Take(c)
	if err != nil {
		_ = c.Close()
		return fmt.Errorf("eddy: adopting the connection from %v: %w", c.RemoteAddr(), err)
	}
	if err = host.Tasks.Push(task{kind: taskFunc, msg: func() { a.Adopt(fd, peer) }}); err != nil {
		_ = sock.Close(fd) // the peer is told, and nobody else waits
		if errors.Is(err, ErrClosed) {
			return ErrServerClosed
		}
	}
	return err
}

// Wait blocks until the server has stopped and returns ErrServerClosed.
func (s *Server) Wait() error {
	e := s.listened()
	if e == nil {
		return errors.New("eddy: Server.Wait before Listen")
	}
	e.kernel.wait(e.stopped, nil)
	return ErrServerClosed
}

// Addr returns the address the server listens on, with the port the system chose; nil before Listen.
func (s *Server) Addr() net.Addr {
	if e := s.running(); e != nil {
		return e.addr
	}
	return nil
}

// WriteTo submits msg to the connection named by id, through its outbound pipeline. Writing to a connection that has
// ended is a counted no-op. Any goroutine. Errors: ErrSaturated, ErrClosed after the server has stopped, and one for an
// id that is not of this server.
func (s *Server) WriteTo(id ConnID, msg any) error {
	e := s.running()
	if e == nil || int(id.loop) >= len(e.workers) {
		release(msg)
		return fmt.Errorf("eddy: connection %v is not of this server", id)
	}
	l := e.workers[id.loop]
	return given(msg, l.Tasks.Push(task{kind: taskFunc, msg: func() { l.writeTo(&s.endpoint, id, msg) }}))
}

func (l *loop) writeTo(owner *endpoint, id ConnID, msg any) {
	c := l.table.Lookup(transport.Token(id.slot, id.gen))
	if c == nil || c.set.owner != owner {
		l.Counters[meter.DeadWrites]++
		release(msg)
		return
	}
	l.RunTask(task{kind: taskWrite, conn: c, msg: msg})
}

// Shutdown ends the server in order. First the server accepts the connections that wait in the listener's queue, as far
// as the limits allow, and then no more. Then Shutdown tells the protocols, lets requests in flight finish, sends their
// responses, and closes each connection when it is idle. When ctx ends, Shutdown closes the remaining connections at once
// and returns ctx's error.
//
// Before Listen, Shutdown returns ErrServerClosed, and so does a later Listen. A second call, or one after Close, also
// returns ErrServerClosed.
//
// Any goroutine may call Shutdown except a loop and a worker of one of Pools, which would wait for themselves. There the
// call does nothing and returns ErrOnLoop or ErrOnPool. A handler that ends its server starts a goroutine for it.
func (s *Server) Shutdown(ctx context.Context) (DrainReport, error) {
	if s.onPool() {
		return DrainReport{}, ErrOnPool
	}
	e := s.toEnd()
	if e != nil && reactor.OnLoop() {
		return DrainReport{}, ErrOnLoop
	}
	if e == nil || !s.endpoint.enter(serverDraining, serverRunning) {
		return DrainReport{}, ErrServerClosed
	}
	before := s.endpoint.ended.Load()
	e.acceptLast()
	err := s.endpoint.drain(ctx, e.workers)
	s.end(ctx, e)
	return s.endpoint.report(before), err
}

// Close ends the server at once; every connection closes with CloseServerShutdown. Close waits until the server has
// stopped and returns nil, also after an earlier Close or Shutdown. Before Listen it returns nil at once, and a later
// Listen returns ErrServerClosed. Any goroutine but a loop and a worker of one of Pools, as for Shutdown.
func (s *Server) Close() error {
	if s.onPool() {
		return ErrOnPool
	}
	e := s.toEnd()
	if e == nil {
		return nil
	}
	if reactor.OnLoop() {
		return ErrOnLoop
	}
	if s.endpoint.enter(serverClosing, serverRunning, serverDraining) {
		e.stopAccepting()
		s.endpoint.force(e.workers, nil)
		ctx, cancel := context.WithTimeout(context.Background(), orDuration(s.FlushTimeout, defaultFlushTimeout))
		defer cancel()
		s.end(ctx, e)
	}
	e.kernel.wait(e.stopped, nil)
	return nil
}

// onPool reports whether the caller is a worker of one of the server's pools.
func (s *Server) onPool() bool {
	return slices.ContainsFunc(s.Pools, (*executor.Pool).OnWorker)
}

// end stops the loops and then the server's pools. Until ctx ends, the pools' workers run what they still have, the last
// closes included.
func (s *Server) end(ctx context.Context, e *engine) {
	e.endOnce.Do(func() {
		e.unfollow()
		e.stopLoops()
		for _, p := range s.Pools {
			_, _ = p.Shutdown(ctx) // work that is left is dropped
		}
		s.endpoint.phase.Store(int32(serverStopped))
		e.ended.Store(e.kernel.clock.Now())
		close(e.stopped)
	})
}

// goroutineID returns the number of the calling goroutine.
func goroutineID() uint64 { return goid.Current() }

// memoryBudget returns the server's limit, 0 for none.
func (s *Server) memoryBudget(k *kernel) int {
	if s.MemoryBudget == 0 && k.memory != nil {
		return k.memory()
	}
	return max(s.MemoryBudget, 0)
}
