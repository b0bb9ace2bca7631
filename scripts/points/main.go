// Command points measures what the capacity model of Desk is made of, and writes desk/plan/points.go:
//
//	go run ./scripts/points -store postgres://postgres@127.0.0.1/postgres -bus nats://127.0.0.1:4222
//
// It makes a database for each run and removes it. Nothing else should run on the machine: it takes six minutes.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"go/format"
	"net/url"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/go-eddy/eddy/desk/plan"
)

func main() {
	store := flag.String("store", "", "address of a PostgreSQL database, as a user who may create others")
	bus := flag.String("bus", "", "address of NATS")
	duration := flag.Duration("duration", 20*time.Second, "how long each part takes")
	machine := flag.String("machine", fmt.Sprintf("%d processors, %s", runtime.NumCPU(), runtime.GOARCH), "what the machine is called in the file")
	to := flag.String("to", "desk/plan/points.go", "file to write")
	flag.Parse()
	if err := measure(context.Background(), *store, *bus, *duration, *machine, *to); err != nil {
		fmt.Fprintln(os.Stderr, "points:", err)
		os.Exit(1)
	}
}

// runs are what is measured: servers, messages a second, parts. The first one says what an idle visitor takes.
var runs = []struct {
	nodes, rate int
	parts       string
}{
	{1, 100, "idle"},
	{1, 100, "rate"}, {1, 300, "rate"}, {1, 500, "rate,full"},
	{3, 100, "rate"}, {3, 300, "rate"}, {3, 500, "rate,full"},
}

func measure(ctx context.Context, store, bus string, duration time.Duration, machine, to string) error {
	if store == "" || bus == "" {
		return errors.New("-store and -bus are needed")
	}
	var out bytes.Buffer
	for i, r := range runs {
		name := fmt.Sprintf("eddy_points_%d", i)
		args := []string{"run", "./cmd/eddy", "bench", "desk", "--json", "--customers", "200", "--agents", "10", "--idle", "5000",
			"--nodes", strconv.Itoa(r.nodes), "--rate", strconv.Itoa(r.rate), "--only", r.parts, "--duration", duration.String()}
		if r.nodes > 1 {
			args = append(args, "--bus", bus)
		}
		err := within(ctx, store, name, func(address string) error {
			cmd := exec.CommandContext(ctx, "go", append(args, "--store", address)...)
			cmd.Stdout, cmd.Stderr = &out, os.Stderr
			return cmd.Run()
		})
		if err != nil {
			return fmt.Errorf("%d servers, %s: %w", r.nodes, r.parts, err)
		}
	}
	m, err := plan.Read(&out)
	if err != nil {
		return err
	}
	m.Date, m.Machine = time.Now().UTC().Format(time.DateOnly), machine
	if _, err := plan.Fit(m); err != nil {
		return err
	}
	source, err := sourceOf(m)
	if err != nil {
		return err
	}
	return os.WriteFile(to, source, 0o644)
}

// within makes a database, and removes it afterwards.
func within(ctx context.Context, store, name string, do func(address string) error) (err error) {
	u, err := url.Parse(store)
	if err != nil {
		return err
	}
	conn, err := pgx.Connect(ctx, store)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	drop := func() error {
		_, err := conn.Exec(ctx, `DROP DATABASE IF EXISTS `+name+` WITH (FORCE)`)
		return err
	}
	if err := drop(); err != nil {
		return err
	}
	if _, err := conn.Exec(ctx, `CREATE DATABASE `+name+` ENCODING 'UTF8' TEMPLATE template0`); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, drop()) }()
	u.Path = "/" + name
	return do(u.String())
}

// sourceOf returns the file.
func sourceOf(m plan.Measured) ([]byte, error) {
	var b strings.Builder
	b.WriteString(`package plan

// Points returns what was measured. The file is written by scripts/points, never by hand: on a quiet machine
//
//	go run ./scripts/points -store postgres://postgres@127.0.0.1/postgres -bus nats://127.0.0.1:4222
//
// measures anew and replaces it.
func Points() Measured {
	return Measured{
`)
	fmt.Fprintf(&b, "Date: %q, Machine: %q,\nIdle: %.0f,\nPoints: []Point{\n", m.Date, m.Machine, m.Idle)
	for _, p := range m.Points {
		full := ""
		if p.Full {
			full = "Full: true, "
		}
		fmt.Fprintf(&b, "{Servers: %d, PerSecond: %.0f, %sCommits: %.4f, ServerCPU: %.0f, DatabaseCPU: %.0f, Grown: %.0f, WAL: %.0f, Syncs: %.4f", p.Servers, p.PerSecond, full, p.Commits, p.ServerCPU, p.DatabaseCPU, p.Grown, p.WAL, p.Syncs)
		if p.BusMessages > 0 {
			fmt.Fprintf(&b, ", BusMessages: %.3f, BusBytes: %.0f", p.BusMessages, p.BusBytes)
		}
		b.WriteString("},\n")
	}
	b.WriteString("},\n}\n}\n")
	return format.Source([]byte(b.String()))
}
