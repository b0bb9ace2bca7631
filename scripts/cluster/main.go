//go:build unix

// Command cluster runs three Desks on one PostgreSQL and one NATS, behind a proxy, on this machine: to try what happens when
// one of them goes away. docs/desk-cluster.md walks through it. It needs the programs of PostgreSQL, and nothing else.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

func main() {
	var o options
	flag.IntVar(&o.nodes, "nodes", 3, "how many Desks")
	flag.StringVar(&o.addr, "addr", "127.0.0.1:8080", "address of the proxy")
	flag.StringVar(&o.eddy, "eddy", "", "the program eddy; empty = it is built from this directory")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, o, os.Stdin, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "cluster:", err)
		os.Exit(1)
	}
}

type options struct {
	nodes int
	addr  string
	eddy  string
}

const maxNodes = 9

// cluster is everything that runs.
type cluster struct {
	o      options
	dir    string
	say    *lines
	nodes  []*node
	nats   *natsServer
	common []string // flags of all Desks
}

// lines writes whole lines, from any goroutine.
type lines struct {
	mu  sync.Mutex
	out io.Writer
}

func (l *lines) printf(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, _ = fmt.Fprintf(l.out, format+"\n", args...)
}

// run runs the cluster until ctx ends, or "quit" is read.
func run(ctx context.Context, o options, in io.Reader, out io.Writer) (err error) {
	if o.nodes < 1 || o.nodes > maxNodes {
		return fmt.Errorf("--nodes %d: use 1 to %d", o.nodes, maxNodes)
	}
	dir, err := os.MkdirTemp("", "eddy-cluster-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := os.Chmod(dir, 0o755); err != nil { // PostgreSQL may run as another user
		return err
	}
	c := &cluster{o: o, dir: dir, say: &lines{out: out}}
	if c.o.eddy == "" {
		c.say.printf("building eddy")
		c.o.eddy = filepath.Join(dir, "eddy")
		if out, err := exec.CommandContext(ctx, "go", "build", "-o", c.o.eddy, "./cmd/eddy").CombinedOutput(); err != nil {
			return fmt.Errorf("go build: %w: %s", err, out)
		}
	}
	pg, err := startPostgres(ctx, filepath.Join(dir, "postgres"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, pg.stop()) }()
	if c.nats, err = startNATS(); err != nil {
		return err
	}
	defer c.nats.end()
	c.common = []string{"--store", pg.url, "--files", filepath.Join(dir, "files"), "--bus", c.nats.url()}
	defer c.stopAll()
	for i := range o.nodes {
		n := &node{c: c, name: fmt.Sprint(i + 1)}
		c.nodes = append(c.nodes, n)
		if err := n.start(ctx); err != nil { // one after the other: the first one makes the account
			return err
		}
	}
	p, err := startProxy(c)
	if err != nil {
		return err
	}
	defer p.stop()
	c.say.printf("\nThe proxy is at http://%s: /chat/demo for customers, /console for agents, /wall shows the servers.", p.addr)
	c.say.printf("Say kill, stop, pause, resume or start with the number of a Desk; nats off or nats on; status; quit.")
	return c.obey(ctx, in)
}

// obey does what it is told until it is told to quit.
func (c *cluster) obey(ctx context.Context, in io.Reader) error {
	said := make(chan string)
	go func() {
		defer close(said)
		for scan := bufio.NewScanner(in); scan.Scan(); {
			select {
			case said <- scan.Text():
			case <-ctx.Done():
				return
			}
		}
	}()
	for {
		select {
		case <-ctx.Done():
			return nil
		case text, ok := <-said:
			if !ok { // nobody can say anything any more
				<-ctx.Done()
				return nil
			}
			words := strings.Fields(text)
			if len(words) == 0 {
				continue
			}
			if words[0] == "quit" {
				return nil
			}
			if err := c.do(ctx, words); err != nil {
				c.say.printf("%v", err)
			}
		}
	}
}

func (c *cluster) do(ctx context.Context, words []string) error {
	what, whom := words[0], strings.Join(words[1:], " ")
	switch {
	case what == "status" && whom == "":
		for _, n := range c.nodes {
			c.say.printf("Desk %s at http://%s: %s", n.name, n.addr, n.status(ctx))
		}
		return nil
	case what == "nats" && whom == "off":
		c.nats.end()
		c.say.printf("NATS has ended")
		return nil
	case what == "nats" && whom == "on":
		return c.nats.begin()
	}
	for _, n := range c.nodes {
		if n.name == whom {
			return n.do(ctx, what)
		}
	}
	return fmt.Errorf("%q is nothing that can be done: say kill, stop, pause, resume or start with 1 to %d; nats off or nats on; status; quit", strings.Join(words, " "), len(c.nodes))
}

func (c *cluster) stopAll() {
	var all sync.WaitGroup
	for _, n := range c.nodes {
		all.Go(func() { n.end(syscall.SIGCONT, syscall.SIGTERM) })
	}
	all.Wait()
}

// patience is how long a program may take to begin.
const patience = time.Minute
