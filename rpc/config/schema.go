package config

import (
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/responder"
	"github.com/go-eddy/eddy/rpc"
)

// Upper bounds of values. Beyond them a typing error is more likely than a need.
const (
	maxThreads  = 100_000
	maxQueue    = 1 << 20
	maxPayload  = 1<<28 - 1
	maxLoops    = 1024
	maxInFlight = 1 << 16
	maxMethods  = 1000
	maxPort     = 65535

	maxProtocols = 64
	maxServices  = 10_000
	maxPools     = 10_000
	maxAddresses = 1000
	maxConns     = 1000
	maxPending   = 1 << 24
)

// document is a file as it was read, in the order of the file.
type document struct {
	dubbo       bool // the file is of Dubbo's form
	application application
	protocols   []protocol
	registries  []registry
	center      *center // nil = none
	report      report
	pools       []pool
	beans       map[string]*pool // of XML, by id; nil if it does not say its size
	services    []service
	defaults    service // what services have that are not in the file
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
	wire           *rpc.Wire // of another package
	firstPort      int       // where the search for a free one begins; 0 = the system chooses
	path           string
	node           *yaml.Node
}

type pool struct {
	name string
	threadpool
	used bool
	node *yaml.Node
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
	twice        = "is there twice: in line %d, too"
)

// document reads the whole file.
func (r *reader) document(n *yaml.Node) *document {
	d := new(document)
	seen := r.fields(n, "", []field{
		{name: "application", parse: d.parseApplication(r)},
		{name: "protocols", parse: d.parseProtocols(r)},
		{name: "registry", parse: d.parseRegistry(r)},
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
			p := protocol{name: name, node: key, path: path}
			if seen := p.parse(r, value, path); seen["port"] == nil && value.Kind == yaml.MappingNode {
				r.fail(value, path, "", "has no port: -1 takes any that is free")
			}
			d.protocols = append(d.protocols, p)
		})
		if n.Kind == yaml.MappingNode && len(n.Content) == 0 {
			r.fail(n, path, "", "needs at least one")
		}
	}
}

// fields returns the keys of a protocol that are not those of its pool, of what it speaks and of where it listens.
func (p *protocol) fields(r *reader) []field {
	return []field{
		{name: "dispatcher", old: "dispather", parse: choice(r, &p.dispatcher, rpc.ParseDispatcher, dispatchers)},
		{name: "accepts", parse: integer(r, &p.accepts, 0, 1<<30)},
		{name: "iothreads", parse: integer(r, &p.loops, 0, maxLoops)},
		{name: "payload", parse: integer(r, &p.payload, 1, maxPayload)},
		{name: "in-flight", parse: integer(r, &p.inFlight, 1, maxInFlight)},
		{name: "ordering", parse: choice(r, &p.ordering, responder.ParseOrdering, orderings)},
		{name: "idle-timeout", parse: duration(r, &p.idle, time.Millisecond)},
		{name: "connect-queue-capacity", also: "connect.queue.capacity", parse: integer(r, &p.connectQueue, 1, maxQueue)},
		{name: "connect-queue-warning-size", also: "connect.queue.warning.size", parse: integer(r, &p.connectWarning, 1, maxQueue)},
	}
}

// parse reads a protocol's keys, and more of the file's form.
func (p *protocol) parse(r *reader, n *yaml.Node, path string, more ...field) map[string]*yaml.Node {
	var host string
	place := []field{{name: "host", parse: text(r, &host)}, {name: "port", parse: integer(r, &p.port, -1, maxPort)}}
	seen := r.fields(n, path, slices.Concat(p.pool.fields(r), p.wires.fields(r), place, p.fields(r), more))
	if at, ok := seen["host"]; ok && !validHost(host) {
		r.fail(at, join(path, "host"), shown(at), "%s", hostProblem)
	}
	p.host = host
	p.pool.check(r, seen, path)
	if at, ok := seen["connect-queue-warning-size"]; ok && p.connectQueue > 0 && p.connectWarning > p.connectQueue {
		r.fail(at, join(path, "connect-queue-warning-size"), shown(at), "is more than the capacity of %d", p.connectQueue)
	}
	return seen
}

// addr returns the address on which the protocol listens.
func (p *protocol) addr() string {
	port := p.port
	if p.firstPort == 0 {
		port = max(port, 0)
	}
	return net.JoinHostPort(p.host, strconv.Itoa(port))
}

func (d *document) parsePools(r *reader) func(*yaml.Node, string) {
	return func(n *yaml.Node, path string) {
		r.named(n, path, "pools", maxPools, func(key, value *yaml.Node, name, path string) {
			p := pool{name: name, node: key}
			p.check(r, r.fields(value, path, p.fields(r)), path)
			d.pools = append(d.pools, p)
		})
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
