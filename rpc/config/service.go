package config

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/go-eddy/eddy/rpc"
)

type service struct {
	key      rpc.Key
	ports    []string
	timeout  time.Duration
	inFlight int
	executor *threadpool // a pool of the service's own
	pool     string      // or the name of one of pools
	registry []string
	path     string
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

// parse reads a service's keys, and more of the file's form.
func (s *service) parse(r *reader, n *yaml.Node, path string, more ...field) {
	s.node, s.path = n, path
	before := len(r.errs)
	seen := r.fields(n, path, append([]field{
		{name: "interface", parse: text(r, &s.key.Interface)},
		{name: "group", parse: text(r, &s.key.Group)},
		{name: "version", parse: text(r, &s.key.Version)},
		{name: "protocol", parse: names(r, &s.ports)},
		{name: "timeout", parse: duration(r, &s.timeout, time.Millisecond)},
		{name: "in-flight", also: "executes", parse: integer(r, &s.inFlight, 1, maxInFlight)},
		{name: "registry", parse: names(r, &s.registry)},
		{name: "executor", parse: func(n *yaml.Node, key string) {
			if n.Kind != yaml.MappingNode {
				text(r, &s.pool)(n, key)
				return
			}
			s.executor = new(threadpool)
			s.executor.check(r, r.fields(n, key, s.executor.fields(r)), key)
		}},
	}, more...))
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

// resolve checks what one part of the file says about another.
func (d *document) resolve(r *reader) {
	addrs := map[string]string{}
	for _, p := range d.protocols {
		if p.port <= 0 {
			continue
		}
		if other, ok := addrs[p.addr()]; ok {
			r.fail(p.node, p.path+".port", strconv.Itoa(p.port), "is the port of %s, too", other)
		}
		addrs[p.addr()] = p.name
	}
	keys := map[rpc.Key]int{}
	for i := range d.services {
		s := &d.services[i]
		if at, ok := keys[s.key]; ok {
			r.fail(s.node, s.path, quoted(s.key.String()), twice, at)
		}
		keys[s.key] = s.node.Line
		d.resolvePorts(r, s)
		d.resolvePool(r, s)
		d.resolveRegistry(r, s)
	}
	for _, p := range d.pools {
		if !p.used && !r.full() {
			r.warn(p.node, "pools."+p.name, "is used by no service")
		}
	}
}

// resolvePorts replaces the names of protocols by those of their ports.
func (d *document) resolvePorts(r *reader, s *service) {
	if len(d.protocols) == 0 && !d.dubbo {
		return // said already
	}
	var ports []string
	for i, name := range s.ports {
		at := slices.IndexFunc(d.protocols, func(p protocol) bool { return p.name == name })
		if at < 0 {
			at = slices.IndexFunc(d.protocols, func(p protocol) bool { return p.speaks() == name })
		}
		switch {
		case at < 0:
			r.fail(s.place("protocol"), s.path+".protocol", quoted(name), "is none of the protocols %s", list(d.protocols, func(p protocol) string { return p.name }))
		case slices.Index(s.ports, name) < i, slices.Contains(ports, d.protocols[at].name):
			r.fail(s.place("protocol"), s.path+".protocol", quoted(name), "is there twice")
		default:
			ports = append(ports, d.protocols[at].name)
		}
	}
	s.ports = ports
}

func (d *document) resolvePool(r *reader, s *service) {
	if (s.pool != "" || s.executor != nil) && !d.application.isolation {
		r.warn(s.place("executor"), s.path+".executor", "has no effect: executor-management-mode is default, not isolation")
	}
	if s.pool == "" {
		return
	}
	at := slices.IndexFunc(d.pools, func(p pool) bool { return p.name == s.pool })
	if b, ok := d.beans[s.pool]; ok && at < 0 {
		if b == nil {
			r.warn(s.place("executor"), s.path+".executor", "%s is a bean whose size is not known here: the service has a pool of its own, made from its protocol's keys. "+
				`Say it in the bean: <property name="threads" value="10"/>`, quoted(s.pool))
			s.pool = ""
			return
		}
		at = len(d.pools)
		d.pools = append(d.pools, *b)
	}
	if at < 0 {
		choices := "there are none"
		if len(d.pools) > 0 {
			choices = "there are " + list(d.pools, func(p pool) string { return p.name })
		}
		r.fail(s.place("executor"), s.path+".executor", quoted(s.pool), "is no name in pools: %s", choices)
		return
	}
	d.pools[at].used = true
}

// resolveRegistry checks that the service is registered where the server is.
func (d *document) resolveRegistry(r *reader, s *service) {
	for _, name := range s.registry {
		if !slices.ContainsFunc(d.registries, func(g registry) bool { return g.id == name }) {
			r.fail(s.place("registry"), s.path+".registry", quoted(name), "is the id of no registry: there are %s", list(d.registries, func(g registry) string { return g.id }))
		}
	}
}
