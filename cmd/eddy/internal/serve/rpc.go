package serve

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/cmd/eddy/internal/cli"
	"github.com/go-eddy/eddy/cmd/eddy/internal/operator"
	"github.com/go-eddy/eddy/cmd/eddy/internal/serving"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/metrics"
	"github.com/go-eddy/eddy/overload"
	"github.com/go-eddy/eddy/responder"
	"github.com/go-eddy/eddy/rpc"
	"github.com/go-eddy/eddy/rpc/config"
)

// rpcFlags are the flags of "eddy serve rpc".
type rpcFlags struct {
	serving.Flags
	config                 string
	engines                config.Engines // that files may name
	dispatcher, isolation  string
	ordering, threadpool   string
	threads, queues        int
	adaptive               bool
	alive                  time.Duration
	inFlight, maxPayload   int
	timeout, retryAfter    time.Duration
	connectQueue, connectW int
	idle, stats            time.Duration
}

func newRPC(t *cli.Terminal, engines config.Engines) *cobra.Command {
	f := rpcFlags{engines: engines}
	cmd := &cobra.Command{
		Use:   "rpc",
		Short: "Serve demo services over RPC: a greeter, a slow and a flaky one",
		Long: `Serve RPC (docs/rpc.md) with these services, beside eddy.Health and eddy.Reflection:

  demo.Greeter  Hello {"name":"you"}, Log {"line":"…"} (one-way)
  demo.Slow     Sleep {"ms":100}, at most 60000
  demo.Flaky    Fail {"message":"…"}, Panic, Busy {"retry_after_ms":250}
  demo.Echo     Echo, raw

With --config the ports, pools, timeouts, groups and versions are those of a file: YAML, or application.yaml, dubbo.properties
or XML of Dubbo. Its services are these interfaces, and the DemoService and HelloService of Dubbo's documentation.`,
		Example: "  eddy serve rpc --isolation service --threads 10\n  eddy call 127.0.0.1:7000 --list",
		RunE:    func(cmd *cobra.Command, _ []string) error { return serveRPC(t, &f, cmd) },
	}
	f.Register(cmd, cli.ServeAddr)
	f.RegisterOverload(cmd)
	n := cmd.Flags()
	n.StringVar(&f.config, "config", "", "file with ports, pools and services, in YAML, properties or XML (docs/rpc.md); takes the place of the flags about them")
	n.StringVar(&f.dispatcher, "dispatcher", rpc.DispatchAll.String(), "where things run: all, direct, message, execution or connection")
	n.StringVar(&f.isolation, "isolation", rpc.Shared.String(), "shared: one pool; service: a pool for each service")
	n.StringVar(&f.ordering, "ordering", responder.ByCompletion.String(), "in which order a connection's calls are run and answered: completion, ordered, serial or no-pipelining")
	n.StringVar(&f.threadpool, "threadpool", rpc.PoolFixed.String(), "how pools grow: fixed, cached, limited or eager")
	n.IntVar(&f.threads, "threads", rpc.DefaultThreads, "calls that a pool runs at once")
	n.IntVar(&f.queues, "queues", 0, "calls that wait for a thread of a pool; beyond it the answer is BUSY")
	n.BoolVar(&f.adaptive, "adaptive", false, "pools find by themselves how many of their threads to use, and refuse by class what they cannot serve in time; --queues is 1024 then if it is 0")
	n.DurationVar(&f.alive, "alive", executor.DefaultKeepAlive, "until an idle thread ends")
	n.IntVar(&f.inFlight, "in-flight", rpc.DefaultInFlight, "calls of one connection in flight; at it reading pauses")
	n.IntVar(&f.maxPayload, "max-payload", 1<<20, "longest request or response in bytes")
	n.DurationVar(&f.timeout, "timeout", 0, "for one call; beyond it the answer is DEADLINE_EXCEEDED; 0 = what the client says")
	n.DurationVar(&f.retryAfter, "retry-after", rpc.DefaultRetryAfter, "advice to clients whose call was not run; 0 = none")
	n.IntVar(&f.connectQueue, "connect-queue", rpc.DefaultConnectQueue, "with --dispatcher connection: connects and disconnects that wait; beyond it connections are refused")
	n.IntVar(&f.connectW, "connect-warning", rpc.DefaultConnectWarning, "with --dispatcher connection: a warning above so many of them")
	n.DurationVar(&f.idle, "idle-timeout", 5*time.Minute, "without a byte or a call in flight")
	n.DurationVar(&f.stats, "stats", 0, "print numbers at this interval, and at the end; 0 = never")
	return cmd
}

// check reports the first flag whose value makes no sense.
func (f *rpcFlags) check() error {
	for _, n := range []struct {
		name               string
		value, least, most int
	}{
		{"threads", f.threads, 1, 100_000}, {"queues", f.queues, 0, 1 << 20}, {"in-flight", f.inFlight, 1, 1 << 16}, {"max-payload", f.maxPayload, 1, 1<<28 - 1},
		{"connect-queue", f.connectQueue, 1, 1 << 20}, {"connect-warning", f.connectW, 1, 1 << 20},
	} {
		if n.value < n.least || n.value > n.most {
			return fmt.Errorf("--%s %d is out of range: use %d to %d", n.name, n.value, n.least, n.most)
		}
	}
	for _, d := range []struct {
		name  string
		value time.Duration
		zero  bool
	}{{"alive", f.alive, false}, {"timeout", f.timeout, true}, {"retry-after", f.retryAfter, true}, {"idle-timeout", f.idle, false}, {"stats", f.stats, true}} {
		if d.value < 0 || d.value == 0 && !d.zero {
			return fmt.Errorf("--%s %v is not positive: use a duration such as 10s", d.name, d.value)
		}
	}
	return f.Flags.Check()
}

// options returns the options of the server, from the flags.
func (f *rpcFlags) options() (o rpc.ServerOptions, err error) {
	p := rpc.PortOptions{
		Name: "rpc", Addr: f.Addr, InFlight: f.inFlight, MaxPayload: f.maxPayload, IdleTimeout: f.idle, Accepts: f.MaxConns, Loops: f.Loops,
		ConnectQueue: f.connectQueue, ConnectWarning: min(f.connectW, f.connectQueue),
		Pool: rpc.PoolOptions{Threads: f.threads, Queue: f.queues, KeepAlive: f.alive, Adaptive: f.Adaptive(f.adaptive)},
	}
	o.Dumper, o.RetryAfter, o.Overload = f.Dumper, f.retryAfter, f.OverloadOptions()
	if f.retryAfter == 0 {
		o.RetryAfter = -1
	}
	if p.Dispatcher, err = rpc.ParseDispatcher(f.dispatcher); err != nil {
		return o, fmt.Errorf("--dispatcher %q: use all, direct, message, execution or connection", f.dispatcher)
	}
	if o.Isolation, err = rpc.ParseIsolation(f.isolation); err != nil {
		return o, fmt.Errorf("--isolation %q: use shared or service", f.isolation)
	}
	if p.Ordering, err = responder.ParseOrdering(f.ordering); err != nil {
		return o, fmt.Errorf("--ordering %q: use completion, ordered, serial or no-pipelining", f.ordering)
	}
	if p.Pool.Kind, err = rpc.ParsePoolKind(f.threadpool); err != nil {
		return o, fmt.Errorf("--threadpool %q: use fixed, cached, limited or eager", f.threadpool)
	}
	o.Ports = []rpc.PortOptions{p}
	return o, nil
}

// rpcServer is what a server made from flags and one made from a file have in common.
type rpcServer interface {
	Listen() error
	Shutdown(context.Context) (eddy.DrainReport, error)
	Close() error
	Stats() rpc.ServerStats
	Overload() *overload.Manager
	Pools() []*executor.Pool
}

func serveRPC(t *cli.Terminal, f *rpcFlags, cmd *cobra.Command) error {
	if err := f.check(); err != nil {
		return err
	}
	cfg, err := f.configuration(t, cmd)
	if err != nil {
		return err
	}
	for _, w := range cfg.Warnings {
		t.Note("warning: %s", w)
	}
	op, err := f.Operator(t, "eddy serve rpc")
	if err != nil {
		return err
	}
	end, err := front(t, f, &cfg.Server, op)
	if err != nil {
		return err
	}
	defer end()
	srv, addr, err := demoServer(t, f, cfg)
	if err != nil {
		return err
	}
	ports := cfg.Server.Ports
	if err := srv.Listen(); err != nil {
		return errors.Join(explainPort(ports, err), srv.Close())
	}
	t.Say("eddy: serving %s%s; stop with Ctrl+C", portsServed(cfg.Server, addr), registeredAt(cfg))
	f.Measured = append(f.Measured, metrics.RPCServer("rpc", srv))
	if err := errors.Join(op.Overload("rpc", srv.Overload()), op.Pools(srv.Pools()), op.Begin(f.Measured...)); err != nil {
		return errors.Join(err, srv.Close())
	}
	defer op.End()
	numbers := func() { t.Note("%s", rpcNumbers(srv.Stats())) }
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

// front applies TLS, if the flags ask for it, and the other flags about servers to all ports.
func front(t *cli.Terminal, f *rpcFlags, o *rpc.ServerOptions, op *operator.Operator) (end func(), err error) {
	f.Dumper = o.Dumper // that of the file, if there is a file
	init, end, err := f.Secured(t, func(*eddy.Pipeline) error { return nil })
	if err != nil {
		return nil, err
	}
	for i := range o.Ports {
		if f.Secure() {
			o.Ports[i].Front = before(init, o.Ports[i].Front) // with a Front the port cannot tell clients that it refuses them
		}
		o.Ports[i].Tune = func(srv *eddy.Server) {
			srv.Poller, srv.KeepCloses, srv.MemoryBudget = f.Poller, f.KeepCloses(), int(f.Memory)
			_ = op.Port(o.Ports[i].Name, srv) // the names are different
		}
	}
	return end, nil
}

// explainPort turns the reason why a port cannot be served into what to do about it.
func explainPort(ports []rpc.PortOptions, err error) error {
	for _, p := range ports {
		if len(ports) == 1 || strings.Contains(err.Error(), fmt.Sprintf("%q", p.Name)) {
			return cli.ExplainListen("--addr", p.Addr, err)
		}
	}
	return err
}

// portsServed says what is served where.
func portsServed(o rpc.ServerOptions, addr func(string) string) string {
	var parts []string
	for _, p := range o.Ports {
		name := ""
		if len(o.Ports) > 1 {
			name = " (" + p.Name + ")"
		}
		parts = append(parts, fmt.Sprintf("rpc%s on %s, dispatcher %v", name, addr(p.Name), p.Dispatcher))
	}
	return strings.Join(append(parts, fmt.Sprintf("isolation %v", o.Isolation)), ", ")
}

// rpcNumbers returns the line of --stats.
func rpcNumbers(s rpc.ServerStats) string {
	var open int64
	var r responder.Stats
	for _, p := range s.Ports {
		open += int64(p.Engine.Active)
		r.Rejected, r.Refused, r.Canceled = r.Rejected+p.Requests.Rejected, r.Refused+p.Requests.Refused, r.Canceled+p.Requests.Canceled
		r.Expired, r.Failed, r.Abandoned = r.Expired+p.Requests.Expired, r.Failed+p.Requests.Failed, r.Abandoned+p.Requests.Abandoned
	}
	parts := []string{fmt.Sprintf("%d open; requests busy %d, refused %d, cancelled %d, late %d, failed %d, abandoned %d",
		open, r.Rejected, r.Refused, r.Canceled, r.Expired, r.Failed, r.Abandoned)}
	keys := make([]rpc.Key, 0, len(s.Services))
	for key := range s.Services {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b rpc.Key) int { return strings.Compare(a.String(), b.String()) })
	for _, key := range keys {
		if n := s.Services[key]; n.Calls > 0 {
			parts = append(parts, fmt.Sprintf("%v %d calls, %d in flight", key, n.Calls, n.InFlight))
		}
	}
	return strings.Join(parts, "; ")
}
