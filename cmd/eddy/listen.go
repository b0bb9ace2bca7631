package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/internal/backend"
	"github.com/go-eddy/eddy/metrics"
	"github.com/spf13/cobra"
)

// drainTimeout is how long a server that was told to stop waits for requests in flight.
const drainTimeout = 10 * time.Second

// listenFlags are the flags every server command shares.
type listenFlags struct {
	addr     string
	loops    int
	poller   string
	maxConns int
	maxPerIP int // of commands that register it
	memory   memoryBudget

	tls   tlsFlags
	admin adminFlags

	answerWithin time.Duration // the server's HandlerTimeout, of commands that have one
	idleAfter    time.Duration // its IdleTimeout, of commands that have none of their protocol's
	dump         dumpFlags

	busy func(eddy.Refusal) []byte // answer to a client whose connection is refused; nil = busyLine

	measured []metrics.Source // what /metrics of --admin reports besides servers and pools
}

func (f *listenFlags) register(cmd *cobra.Command, addr string) {
	f.dump.register(cmd)
	f.admin.register(cmd)
	cmd.Flags().StringVar(&f.addr, "addr", addr, "address to listen on, host:port; port 0 takes any free port")
	cmd.Flags().IntVar(&f.loops, "loops", 0, "worker loops; 0 = one per processor")
	cmd.Flags().StringVar(&f.poller, "poller", "", "readiness backend: "+strings.Join(backend.Available(), ", ")+"; empty = $EDDY_POLLER, or the first of these")
	cmd.Flags().IntVar(&f.maxConns, "max-conns", 0, "open connections; 0 = no limit")
	cmd.Flags().Var(&f.memory, "memory-budget", "what all connections may hold together, such as 512MiB; auto = a quarter of what the program may use, off = no limit")
}

// registerIdle adds --idle-timeout.
func (f *listenFlags) registerIdle(cmd *cobra.Command) {
	cmd.Flags().DurationVar(&f.idleAfter, "idle-timeout", 0, "without a byte or a request in flight; 0 = no limit: a peer that lives may be silent, one that has vanished ends after 2.5 minutes")
}

// registerPerIP adds --max-per-ip. The default is no limit, because behind a proxy, and in a trial on one machine, all
// clients have one address.
func (f *listenFlags) registerPerIP(cmd *cobra.Command) {
	cmd.Flags().IntVar(&f.maxPerIP, "max-per-ip", 0, "open connections of one address; 0 = no limit")
}

// maxLoops bounds --loops. A larger number is more likely a typing error than a machine.
const maxLoops = 1024

// check reports the first flag whose value makes no sense.
func (f *listenFlags) check() error {
	if _, port, err := net.SplitHostPort(f.addr); err != nil || !validPort(port) {
		return fmt.Errorf("--addr %q is not host:port with a port from 0 to 65535; write it like 127.0.0.1:7000", f.addr)
	}
	if f.loops < 0 || f.loops > maxLoops {
		return fmt.Errorf("--loops %d is out of range: use 1 to %d, or 0 for one per processor", f.loops, maxLoops)
	}
	if f.maxConns < 0 {
		return fmt.Errorf("--max-conns %d is negative: use 0 for no limit", f.maxConns)
	}
	if f.maxPerIP < 0 {
		return fmt.Errorf("--max-per-ip %d is negative: use 0 for no limit", f.maxPerIP)
	}
	if f.idleAfter < 0 {
		return fmt.Errorf("--idle-timeout %v is negative: use 0 for no limit", f.idleAfter)
	}
	if err := errors.Join(f.tls.check(), f.admin.check()); err != nil {
		return err
	}
	if f.poller != "" {
		return checkPoller("--poller", f.poller)
	}
	return checkPoller("EDDY_POLLER", os.Getenv("EDDY_POLLER"))
}

func validPort(port string) bool {
	n, err := strconv.Atoi(port)
	return err == nil && n >= 0 && n <= 65535
}

// checkPoller refuses a backend that this platform does not have. source says where the name comes from.
func checkPoller(source, name string) error {
	if backend.Check(name) == nil {
		return nil
	}
	return fmt.Errorf("%s %q is not a readiness backend of %s: use %s", source, name, runtime.GOOS, strings.Join(backend.Available(), ", "))
}

// memoryBudget is a flag with the MemoryBudget of a server: a size, "off", or "auto" for the server's default.
type memoryBudget int

// Set implements pflag.Value.
func (m *memoryBudget) Set(s string) error {
	var b byteSize
	switch {
	case s == "auto":
		*m = 0
	case s == "off":
		*m = -1
	case b.Set(s) != nil || b < 1 || b > math.MaxInt:
		return fmt.Errorf("%q is neither a size such as 512MiB nor auto nor off", s)
	default:
		*m = memoryBudget(b)
	}
	return nil
}

func (m *memoryBudget) String() string {
	switch {
	case *m == 0:
		return "auto"
	case *m < 0:
		return "off"
	}
	b := byteSize(*m)
	return b.String()
}

// Type implements pflag.Value.
func (*memoryBudget) Type() string { return "size|auto|off" }

// server returns the engine configured by the flags.
func (f *listenFlags) server(init func(*eddy.Pipeline) error) *eddy.Server {
	return &eddy.Server{
		Init: init, Loops: f.loops, Poller: f.poller, MaxConns: f.maxConns, MemoryBudget: int(f.memory), HandlerTimeout: f.answerWithin,
		IdleTimeout: f.idleAfter,
		Admission:   f.admission(), KeepCloses: f.admin.kept(),
	}
}

// admission answers clients for whom there is no room, in their protocol. With TLS, clients expect a handshake and get
// no answer.
func (f *listenFlags) admission() eddy.Admission {
	a := eddy.Admission{MaxPerIP: f.maxPerIP}
	if f.secure() {
		return a
	}
	a.OnLimit, a.Busy = eddy.DecisionBusy, f.busy
	if a.Busy == nil {
		a.Busy = busyLine
	}
	return a
}

// busyLine is the answer of the protocols of lines and bytes to a client that is refused.
func busyLine(r eddy.Refusal) []byte {
	return fmt.Appendf(nil, "busy: the server takes no more connections: %v; try again in %v\n", r.Cause, r.RetryAfter)
}

// explainListen turns the reason why an address cannot be served into what to do about it.
func explainListen(addr string, err error) error {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("%s is in use by another program: stop that one, or choose another address with --addr (port 0 takes any free port)", addr)
	case errors.Is(err, syscall.EACCES), errors.Is(err, syscall.EPERM):
		return fmt.Errorf("no permission to listen on %s: choose a port above 1023 with --addr", addr)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return fmt.Errorf("%s is not an address of this machine: choose one with --addr, such as 127.0.0.1 or 0.0.0.0", addr)
	}
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		return fmt.Errorf("the host of %s is unknown: choose an address of this machine with --addr", addr)
	}
	return fmt.Errorf("cannot listen on %s: %w", addr, err)
}

// untilSignal serves until the first signal and then calls stop. The context of stop ends after drainTimeout or at the
// second signal. untilSignal prints the outcome in one line. A drain that had to be forced is no error.
func (t *terminal) untilSignal(stop func(context.Context) (outcome string, err error)) error {
	stopping := t.underManager()
	sig := <-t.signals
	stopping()
	t.note("%s: draining, at most %s; once more to stop at once", signalName(sig), drainTimeout)
	ctx, cancel := context.WithTimeout(context.Background(), drainTimeout)
	defer cancel()
	done := make(chan struct{})
	defer close(done)
	go func() {
		select {
		case <-t.signals:
			cancel()
		case <-done:
		}
	}()
	from := time.Now()
	outcome, err := stop(ctx)
	t.note("stopped after %s: %s", time.Since(from).Round(time.Millisecond), outcome)
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return nil
	}
	return err
}

func signalName(s os.Signal) string {
	if s == os.Interrupt {
		return "interrupt"
	}
	return s.String()
}
