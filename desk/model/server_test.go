package model

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/go-eddy/eddy/desk"
	"github.com/go-eddy/eddy/desk/auth"
	"github.com/go-eddy/eddy/desk/hub"
)

// asServer names the data directory in the environment of the process that is killed.
const asServer = "EDDY_MODEL_SERVER"

func TestMain(m *testing.M) {
	if dir := os.Getenv(asServer); dir != "" {
		if err := runServer(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// options are those of the server: no limits of single clients, because the model is about what is delivered and not about how fast; cheap
// passwords.
func options(dir string) desk.Options {
	const plenty = 1e6
	fast := hub.Rate{PerSecond: plenty, Burst: plenty}
	return desk.Options{
		DataDir: dir, Addr: "127.0.0.1:0", NewVisitors: fast, NewVisitorsPerIP: fast, ConnsPerIP: -1, Passwords: auth.Params{MemoryKiB: 64, Passes: 1, Lanes: 1},
		Limits: hub.Limits{CustomerMessages: fast, AgentMessages: fast, CustomerCommands: fast, AgentCommands: fast, CommandAge: 20 * time.Second, AgentSettle: -1},
		Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})),
	}
}

// runServer is the process that is killed. It ends in order when its standard input does.
func runServer(dir string) error {
	ctx := context.Background()
	d, err := desk.Open(ctx, options(dir))
	if err != nil {
		return err
	}
	if err := d.Start(ctx); err != nil {
		return err
	}
	fmt.Println(d.Addr())
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return err
	}
	stop, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	return d.Shutdown(stop)
}

// server is a Desk as a process of its own.
type server struct {
	cmd  *exec.Cmd
	in   io.WriteCloser
	addr string
}

func startServer(t *testing.T, dir string) *server {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), asServer+"="+dir)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line := bufio.NewScanner(out)
	if !line.Scan() {
		t.Fatalf("the server has not started: %v", cmd.Wait())
	}
	return &server{cmd: cmd, in: in, addr: line.Text()}
}

// kill ends the process without a word.
func (s *server) kill(t *testing.T) {
	t.Helper()
	if err := s.cmd.Process.Kill(); err != nil {
		t.Error(err)
	}
	_ = s.cmd.Wait() // "killed"
}

// stop ends the process in order.
func (s *server) stop(t *testing.T) {
	t.Helper()
	_ = s.in.Close()
	if err := s.cmd.Wait(); err != nil {
		t.Errorf("the server's end: %v", err)
	}
}
