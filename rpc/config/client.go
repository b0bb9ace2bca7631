package config

import (
	"fmt"
	"net"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/go-eddy/eddy/rpc"
	"github.com/go-eddy/eddy/rpc/balance"
)

// defaultBackoffMax is the client's default for backoff-max.
const defaultBackoffMax = 10 * time.Second

type client struct {
	addresses   []string
	connections int
	balance     balance.Policy
	codec       rpc.Codec
	timeout     time.Duration
	pending     int
	consumer    rpc.Consumer
	dispatcher  rpc.Dispatcher
	payload     int
	heartbeat   time.Duration
	dial        time.Duration
	backoffMin  time.Duration
	backoffMax  time.Duration
	jitter      *int // percent
}

func (d *document) parseClient(r *reader) func(*yaml.Node, string) {
	return func(n *yaml.Node, path string) {
		jitter := -1
		c := &client{codec: rpc.CodecJSON}
		d.client = c
		seen := r.fields(n, path, []field{
			{name: "addresses", parse: names(r, &c.addresses)},
			{name: "connections", parse: integer(r, &c.connections, 1, maxConns)},
			{name: "loadbalance", parse: choice(r, &c.balance, among(balances, []balance.Policy{balance.RoundRobin, balance.Weighted, balance.LeastRequests, balance.PeakEWMA}), balances)},
			{name: "serialization", parse: choice(r, &c.codec, rpc.ParseCodec, codecs)},
			{name: "timeout", parse: duration(r, &c.timeout, time.Millisecond)},
			{name: "max-pending", parse: integer(r, &c.pending, 1, maxPending)},
			{name: "consumer", parse: choice(r, &c.consumer, among(consumers, []rpc.Consumer{rpc.CallerRuns, rpc.DedicatedPool}), consumers)},
			{name: "dispatcher", old: "dispather", parse: choice(r, &c.dispatcher, rpc.ParseDispatcher, dispatchers)},
			{name: "payload", parse: integer(r, &c.payload, 1, maxPayload)},
			{name: "heartbeat", parse: duration(r, &c.heartbeat, time.Millisecond)},
			{name: "dial-timeout", parse: duration(r, &c.dial, time.Millisecond)},
			{name: "backoff-min", parse: duration(r, &c.backoffMin, time.Millisecond)},
			{name: "backoff-max", parse: duration(r, &c.backoffMax, time.Millisecond)},
			{name: "backoff-jitter", parse: integer(r, &jitter, 0, 100)},
		})
		if _, ok := seen["backoff-jitter"]; ok {
			c.jitter = &jitter
		}
		if at, ok := seen["backoff-max"]; ok && c.backoffMin > c.backoffMax {
			r.fail(at, join(path, "backoff-max"), shown(at), "is less than backoff-min, which is %v", c.backoffMin)
		} else if at := seen["backoff-min"]; !ok && c.backoffMin > defaultBackoffMax {
			r.fail(at, join(path, "backoff-min"), shown(at), "is more than backoff-max, which is %v", defaultBackoffMax)
		}
		at, ok := seen["addresses"]
		if !ok && n.Kind == yaml.MappingNode {
			r.fail(n, path, "", "has no addresses")
		}
		for i, addr := range c.addresses {
			if _, port, err := net.SplitHostPort(addr); err != nil || !validPort(port) {
				r.fail(at, fmt.Sprintf("%s[%d]", join(path, "addresses"), i), quoted(addr), "%s", addrProblem)
			}
		}
	}
}
