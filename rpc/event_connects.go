package rpc

import (
	"cmp"
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
	// DefaultConnectQueue is how many connects may wait under DispatchConnection by default. Dubbo has no bound.
	DefaultConnectQueue = 4096
	// DefaultConnectWarning is how many connects and disconnects may wait without an alarm by default, as in Dubbo.
	DefaultConnectWarning = 1000
)

// ErrConnectQueue is why a connection is refused under DispatchConnection when too many connects wait. The connection
// closes with eddy.CloseAdmissionRejected, and a server tells its client BUSY first.
var ErrConnectQueue = errors.New("rpc: the connect queue is full")

// connectQueue is the executor of DispatchConnection: one worker that runs the connects and disconnects of all
// connections of a port or client, in order. Connects have a bound. Disconnects go beyond it, by at most one for each
// connection that was let in.
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
	q := &connectQueue{n: n, bound: cmp.Or(n.o.connectQueue, DefaultConnectQueue)}
	q.warning = cmp.Or(n.o.connectWarning, min(DefaultConnectWarning, q.bound))
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

// append queues an event that must not be lost, even beyond the bound.
func (q *connectQueue) append(l *Link) error {
	q.watch()
	return q.strand.Append(l)
}

// watch returns how many wait, and raises the alarm if they are more than warning.
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

// refusal returns the BUSY, about the connection, for a client whose connection is not taken.
func refusal(retryAfter time.Duration, why string) []byte {
	return frame.AppendError(nil, 0, &frame.StatusError{Status: frame.StatusBusy, RetryAfter: retryAfter, Message: why})
}
