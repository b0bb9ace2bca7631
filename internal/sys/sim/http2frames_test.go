package sim_test

import (
	"math"
	"net/http"
	"slices"
	"strconv"

	wire "golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/internal/sys/sim"
)

// connWindow is the largest window of a connection that the server gives.
const connWindow = 1 << 20

// take takes the frames that have come whole.
func (p *http2Peer) take(b []byte) {
	_, _ = p.in.Write(b) // into memory
	for p.t.w.Err() == nil {
		h := p.in.Bytes()
		if len(h) < 9 || len(h) < 9+int(h[0])<<16+int(h[1])<<8+int(h[2]) {
			return
		}
		f, err := p.framer.ReadFrame()
		if err != nil {
			p.t.w.Failf("%s: %v", p.name, err)
			return
		}
		p.frame(f)
	}
}

func (p *http2Peer) frame(f wire.Frame) {
	switch f := f.(type) {
	case *wire.SettingsFrame:
		p.settings(f)
	case *wire.WindowUpdateFrame:
		p.window(f)
	case *wire.HeadersFrame:
		p.header(f)
	case *wire.DataFrame:
		p.data(f)
	case *wire.RSTStreamFrame:
		p.reset(f)
	case *wire.GoAwayFrame:
		p.goAway(f)
	case *wire.PingFrame:
		if p.pings--; !f.IsAck() || p.pings < 0 {
			p.t.w.Failf("%s: %v was not asked for", p.name, f)
		}
	default:
		p.t.w.Failf("%s: %v", p.name, f)
	}
}

// settings notes the server's settings, or that it knows ours.
func (p *http2Peer) settings(f *wire.SettingsFrame) {
	switch {
	case f.IsAck() && len(p.resizes) == 0, !f.IsAck() && p.known:
		p.t.w.Failf("%s: %v was not asked for", p.name, f)
	case f.IsAck():
		for _, a := range p.asks[:p.resizes[0].before] {
			a.recv += p.resizes[0].change
		}
		p.resizes = p.resizes[1:]
	default:
		p.known = true
		if v, ok := f.Value(wire.SettingInitialWindowSize); ok {
			for _, a := range p.asks[:p.opened] {
				a.send += int(v) - p.first
			}
			p.first = int(v)
		}
		p.wrote(p.framer.WriteSettingsAck())
	}
}

// window notes that the server takes more. It never takes more than it has memory for.
func (p *http2Peer) window(f *wire.WindowUpdateFrame) {
	n, id := int(f.Increment), f.StreamID
	if id == 0 {
		if p.send += n; p.send > connWindow {
			p.t.w.Failf("%s: the window of the connection is %d", p.name, p.send)
		}
		return
	}
	if a := p.stream(f); a != nil {
		if a.send += n; a.send > max(p.s.opts.BodyBuffer, p.s.await+1) {
			p.t.w.Failf("%s: the window of stream %d is %d", p.name, id, a.send)
		}
	}
}

// stream returns the request of a frame, which must have been sent.
func (p *http2Peer) stream(f wire.Frame) *http2Ask {
	i := int(f.Header().StreamID / 2)
	if i >= p.opened || p.asks[i].refused {
		p.t.w.Failf("%s: %v for a stream that is not open; the last that is taken is %d", p.name, f, p.final)
		return nil
	}
	return p.asks[i]
}

func (p *http2Peer) header(f *wire.HeadersFrame) {
	fields, err := p.dec.DecodeFull(f.HeaderBlockFragment())
	a := p.stream(f)
	if a == nil {
		return
	}
	if err != nil || !f.HeadersEnded() || a.ends > 0 {
		p.t.w.Failf("%s: %v for request %d, %d ends before it: %v", p.name, f, a.key, a.ends, err)
		return
	}
	get := func(name string) string {
		i := slices.IndexFunc(fields, func(h hpack.HeaderField) bool { return h.Name == name })
		if i < 0 {
			return ""
		}
		return fields[i].Value
	}
	switch {
	case a.status != 0:
		a.late = true
		if !f.StreamEnded() || a.kind != askStream || get("x-late") != a.noise() {
			p.t.w.Failf("%s: a second header section of request %d: %v", p.name, a.key, fields)
		}
	default:
		a.status, _ = strconv.Atoi(get(":status")) // 0 is none that is expected
		if a.status == http.StatusOK && get("x-noise") != a.noise() {
			p.t.w.Failf("%s: the answer to request %d has the fields %v", p.name, a.key, fields)
		}
	}
	if f.StreamEnded() {
		p.answered(a)
	}
}

// data checks a piece of an answer against both windows.
func (p *http2Peer) data(f *wire.DataFrame) {
	a, n := p.stream(f), int(f.Length)
	if a == nil {
		return
	}
	if p.recv, a.recv = p.recv-n, a.recv-n; n > 0 && (p.recv < 0 || a.recv < 0) {
		p.t.w.Failf("%s: %d bytes of request %d leave windows of %d and %d", p.name, n, a.key, p.recv, a.recv)
	}
	if a.status == 0 || a.ends > 0 {
		p.t.w.Failf("%s: %v for request %d, whose status is %d, %d ends before it", p.name, f, a.key, a.status, a.ends)
	}
	if a.status == http.StatusOK {
		p.t.same(p.name, f.Data(), a.answer(a.got, n), a.got)
	}
	a.got += n
	if f.StreamEnded() {
		p.answered(a)
	}
}

// answered checks an answer that is whole.
func (p *http2Peer) answered(a *http2Ask) {
	a.ends++
	long := a.size > p.s.await && (a.kind == askInline || a.kind == askWhole)
	ok := false
	switch a.status {
	case http.StatusOK:
		ok = a.got == a.answerSize && a.ran == 1 && !long && a.kind != askHalf && a.sent == a.size && a.late == (a.kind == askStream)
	case http.StatusRequestEntityTooLarge:
		ok = long && a.ran == 0 && a.refusal == a.status
	case http.StatusServiceUnavailable: // no room in its pool
		ok = a.kind == askWhole && a.ran == 0 && a.refusal == a.status
	}
	if !ok {
		p.t.w.Failf("%s: request %d of kind %d was answered %d with %d bytes of %d; it ran %d times; sent %d of %d", p.name, a.key, a.kind, a.status, a.got, a.answerSize, a.ran, a.sent, a.size)
	}
}

// reset checks that something explains the end of a stream.
func (p *http2Peer) reset(f *wire.RSTStreamFrame) {
	a := p.stream(f)
	if a == nil {
		return
	}
	p.resets++
	forgotten := f.ErrCode == wire.ErrCodeStreamClosed && p.resets > 2*p.s.opts.MaxStreams // resets whose streams the server remembers
	if a.ends++; a.ends > 1 && !forgotten && (f.ErrCode != wire.ErrCodeNo || a.status == http.StatusOK || a.ends > 2) {
		p.t.w.Failf("%s: %v of %v for request %d of kind %d, whose status is %d, %d ends before it", p.name, f, f.ErrCode, a.key, a.kind, a.status, a.ends-1)
	}
	a.code = f.ErrCode
	ok := false
	switch f.ErrCode {
	case wire.ErrCodeNo: // the rest of the body is not wanted
		ok = a.ends == 2
	case wire.ErrCodeRefusedStream:
		ok = a.ran == 0 && a.status == 0
	case wire.ErrCodeInternal:
		ok = a.kind == askHalf
	case wire.ErrCodeCancel: // of a client that has ended its side, or in the name of the connection's age
		ok = p.ended || p.goAways > 0 && p.s.opts.MaxAgeGrace > 0
	case wire.ErrCodeStreamClosed: // of frames that the reset by the peer overtook
		ok = a.dropped || forgotten
	}
	if !ok {
		p.t.w.Failf("%s: %v for request %d of kind %d, status %d", p.name, f, a.key, a.kind, a.status)
	}
}

// goAway notes which requests the server takes. Their number never grows.
func (p *http2Peer) goAway(f *wire.GoAwayFrame) {
	if p.goAways++; f.ErrCode != wire.ErrCodeNo || p.goAways > 1 && f.LastStreamID > p.final {
		p.t.w.Failf("%s: %v, and the last stream was %d: %q", p.name, f, p.final, f.DebugData())
	}
	p.final = f.LastStreamID
	for _, a := range p.asks[:p.opened] {
		if a.id > p.final && !a.over() {
			a.refused = true
		}
	}
}

// rest: without trouble no request of an open connection waits for anything.
func (p *http2Peer) rest() {
	l := p.t.lifeOf(p.client)
	if l == nil || !p.whole() || p.over || p.client.ending == vanish {
		return
	}
	for i, a := range p.asks {
		if i < p.opened && !a.over() || i >= p.opened && p.goAways == 0 {
			p.t.w.Failf("%s: request %d of kind %d waits (hostage %v, sits %v): sent %d of %d with windows %d and %d, got %d of %d with windows %d and %d", p.name,
				a.key, a.kind, a.hostage, a.sits, a.sent, a.size, a.send, p.send, a.got, a.answerSize, a.recv, p.recv)
		}
	}
	if p.pings > 0 || len(p.resizes) > 0 || p.s.opts.MaxAge > 0 && l.closed == 0 {
		p.t.w.Failf("%s: %d PINGs and %d SETTINGS wait; closed %d times, the age is %v", p.name, p.pings, len(p.resizes), l.closed, p.s.opts.MaxAge)
	}
}

// verdict: on a connection that ended in order every request has had its end, and who was refused can try again.
func (p *http2Peer) verdict() {
	l := p.t.lifeOf(p.client)
	for _, a := range p.asks {
		if a.ran > 0 && (a.refused || a.code == wire.ErrCodeRefusedStream) {
			p.t.w.Failf("%s: request %d was refused and ran", p.name, a.key)
		}
	}
	counts := p.t.w.Counts()
	switch {
	case l == nil, !p.whole(), !p.eof, l.err != nil:
		return
	case p.t.endsFrom != 0 && l.ended >= p.t.endsFrom && !p.t.whole, counts[sim.AddFails]+counts[sim.ModifyFails]+counts[sim.WaitFails] > 0:
		return // perhaps by force
	}
	switch l.reason {
	case eddy.CloseServerShutdown:
		if p.goAways == 0 || p.final == math.MaxInt32 {
			p.t.w.Failf("%s: the server has drained after %d GOAWAYs, the last with stream %d", p.name, p.goAways, p.final)
		}
	case eddy.CloseNormal:
		if p.goAways == 0 {
			p.t.w.Failf("%s: the connection has ended in order without a GOAWAY", p.name)
		}
	case eddy.ClosePeerClosed:
		if p.s.srv.CloseOnEOF {
			return
		}
	default:
		return
	}
	for _, a := range p.asks[:p.opened] {
		if a.begun <= p.sent && !a.over() {
			p.t.w.Failf("%s: no end of request %d of kind %d, before %v; sent %d of %d, got %d of %d", p.name, a.key, a.kind, l.reason, a.sent, a.size, a.got, a.answerSize)
		}
	}
}
