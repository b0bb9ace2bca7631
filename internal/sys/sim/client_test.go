package sim_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/internal/sys/sim"
)

// manner is how a client ends its connection.
type manner int

const (
	finAfterAll   manner = iota // half-closes when everything was sent, closes at the server's end
	closeAfterAll               // closes when it has got everything back
	stay                        // waits for the server's end
	finEarly                    // half-closes in the middle
	closeEarly                  // closes in the middle, perhaps with bytes unread
	resetEarly                  // resets in the middle
	vanish                      // neither reads nor writes any more
	manners
)

// client is a scripted peer: it sends a stream of its own and compares what comes back with what it expects.
type client struct {
	t    *trial
	p    *sim.Peer
	id   int
	name string

	out    []byte // what it sends
	sent   int
	want   func(from, n int) []byte // n bytes of what comes back
	take   func(p []byte)           // looks at what comes back, if want is nil
	most   int                      // how much comes back if all goes well, -1 unknown
	got    int
	chunk  int // most bytes per write
	gulp   int // most bytes per read
	ending manner
	turn   int // sent bytes at which an early ending comes

	closedFor []eddy.CloseReason // that somebody asked for
	ended     bool               // it sent its end of stream
	broke     bool               // it reset the connection, or closed it with bytes unread or on their way
	left      bool               // it closed at the server's end, with more to send
	eof       bool
	refusable bool // the server may refuse it
	failed    error
	over      bool
	buf       []byte

	fill  func() bool   // adds what comes next to out, and reports that nothing ever will; nil = out is all
	room  int           // size of the kernel's queues in both directions, 0 = by chance
	other *client       // the peer at the other end of a relay
	goes  bool          // goes on sending after the other side's end
	nap   time.Duration // the longest of its rests
	deaf  func() bool   // says that it does not read now; nil = it always does
}

// join adds a client of the server at addr. The client begins some time later.
func (t *trial) join(addr netip.AddrPort, c *client) *client {
	t.enroll(c)
	begun := false
	t.w.Act(c.name, func() sim.Next {
		if !begun {
			begun = true
			return sim.Next(t.n(int(20 * time.Millisecond)))
		}
		if c.p == nil {
			return c.connect(addr)
		}
		return c.act()
	})
	return c
}

// enroll sets the fields that all clients have.
func (t *trial) enroll(c *client) *client {
	c.t, c.id = t, len(t.clients)+1
	c.name = fmt.Sprintf("peer-%d", c.id)
	c.chunk, c.gulp = pick(t, 1, 7, 100, 4096, 1<<16), pick(t, 1, 13, 512, 8192, 1<<16)
	c.turn = t.n(len(c.out) + 1)
	c.buf = make([]byte, 1<<16)
	c.nap = max(c.nap, 3*time.Millisecond)
	t.clients = append(t.clients, c)
	return c
}

func (c *client) connect(addr netip.AddrPort) sim.Next {
	p, err := c.t.w.Dial(addr)
	if err != nil {
		c.failed, c.over = err, true
		return sim.Done
	}
	c.p = p
	if c.room > 0 {
		p.SetWindow(c.room)
		p.SetRoom(c.room)
	}
	c.t.peers[p.Addr()] = c
	return 0
}

// act does one small thing.
func (c *client) act() sim.Next {
	w := c.t.w
	switch {
	case c.over:
		return sim.Done
	case c.ended && c.eof:
		c.over = true
		c.p.Close()
		return sim.Done
	case c.early():
		return 0
	case c.ending == vanish && c.sent >= c.turn:
		c.over = true
		w.Note(sim.PeerVanishes)
		return sim.Done
	case !w.IsCalm() && c.t.once(16):
		return sim.Next(c.t.n(int(c.nap)))
	case w.Hit(sim.ZeroWindow):
		c.p.SetWindow(0)
		w.After(time.Duration(1+c.t.n(200))*time.Millisecond, func() { c.p.SetWindow(1 + c.t.n(1<<14)) })
	}
	wrote, read := false, false
	if c.t.once(2) {
		wrote = c.write()
		read = c.read()
	} else {
		read = c.read()
		wrote = c.write()
	}
	if c.over {
		return sim.Done
	}
	if !wrote && !read {
		return sim.Blocked
	}
	return 0
}

// early carries out an early ending.
func (c *client) early() bool {
	if c.ended || c.broke || c.sent < c.turn {
		return false
	}
	switch c.ending {
	case finEarly:
		c.t.w.Note(sim.PeerHalfCloses)
		c.ended = true
		c.p.CloseWrite()
		return true
	case closeEarly:
		c.ended, c.broke, c.over = true, true, true
		c.p.Close()
		return true
	case resetEarly:
		c.t.w.Note(sim.PeerResets)
		c.broke, c.over = true, true
		c.p.Reset()
		return true
	}
	return false
}

func (c *client) write() bool {
	if c.ended || c.eof && !c.goes || c.failed != nil {
		return false
	}
	all := true
	if c.sent == len(c.out) && c.fill != nil {
		all = c.fill()
	}
	if c.sent == len(c.out) {
		return all && c.sentAll()
	}
	chunk := c.chunk
	if c.t.w.IsCalm() {
		chunk = len(c.out)
	}
	n, err := c.p.Write(c.out[c.sent:min(len(c.out), c.sent+chunk)])
	c.sent += n
	if err != nil && !sim.IsAgain(err) {
		c.failed = err
		c.t.w.Epoch()
		return true
	}
	return n > 0
}

func (c *client) sentAll() bool {
	switch {
	case c.turn > c.sent: // the early ending cannot come later
		c.turn = c.sent
		return true
	case c.eof:
		c.ended, c.over = true, true
		c.p.Close()
		return true
	case c.ending == finAfterAll:
		c.ended = true
		c.p.CloseWrite()
		return true
	case c.ending == closeAfterAll && (c.most < 0 || c.got == c.most):
		c.ended, c.over = true, true
		c.broke = c.most < 0
		c.p.Close()
		return true
	}
	return false
}

func (c *client) read() bool {
	if c.over || c.eof || c.deaf != nil && c.deaf() {
		return false
	}
	gulp := c.gulp
	if c.t.w.IsCalm() {
		gulp = len(c.buf)
	} else if c.t.w.Hit(sim.SlowPeer) {
		gulp = 1
	}
	n, err := c.p.Read(c.buf[:gulp])
	switch {
	case sim.IsAgain(err):
		return false
	case err != nil:
		c.failed, c.over = err, true
		return true
	case n == 0 && c.goes && !c.ended:
		c.eof = true
		return true
	case n == 0:
		c.eof, c.over = true, true
		c.left = !c.ended && c.sent < len(c.out)
		c.ended = true
		c.p.Close()
		return true
	}
	if c.want == nil {
		c.got += n
		c.take(c.buf[:n])
		return true
	}
	c.t.same(c.name, c.buf[:n], c.want(c.got, n), c.got)
	c.got += n
	return true
}

// whole reports whether only the server can be the reason for missing bytes.
func (c *client) whole() bool { return c.p != nil && !c.p.Harmed() && !c.broke && c.failed == nil }

// same fails when the received bytes are wrong. from is the position of the first one.
func (t *trial) same(whose string, got, want []byte, from int) {
	if bytes.Equal(got, want) {
		return
	}
	for i := range got {
		if got[i] != want[i] {
			t.w.Failf("%s: byte %d that came back is %#x, want %#x", whose, from+i, got[i], want[i])
		}
	}
}

// stream makes bytes that identify their stream and their position in it.
func stream(id, n int) []byte { return bytes.Clone(streamAt(id, 0, n)) }

// noise holds the bytes of all streams, which begin far from each other.
var noise = func() []byte {
	b := make([]byte, 2*noisePeriod)
	_, _ = rand.NewChaCha8([32]byte{}).Read(b[:noisePeriod]) // no error
	copy(b[noisePeriod:], b)
	return b
}()

const noisePeriod = 1 << 20

// streamAt returns n bytes of a stream, for reading.
func streamAt(id, from, n int) []byte {
	at := (id*40503 + from) % noisePeriod
	return noise[at : at+n]
}
