package config

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/responder"
	"github.com/go-eddy/eddy/rpc"
	"github.com/go-eddy/eddy/rpc/balance"
)

// Upper bounds of values. Beyond them a typing error is more likely than a need.
const (
	maxThreads  = 100_000
	maxQueue    = 1 << 20
	maxPayload  = 1<<28 - 1
	maxLoops    = 1024
	maxInFlight = 1 << 16
	maxPort     = 65535

	maxProtocols = 64
	maxServices  = 10_000
	maxPools     = 10_000
	maxAddresses = 1000
	maxConns     = 1000
	maxPending   = 1 << 24
)

// defaultBackoffMax is the client's default for backoff-max.
const defaultBackoffMax = 10 * time.Second

// document is a file as it was read, in the order of the file.
type document struct {
	application application
	protocols   []protocol
	pools       []pool
	services    []service
	client      *client
}

// threadpool holds the keys of a pool. Zeros are the defaults of its kind.
type threadpool struct {
	kind                  rpc.PoolKind
	threads, core, queues int
	alive                 time.Duration
	adaptive              bool
}

type protocol struct {
	name, host     string
	port           int
	dispatcher     rpc.Dispatcher
	pool           threadpool
	accepts, loops int
	payload        int
	inFlight       int
	ordering       responder.Ordering
	idle           time.Duration
	connectQueue   int
	connectWarning int
	wires          wires
	node           *yaml.Node
}

type pool struct {
	name string
	threadpool
	used bool
	node *yaml.Node
}

type service struct {
	key      rpc.Key
	ports    []string
	timeout  time.Duration
	inFlight int
	executor *threadpool // a pool of the service's own
	pool     string      // or the name of one of pools
	node     *yaml.Node
	at       map[string]*yaml.Node // the values of its keys
}

// place returns the node of a key's value, or the service's if the key is not there.
func (s *service) place(key string) *yaml.Node {
	if n := s.at[key]; n != nil {
		return n
	}
	return s.node
}

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

var (
	poolKinds    = []string{"fixed", "cached", "limited", "eager"}
	dispatchers  = []string{"all", "direct", "message", "execution", "connection"}
	orderings    = []string{"completion", "ordered", "serial", "no-pipelining"}
	managements  = []string{"default", "isolation"}
	codecs       = []string{"raw", "json", "protobuf"}
	balances     = []string{"roundrobin", "weighted", "leastactive", "p2c"}
	consumers    = []string{"caller", "pool"}
	hostProblem  = "is no host: write a name or an address without a port"
	addrProblem  = "is no address: write host:port"
	namesProblem = "is no name: use letters, digits, '.', '_' and '-'"
)

// document reads the whole file.
func (r *reader) document(n *yaml.Node) *document {
	d := new(document)
	seen := r.fields(n, "", []field{
		{name: "application", parse: d.parseApplication(r)},
		{name: "protocols", parse: d.parseProtocols(r)},
		{name: "pools", parse: d.parsePools(r)},
		{name: "services", parse: d.parseServices(r)},
		{name: "client", parse: d.parseClient(r)},
	})
	if len(seen) == 0 && len(r.errs) == 0 {
		r.fail(n, "", "", "there is nothing in it: it needs protocols and services, or client")
	}
	if at, ok := seen["services"]; ok && seen["protocols"] == nil {
		r.fail(at, "services", "", "need protocols, the ports that they are exported on")
	}
	d.resolve(r)
	return d
}

// fields returns the keys that a protocol, a pool and an executor have in common. check compares their values when they
// are read.
func (t *threadpool) fields(r *reader) []field {
	return []field{
		{name: "threadpool", parse: choice(r, &t.kind, rpc.ParsePoolKind, poolKinds)},
		{name: "threads", parse: integer(r, &t.threads, 1, maxThreads)},
		{name: "corethreads", parse: integer(r, &t.core, 0, maxThreads)},
		{name: "queues", parse: integer(r, &t.queues, 0, maxQueue)},
		{name: "alive", parse: duration(r, &t.alive, time.Millisecond)},
		{name: "adaptive", parse: boolean(r, &t.adaptive)},
	}
}

func (t *threadpool) check(r *reader, seen map[string]*yaml.Node, path string) {
	n, ok := seen["corethreads"]
	if threads := t.most(); ok && t.core > threads {
		r.fail(n, join(path, "corethreads"), shown(n), "is more than the %d threads of the pool", threads)
	}
}

// most returns how many threads the pool may have. The defaults of its kind are those of rpc.PoolOptions.
func (t *threadpool) most() int {
	switch {
	case t.threads > 0:
		return t.threads
	case t.kind == rpc.PoolCached || t.kind == rpc.PoolEager:
		return executor.DefaultCached
	}
	return rpc.DefaultThreads
}

func (t *threadpool) options() rpc.PoolOptions {
	return rpc.PoolOptions{Kind: t.kind, Threads: t.threads, CoreThreads: t.core, Queue: t.queues, KeepAlive: t.alive, Adaptive: t.adaptive}
}

// named calls take with each entry of a mapping whose keys are names. An entry beyond the first most is an error.
func (r *reader) named(n *yaml.Node, path, what string, most int, take func(key, value *yaml.Node, name, path string)) {
	count := 0
	r.pairs(n, path, func(key, value *yaml.Node, name string) {
		path := join(path, name)
		switch {
		case !validName(name):
			r.fail(key, path, "", "%s", namesProblem)
			return
		case count == most:
			r.fail(key, path, "", "is one too many: at most %d %s", most, what)
			return
		}
		count++
		take(key, value, name, path)
	})
}

func (d *document) parseProtocols(r *reader) func(*yaml.Node, string) {
	return func(n *yaml.Node, path string) {
		r.named(n, path, "protocols", maxProtocols, func(key, value *yaml.Node, name, path string) {
			d.protocols = append(d.protocols, protocol{name: name, node: key})
			d.protocols[len(d.protocols)-1].parse(r, value, path)
		})
		if n.Kind == yaml.MappingNode && len(n.Content) == 0 {
			r.fail(n, path, "", "needs at least one")
		}
	}
}

func (p *protocol) parse(r *reader, n *yaml.Node, path string) {
	var host string
	seen := r.fields(n, path, append(append(p.pool.fields(r), p.wires.fields(r)...),
		field{name: "host", parse: text(r, &host)},
		field{name: "port", parse: integer(r, &p.port, -1, maxPort)},
		field{name: "dispatcher", old: "dispather", parse: choice(r, &p.dispatcher, rpc.ParseDispatcher, dispatchers)},
		field{name: "accepts", parse: integer(r, &p.accepts, 0, 1<<30)},
		field{name: "iothreads", parse: integer(r, &p.loops, 0, maxLoops)},
		field{name: "payload", parse: integer(r, &p.payload, 1, maxPayload)},
		field{name: "in-flight", parse: integer(r, &p.inFlight, 1, maxInFlight)},
		field{name: "ordering", parse: choice(r, &p.ordering, responder.ParseOrdering, orderings)},
		field{name: "idle-timeout", parse: duration(r, &p.idle, time.Millisecond)},
		field{name: "connect-queue-capacity", also: "connect.queue.capacity", parse: integer(r, &p.connectQueue, 1, maxQueue)},
		field{name: "connect-queue-warning-size", also: "connect.queue.warning.size", parse: integer(r, &p.connectWarning, 1, maxQueue)},
	))
	if at, ok := seen["host"]; ok && !validHost(host) {
		r.fail(at, join(path, "host"), shown(at), "%s", hostProblem)
	}
	p.host = host
	p.pool.check(r, seen, path)
	if at, ok := seen["connect-queue-warning-size"]; ok && p.connectQueue > 0 && p.connectWarning > p.connectQueue {
		r.fail(at, join(path, "connect-queue-warning-size"), shown(at), "is more than the capacity of %d", p.connectQueue)
	}
	if _, ok := seen["port"]; !ok && n.Kind == yaml.MappingNode {
		r.fail(n, path, "", "has no port: -1 takes any that is free")
	}
}

// addr returns the address on which the protocol listens.
func (p *protocol) addr() string { return net.JoinHostPort(p.host, strconv.Itoa(max(p.port, 0))) }

func (d *document) parsePools(r *reader) func(*yaml.Node, string) {
	return func(n *yaml.Node, path string) {
		r.named(n, path, "pools", maxPools, func(key, value *yaml.Node, name, path string) {
			p := pool{name: name, node: key}
			p.check(r, r.fields(value, path, p.fields(r)), path)
			d.pools = append(d.pools, p)
		})
	}
}

func (d *document) parseServices(r *reader) func(*yaml.Node, string) {
	return func(n *yaml.Node, path string) {
		if n.Kind != yaml.SequenceNode {
			r.fail(n, path, shown(n), "is no list of services")
			return
		}
		for i, item := range r.items(n, path, maxServices) {
			if r.full() {
				return
			}
			var s service
			s.parse(r, item, fmt.Sprintf("%s[%d]", path, i))
			d.services = append(d.services, s)
		}
	}
}

func (s *service) parse(r *reader, n *yaml.Node, path string) {
	s.node = n
	before := len(r.errs)
	seen := r.fields(n, path, []field{
		{name: "interface", parse: text(r, &s.key.Interface)},
		{name: "group", parse: text(r, &s.key.Group)},
		{name: "version", parse: text(r, &s.key.Version)},
		{name: "protocol", parse: names(r, &s.ports)},
		{name: "timeout", parse: duration(r, &s.timeout, time.Millisecond)},
		{name: "in-flight", parse: integer(r, &s.inFlight, 1, maxInFlight)},
		{name: "executor", parse: func(n *yaml.Node, key string) {
			if n.Kind != yaml.MappingNode {
				text(r, &s.pool)(n, key)
				return
			}
			s.executor = new(threadpool)
			s.executor.check(r, r.fields(n, key, s.executor.fields(r)), key)
		}},
	})
	s.at = seen
	if len(r.errs) > before {
		return
	}
	if seen["interface"] == nil {
		r.fail(n, path, "", "has no interface")
		return
	}
	for _, part := range []struct {
		name string
		key  rpc.Key
	}{{"interface", rpc.Key{Interface: s.key.Interface}}, {"group", rpc.Key{Group: s.key.Group, Interface: "x"}}, {"version", rpc.Key{Interface: "x", Version: s.key.Version}}} {
		if err := part.key.Validate(); err != nil {
			at := s.place(part.name)
			r.fail(at, join(path, part.name), shown(at), "cannot be part of a key: it has no '/', ':', space or control character, and the interface is not empty")
		}
	}
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

func validPort(s string) bool {
	n, err := strconv.Atoi(s)
	return err == nil && n >= 1 && n <= maxPort
}

func validHost(s string) bool {
	return s == "" || printable(s) && !strings.ContainsAny(s, " /[]") && (!strings.Contains(s, ":") || net.ParseIP(s) != nil)
}

func validName(s string) bool {
	return s != "" && len(s) <= 64 && !strings.ContainsFunc(s, func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && !strings.ContainsRune("._-", c)
	})
}

// resolve checks what one part of the file says about another.
func (d *document) resolve(r *reader) {
	addrs := map[string]string{}
	for _, p := range d.protocols {
		if p.port <= 0 {
			continue
		}
		if other, ok := addrs[p.addr()]; ok {
			r.fail(p.node, "protocols."+p.name+".port", strconv.Itoa(p.port), "is the port of %s, too", other)
		}
		addrs[p.addr()] = p.name
	}
	keys := map[rpc.Key]int{}
	for i := range d.services {
		s := &d.services[i]
		path := fmt.Sprintf("services[%d]", i)
		if at, ok := keys[s.key]; ok {
			r.fail(s.node, path, quoted(s.key.String()), "is there twice: in line %d, too", at)
		}
		keys[s.key] = s.node.Line
		d.resolvePorts(r, s, path)
		d.resolvePool(r, s, path)
	}
	for _, p := range d.pools {
		if !p.used && !r.full() {
			r.warn(p.node, "pools."+p.name, "is used by no service")
		}
	}
}

func (d *document) resolvePorts(r *reader, s *service, path string) {
	if len(d.protocols) == 0 {
		return // said already
	}
	for i, name := range s.ports {
		switch {
		case slices.Index(s.ports, name) < i:
			r.fail(s.place("protocol"), path+".protocol", quoted(name), "is there twice")
		case !slices.ContainsFunc(d.protocols, func(p protocol) bool { return p.name == name }):
			r.fail(s.place("protocol"), path+".protocol", quoted(name), "is none of the protocols %s", list(d.protocols, func(p protocol) string { return p.name }))
		}
	}
}

func (d *document) resolvePool(r *reader, s *service, path string) {
	if s.pool != "" {
		at := slices.IndexFunc(d.pools, func(p pool) bool { return p.name == s.pool })
		if at < 0 {
			choices := "there are none"
			if len(d.pools) > 0 {
				choices = "there are " + list(d.pools, func(p pool) string { return p.name })
			}
			r.fail(s.place("executor"), path+".executor", quoted(s.pool), "is no name in pools: %s", choices)
			return
		}
		d.pools[at].used = true
	}
	if (s.pool != "" || s.executor != nil) && !d.application.isolation {
		r.warn(s.place("executor"), path+".executor", "has no effect: executor-management-mode is default, not isolation")
	}
}
