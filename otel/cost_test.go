package otel_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"testing"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/codec/fixed"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/otel"
	"github.com/go-eddy/eddy/trace"
)

// costEnv says to the test's own program that it is a server to be measured, and how it traces.
const costEnv = "EDDY_OTEL_COST"

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
	if share, err := strconv.ParseFloat(mode, 64); err == nil {
		p := sdktrace.NewTracerProvider(sdktrace.WithBatcher(nowhere{}))
		defer func() { _ = p.Shutdown(context.Background()) }()
		if rec, err = trace.New(trace.Options{Sample: share, Tracer: otel.New(p)}); err != nil {
			return err
		}
	}
	srv := &eddy.Server{Loops: 1, Init: func(p *eddy.Pipeline) error {
		if err := p.Add("messages", fixed.Decoder(messageSize)); err != nil {
			return err
		}
		if rec != nil {
			if err := p.Add("trace", trace.Messages(rec, func(*fixed.Message) string { return "echo" })); err != nil {
				return err
			}
		}
		return p.Add("echo", eddy.Handle(func(ctx *eddy.Context, m *fixed.Message) error { return ctx.WriteBytes(m.Bytes()) }), eddy.On(pool))
	}}
	if err := srv.Listen("tcp", "127.0.0.1:0"); err != nil {
		return err
	}
	defer srv.Close()
	fmt.Println(srv.Addr())
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		used, err := processorTime()
		if err != nil {
			return err
		}
		if err := json.NewEncoder(os.Stdout).Encode(used); err != nil {
			return err
		}
	}
	return nil
}
