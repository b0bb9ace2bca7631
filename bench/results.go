package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// part is a comparison in the results. Its flags are such that all parts together take about 40 minutes.
type part struct {
	name, title string
	args        string // as a command line
	quick       string // the same for a trial of seconds
	chart       string // heading of the column of its grids that is drawn; "" = none
}

const (
	quickRounds = "-rounds 1 -duration 100ms -warmup 20ms"
	quickIdle   = "-duration 100ms -idle-conns 100"
)

// parts are all parts, in the order in which they are run and reported.
var parts = []part{
	{"echo", "Echo", "-rounds 15 -duration 400ms -warmup 100ms", quickRounds + " -cases 4x1,4x16", ""},
	{"part-load", "Part load", "-rounds 5 -duration 1s -warmup 200ms", quickRounds + " -cases 4x4", ""},
	{"loops", "Two loops on two processors", "-rounds 9 -duration 500ms -warmup 100ms", quickRounds + " -cases 4x1", ""},
	{"hop", "Hop to a pool and back", "-rounds 13 -duration 400ms -warmup 100ms", quickRounds + " -cases 4x1", ""},
	{"idle", "Idle connections", "-duration 2s", quickIdle, "resident bytes per connection"},
	{"ws-idle", "Idle WebSockets", "-duration 2s -idle-conns 10000", quickIdle, "resident bytes per connection"},
	{"http-idle", "Idle keep-alive connections", "-duration 2s -idle-conns 10000", quickIdle, "resident bytes per connection"},
	{"threads", "1000 connections: threads, goroutines, one loop", "", "-duration 50ms -cases 100x1", "resident bytes per connection"},
	{"crowd", "100 connections that speak, alone and beside 10,000 idle ones", "-warmup 300ms", quickRounds + " -idle-conns 100 -cases 4x1", ""},
	{"scale", "Scale", "-rounds 3 -duration 500ms -warmup 300ms", quickRounds + " -cases 4x1,20x1,40x1", costColumn},
	{"paused", "Clients that keep sending to a server that does not read", "-duration 4s", "-duration 100ms -warmup 20ms -cases 20x1", "resident bytes per connection"},
	{"lanes", "Light requests beside heavy and stuck ones", "-duration 1500ms", "-rounds 1 -duration 200ms -warmup 50ms", "ratio of p99"},
	{"http", "HTTP/1.1", "-rounds 9 -duration 1s -warmup 0s", quickRounds + " -wrk= -cases 4x1,4x4", ""},
	{"files", "Files", "-rounds 5 -duration 1s -warmup 200ms", quickRounds + " -cases 2x1x4096", ""},
	{"files-tls", "Files over TLS", "-rounds 5 -duration 2s -warmup 200ms", quickRounds + " -cases 2x1x4096", ""},
	{"ws", "WebSocket echo", "-rounds 13 -duration 400ms -warmup 100ms", quickRounds + " -cases 4x1,4x4", ""},
	{"ws-broadcast", "WebSocket broadcast", "-duration 1500ms -warmup 200ms", quickRounds + " -cases 10x1", ""},
	{"rpc", "RPC", "-rounds 11 -duration 500ms -warmup 100ms -cases 1x1,64x1,1024x1,64x1x16384", quickRounds + " -cases 1x1,4x1", ""},
	{"grpc", "gRPC: unary calls of grpc-go's client", "-rounds 7 -duration 500ms -warmup 100ms", quickRounds + " -cases 4x1", ""},
	{"grpc-stream", "gRPC: streams of 100 messages for grpc-go's client", "-rounds 7 -duration 500ms -warmup 100ms", quickRounds + " -cases 2x3x128", ""},
	{"grpc-idle", "Idle connections of gRPC", "-duration 2s -idle-conns 10000", quickIdle, "resident bytes per connection"},
	{"flow", "Large messages", "-rounds 3 -duration 600ms -warmup 100ms", quickRounds + " -cases 2x1x65536", ""},
	{"rpc-models", "RPC: consumers, isolation, overload", "-duration 2s", "-duration 200ms", ""},
	{"tls", "TLS", "-duration 700ms -warmup 200ms", quickRounds + " -cases 2x1", ""},
	{"handshakes", "TLS handshakes", "-duration 700ms -warmup 200ms", quickRounds + " -cases 2x1", ""},
	{"topologies", "Connections that live for one exchange and end by a reset", "-rounds 9 -duration 700ms -warmup 200ms", quickRounds + " -cases 4x1", ""},
	{"farewells", "Connections that live for one exchange and end by FIN", "-rounds 9 -duration 700ms -warmup 200ms", quickRounds + " -cases 4x1", ""},
	{"writes", "Writes from goroutines that own no connection", "-rounds 3 -duration 700ms -warmup 200ms -cases 1x8,100x1", quickRounds + " -cases 2x2", ""},
	{"timers", "Armed deadlines", "-duration 200ms", "-rounds 1 -duration 1ms", ""},
	{"rings", "Rings and lanes", "-duration 60ms", "-rounds 1 -duration 5ms -procs 2", ""},
	{"pools", "Pools, strands, spilling", "-rounds 3 -duration 100ms", "-rounds 1 -duration 5ms -procs 1", ""},
	{"claims", "What is said without a source", "-duration 100ms", "-rounds 1 -duration 5ms", "times as fast"},
	{"desk", "Desk", "-duration 8s", "-quick", ""},
}

// apart are the comparisons that results leaves out, because each takes as long as a third of all the others: their figures
// are in README.md.
var apart = []string{"floods", "limits"}

// resultsFlags are the flags of "results".
type resultsFlags struct {
	quick, render bool
	only          string
	out           string // directory of RESULTS.md, beside which results/ is
}

// results runs the parts and writes their reports to out/results. From all reports there it makes out/RESULTS.md and its
// pictures. A part that fails does not keep the others from running.
func results(ctx context.Context, args []string, say io.Writer) error {
	var f resultsFlags
	fs := flag.NewFlagSet("results", flag.ContinueOnError)
	fs.BoolVar(&f.quick, "quick", false, "a trial of the machinery: its figures mean nothing")
	fs.BoolVar(&f.render, "render", false, "measure nothing: make RESULTS.md of what lies in results/")
	fs.StringVar(&f.only, "only", "", "only these, separated by commas; the others stay as they are in results/")
	fs.StringVar(&f.out, "out", ".", "directory of RESULTS.md and results/")
	if err := fs.Parse(args); err != nil {
		return err
	}
	chosen, err := f.parts(fs.Args())
	if err != nil {
		return err
	}
	if err := os.MkdirAll(f.dir(), 0o777); err != nil {
		return err
	}
	if f.render {
		return f.write(say)
	}
	dir, err := os.MkdirTemp("", "eddy-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	b, began := &binaries{dir: dir}, time.Now()
	var failed []error
	for i, p := range chosen {
		progress("== part %d of %d, %s so far: %s", i+1, len(chosen), time.Since(began).Round(time.Second), p.name)
		if err := f.measure(ctx, b, p); err != nil {
			if ctx.Err() != nil {
				return err
			}
			failed = append(failed, fmt.Errorf("%s: %w", p.name, err))
			progress("%v", failed[len(failed)-1])
		}
	}
	return errors.Join(append(failed, f.write(say))...)
}

func (f *resultsFlags) dir() string { return filepath.Join(f.out, "results") }

// parts returns the parts that were asked for.
func (f *resultsFlags) parts(rest []string) ([]part, error) {
	if len(rest) > 0 {
		return nil, fmt.Errorf("unexpected argument %q", rest[0])
	}
	if f.only == "" {
		return parts, nil
	}
	var chosen []part
	for name := range strings.SplitSeq(f.only, ",") {
		i := slices.IndexFunc(parts, func(p part) bool { return p.name == name })
		if i < 0 {
			return nil, fmt.Errorf("-only: no part %q", name)
		}
		chosen = append(chosen, parts[i])
	}
	return chosen, nil
}

// measure runs a part and writes its report.
func (f *resultsFlags) measure(ctx context.Context, b *binaries, p part) error {
	line := p.args
	if f.quick {
		line = p.quick
	}
	before, from := loadAverage(), time.Now()
	rep, err := p.run(ctx, b, strings.Fields(line))
	if err != nil {
		return err
	}
	rep.Command = strings.TrimSpace("go run . " + p.name + " " + line)
	rep.Machine, rep.Quick = machine(), f.quick
	rep.Started, rep.Took = from.UTC().Truncate(time.Second), time.Since(from).Round(time.Second).String()
	rep.LoadBefore, rep.LoadAfter = before, loadAverage()
	text, err := json.MarshalIndent(rep, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(f.dir(), p.name+".json"), append(text, '\n'), 0o666)
}

func (p part) run(ctx context.Context, b *binaries, args []string) (*report, error) {
	if p.name == "desk" {
		return desk(ctx, b, args)
	}
	s, err := parse(p.name, comparisons[p.name], args)
	if err != nil {
		return nil, err
	}
	return comparisons[p.name].run(ctx, b, s)
}

// loadAverage returns the load average of the last minute, -1 where the system does not report it.
func loadAverage() float64 {
	v := -1.0
	if text, err := os.ReadFile("/proc/loadavg"); err == nil {
		fmt.Sscan(string(text), &v)
	}
	return v
}

// found holds the reports in the directory of results, by the name of the part.
type found map[string]*report

func (f *resultsFlags) read() (found, error) {
	all := found{}
	for _, p := range parts {
		text, err := os.ReadFile(filepath.Join(f.dir(), p.name+".json"))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		rep := new(report)
		if err := json.Unmarshal(text, rep); err != nil {
			return nil, fmt.Errorf("%s.json: %w", p.name, err)
		}
		all[p.name] = rep
	}
	return all, nil
}

// write makes the page and the pictures, and removes pictures that no report has any more.
func (f *resultsFlags) write(say io.Writer) error {
	all, err := f.read()
	if err != nil {
		return err
	}
	old, err := filepath.Glob(filepath.Join(f.dir(), "*.svg"))
	if err != nil {
		return err
	}
	for _, name := range old {
		if err := os.Remove(name); err != nil {
			return err
		}
	}
	for _, p := range parts {
		if all[p.name] == nil {
			continue
		}
		for _, c := range all[p.name].charts(p.name, p) {
			if err := os.WriteFile(filepath.Join(f.dir(), c.name), []byte(c.text), 0o666); err != nil {
				return err
			}
		}
	}
	name := filepath.Join(f.out, "RESULTS.md")
	if err := os.WriteFile(name, []byte(all.page()), 0o666); err != nil {
		return err
	}
	_, err = fmt.Fprintf(say, "%s: %d of %d parts\n%s", name, len(all), len(parts), all.targets())
	return err
}

// page returns the text of RESULTS.md.
func (all found) page() string {
	var w strings.Builder
	w.WriteString("# Results\n\nMade by `make bench-results` from the files in [results/](results); `go run . results -render` makes it of them again. How it is measured, and what was\nfound on the way: [README.md](README.md). Read ratios: every one compares contenders that took turns within one run.\n\n")
	if all.quick() {
		w.WriteString("**A trial of the machinery with `-quick`: these figures mean nothing.**\n\n")
	}
	w.WriteString(all.conditions())
	w.WriteString("\n## Targets\n\n" + all.targets())
	w.WriteString("\nA range in parentheses is that of the rounds, lowest to highest. \"yes\" and \"no\" hold for the median and every round; what does not hold in every round says so.\n")
	for _, p := range parts {
		rep := all[p.name]
		if rep == nil {
			continue
		}
		fmt.Fprintf(&w, "\n## %s\n\n%s, took %s, load average %.1f before and %.1f after.\n\n", p.title, rep.Started.Format("2006-01-02 15:04 UTC"), rep.Took, rep.LoadBefore, rep.LoadAfter)
		for _, c := range rep.charts(p.name, p) {
			fmt.Fprintf(&w, "![%s](results/%s)\n", p.title, c.name)
		}
		w.WriteString("\n" + rep.markdown())
	}
	return w.String()
}

func (all found) quick() bool {
	for _, rep := range all {
		if rep.Quick {
			return true
		}
	}
	return false
}

// quietLoad is the load average up to which a machine of two processors counts as quiet before a part. That much is left
// of the part before it.
const quietLoad = 4.5

// conditions says on which machine and when the results were measured, and whether the machine was quiet.
func (all found) conditions() string {
	var busy, missing []string
	least, most := math.Inf(1), 0.0
	for _, p := range parts {
		rep := all[p.name]
		if rep == nil {
			missing = append(missing, p.name)
			continue
		}
		least, most = min(least, rep.LoadBefore), max(most, rep.LoadBefore)
		if rep.LoadBefore > quietLoad {
			busy = append(busy, fmt.Sprintf("%s %.1f", p.name, rep.LoadBefore))
		}
	}
	text := ""
	for _, p := range parts {
		if rep := all[p.name]; rep != nil {
			m := rep.Machine
			text += fmt.Sprintf("%s, %d processors; %s; %s; %s.\n", m.Processor, m.CPUs, m.Kernel, m.Go, m.GCC)
			break
		}
	}
	if len(busy) > 0 {
		text += "\n**The machine was busy with other work** before these parts (load average): " + strings.Join(busy, ", ") + ". That stretches latencies and widens the ranges of the ratios.\n"
	} else if most > 0 {
		text += fmt.Sprintf("\nLoad average before the parts: %.1f to %.1f, which is what the parts leave behind themselves.\n", least, most)
	}
	if len(missing) > 0 {
		text += "\nNot measured: " + strings.Join(missing, ", ") + ".\n"
	}
	return text
}
