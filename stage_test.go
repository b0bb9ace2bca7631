package eddy

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-eddy/eddy/internal/sys"
)

// stage is a kernel for tests that step loops by hand: time stands still, and nothing happens but what the test says. It
// belongs to one goroutine.
type stage struct {
	t       testing.TB
	srv     *Server
	set     *settings
	crew    *crew
	loops   []*loop
	now     atomic.Int64
	lastFD  int
	socks   map[int]*actor
	trace   []string         // what the loops and the test noted, in order
	pending int              // connections in the listener's queue
	accepts int              // calls of Accept
	peers   []netip.AddrPort // of the next ones in the listener's queue; then nobody's

	pipes     map[int][]byte // what is in the open ones
	pipeErr   error          // of opening one
	spliceErr error          // of splices into one

	perWait    time.Duration // passes in each Wait
	perRead    time.Duration // and in each Read
	nextPoller *stagePoller
	openErr    error           // of opening a poller
	addErrs    map[int]error   // of adding descriptors
	modifyErr  error           // of changing any
	waitErr    error           // of the Waits of every poller
	pauses     []time.Duration // of loops without a poller, which they take
}

// actor is the kernel's side of one descriptor.
type actor struct {
	fd       int
	conn     *Conn
	in       [][]byte // one read each
	endless  bool     // a read fills what it is given
	eof      bool
	readErr  error // of reads when in is empty
	writeErr error // of writes
	room     int   // bytes that writes still take
	unacked  *int  // bytes that the peer has not acknowledged; nil = the system does not tell
	asked    int   // times that it was asked for them
	out      []byte
	reads    int
	writes   []int // buffers of each write call
	first    []*byte
	shutdown bool
	aborted  bool
	closed   int
}

// newStage makes a loop with its own poller that no goroutine runs.
func newStage(t testing.TB, srv *Server) (*stage, *loop) {
	t.Helper()
	st := &stage{t: t, srv: srv, lastFD: 100, socks: map[int]*actor{}, pipes: map[int][]byte{}}
	st.now.Store(int64(time.Hour))
	srv.platform = &kernel{
		sockets: func() sys.Sockets { return stageSockets{st} },
		clock:   st,
		pause: func(d time.Duration, _ <-chan struct{}) {
			st.pauses = append(st.pauses, d)
			st.now.Add(int64(d))
		},
		poller: func(string, WaitMode) (sys.Poller, error) {
			if st.openErr != nil {
				return nil, st.openErr
			}
			st.nextPoller = &stagePoller{st: st, regs: map[int]*stageReg{}}
			return st.nextPoller, nil
		},
	}
	set, err := srv.settings()
	if err != nil {
		t.Fatal(err)
	}
	st.set = set
	g := srv.Group
	if g == nil {
		g = srv.privateGroup()
	}
	g.platform = srv.platform
	if st.crew, err = g.prepare(); err != nil {
		t.Fatal(err)
	}
	return st, st.loop("worker-0")
}

func (st *stage) loop(name string) *loop {
	st.t.Helper()
	l, err := newLoop(st.crew, len(st.loops), name)
	if err != nil {
		st.t.Fatal(err)
	}
	st.loops = append(st.loops, l)
	st.srv.endpoint.join(st.loops, st.srv.MemoryBudget)
	return l
}

func (st *stage) note(format string, args ...any) {
	st.trace = append(st.trace, fmt.Sprintf(format, args...))
}

// noted returns the notes since the last call that begin with one of the words.
func (st *stage) noted(words ...string) []string {
	var some []string
	for _, n := range st.trace {
		if slices.ContainsFunc(words, func(w string) bool { return strings.HasPrefix(n, w) }) {
			some = append(some, n)
		}
	}
	st.trace = nil
	return some
}

// listen makes l accept for the workers.
func (st *stage) listen(l *loop, workers ...*loop) {
	st.t.Helper()
	a := l.acceptor(st.set, workers)
	st.set.accept.Tally.Wake = append(st.set.accept.Tally.Wake, a.Wake)
	if err := a.Bind("tcp", "any", false); err != nil {
		st.t.Fatal(err)
	}
	if err := a.Register(); err != nil {
		st.t.Fatal(err)
	}
}

// connect gives l a connection whose socket takes everything that is written, and lets it turn once.
func (st *stage) connect(l *loop) *actor {
	st.t.Helper()
	a := st.place(l)
	l.Iterate()
	return a
}

func (st *stage) place(l *loop) *actor {
	st.t.Helper()
	st.lastFD++
	a := &actor{fd: st.lastFD, room: 1 << 40}
	st.socks[a.fd] = a
	a.conn = &Conn{set: st.set, fd: a.fd}
	st.srv.endpoint.tally.Active.Add(1)
	if !l.take(a.conn, nil) {
		st.t.Fatal("the loop does not take the connection")
	}
	return a
}

func (a *actor) send(s string) { a.in = append(a.in, []byte(s)) }

func (a *actor) readable() bool { return len(a.in) > 0 || a.endless || a.eof || a.readErr != nil }

// Now and Wall make the stage a sys.Clock.
func (st *stage) Now() int64      { return st.now.Load() }
func (st *stage) Wall() time.Time { return time.Unix(0, st.now.Load()) }

// stagePoller is a level-triggered poller that never waits.
type stagePoller struct {
	st       *stage
	regs     map[int]*stageReg
	timeouts []time.Duration // of each Wait
	err      error           // of the next Waits
	wakes    atomic.Int64    // also by pools
	onWait   func()
	closed   int
}

type stageReg struct {
	in    sys.Interest
	token uint64
}

const stageListener = 7

var errNotRegistered = errors.New("stage: the descriptor is not registered")

func (p *stagePoller) Add(fd int, in sys.Interest, token uint64) error {
	if err := p.st.addErrs[fd]; err != nil {
		return err
	}
	p.st.note("add %d %d", fd, in)
	p.regs[fd] = &stageReg{in, token}
	return nil
}

func (p *stagePoller) Modify(fd int, in sys.Interest, token uint64) error {
	if p.st.modifyErr != nil {
		return p.st.modifyErr
	}
	p.st.note("modify %d %d", fd, in)
	if p.regs[fd] == nil {
		return errNotRegistered
	}
	*p.regs[fd] = stageReg{in, token}
	return nil
}

func (p *stagePoller) Remove(fd int) error {
	p.st.note("remove %d", fd)
	delete(p.regs, fd)
	return nil
}

func (p *stagePoller) Wait(events []sys.Event, timeout time.Duration) (int, error) {
	p.st.note("wait")
	p.timeouts = append(p.timeouts, timeout)
	p.st.now.Add(int64(p.st.perWait))
	if p.onWait != nil {
		p.onWait()
	}
	if err := cmp.Or(p.err, p.st.waitErr); err != nil {
		return 0, err
	}
	fds := make([]int, 0, len(p.regs))
	for fd := range p.regs {
		fds = append(fds, fd)
	}
	slices.Sort(fds)
	n := 0
	for _, fd := range fds {
		if ready := p.ready(fd); ready != 0 && n < len(events) {
			events[n] = sys.Event{Token: p.regs[fd].token, Ready: ready}
			n++
		}
	}
	return n, nil
}

func (p *stagePoller) ready(fd int) (r sys.Ready) {
	reg, a := p.regs[fd], p.st.socks[fd]
	if fd == stageListener {
		if p.st.pending > 0 && reg.in&sys.Read != 0 {
			return sys.Readable
		}
		return 0
	}
	if reg.in&sys.Read != 0 && a.readable() {
		r |= sys.Readable
	}
	if reg.in&sys.Write != 0 && a.room > 0 {
		r |= sys.Writable
	}
	return r
}

func (p *stagePoller) Wake() error  { p.wakes.Add(1); return nil }
func (p *stagePoller) Close() error { p.closed++; return nil }
func (p *stagePoller) Name() string { return "stage" }

type stageSockets struct{ st *stage }

func (s stageSockets) Listen(string, string, sys.ListenOptions) (sys.Listener, error) {
	return sys.Listener{FD: stageListener, Addr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1}}, nil
}

func (s stageSockets) Accept(int) (int, netip.AddrPort, error) {
	s.st.accepts++
	if s.st.pending == 0 {
		return -1, netip.AddrPort{}, sys.ErrAgain
	}
	s.st.pending--
	s.st.lastFD++
	s.st.socks[s.st.lastFD] = &actor{fd: s.st.lastFD, room: 1 << 40}
	s.st.note("accept %d", s.st.lastFD)
	var peer netip.AddrPort
	if len(s.st.peers) > 0 {
		peer, s.st.peers = s.st.peers[0], s.st.peers[1:]
	}
	return s.st.lastFD, peer, nil
}

func (s stageSockets) Take(net.Conn) (int, netip.AddrPort, error) {
	return -1, netip.AddrPort{}, errors.ErrUnsupported
}

func (s stageSockets) Connect(string, net.Addr, sys.ConnectOptions) (int, bool, error) {
	s.st.lastFD++
	s.st.socks[s.st.lastFD] = &actor{fd: s.st.lastFD, room: 1 << 40}
	s.st.note("connect %d", s.st.lastFD)
	return s.st.lastFD, false, nil
}

func (s stageSockets) AcceptLast(fd int) (int, netip.AddrPort, error) { return s.Accept(fd) }

func (s stageSockets) Unacked(fd int) (int, error) {
	a := s.st.socks[fd]
	if a.unacked != nil {
		a.asked++
		return *a.unacked, nil
	}
	return 0, errors.ErrUnsupported
}

func (s stageSockets) ConnectError(int) error { return nil }

func (s stageSockets) LocalAddr(int) (netip.AddrPort, error) { return netip.AddrPort{}, nil }
func (s stageSockets) SetKeepAlive(int, time.Duration) error { return nil }

func (s stageSockets) OpenReserve() (int, error) { return -1, sys.ErrAgain }
func (s stageSockets) Left(int) int              { return math.MaxInt }

func (s stageSockets) Peek(fd int, p []byte) (int, error) {
	switch a := s.st.socks[fd]; {
	case len(a.in) > 0:
		return copy(p, bytes.Join(a.in, nil)), nil
	case a.readErr != nil:
		return 0, a.readErr
	case a.eof:
		return 0, nil
	}
	return 0, sys.ErrAgain
}

func (s stageSockets) Read(fd int, p []byte) (int, error) {
	s.st.note("read %d", fd)
	a := s.st.socks[fd]
	a.reads++
	s.st.now.Add(int64(s.st.perRead))
	switch {
	case a.endless:
		return len(p), nil
	case len(a.in) > 0:
		n := copy(p, a.in[0])
		if a.in[0] = a.in[0][n:]; len(a.in[0]) == 0 {
			a.in = a.in[1:]
		}
		return n, nil
	case a.readErr != nil:
		return 0, a.readErr
	case a.eof:
		return 0, nil
	}
	return 0, sys.ErrAgain
}

func (s stageSockets) Write(fd int, p []byte) (int, error) { return s.Writev(fd, [][]byte{p}) }

func (s stageSockets) Writev(fd int, bufs [][]byte) (int, error) {
	s.st.note("write %d", fd)
	a := s.st.socks[fd]
	if a.writeErr != nil {
		return 0, a.writeErr
	}
	a.writes = append(a.writes, len(bufs))
	total, all := 0, 0
	for _, b := range bufs {
		if len(b) > 0 {
			a.first = append(a.first, &b[0])
		}
		n := min(len(b), a.room)
		a.out = append(a.out, b[:n]...)
		a.room -= n
		total += n
		all += len(b)
	}
	if total == 0 && all > 0 {
		return 0, sys.ErrAgain
	}
	return total, nil
}

func (s stageSockets) SendFile(fd int, f *os.File, offset int64, n int) (int, error) {
	b := make([]byte, n)
	n, err := f.ReadAt(b, offset)
	if n == 0 {
		if err == io.EOF {
			err = nil
		}
		return 0, err
	}
	return s.Write(fd, b[:n])
}

func (s stageSockets) OpenPipe(size int) (sys.Pipe, error) {
	if s.st.pipeErr != nil {
		return sys.Pipe{}, s.st.pipeErr
	}
	s.st.lastFD += 2
	s.st.pipes[s.st.lastFD] = nil
	return sys.Pipe{In: s.st.lastFD, Out: s.st.lastFD - 1, Size: size}, nil
}

func (s stageSockets) SpliceIn(fd int, p sys.Pipe, n int) (int, error) {
	if in, open := s.st.pipes[p.In]; !open || len(in) > 0 {
		s.st.t.Errorf("splice into a pipe with %d bytes, open %v", len(in), open)
	}
	if s.st.spliceErr != nil {
		return 0, s.st.spliceErr
	}
	b := make([]byte, n)
	n, err := s.Read(fd, b)
	s.st.pipes[p.In] = b[:max(n, 0)]
	return n, err
}

func (s stageSockets) SpliceOut(fd int, p sys.Pipe, n int) (int, error) {
	in := s.st.pipes[p.In]
	n, err := s.Write(fd, in[:min(n, len(in))])
	s.st.pipes[p.In] = in[n:]
	return n, err
}

func (s stageSockets) ClosePipe(p sys.Pipe) error {
	if _, open := s.st.pipes[p.In]; !open {
		s.st.t.Error("a pipe was closed twice")
	}
	delete(s.st.pipes, p.In)
	return nil
}

func (s stageSockets) Abort(fd int) error         { s.st.socks[fd].aborted = true; return nil }
func (s stageSockets) ShutdownWrite(fd int) error { s.st.socks[fd].shutdown = true; return nil }

func (s stageSockets) Close(fd int) error {
	s.st.note("close %d", fd)
	if a := s.st.socks[fd]; a != nil {
		a.closed++
	}
	return nil
}
