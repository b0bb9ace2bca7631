// Package memnet is a network in memory, for whole clusters of clients and servers in one test. The loops of an engine run on its machines by the backend
// "net", with everything that waits in channels and timers, so that in a bubble of testing/synctest time is virtual: a minute of a thousand servers takes
// as long as their work.
//
// Unlike package sim it takes code with goroutines of its own, and a run is not the same twice.
package memnet

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/go-eddy/eddy/internal/simhook"
	"github.com/go-eddy/eddy/internal/sys"
	"github.com/go-eddy/eddy/internal/sys/netsys"
)

const (
	backlog    = 128       // connections that wait for a listener
	windowSize = 256 << 10 // bytes under way in one direction
)

// Network has machines. Make one with New, in the bubble. Any goroutine may call its methods and those of its machines.
type Network struct {
	delay func(from, to netip.Addr) time.Duration

	mu       sync.Mutex
	machines map[netip.Addr]*Machine
	port     uint16 // of the latest connection's client
}

// New returns a network without machines. delay says how long bytes are under way from one machine to another; it is called with a lock held.
func New(delay func(from, to netip.Addr) time.Duration) *Network {
	return &Network{delay: delay, machines: make(map[netip.Addr]*Machine)}
}

// Machine is one machine with an address.
type Machine struct {
	Addr netip.Addr

	n       *Network
	system  *netsys.System
	epoch   time.Time
	cut     atomic.Bool
	changed chan struct{} // closed when cut changes; Network.mu
	ports   map[uint16]*listener
	ends    map[*end]bool // of open connections
}

// Machine returns the machine at an address, which it makes if there is none.
func (n *Network) Machine(addr netip.Addr) *Machine {
	n.mu.Lock()
	defer n.mu.Unlock()
	m := n.machines[addr]
	if m == nil {
		m = &Machine{Addr: addr, n: n, epoch: time.Now(), changed: make(chan struct{}), ports: make(map[uint16]*listener), ends: make(map[*end]bool)}
		m.system = netsys.NewWith(m.dial)
		n.machines[addr] = m
	}
	return m
}

// Host is where simhook.Simulate puts groups and servers that run on the machine.
func (m *Machine) Host() simhook.Host {
	return simhook.Host{
		Sockets: func() sys.Sockets { return sockets{m.system.NewSockets(), m} },
		Clock:   clock{m.epoch},
		Poller:  func() (sys.Poller, error) { return m.system.NewPoller(), nil },
		Start:   func(l simhook.Loop) { go l.Run() },
	}
}

// clock is a sys.Clock that shows the bubble's time.
type clock struct{ epoch time.Time }

func (c clock) Now() int64      { return int64(time.Since(c.epoch)) }
func (c clock) Wall() time.Time { return time.Now() }

// sockets listen on the machine's ports.
type sockets struct {
	sys.Sockets
	m *Machine
}

func (s sockets) Listen(network, address string, o sys.ListenOptions) (sys.Listener, error) {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return sys.Listener{FD: -1}, err
	}
	l, err := s.m.listen(at)
	if err != nil {
		return sys.Listener{FD: -1}, err
	}
	o.On = l
	return s.Sockets.Listen(network, address, o)
}

// Cut takes the machine off the network. What is under way to it and from it, and attempts to connect, wait until Heal.
func (m *Machine) Cut() { m.set(true) }

// Heal brings the machine back after Cut.
func (m *Machine) Heal() { m.set(false) }

func (m *Machine) set(cut bool) {
	m.n.mu.Lock()
	defer m.n.mu.Unlock()
	m.cut.Store(cut)
	close(m.changed)
	m.changed = make(chan struct{})
	for e := range m.ends {
		e.in.wake()
		e.other.in.wake()
	}
}

// Reset ends every connection of the machine as if it had lost its memory.
func (m *Machine) Reset() {
	m.n.mu.Lock()
	ends := make([]*end, 0, len(m.ends))
	for e := range m.ends {
		ends = append(ends, e)
	}
	m.n.mu.Unlock()
	for _, e := range ends {
		e.in.fail(syscall.ECONNRESET)
		e.other.in.fail(syscall.ECONNRESET)
	}
}

// dial makes a connection from the machine.
func (m *Machine) dial(ctx context.Context, network, address string) (net.Conn, error) {
	refused := func(err error) (net.Conn, error) {
		return nil, &net.OpError{Op: "dial", Net: network, Err: os.NewSyscallError("connect", err)}
	}
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return nil, err
	}
	for {
		l, wait, changed := m.find(to)
		if changed == nil {
			select {
			case <-time.After(wait):
			case <-ctx.Done():
				return refused(syscall.ETIMEDOUT)
			}
			if l == nil {
				return refused(syscall.ECONNREFUSED)
			}
			return m.connect(ctx, l, to, refused)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return refused(syscall.ETIMEDOUT)
		}
	}
}

// find returns who listens at an address, nil for nobody, and how long it takes to be told. changed is not nil while the way there is cut.
func (m *Machine) find(to netip.AddrPort) (l *listener, wait time.Duration, changed <-chan struct{}) {
	m.n.mu.Lock()
	defer m.n.mu.Unlock()
	peer := m.n.machines[to.Addr()]
	switch {
	case peer == nil:
		return nil, 0, nil
	case peer.cut.Load():
		return nil, 0, peer.changed
	case m.cut.Load():
		return nil, 0, m.changed
	}
	return peer.ports[to.Port()], m.n.delay(m.Addr, to.Addr()) + m.n.delay(to.Addr(), m.Addr), nil
}

// connect offers a connection to a listener.
func (m *Machine) connect(ctx context.Context, l *listener, to netip.AddrPort, refused func(error) (net.Conn, error)) (net.Conn, error) {
	m.n.mu.Lock()
	m.n.port = max(m.n.port+1, 1024)
	near := &end{m: m, local: netip.AddrPortFrom(m.Addr, m.n.port), remote: to}
	far := &end{m: l.m, local: to, remote: near.local}
	near.other, far.other = far, near
	near.in, far.in = newHalf(near), newHalf(far)
	m.ends[near], l.m.ends[far] = true, true
	m.n.mu.Unlock()
	select {
	case l.conns <- far:
		return near, nil
	case <-l.over:
		near.forget()
		return refused(syscall.ECONNREFUSED)
	case <-ctx.Done():
		near.forget()
		return refused(syscall.ETIMEDOUT)
	}
}

// listener is a net.Listener on a port of a machine.
type listener struct {
	m     *Machine
	at    netip.AddrPort
	conns chan *end
	over  chan struct{}
	once  sync.Once
}

func (m *Machine) listen(at netip.AddrPort) (*listener, error) {
	m.n.mu.Lock()
	defer m.n.mu.Unlock()
	switch {
	case at.Addr() != m.Addr:
		return nil, fmt.Errorf("the machine's address is %v: %w", m.Addr, syscall.EADDRNOTAVAIL)
	case m.ports[at.Port()] != nil:
		return nil, syscall.EADDRINUSE
	}
	l := &listener{m: m, at: at, conns: make(chan *end, backlog), over: make(chan struct{})}
	m.ports[at.Port()] = l
	return l, nil
}

func (l *listener) Addr() net.Addr { return net.TCPAddrFromAddrPort(l.at) }

func (l *listener) Accept() (net.Conn, error) {
	select {
	case e := <-l.conns:
		return e, nil
	case <-l.over:
		return nil, net.ErrClosed
	}
}

// Close frees the port and resets the connections that nobody has accepted.
func (l *listener) Close() error {
	l.once.Do(func() {
		l.m.n.mu.Lock()
		delete(l.m.ports, l.at.Port())
		l.m.n.mu.Unlock()
		close(l.over)
		for {
			select {
			case e := <-l.conns:
				e.other.in.fail(syscall.ECONNRESET)
				_ = e.Close() // never fails
			default:
				return
			}
		}
	})
	return nil
}
