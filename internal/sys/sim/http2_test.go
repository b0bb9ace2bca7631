package sim_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"golang.org/x/net/http2/hpack"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/http1"
	"github.com/go-eddy/eddy/http2"
	"github.com/go-eddy/eddy/internal/simhook"
)

// The kinds of requests by HTTP/2, by what answers them.
const (
	askFunction = iota // a function on the loop
	askLast            // the same, and it asks for the connection's end
	askInline          // a call on the loop
	askWhole           // a call on a pool that is too small
	askStream          // a call on a pool that reads and writes piece by piece
	askHalf            // the same, but it ends inside its answer
	askHandler         // a net/http handler
	askKinds
)

// http2Streams: many requests at once by HTTP/2, whose frames come in any order, in small windows and in pieces.
func http2Streams(t *trial) { t.http2(false) }

// http2Drain: the same, and the server drains in the middle.
func http2Drain(t *trial) { t.http2(true) }

func (t *trial) http2(drains bool) {
	t.drains = drains
	s := t.http2Server()
	addr := t.listen(s.srv)
	t.disturb(&crowd{srv: s.srv, mild: true})
	t.relieve(s.srv)
	peers := make([]*http2Peer, 1+t.n(8))
	for i := range peers {
		peers[i] = s.peer(addr)
	}
	t.atRest = append(t.atRest, func() {
		for _, p := range peers {
			p.rest()
		}
	})
	if t.once(6) {
		t.w.Rest(1 + t.n(4000))
		s.small.Close()
	}
	if t.load(8000) {
		t.finish()
	}
	if t.w.Err() != nil {
		return
	}
	for _, p := range peers {
		p.verdict()
	}
	if m := s.srv.Stats().Memory; m.Inbound != 0 || m.Outbound != 0 {
		t.w.Failf("memory is counted at the end: %+v", m)
	}
	if s.calls != s.over {
		t.w.Failf("%d calls were made, %d were told that they are over", s.calls, s.over)
	}
}

// http2Server answers requests whose path says what they want.
type http2Server struct {
	t     *trial
	srv   *eddy.Server
	opts  http2.Options
	await int            // longest body that a call awaits
	asks  []*http2Ask    // of all peers
	small *executor.Pool // of askWhole
	large *executor.Pool // of the others, with a worker for each that may wait
	calls int
	over  int
}

func (t *trial) http2Server() *http2Server {
	s := &http2Server{t: t, small: t.pool("small"), await: pick(t, 1000, 64<<10, 300<<10)}
	var err error
	if s.large, err = executor.NewFixed(executor.Options{Name: "large", Workers: 64, OnPanic: func(any, []byte) {}}); err != nil {
		panic(err)
	}
	simhook.SimulatePool(s.large, t.w.Workers())
	s.opts = http2.Options{
		MaxStreams: pick(t, 8, 8, 20, 128), BodyBuffer: pick(t, 64<<10, 128<<10), ResponseBuffer: 1 << (10 + t.n(6)),
		HeaderTimeout: -1, BodyTimeout: -1, IdleTimeout: -1, WriteTimeout: -1, ControlBurst: 1 << 20,
		OnLoop: s.onLoop, Calls: s.follow,
	}
	if t.once(4) {
		s.opts.MaxAge = time.Duration(1+t.n(100)) * time.Millisecond
		s.opts.MaxAgeGrace = time.Duration(t.n(2)*t.n(300)) * time.Millisecond
	}
	t.allow(eddy.CloseNormal)
	marks := t.marks()
	marks.Max = 1 << 20
	s.srv = &eddy.Server{CloseOnEOF: t.once(4), Watermarks: marks, Pools: []*executor.Pool{s.small, s.large}}
	s.srv.Init = http2.NewHandler(http.HandlerFunc(s.serve), s.large, s.opts).Init
	return s
}

// noise is a header field's value that belongs to the request.
func (a *http2Ask) noise() string { return hex.EncodeToString(streamAt(a.key, 0, a.key%40)) }

// find returns the request of a path, which begins to run.
func (s *http2Server) find(path, noise string) *http2Ask {
	var kind, key int
	if _, err := fmt.Sscanf(path, "/%d/%d", &kind, &key); err != nil || key >= len(s.asks) || s.asks[key].kind != kind {
		s.t.w.Failf("a request for %s that nobody has sent", path)
		return nil
	}
	a := s.asks[key]
	if noise != a.noise() {
		s.t.w.Failf("request %d came with the field %q, not %q", key, noise, a.noise())
	}
	return a
}

// run notes that something answers a request, and checks its body if it is whole.
func (s *http2Server) run(a *http2Ask, body []byte, whole bool) {
	if a.ran++; a.ran > 1 {
		s.t.w.Failf("request %d runs twice", a.key)
	}
	if a.peer.active > s.opts.MaxStreams {
		s.t.w.Failf("%s: %d requests run at once", a.peer.name, a.peer.active)
	}
	if whole && !bytes.Equal(body, a.body(0, a.size)) {
		s.t.w.Failf("request %d came with %d bytes, not %d, or with wrong ones", a.key, len(body), a.size)
	}
}

func (s *http2Server) onLoop(w *http1.LoopResponse, r *http1.LoopRequest) bool {
	noise, _ := r.Header("X-Noise")
	a := s.find(string(r.Target()), string(noise))
	if a == nil || a.kind == askHandler {
		return false
	}
	s.run(a, r.Body(), true)
	w.AddHeader("X-Noise", a.noise())
	_, _ = w.Write(a.answer(0, a.answerSize)) // never fails
	if a.kind == askLast {
		w.Close()
	}
	return true
}

// follow makes the calls.
func (s *http2Server) follow(h http2.Head) http2.Followed {
	a := s.find(h.Path(), h.Get("x-noise"))
	if a == nil {
		return http2.Followed{}
	}
	to := http2.Followed{Call: &http2Call{s: s, a: a}}
	switch a.kind {
	case askInline:
		to.OnLoop, to.Await = true, s.await
	case askWhole:
		to.Pool, to.Await = s.small, s.await
	case askStream, askHalf:
		to.Pool = s.large
	default:
		return http2.Followed{}
	}
	s.calls++
	return to
}

// http2Call is a request below net/http.
type http2Call struct {
	s    *http2Server
	a    *http2Ask
	over bool
}

func (c *http2Call) Serve(x *http2.Exchange) {
	s, a := c.s, c.a
	if c.over {
		s.t.w.Failf("request %d runs after it was over", a.key)
	}
	a.peer.active++
	defer func() { a.peer.active-- }()
	begin := func() { _ = x.Begin(http.StatusOK, hpack.HeaderField{Name: "x-noise", Value: a.noise()}) } // an error comes again
	if a.kind == askStream || a.kind == askHalf {
		s.run(a, nil, false)
		begin()
		if s.stream(a, x.Context(), x.Body(), x.Send) == nil && a.kind == askStream {
			x.End(hpack.HeaderField{Name: "x-late", Value: a.noise()})
		}
		return
	}
	if a.kind == askWhole {
		s.doze()
	}
	s.run(a, x.Whole(), x.Context().Err() == nil)
	begin()
	_ = x.Give(a.answer(0, a.answerSize)) // the same
	x.End()
}

func (c *http2Call) Refused(w *http1.LoopResponse, status int, _ string) {
	c.a.refusal = status
	w.Body = append(w.Body[:0], "in its own words"...)
}

func (c *http2Call) Over() {
	if c.over {
		c.s.t.w.Failf("request %d is over twice", c.a.key)
	}
	c.over = true
	c.s.over++
}

// serve is the net/http handler.
func (s *http2Server) serve(w http.ResponseWriter, r *http.Request) {
	a := s.find(r.URL.Path, r.Header.Get("X-Noise"))
	if a == nil {
		return
	}
	a.peer.active++
	defer func() { a.peer.active-- }()
	s.run(a, nil, false)
	w.Header().Set("X-Noise", a.noise())
	err := s.stream(a, r.Context(), r.Body, func(p []byte) error {
		if _, err := w.Write(p); err != nil {
			return err
		}
		w.(http.Flusher).Flush()
		return nil
	})
	if err != nil {
		panic(http.ErrAbortHandler)
	}
}

// doze lets the calling handler take its time.
func (s *http2Server) doze() {
	if !s.t.w.IsCalm() && s.t.once(4) {
		s.t.w.Doze(time.Duration(s.t.n(int(3 * time.Millisecond))))
	}
}

var errOver = errors.New("the request is over")

// stream reads the body and writes the answer, both piece by piece. It never calls what would block the machine: where a
// handler waits for its client, it waits for the world.
func (s *http2Server) stream(a *http2Ask, ctx context.Context, body io.Reader, send func([]byte) error) error {
	ready := func() bool { return true }
	if b, ok := body.(interface{ Ready() bool }); ok {
		ready = b.Ready
	}
	read, sent, all := 0, 0, false
	piece := make([]byte, 1+s.t.n(8<<10))
	for !all || sent < a.answerSize {
		s.doze()
		if ctx.Err() != nil {
			s.doze() // a handler may take its time
			return errOver
		}
		waits := true
		if !all && ready() && (!a.sits || a.peer.free()) {
			n, err := body.Read(piece)
			s.t.same(fmt.Sprintf("request %d", a.key), piece[:n], a.body(read, n), read)
			read += n
			if all, waits = err == io.EOF, false; err != nil && !all {
				return err
			}
		}
		if n := min(s.opts.ResponseBuffer-(sent-a.got), a.answerSize-sent, len(piece)); n > 0 && (all || a.key%2 == 0) {
			if err := send(a.answer(sent, n)); err != nil {
				return err
			}
			sent, waits = sent+n, false
		}
		if a.kind == askHalf && sent >= a.answerSize/2 {
			return nil
		}
		if waits {
			s.t.w.Block()
		}
	}
	if read != a.size {
		s.t.w.Failf("request %d came with %d bytes, not %d", a.key, read, a.size)
	}
	return nil
}
