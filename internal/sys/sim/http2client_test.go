package sim_test

import (
	"bytes"
	"fmt"
	"math"
	"net/http"
	"net/netip"
	"strconv"
	"time"

	wire "golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/go-eddy/eddy/http2"
)

// http2Ask is one request of a peer, and what has come of it.
type http2Ask struct {
	peer       *http2Peer
	key        int // in http2Server.asks
	kind       int
	size       int // of its body
	answerSize int
	announces  bool // the size, as Content-Length
	trailer    bool // ends with a trailer section
	hostage    bool // its answer gets no window before the others are over, and none at all if the connection's age ends it
	sits       bool // its handler reads nothing before the others are over
	drops      bool // is reset in the middle of its body

	// What the server has done.
	ran     int
	refusal int // status of its own answer

	// What the peer has done and seen.
	id         uint32
	send, recv int // windows
	sent       int // bytes of the body
	begun      int // where its header section ends in what the peer sends
	ended      int // where it ends there, 0 before
	status     int
	got        int
	late       bool // a trailer section has come
	ends       int  // answers, and resets by the server
	code       wire.ErrCode
	dropped    bool // the peer has reset it
	refused    bool // told by GOAWAY
}

// body returns n bytes of the request's body, and answer those of the response's.
func (a *http2Ask) body(from, n int) []byte   { return streamAt(2*a.key, from, n) }
func (a *http2Ask) answer(from, n int) []byte { return streamAt(2*a.key+1, from, n) }

// over reports whether the peer expects nothing more.
func (a *http2Ask) over() bool { return a.ends > 0 || a.dropped || a.refused }

// due returns how many bytes of the answer have still to come, at most.
func (a *http2Ask) due() int {
	if a.status != 0 && a.status != http.StatusOK {
		return 100
	}
	return a.answerSize - a.got
}

// http2Peer speaks frames. It opens streams, sends bodies and gives windows in any order.
type http2Peer struct {
	*client
	s      *http2Server
	asks   []*http2Ask
	opened int
	rude   bool // opens streams after a GOAWAY
	early  bool // counts as done when everything is sent
	greedy bool // opens more streams than it may
	active int  // its requests that handlers run
	pads   bool // sends bodies in small pieces with much padding

	framer *wire.Framer
	in     bytes.Buffer
	dec    *hpack.Decoder
	enc    *hpack.Encoder
	block  bytes.Buffer

	send, recv int // windows of the connection
	first      int // window of a new stream of ours, by the server's settings
	granted    int // that of the server's, by ours
	target     int // windows that are given again
	resizes    []http2Resize
	known      bool   // the server's settings have come
	final      uint32 // last stream that the server takes
	goAways    int
	pings      int // without an answer
	resets     int // by the server
}

// http2Resize is a change of the window of streams that the server has not acknowledged.
type http2Resize struct {
	change int
	before int // streams that were open
}

// firstWindow is the window of connections and streams before anything is said.
const firstWindow = 65535

// peer adds a peer with requests of its own.
func (s *http2Server) peer(addr netip.AddrPort) *http2Peer {
	t := s.t
	p := &http2Peer{
		s: s, rude: t.once(2), early: t.once(2), greedy: t.once(4), send: firstWindow, recv: firstWindow, first: firstWindow, granted: firstWindow, final: math.MaxUint32,
		target: pick(t, 1, 100, 5000, 1<<16, 1<<20), dec: hpack.NewDecoder(4096, nil),
	}
	p.enc = hpack.NewEncoder(&p.block)
	base := &client{most: -1, fill: p.fill, take: p.take, nap: time.Duration(3+t.n(2)*t.n(60)) * time.Millisecond}
	base.ending = pick(t, finAfterAll, stay, stay, stay, closeEarly, resetEarly, finEarly, vanish)
	bulk := t.once(8)
	if p.pads = !bulk && t.once(12); bulk || p.pads {
		base.room, p.target = 1<<16, 1<<20
	}
	p.client = t.join(addr, base)
	p.turn = t.n(4000)
	if bulk || p.pads {
		p.chunk, p.gulp = 1<<16, 1<<16
	}
	p.framer = wire.NewFramer(p, &p.in)
	for range 1 + t.n(pick(t, 8, 40)) {
		p.ask(bulk)
	}
	p.special()
	p.hello()
	return p
}

// Write implements io.Writer for the Framer.
func (p *http2Peer) Write(b []byte) (int, error) {
	p.out = append(p.out, b...)
	return len(b), nil
}

// ask makes a request.
func (p *http2Peer) ask(bulk bool) {
	t := p.t
	a := &http2Ask{
		peer: p, key: len(p.s.asks), kind: t.n(askKinds), size: t.n(2) * t.n(pick(t, 3, 300, 3000)), answerSize: t.n(pick(t, 3, 300, 6000)),
		announces: t.once(2), trailer: t.once(4), drops: t.once(20),
	}
	if p.greedy && t.once(3) {
		a.drops, a.size = true, 1+t.n(100)
	}
	a.trailer = a.trailer && !p.greedy // the server forgets all but its last resets
	if a.kind == askLast && !t.once(12) {
		a.kind = askFunction
	}
	if bulk {
		a.kind, a.size = pick(t, askWhole, askStream, askHandler), t.n(200<<10)
	}
	if a.kind == askFunction || a.kind == askLast {
		a.announces, a.trailer = true, a.trailer && a.size > 0
	}
	p.asks, p.s.asks = append(p.asks, a), append(p.s.asks, a)
}

// special makes a stream a hostage of the peer, and another one of the server.
func (p *http2Peer) special() {
	if len(p.asks) < 3 {
		return
	}
	if a := p.asks[p.t.n(len(p.asks))]; p.t.once(2) {
		a.hostage, a.answerSize = true, 1+p.t.n(2*firstWindow)
	}
	if a := p.asks[p.t.n(len(p.asks))]; p.t.once(2) && !a.hostage {
		a.sits, a.kind, a.size = true, askStream, 1+p.t.n(2*firstWindow)
	}
}

// free reports whether everything but hostages is over.
func (p *http2Peer) free() bool {
	for i, a := range p.asks {
		lost := p.client.ended && a.begun > p.sent
		if !a.over() && !a.hostage && !a.sits && !lost && (i < p.opened || p.mayOpen()) {
			return false
		}
	}
	return true
}

func (p *http2Peer) hello() {
	t := p.t
	_, _ = p.Write([]byte(http2.Preface)) // into memory
	settings := []wire.Setting{{ID: wire.SettingEnablePush}}
	if t.once(2) {
		p.granted = pick(t, 0, 1, 100, 5000, 1<<20)
		settings = append(settings, wire.Setting{ID: wire.SettingInitialWindowSize, Val: uint32(p.granted)})
	}
	if t.once(3) {
		settings = append(settings, wire.Setting{ID: wire.SettingHeaderTableSize, Val: uint32(pick(t, 0, 100, 1000))})
	}
	p.wrote(p.framer.WriteSettings(settings...))
	p.resizes = append(p.resizes, http2Resize{})
}

// wrote fails the trial if the Framer has refused a frame.
func (p *http2Peer) wrote(err error) {
	if err != nil {
		p.t.w.Failf("%s: %v", p.name, err)
	}
}

// fill adds the next frames and reports whether there are no more to come.
func (p *http2Peer) fill() (all bool) {
	for range 1 + p.t.n(8) {
		if !p.move() {
			break
		}
	}
	for i, a := range p.asks {
		if i >= p.opened && p.mayOpen() || i < p.opened && !a.over() && (!p.early || a.ended == 0) {
			return false
		}
	}
	return true
}

// move adds a frame or a header section. It returns false if there is nothing that can be sent now.
func (p *http2Peer) move() bool {
	t := p.t
	if !t.w.IsCalm() && t.once(30) {
		p.steer()
		return true
	}
	moves := []func() bool{p.open, p.sendBody, p.giveWindows}
	for i, k := 0, t.n(len(moves)); i < len(moves); i, k = i+1, k+1 {
		if moves[k%len(moves)]() {
			return true
		}
	}
	return false
}

// steer sends a frame about the connection.
func (p *http2Peer) steer() {
	t := p.t
	switch t.n(3) {
	case 0:
		p.wrote(p.framer.WritePing(false, [8]byte{byte(p.pings)}))
		p.pings++
	case 1:
		was := p.granted
		p.granted = t.n(pick(t, 2, 1000, 1<<17))
		p.wrote(p.framer.WriteSettings(wire.Setting{ID: wire.SettingInitialWindowSize, Val: uint32(p.granted)}))
		p.resizes = append(p.resizes, http2Resize{p.granted - was, p.opened})
	default:
		p.wrote(p.framer.WritePriority(uint32(1+2*t.n(50)), wire.PriorityParam{Weight: 7}))
	}
}

func (p *http2Peer) mayOpen() bool {
	return !p.client.ended && (p.goAways == 0 || p.rude && p.goAways < 3)
}

func (p *http2Peer) open() bool {
	running := 0
	for _, a := range p.asks[:p.opened] {
		if !a.over() {
			running++
		}
	}
	if p.opened == len(p.asks) || !p.mayOpen() || running >= p.s.opts.MaxStreams && !p.greedy && !p.t.once(20) {
		return false
	}
	a := p.asks[p.opened]
	a.id, a.send, a.recv = uint32(2*p.opened+1), p.first, p.granted
	p.opened++
	fields := []string{":method", "POST", ":scheme", "http", ":path", fmt.Sprintf("/%d/%d", a.kind, a.key), ":authority", "sim"}
	if a.announces {
		fields = append(fields, "content-length", strconv.Itoa(a.size))
	}
	if p.t.once(4) {
		fields = append(fields, "priority", fmt.Sprintf("u=%d, i", p.t.n(8)))
	}
	p.section(a, a.size == 0 && !a.trailer, append(fields, "x-noise", a.noise())...)
	a.begun = len(p.out)
	a.refused = a.id > p.final
	return true
}

// section sends a header section, in one frame or in several.
func (p *http2Peer) section(a *http2Ask, end bool, fields ...string) {
	p.block.Reset()
	for i := 0; i < len(fields); i += 2 {
		_ = p.enc.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1], Sensitive: p.t.once(8)}) // into memory
	}
	block := p.block.Bytes()
	n := len(block)
	if p.t.once(4) {
		n = p.t.n(n + 1)
	}
	h := wire.HeadersFrameParam{StreamID: a.id, BlockFragment: block[:n], EndStream: end, EndHeaders: n == len(block)}
	if p.t.once(8) {
		h.PadLength = uint8(p.t.n(256))
	}
	if p.wrote(p.framer.WriteHeaders(h)); n < len(block) {
		p.wrote(p.framer.WriteContinuation(a.id, true, block[n:]))
	}
	if end {
		a.ended = len(p.out)
	}
}

// some returns a random stream that is open and for which f holds.
func (p *http2Peer) some(f func(*http2Ask) bool) *http2Ask {
	for i, k := 0, p.t.n(max(p.opened, 1)); i < p.opened; i, k = i+1, k+1 {
		if a := p.asks[k%p.opened]; f(a) {
			return a
		}
	}
	return nil
}

// sendBody sends a piece of a body, or its end.
func (p *http2Peer) sendBody() bool {
	t := p.t
	a := p.some(func(a *http2Ask) bool {
		return a.ended == 0 && (!a.over() || a.refused && t.once(2)) && (a.sent == a.size || min(a.send, p.send) > 0)
	})
	switch {
	case a == nil:
		return false
	case a.drops && a.sent >= a.size/2 && !a.over():
		a.dropped = true
		p.wrote(p.framer.WriteRSTStream(a.id, wire.ErrCodeCancel))
		return true
	}
	most := 16 << 10
	switch {
	case p.pads:
		most = 1 + t.n(8)
	case p.chunk < most && t.once(2):
		most = 1 + t.n(most)
	}
	n := min(a.size-a.sent, a.send, p.send, most)
	end := a.sent+n == a.size && !a.trailer && (t.once(2) || n == 0)
	var pad []byte
	if room := min(a.send, p.send, 16<<10) - n - 1; room >= 0 && (p.pads && n > 0 || t.once(16)) {
		pad = make([]byte, t.n(min(room, 255)+1))
	}
	if n > 0 || end || pad != nil {
		was := len(p.out)
		p.wrote(p.framer.WriteDataPadded(a.id, end, a.body(a.sent, n), pad))
		used := len(p.out) - was - 9
		a.sent, a.send, p.send = a.sent+n, a.send-used, p.send-used
	} else {
		p.section(a, true, "x-late", a.noise())
	}
	if end {
		a.ended = len(p.out)
	}
	return true
}

// giveWindows opens the window of a stream, or that of the connection.
func (p *http2Peer) giveWindows() bool {
	t, target := p.t, p.target
	if t.w.IsCalm() {
		target = 1 << 20
	}
	more := func(n int) int {
		if t.w.IsCalm() {
			return n
		}
		return 1 + t.n(n)
	}
	if n := max(target, firstWindow/2) - p.recv; n > 0 && (t.w.IsCalm() || t.once(2)) {
		n = more(n)
		p.recv += n
		p.wrote(p.framer.WriteWindowUpdate(0, uint32(n)))
		return true
	}
	a := p.some(func(a *http2Ask) bool {
		return !a.over() && a.recv < min(target, a.due()) && (!a.hostage || p.free() && p.s.opts.MaxAgeGrace == 0)
	})
	if a == nil {
		return false
	}
	n := more(target - a.recv)
	a.recv += n
	p.wrote(p.framer.WriteWindowUpdate(a.id, uint32(n)))
	return true
}
