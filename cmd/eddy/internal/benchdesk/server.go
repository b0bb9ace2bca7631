package benchdesk

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime/debug"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/go-eddy/eddy/cmd/eddy/internal/cli"
	"github.com/go-eddy/eddy/desk"
	"github.com/go-eddy/eddy/desk/auth"
	"github.com/go-eddy/eddy/desk/hub"
	"github.com/go-eddy/eddy/desk/store"
)

// benchServer is the command by which "eddy bench desk" runs its server as a process of its own.
const benchServer = "desk-server"

// Server builds "eddy desk" for measurements. It lifts the limits of single clients, because all load comes
// from one address, and a measurement writes faster than one visitor may. Lines on the standard input make the server
// hang and report its memory.
func Server(t *cli.Terminal) *cobra.Command {
	var of serverFlags
	cmd := &cobra.Command{
		Use:    benchServer,
		Short:  "The server that \"eddy bench desk\" measures",
		Hidden: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return serve(cmd.Context(), t, of)
		},
	}
	cmd.Flags().StringVar(&of.data, "data", "", "data directory")
	cmd.Flags().StringVar(&of.store, "store", "", "address of a PostgreSQL database; empty = a file in --data")
	cmd.Flags().StringVar(&of.files, "files", "", "directory of the files; empty = one in --data")
	cmd.Flags().StringVar(&of.bus, "bus", "", "address of NATS; empty = none")
	cmd.Flags().StringVar(&of.addr, "addr", "127.0.0.1:0", "address to listen on")
	return cmd
}

// serverFlags say where a server that is measured has its data.
type serverFlags struct{ data, store, files, bus, addr string }

// options returns the options of the server that is measured.
func (f *serverFlags) options() desk.Options {
	const plenty = 1e6
	fast := hub.Rate{PerSecond: plenty, Burst: plenty}
	return desk.Options{
		DataDir: f.data, Store: f.store, Files: f.files, Bus: f.bus, Addr: f.addr,
		Limits: hub.Limits{CustomerMessages: fast, AgentMessages: fast, CustomerCommands: fast, AgentCommands: fast},
		// The cost of passwords is not what is measured.
		Passwords: auth.Params{MemoryKiB: 64, Passes: 1, Lanes: 1}, NewVisitors: fast, NewVisitorsPerIP: fast, ConnsPerIP: -1,
		Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
	}
}

func serve(ctx context.Context, t *cli.Terminal, of serverFlags) error {
	o := of.options()
	jam := newJam()
	o.WrapStore = func(s store.Store) store.Store { return jammed{s, jam} }
	d, err := desk.Open(ctx, o)
	if err != nil {
		return err
	}
	if err := d.Start(ctx); err != nil {
		return errors.Join(err, d.Close())
	}
	t.Say("%s", d.Addr())
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		switch strings.TrimSpace(lines.Text()) {
		case "hang":
			jam.set(true)
			t.Say("ok")
		case "heal":
			jam.set(false)
			t.Say("ok")
		case "hung":
			t.Say("%d", jam.waiting())
		case "memory":
			debug.FreeOSMemory()
			rss, err := residentBytes(os.Getpid())
			if err != nil {
				return errors.Join(err, d.Close())
			}
			t.Say("%d", rss)
		case "stats":
			text, err := json.Marshal(statsOf(d.Stats()))
			if err != nil {
				return errors.Join(err, d.Close())
			}
			t.Say("%s", text)
		}
	}
	jam.set(false)
	ctx, cancel := context.WithTimeout(context.Background(), cli.DrainTimeout)
	defer cancel()
	return errors.Join(lines.Err(), d.Shutdown(ctx)) // the parent process has gone, or wants this one to end
}

// jam holds up reads of staff.
type jam struct {
	mu   sync.Mutex
	gate chan struct{} // closed while reads may pass
	held int           // reads that wait at it
}

func newJam() *jam {
	j := &jam{gate: make(chan struct{})}
	close(j.gate)
	return j
}

func (j *jam) set(hang bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	open := false
	select {
	case <-j.gate:
		open = true
	default:
	}
	switch {
	case hang && open:
		j.gate = make(chan struct{})
	case !hang && !open:
		close(j.gate)
	}
}

func (j *jam) pass(ctx context.Context) error {
	j.mu.Lock()
	gate := j.gate
	j.held++
	j.mu.Unlock()
	defer func() {
		j.mu.Lock()
		j.held--
		j.mu.Unlock()
	}()
	select {
	case <-gate:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (j *jam) waiting() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.held
}

// jammed is a store whose reads of single conversations for staff hang while the jam is set.
type jammed struct {
	store.Store
	jam *jam
}

// Cold implements store.Store.
func (s jammed) Cold() store.Reader { return jammedReader{s.Store.Cold(), s.jam} }

type jammedReader struct {
	store.Reader
	jam *jam
}

// Conversation implements store.Reader.
func (r jammedReader) Conversation(ctx context.Context, id string) (store.Conversation, error) {
	if err := r.jam.pass(ctx); err != nil {
		return store.Conversation{}, err
	}
	return r.Reader.Conversation(ctx, id)
}

// residentBytes reads the resident memory of a process from /proc.
func residentBytes(pid int) (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, fmt.Errorf("the memory of a process is read from /proc, which this system has not: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		var kib int64
		if _, err := fmt.Sscanf(line, "VmRSS: %d kB", &kib); err == nil {
			return kib << 10, nil
		}
	}
	return 0, io.ErrUnexpectedEOF
}
