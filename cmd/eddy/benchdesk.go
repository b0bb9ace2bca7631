package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/go-eddy/eddy/cmd/eddy/internal/deskload"
	"github.com/go-eddy/eddy/desk"
	"github.com/spf13/cobra"
)

// deskBench are the flags of "eddy bench desk".
type deskBench struct {
	customers, agents int
	rate, size        int
	duration          time.Duration
	idle, reconnect   int
	only              []string
	asJSON            bool
	data              string
}

// deskParts are what "eddy bench desk" measures, in order.
var deskParts = []string{"rate", "full", "isolation", "idle", "reconnect"}

func newBenchDesk(t *terminal) *cobra.Command {
	var b deskBench
	cmd := &cobra.Command{
		Use:   "desk",
		Short: "Measure a Desk of its own with customers and agents as WebSocket clients",
		Long: "Start a Desk with its data in a temporary directory and measure it with customers and agents as WebSocket clients:\n" +
			"  rate       messages at a constant rate: from when one was due to its acknowledgement, and until the other side has it\n" +
			"  full       durable messages per second with one message of every customer under way\n" +
			"  isolation  the rate again, in turns with and without an operation that hangs in every place of the agents' pool\n" +
			"  idle       memory of the server per connected visitor\n" +
			"  reconnect  the server is killed and started again under its clients: how long until all have resumed, what was lost or doubled\n" +
			"The limits of single visitors are out of the way, because all of them come from one address.",
		Example: "  eddy bench desk\n  eddy bench desk --only rate --rate 1000 --duration 30s --json",
		RunE: func(*cobra.Command, []string) error {
			if err := b.check(); err != nil {
				return err
			}
			return t.benchDesk(&b)
		},
	}
	fl := cmd.Flags()
	fl.IntVar(&b.customers, "customers", 500, "customers who write")
	fl.IntVar(&b.agents, "agents", 25, "agents who answer")
	fl.IntVar(&b.rate, "rate", 500, "messages per second of rate and isolation")
	fl.IntVar(&b.size, "size", 64, "characters per message")
	fl.DurationVar(&b.duration, "duration", 20*time.Second, "how long each of rate, full and either half of isolation takes")
	fl.IntVar(&b.idle, "idle", 5000, "visitors of idle")
	fl.IntVar(&b.reconnect, "reconnect", 10_000, "visitors of reconnect")
	fl.StringSliceVar(&b.only, "only", nil, "only these, separated by commas: "+strings.Join(deskParts, ", "))
	fl.BoolVar(&b.asJSON, "json", false, "print the results as JSON")
	fl.StringVar(&b.data, "data", "", "parent of the data directory, which decides what disk is measured; empty = the system's directory for temporary files")
	return cmd
}

func (b *deskBench) check() error {
	for _, f := range []struct {
		name        string
		value, most int
	}{
		{"customers", b.customers, 20_000}, {"agents", b.agents, 1000}, {"rate", b.rate, 100_000}, {"size", b.size, 8000},
		{"idle", b.idle, 1_000_000}, {"reconnect", b.reconnect, 1_000_000},
	} {
		if f.value < 1 || f.value > f.most {
			return fmt.Errorf("--%s %d is out of range: use 1 to %d", f.name, f.value, f.most)
		}
	}
	if b.duration <= 0 || b.duration > time.Hour {
		return fmt.Errorf("--duration %s is out of range: use more than 0 and at most 1h", b.duration)
	}
	for _, part := range b.only {
		if !slices.Contains(deskParts, part) {
			return fmt.Errorf("--only %q is nothing that is measured: use %s", part, strings.Join(deskParts, ", "))
		}
	}
	return nil
}

func (b *deskBench) wants(part string) bool { return len(b.only) == 0 || slices.Contains(b.only, part) }

// benchPatience ends a part that does not come to its end.
const benchPatience = 5 * time.Minute

// deskReport is the result as it is printed. Times are in milliseconds.
type deskReport struct {
	Customers int            `json:"customers"`
	Agents    int            `json:"agents"`
	Rate      *deskRate      `json:"rate,omitempty"`
	Full      *deskRate      `json:"full,omitempty"`
	Isolation *deskIsolation `json:"isolation,omitempty"`
	Idle      *deskIdle      `json:"idle,omitempty"`
	Reconnect *deskReconnect `json:"reconnect,omitempty"`
	Failures  []string       `json:"failures,omitempty"` // of parts that did not come to their end
}

type deskRate struct {
	What       string  `json:"what"`
	Messages   int64   `json:"messages"`
	PerSecond  float64 `json:"per_second"`
	AckP50     float64 `json:"ack_p50_ms"`
	AckP99     float64 `json:"ack_p99_ms"`
	AckP999    float64 `json:"ack_p99.9_ms"`
	PeerP50    float64 `json:"peer_p50_ms"`
	PeerP99    float64 `json:"peer_p99_ms"`
	PeerP999   float64 `json:"peer_p99.9_ms"`
	CPU        float64 `json:"server_cpu_us_per_message"`
	Refused    int64   `json:"refused"`
	FirstError string  `json:"first_error,omitempty"`
}

// deskIsolation compares what customers and agents feel of a pool of agents that is taken up by operations that hang. The two take turns, so
// that what else the machine does meets both.
type deskIsolation struct {
	Undisturbed deskRate `json:"undisturbed"`
	Hanging     deskRate `json:"hanging"`
	Delta       float64  `json:"median_ack_p99_delta_ms"` // between the medians of the turns' 99th percentiles
}

type deskIdle struct {
	Visitors int     `json:"visitors"`
	Bytes    float64 `json:"bytes_per_visitor"`
}

type deskReconnect struct {
	Visitors int             `json:"visitors"`
	Started  float64         `json:"server_started_ms"` // from the kill until the server listened again
	Seconds  float64         `json:"all_resumed_s"`     // from then, with every message acknowledged and shown to both sides
	P50      float64         `json:"welcomed_p50_s"`    // from then until a client was welcomed
	P99      float64         `json:"welcomed_p99_s"`
	Connects int64           `json:"connects"` // attempts of all clients
	Faults   deskload.Faults `json:"faults"`
}

// deskRun is one run of the measurements.
type deskRun struct {
	*deskBench
	t        *terminal
	dir      string
	accounts []deskload.Account
	server   *deskProcess
	fleet    *deskload.Fleet
	crowded  bool // the fleet has customers with an agent each
	report   deskReport
}

func (t *terminal) benchDesk(b *deskBench) (err error) {
	dir, err := os.MkdirTemp(b.data, "eddy-bench-desk-")
	if err != nil {
		return fmt.Errorf("%w; name a directory this user can write to with --data", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	r := &deskRun{deskBench: b, t: t, dir: filepath.Join(dir, "data"), report: deskReport{Customers: b.customers, Agents: b.agents}}
	defer func() { err = errors.Join(err, r.end()) }()
	err = t.whileRunning(context.Background(), func(ctx context.Context) error {
		if err := r.prepare(ctx); err != nil {
			return err
		}
		return r.measure(ctx, r.parts())
	})
	if !r.report.measured() { // nothing to tell but the error
		return err
	}
	if b.asJSON {
		return errors.Join(json.NewEncoder(t.out).Encode(r.report), err)
	}
	r.report.print(t)
	return err
}

// measured reports whether there is anything in the report.
func (d *deskReport) measured() bool {
	return d.Rate != nil || d.Full != nil || d.Isolation != nil || d.Idle != nil || d.Reconnect != nil
}

// prepare makes the accounts of the agents and starts the server.
func (r *deskRun) prepare(ctx context.Context) error {
	d, err := desk.Open(ctx, benchOptions(r.dir))
	if err != nil {
		return err
	}
	for i := range r.agents {
		a := deskload.Account{Login: fmt.Sprintf("agent%d", i), Password: "correct horse battery " + strconv.Itoa(i)}
		if err := d.AddAgent(ctx, a.Login, fmt.Sprintf("Agent %d", i), a.Password, 0); err != nil {
			return errors.Join(err, d.Close())
		}
		r.accounts = append(r.accounts, a)
	}
	if err := d.Close(); err != nil {
		return err
	}
	r.server, err = startDeskServer(r.dir, "127.0.0.1:0")
	return err
}

// end stops what runs.
func (r *deskRun) end() error {
	var errs []error
	if r.fleet != nil {
		errs = append(errs, r.fleet.Close())
	}
	if r.server != nil {
		errs = append(errs, r.server.stop())
	}
	return errors.Join(errs...)
}

// deskPart is one of the measurements.
type deskPart struct {
	name  string
	crowd bool // it wants customers with an agent each
	run   func(context.Context) error
}

func (r *deskRun) parts() []deskPart {
	return []deskPart{{"rate", true, r.atRate}, {"full", true, r.full}, {"isolation", true, r.isolation}, {"idle", false, r.idleVisitors}, {"reconnect", false, r.reconnected}}
}

// measure runs parts one after the other. One that fails does not take the results of the others with it.
func (r *deskRun) measure(ctx context.Context, parts []deskPart) error {
	var errs []error
	for _, part := range parts {
		if !r.wants(part.name) || ctx.Err() != nil {
			continue
		}
		r.t.note("bench desk: %s", part.name)
		err := r.measureOne(ctx, part)
		if err == nil {
			continue
		}
		err = fmt.Errorf("%s: %w", part.name, err)
		r.report.Failures = append(r.report.Failures, oneLine(err))
		errs = append(errs, err)
		r.t.note("bench desk: %s", oneLine(err))
		if err := r.restart(ctx); err != nil { // the next part begins anew
			return errors.Join(append(errs, err)...)
		}
	}
	return errors.Join(errs...)
}

func (r *deskRun) measureOne(ctx context.Context, part deskPart) error {
	ctx, cancel := context.WithTimeout(ctx, benchPatience)
	defer cancel()
	if part.crowd && !r.crowded {
		if err := r.crowd(ctx, r.customers); err != nil {
			return err
		}
	}
	defer r.t.meanwhile("bench desk: " + part.name)()
	return part.run(ctx)
}

// restart kills the server, whatever state a failed part has left it in, and starts it again on the same data.
func (r *deskRun) restart(ctx context.Context) error {
	r.crowded = false
	if ctx.Err() != nil {
		return nil
	}
	if err := r.server.kill(); err != nil {
		return err
	}
	var err error
	r.server, err = startDeskServer(r.dir, "127.0.0.1:0")
	return err
}

// crowd replaces the clients by new ones with a conversation each.
func (r *deskRun) crowd(ctx context.Context, customers int) error {
	if err := r.renew(); err != nil {
		return err
	}
	for _, step := range []struct {
		text string
		run  func() error
	}{
		{fmt.Sprintf("connecting %d agents", r.agents), func() error { return r.fleet.AddAgents(ctx, r.accounts) }},
		{"taking them from the router", func() error { return r.fleet.Rest(ctx) }},
		{fmt.Sprintf("connecting %d customers", customers), func() error { return r.fleet.AddCustomers(ctx, customers) }},
		{fmt.Sprintf("opening %d conversations", customers), func() error { return r.fleet.Open(ctx) }},
		{"giving each of them an agent", func() error { return r.fleet.Serve(ctx) }},
	} {
		r.t.note("bench desk: %s", step.text)
		done := r.t.meanwhile("bench desk: " + step.text)
		err := step.run()
		done()
		if err != nil {
			return err
		}
	}
	r.crowded = true
	return nil
}

func (r *deskRun) renew() error {
	if r.fleet != nil {
		if err := r.fleet.Close(); err != nil {
			return err
		}
	}
	r.fleet, r.crowded = deskload.New("http://"+r.server.addr, "demo"), false
	r.fleet.Progress = func(text string) { r.t.note("bench desk: %s", text) }
	return nil
}

// timed runs a measurement and adds what it cost the server.
func (r *deskRun) timed(what string, run func() (deskload.Result, error)) (*deskRate, error) {
	before := r.fleet.Faults()
	from, err := r.server.cpu()
	if err != nil {
		return nil, err
	}
	res, err := run()
	if err != nil {
		return nil, err
	}
	to, err := r.server.cpu()
	if err != nil {
		return nil, err
	}
	after := r.fleet.Faults()
	one := &deskRate{
		What: what, Messages: res.Acked, PerSecond: float64(res.Acked) / res.Elapsed.Seconds(),
		CPU: float64((to - from).Microseconds()) / float64(max(res.Sent, 1)), Refused: after.Refused + after.Busy - before.Refused - before.Busy, FirstError: after.FirstError,
	}
	one.percentiles(res.Acks, res.Peers)
	return one, nil
}

func (r *deskRun) atRate(ctx context.Context) (err error) {
	r.report.Rate, err = r.timed("at a constant rate", func() (deskload.Result, error) { return r.fleet.Rate(ctx, r.rate, r.size, r.duration) })
	return err
}

func (r *deskRun) full(ctx context.Context) (err error) {
	r.report.Full, err = r.timed("as many as it takes", func() (deskload.Result, error) { return r.fleet.Full(ctx, r.size, r.duration) })
	return err
}

// isolationTurns is how often either half of the comparison has its turn.
const isolationTurns = 5

// isolation compares the rate with and without a pool of agents that is taken up by what hangs.
func (r *deskRun) isolation(ctx context.Context) error {
	free, stuck := &isolationHalf{what: "undisturbed"}, &isolationHalf{what: "while operations of agents hang"}
	for range isolationTurns {
		if err := r.turn(ctx, free); err != nil {
			return err
		}
		if err := r.occupy(ctx); err != nil {
			return err
		}
		if err := r.turn(ctx, stuck); err != nil {
			return err
		}
		if _, err := r.server.ask("heal"); err != nil {
			return err
		}
	}
	r.report.Isolation = &deskIsolation{Undisturbed: *free.sum, Hanging: *stuck.sum, Delta: median(stuck.p99) - median(free.p99)}
	return nil
}

// What agents may have running and waiting, and all of them together, by the hub's defaults.
const (
	agentRunning = 4
	agentWaiting = 16
	agentWorkers = 64
)

// occupy makes operations of agents hang and waits until they take every place that they may.
func (r *deskRun) occupy(ctx context.Context) error {
	if _, err := r.server.ask("hang"); err != nil {
		return err
	}
	if err := r.fleet.Occupy(agentRunning + agentWaiting); err != nil {
		return err
	}
	for {
		text, err := r.server.ask("hung")
		if err != nil {
			return err
		}
		if n, err := strconv.Atoi(text); err != nil || n >= min(agentWorkers, r.agents*agentRunning) {
			return err
		}
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// isolationHalf is what the turns of one half have found.
type isolationHalf struct {
	what        string
	sum         *deskRate
	acks, peers *hdrhistogram.Histogram
	p99         []float64 // of acknowledgements, of each turn
}

// turn measures for a short time and adds to what was found before.
func (r *deskRun) turn(ctx context.Context, h *isolationHalf) error {
	var res deskload.Result
	one, err := r.timed(h.what, func() (_ deskload.Result, err error) {
		res, err = r.fleet.Rate(ctx, r.rate, r.size, r.duration/isolationTurns)
		return res, err
	})
	if err != nil {
		return err
	}
	h.p99 = append(h.p99, one.AckP99)
	if h.sum == nil {
		h.sum, h.acks, h.peers = one, res.Acks, res.Peers
		return nil
	}
	h.acks.Merge(res.Acks)
	h.peers.Merge(res.Peers)
	h.sum.add(one)
	h.sum.percentiles(h.acks, h.peers)
	return nil
}

func median(v []float64) float64 {
	slices.Sort(v)
	return v[len(v)/2]
}

// add takes in another turn of the same, but for its percentiles.
func (r *deskRate) add(other *deskRate) {
	messages := r.Messages + other.Messages
	r.CPU = (r.CPU*float64(r.Messages) + other.CPU*float64(other.Messages)) / float64(max(messages, 1))
	r.PerSecond = (r.PerSecond*float64(r.Messages) + other.PerSecond*float64(other.Messages)) / float64(max(messages, 1))
	r.Messages = messages
	r.Refused += other.Refused
}

func (r *deskRate) percentiles(acks, peers *hdrhistogram.Histogram) {
	ms := func(h *hdrhistogram.Histogram, p float64) float64 { return float64(h.ValueAtPercentile(p)) / 1e6 }
	r.AckP50, r.AckP99, r.AckP999 = ms(acks, 50), ms(acks, 99), ms(acks, 99.9)
	r.PeerP50, r.PeerP99, r.PeerP999 = ms(peers, 50), ms(peers, 99), ms(peers, 99.9)
}

// idleVisitors measures what a connected visitor costs the server.
func (r *deskRun) idleVisitors(ctx context.Context) error {
	if err := r.renew(); err != nil {
		return err
	}
	if err := r.fleet.AddCustomers(ctx, 100); err != nil { // what is made once
		return err
	}
	before, err := r.server.memory()
	if err != nil {
		return err
	}
	if err := r.fleet.AddCustomers(ctx, r.idle); err != nil {
		return err
	}
	after, err := r.server.memory()
	r.report.Idle = &deskIdle{Visitors: r.idle, Bytes: float64(after-before) / float64(r.idle)}
	return err
}

// reconnected kills the server under its clients, each of which has just sent a message, and starts it again.
func (r *deskRun) reconnected(ctx context.Context) error {
	if err := r.crowd(ctx, r.reconnect); err != nil {
		return err
	}
	before := r.fleet.Faults()
	r.fleet.Outage()
	if err := r.fleet.Say(r.size); err != nil {
		return err
	}
	addr := r.server.addr
	killed := time.Now()
	if err := r.server.kill(); err != nil {
		return err
	}
	var err error
	if r.server, err = startDeskServer(r.dir, addr); err != nil {
		return err
	}
	listening := time.Now()
	r.t.note("bench desk: the server listens again")
	if err := r.fleet.Resumed(ctx); err != nil {
		return err
	}
	done := time.Since(listening)
	times, connects := r.fleet.Resumes(listening)
	seconds := func(p float64) float64 { return time.Duration(times.ValueAtPercentile(p)).Seconds() }
	r.report.Reconnect = &deskReconnect{
		Visitors: r.reconnect, Started: float64(listening.Sub(killed).Microseconds()) / 1e3, Seconds: done.Seconds(),
		P50: seconds(50), P99: seconds(99), Connects: connects, Faults: r.fleet.Faults().Sub(before),
	}
	return nil
}

func (d deskReport) print(t *terminal) {
	t.say("desk: %d customers, %d agents", d.Customers, d.Agents)
	rate := func(r deskRate) {
		t.say("%s: %d messages, %.0f/s", r.What, r.Messages, r.PerSecond)
		t.say("  send to ack   p50 %.2f ms, p99 %.2f ms, p99.9 %.2f ms", r.AckP50, r.AckP99, r.AckP999)
		t.say("  send to peer  p50 %.2f ms, p99 %.2f ms, p99.9 %.2f ms", r.PeerP50, r.PeerP99, r.PeerP999)
		t.say("  server        %.0f µs of processor time per message, %d refused", r.CPU, r.Refused)
		if r.Refused > 0 {
			t.say("  first error   %s", r.FirstError)
		}
	}
	for _, r := range []*deskRate{d.Rate, d.Full} {
		if r != nil {
			rate(*r)
		}
	}
	if i := d.Isolation; i != nil {
		rate(i.Undisturbed)
		rate(i.Hanging)
		t.say("isolation: the 99th percentile of acknowledgements differs by %.2f ms, medians of %d turns", i.Delta, isolationTurns)
	}
	if d.Idle != nil {
		t.say("idle: %d visitors, %.1f KiB of resident memory each", d.Idle.Visitors, d.Idle.Bytes/1024)
	}
	if r := d.Reconnect; r != nil {
		t.say("reconnect: %d visitors; the server listened again after %.0f ms, all had resumed %.1f s after that", r.Visitors, r.Started, r.Seconds)
		t.say("  welcomed      p50 %.1f s, p99 %.1f s, %d connects", r.P50, r.P99, r.Connects)
		f := r.Faults
		t.say("  messages      lost %d, shown twice %d, out of order %d, events again %d", f.Lost, f.Doubled, f.Disordered, f.Replayed)
		t.say("  commands      refused %d, told to come later %d; %d gaps fetched", f.Refused, f.Busy, f.Gaps)
		if f.FirstError != "" {
			t.say("  first error   %s", f.FirstError)
		}
	}
}

// deskProcess is the server that is measured.
type deskProcess struct {
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Scanner
	addr string
}

func startDeskServer(data, addr string) (*deskProcess, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self, "bench", benchServer, "--data", data, "--addr", addr)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &deskProcess{cmd: cmd, in: in, out: bufio.NewScanner(out)}
	if p.addr, err = p.line(); err != nil {
		return nil, errors.Join(err, p.kill())
	}
	return p, nil
}

func (p *deskProcess) line() (string, error) {
	if p.out.Scan() {
		return p.out.Text(), nil
	}
	return "", errors.Join(errors.New("the server that is measured has ended"), p.out.Err())
}

// ask sends a line and returns the answer.
func (p *deskProcess) ask(line string) (string, error) {
	if _, err := io.WriteString(p.in, line+"\n"); err != nil {
		return "", err
	}
	return p.line()
}

func (p *deskProcess) memory() (int64, error) {
	text, err := p.ask("memory")
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(text, 10, 64)
}

// cpu is the processor time that the server has used.
func (p *deskProcess) cpu() (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		return 0, fmt.Errorf("the processor time of the server is read from /proc, which this system has not: %w", err)
	}
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	const user, system, ticks = 11, 12, 100 // of the fields behind the name; USER_HZ
	if len(fields) <= system {
		return 0, io.ErrUnexpectedEOF
	}
	u, err1 := strconv.ParseInt(fields[user], 10, 64)
	s, err2 := strconv.ParseInt(fields[system], 10, 64)
	return time.Duration(u+s) * time.Second / ticks, errors.Join(err1, err2)
}

func (p *deskProcess) kill() error {
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return p.wait()
}

// stop lets the server end by itself.
func (p *deskProcess) stop() error {
	_ = p.in.Close()
	timer := time.AfterFunc(drainTimeout, func() { _ = p.cmd.Process.Signal(syscall.SIGKILL) })
	defer timer.Stop()
	return p.wait()
}

// wait returns when the process has ended; that it was killed is no error. One that has been waited for is not waited for again.
func (p *deskProcess) wait() error {
	if p.cmd.ProcessState != nil {
		return nil
	}
	err := p.cmd.Wait()
	if _, ok := errors.AsType[*exec.ExitError](err); ok {
		return nil
	}
	return err
}
