package serve

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/cmd/eddy/internal/cli"
	"github.com/go-eddy/eddy/cmd/eddy/internal/serving"
	"github.com/go-eddy/eddy/codec/frame"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/metrics"
	"github.com/go-eddy/eddy/responder"
)

// frameFlags are the flags of "eddy serve frame".
type frameFlags struct {
	serving.Flags
	ordering               string
	workers, queue         int
	adaptive               bool
	inFlight, maxPayload   int
	low, high, max         int
	readTimeout, idle      time.Duration
	requestTimeout         time.Duration
	writeTimeout, pressure time.Duration
	retryAfter, stats      time.Duration
}

func newFrame(t *cli.Terminal) *cobra.Command {
	var f frameFlags
	cmd := &cobra.Command{
		Use:   "frame",
		Short: "Serve the binary frame protocol: PING, ECHO and a few commands",
		Long: `Serve the frame protocol (docs/frame.md) with a boss loop and two worker loops. PING is answered on the loop, ECHO on the pool. The payload of a CALL or
ONEWAY is a command:

  sleep MS     "slept" after that many milliseconds, at most 60000, unless it is cancelled or out of time before
  bytes N      N bytes, at most 1048576
  fail TEXT    the status APP_ERROR with that text
  upper TEXT   the text in capitals`,
		Example: "  eddy serve frame --addr 127.0.0.1:7000 --ordering ordered\n  eddy bench frame --addr 127.0.0.1:7000",
		RunE:    func(*cobra.Command, []string) error { return serveFrame(t, f) },
	}
	f.Register(cmd, cli.ServeAddr)
	f.RegisterPerIP(cmd)
	f.RegisterOverload(cmd)
	n := cmd.Flags()
	n.Lookup("loops").DefValue = "2"
	n.Lookup("loops").Usage = "worker loops"
	f.Loops = 2
	n.StringVar(&f.ordering, "ordering", responder.ByCompletion.String(), "in which order a connection's requests are run and answered: completion, ordered, serial or no-pipelining")
	n.IntVar(&f.workers, "workers", 64, "requests run at a time")
	n.IntVar(&f.queue, "queue", 1024, "requests that wait for a worker; beyond it the answer is BUSY")
	n.BoolVar(&f.adaptive, "adaptive", false, "the pool finds by itself how many of its workers to use, and refuses by class what it cannot serve in time")
	n.IntVar(&f.inFlight, "in-flight", responder.DefaultInFlight, "requests of one connection in flight; at it reading pauses")
	n.IntVar(&f.maxPayload, "max-payload", frame.DefaultMaxPayload, "longest payload in bytes; beyond it the answer is TOO_LARGE")
	n.IntVar(&f.low, "low-watermark", 256<<10, "bytes queued for a client at which paused reading goes on")
	n.IntVar(&f.high, "high-watermark", 1<<20, "bytes queued for a client at which reading pauses")
	n.IntVar(&f.max, "max-outbound", 8<<20, "bytes queued for a client beyond which it is closed")
	n.DurationVar(&f.readTimeout, "read-timeout", frame.DefaultReadTimeout, "from the first byte of a frame to its last")
	n.DurationVar(&f.idle, "idle-timeout", frame.DefaultIdleTimeout, "without a byte or a request in flight")
	n.DurationVar(&f.requestTimeout, "request-timeout", 0, "for one request; beyond it the answer is DEADLINE_EXCEEDED; 0 = no limit")
	n.DurationVar(&f.writeTimeout, "write-timeout", 30*time.Second, "for a client that takes nothing of what is queued for it")
	n.DurationVar(&f.pressure, "backpressure-timeout", 0, "for a client that stays above its high watermark; 0 = no limit")
	n.DurationVar(&f.retryAfter, "retry-after", time.Second, "advice to clients whose request was not run; 0 = none")
	n.DurationVar(&f.stats, "stats", 0, "print numbers at this interval, and at the end; 0 = never")
	return cmd
}

// check reports the first flag whose value makes no sense.
func (f *frameFlags) check() error {
	for _, n := range []struct {
		name               string
		value, least, most int
	}{
		{"loops", f.Loops, 1, serving.MaxLoops},
		{"workers", f.workers, 1, 100_000}, {"queue", f.queue, 1, 1 << 20}, {"in-flight", f.inFlight, 1, 1 << 16}, {"max-payload", f.maxPayload, 1, 1 << 30},
		{"low-watermark", f.low, 1, 1 << 40}, {"high-watermark", f.high, f.low + 1, 1 << 40},
		{"max-outbound", f.max, f.high, 1 << 40},
	} {
		if n.value < n.least || n.value > n.most {
			return fmt.Errorf("--%s %d is out of range: use %d to %d", n.name, n.value, n.least, n.most)
		}
	}
	for _, d := range []struct {
		name  string
		value time.Duration
		zero  bool
	}{
		{"read-timeout", f.readTimeout, false}, {"idle-timeout", f.idle, false}, {"write-timeout", f.writeTimeout, false},
		{"request-timeout", f.requestTimeout, true}, {"backpressure-timeout", f.pressure, true}, {"retry-after", f.retryAfter, true}, {"stats", f.stats, true},
	} {
		if d.value < 0 || d.value == 0 && !d.zero {
			return fmt.Errorf("--%s %v is not positive: use a duration such as 10s", d.name, d.value)
		}
	}
	if _, err := responder.ParseOrdering(f.ordering); err != nil {
		return fmt.Errorf("--ordering %q: use completion, ordered, serial or no-pipelining", f.ordering)
	}
	return f.Flags.Check()
}

func (f *frameFlags) options(pool *executor.Pool) frame.Options {
	o := frame.Options{
		Pool: pool, Handle: command, InFlight: f.inFlight, MaxPayload: f.maxPayload, RetryAfter: f.retryAfter,
		ReadTimeout: f.readTimeout, IdleTimeout: f.idle,
	}
	o.Ordering, _ = responder.ParseOrdering(f.ordering) // checked before
	if f.requestTimeout > 0 {
		o.Timeout = func(*frame.Frame) time.Duration { return f.requestTimeout }
	}
	return o
}

func serveFrame(t *cli.Terminal, f frameFlags) error {
	if err := f.check(); err != nil {
		return err
	}
	op, err := f.Operator(t, "eddy serve frame")
	if err != nil {
		return err
	}
	pool, err := executor.NewFixed(executor.Options{Name: "frame", Workers: f.workers, Queue: f.queue, Adaptive: adaptive(f.Adaptive(f.adaptive)), Dumper: f.Dumper})
	if err != nil {
		return err
	}
	defer pool.Close()
	protocol, err := frame.NewServer(f.options(pool))
	if err != nil {
		return err
	}
	f.Busy = frame.Refuse
	srv := f.Server(nil)
	protocol.Configure(srv)
	init, end, err := f.Secured(t, srv.Init)
	if err != nil {
		return err
	}
	defer end()
	srv.Init = init
	srv.Pools = []*executor.Pool{pool}
	srv.Watermarks = eddy.Watermarks{Low: f.low, High: f.high, Max: f.max}
	srv.WriteTimeout, srv.BackpressureTimeout = f.writeTimeout, f.pressure
	srv.Admission.RetryAfter = f.retryAfter
	if err := srv.Listen("tcp", f.Addr); err != nil {
		return cli.ExplainListen("--addr", f.Addr, err)
	}
	t.Say("eddy: serving frame on %s with the loop %s and %d others, ordering %s; stop with Ctrl+C",
		srv.Addr(), srv.Stats().Boss.Name, len(srv.Stats().Loops), f.ordering)
	f.Measured = append(f.Measured, metrics.Responder("frame", protocol))
	calm, err := f.Protect(op, "frame", srv, pool)
	if err != nil {
		return errors.Join(err, srv.Close())
	}
	defer calm()
	if err := errors.Join(op.Watch("frame", srv, pool), op.Begin(f.Measured...)); err != nil {
		return errors.Join(err, srv.Close())
	}
	defer op.End()
	numbers := func() { t.Note("%s", frameNumbers(srv.Stats(), protocol.Stats(), pool.Stats())) }
	stop := every(f.stats, numbers)
	return serving.UntilSignal(t, nil, func(ctx context.Context) (string, error) {
		op.Drain()
		r, err := srv.Shutdown(ctx)
		stop()
		if f.stats > 0 {
			numbers()
		}
		return fmt.Sprintf("%d connections drained, %d forced, %d requests dropped", r.Drained, r.Forced, r.Dropped), err
	})
}

// every calls f at an interval until stop is called. stop waits for a call that is under way. An interval of 0 means
// never.
func every(interval time.Duration, f func()) (stop func()) {
	if interval == 0 {
		return func() {}
	}
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(interval)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				f()
			case <-end:
				return
			}
		}
	}()
	return func() {
		close(end)
		<-ended
	}
}

// frameNumbers returns the line of --stats.
func frameNumbers(s eddy.Stats, r responder.Stats, p executor.Stats) string {
	var messages uint64
	var lag eddy.Lag // of the worst loop
	for _, l := range s.Loops {
		messages += l.Messages
		lag.P50, lag.P95, lag.P99, lag.Max = max(lag.P50, l.Lag.P50), max(lag.P95, l.Lag.P95), max(lag.P99, l.Lag.P99), max(lag.Max, l.Lag.Max)
	}
	parts := []string{fmt.Sprintf("%d open, %d frames, %d run, %d waiting", s.Active, messages, p.Running, p.Queued)}
	parts = append(parts, fmt.Sprintf("loop lag p50 %v p95 %v p99 %v max %v", lag.P50, lag.P95, lag.P99, lag.Max))
	parts = append(parts, fmt.Sprintf("requests busy %d, refused %d, cancelled %d, late %d, failed %d, abandoned %d",
		r.Rejected, r.Refused, r.Canceled, r.Expired, r.Failed, r.Abandoned))
	closed := "none"
	var reasons []string
	for _, reason := range eddy.CloseReasons() {
		if n := s.Closed[reason]; n > 0 {
			reasons = append(reasons, fmt.Sprintf("%v %d", reason, n))
		}
	}
	if len(reasons) > 0 {
		closed = strings.Join(reasons, ", ")
	}
	return strings.Join(append(parts, "closed "+closed), "; ")
}

// longestSleep and maxReply bound what a command may ask for.
const (
	longestSleep = time.Minute
	maxReply     = 1 << 20
)

var errCommand = &frame.StatusError{Status: frame.StatusBadRequest, Message: `the commands are "sleep MS", "bytes N", "fail TEXT" and "upper TEXT"`}

// command executes the CALLs and ONEWAYs of "eddy serve frame", on the pool.
func command(ctx context.Context, req *frame.Frame) ([]byte, error) {
	if op := req.Op(); op != frame.Call && op != frame.OneWay {
		return nil, &frame.StatusError{Status: frame.StatusNotFound, Message: fmt.Sprintf("operation %v is not served", op)}
	}
	word, rest, _ := strings.Cut(string(req.Payload), " ")
	switch word {
	case "sleep":
		n, err := strconv.Atoi(rest)
		d := time.Duration(n) * time.Millisecond
		if err != nil || d < 0 || d > longestSleep {
			return nil, errCommand
		}
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
			return []byte("slept"), nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	case "bytes":
		n, err := strconv.Atoi(rest)
		if err != nil || n < 0 || n > maxReply {
			return nil, errCommand
		}
		return bytes.Repeat([]byte("x"), n), nil
	case "fail":
		return nil, errors.New(rest)
	case "upper":
		return []byte(strings.ToUpper(rest)), nil
	}
	return nil, errCommand
}
