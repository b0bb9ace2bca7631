package rpc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"time"

	"github.com/go-eddy/eddy/http2"
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

// startServers makes the servers known, or begins to follow the resolver.
func (cl *GRPCClient) startServers(targets []*grpcTarget) (err error) {
	if cl.servers, err = follow.NewBook(cl.o.Balance); err != nil {
		return fmt.Errorf("rpc: GRPCOptions.Balance: %w", err)
	}
	if cl.o.Resolver != nil {
		cl.servers.Follow(cl.o.Resolver, cl.o.Logger, func(n *balance.Node) {
			to := &grpcTarget{secure: cl.o.Secure, scheme: "http", host: n.Instance.Addr, addr: n.Instance.Addr}
			if to.secure {
				to.scheme = "https"
			}
			cl.attach(n, to)
		}, func(n *balance.Node) {
			if gone := n.Value.(*grpcTarget).gone; gone != nil {
				gone()
			}
		})
		return nil
	}
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
	cl.servers.Update(instances, func(n *balance.Node) { cl.attach(n, of[n.Instance.Addr]) })
	return nil
}

// attach makes n the node of a server, and begins to follow its health if the client shall.
func (cl *GRPCClient) attach(n *balance.Node, to *grpcTarget) {
	n.Value, to.node = to, n
	if cl.o.Health {
		var ctx context.Context
		ctx, to.gone = context.WithCancel(cl.servers.Context)
		cl.servers.Tasks.Go(func() { cl.followHealth(ctx, to) })
	}
}

// followHealth follows what a server says of its health, until ctx ends or the server does not know how. At the beginning, and while the server answers
// something else, it is healthy: calls find out. A server that is not there is asked again, and calls do not find out.
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
		to.node.SetHealthy(!errors.Is(err, ErrConnection))
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
	var s balance.Stats
	cl.servers.Put(&s)
	cl.maker.Put(&s)
	return s
}

// pick returns the server for a call. It waits for the first answer of the resolver, as long as ctx and by allow.
func (cl *GRPCClient) pick(ctx context.Context, by time.Time, o *callOptions, tried []*balance.Node) (*grpcTarget, error) {
	if o.tried != nil {
		tried = append(o.tried.list(), tried...)
	}
	n, err := cl.servers.PickOrWait(ctx, by, o.hash, tried)
	switch {
	case err == nil:
		o.tried.add(n)
		return n.Value.(*grpcTarget), nil
	case ctx.Err() != nil:
		return nil, contextCause(ctx)
	case err == context.DeadlineExceeded: //nolint:errorlint // returned bare
		return nil, errDeadline
	case err == follow.ErrEnded: //nolint:errorlint // returned bare
		return nil, ErrClosed
	}
	return nil, &causeError{kinds: kindsDown, text: err.Error(), cause: err}
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
func (cl *GRPCClient) begun() time.Time {
	if !cl.servers.Observes() {
		return time.Time{}
	}
	return time.Now()
}

// ended uncounts a request, and tells the balancer how it has ended. A connection that was lost has the resolver asked before its time.
func (cl *GRPCClient) ended(to *grpcTarget, begun time.Time, err error) {
	to.node.End()
	if cl.servers.Observes() {
		to.node.Observe(time.Since(begun), outcomeOfError(err))
	}
	if err != nil && errors.Is(err, ErrConnection) {
		cl.servers.Refresh()
	}
}
