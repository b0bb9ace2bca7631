package netsys

import (
	"context"
	"net"
	"net/netip"
	"syscall"
	"time"

	"github.com/go-eddy/eddy/internal/sys"
)

// closeLimit is how long bytes that Write has taken may still be sent after Close. Then the connection is reset, and
// bytes that the peer has not taken are lost.
const closeLimit = 10 * time.Second

// exitLimit is how long a closed poller waits for such bytes.
const exitLimit = time.Second

// stream is what a connection needs: *net.TCPConn, *net.UnixConn, or what a listener of somebody else brings.
type stream interface {
	net.Conn
	CloseWrite() error
}

// undivided is a stream whose directions end together.
type undivided struct{ net.Conn }

func (u undivided) CloseWrite() error { return u.Close() }

func streamOf(nc net.Conn) stream {
	if s, ok := nc.(stream); ok {
		return s
	}
	return undivided{nc}
}

// conn is one connection. It holds bytes that wait for Read and bytes that Write has taken. It has at most one
// goroutine for each direction, which exists only while it has something to wait for. The reader exists while less than
// half a block is unread, the writer while bytes are there to be sent.
//
// So a connection whose reads are paused is read no further than that: the kernel's buffer fills and TCP tells the
// peer.
type conn struct {
	node
	sys   *System
	nc    stream             // nil until the connection is made
	raw   syscall.RawConn    // nil for a stream without a descriptor
	read  func()             // runs the reader, as a value that costs nothing to start
	write func()             // likewise
	probe func(uintptr) bool // see tryFetch
	abort context.CancelFunc // ends the attempt to connect

	in      *block // unread bytes, not empty
	got     *block // what the reader has read, before it goes to in
	gotErr  error
	limit   int    // how much the reader may read
	out     *block // taken and not yet with the writer, not empty
	inErr   error  // returned by Read when in is empty
	outErr  error  // returned by Write
	state   connState
	eof     bool // the peer has ended its side
	ended   bool // ours has ended, or will when out is empty
	done    bool // ours has ended
	reading bool
	writing bool
	lossy   bool // Close ends with a reset
	leaving bool // closed, and bytes still have to be sent
	local   netip.AddrPort
	remote  netip.AddrPort
}

type connState uint8

const (
	connOpen connState = iota
	connConnecting
	connFailed // outErr is why
)

// newConn makes the descriptor of a connection. nc is nil when the connection has yet to be made.
func (s *System) newConn(nc stream) (*conn, error) {
	c := &conn{sys: s}
	c.what = c
	c.read, c.write, c.probe = c.reader, c.writer, c.tryFetch
	if nc != nil {
		if err := c.attach(nc); err != nil {
			return nil, err
		}
	} else {
		c.state = connConnecting
	}
	if err := s.table.insert(&c.node); err != nil {
		return nil, err
	}
	return c, nil
}

// attach stores the connection of package net and its addresses.
func (c *conn) attach(nc stream) error {
	switch nc.(type) {
	case *net.TCPConn, *net.UnixConn:
		raw, err := nc.(syscall.Conn).SyscallConn()
		if err != nil {
			return errno(err)
		}
		c.raw = raw
	}
	c.nc = nc
	c.local, c.remote = addrPort(nc.LocalAddr()), addrPort(nc.RemoteAddr())
	return nil
}

// addrPort returns the zero value for addresses that are not TCP's.
func addrPort(a net.Addr) netip.AddrPort {
	t, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.AddrPort{}
	}
	ap := t.AddrPort()
	return netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())
}

func (c *conn) ready(in sys.Interest) sys.Ready {
	var r sys.Ready
	failed := c.outErr != nil || c.inErr != nil
	if failed {
		r = sys.Failed | sys.Hangup
	} else if c.eof && c.done {
		r = sys.Hangup
	}
	if in&sys.Read != 0 && (c.in != nil || c.eof || failed) {
		r |= sys.Readable
	}
	if in&sys.Write != 0 && (failed || c.ended || c.state == connOpen && c.room() > 0) {
		r |= sys.Writable
	}
	return r
}

// watch starts the reader if there is room for what it will find. It does so under every interest, because the end of
// the peer must be noticed also while reads are paused.
func (c *conn) watch(sys.Interest) {
	if !c.reading && c.wantsMore() {
		c.reading = true
		c.limit = c.space()
		go c.read()
	}
}

// wantsMore reports whether the reader has something to do: it stops when half a block is unread. Under mu.
func (c *conn) wantsMore() bool {
	return c.state == connOpen && !c.closed && !c.eof && c.inErr == nil && c.space() > largeBlock/2
}

// space returns how many more bytes may wait for Read. Under mu.
func (c *conn) space() int {
	if c.in == nil {
		return largeBlock
	}
	return largeBlock - len(c.in.bytes())
}

// receive is Sockets.Read.
func (c *conn) receive(p []byte) (int, error) { return c.unread(p, true) }

// peek is Sockets.Peek. The reader goes on until half a block is unread, which is as much as a caller may ask for.
func (c *conn) peek(p []byte) (int, error) { return c.unread(p, false) }

// unread copies bytes that wait, and takes them if take is set.
func (c *conn) unread(p []byte, take bool) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return 0, syscall.EBADF
	case c.in == nil:
		return 0, c.starved()
	}
	n := copy(p, c.in.bytes())
	if take {
		if c.in.r += n; c.in.r == c.in.w {
			c.sys.blocks.put(c.in)
			c.in = nil
		}
		c.watch(sys.Read) // so that the reader works while the caller works
	}
	return n, nil
}

// starved returns what a read finds when no bytes are there; nil is the end of the stream. Under mu.
func (c *conn) starved() error {
	switch {
	case c.inErr != nil:
		return c.inErr
	case c.eof:
		return nil
	case c.outErr != nil:
		return c.outErr
	}
	c.watch(sys.Read)
	return sys.ErrAgain
}

// reader is the goroutine that waits for bytes until enough of them are unread.
func (c *conn) reader() {
	for more := true; more; {
		c.fetch()
		more = c.store()
	}
}

// store takes what the reader has read, and reports whether the reader should go on.
func (c *conn) store() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	b, err := c.got, c.gotErr
	c.got, c.gotErr = nil, nil
	switch {
	case c.closed:
		if b != nil {
			c.sys.blocks.put(b)
		}
	case err != nil:
		c.fail(err)
		c.inErr = err
		c.update()
	case b.w == 0:
		c.sys.blocks.put(b)
		c.eof = true
		c.update()
	default:
		c.in = c.sys.blocks.join(c.in, b)
		c.update()
	}
	c.reading = c.wantsMore()
	c.limit = c.space()
	return c.reading
}

// look fetches, without waiting, what a new connection has brought with it, so that the next Read finds it.
func (c *conn) look() {
	if c.sys.blocking || c.raw == nil || !c.tryNow() {
		return
	}
	c.mu.Lock()
	c.reading = true
	c.mu.Unlock()
	if c.store() {
		go c.read()
	}
}

// fetchBlocking takes a block, then waits for bytes and reads them into it.
func (c *conn) fetchBlocking() {
	b := c.sys.blocks.get(largeBlock)
	n, err := c.nc.Read(b.data[:c.limit])
	b.w = n
	switch {
	case n > 0 || isEOF(err):
		c.got = b
	default:
		c.sys.blocks.put(b)
		c.gotErr = errno(err)
	}
}

// fail makes every later Write return err. Under mu.
func (c *conn) fail(err error) {
	if c.outErr == nil {
		c.outErr = err
	}
	c.dropOut()
}

// sendFailed handles an error of the writer. The system reports a reset only once, so the reader may find no more than
// an end of the stream. Under mu.
func (c *conn) sendFailed(err error) {
	c.lossy = true
	c.fail(err)
	if err == syscall.ECONNRESET && c.inErr == nil { //nolint:errorlint // a bare number
		c.inErr = err
	}
	c.update()
}

// dropOut drops bytes that were taken and are not with the writer. Under mu.
func (c *conn) dropOut() {
	if c.out != nil {
		c.sys.blocks.put(c.out)
		c.out = nil
	}
}

// room returns how many bytes Write would take. Under mu.
func (c *conn) room() int {
	if c.out == nil {
		return largeBlock
	}
	return largeBlock - c.out.w
}

// mayWrite returns the error of a Write, or nil if it may go ahead. Under mu.
func (c *conn) mayWrite() error {
	switch {
	case c.closed:
		return syscall.EBADF
	case c.state == connConnecting:
		return sys.ErrAgain
	case c.outErr != nil:
		return c.outErr
	case c.ended:
		return syscall.EPIPE
	case c.room() == 0:
		return sys.ErrAgain
	}
	return nil
}

// send is Sockets.Write.
func (c *conn) send(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.mayWrite(); err != nil {
		return 0, err
	}
	n := c.queue(p)
	c.startWriter()
	return n, nil
}

// sendAll is Sockets.Writev.
func (c *conn) sendAll(bufs [][]byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	total := 0
	for _, p := range bufs {
		if len(p) == 0 {
			continue
		}
		if err := c.mayWrite(); err != nil {
			if total > 0 {
				break
			}
			return 0, err
		}
		n := c.queue(p)
		total += n
		if n < len(p) {
			break
		}
	}
	if total > 0 {
		c.startWriter()
	}
	return total, nil
}

// queue takes as much of p as there is room for. Under mu.
func (c *conn) queue(p []byte) int {
	p = p[:min(len(p), c.room())]
	if c.out == nil {
		c.out = c.sys.blocks.get(len(p))
	} else if c.out.free() < len(p) {
		big := c.sys.blocks.get(largeBlock)
		big.append(c.out.bytes())
		c.sys.blocks.put(c.out)
		c.out = big
	}
	return c.out.append(p)
}

// startWriter makes sure that the writer runs. Under mu.
func (c *conn) startWriter() {
	if !c.writing {
		c.writing = true
		go c.write()
	}
}

// writer is the goroutine that sends what was taken until nothing is left. Then it ends our side or the whole
// connection, if that was asked for meanwhile.
func (c *conn) writer() {
	c.mu.Lock()
	for c.out != nil {
		b := c.out
		c.out = nil
		c.update() // there is room again
		c.mu.Unlock()
		_, err := c.nc.Write(b.bytes())
		c.sys.blocks.put(b)
		c.mu.Lock()
		if err != nil {
			c.sendFailed(errno(err))
		}
	}
	end, over := c.ended && !c.done && c.outErr == nil, c.closed
	if !end || over {
		c.writing = false
		c.mu.Unlock()
		if over {
			c.finish()
		}
		return
	}
	c.mu.Unlock()
	_ = c.nc.CloseWrite() // a peer that is gone needs no end; the reader finds out
	c.mu.Lock()
	c.done, c.writing = true, false
	over = c.closed
	c.update()
	c.mu.Unlock()
	if over {
		c.finish()
	}
}
