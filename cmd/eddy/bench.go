package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"

	"github.com/go-eddy/eddy/cmd/eddy/internal/load"
	"github.com/spf13/cobra"
)

func newBench(t *terminal) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure a running server, with requests in flight or at a constant rate: echo, line, frame, rpc, ws or desk",
		RunE:  needsCommand("echo, line, frame, rpc, ws and desk"),
	}
	for _, protocol := range []string{"echo", "line", "frame", "rpc", "ws"} {
		cmd.AddCommand(newBenchOf(t, protocol))
	}
	cmd.AddCommand(newBenchDesk(t), newBenchDeskServer(t))
	return cmd
}

// newBenchOf builds the command for one protocol; they differ in little but the protocol.
func newBenchOf(t *terminal, protocol string) *cobra.Command {
	o := load.Options{Protocol: protocol}
	var asJSON bool
	cmd := &cobra.Command{
		Use:   protocol,
		Short: fmt.Sprintf("Load a server like the one of \"eddy serve %s\" and check every answer", protocol),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.Rate > 0 && !cmd.Flags().Changed("pipeline") {
				o.Pipeline = min(64, max(1, load.MaxInFlight/max(o.Size, 1)))
			}
			return t.bench(o, asJSON)
		},
	}
	cmd.Flags().StringVar(&o.Addr, "addr", defaultServeAddr, "address of the server, host:port")
	cmd.Flags().IntVar(&o.Conns, "conns", 100, "connections")
	cmd.Flags().IntVar(&o.Size, "size", 64, "bytes of payload per request")
	cmd.Flags().IntVar(&o.Pipeline, "pipeline", 1, "requests in flight per connection")
	cmd.Flags().DurationVar(&o.Duration, "duration", 10*time.Second, "how long to measure, such as 10s")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the result as JSON")
	if protocol == "frame" || protocol == "rpc" {
		cmd.Flags().IntVar(&o.Rate, "rate", 0, "requests per second on all connections together, however fast the answers come, measured from when each was due;\n0 = as fast as the answers come; with a rate --pipeline is the most that is in flight")
		cmd.Flags().Lookup("pipeline").DefValue = "1, with --rate 64"
	}
	if protocol == "rpc" {
		cmd.Flags().StringVar(&o.Service, "service", benchService, "key of the service, group/interface:version")
		cmd.Flags().StringVar(&o.Method, "method", benchMethod, "a method that returns its raw body")
	}
	return cmd
}

// What "eddy bench rpc" calls: the echo of "eddy serve rpc".
const (
	benchService = "/demo.Echo:"
	benchMethod  = "Echo"
)

// quietFor is the longest run without a progress line.
const quietFor = 2 * time.Second

func (t *terminal) bench(o load.Options, asJSON bool) error {
	if err := o.Check(); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		select {
		case <-t.signals:
			cancel()
		case <-ctx.Done():
		}
	}()
	var progress func(*load.Result)
	if o.Duration > quietFor {
		progress = func(r *load.Result) { t.note("%s", progressLine(o, r)) }
	}
	r, err := load.Run(ctx, o, progress)
	if err != nil {
		return explainDial(o, err)
	}
	if r.Requests+r.Refused == 0 && r.FirstError != nil {
		return fmt.Errorf("no answer from %s: %w", o.Addr, r.FirstError)
	}
	if r.Requests+r.Refused == 0 && ctx.Err() == nil {
		return fmt.Errorf("no answer from %s within %s: is it a server like \"eddy serve %s\"?", o.Addr, o.Duration, o.Protocol)
	}
	if asJSON {
		return json.NewEncoder(t.out).Encode(newBenchReport(o, r))
	}
	newBenchReport(o, r).print(t)
	return nil
}

func progressLine(o load.Options, r *load.Result) string {
	return fmt.Sprintf("%.0f of %.0f s: %.0f requests/s, p99 %.2f ms, %d errors", r.Elapsed.Seconds(), o.Duration.Seconds(),
		r.PerSecond(), float64(r.Latencies.ValueAtPercentile(99))/1e6, r.Errors)
}

// explainDial turns the reason why a server cannot be measured into what to do about it.
func explainDial(o load.Options, err error) error {
	start := fmt.Sprintf("start one with \"eddy serve %s --addr %s\", or name another with --addr", o.Protocol, o.Addr)
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

// benchReport is the result as it is printed. Times are in milliseconds.
type benchReport struct {
	Protocol  string  `json:"protocol"`
	Addr      string  `json:"addr"`
	Conns     int     `json:"conns"`
	Size      int     `json:"size"`
	Pipeline  int     `json:"pipeline"`
	Seconds   float64 `json:"seconds"`
	Requests  int64   `json:"requests"`
	PerSecond float64 `json:"requests_per_second"`
	P50       float64 `json:"p50_ms"`
	P99       float64 `json:"p99_ms"`
	P999      float64 `json:"p99.9_ms"`
	Max       float64 `json:"max_ms"`
	Errors    int64   `json:"errors"`
	Error     string  `json:"first_error,omitempty"`

	Rate       int     `json:"rate,omitempty"`    // asked for, per second
	Refused    int64   `json:"refused,omitempty"` // answered BUSY or UNAVAILABLE
	RefusedP99 float64 `json:"refused_p99_ms,omitempty"`
	Unanswered int64   `json:"unanswered,omitempty"` // at the end, with their age among the percentiles
}

func newBenchReport(o load.Options, r *load.Result) benchReport {
	ms := func(percentile float64) float64 { return float64(r.Latencies.ValueAtPercentile(percentile)) / 1e6 }
	b := benchReport{
		Protocol: o.Protocol, Addr: o.Addr, Conns: o.Conns, Size: o.Size, Pipeline: o.Pipeline,
		Seconds: r.Elapsed.Seconds(), Requests: r.Requests, PerSecond: r.PerSecond(),
		P50: ms(50), P99: ms(99), P999: ms(99.9), Max: float64(r.Latencies.Max()) / 1e6, Errors: r.Errors,
	}
	b.Rate, b.Refused, b.Unanswered = o.Rate, r.Refused, r.Unanswered
	if r.Refused > 0 {
		b.RefusedP99 = float64(r.Refusals.ValueAtPercentile(99)) / 1e6
	}
	if r.FirstError != nil {
		b.Error = r.FirstError.Error()
	}
	return b
}

func (b benchReport) print(t *terminal) {
	if b.Rate > 0 {
		t.say("%s %s: %d requests/s on %d connections, %d B, at most %d in flight each, %.1f s", b.Protocol, b.Addr, b.Rate, b.Conns, b.Size, b.Pipeline, b.Seconds)
	} else {
		t.say("%s %s: %d connections, %d B, %d in flight each, %.1f s", b.Protocol, b.Addr, b.Conns, b.Size, b.Pipeline, b.Seconds)
	}
	t.say("  requests    %d", b.Requests)
	t.say("  requests/s  %.0f", b.PerSecond)
	t.say("  p50         %.3f ms", b.P50)
	t.say("  p99         %.3f ms", b.P99)
	t.say("  p99.9       %.3f ms", b.P999)
	t.say("  max         %.3f ms", b.Max)
	if b.Refused > 0 {
		t.say("  refused     %d, p99 %.3f ms", b.Refused, b.RefusedP99)
	}
	if b.Rate > 0 {
		t.say("  unanswered  %d", b.Unanswered)
	}
	t.say("  errors      %d", b.Errors)
	if b.Error != "" {
		t.say("  first error %s", oneLine(errors.New(b.Error)))
	}
}
