package rpc

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/codec/frame"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/internal/sample"
)

const (
	// DefaultConnectQueue is how many connects wait under DispatchConnection if the options do not say. Reference 2.3 has
	// no bound.
	DefaultConnectQueue = 4096
	// DefaultConnectWarning is from how many on there is an alarm. Source: reference 2.3.
	DefaultConnectWarning = 1000
)

// ErrConnectQueue is why a connection was refused under DispatchConnection: too many connects wait. It closes with
// eddy.CloseAdmissionRejected, and a server tells its client BUSY first.
var ErrConnectQueue = errors.New("rpc: the connect queue is full")

// connectQueue is the executor of DispatchConnection: one worker that runs the connects and disconnects of all connections
// of a port in order. Connects have a bound. Disconnects go beyond it; there is at most one for each connection that the
// bound has let in.
type connectQueue struct {
	n       *notifier
	pool    *executor.Pool
	strand  *executor.Strand[*Link]
	bound   int
	warning int
	alarms  atomic.Uint64
	line    sample.Seldom
}

func newConnectQueue(n *notifier) (*connectQueue, error) {
	q := &connectQueue{n: n, bound: n.o.connectQueue, warning: n.o.connectWarning}
	if q.bound == 0 {
		q.bound = DefaultConnectQueue
	}
	if q.warning == 0 {
		q.warning = min(DefaultConnectWarning, q.bound)
	}
	var err error
	q.pool, err = executor.NewFixed(executor.Options{Name: n.o.name + "-connect", Workers: 1, Queue: 1, Logger: n.log})
	if err != nil {
		return nil, err
	}
	q.strand = executor.NewStrand(q.pool, q.bound, (*Link).turnConnection).DropWith((*Link).dropTurn)
	return q, nil
}

func (l *Link) turnConnection() { l.turn(PlaceConnection) }

func (q *connectQueue) waiting() int { return q.strand.Len() }

// take queues the connect of a link, if there is room.
func (q *connectQueue) take(l *Link) error {
	waiting := q.watch()
	err := q.strand.Submit(l)
	if err != nil && !errors.Is(err, executor.ErrClosed) {
		q.alarm(waiting)
	}
	return err
}

// append queues what must not be lost.
func (q *connectQueue) append(l *Link) error {
	q.watch()
	return q.strand.Append(l)
}

// watch raises the alarm if more wait than they should, before the next one does.
func (q *connectQueue) watch() int {
	waiting := q.waiting()
	if waiting > q.warning {
		q.alarms.Add(1)
		q.alarm(waiting)
	}
	return waiting
}

func (q *connectQueue) alarm(waiting int) {
	ok, held := q.line.Allow(executor.ReportInterval)
	if !ok {
		return
	}
	q.n.log.Warn("rpc: connects and disconnects wait", "name", q.n.o.name, "waiting", waiting, "warning", q.warning, "limit", q.bound, "held_back", held)
	if q.n.backlog != nil {
		defer q.n.contain(EventConnected)
		q.n.backlog.ConnectBacklog(q.n.o.name, waiting)
	}
}

// refused counts a connection whose connect found no room, and returns the error that closes it.
func (n *notifier) refused(l *Link, err error) error {
	n.refusals.Add(1)
	n.rejected(EventConnected, l, err)
	return eddy.WithReason(eddy.CloseAdmissionRejected, fmt.Errorf("%w: %d wait: %w", ErrConnectQueue, n.connects.bound, err))
}

// refusal is what a client is told whose connection is not taken: BUSY, about the connection.
func refusal(retryAfter time.Duration, why string) []byte {
	return frame.AppendError(nil, 0, &frame.StatusError{Status: frame.StatusBusy, RetryAfter: retryAfter, Message: why})
}
