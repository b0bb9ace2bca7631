package rpc

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/buf"
	"github.com/go-eddy/eddy/codec/frame"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/internal/sample"
)

// eventOptions say what a notifier is for.
type eventOptions struct {
	name       string // of the port or client, for logs
	side       Side
	dispatcher Dispatcher
	listener   Listener
	shared     *executor.Pool // required, unless the dispatcher never uses it

	connectQueue   int           // connects that wait, under DispatchConnection; 0 = DefaultConnectQueue
	connectWarning int           // waiting connects and disconnects above which there is an alarm; 0 = DefaultConnectWarning
	retryAfter     time.Duration // told to clients that are refused
	maxPayload     int           // of responses; 0 = frame.DefaultMaxPayload
	logger         *slog.Logger  // nil = slog.Default()
}

// notifier tells a Listener the events of the connections of one port or client, each where the dispatcher says. A nil
// notifier stands for no Listener.
type notifier struct {
	o   eventOptions
	log *slog.Logger

	wants        [events]bool // of which somebody is told
	connected    ConnectedListener
	disconnected DisconnectedListener
	sent         SentListener
	received     ReceivedListener
	late         LateListener
	caught       CaughtListener
	backlog      BacklogListener

	connects *connectQueue // nil unless the dispatcher is DispatchConnection

	counts   [events]atomic.Uint64
	rejects  atomic.Uint64
	refusals atomic.Uint64
	panics   atomic.Uint64
	lines    struct{ rejects, panics sample.Seldom }
}

// newNotifier returns nil without a Listener. The error names the option that makes no sense.
func newNotifier(o eventOptions) (*notifier, error) {
	if err := o.dispatcher.check("Dispatcher"); err != nil {
		return nil, err
	}
	for _, f := range []struct {
		name  string
		value int
	}{{"ConnectQueue", o.connectQueue}, {"ConnectWarning", o.connectWarning}} {
		if f.value < 0 {
			return nil, fmt.Errorf("rpc: %s is %d: it must not be negative", f.name, f.value)
		}
	}
	if o.listener == nil {
		return nil, nil
	}
	n := &notifier{o: o, log: cmp.Or(o.logger, slog.Default())}
	n.o.maxPayload = cmp.Or(o.maxPayload, frame.DefaultMaxPayload)
	if !n.listens() {
		return nil, fmt.Errorf("rpc: Listener is a %T: it has none of the methods of a Listener", o.listener)
	}
	if o.dispatcher == DispatchConnection {
		var err error
		if n.connects, err = newConnectQueue(n); err != nil {
			return nil, err
		}
	}
	return n, nil
}

// listens finds out which events the Listener takes, and reports whether there are any.
func (n *notifier) listens() bool {
	l, wants := n.o.listener, &n.wants
	n.connected, wants[EventConnected] = l.(ConnectedListener)
	n.disconnected, wants[EventDisconnected] = l.(DisconnectedListener)
	n.sent, wants[EventSent] = l.(SentListener)
	n.received, wants[EventOther] = l.(ReceivedListener)
	n.late, wants[EventLateResponse] = l.(LateListener)
	n.caught, wants[EventCaught] = l.(CaughtListener)
	n.backlog, _ = l.(BacklogListener)
	return *wants != [events]bool{} || n.backlog != nil
}

// add adds front right behind the handler named decoder, and back behind all others. A nil notifier adds none.
func (n *notifier) add(p *eddy.Pipeline, decoder string) error {
	if n == nil {
		return nil
	}
	if err := p.AddAfter(decoder, "events", front{n}); err != nil {
		return err
	}
	return p.Add("caught", back{n})
}

// pools returns the executors that the notifier owns, which must be stopped after the loops: see eddy.Server.Pools.
func (n *notifier) pools() []*executor.Pool {
	if n == nil || n.connects == nil {
		return nil
	}
	return []*executor.Pool{n.connects.pool}
}

// onWorker reports whether the caller runs on a worker of these pools.
func (n *notifier) onWorker() bool {
	return slices.ContainsFunc(n.pools(), (*executor.Pool).OnWorker)
}

// stop ends the pools after they have run what waits.
func (n *notifier) stop() {
	for _, p := range n.pools() {
		_, _ = p.Shutdown(context.Background()) // the only error is for their own workers
	}
}

// stats returns the counts so far.
func (n *notifier) stats() EventStats {
	if n == nil {
		return EventStats{}
	}
	s := EventStats{
		Connected:    n.counts[EventConnected].Load(),
		Disconnected: n.counts[EventDisconnected].Load(),
		Sent:         n.counts[EventSent].Load(),
		Received:     n.counts[EventOther].Load(),
		Caught:       n.counts[EventCaught].Load(),
		Late:         n.counts[EventLateResponse].Load(),
		Rejected:     n.rejects.Load(),
		Refused:      n.refusals.Load(),
		Panics:       n.panics.Load(),
	}
	if n.connects != nil {
		s.Alarms, s.Waiting = n.connects.alarms.Load(), n.connects.waiting()
	}
	return s
}

// rejected counts an event for which there was no room.
func (n *notifier) rejected(e Event, l *Link, err error) {
	n.rejects.Add(1)
	if ok, held := n.lines.rejects.Allow(executor.ReportInterval); ok {
		n.log.Warn("rpc: no room for an event", "name", n.o.name, "event", e.String(), "peer", l.conn.RemoteAddr(), "err", err, "held_back", held)
	}
}

// contain counts and logs a panic of the Listener. Call it by defer.
func (n *notifier) contain(e Event) {
	v := recover()
	if v == nil {
		return
	}
	n.panics.Add(1)
	if ok, held := n.lines.panics.Allow(executor.ReportInterval); ok {
		n.log.Error("rpc: panic in a Listener", "name", n.o.name, "event", e.String(), "panic", v, "held_back", held, "stack", string(debug.Stack()))
	}
}

// linkOpened is the first event of a pipeline, which tells the handlers behind front the connection's Link.
type linkOpened struct{ link *Link }

// front is the handler behind the decoder. front makes the Link, stamps reads and writes, and takes what is no RPC.
type front struct{ n *notifier }

// HandleOpen implements eddy.OpenHandler.
func (h front) HandleOpen(ctx *eddy.Context) error {
	l := &Link{n: h.n, conn: ctx.Conn()}
	l.open(ctx.Now())
	ctx.SetState(l)
	ctx.FireEvent(linkOpened{l})
	err := l.happen(happening{event: EventConnected})
	if err != nil && h.n.o.side == ServerSide {
		_ = ctx.Write(refusal(h.n.o.retryAfter, "too many connections are being opened")) // the connection ends anyway
	}
	return err
}

// HandleClose implements eddy.CloseHandler.
func (h front) HandleClose(ctx *eddy.Context, reason eddy.CloseReason, err error) {
	if l, ok := ctx.State().(*Link); ok {
		l.close()
		_ = l.happen(happening{event: EventDisconnected, reason: reason, err: err}) // only a connect is refused
	}
}

// HandleRead implements eddy.ReadHandler.
func (h front) HandleRead(ctx *eddy.Context, msg any) error {
	l := ctx.State().(*Link)
	stamp(&l.read, ctx.Now())
	f, ok := msg.(*frame.Frame)
	if !ok || h.n.received == nil || !h.other(f) {
		ctx.FireRead(msg)
		return nil
	}
	if h.n.o.side == ServerSide {
		l.conn.Begin()
		if l.conn.Draining() {
			l.answer(f, nil, &frame.StatusError{Status: frame.StatusUnavailable, RetryAfter: h.n.o.retryAfter, Message: "the server is draining"})
			return nil
		}
	}
	return l.happen(happening{event: EventOther, id: f.ID, frame: f})
}

// other reports whether a frame is the application's own.
func (h front) other(f *frame.Frame) bool {
	if h.n.o.side == ServerSide {
		return f.Op() >= frame.FirstApp
	}
	return f.ID == 0 && f.Status() == frame.StatusOK
}

// HandleWrite implements eddy.WriteHandler.
func (h front) HandleWrite(ctx *eddy.Context, msg any) error {
	l, ok := ctx.State().(*Link)
	if !ok || h.n.sent == nil {
		err := ctx.Write(msg)
		if ok && err == nil {
			stamp(&l.written, ctx.Now())
		}
		return err
	}
	var room [4]SentFrame
	frames := sentFrames(room[:0], msg)
	if err := ctx.Write(msg); err != nil {
		return err
	}
	stamp(&l.written, ctx.Now())
	for _, f := range frames {
		h.n.tellSent(l, f)
	}
	return nil
}

func (n *notifier) tellSent(l *Link, f SentFrame) {
	defer n.contain(EventSent)
	n.counts[EventSent].Add(1)
	n.sent.Sent(l, f)
}

// stamp notes a time. All stamps within one turn of the loop are the same and cost one store.
func stamp(at *atomic.Int64, now time.Duration) {
	if at.Load() != int64(now) {
		at.Store(int64(now))
	}
}

// sentFrames appends the frames of an outbound message. One write may carry several. Of a message in parts only the first
// part is looked at; a message of another type counts as one frame without a header.
func sentFrames(to []SentFrame, msg any) []SentFrame {
	switch m := msg.(type) {
	case []byte:
		return framesIn(to, m, len(m))
	case *buf.Bytes:
		return framesIn(to, m.Bytes(), m.Len())
	case *buf.Shared:
		return framesIn(to, m.Bytes(), m.Len())
	case [][]byte:
		size := 0
		for _, p := range m {
			size += len(p)
		}
		if len(m) > 0 {
			return framesIn(to, m[0], size)
		}
	}
	return append(to, SentFrame{})
}

// framesIn appends the frames of a message of size bytes that begins with b.
func framesIn(to []SentFrame, b []byte, size int) []SentFrame {
	const atID, atCode, atLength = 3, 11, 12
	for len(b) >= frame.HeaderSize {
		f := SentFrame{
			ID:   binary.BigEndian.Uint64(b[atID:]),
			Code: b[atCode],
			Size: frame.HeaderSize + int(binary.BigEndian.Uint32(b[atLength:])),
		}
		to = append(to, f)
		if size -= f.Size; size <= 0 {
			return to
		}
		b = b[min(f.Size, len(b)):]
	}
	return to
}

// back is the last handler, where errors end the connection.
type back struct{ n *notifier }

// HandleEvent implements eddy.EventHandler.
func (h back) HandleEvent(ctx *eddy.Context, ev any) error {
	if o, ok := ev.(linkOpened); ok {
		ctx.SetState(o.link)
		return nil
	}
	ctx.FireEvent(ev)
	return nil
}

// HandleError implements eddy.ErrorHandler.
func (h back) HandleError(ctx *eddy.Context, err error) error {
	if l, ok := ctx.State().(*Link); ok {
		_ = l.happen(happening{event: EventCaught, err: err}) // only a connect is refused
	}
	return err
}

// responseLate tells the Listener of a response that nobody waits for any more. On the loop; l may be nil.
func (l *Link) responseLate(id uint64, status frame.Status) {
	if l != nil {
		_ = l.happen(happening{event: EventLateResponse, id: id, status: status}) // only a connect is refused
	}
}
