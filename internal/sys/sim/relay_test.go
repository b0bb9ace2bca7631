package sim_test

import (
	"errors"
	"net"
	"net/netip"
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/buf"
	"github.com/go-eddy/eddy/internal/sys/sim"
	"github.com/go-eddy/eddy/relay"
)

// relays: pairs of peers with a relay between them, whose sides are on one loop or on loops of two groups. Both peers send,
// read at their own speed and end as they like. With bulk they send much, on one loop, past no handler that reads.
func relays(t *trial, bulk bool) {
	front := t.newGroup(1 + t.n(3))
	back := front
	if !bulk && t.once(2) {
		back = t.newGroup(1 + t.n(3))
		back.TaskQueue = pick(t, 1, 2, 10, 500)
		t.groups = append(t.groups, back)
	}
	t.groups, t.dialed, t.endure = append(t.groups, front), true, true
	r := &relayTrial{t: t, greets: t.once(3), bulk: bulk}
	r.srv = &eddy.Server{Group: front, Watermarks: r.marks(), Overflow: pick(t, eddy.OverflowClose, eddy.OverflowReject)}
	r.dialer = &eddy.Dialer{
		Group: back, Logger: quiet(), Watermarks: r.marks(), Overflow: r.srv.Overflow, Init: r.initDialed,
		ConnectTimeout: time.Duration(1+t.n(2000)) * time.Millisecond,
	}
	t.allow(eddy.CloseNormal)
	if back != front { // a piece, or the other side's outcome, that its loop has no room for
		t.w.Often(sim.TaskStorm)
		t.allow(eddy.CloseBackpressureLimit)
	}
	var err error
	if r.relay, err = relay.New(r.options()); err != nil {
		t.w.Failf("relay.New: %v", err)
		return
	}
	r.srv.Init = func(p *eddy.Pipeline) error {
		if err := r.tap(p, false); err != nil {
			return err
		}
		if r.greets {
			return p.Add("relay", r.relay.Handler(nil, r.connected))
		}
		return r.relay.Init(p)
	}
	addr := t.listen(r.srv)
	t.enders = append(t.enders, r.dialer)
	t.w.Serve(netip.MustParseAddrPort("0.0.0.0:80"), r.accept)
	for range 1 + t.n(12) {
		r.join(addr)
	}
	t.w.Never(sim.OffLoopPause) // the switch is the relay's
	if bulk && t.once(3) {
		t.w.Always(sim.NoPipe)
	}
	t.disturb(&crowd{srv: r.srv, mild: true})
	t.atRest = append(t.atRest, r.rest)
	if t.load(8000) {
		t.finish()
	}
	if t.w.Err() == nil {
		r.verdict()
	}
}

// options returns the relay's options, in some trials with deadlines.
func (r *relayTrial) options() relay.Options {
	t := r.t
	o := relay.Options{Dialer: r.dialer, Logger: quiet(), Target: r.targetOf, Done: r.done}
	if t.once(3) {
		o.Idle = time.Duration(5+t.n(100)) * time.Second
		t.allow(eddy.CloseIdleTimeout)
		r.late = true
	}
	if t.once(3) {
		r.srv.BackpressureTimeout = time.Duration(1+t.n(20)) * time.Second
		r.dialer.BackpressureTimeout = r.srv.BackpressureTimeout
		t.allow(eddy.CloseBackpressureLimit)
		r.late = true
	}
	return o
}

// relayTrial holds what a relay is checked against.
type relayTrial struct {
	t       *trial
	relay   *relay.Relay
	srv     *eddy.Server
	dialer  *eddy.Dialer
	all     []*link
	opened  uint64 // accepted sides
	reports uint64
	late    bool // deadlines may end a pair
	greets  bool // the client is told first whether its target is there
	bulk    bool // peers send much, and nothing that reads stands in front, so that the kernel moves bytes past the relay
}

// link is a pair of peers.
type link struct {
	name           string
	client, target *client
	addr           netip.AddrPort // of the target
	unnamed        bool
	near, far      *tap // the relay's side of each; nil = it was not opened
	reports        int
	report         relay.Report
	greeting       string // that the client was told
}

// marks are low. Bytes that are read at once when the queue is just below High may go beyond Max.
func (r *relayTrial) marks() eddy.Watermarks {
	m := r.t.marks()
	m.Max = m.High + r.t.n(2)*r.t.n(64<<10)
	return m
}

func (r *relayTrial) join(addr netip.AddrPort) {
	t := r.t
	n := len(r.all) + 1
	k := &link{addr: netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 2, 0, byte(n)}), 80)}
	r.all = append(r.all, k)
	k.client = t.join(addr, r.peer())
	k.target = t.enroll(r.peer())
	k.name = k.client.name + " and " + k.target.name
	k.client.other, k.target.other = k.target, k.client
	for _, c := range []*client{k.client, k.target} {
		id := c.other.id
		c.out, c.most = stream(c.id, len(c.out)), len(c.other.out)
		if r.bulk {
			c.chunk, c.gulp = 1<<16, 1<<16
		}
		c.want = func(from, n int) []byte { return streamAt(id, from, n) }
	}
	if r.greets {
		k.client.most += len(greetings[0])
		k.client.want = func(from, n int) []byte {
			head := k.greeting[min(from, len(k.greeting)):min(from+n, len(k.greeting))]
			return append([]byte(head), streamAt(k.target.id, max(0, from-len(k.greeting)), n-len(head))...)
		}
	}
	switch {
	case t.once(12): // nobody is there
		k.addr = netip.AddrPortFrom(k.addr.Addr(), 9)
	case t.once(12):
		k.unnamed = true
	}
}

// accept begins the life of a target's peer.
func (r *relayTrial) accept(p *sim.Peer) {
	for _, k := range r.all {
		if k.addr != p.Addr() {
			continue
		}
		if k.target.p != nil {
			r.t.w.Failf("%s: dialed twice", k.name)
		}
		k.target.p = p
		if k.target.room > 0 {
			p.SetWindow(k.target.room)
			p.SetRoom(k.target.room)
		}
		r.t.peers[p.Addr()] = k.target
		r.t.w.Act(k.target.name, k.target.act)
	}
}

// peer is one end of a pair.
func (r *relayTrial) peer() *client {
	t := r.t
	size, room := t.n(1<<(4+t.n(14))), 0
	if r.bulk {
		size, room = t.n(512<<10), 64<<10
	}
	return &client{
		room:   room,
		out:    make([]byte, size),
		goes:   t.once(2),
		nap:    time.Duration(t.n(1<<t.n(8))) * time.Millisecond,
		ending: pick(t, finAfterAll, finAfterAll, finAfterAll, closeAfterAll, stay, finEarly, closeEarly, resetEarly, vanish),
	}
}

func (r *relayTrial) targetOf(c *eddy.Conn) (net.Addr, error) {
	k := r.of(c)
	if k == nil || k.unnamed {
		return nil, errors.New("no name")
	}
	return net.TCPAddrFromAddrPort(k.addr), nil
}

// greetings tell the client whether the target is connected.
var greetings = [2]string{"there ", "nobody"}

func (r *relayTrial) connected(ctx *eddy.Context, err error) {
	k := r.of(ctx.Conn())
	if k.greeting != "" {
		r.t.w.Failf("%s: a second outcome: %v", k.name, err)
	}
	if k.greeting = greetings[0]; err != nil {
		k.greeting = greetings[1]
	}
	_ = ctx.WriteBytes([]byte(k.greeting))
}

// due returns how many of the bytes sent so far a peer should get.
func (k *link) due(to *client) int {
	if to == k.client {
		return k.target.sent + len(k.greeting)
	}
	return k.client.sent
}

// of returns the link of an accepted connection.
func (r *relayTrial) of(c *eddy.Conn) *link {
	from := r.t.peers[c.RemoteAddr()]
	for _, k := range r.all {
		if k.client == from || k.addr == c.RemoteAddr() {
			return k
		}
	}
	return nil
}

func (r *relayTrial) initDialed(p *eddy.Pipeline) error {
	if err := r.tap(p, true); err != nil {
		return err
	}
	l := &life{t: r.t, conn: p.Conn(), dialed: true}
	if r.bulk {
		return p.Add("life", deafLife{l, l, l, l})
	}
	return p.Add("life", l)
}

// deafLife is a life that reads nothing.
type deafLife struct {
	eddy.OpenHandler
	eddy.EventHandler
	eddy.WritabilityHandler
	eddy.CloseHandler
}

func (r *relayTrial) done(d relay.Report) {
	r.reports++
	r.t.w.Progress()
	for _, k := range r.all {
		if k.client.p != nil && k.client.p.Addr().String() == d.Client {
			if k.reports++; k.reports > 1 {
				r.t.w.Failf("%s: reported twice: %+v", k.name, d)
			}
			k.report = d
			return
		}
	}
	r.t.w.Failf("the report of nobody's pair: %+v", d)
}

// tap stands in front of a relay's side.
type tap struct {
	r     *relayTrial
	far   bool
	link  *link
	conn  *eddy.Conn
	read  int
	most  int // bytes at once
	ended bool
}

func (p *tap) HandleOpen(ctx *eddy.Context) error {
	p.conn = ctx.Conn()
	if p.link = p.r.of(p.conn); p.link == nil {
		p.r.t.w.Failf("a connection with %v, which is nobody", p.conn.RemoteAddr())
		return nil
	}
	if p.far {
		p.link.far = p
	} else {
		p.link.near = p
		p.r.opened++
	}
	return nil
}

// tap adds a tap. With bulk it does not read.
func (r *relayTrial) tap(p *eddy.Pipeline, far bool) error {
	t := &tap{r: r, far: far}
	if r.bulk {
		return p.Add("tap", t)
	}
	return p.Add("tap", &readingTap{t})
}

// HandleWritability checks the bytes that wait for the peer: at most High when the last piece was moved, plus the piece.
func (p *tap) HandleWritability(ctx *eddy.Context, writable bool) error {
	if q := ctx.Conn().QueuedBytes(); !writable && q >= int64(ctx.Conn().Watermarks().High)+64<<10 {
		p.r.t.w.Failf("%s: %d bytes wait, High is %d", p.link.name, q, ctx.Conn().Watermarks().High)
	}
	return nil
}

// readingTap is a tap that sees what its side reads.
type readingTap struct{ *tap }

// HandleRead checks the bytes that wait for the other peer: at most High when the piece was read, plus the piece.
func (p *readingTap) HandleRead(ctx *eddy.Context, msg any) error {
	n := msg.(*buf.Bytes).Len()
	p.read, p.most = p.read+n, max(p.most, n)
	ctx.FireRead(msg)
	to, high := p.link.near, p.r.srv.Watermarks.High
	if !p.far {
		to, high = p.link.far, p.r.dialer.Watermarks.High
	}
	switch {
	case to == nil:
		p.r.t.w.Failf("%s: a piece was read before the other side stands", p.link.name)
	case to.conn.QueuedBytes() >= int64(high+p.most):
		p.r.t.w.Failf("%s: %d bytes wait, High is %d and no piece was longer than %d", p.link.name, to.conn.QueuedBytes(), high, p.most)
	}
	return nil
}

func (p *tap) HandleClose(*eddy.Context, eddy.CloseReason, error) {
	if p.ended = true; !p.far && p.link != nil && p.link.far == nil { // its target could not be reached
		p.link.client.closedFor = append(p.link.client.closedFor, eddy.CloseIOError)
	}
}

// rest: without faults no pair stands still that could go on.
func (r *relayTrial) rest() {
	for _, k := range r.all {
		if k.near == nil {
			continue // never accepted
		}
		over := k.near.ended || k.far != nil && k.far.ended
		switch {
		case k.reports == 1 && !over, k.reports == 0 && over, k.reports == 0 && k.far == nil:
			r.t.w.Failf("%s: %d reports; sides %v, ended %v, %v", k.name, k.reports, k.far != nil, k.near.ended, k.far != nil && k.far.ended)
		case over:
			r.told(k)
		default:
			r.flows(k, k.client, k.target)
			r.flows(k, k.target, k.client)
		}
	}
}

// told: both peers of an ended pair have noticed its end.
func (r *relayTrial) told(k *link) {
	for _, c := range []*client{k.client, k.target} {
		if c.p != nil && c.ending != vanish && !c.over && c.failed == nil {
			r.t.w.Failf("%s: the pair has ended (%+v), and %s was not told", k.name, k.report, c.name)
		}
	}
}

// flows: on an open pair all bytes that one peer has sent have reached the other, and it could send all.
func (r *relayTrial) flows(k *link, from, to *client) {
	switch {
	case to.ending == vanish && to.over:
	case to.got != k.due(to):
		r.t.w.Failf("%s stands still: %d bytes from %s have come, of %d; the relay has read %d and %d, %d and %d wait", k.name, to.got, from.name, k.due(to),
			k.near.read, k.far.read, k.near.conn.QueuedBytes(), k.far.conn.QueuedBytes())
	case from.p.Ended() && !to.eof && !to.over:
		r.t.w.Failf("%s: the end of %s has not come", k.name, from.name)
	case !from.over && !from.ended && !(from.eof && !from.goes) && from.sent < len(from.out):
		r.t.w.Failf("%s: %s has sent %d bytes of %d and could send more", k.name, from.name, from.sent, len(from.out))
	}
}

// verdict: the received bytes were whole or visibly cut, and every pair was reported.
func (r *relayTrial) verdict() {
	t := r.t
	if s := r.relay.Stats(); s.Active != 0 || s.Pairs != r.opened || r.reports != r.opened {
		t.w.Failf("%d pairs were opened, %d reported: %+v", r.opened, r.reports, s)
	}
	for _, k := range r.all {
		if k.near == nil {
			continue
		}
		if r.bulk {
			k.near.read = int(k.report.In)
			if k.far != nil {
				k.far.read = int(k.report.Out)
			}
		}
		r.told(k)
		if k.far != nil {
			r.whole(k, k.client, k.target)
			if k.far.read > k.target.sent || int64(k.far.read) != k.report.Out {
				t.w.Failf("%s: %d bytes read from the target, which sent %d: %+v", k.name, k.far.read, k.target.sent, k.report)
			}
		}
		r.whole(k, k.target, k.client)
		if k.near.read > k.client.sent || int64(k.near.read) != k.report.In {
			t.w.Failf("%s: %d bytes read from the client, which sent %d: %+v", k.name, k.near.read, k.client.sent, k.report)
		}
		r.fair(k)
	}
}

// whole: an orderly end comes behind everything that the other peer has sent and has ended in order.
func (r *relayTrial) whole(k *link, from, to *client) {
	if !to.eof || to.failed != nil || to.p.Harmed() {
		return
	}
	if to == k.client && k.greeting == greetings[1] && to.got == len(k.greeting) {
		return // it was told in words
	}
	if from.p == nil || !from.p.Ended() || to.got != k.due(to) {
		r.t.w.Failf("%s: %s has got %d bytes and then an orderly end; %s has sent %d, ended in order %v: %+v",
			k.name, to.name, to.got, from.name, k.due(to), from.p != nil && from.p.Ended(), k.report)
	}
}

// fair: a pair whose peers do not break it is not cut.
func (r *relayTrial) fair(k *link) {
	t := r.t
	counts := t.w.Counts()
	a, b := k.client, k.target
	if k.far == nil || r.late || errors.Is(k.report.Err, eddy.ErrSaturated) || // no room for the news that the target is there
		counts[sim.AddFails]+counts[sim.ModifyFails]+counts[sim.WaitFails] > 0 ||
		k.near.conn.CloseError().Reason == eddy.CloseServerShutdown || k.far.conn.CloseError().Reason == eddy.CloseServerShutdown {
		return
	}
	if a.p.Harmed() || b.p.Harmed() || a.broke || b.broke || a.ending == vanish || b.ending == vanish {
		return
	}
	if a.got != k.due(a) || b.got != k.due(b) || a.failed != nil || b.failed != nil {
		t.w.Failf("%s: cut: got %d of %d and %d of %d; %v, %v: %+v", k.name, a.got, k.due(a), b.got, k.due(b), a.failed, b.failed, k.report)
	}
}
