package config

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/go-eddy/eddy/rpc"
)

// The kinds of blocks, by the word for one. The word for several has a key more, the name of each.
const (
	kindApplication = "application"
	kindProtocol    = "protocol"
	kindRegistry    = "registry"
	kindCenter      = "config-center"
	kindReport      = "metadata-report"
	kindProvider    = "provider"
	kindService     = "service"
	kindMethod      = "method" // of a service
	kindPool        = "pool"
	kindBean        = "bean" // in XML
)

var (
	kinds  = []string{kindApplication, kindProtocol, kindRegistry, kindCenter, kindReport, kindProvider, kindService, kindPool}
	plural = map[string]string{"protocols": kindProtocol, "registries": kindRegistry, "config-centers": kindCenter, "metadata-reports": kindReport,
		"providers": kindProvider, "services": kindService, "pools": kindPool}
)

// blocks are the parts of a file of Dubbo's form.
type blocks struct {
	r        *reader
	list     []*block
	services *setting // those of a list
	name     string   // of Spring's application
	over     bool     // what is taken comes from the config center
}

// take puts a setting into its block.
func (b *blocks) take(s setting) {
	at := &yaml.Node{Line: s.line}
	if b.over {
		b.r.origins[at] = b.r.origins[s.value]
	}
	switch root := s.path[0]; {
	case root != "dubbo" && slices.Contains(springRoots, root):
		if s.key() == "spring.application.name" {
			b.name = s.value.Value
			return
		}
		b.r.idle(at, root, root, "it is for Spring")
		return
	case root != "dubbo":
		b.r.fail(at, shownKey(s.key()), "", "is no key here%s: known are dubbo, and those of Spring without effect", meant(root, append([]string{"dubbo"}, springRoots...)))
		return
	case len(s.path) == 1:
		if !nothing(s.value) {
			b.r.fail(s.value, "dubbo", shown(s.value), "is no mapping of keys to values")
		}
		return
	}
	b.section(s, at)
}

// nothing reports whether a value is none, or a mapping without keys.
func nothing(n *yaml.Node) bool {
	return n.Tag == "!!null" || n.Kind == yaml.MappingNode && len(n.Content) == 0
}

// section puts a setting below dubbo into its block.
func (b *blocks) section(s setting, at *yaml.Node) {
	word, depth := kebab(s.path[1]), 2
	kind, several := plural[word]
	switch {
	case several && len(s.path) == 2 && kind == kindService && s.value.Kind == yaml.SequenceNode:
		b.services = &s
		return
	case several:
		depth = 3
	case slices.Contains(kinds, word) && word != kindService && word != kindPool:
		kind = word
	case refusedSections[word] != "":
		b.r.fail(at, shownKey(s.key()), "", "is refused: %s", refusedSections[word])
		return
	case idleSections[word] != "":
		b.r.idle(at, "dubbo."+word, word, idleSections[word])
		return
	default:
		b.r.fail(at, shownKey(s.key()), "", "is no key here%s: known are %s", meant(word, sectionNames()), strings.Join(sectionNames(), ", "))
		return
	}
	if len(s.path) <= depth { // the block itself, without a key
		if !nothing(s.value) {
			b.r.fail(s.value, shownKey(s.key()), shown(s.value), "is no mapping of keys to values")
		} else if len(s.path) == depth {
			b.block(kind, s, depth)
		}
		return
	}
	b.block(kind, s, depth).set(b.r, strings.Join(s.path[depth:], "."), s.line, s.value)
}

// block returns the block that a setting is in.
func (b *blocks) block(kind string, s setting, depth int) *block {
	path := shownKey(strings.Join(s.path[:depth], "."))
	id := ""
	if depth > 2 {
		id = s.path[2]
	}
	for _, o := range b.list {
		if o.path == path || b.over && o.isMeant(kind, id, b.of(kind)) {
			return o
		}
	}
	o := newBlock(kind, id, path, s.line)
	if b.over {
		b.r.origins[o.node] = b.r.file
	}
	b.list = append(b.list, o)
	return o
}

// of returns the blocks of a kind, in the order of the file.
func (b *blocks) of(kind string) (list []*block) {
	for _, o := range b.list {
		if o.kind == kind {
			list = append(list, o)
		}
	}
	return list
}

// dubbo reads the blocks of a file.
func (r *reader) dubbo(b *blocks) *document {
	r.override(b)
	d := &document{dubbo: true, beans: map[string]*pool{}}
	if len(b.list) == 0 && b.services == nil && len(r.errs) == 0 && len(r.warnings) == 0 {
		r.fail(&yaml.Node{}, "", "", "there is nothing in it: it needs dubbo.application, dubbo.protocol or another key of Dubbo")
	}
	for _, o := range b.of(kindApplication) {
		mode := field{name: "register-mode", parse: choice(r, &d.application.mode, among(registerModes, registerModes), registerModes)}
		d.parseApplication(r, append(idle(idleApplication), mode)...)(o.node, o.path)
	}
	d.application.name = cmp.Or(d.application.name, b.name)
	provider := d.provider(r, b)
	for _, o := range b.of(kindProtocol) {
		o.inherit(provider, providerOfProtocols)
		d.dubboProtocol(r, o)
	}
	d.reports(r, b.of(kindReport))
	for _, o := range b.of(kindRegistry) {
		d.registry(r, o.node, o.path, cmp.Or(o.id, "registry"), idle(idleRegistry)...)
	}
	d.reported(r)
	d.centers(r, b.of(kindCenter))
	for _, o := range b.of(kindPool) {
		p := pool{name: o.id, node: o.node}
		p.check(r, r.fields(o.node, o.path, p.fields(r)), o.path)
		d.pools = append(d.pools, p)
	}
	for _, o := range b.of(kindBean) {
		d.bean(r, o)
	}
	d.dubboServices(r, b, provider)
	d.resolve(r)
	return d
}

// dubboServices reads the services, with what the provider says of all.
func (d *document) dubboServices(r *reader, b *blocks, provider *block) {
	if b.services != nil {
		d.parseServices(r)(b.services.value, "dubbo.services")
	}
	for _, o := range b.of(kindService) {
		if r.full() {
			return
		}
		o.inherit(provider, providerOfServices)
		var s service
		more := append(idle(idleService), s.parseMethods(r, idle(idleMethod)...),
			field{name: "id", parse: func(*yaml.Node, string) {}},
			field{name: "token", parse: refused(r, "who calls is not checked by a token here: use TLS with certificates of clients, or an interceptor")},
			field{name: "export", parse: only(r, true, "every service of the file is exported: take it out")},
			field{name: "register", parse: only(r, true, "services are registered all or none: see the registry's key register")})
		s.parse(r, o.node, o.path, more...)
		d.services = append(d.services, s)
	}
	if len(d.services) > maxServices {
		r.fail(d.services[maxServices].node, "", "", "is one service too many: at most %d", maxServices)
	}
}

// Keys of a provider that the protocols, and that the services have, unless they say otherwise.
var (
	providerOfProtocols = []string{"threadpool", "threads", "corethreads", "queues", "alive", "adaptive", "dispatcher", "accepts", "iothreads", "payload", "host"}
	providerOfServices  = []string{"timeout", "group", "version", "executes"}
)

// provider checks what is said of all protocols and services, and returns its block: nil if there is none, or something is wrong with it.
func (d *document) provider(r *reader, b *blocks) *block {
	list := b.of(kindProvider)
	if len(list) == 0 {
		return nil
	}
	if len(list) > 1 {
		r.fail(list[1].node, list[1].path, "", "is a second provider: one says what all services have")
	}
	o, before := list[0], len(r.errs)
	var p protocol
	known := slices.DeleteFunc(append(p.pool.fields(r), p.fields(r)...), func(f field) bool { return !slices.Contains(providerOfProtocols, f.name) })
	s := &d.defaults
	seen := r.fields(o.node, o.path, append(append(known, idle(idleProvider)...),
		field{name: "host", parse: text(r, &p.host)},
		field{name: "group", parse: text(r, &s.key.Group)},
		field{name: "version", parse: text(r, &s.key.Version)},
		field{name: "timeout", parse: duration(r, &s.timeout, time.Millisecond)},
		field{name: "executes", parse: integer(r, &s.inFlight, 1, maxInFlight)},
		field{name: "id", parse: func(*yaml.Node, string) {}},
		field{name: "token", parse: refused(r, "who calls is not checked by a token here: use TLS with certificates of clients, or an interceptor")}))
	p.pool.check(r, seen, o.path)
	if len(r.errs) > before {
		return nil
	}
	return o
}

// Default ports, where the search for a free one begins if the port is -1. Those of dubbo and tri are Dubbo's.
const (
	portDubbo = 20880
	portTri   = 50051
	portFrame = 7000
)

// speaks is the name of what the protocol speaks, for services that name it so.
func (p *protocol) speaks() string {
	switch {
	case p.wire != nil:
		return p.wire.Name
	case len(p.wires.protocols) > 0:
		return map[rpc.Protocol]string{rpc.ProtocolFrame: "frame", rpc.ProtocolGRPC: "tri"}[p.wires.protocols[0]]
	}
	return p.name
}

// dubboProtocol reads a protocol whose name says what it speaks.
func (d *document) dubboProtocol(r *reader, o *block) {
	p := protocol{path: o.path, node: o.node}
	name, given := cmp.Or(o.id, "dubbo"), ""
	seen := p.parse(r, o.node, o.path, append(idle(idleProtocol),
		field{name: "name", parse: text(r, &given)},
		field{name: "id", parse: func(*yaml.Node, string) {}},
		field{name: "ssl-enabled", parse: only(r, false, "TLS is not read from the file: set PortOptions.Front, or --tls-cert and --tls-key of the command")},
		field{name: "register", parse: only(r, true, "services are registered all or none: see the registry's key register")})...)
	speaks := cmp.Or(given, name)
	p.name = cmp.Or(o.id, speaks)
	if at := slices.IndexFunc(d.protocols, func(q protocol) bool { return q.name == p.name }); at >= 0 {
		r.fail(o.node, o.path, quoted(p.name), "is there twice: in line %d, too. Give each an id", d.protocols[at].node.Line)
	}
	if !validName(p.name) {
		r.fail(o.node, o.path, quoted(p.name), "%s", namesProblem)
	}
	at := seen["name"]
	if at == nil {
		at = o.node
	}
	if p.setWire(r, at, speaks); p.wire != nil && seen["speaks"] != nil {
		r.fail(seen["speaks"], join(o.path, "speaks"), "", "is for tri, grpc and frame: the protocol %s says itself what its ports speak", quoted(speaks))
	}
	if p.port <= 0 { // Dubbo takes its default port without one, and looks for a free one from there on by -1.
		if p.port == 0 {
			p.port = p.firstPort
		}
	}
	if p.port > 0 {
		p.firstPort = 0
	}
	d.protocols = append(d.protocols, p)
	if len(d.protocols) == maxProtocols+1 {
		r.fail(o.node, o.path, "", "is one too many: at most %d protocols", maxProtocols)
	}
}

// setWire sets what the protocol speaks and its default port, by its name.
func (p *protocol) setWire(r *reader, at *yaml.Node, name string) {
	own := p.wires.protocols == nil
	set := func(port int, protocols ...rpc.Protocol) {
		if p.firstPort = port; own {
			p.wires.protocols = protocols
		}
	}
	switch name {
	case "tri", "triple", "grpc":
		set(portTri, rpc.ProtocolGRPC, rpc.ProtocolWeb)
		return
	case "frame", "eddy":
		set(portFrame, rpc.ProtocolFrame)
		return
	}
	p.firstPort = portDubbo
	known := []string{"dubbo", "tri", "grpc", "frame"}
	for i := range r.engines.Wires {
		if r.engines.Wires[i].Name == name {
			p.wire = &r.engines.Wires[i]
			return
		}
		if other := r.engines.Wires[i].Name; other != "dubbo" {
			known = append(known, other)
		}
	}
	key := join(p.path, "name")
	if name == "dubbo" {
		r.note(&Error{File: r.origins[at], Line: at.Line, Key: key, Value: quoted(name), Err: ErrNotLinked,
			Problem: "is of an engine that is not linked: give the program dubbo.Wire() of github.com/go-eddy/eddy/rpc/dubbo. Without it there are " + strings.Join(known[1:], ", ")})
		return
	}
	r.fail(at, key, quoted(name), "is no protocol here%s: known are %s", meant(name, known), strings.Join(known, ", "))
}

// bean notes a bean of a file of XML, which a service may have for an executor. It is a pool if it has the properties of one.
func (d *document) bean(r *reader, o *block) {
	d.beans[o.id] = nil
	if o.value("threads") != nil || o.value("threadpool") != nil {
		p := &pool{name: o.id, node: o.node}
		p.check(r, r.fields(o.node, o.path, p.fields(r)), o.path)
		d.beans[o.id] = p
	}
}
