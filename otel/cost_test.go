package otel_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/buf"
	"github.com/go-eddy/eddy/codec/fixed"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/otel"
	"github.com/go-eddy/eddy/trace"
)

// messageSize is the size of an echo in bytes.
const messageSize = 64

// nowhere takes spans and keeps none.
type nowhere struct{}

func (nowhere) ExportSpans(context.Context, []sdktrace.ReadOnlySpan) error { return nil }
func (nowhere) Shutdown(context.Context) error                             { return nil }

// serveCost is the server: an echo whose handler is on a pool. It says its address, and for each line of its input its processor
// time.
func serveCost(mode string) error {
	pool, err := executor.NewFixed(executor.Options{Name: "echo", Workers: 2, Queue: 4096})
	if err != nil {
		return err
	}
	defer pool.Close()
	var rec *trace.Recorder
	share, kind, _ := strings.Cut(mode, "-")
	if share, err := strconv.ParseFloat(share, 64); err == nil {
		p := sdktrace.NewTracerProvider(sdktrace.WithBatcher(nowhere{}))
		defer func() { _ = p.Shutdown(context.Background()) }()
		o := trace.Options{Sample: share}
		if kind != "alone" { // without OpenTelemetry
			t := otel.New(p, otel.Options{StageSpans: kind == "spans"})
			defer t.Flush()
			o.Tracer = t
		}
		if rec, err = trace.New(o); err != nil {
			return err
		}
	}
	srv := &eddy.Server{Loops: 1, Init: func(p *eddy.Pipeline) error {
		codec, err := fixed.Codec(messageSize)
		if err != nil {
			return err
		}
		if err := p.Add("messages", codec); err != nil {
			return err
		}
		if rec != nil {
			if err := p.Add("trace", trace.Messages(rec, func(*buf.Bytes) string { return "echo" })); err != nil {
				return err
			}
		}
		return p.Add("echo", eddy.Handle(func(ctx *eddy.Context, m *buf.Bytes) error { return ctx.WriteBytes(m.Bytes()) }), eddy.On(pool))
	}}
	if err := srv.Listen("tcp", "127.0.0.1:0"); err != nil {
		return err
	}
	defer srv.Close()
	fmt.Println(srv.Addr())
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			return err
		}
		fmt.Println(u.Utime.Nano() + u.Stime.Nano())
	}
	return nil
}

// costly is a running server of serveCost and its clients.
type costly struct {
	in    io.WriteCloser
	out   *bufio.Reader
	conns []net.Conn
	cmd   *exec.Cmd
}

func newCostly(b *testing.B, mode string, conns int) *costly {
	b.Helper()
	c := &costly{cmd: exec.CommandContext(b.Context(), os.Args[0])}
	c.cmd.Env = append(os.Environ(), costEnv+"="+mode)
	c.cmd.Stderr = os.Stderr
	var err error
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		b.Fatal(err)
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := c.cmd.Start(); err != nil {
		b.Fatal(err)
	}
	c.out = bufio.NewReader(out)
	addr := c.line(b)
	for range conns {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			b.Fatal(err)
		}
		c.conns = append(c.conns, conn)
	}
	return c
}

func (c *costly) close(b *testing.B) {
	for _, conn := range c.conns {
		conn.Close()
	}
	c.in.Close()
	if err := c.cmd.Wait(); err != nil {
		b.Error(err)
	}
}

func (c *costly) line(b *testing.B) string {
	b.Helper()
	line, err := c.out.ReadString('\n')
	if err != nil {
		b.Fatal(err)
	}
	return strings.TrimSpace(line)
}

// used returns the server's processor time in nanoseconds.
func (c *costly) used(b *testing.B) int64 {
	b.Helper()
	fmt.Fprintln(c.in)
	n, err := strconv.ParseInt(c.line(b), 10, 64)
	if err != nil {
		b.Fatal(err)
	}
	return n
}

// round sends n messages on each connection, depth at a time, and returns the server's processor time for each.
func (c *costly) round(b *testing.B, n, depth int) float64 {
	b.Helper()
	before := c.used(b)
	ended := make(chan error)
	for _, conn := range c.conns {
		go func() {
			p, err := make([]byte, depth*messageSize), error(nil)
			for range n / depth {
				if _, err = conn.Write(p); err == nil {
					_, err = io.ReadFull(conn, p)
				}
				if err != nil {
					break
				}
			}
			ended <- err
		}()
	}
	for range c.conns {
		if err := <-ended; err != nil {
			b.Fatal(err)
		}
	}
	return float64(c.used(b)-before) / float64(n*len(c.conns))
}

// BenchmarkCost is what tracing costs an echo with a hop: servers that trace nothing, none, 1 % and all of the messages, in turn:
// by package trace alone, and with OpenTelemetry, with stages as events or as spans. Each round has new servers, because two of the same kind differ by a few percent for as
// long as they live. The figures are the medians over the rounds of each server's processor time a message, as a ratio to
// the server that traces nothing in the same round. One op is a round.
func BenchmarkCost(b *testing.B) {
	modes := []string{"none", "none", "0", "0.01-alone", "0.01", "0.01-spans", "1-alone", "1", "1-spans"}
	per := make([][]float64, len(modes))
	for round := range b.N {
		var base float64
		row := make([]float64, len(modes))
		for k := range modes {
			i := (k + round) % len(modes)
			row[i] = costOf(b, modes[i])
		}
		base = row[0]
		for i, v := range row {
			if i > 0 {
				v /= base
			}
			per[i] = append(per[i], v)
		}
	}
	b.ReportMetric(median(per[0]), "cpu-ns/msg")
	b.ReportMetric(median(per[1]), "again-ratio") // the noise
	for i, mode := range modes[2:] {
		b.ReportMetric(median(per[i+2]), mode+"-ratio")
	}
	b.ReportMetric(0, "ns/op")
}

// costOf returns a new server's processor time for a message, in nanoseconds.
func costOf(b *testing.B, mode string) float64 {
	b.Helper()
	s := newCostly(b, mode, 4)
	defer s.close(b)
	s.round(b, 1024, 1)
	return s.round(b, 8<<10, 1)
}

func median(v []float64) float64 {
	slices.Sort(v)
	return v[len(v)/2]
}
