// Package sys is the engine's only door to the kernel: sockets, the clock and
// the contract of the readiness pollers, as interfaces with one real
// implementation.
//
// Everything a loop does to the outside world goes through these three
// interfaces, so a whole server can also run against a simulated kernel.
// Descriptors are therefore only names. Code outside an implementation must not
// assume that a descriptor is a small integer, or that the operating system
// knows it. Nor can a descriptor be used without the value that produced it.
package sys

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"time"
)

// Ready is a set of conditions that a poller reports for a descriptor.
type Ready uint8

const (
	// Readable: a Read or an Accept will make progress, which includes
	// reporting end of stream or an error.
	Readable Ready = 1 << iota
	// Writable: a Write will make progress or report an error.
	Writable
	// Hangup: both directions of the connection are finished.
	Hangup
	// Failed: the descriptor carries an error; the next Read or Write
	// returns it.
	Failed
)

// Interest is the set of conditions a descriptor is watched for.
type Interest uint8

const (
	// None keeps the descriptor registered without asking for anything.
	None Interest = 0
	// Read asks for Readable.
	Read Interest = 1 << 0
	// Write asks for Writable.
	Write Interest = 1 << 1
)

// Event is one readiness report. Token is the value given to Add or Modify.
type Event struct {
	Token uint64
	Ready Ready
}

// ReservedToken must not be given to Poller.Add or Poller.Modify; pollers keep
// it for themselves.
const ReservedToken = ^uint64(0)

// Poller reports which registered descriptors are ready. It is level-triggered:
// a condition is reported by every Wait as long as it holds and is asked for.
//
// A Poller belongs to one loop. Only Wake may be called by other goroutines.
//
// Waiting and waking. Wake leaves a mark that only the end of a Wait removes.
// So a Wake is never lost, whether it comes before Wait, while Wait prepares,
// while it sleeps, or while it returns. Wakes do not add up: any number of them
// before the end of one Wait are answered by that Wait. A loop that looks at
// its task queue after every Wait, and whose producers enqueue before they
// Wake, therefore misses nothing. A producer may skip Wake when the loop is
// known to be awake. For that the loop publishes that it is about to sleep,
// then looks at its queue once more, then calls Wait.
type Poller interface {
	// Add registers a descriptor. Adding one that is registered is an error.
	Add(fd int, in Interest, token uint64) error

	// Modify replaces interest and token of a registered descriptor.
	//
	// Under None nothing that the peer sends is reported. Hangup or Failed may
	// be reported, but at most once until the next Modify. So a paused
	// connection whose peer has gone does not make the loop spin.
	Modify(fd int, in Interest, token uint64) error

	// Remove forgets a descriptor. It must precede Sockets.Close; events that
	// were returned earlier may still name the token.
	Remove(fd int) error

	// Wait fills events with what is ready and returns their number. It waits
	// at most timeout; a negative timeout means without limit, 0 means not at
	// all. It may return 0 events early: after Wake, after a signal, or
	// without a reason. A descriptor may appear twice in one batch when its
	// conditions are reported apart. events must not be empty.
	Wait(events []Event, timeout time.Duration) (int, error)

	// Wake makes the current or the next Wait return soon. It is safe for any
	// goroutine at any time, cheap, and returns ErrPollerClosed after Close.
	Wake() error

	// Close releases the poller. Registered descriptors stay open. It must not
	// overlap a Wait. A second Close returns ErrPollerClosed.
	Close() error

	// Name is the backend: "epoll", "kqueue", "poll", "select" or "net".
	Name() string
}

// Clock is the source of time of a loop. It is safe for any goroutine.
type Clock interface {
	// Now is monotonic time in nanoseconds since an arbitrary moment.
	Now() int64
	// Wall is the time of day, for logs and protocol headers.
	Wall() time.Time
}

// ListenOptions are the settings of a listening socket. Accepted connections
// inherit buffers and keep-alive, at no cost per connection.
type ListenOptions struct {
	// On is a listener that somebody else has bound, and nil otherwise. Listen
	// takes it over in place of binding a socket: network, address, Backlog and
	// ReusePort do not matter, the other options apply as far as it knows them.
	// Close of the descriptor closes it. A failed Listen leaves it open.
	On net.Listener

	// Backlog is the length of the accept queue; 0 means as long as the
	// system allows. Systems cut it silently to their own limit.
	Backlog int

	// ReusePort lets several sockets of one user listen on one TCP address.
	// Whether they share the connections depends on the system; see
	// ReusePortBalances.
	ReusePort bool

	// KeepAlive is how long a TCP connection is silent before the system asks
	// the peer whether it lives, and the time between questions. It is in whole
	// seconds (rounded up, at most 32767). 0 and less leave it to the system,
	// which does not ask by itself.
	KeepAlive time.Duration

	// RecvBuffer and SendBuffer are the sizes of TCP's buffers in bytes; 0
	// leaves them to the system, which adapts them. Systems cut them to their
	// own limit and may count their overhead in.
	RecvBuffer, SendBuffer int

	// Unsent is how many bytes of a connection the system holds at most beyond
	// what is on its way to the peer. 0 leaves that to the size of the buffer,
	// and so do systems without such a bound. TCP only.
	Unsent int
}

// ConnectOptions are the settings of an outbound connection. KeepAlive,
// RecvBuffer, SendBuffer and Unsent are as in ListenOptions.
type ConnectOptions struct {
	// Local is the address to connect from. Without an address the system
	// chooses one, without a port it chooses a port. TCP only.
	Local netip.AddrPort

	KeepAlive              time.Duration
	RecvBuffer, SendBuffer int
	Unsent                 int
}

// Listener is a bound, listening, non-blocking socket.
type Listener struct {
	FD   int
	Addr net.Addr // *net.TCPAddr, with the port the system chose for port 0, or *net.UnixAddr
}

// Pipe is a buffer of the system between two sockets, see Sockets.OpenPipe.
type Pipe struct {
	In, Out int // descriptors of its two ends
	Size    int // bytes that it holds, at most
}

// Sockets makes and uses non-blocking stream sockets.
//
// One value belongs to one loop, because it keeps scratch memory and knows
// which listeners have a file. Listen may be called before the loop runs.
//
// Read, Peek, Write, Writev, SpliceIn, SpliceOut and Accept never wait: they
// return ErrAgain when they would have to. They retry interrupted calls, and
// allocate nothing on success or on ErrAgain. Their errors are plain errno values; see IsReset,
// IsDescriptorLimit and IsTransientAccept.
type Sockets interface {
	// The errors of Listen, Take and Connect name neither the call nor the
	// address, because their callers do.

	// Listen binds a socket. network is "tcp", "tcp4", "tcp6" or "unix";
	// address is what package net takes. Host names are resolved, so it may
	// block. With "tcp" and no host it serves IPv4 and IPv6 where the system
	// can. A busy address satisfies errors.Is(err, syscall.EADDRINUSE).
	//
	// The address of "unix" is a path (on Linux a name that begins with "@" has
	// no file). A socket file that refuses connections was left behind by a
	// dead server and is replaced. Any other file stays and is an error.
	Listen(network, address string, o ListenOptions) (Listener, error)

	// Accept takes one connection from a listening descriptor. The new
	// descriptor is non-blocking and is not inherited by child processes. IPv4
	// peers of a dual-stack listener have IPv4 addresses; unix peers have the
	// zero address. Here as from Take and Connect, TCP sends small writes without
	// delay (TCP_NODELAY).
	Accept(fd int) (nfd int, peer netip.AddrPort, err error)

	// AcceptLast is Accept for a listener that is about to be closed. Its
	// ErrAgain says that the system's queue is empty, while Accept's may mean
	// that a connection is still on its way through the process. AcceptLast may
	// wait briefly for such a connection.
	AcceptLast(fd int) (nfd int, peer netip.AddrPort, err error)

	// Take takes over a connection that somebody else has made, and returns
	// what Accept would. After an error it is still the caller's. The system's
	// sockets take those of package net only: *net.TCPConn and *net.UnixConn.
	Take(c net.Conn) (fd int, peer netip.AddrPort, err error)

	// Connect begins a connection to a *net.TCPAddr or *net.UnixAddr and never
	// waits. When done is false, the descriptor becomes Writable as soon as the
	// outcome is known, and ConnectError tells it. Close abandons the attempt.
	// On an error there is no descriptor. Errors are wrapped errno values; a
	// unix listener whose queue is full is one of them.
	Connect(network string, remote net.Addr, o ConnectOptions) (fd int, done bool, err error)

	// ConnectError returns the outcome of a Connect: nil when the connection is
	// established, ErrAgain while it is being made, else why it failed. A
	// failure is reported once.
	ConnectError(fd int) error

	// LocalAddr returns the address a TCP socket is bound to, or the zero
	// address for a unix socket.
	LocalAddr(fd int) (netip.AddrPort, error)

	// SetKeepAlive makes the system ask the peer of a silent TCP connection
	// whether it lives, as ListenOptions.KeepAlive does. 0 and less stop that.
	// On a unix socket it does nothing.
	SetKeepAlive(fd int, d time.Duration) error

	// Read reads what has arrived. 0 without an error is the end of the stream
	// (or an empty p).
	Read(fd int, p []byte) (int, error)

	// Peek is Read that leaves the bytes where they are, so that the next Read
	// or Peek returns them again. It sees the end of the stream only when no
	// bytes are left before it, and 16 KiB at most.
	Peek(fd int, p []byte) (int, error)

	// Write writes as much of p as the socket takes.
	Write(fd int, p []byte) (int, error)

	// Writev writes as much of bufs, in order, as the socket takes. It may look
	// at only the first buffers; a result shorter than the sum of all does not
	// mean that the socket is full.
	Writev(fd int, bufs [][]byte) (int, error)

	// SendFile writes up to n bytes of a file from offset on, as many as the
	// socket takes. Where the system can, it does not bring them into the
	// process. The file's own position is neither used nor moved. 0 without an
	// error is the end of the file (or an n of 0). It returns ErrAgain when the
	// socket is full, and may send less than the socket would take. Unlike the
	// other calls it may wait for the disk.
	SendFile(fd int, f *os.File, offset int64, n int) (int, error)

	// OpenPipe opens a pipe that holds about size bytes, or fewer where the
	// system allows no more. Where it cannot splice, or gives only a very small
	// pipe, the error is errors.ErrUnsupported.
	OpenPipe(size int) (Pipe, error)

	// SpliceIn moves up to n bytes that have arrived at fd into an empty pipe,
	// without bringing them into the process. The results are Read's. For a
	// socket that the system cannot splice the error is errors.ErrUnsupported.
	SpliceIn(fd int, p Pipe, n int) (int, error)

	// SpliceOut writes up to n bytes of those in the pipe, as many as the socket
	// takes. The results are Write's. For an empty pipe the error is ErrAgain.
	SpliceOut(fd int, p Pipe, n int) (int, error)

	// ClosePipe releases a pipe with what is in it.
	ClosePipe(p Pipe) error

	// Unacked returns how many written bytes the peer has not acknowledged,
	// sent or not. For a unix socket it may be the memory that they take. Where
	// the system does not tell, the error is errors.ErrUnsupported.
	Unacked(fd int) (int, error)

	// ShutdownWrite ends the outbound direction: the peer reads end of stream.
	ShutdownWrite(fd int) error

	// Abort makes Close end a TCP connection with a reset, so that the system
	// gives up at once what the peer has not taken. Close must still be called.
	Abort(fd int) error

	// Close releases the descriptor, and removes the file of a unix listener.
	Close(fd int) error

	// OpenReserve opens a descriptor whose only purpose is to be closed when
	// the process runs out of them.
	OpenReserve() (fd int, err error)

	// Left returns how many descriptors, at most, the process may open beyond
	// fd, which it has just opened. It is math.MaxInt where that is unknown.
	Left(fd int) int
}

// ErrPollerClosed is returned by the methods of a closed Poller.
var ErrPollerClosed = errors.New("sys: poller closed")
