package rpc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-eddy/eddy/http2"
	"github.com/go-eddy/eddy/internal/sample"
	"github.com/go-eddy/eddy/rpc/balance"
	"github.com/go-eddy/eddy/rpc/discovery"
	"github.com/go-eddy/eddy/rpc/internal/follow"
	"github.com/go-eddy/eddy/rpc/internal/grpcwire"
)

// grpcTarget is a server of a GRPCClient.
type grpcTarget struct {
	secure       bool
	scheme, host string
	addr         string // with the port
	node         *balance.Node
	gone         context.CancelFunc // ends the goroutine that follows its health; nil without one
}

// parseTargets returns the servers of GRPCOptions.Targets.
func parseTargets(targets []string) ([]*grpcTarget, error) {
	var list []*grpcTarget
	for _, target := range targets {
		u, err := url.Parse(target)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.Path != "" && u.Path != "/" {
			return nil, fmt.Errorf("rpc: GRPCOptions.Targets has %q: want http://host:port or https://host:port", target)
		}
		to := &grpcTarget{secure: u.Scheme == "https", scheme: u.Scheme, host: u.Host}
		port := "80"
		if to.secure {
			port = "443"
		}
		to.addr = net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), port))
		list = append(list, to)
	}
	return list, nil
}

// grpcServers are the servers of a GRPCClient.
type grpcServers struct {
	balancer *balance.Balancer
	follower *follow.Follower // nil with Targets
	ctx      context.Context  // ends with Close
	cancel   context.CancelFunc
	tasks    sync.WaitGroup // its goroutines
	logs     sample.Seldom

	ready  chan struct{} // closed with the resolver's first answer, or its first error
	once   sync.Once
	reason atomic.Pointer[causeError] // why there is no server, if that is an error of the resolver
}

// startServers makes the balancer, and begins to follow the resolver.
func (cl *GRPCClient) startServers(targets []*grpcTarget) (err error) {
	s := &cl.servers
	if s.balancer, err = balance.New(cl.o.Balance); err != nil {
		return fmt.Errorf("rpc: GRPCOptions.Balance: %w", err)
	}
	s.ready = make(chan struct{})
	s.ctx, s.cancel = context.WithCancel(context.Background())
	if cl.o.Resolver == nil {
		of, instances := map[string]*grpcTarget{}, []discovery.Instance{}
		for _, to := range targets {
			if of[to.addr] == nil {
				of[to.addr] = to
				instances = append(instances, discovery.Instance{Addr: to.addr})
			}
		}
		if err := discovery.Check(instances); err != nil {
			return fmt.Errorf("rpc: GRPCOptions.Targets: %w", err)
		}
		s.balancer.Update(instances, func(n *balance.Node) { cl.attach(n, of[n.Instance.Addr]) })
		close(s.ready)
		return nil
	}
	backoff, _ := Backoff{}.withDefaults() // no error: all is zero
	s.follower = &follow.Follower{
		Resolver: cl.o.Resolver, Pauses: backoff.schedule(defaultRand), Apply: cl.apply,
		Failed: func(err error, first bool) {
			if ok, held := s.logs.Allow(logInterval); ok {
				cl.o.Logger.Warn("rpc: resolving failed; the servers stay as they are", "err", err, "held_back", held)
			}
			if first {
				s.reason.Store(&causeError{kinds: kindsDown, text: "resolving: " + err.Error(), cause: err})
				s.once.Do(func() { close(s.ready) })
			}
		},
	}
	s.tasks.Go(func() { s.follower.Run(s.ctx) })
	return nil
}

// apply replaces the servers by those of the resolver.
func (cl *GRPCClient) apply(list []discovery.Instance) {
	s := &cl.servers
	before := s.balancer.Nodes()
	s.balancer.Update(list, func(n *balance.Node) {
		to := &grpcTarget{secure: cl.o.Secure, scheme: "http", host: n.Instance.Addr, addr: n.Instance.Addr}
		if to.secure {
			to.scheme = "https"
		}
		cl.attach(n, to)
	})
	stays := make(map[*balance.Node]bool)
	for _, n := range s.balancer.Nodes() {
		stays[n] = true
	}
	for _, n := range before {
		if gone := n.Value.(*grpcTarget).gone; gone != nil && !stays[n] {
			gone()
		}
	}
	s.once.Do(func() { close(s.ready) })
}

// attach makes n the node of a server, and begins to follow its health if the client shall.
func (cl *GRPCClient) attach(n *balance.Node, to *grpcTarget) {
	n.Value, to.node = to, n
	if cl.o.Health {
		var ctx context.Context
		ctx, to.gone = context.WithCancel(cl.servers.ctx)
		cl.servers.tasks.Go(func() { cl.followHealth(ctx, to) })
	}
}

// followHealth follows what a server says of its health, until ctx ends or the server does not know how. While nothing is known the server is healthy:
// calls find out.
func (cl *GRPCClient) followHealth(ctx context.Context, to *grpcTarget) {
	backoff, _ := Backoff{}.withDefaults() // no error: all is zero
	again := backoff.schedule(defaultRand)
	for {
		s, err := OpenStream(ctx, cl, Key{Interface: grpcwire.HealthService}, "Watch", CallCodec(CodecRaw))
		if err != nil {
			return // does not happen: the key is right
		}
		s.to = to
		request := grpcwire.AppendHealthRequest(nil, cl.o.HealthService)
		if err = SenderOf[[]byte](s).Send(&request); err == nil {
			err = s.CloseSend()
		}
		for err == nil {
			var msg []byte
			if err = s.Recv(&msg); err != nil {
				break
			}
			again.Succeeded()
			if h, err := grpcwire.ParseHealthResponse(msg); err == nil {
				to.node.SetHealthy(h != grpcwire.NotServing) // a service that is unknown here may be served nevertheless
			}
		}
		s.Close()
		if ctx.Err() != nil || CodeOf(err) == CodeUnimplemented {
			return
		}
		to.node.SetHealthy(true)
		t := time.NewTimer(again.Failed())
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return
		}
	}
}

// Stats returns the numbers of the client's servers and attempts. Any goroutine, also after Close.
func (cl *GRPCClient) Stats() balance.Stats {
	return balanceStats(cl.servers.balancer, cl.servers.follower, cl.maker)
}

// pick returns the server for a call. It waits for the first answer of the resolver, as long as ctx and by allow.
func (cl *GRPCClient) pick(ctx context.Context, by time.Time, o *callOptions, tried []*balance.Node) (*grpcTarget, error) {
	s := &cl.servers
	if o.tried != nil {
		tried = append(o.tried.list(), tried...)
	}
	n := s.balancer.Pick(o.hash, tried)
	if n == nil {
		if err := cl.awaitServers(ctx, by); err != nil {
			return nil, err
		}
		if n = s.balancer.Pick(o.hash, tried); n == nil {
			if why := s.reason.Load(); why != nil {
				return nil, why
			}
			return nil, errNoAddress
		}
	}
	o.tried.add(n)
	return n.Value.(*grpcTarget), nil
}

func (cl *GRPCClient) awaitServers(ctx context.Context, by time.Time) error {
	var late <-chan time.Time
	if !by.IsZero() {
		t := time.NewTimer(time.Until(by))
		defer t.Stop()
		late = t.C
	}
	select {
	case <-cl.servers.ready:
		return nil
	case <-ctx.Done():
		return contextCause(ctx)
	case <-late:
		return errDeadline
	case <-cl.servers.ctx.Done():
		return ErrClosed
	}
}

// aim points a request at a server, and counts it there.
func (to *grpcTarget) aim(r *http2.Request) {
	r.Secure, r.Addr = to.secure, to.addr
	r.Fields[atScheme].Value, r.Fields[atAuthority].Value = to.scheme, to.host
	to.node.Begin()
}

// errUntaken is what the balancer is told of a server that could not take a call.
var errUntaken = &Error{Executed: ExecutedNo, Err: &causeError{kinds: kindsDown, text: "the server has not taken the call"}}

// begun returns the time at which a request begins, if anybody wants to know.
func (s *grpcServers) begun() time.Time {
	if !s.balancer.Observes() {
		return time.Time{}
	}
	return time.Now()
}

// ended uncounts a request, and tells the balancer how it has ended. A connection that was lost has the resolver asked before its time.
func (cl *GRPCClient) ended(to *grpcTarget, begun time.Time, err error) {
	to.node.End()
	if cl.servers.balancer.Observes() {
		to.node.Observe(time.Since(begun), outcomeOfError(err))
	}
	if err != nil && cl.servers.follower != nil && errors.Is(err, ErrConnection) {
		cl.servers.follower.Refresh()
	}
}
