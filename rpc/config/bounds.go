package config

import (
	"fmt"
	"slices"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/go-eddy/eddy/limit"
	"github.com/go-eddy/eddy/rpc"
)

// bounds are what a file may say of a service, and of each of its methods.
type bounds struct {
	timeout  time.Duration
	inFlight int
	class    *limit.Class
	executor *threadpool // a pool of its own
	pool     string      // or the name of one of pools
	path     string
	node     *yaml.Node
	at       map[string]*yaml.Node // the values of its keys
}

// parse reads a mapping with more keys and those of bounds.
func (b *bounds) parse(r *reader, n *yaml.Node, path string, more ...field) map[string]*yaml.Node {
	b.node, b.path = n, path
	b.at = r.fields(n, path, append(more, []field{
		{name: "timeout", parse: duration(r, &b.timeout, time.Millisecond)},
		{name: "in-flight", also: "executes", parse: integer(r, &b.inFlight, 1, maxInFlight)},
		{name: "criticality", parse: func(n *yaml.Node, key string) {
			b.class = new(limit.Class)
			choice(r, b.class, among(classNames, classes), classNames)(n, key)
		}},
		{name: "executor", parse: func(n *yaml.Node, key string) {
			if n.Kind != yaml.MappingNode {
				text(r, &b.pool)(n, key)
				return
			}
			b.executor = new(threadpool)
			b.executor.check(r, r.fields(n, key, b.executor.fields(r)), key)
		}},
	}...))
	return b.at
}

// place returns the node of a key's value, or that of the whole if the key is not there.
func (b *bounds) place(key string) *yaml.Node {
	if n := b.at[key]; n != nil {
		return n
	}
	return b.node
}

// options are what the server is told, without a pool that is named.
func (b *bounds) options() (list []rpc.RegisterOption) {
	if b.timeout > 0 {
		list = append(list, rpc.Timeout(b.timeout))
	}
	if b.inFlight > 0 {
		list = append(list, rpc.InFlight(b.inFlight))
	}
	if b.class != nil {
		list = append(list, rpc.Class(*b.class))
	}
	if b.executor != nil {
		list = append(list, rpc.WithPoolOptions(b.executor.options()))
	}
	return list
}

var (
	classes    = []limit.Class{limit.Sheddable, limit.SheddablePlus, limit.Critical, limit.CriticalPlus}
	classNames = []string{limit.Sheddable.String(), limit.SheddablePlus.String(), limit.Critical.String(), limit.CriticalPlus.String()}
)

// method is what a file says of one method of a service.
type method struct {
	bounds
	name string
}

// parseMethods reads the methods of a service. idle are keys without effect.
func (s *service) parseMethods(r *reader, idle ...field) field {
	return field{name: "methods", parse: func(n *yaml.Node, path string) {
		if n.Kind != yaml.SequenceNode {
			r.fail(n, path, shown(n), "is no list of methods")
			return
		}
		lines := map[string]int{}
		for i, item := range r.items(n, path, maxMethods) {
			if r.full() {
				return
			}
			var m method
			path := fmt.Sprintf("%s[%d]", path, i)
			before := len(r.errs)
			m.parse(r, item, path, append([]field{{name: "name", parse: text(r, &m.name)}}, idle...)...)
			first, twice := lines[m.name]
			switch {
			case len(r.errs) > before:
			case m.name == "":
				r.fail(m.place("name"), path, "", "has no name")
			case twice:
				r.fail(m.place("name"), join(path, "name"), quoted(m.name), "is there twice: in line %d, too", first)
			}
			lines[m.name] = m.node.Line
			s.methods = append(s.methods, m)
		}
	}}
}

// resolvePool finds the pool that is named.
func (d *document) resolvePool(r *reader, s *bounds) {
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
