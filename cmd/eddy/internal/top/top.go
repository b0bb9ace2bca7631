// Package top is "eddy top": what a program with --admin is doing.
package top

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/go-eddy/eddy/admin"
	"github.com/go-eddy/eddy/cmd/eddy/internal/cli"
)

const (
	topTimeout  = 10 * time.Second
	topSamples  = 300
	maxSnapshot = 16 << 20 // bytes of stats.json
)

// topFlags are the flags of "eddy top".
type topFlags struct {
	tokenFile string
	interval  time.Duration
	once      bool
}

// Command builds the command.
func Command(t *cli.Terminal) *cobra.Command {
	var f topFlags
	cmd := &cobra.Command{
		Use:   "top ADDR",
		Short: "Show what a program with --admin ADDR is doing, live",
		Long: `Show in the terminal what a server that was started with --admin ADDR is doing: connections, requests, loop lag, queues, pools and why connections
ended. q or Ctrl+C ends it. When the output is not a terminal it is plain text, one block for each look; --once is one block.`,
		Example: "  eddy serve echo --admin 127.0.0.1:7070\n  eddy top 127.0.0.1:7070\n  eddy top 127.0.0.1:7070 --once",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("%q needs one address, that of --admin, such as 127.0.0.1:7070", cmd.CommandPath())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return run(cmd.Context(), t, args[0], f) },
	}
	cmd.Flags().StringVar(&f.tokenFile, "token-file", "", "file with the token, if the program has one")
	cmd.Flags().DurationVar(&f.interval, "interval", time.Second, "time between two looks")
	cmd.Flags().BoolVar(&f.once, "once", false, "look once, as plain text")
	return cmd
}

// watcher asks a program for its numbers.
type watcher struct {
	url, token string
	client     http.Client
	latest     admin.Snapshot
	samples    []admin.Sample
}

func newWatcher(addr string, f topFlags) (*watcher, error) {
	if f.interval < 100*time.Millisecond || f.interval > time.Hour {
		return nil, fmt.Errorf("--interval %v is out of range: use 100ms to 1h", f.interval)
	}
	base := addr
	if !strings.Contains(base, "://") {
		if _, port, err := net.SplitHostPort(addr); err != nil || !cli.ValidPort(port) {
			return nil, fmt.Errorf("%q is not host:port; write the address of --admin, such as 127.0.0.1:7070", addr)
		}
		base = "http://" + addr
	}
	u, err := url.Parse(base)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("%q is no address of a program: write host:port or http://host:port", addr)
	}
	w := &watcher{url: strings.TrimSuffix(u.String(), "/") + "/stats.json", client: http.Client{Timeout: topTimeout}}
	if w.token, err = cli.ReadToken(f.tokenFile); err != nil {
		return nil, fmt.Errorf("--token-file: %w", err)
	}
	return w, nil
}

// look asks once.
func (w *watcher) look(ctx context.Context) error {
	since := int64(0)
	if n := len(w.samples); n > 0 {
		since = w.samples[n-1].Seq
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("%s?since=%d", w.url, since), nil)
	if err != nil {
		return err
	}
	if w.token != "" {
		req.Header.Set("Authorization", "Bearer "+w.token)
	}
	resp, err := w.client.Do(req)
	if err != nil {
		if e, ok := errors.AsType[*url.Error](err); ok {
			err = e.Err
		}
		return fmt.Errorf("%s does not answer: %w; is it the address of --admin of a program that runs?", req.URL.Host, err)
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusOK:
	case http.StatusUnauthorized:
		return fmt.Errorf("%s wants another token: give the program's own with --token-file", req.URL.Host)
	default:
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 300))
		return fmt.Errorf("%s answers %d %s: is it the address of --admin?", req.URL.Host, resp.StatusCode, printable(string(text)))
	}
	var s admin.Snapshot
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxSnapshot)).Decode(&s); err != nil {
		return fmt.Errorf("%s does not send the numbers of a program: %w", req.URL.Host, err)
	}
	w.take(s)
	return nil
}

// take stores an answer. Samples of an earlier process are dropped.
func (w *watcher) take(s admin.Snapshot) {
	if s.Process.PID != w.latest.Process.PID || s.Uptime < w.latest.Uptime {
		w.samples = nil
	}
	w.latest = s
	for _, m := range s.Samples {
		if n := len(w.samples); n == 0 || m.Seq > w.samples[n-1].Seq {
			w.samples = append(w.samples, m)
		}
	}
	if n := len(w.samples) - topSamples; n > 0 {
		w.samples = append(w.samples[:0], w.samples[n:]...)
	}
}

// run runs the command.
func run(ctx context.Context, t *cli.Terminal, addr string, f topFlags) error {
	w, err := newWatcher(addr, f)
	if err != nil {
		return err
	}
	defer w.client.CloseIdleConnections()
	if err := w.look(ctx); err != nil {
		return err
	}
	out, isFile := t.Out.(*os.File)
	switch {
	case f.once:
		t.Say("%s", strings.Join(topFrame(w, topWidth), "\n"))
		return nil
	case isFile && term.IsTerminal(int(out.Fd())):
		return topScreen(ctx, t, w, out, f.interval)
	}
	tick := time.NewTicker(f.interval)
	defer tick.Stop()
	for {
		t.Say("%s\n", strings.Join(topFrame(w, topWidth), "\n"))
		select {
		case <-tick.C:
		case <-t.Signals:
			return nil
		}
		if err := w.look(ctx); err != nil {
			return err
		}
	}
}
