// Package serving holds what the server commands share: their flags, TLS, dumps, and the drain at a signal.
package serving

import (
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/cmd/eddy/internal/cli"
	"github.com/go-eddy/eddy/cmd/eddy/internal/operator"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/internal/backend"
	"github.com/go-eddy/eddy/metrics"
)

// Flags are the flags every server command shares, and what the command adds to them for its server.
type Flags struct {
	Addr     string
	Loops    int
	Poller   string
	MaxConns int
	Memory   memoryBudget

	AnswerWithin time.Duration                         // the server's HandlerTimeout, of commands that have one
	Dumper       *executor.Dumper                      // the one dumper of the program, for all its pools
	Busy         func(eddy.Refusal) []byte             // answer to a client whose connection is refused; nil = busyLine
	ALPN         map[string]func(*eddy.Pipeline) error // handlers by protocol, for a command whose clients choose it in the handshake of TLS
	Measured     []metrics.Source                      // what /metrics of --admin reports besides servers and pools

	overload  overloadFlags
	tls       TLSFlags
	admin     operator.Flags
	maxPerIP  int           // of commands that register it
	idleAfter time.Duration // the server's IdleTimeout, of commands that have none of their protocol's
}

// Register adds the flags to a command. addr is the default of --addr.
func (f *Flags) Register(cmd *cobra.Command, addr string) {
	f.registerDump(cmd)
	f.tls.register(cmd)
	f.admin.Register(cmd)
	cmd.Flags().StringVar(&f.Addr, "addr", addr, "address to listen on, host:port; port 0 takes any free port")
	cmd.Flags().IntVar(&f.Loops, "loops", 0, "worker loops; 0 = one per processor")
	cmd.Flags().StringVar(&f.Poller, "poller", "", "readiness backend: "+strings.Join(backend.Available(), ", ")+"; empty = $EDDY_POLLER, or the first of these")
	cmd.Flags().IntVar(&f.MaxConns, "max-conns", 0, "open connections; 0 = no limit")
	cmd.Flags().Var(&f.Memory, "memory-budget", "what all connections may hold together, such as 512MiB; auto = a quarter of what the program may use, off = no limit")
}

// RegisterIdle adds --idle-timeout.
func (f *Flags) RegisterIdle(cmd *cobra.Command) {
	cmd.Flags().DurationVar(&f.idleAfter, "idle-timeout", 0, "without a byte or a request in flight; 0 = no limit: a peer that lives may be silent, one that has vanished ends after 2.5 minutes")
}

// RegisterPerIP adds --max-per-ip. The default is no limit, because behind a proxy, and in a trial on one machine, all
// clients have one address.
func (f *Flags) RegisterPerIP(cmd *cobra.Command) {
	cmd.Flags().IntVar(&f.maxPerIP, "max-per-ip", 0, "open connections of one address; 0 = no limit")
}

// MaxLoops bounds --loops. A larger number is more likely a typing error than a machine.
const MaxLoops = 1024

// Check reports the first flag whose value makes no sense.
func (f *Flags) Check() error {
	if _, port, err := net.SplitHostPort(f.Addr); err != nil || !cli.ValidPort(port) {
		return fmt.Errorf("--addr %q is not host:port with a port from 0 to 65535; write it like 127.0.0.1:7000", f.Addr)
	}
	if f.Loops < 0 || f.Loops > MaxLoops {
		return fmt.Errorf("--loops %d is out of range: use 1 to %d, or 0 for one per processor", f.Loops, MaxLoops)
	}
	if f.MaxConns < 0 {
		return fmt.Errorf("--max-conns %d is negative: use 0 for no limit", f.MaxConns)
	}
	if f.maxPerIP < 0 {
		return fmt.Errorf("--max-per-ip %d is negative: use 0 for no limit", f.maxPerIP)
	}
	if f.idleAfter < 0 {
		return fmt.Errorf("--idle-timeout %v is negative: use 0 for no limit", f.idleAfter)
	}
	if err := errors.Join(f.tls.Check(), f.admin.Check(), f.overload.check()); err != nil {
		return err
	}
	if f.Poller != "" {
		return checkPoller("--poller", f.Poller)
	}
	return checkPoller("EDDY_POLLER", os.Getenv("EDDY_POLLER"))
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
	var b cli.ByteSize
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
	b := cli.ByteSize(*m)
	return b.String()
}

// Type implements pflag.Value.
func (*memoryBudget) Type() string { return "size|auto|off" }

// KeepCloses is how many ended connections a server remembers.
func (f *Flags) KeepCloses() int { return f.admin.KeepCloses() }

// Operator makes the operator's server of the command.
func (f *Flags) Operator(t *cli.Terminal, program string) (*operator.Operator, error) {
	return operator.New(t, &f.admin, program)
}

// Server returns the engine configured by the flags.
func (f *Flags) Server(init func(*eddy.Pipeline) error) *eddy.Server {
	return &eddy.Server{
		Init: init, Loops: f.Loops, Poller: f.Poller, MaxConns: f.MaxConns, MemoryBudget: int(f.Memory), HandlerTimeout: f.AnswerWithin,
		IdleTimeout: f.idleAfter,
		Admission:   f.admission(), KeepCloses: f.KeepCloses(),
	}
}

// admission answers clients for whom there is no room, in their protocol. With TLS, clients expect a handshake and get
// no answer.
func (f *Flags) admission() eddy.Admission {
	a := eddy.Admission{MaxPerIP: f.maxPerIP}
	if f.Secure() {
		return a
	}
	a.OnLimit, a.Busy = eddy.DecisionBusy, f.Busy
	if a.Busy == nil {
		a.Busy = busyLine
	}
	return a
}

// busyLine is the answer of the protocols of lines and bytes to a client that is refused.
func busyLine(r eddy.Refusal) []byte {
	return fmt.Appendf(nil, "busy: the server takes no more connections: %v; try again in %v\n", r.Cause, r.RetryAfter)
}
