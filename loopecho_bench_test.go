package eddy

import (
	"testing"
	"time"

	"github.com/go-eddy/eddy/buf"
	"github.com/go-eddy/eddy/internal/meter"
	"github.com/go-eddy/eddy/internal/sys"
)

// hotSockets and hotPoller are a kernel that costs nothing: every connection is readable once per wait and takes all that
// is written.
type hotSockets struct {
	stageSockets
	pending []bool // by descriptor: a request waits
}

func (s *hotSockets) Read(fd int, p []byte) (int, error) {
	if !s.pending[fd] {
		return 0, sys.ErrAgain
	}
	s.pending[fd] = false
	return 64, nil
}

func (s *hotSockets) Write(_ int, p []byte) (int, error) { return len(p), nil }

type hotPoller struct {
	stagePoller
	sock   *hotSockets
	tokens []sys.Event
}

func (p *hotPoller) Wait(events []sys.Event, _ time.Duration) (int, error) {
	for _, e := range p.tokens {
		p.sock.pending[int(uint32(e.Token))] = true
	}
	return copy(events, p.tokens), nil
}

// hotLoop is a loop with so many connections on such a kernel, which echo.
func hotLoop(tb testing.TB, conns int) *loop {
	srv := &Server{Init: func(p *Pipeline) error {
		return p.Add("echo", Handle(func(ctx *Context, m *buf.Bytes) error { return ctx.WriteBytes(m.Bytes()) }))
	}}
	st, l := newStage(tb, srv)
	sock := &hotSockets{stageSockets: stageSockets{st}, pending: make([]bool, conns)}
	p := &hotPoller{sock: sock}
	for range conns {
		c := st.connect(l).conn
		c.fd = int(c.slot)
		p.tokens = append(p.tokens, sys.Event{Token: c.token(), Ready: sys.Readable})
	}
	l.sock, l.Poller = sock, p
	return l
}

// BenchmarkLoopEcho is the engine's own part of an echo of 64 bytes: wait, read, decode, handle, queue, flush, without the
// kernel's. One op is one message.
func BenchmarkLoopEcho(b *testing.B) {
	const conns = 100
	l := hotLoop(b, conns)
	b.ReportAllocs()
	for n := 0; n < b.N; n += conns {
		l.Iterate()
	}
	if got := l.Counters[meter.Messages]; got < uint64(b.N) {
		b.Fatalf("%d messages, want %d", got, b.N)
	}
}
