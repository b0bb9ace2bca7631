package config

import (
	"fmt"
	"slices"
	"strconv"

	"go.yaml.in/yaml/v3"

	"github.com/go-eddy/eddy/rpc"
)

type service struct {
	bounds
	key      rpc.Key
	ports    []string
	registry []string
	methods  []method
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
			s.parse(r, item, fmt.Sprintf("%s[%d]", path, i), s.parseMethods(r))
			d.services = append(d.services, s)
		}
	}
}

// parse reads a service's keys, and more of the file's form.
func (s *service) parse(r *reader, n *yaml.Node, path string, more ...field) {
	before := len(r.errs)
	seen := s.bounds.parse(r, n, path, append([]field{
		{name: "interface", parse: text(r, &s.key.Interface)},
		{name: "group", parse: text(r, &s.key.Group)},
		{name: "version", parse: text(r, &s.key.Version)},
		{name: "protocol", parse: names(r, &s.ports)},
		{name: "registry", parse: names(r, &s.registry)},
	}, more...)...)
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
		d.resolvePool(r, &s.bounds)
		for i := range s.methods {
			d.resolvePool(r, &s.methods[i].bounds)
		}
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

// resolveRegistry checks that the service is registered where the server is.
func (d *document) resolveRegistry(r *reader, s *service) {
	for _, name := range s.registry {
		if !slices.ContainsFunc(d.registries, func(g registry) bool { return g.id == name }) {
			r.fail(s.place("registry"), s.path+".registry", quoted(name), "is the id of no registry: there are %s", list(d.registries, func(g registry) string { return g.id }))
		}
	}
}
