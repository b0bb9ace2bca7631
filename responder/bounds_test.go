package responder_test

import (
	"bytes"
	"context"
	"io"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/codec/line"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/internal/enginetest"
	"github.com/go-eddy/eddy/internal/testkit"
	"github.com/go-eddy/eddy/responder"
)

// counter is a server that answers each line with as many bytes, made on a pool by a function that waits for the gate.
type counter struct {
	t    *testing.T
	srv  *eddy.Server
	pool *executor.Pool
	conn *eddy.Conn
	peer *enginetest.Peer
	gate chan struct{}
	made atomic.Int64 // requests that the loop has taken
	runs atomic.Int64 // functions that have begun
}

func newCounter(t *testing.T, answer, inFlight int) *counter {
	t.Helper()
	k := &counter{t: t, pool: newPool(t, 64, 64), gate: make(chan struct{})}
	r, err := responder.New(responder.Options[*line.Line]{
		Pool:     k.pool,
		InFlight: inFlight,
		Run: func(context.Context, *line.Line) (any, error) {
			k.runs.Add(1)
			<-k.gate
			return nil, nil
		},
		Answer: func(*line.Line, any, error) any { return bytes.Repeat([]byte("x"), answer) },
	})
	if err != nil {
		t.Fatal(err)
	}
	conns := make(chan *eddy.Conn, 1)
	k.srv = &eddy.Server{Loops: 1, Watermarks: eddy.Watermarks{Low: 1 << 10, High: 20 << 10, Max: 40 << 10}}
	k.srv.Init = func(p *eddy.Pipeline) error {
		conns <- p.Conn()
		p.Add("lines", line.Codec(0))
		p.Add("count", eddy.Handle(func(ctx *eddy.Context, l *line.Line) error {
			k.made.Add(1)
			ctx.FireRead(l)
			return nil
		}))
		return p.Add("answers", r)
	}
	k.peer = enginetest.Dial(t, enginetest.Serve(t, k.srv))
	k.conn = testkit.Receive(t, "the connection", conns)
	return k
}

// ask sends n requests and returns when the loop has taken all that it takes now.
func (k *counter) ask(n int) {
	k.t.Helper()
	k.peer.Send(strings.Repeat("a\n", n))
	enginetest.Barrier(k.t, k.srv)
}

// took waits until the loop has taken n requests, of which so many have been answered, and takes no further one.
func (k *counter) took(n, answered int64) {
	k.t.Helper()
	testkit.Eventually(k.t, "the requests to begin", func() bool { return k.made.Load() >= n && k.runs.Load() >= n })
	enginetest.Barrier(k.t, k.srv)
	if made := k.made.Load(); made != n {
		k.t.Errorf("%d requests have begun when %d were answered, want %d", made, answered, n)
	}
}

// answered reads so many answers.
func (k *counter) answered(n, size int) {
	k.t.Helper()
	if _, err := io.ReadFull(k.peer, make([]byte, n*size)); err != nil {
		k.t.Fatal(err)
	}
}

// TestAnswersShareATask: the responses that a connection's requests bring while the loop is busy are one task for it, and
// there is one again for the next ones.
func TestAnswersShareATask(t *testing.T) {
	const each = 20
	k := newCounter(t, 1, 0)
	for round := int64(1); round <= 2; round++ {
		k.ask(each)
		k.took(round*each, (round-1)*each)
		busy, goOn := make(chan struct{}), make(chan struct{})
		if err := k.conn.Post(func() { close(busy); <-goOn }); err != nil {
			t.Fatal(err)
		}
		testkit.Receive(t, "the loop", busy)
		for range each {
			k.gate <- struct{}{}
		}
		testkit.Eventually(t, "the responses", func() bool {
			return k.pool.Stats().Running == 0 && k.conn.QueuedBytes() == each
		})
		if n := k.srv.Stats().Loops[0].TaskQueueDepth; n != 1 {
			t.Errorf("%d tasks for %d responses, want one", n, each)
		}
		close(goOn)
		k.answered(each, 1)
	}
}

// TestRequestsResumeAtThreeQuarters: reads that pause at the bound of requests in flight go on when a quarter of it is
// free, neither at the first response nor after the last.
func TestRequestsResumeAtThreeQuarters(t *testing.T) {
	const bound, all = 8, 14
	k := newCounter(t, 1, bound)
	k.ask(all)
	k.took(bound, 0)
	k.gate <- struct{}{}
	k.answered(1, 1)
	k.took(bound, 1)
	k.gate <- struct{}{}
	k.answered(1, 1)
	k.took(bound+2, 2)
	close(k.gate)
	k.answered(all-2, 1)
	k.took(all, all)
}

// TestAnswersTellHowManyBegin: requests that began before it was known how long the answers are keep others from beginning, as
// soon as it is known.
func TestAnswersTellHowManyBegin(t *testing.T) {
	const size = 4 << 10
	k := newCounter(t, size, 64)
	k.ask(12)
	k.took(12, 0)
	for range 4 {
		k.gate <- struct{}{}
	}
	k.answered(4, size)
	k.ask(1)
	k.took(12, 4) // 8 answers of 4 KiB are to come to a queue that takes 20 KiB beyond its high watermark
	close(k.gate)
	k.answered(9, size)
	k.took(13, 13)
}
