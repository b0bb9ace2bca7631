package relay_test

import (
	"bytes"
	"crypto/md5"
	"crypto/tls"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/buf"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/internal/enginetest"
	"github.com/go-eddy/eddy/internal/testkit"
	"github.com/go-eddy/eddy/tlsx"
)

// splices reports whether bulk is spliced here, and not only copied.
var splices = os.Getenv("EDDY_POLLER") != "net"

// spliced returns how many bytes the kernel has moved on the server's loops.
func (r *rig) spliced() (n uint64) {
	for _, l := range enginetest.Stats(r.t, r.srv).Loops {
		n += l.BytesSpliced
	}
	return n
}

// wantSpliced waits for more than least bytes that were spliced, or wants none.
func (r *rig) wantSpliced(least uint64, any bool) {
	r.t.Helper()
	switch {
	case !any || !splices:
		if n := r.spliced(); n != 0 {
			r.t.Errorf("%d bytes were spliced", n)
		}
	default:
		testkit.Eventually(r.t, "splices", func() bool { return r.spliced() > least })
	}
}

// noise is bytes that differ from place to place.
func noise(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{2}).Read(b)
	return b
}

// closeWriter is an end of a pair.
type closeWriter interface {
	io.ReadWriter
	CloseWrite() error
}

// exchange sends data both ways at once and compares what comes. Both streams end in order.
func exchange(t *testing.T, a, b closeWriter, data []byte) {
	t.Helper()
	done := make(chan struct{}, 2)
	for _, end := range []closeWriter{a, b} {
		go func() {
			defer func() { done <- struct{}{} }()
			if _, err := end.Write(data); err != nil {
				t.Error(err)
			}
			_ = end.CloseWrite()
		}()
	}
	for _, end := range []closeWriter{a, b} {
		go func() {
			defer func() { done <- struct{}{} }()
			if got, err := io.ReadAll(end); err != nil || !bytes.Equal(got, data) {
				t.Errorf("%d bytes of %d, %v, or others", len(got), len(data), err)
			}
		}()
	}
	for range 4 {
		testkit.Receive(t, "both streams", done)
	}
}

// TestBulkBothWays: bulk comes byte for byte, through the kernel on one loop, through the process on two. What a report
// counts is the same.
func TestBulkBothWays(t *testing.T) {
	data := noise(32 << 20)
	places(t, func(t *testing.T, far bool) {
		before := descriptors(t)
		r := newRig(t, setup{far: far})
		for range 2 {
			c, s := r.pair()
			exchange(t, c, s, data)
			if d := r.report(); d.In != int64(len(data)) || d.Out != d.In || d.Reason != eddy.ClosePeerClosed {
				t.Errorf("%+v", d)
			}
		}
		r.wantSpliced(uint64(len(data)), !far)
		_ = r.srv.Close()
		_ = r.dialer.Close()
		_ = r.srv.Group.Close()
		_ = r.dialer.Group.Close()
		r.target.Close()
		testkit.Eventually(t, "no descriptor more than before", func() bool { return descriptors(t) <= before+4 }) // two clients
	})
}

// descriptors returns how many this process has open.
func descriptors(t *testing.T) int {
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(open)
}

// TestSplicedSlowReader: a reader that stops holds its source back, and the queue is bounded as without splices. It gets
// every byte.
func TestSplicedSlowReader(t *testing.T) {
	const size, high = 24 << 20, 256 << 10
	marks := eddy.Watermarks{Low: 64 << 10, High: high, Max: high}
	sides := make(chan *eddy.Conn, 1)
	r := newRig(t, setup{
		server: func(s *eddy.Server) { s.Watermarks = marks },
		dialer: func(d *eddy.Dialer) {
			d.Watermarks = marks
			d.Init = func(p *eddy.Pipeline) error { sides <- p.Conn(); return nil }
		},
	})
	source, sink := r.pair()
	to := testkit.Receive(t, "the dialed side", sides)
	sent, got := md5.New(), md5.New()
	over := make(chan error, 1)
	go func() {
		_, err := io.CopyN(io.MultiWriter(source, sent), rand.NewChaCha8([32]byte{1}), size)
		_ = source.CloseWrite()
		over <- err
	}()
	n, most := int64(0), int64(0)
	for k := range 100 { // each time until nothing moves any more
		m, err := io.CopyN(got, sink, int64(k)<<12)
		if n += m; err != nil {
			t.Fatalf("after %d bytes: %v", n, err)
		}
		enginetest.Barrier(t, r.srv)
		most = max(most, to.QueuedBytes())
	}
	if in := enginetest.Stats(t, r.srv).Loops; in[0].BytesIn+in[1].BytesIn > uint64(n)+8<<20 {
		t.Errorf("%d and %d bytes were read although only %d were taken", in[0].BytesIn, in[1].BytesIn, n)
	}
	m, err := io.Copy(got, sink)
	if serr := testkit.Receive(t, "all to be sent", over); serr != nil {
		t.Error(serr)
	}
	if n += m; n != size || err != nil || !bytes.Equal(sent.Sum(nil), got.Sum(nil)) {
		t.Errorf("%d of %d bytes, %v, or others", n, size, err)
	}
	if most > high+64<<10 {
		t.Errorf("up to %d bytes were queued, want at most %d and a read", most, high)
	}
	r.wantSpliced(size/4, true)
}

// TestSplicedCuts: a reset at either end while a pipe holds bytes resets the other end, and no pipe or pair stays.
func TestSplicedCuts(t *testing.T) {
	for name, cut := range map[string]func(source, sink *enginetest.Peer) (left *enginetest.Peer){
		"the source resets": func(source, sink *enginetest.Peer) *enginetest.Peer { source.Reset(); return sink },
		"the sink resets":   func(source, sink *enginetest.Peer) *enginetest.Peer { sink.Reset(); return source },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, setup{})
			before := descriptors(t)
			for range 5 {
				source, sink := r.pair()
				go func() { // until somebody ends it
					for b := noise(64 << 10); ; {
						if _, err := source.Write(b); err != nil {
							return
						}
					}
				}()
				was := r.spliced()
				r.fillPipe(sink, was)
				if left := cut(source, sink); left == sink {
					left.ExpectReset()
				} else {
					testkit.Eventually(t, "writes to fail", func() bool { _, err := left.Write([]byte("?")); return err != nil })
				}
				if d := r.report(); d.Reason != eddy.CloseIOError {
					t.Errorf("%+v", d)
				}
				source.Close()
				sink.Close()
			}
			testkit.Eventually(t, "no pair", func() bool { return r.relay.Stats().Active == 0 && r.dialer.Stats().Active == 0 })
			testkit.Eventually(t, "few descriptors", func() bool { return descriptors(t) <= before+2*2*4 }) // idle pipes of two loops
		})
	}
}

// fillPipe reads until bytes of the pair were spliced, and then no more, so that a pipe holds some.
func (r *rig) fillPipe(sink *enginetest.Peer, was uint64) {
	r.t.Helper()
	into := make([]byte, 256<<10)
	testkit.Eventually(r.t, "splices", func() bool {
		_, _ = io.ReadFull(sink, into)
		return r.spliced() > was || !splices
	})
	for last := uint64(1); last != r.spliced(); { // until nothing moves any more
		last = r.spliced()
		enginetest.Barrier(r.t, r.srv)
	}
}

// TestNotSpliced: bytes that a handler in front must see are copied: through TLS, and from the moment that a handler is
// added in front.
func TestNotSpliced(t *testing.T) {
	data := noise(4 << 20)
	t.Run("TLS", func(t *testing.T) {
		cert, err := tlsx.SelfSigned("localhost")
		if err != nil {
			t.Fatal(err)
		}
		pool, err := executor.NewFixed(executor.Options{Name: "handshakes", Workers: 1, Queue: 16})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { pool.Close() })
		layer, err := tlsx.Server(&tls.Config{Certificates: []tls.Certificate{cert}}, pool, tlsx.Options{})
		if err != nil {
			t.Fatal(err)
		}
		r := newRig(t, setup{init: func(r *rig) func(*eddy.Pipeline) error {
			return func(p *eddy.Pipeline) error { return errors.Join(p.Add("tls", layer), r.relay.Init(p)) }
		}})
		raw, s := r.pair()
		c := tls.Client(raw, &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // the certificate is this test's own
		exchange(t, c, s, data)
		r.wantSpliced(0, false)
	})
	t.Run("a handler added", func(t *testing.T) {
		conns := make(chan *eddy.Conn, 1)
		r := newRig(t, setup{init: func(r *rig) func(*eddy.Pipeline) error {
			return func(p *eddy.Pipeline) error { conns <- p.Conn(); return r.relay.Init(p) }
		}})
		c, s := r.pair()
		through := func() {
			t.Helper()
			go func() { _, _ = c.Write(data) }()
			got := make([]byte, len(data))
			if _, err := io.ReadFull(s, got); err != nil || !bytes.Equal(got, data) {
				t.Fatalf("the bytes differ, or %v", err)
			}
		}
		through()
		r.wantSpliced(0, true)
		seen := 0
		added := make(chan error, 1)
		conn := testkit.Receive(t, "the connection", conns)
		meter := eddy.Handle(func(ctx *eddy.Context, m *buf.Bytes) error { seen += m.Len(); ctx.FireRead(m); return nil })
		err := conn.Change(func(p *eddy.Pipeline) error { return p.AddFirst("meter", meter) }, func(err error) { added <- err })
		if err != nil {
			t.Fatal(err)
		}
		if err := testkit.Receive(t, "the change", added); err != nil {
			t.Fatal(err)
		}
		was := r.spliced()
		through()
		if n := r.spliced(); n != was {
			t.Errorf("%d bytes were spliced past the new handler", n-was)
		}
		if enginetest.Barrier(t, r.srv); seen != len(data) {
			t.Errorf("the new handler has seen %d bytes of %d", seen, len(data))
		}
	})
}

// TestManySlowPairs: more pairs than there are pipes, whose readers stop for a while. All get their bytes.
func TestManySlowPairs(t *testing.T) {
	const pairs = 150 // on two loops with 64 pipes each
	data := noise(1 << 20)
	r := newRig(t, setup{})
	type ends struct{ c, s *enginetest.Peer }
	var all []ends
	for range pairs {
		c, s := r.pair()
		all = append(all, ends{c, s})
		go func() { _, _ = c.Write(data); _ = c.CloseWrite() }()
	}
	for last := uint64(1); last != r.spliced(); {
		last = r.spliced()
		enginetest.Barrier(t, r.srv)
	}
	for _, e := range all {
		if got, err := io.ReadAll(e.s); err != nil || !bytes.Equal(got, data) {
			t.Fatalf("%d bytes of %d, %v, or others", len(got), len(data), err)
		}
		_ = e.s.CloseWrite()
		e.c.ExpectEnd()
		e.c.Close()
		e.s.Close()
	}
	for range pairs {
		if d := r.report(); d.In != int64(len(data)) || d.Reason != eddy.ClosePeerClosed {
			t.Errorf("%+v", d)
		}
	}
	r.wantSpliced(pairs*64<<10, true)
}
