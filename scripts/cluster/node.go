//go:build unix

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// node is one Desk.
type node struct {
	c    *cluster
	name string
	addr string // after the first start

	mu     sync.Mutex
	cmd    *exec.Cmd // nil = it does not run
	paused bool
	ended  chan struct{}
}

// start starts the program and waits until it is ready.
func (n *node) start(ctx context.Context) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.cmd != nil {
		return fmt.Errorf("the Desk %s runs", n.name)
	}
	if n.addr == "" {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		n.addr = l.Addr().String()
		if err := l.Close(); err != nil {
			return err
		}
	}
	cmd := exec.Command(n.c.o.eddy, append([]string{"desk", "--addr", n.addr, "--data", filepath.Join(n.c.dir, "desk-"+n.name)}, n.c.common...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl+C is for this program
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan struct{})
	n.cmd, n.ended, n.paused = cmd, ended, false
	go n.follow(cmd, out, ended)
	for {
		select {
		case <-ended:
			return fmt.Errorf("the Desk %s has ended", n.name)
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
		if answer, err := n.ready(ctx); err == nil && answer != "" {
			return nil
		}
	}
}

// follow shows what a program says until it ends.
func (n *node) follow(cmd *exec.Cmd, out io.Reader, ended chan struct{}) {
	for scan := bufio.NewScanner(out); scan.Scan(); {
		n.c.say.printf("%s | %s", n.name, scan.Text())
	}
	err := cmd.Wait()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		n.c.say.printf("%s | %s", n.name, exit)
	}
	close(ended)
}

// end sends signals and waits for the end of the program, if it runs.
func (n *node) end(signals ...syscall.Signal) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.cmd == nil {
		return
	}
	for _, s := range signals {
		_ = n.cmd.Process.Signal(s) // it may have ended by itself
	}
	<-n.ended
	n.cmd = nil
}

func (n *node) do(ctx context.Context, what string) error {
	switch what {
	case "kill":
		n.end(syscall.SIGKILL)
	case "stop":
		n.end(syscall.SIGCONT, syscall.SIGTERM)
	case "start":
		return n.start(ctx)
	case "pause", "resume":
		return n.pause(what == "pause")
	default:
		return fmt.Errorf("%q is nothing that a Desk can be told: say kill, stop, pause, resume or start", what)
	}
	n.c.say.printf("Desk %s does not run", n.name)
	return nil
}

func (n *node) pause(on bool) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.cmd == nil {
		return fmt.Errorf("the Desk %s does not run", n.name)
	}
	signal := syscall.SIGCONT
	if on {
		signal = syscall.SIGSTOP
	}
	n.paused = on
	return n.cmd.Process.Signal(signal)
}

func (n *node) status(ctx context.Context) string {
	n.mu.Lock()
	runs, paused := n.cmd != nil, n.paused
	n.mu.Unlock()
	switch {
	case !runs:
		return "does not run"
	case paused:
		return "is paused"
	}
	answer, err := n.ready(ctx)
	if err != nil {
		return err.Error()
	}
	return answer
}

// ready returns what the page /readyz says if the Desk is, and "" if it is not.
func (n *node) ready(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+n.addr+"/readyz", nil)
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
	text := strings.Join(strings.Split(strings.TrimSpace(string(body)), "\n"), "; ")
	if resp.StatusCode != http.StatusOK {
		err = errors.Join(err, errors.New(text))
	}
	return text, err
}
