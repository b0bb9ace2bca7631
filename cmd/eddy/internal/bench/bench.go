// Package bench is "eddy bench": load on a running server, and the comparison of runs.
package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/go-eddy/eddy/cmd/eddy/internal/benchdesk"
	"github.com/go-eddy/eddy/cmd/eddy/internal/cli"
	"github.com/go-eddy/eddy/cmd/eddy/internal/load"
	"github.com/go-eddy/eddy/cmd/eddy/internal/measured"
	"github.com/go-eddy/eddy/internal/version"
)

// Command builds the command and those below it.
func Command(t *cli.Terminal) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure a running server: requests in flight or at a constant rate, connections that come and go; compare runs",
		Long: "Measure a running server, this one's or another, and check every answer. Without --rate each connection sends its next request when an\n" +
			"answer has come (closed loop); with --rate requests are due at fixed times, whatever the server does, and are measured from then (open\n" +
			"loop). How to measure honestly: docs/bench.md.",
		RunE: cli.NeedsCommand(strings.Join(load.Protocols, ", ") + ", churn, slow-reader, slowloris, desk and compare"),
	}
	for _, protocol := range load.Protocols {
		cmd.AddCommand(newProtocol(t, protocol))
	}
	cmd.AddCommand(newChurn(t), newAttack(t, load.SlowReader), newAttack(t, load.Slowloris), benchdesk.Command(t), benchdesk.Server(t), newCompare(t))
	return cmd
}

// benchFlags are the flags that the scenarios have in common.
type benchFlags struct {
	load.Options
	runs   int
	asJSON bool
}

// maxRuns bounds --runs.
const maxRuns = 1000

func (f *benchFlags) register(cmd *cobra.Command, conns int) {
	fl := cmd.Flags()
	fl.StringVar(&f.Addr, "addr", cli.ServeAddr, "address of the server, host:port")
	fl.IntVar(&f.Conns, "conns", conns, "connections")
	fl.IntVar(&f.Size, "size", 64, "bytes of payload per request")
	fl.BoolVar(&f.TLS, "tls", false, "speak TLS; the certificate is not verified")
	fl.IntVar(&f.Rate, "rate", 0, "per second, on all connections together, however fast the answers come, measured from when each was due;\n0 = as fast as the answers come")
	fl.DurationVar(&f.Duration, "duration", 10*time.Second, "how long to measure, such as 10s")
	fl.DurationVar(&f.Warmup, "warmup", time.Second, "load before that, which does not count")
	fl.IntVar(&f.runs, "runs", 1, "how often to measure; with --json a document for each, which \"eddy bench compare\" takes as one side")
	fl.BoolVar(&f.asJSON, "json", false, "print the result as JSON, with all of the histogram")
}

// registerRequest adds the flags that say what a request is, for one protocol, or for all if protocol is "".
func (f *benchFlags) registerRequest(cmd *cobra.Command, protocol string) {
	fl := cmd.Flags()
	if protocol == "rpc" || protocol == "" {
		fl.StringVar(&f.Service, "service", benchService, "rpc: key of the service, group/interface:version")
		fl.StringVar(&f.Method, "method", benchMethod, "rpc: a method that returns its raw body")
	}
	if protocol == "http" || protocol == "" {
		fl.StringVar(&f.Path, "path", "/", "http: path and query of the request")
	}
	if protocol == "http" {
		fl.Lookup("size").Usage = "bytes of a POST's body; 0 = a GET"
		fl.Lookup("size").DefValue = "0"
		f.Size = 0
	}
}

// benchService and benchMethod are what "eddy bench rpc" calls: the echo of "eddy serve rpc".
const (
	benchService = "/demo.Echo:"
	benchMethod  = "Echo"
)

// newProtocol builds the command for one protocol.
func newProtocol(t *cli.Terminal, protocol string) *cobra.Command {
	f := benchFlags{Options: load.Options{Protocol: protocol}}
	cmd := &cobra.Command{
		Use:     protocol,
		Short:   fmt.Sprintf("Load a server like the one of \"eddy serve %s\" and check every answer", protocol),
		Example: fmt.Sprintf("  eddy bench %s --conns 100 --duration 10s\n  eddy bench %s --rate 5000 --runs 5 --json >a.json", protocol, protocol),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.Rate > 0 && !cmd.Flags().Changed("inflight") {
				f.InFlight = load.DefaultInFlight(f.Size)
			}
			return measure(t, protocol, f, load.Run)
		},
	}
	f.register(cmd, 100)
	f.registerRequest(cmd, protocol)
	cmd.Flags().IntVar(&f.InFlight, "inflight", 1, "requests in flight per connection; with --rate the most of them")
	cmd.Flags().Lookup("inflight").DefValue = "1, with --rate 64"
	return cmd
}

func newChurn(t *cli.Terminal) *cobra.Command {
	f := benchFlags{Options: load.Options{InFlight: 1}}
	cmd := &cobra.Command{
		Use:   "churn",
		Short: "Connections that live for one request: connect, ask, read the answer, close",
		Long: "Visits: connect, shake hands, one request, its answer, and away with a reset, so that the ports of this machine suffice. --conns visitors do\n" +
			"so again and again; with --rate so many visits a second are due, --conns at most at a time. Latencies are those of whole visits.",
		Example: "  eddy bench churn --protocol http --conns 16 --duration 10s\n  eddy bench churn --rate 500 --tls",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.Protocol == "http" && !cmd.Flags().Changed("size") {
				f.Size = 0
			}
			return measure(t, "churn", f, load.Churn)
		},
	}
	f.register(cmd, 16)
	f.registerRequest(cmd, "")
	cmd.Flags().StringVar(&f.Protocol, "protocol", "echo", "what the server speaks: "+strings.Join(load.Protocols, ", "))
	return cmd
}

// measure measures as often as --runs says, and prints each result.
func measure(t *cli.Terminal, scenario string, f benchFlags, measure func(context.Context, load.Options, func(*load.Result)) (*load.Result, error)) error {
	o := f.Options
	if err := f.check(); err != nil {
		return err
	}
	ctx, cancel := t.Interruptible(context.Background())
	defer cancel()
	var progress func(*load.Result)
	if o.Warmup+o.Duration > cli.PatienceOfPeople {
		due := t.Pace(time.Now()).Due
		progress = func(r *load.Result) {
			if due(time.Now()) {
				t.Note("%s", progressLine(o, r))
			}
		}
	}
	for n := 0; n < f.runs && ctx.Err() == nil; n++ {
		r, err := measure(ctx, o, progress)
		if err != nil && ctx.Err() != nil {
			return errors.New("interrupted before anything was measured")
		}
		if err != nil {
			return explainDial(o, err)
		}
		if err := withoutAnswer(ctx, o, r); err != nil {
			return err
		}
		if err := report(t, measured.New(scenario, o, r, version.Get().Version), f.asJSON); err != nil {
			return err
		}
	}
	return nil
}

func (f *benchFlags) check() error {
	if f.runs < 1 || f.runs > maxRuns {
		return fmt.Errorf("--runs %d is out of range: use 1 to %d", f.runs, maxRuns)
	}
	return f.Check()
}

// withoutAnswer returns an error if a run has not got a single answer.
func withoutAnswer(ctx context.Context, o load.Options, r *load.Result) error {
	switch {
	case r.Requests+r.Refused > 0:
		return nil
	case r.FirstError != nil:
		return fmt.Errorf("no answer from %s: %w", o.Addr, r.FirstError)
	case ctx.Err() == nil:
		return fmt.Errorf("no answer from %s within %s: is it a server like \"eddy serve %s\"?", o.Addr, o.Duration, o.Protocol)
	}
	return nil
}

func progressLine(o load.Options, r *load.Result) string {
	if r.Elapsed <= 0 {
		return fmt.Sprintf("warming up, %d errors", r.Errors)
	}
	return fmt.Sprintf("%.0f of %.0f s: %.0f requests/s, p99 %.2f ms, %d errors", r.Elapsed.Seconds(), o.Duration.Seconds(),
		r.PerSecond(), float64(r.Latencies.ValueAtPercentile(99))/1e6, r.Errors)
}

// explainDial turns the reason why a server cannot be measured into what to do about it.
func explainDial(o load.Options, err error) error {
	secure := ""
	if o.TLS {
		secure = " --tls-self-signed"
	}
	start := fmt.Sprintf("start one with \"eddy serve %s --addr %s%s\", or name another with --addr", o.Protocol, o.Addr, secure)
	var dns *net.DNSError
	var timeout net.Error
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("no server listens on %s: %s", o.Addr, start)
	case errors.As(err, &dns):
		return fmt.Errorf("the host of %s is unknown: %s", o.Addr, start)
	case errors.As(err, &timeout) && timeout.Timeout():
		return fmt.Errorf("%s does not answer: %s", o.Addr, start)
	}
	return fmt.Errorf("cannot measure %s: %w: %s", o.Addr, err, start)
}

// report prints one run.
func report(t *cli.Terminal, r *measured.Run, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(t.Out).Encode(r)
	}
	r.Print(t.Out)
	return nil
}
