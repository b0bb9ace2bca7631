package accept

import (
	"bytes"
	"cmp"
	"log/slog"
	"maps"
	"math"
	"net"
	"net/netip"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-eddy/eddy/internal/reactor"
	"github.com/go-eddy/eddy/internal/sample"
	"github.com/go-eddy/eddy/internal/sys"
)

// rig is an acceptor on a loop that tests step by hand, with the kernel and the server that it needs. Time stands still but
// for what the test says.
type rig struct {
	Acceptor[func()]
	t       testing.TB
	gate    *Gate
	tally   Tally
	pressed atomic.Bool
	lost    []error  // what Host.Lost was told
	asked   []string // what Host.Place was shown
	now     int64
	log     bytes.Buffer

	// As the kernel.
	pending   int              // connections in the listener's queue
	peers     []netip.AddrPort // of the next ones; then nobody's
	left      int              // descriptors that may still be opened
	accepts   int              // calls of Accept
	acceptErr error            // of Accept
	scarce    bool             // the reserve holds the last descriptor, and Accept fails only as long as it does
	opts      sys.ListenOptions
	bound     net.Addr // nil = an address of this machine
	brings    string   // what new sockets have sent already
	breaks    error    // what a look at new sockets finds
	lastFD    int
	socks     map[int]*socket
	poller    *fakePoller

	// As the server.
	conns     []*socket // open connections, in the order of their coming
	perLoop   int       // how many its one loop takes; 0 = no limit
	saturated bool      // its loop takes none
}

// socket is the kernel's side of one descriptor.
type socket struct {
	fd       int
	peer     netip.AddrPort
	local    *netip.AddrPort
	tenant   string
	loop     int    // that took it
	in       []byte // for one read
	failure  error  // of a peek
	peeks    int
	endless  bool // there is always something to read
	eof      bool
	reads    int
	out      []byte
	shutdown bool
	closed   int
}

const listenerFD = 7

// newRig makes an acceptor that has begun. Zero fields of gate and settings are what a Server has by default, without spare
// descriptors.
func newRig(t testing.TB, g *Gate, set Settings) *rig {
	t.Helper()
	r := &rig{t: t, gate: g, now: int64(time.Hour), left: math.MaxInt, lastFD: 100, socks: map[int]*socket{}}
	r.socks[listenerFD] = &socket{fd: listenerFD}
	r.tally.Idle = make(chan struct{}, 1)
	g.OnLimit = cmp.Or(g.OnLimit, DecisionReject)
	g.IPv4Prefix, g.IPv6Prefix = cmp.Or(g.IPv4Prefix, 32), cmp.Or(g.IPv6Prefix, 64)
	set.Gate, set.Tally = g, &r.tally
	set.Batch, set.Linger = cmp.Or(set.Batch, 256), cmp.Or(set.Linger, time.Second)
	r.Acceptor = Acceptor[func()]{Loop: new(reactor.Loop[func()]), Sock: sockets{rig: r}, Set: &set, Host: Host{
		Take: r.take, Room: r.room, Refused: func(*Refusal) {}, Ask: ask, Post: func(f func()) { _ = r.Loop.Tasks.PushControl(f) },
		Lost:    func(_ Socket, err error) { r.lost = append(r.lost, err) },
		Pressed: &r.pressed, Scratch: make([]byte, 100), Failures: new(sample.Lines), Refusals: new(sample.Lines),
	}}
	r.tally.Wake = []func(){r.Wake}
	k := &reactor.Kernel{Clock: clock{r}, Open: func() (sys.Poller, error) {
		r.poller = &fakePoller{rig: r, regs: map[int]*registration{}}
		return r.poller, nil
	}}
	loop := &reactor.Settings{TaskQueue: 1 << 16, MaxEvents: 4096, IORatio: 50, TaskBudget: 1024, MinTasks: 64}
	if err := r.Loop.Init(resident{rig: r}, "boss", loop, k, slog.New(slog.NewTextHandler(&r.log, nil)), new(sample.Lines)); err != nil {
		t.Fatal(err)
	}
	return r
}

// begin lets the acceptor listen.
func (r *rig) begin() *rig {
	r.t.Helper()
	if err := r.Bind("tcp", "any", false); err != nil {
		r.t.Fatal(err)
	}
	if err := r.Register(); err != nil {
		r.t.Fatal(err)
	}
	return r
}

// ask calls a function of the application, as a server does.
func ask(_ string, f func()) (ok bool) {
	defer func() { ok = recover() == nil }()
	f()
	return true
}

func (r *rig) take(got Socket, loop int) bool {
	if r.saturated || !r.room(0) {
		return false
	}
	s := r.socks[got.FD]
	s.peer, s.local, s.tenant, s.loop = got.Peer, got.Local, got.Tenant, loop
	r.conns = append(r.conns, s)
	return true
}

func (r *rig) room(waiting int) bool { return r.perLoop == 0 || len(r.conns)+waiting < r.perLoop }

// end ends the oldest connection.
func (r *rig) end() {
	s := r.conns[0]
	r.conns = r.conns[1:]
	s.closed++
	r.gate.Leave(s.peer, s.tenant)
	r.tally.Release()
}

// turn runs the loop until nothing is left to do.
func (r *rig) turn() {
	for range 3 {
		r.Loop.Iterate()
	}
}

// pass lets time go by.
func (r *rig) pass(d time.Duration) {
	r.now += int64(d)
	r.turn()
}

// arrive lets peers connect and returns what became of their sockets: o for open, x for closed.
func (r *rig) arrive(peers ...string) string {
	r.t.Helper()
	for _, p := range peers {
		r.peers = append(r.peers, netip.AddrPortFrom(netip.MustParseAddr(p), 999))
	}
	return r.come(len(peers))
}

// come lets n peers connect, as arrive does.
func (r *rig) come(n int) (open string) {
	from := r.lastFD
	r.pending += n
	r.turn()
	for fd := from + 1; fd <= r.lastFD; fd++ {
		if r.socks[fd].closed > 0 {
			open += "x"
		} else {
			open += "o"
		}
	}
	return open
}

func (r *rig) expect(what, got, want string) {
	r.t.Helper()
	if got != want {
		r.t.Errorf("%s: %s, want %s (o open, x closed)", what, got, want)
	}
}

func (r *rig) expectRefused(want map[Cause]uint64) {
	r.t.Helper()
	if got := r.tally.Refused(); !maps.Equal(got, want) {
		r.t.Errorf("refused %v, want %v", got, want)
	}
}

func (r *rig) listening() bool {
	reg := r.poller.regs[listenerFD]
	return reg != nil && reg.in == sys.Read
}

// newest returns the socket that came last.
func (r *rig) newest() *socket { return r.socks[r.lastFD] }

type clock struct{ *rig }

func (c clock) Now() int64      { return c.now }
func (c clock) Wall() time.Time { return time.Unix(0, c.now) }

// resident is what the loop calls in an iteration.
type resident struct {
	reactor.Resident[func()]
	*rig
}

func (resident) Begin() bool             { return false }
func (resident) RunTask(f func())        { f() }
func (r resident) Finish()               { r.Loop.RunTimers(1024) }
func (resident) FinishCloses()           {}
func (resident) Waiting() bool           { return false }
func (resident) Deadline() (int64, bool) { return 0, false }
func (resident) Publish()                {}
func (resident) Last() bool              { return false }

func (resident) Call(_ reactor.Owner, f func()) { f() }

func (r resident) Events(events []sys.Event) int {
	for _, ev := range events {
		r.Loop.Ready(ev)
	}
	return 0
}

// fakePoller is level-triggered and never waits.
type fakePoller struct {
	sys.Poller
	rig       *rig
	regs      map[int]*registration
	modifyErr error
	addErr    error
}

type registration struct {
	in    sys.Interest
	token uint64
}

func (p *fakePoller) Add(fd int, in sys.Interest, token uint64) error {
	if p.addErr != nil {
		return p.addErr
	}
	p.regs[fd] = &registration{in, token}
	return nil
}

func (p *fakePoller) Modify(fd int, in sys.Interest, token uint64) error {
	if p.modifyErr == nil {
		*p.regs[fd] = registration{in, token}
	}
	return p.modifyErr
}

func (p *fakePoller) Remove(fd int) error { delete(p.regs, fd); return nil }
func (p *fakePoller) Wake() error         { return nil }
func (p *fakePoller) Close() error        { return nil }

func (p *fakePoller) Wait(events []sys.Event, _ time.Duration) (n int, err error) {
	for _, fd := range slices.Sorted(maps.Keys(p.regs)) {
		s := p.rig.socks[fd]
		ready := s.endless || s.eof || len(s.in) > 0 || s.failure != nil
		if fd == listenerFD {
			ready = p.rig.pending > 0
		}
		if reg := p.regs[fd]; ready && reg.in == sys.Read && n < len(events) {
			events[n] = sys.Event{Token: reg.token, Ready: sys.Readable}
			n++
		}
	}
	return n, nil
}

type sockets struct {
	sys.Sockets
	*rig
}

func (s sockets) Listen(_, _ string, o sys.ListenOptions) (sys.Listener, error) {
	s.opts = o
	if s.bound == nil {
		s.bound = &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 1}
	}
	return sys.Listener{FD: listenerFD, Addr: s.bound}, nil
}

func (s sockets) Accept(int) (int, netip.AddrPort, error) {
	s.accepts++
	if s.acceptErr != nil && (!s.scarce || s.reserve >= 0) {
		return -1, netip.AddrPort{}, s.acceptErr
	}
	if s.pending == 0 {
		return -1, netip.AddrPort{}, sys.ErrAgain
	}
	s.pending--
	var peer netip.AddrPort
	if len(s.peers) > 0 {
		peer, s.peers = s.peers[0], s.peers[1:]
	}
	return s.openSocket(), peer, nil
}

func (s sockets) AcceptLast(fd int) (int, netip.AddrPort, error) { return s.Accept(fd) }

func (r *rig) openSocket() int {
	r.lastFD++
	r.socks[r.lastFD] = &socket{fd: r.lastFD, in: []byte(r.brings), failure: r.breaks}
	return r.lastFD
}

func (s sockets) OpenReserve() (int, error) {
	if !s.scarce {
		return -1, sys.ErrAgain
	}
	return s.openSocket(), nil
}

func (s sockets) Left(int) int { return s.left }

func (s sockets) LocalAddr(fd int) (netip.AddrPort, error) {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, 2, byte(fd % 2)}), 1), nil
}

func (s sockets) Peek(fd int, p []byte) (int, error) {
	k := s.socks[fd]
	k.peeks++
	switch {
	case k.failure != nil:
		return 0, k.failure
	case len(k.in) > 0:
		return copy(p, k.in), nil
	case k.eof:
		return 0, nil
	}
	return 0, sys.ErrAgain
}

func (s sockets) Read(fd int, p []byte) (int, error) {
	k := s.socks[fd]
	k.reads++
	switch {
	case k.endless:
		return len(p), nil
	case len(k.in) > 0:
		n := copy(p, k.in)
		k.in = k.in[n:]
		return n, nil
	case k.eof:
		return 0, nil
	}
	return 0, sys.ErrAgain
}

func (s sockets) Write(fd int, p []byte) (int, error) {
	s.socks[fd].out = append(s.socks[fd].out, p...)
	return len(p), nil
}

func (s sockets) ShutdownWrite(fd int) error { s.socks[fd].shutdown = true; return nil }
func (s sockets) Close(fd int) error         { s.socks[fd].closed++; return nil }
