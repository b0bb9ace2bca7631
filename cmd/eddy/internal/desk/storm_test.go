package desk

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"regexp"
	"syscall"
	"testing"
	"time"

	"github.com/go-eddy/eddy/cmd/eddy/internal/cmdtest"
	"github.com/go-eddy/eddy/cmd/eddy/internal/deskload"
	"github.com/go-eddy/eddy/internal/testkit"
)

// doors are addresses of servers that stay when a server is started again at another one.
func (c *nodes) doors() (bases []string) {
	for i := range c.all {
		door := newCable(c.t, func() (net.Conn, error) {
			c.mu.Lock()
			p := c.all[i]
			c.mu.Unlock()
			if p == nil {
				return nil, errors.New("the server is not there")
			}
			return net.Dial("tcp", p.Addr)
		})
		bases = append(bases, "http://"+door.addr())
	}
	return bases
}

// TestNodesStorm kills three servers at once, under 168 clients that write, and starts them again. All clients come back, none is sent away, and every message
// is there once and in order, for both sides.
func TestNodesStorm(t *testing.T) {
	t.Parallel()
	const servers, each = 3, 20 // conversations of an agent, who may send so many messages at once
	agents := 8
	if testing.Short() {
		agents = 3
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*testkit.Patience)
	defer cancel()
	url, data, _ := moved(t)
	var accounts []deskload.Account
	for i := range agents {
		login := fmt.Sprint("storm", i)
		out, errs, code := cmdtest.Run(t, "desk", "user", "add", login, "--capacity", fmt.Sprint(each), "--data", data, "--store", url)
		said := regexp.MustCompile(`password\s+(\S+)`).FindStringSubmatch(out)
		if code != 0 || said == nil {
			t.Fatalf("exit code %d, %q, %q", code, out, errs)
		}
		accounts = append(accounts, deskload.Account{Login: login, Password: said[1]})
	}
	c := startNodes(t, servers, "--store", url, "--files", filepath.Join(data, "files"), "--site-visitors", "0")
	f := deskload.New("demo", c.doors()...)
	defer func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%v; %+v", err, f.Faults())
		}
	}
	must(f.AddAgents(ctx, accounts))
	must(f.Rest(ctx))
	must(f.AddCustomers(ctx, agents*each))
	must(f.Open(ctx))
	must(f.Serve(ctx))
	must(f.Say(16))
	f.Outage()
	var all []*cmdtest.Process
	for i := range servers {
		all = append(all, c.end(i))
	}
	for _, p := range all {
		p.Signal(syscall.SIGKILL)
	}
	for _, p := range all {
		p.Wait()
	}
	from := time.Now()
	must(f.Say(16)) // when they are back
	for i := range servers {
		c.start(i)
	}
	must(f.Resumed(ctx))
	faults := f.Faults()
	times, dials := f.Resumes(from)
	t.Logf("the last of %d clients was back after %v; %d connects, %d commands were told to come later, %d events came again, %d were fetched",
		times.TotalCount(), time.Duration(times.Max()), dials, faults.Busy, faults.Replayed, faults.Gaps)
	faults.Busy, faults.Replayed, faults.Gaps = 0, 0, 0
	if faults != (deskload.Faults{}) {
		t.Errorf("%+v", faults)
	}
	for i := range servers {
		c.end(i).Stop()
	}
}
