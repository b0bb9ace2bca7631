package rpc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"sync/atomic"
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
	ctx          context.Context // ends with the target
	gone         context.CancelFunc
	away         atomic.Bool // it could not be reached, and is asked until it answers
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
		}, func(n *balance.Node) { n.Value.(*grpcTarget).gone() })
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
	to.ctx, to.gone = context.WithCancel(cl.servers.Context)
	if cl.o.Health {
		cl.servers.Go(func() { cl.followHealth(to) })
	}
}

// askTimeout is how long a server that could not be reached has to answer.
const askTimeout = 10 * time.Second

// unreached takes a server that no connection can be made to out of those that calls go to, as long as there is another one, until it answers.
func (cl *GRPCClient) unreached(to *grpcTarget) {
	if cl.o.Health || to.away.Swap(true) { // else what asks for its health finds out
		return
	}
	to.node.SetHealthy(false)
	cl.servers.Go(func() {
		to.askAgain(func() (over, heard bool) {
			ctx, cancel := context.WithTimeout(to.ctx, askTimeout)
			defer cancel()
			err := cl.askHealth(ctx, to, "Check", func(grpcwire.Health) {})
			return !errors.Is(err, ErrConnection) && !errors.Is(err, ErrDeadline), false // any answer will do
		})
		to.node.SetHealthy(true)
		to.away.Store(false)
	})
}

// followHealth follows what a server says of its health, until the target ends or the server does not know how. At the beginning, and while the server answers
// something else, it is healthy: calls find out. A server that is not there is asked again, and calls do not find out.
func (cl *GRPCClient) followHealth(to *grpcTarget) {
	to.askAgain(func() (over, heard bool) {
		err := cl.askHealth(to.ctx, to, "Watch", func(h grpcwire.Health) {
			heard = true
			to.node.SetHealthy(h != grpcwire.NotServing) // a service that is unknown here may be served nevertheless
		})
		if CodeOf(err) == CodeUnimplemented {
			return true, true
		}
		to.node.SetHealthy(!errors.Is(err, ErrConnection))
		return false, heard
	})
}

// askAgain calls ask until that is over or the target ends, with pauses that grow while nothing is heard.
func (to *grpcTarget) askAgain(ask func() (over, heard bool)) {
	backoff, _ := Backoff{}.withDefaults() // no error: all is zero
	again := backoff.schedule(defaultRand)
	for {
		over, heard := ask()
		if over || to.ctx.Err() != nil {
			return
		}
		if heard {
			again.Succeeded()
		}
		if !sleep(to.ctx, again.Failed()) {
			return
		}
	}
}

// askHealth asks a server how it is by a method of grpc.health.v1.Health. It tells each answer, and returns how that ended.
func (cl *GRPCClient) askHealth(ctx context.Context, to *grpcTarget, method string, tell func(grpcwire.Health)) error {
	s, err := OpenStream(ctx, cl, Key{Interface: grpcwire.HealthService}, method, CallCodec(CodecRaw))
	if err != nil {
		return err // does not happen: the key is right
	}
	defer s.Close()
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
		if h, err := grpcwire.ParseHealthResponse(msg); err == nil {
			tell(h)
		}
	}
	return err
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

// ended uncounts a request, and tells the balancer how it has ended. A connection that was lost has the resolver asked before its time. sent says that a
// connection has taken the request.
func (cl *GRPCClient) ended(to *grpcTarget, begun time.Time, err error, sent bool) {
	to.node.End()
	if !sent && (errors.Is(err, ErrConnection) || errors.Is(err, ErrDeadline)) {
		cl.unreached(to)
	}
	if cl.servers.Observes() {
		to.node.Observe(time.Since(begun), outcomeOfError(err))
	}
	if err != nil && errors.Is(err, ErrConnection) {
		cl.servers.Refresh()
	}
}
