package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// deskFound is the part of the JSON of "eddy bench desk" that is reported here.
type deskFound struct {
	Rate *struct {
		AckP50  float64 `json:"ack_p50_ms"`
		AckP99  float64 `json:"ack_p99_ms"`
		PeerP99 float64 `json:"peer_p99_ms"`
	} `json:"rate"`
	Full *struct {
		PerSecond float64 `json:"per_second"`
		CPU       float64 `json:"server_cpu_us_per_message"`
	} `json:"full"`
	Isolation *struct {
		Delta float64 `json:"median_ack_p99_delta_ms"`
	} `json:"isolation"`
	Idle *struct {
		Bytes float64 `json:"bytes_per_visitor"`
	} `json:"idle"`
	Reconnect *struct {
		Seconds float64 `json:"all_resumed_s"`
		Faults  struct{ Doubled, Lost int64 }
	} `json:"reconnect"`
	Failures []string `json:"failures"`
}

// desk lets "eddy bench desk" measure the chat server, as a process of its own.
func desk(ctx context.Context, b *binaries, args []string) (*report, error) {
	fs := flag.NewFlagSet("desk", flag.ContinueOnError)
	duration := fs.Duration("duration", 8*time.Second, "of each of its parts")
	quick := fs.Bool("quick", false, "a trial")
	if err := fs.Parse(args); err != nil {
		return nil, err
	}
	customers, visitors := 500, 2000
	if *quick {
		customers, visitors, *duration = 10, 20, 300*time.Millisecond
	}
	program := filepath.Join(b.dir, "eddycommand")
	if _, err := os.Stat(program); err != nil {
		cmd := exec.CommandContext(ctx, "go", "build", "-o", program, "./cmd/eddy")
		cmd.Dir = ".."
		if out, err := cmd.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, out)
		}
	}
	cmd := exec.CommandContext(ctx, program, "bench", "desk", "--json", "--duration", duration.String(), "--customers", strconv.Itoa(customers),
		"--idle", strconv.Itoa(visitors), "--reconnect", strconv.Itoa(visitors))
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = time.Minute
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", strings.Join(cmd.Args, " "), err)
	}
	var d deskFound
	if err := json.Unmarshal(out, &d); err != nil {
		return nil, err
	}
	return d.report(customers, visitors, *duration), nil
}

func (d *deskFound) report(customers, visitors int, duration time.Duration) *report {
	g := &grid{First: "what", Columns: []column{{"measured", "%.1f"}}}
	if r := d.Rate; r != nil {
		g.add("acknowledgement p50 at 500 messages/s, ms", r.AckP50)
		g.add("acknowledgement p99 at 500 messages/s, ms", r.AckP99)
		g.add("peer p99 at 500 messages/s, ms", r.PeerP99)
	}
	if f := d.Full; f != nil {
		g.add("durable messages per second", f.PerSecond)
		g.add("processor time of the server per message, µs", f.CPU)
	}
	if i := d.Isolation; i != nil {
		g.add("p99 with hanging operations against undisturbed turns, ms more", i.Delta)
	}
	if i := d.Idle; i != nil {
		g.add("bytes per idle visitor", i.Bytes)
	}
	if r := d.Reconnect; r != nil {
		g.add("seconds until all have resumed", r.Seconds)
		g.add("messages lost or doubled", float64(r.Faults.Lost+r.Faults.Doubled))
	}
	note := fmt.Sprintf("`eddy bench desk`: %d customers, 25 agents; %d idle visitors; %d that reconnect after a restart; %s for each load.", customers, visitors, visitors, duration)
	for _, f := range d.Failures {
		note += " Failed: " + f + "."
	}
	return &report{Grids: []*grid{g}, Note: note}
}
