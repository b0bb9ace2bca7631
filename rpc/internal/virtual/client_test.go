package virtual

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/http1"
	"github.com/go-eddy/eddy/http2"
	"github.com/go-eddy/eddy/internal/simhook"
	"github.com/go-eddy/eddy/internal/sys/memnet"
	"github.com/go-eddy/eddy/rpc"
	"github.com/go-eddy/eddy/rpc/balance/httpbalance"
	"github.com/go-eddy/eddy/rpc/discovery"
)

// client is one of the clients: a *rpc.Client, a *rpc.GRPCClient, or an *httpbalance.Transport.
type client struct {
	machine *memnet.Machine
	group   *eddy.Group
	call    func() error
	abort   func() error // with calls in flight
	close   func() error
	more    func() uint64 // attempts beyond the first
}

// dial makes client i.
func (c *cluster) dial(i int) {
	zone := i % max(c.zones, 1)
	m := c.net.Machine(machineAddr(2, zone, i))
	o := c.options
	var list []discovery.Instance
	for _, v := range c.servers {
		list = append(list, discovery.Instance{Addr: netip.AddrPortFrom(v.machine.Addr, 80).String(), Zone: fmt.Sprint("zone ", v.zone)})
	}
	if o.Balance.Zone != "" {
		o.Balance.Zone = fmt.Sprint("zone ", zone)
	}
	g := &eddy.Group{Loops: 1, Logger: quiet}
	simhook.Simulate(m.Host(), g)
	cl := &client{machine: m, group: g}
	o.Resolver, o.Group, o.Logger = discovery.Static(list...), g, quiet
	by := map[string]func(rpc.ClientOptions) error{"": cl.byFrame, "frame": cl.byFrame, "grpc": cl.byGRPC, "http": cl.byHTTP}
	if err := by[c.protocol](o); err != nil {
		c.t.Fatal(err)
	}
	c.clients = append(c.clients, cl)
}

func (cl *client) byFrame(o rpc.ClientOptions) error {
	r, err := rpc.NewClient(o)
	cl.call, cl.abort = calling(r), r.Close
	cl.close = func() error {
		err := r.Shutdown(context.Background())
		if st := r.Stats(); err == nil && (st.Active != 0 || st.Waiting != 0 || st.Connections != 0) {
			err = fmt.Errorf("a client has ended with %+v", st)
		}
		return err
	}
	cl.more = func() uint64 {
		st := r.Stats()
		return st.Balance.Retries + st.Balance.Hedges + st.Failovers
	}
	return err
}

func (cl *client) byGRPC(o rpc.ClientOptions) error {
	transport := &http2.Transport{Group: o.Group, Logger: quiet, MaxConns: 4096, PingInterval: max(0, o.Heartbeat), PingTimeout: max(0, 2*o.Heartbeat)}
	r, err := rpc.NewGRPCClient(rpc.GRPCOptions{
		Resolver: o.Resolver, Balance: o.Balance, Attempts: o.Attempts, Idempotent: o.Idempotent, Timeout: o.Timeout, Health: o.Health > 0, HealthService: o.HealthService, Transport: transport, Logger: quiet,
	})
	cl.call = calling(r)
	cl.close = func() error { return errors.Join(r.Close(), transport.Close()) }
	cl.abort = cl.close
	cl.more = func() uint64 { return r.Stats().Retries + r.Stats().Hedges }
	return err
}

// calling returns what makes a call.
func calling(cl rpc.Caller) func() error {
	return func() error {
		_, err := rpc.Invoke[[]byte](context.Background(), cl, key, "Work", []byte(nil))
		return err
	}
}

// byHTTP makes calls as a page in a browser does. Nobody asks the servers how they are: late calls are made a second time.
func (cl *client) byHTTP(o rpc.ClientOptions) error {
	transport := &http1.Transport{Group: o.Group, Logger: quiet, MaxConns: 4096}
	if o.Attempts.Max > 1 {
		o.Attempts.Hedge = o.Timeout / 4
	}
	r, err := httpbalance.New(httpbalance.Options{Resolver: o.Resolver, Base: transport, Balance: o.Balance, Attempts: o.Attempts, Logger: quiet})
	cl.call = func() error {
		ctx, cancel := context.WithTimeout(context.Background(), o.Timeout)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://worker/"+key.Interface+"/Work?connect=v1&encoding=json&message=", nil)
		if err != nil {
			return err
		}
		resp, err := (&http.Client{Transport: r}).Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			return err
		}
		if resp.StatusCode != http.StatusOK {
			return errors.New(resp.Status)
		}
		return nil
	}
	cl.close = func() error { return errors.Join(r.Close(), transport.Close()) }
	cl.abort = cl.close
	cl.more = func() uint64 { return r.Stats().Retries + r.Stats().Hedges }
	return err
}
