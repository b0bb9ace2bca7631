package config

import (
	"errors"
	"net/url"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/go-eddy/eddy/rpc/discovery"
)

// registry is where the services are registered.
type registry struct {
	id      string
	address string // with the keys beside it; "" = none
	zone    string
}

// noRegistry is Dubbo's address for none.
const noRegistry = "N/A"

// parseRegistry reads the registry of a file of our own form.
func (d *document) parseRegistry(r *reader) func(*yaml.Node, string) {
	return func(n *yaml.Node, path string) { d.registry(r, n, path, "registry") }
}

// registry reads a registry, and more keys of the file's form.
func (d *document) registry(r *reader, n *yaml.Node, path, id string, more ...field) {
	g := registry{id: id}
	var address, scheme, user, password, group, mode, kind string
	port, register := 0, true
	seen := r.fields(n, path, append([]field{
		{name: "id", parse: text(r, &g.id)},
		{name: "address", parse: text(r, &address)},
		{name: "protocol", parse: text(r, &scheme)},
		{name: "port", parse: integer(r, &port, 1, maxPort)},
		{name: "username", parse: text(r, &user)},
		{name: "password", parse: text(r, &password)},
		{name: "group", parse: text(r, &group)},
		{name: "zone", parse: text(r, &g.zone)},
		{name: "register", parse: boolean(r, &register)},
		{name: "register-mode", parse: choice(r, &mode, among(registerModes, registerModes), registerModes)},
		{name: "registry-type", parse: text(r, &kind)},
	}, more...))
	at := seen["address"]
	switch {
	case at == nil:
		if n.Kind == yaml.MappingNode {
			r.fail(n, path, "", "has no address: write zookeeper://host:port, or %s for none", noRegistry)
		}
	case strings.EqualFold(address, noRegistry) || strings.EqualFold(scheme, noRegistry) || !register:
	default:
		if !strings.Contains(address, "://") && scheme != "" {
			address = scheme + "://" + address
		}
		g.address = r.address(at, join(path, "address"), address, port, map[string]string{"username": user, "password": password, "group": group})
	}
	a, err := discovery.ParseAddress(address)
	if err == nil && (a.Values.Get("registry-type") == "service" || kind == "service" || mode == "instance" || mode == "all") {
		r.idle(n, path, "registry-type=service", "no instances are registered by application: services are registered by interface, which consumers of Dubbo 2 and 3 find")
	}
	for _, o := range d.registries {
		if o.address != "" && g.address != "" {
			r.fail(n, path, "", "is a second registry: a server is registered in one")
		}
	}
	d.registries = append(d.registries, g)
}

var registerModes = []string{"interface", "instance", "all"}

// address checks the address of a registry, and returns it with the keys that were beside it. Errors do not show its password.
func (r *reader) address(n *yaml.Node, key, address string, port int, beside map[string]string) string {
	a, err := discovery.ParseAddress(address)
	if err != nil {
		r.fail(n, key, "", "has keys that do not parse behind its question mark")
		return ""
	}
	if port > 0 && len(a.Hosts) == 1 && !strings.Contains(a.Hosts[0], ":") {
		address = strings.Replace(address, a.Hosts[0], a.Hosts[0]+":"+strconv.Itoa(port), 1)
	}
	if _, err := discovery.Find(r.engines.Registries, address); err != nil {
		e := &Error{Line: n.Line, Key: key, Value: quoted(a.String()), Problem: err.Error()}
		if errors.Is(err, discovery.ErrNotLinked) {
			e.Err = ErrNotLinked
		}
		r.note(e)
		return ""
	}
	more := url.Values{}
	for key, value := range beside {
		if value != "" && !a.Values.Has(key) {
			more.Set(key, value)
		}
	}
	switch {
	case len(more) == 0:
	case strings.Contains(address, "?"):
		address += "&" + more.Encode()
	default:
		address += "?" + more.Encode()
	}
	return address
}

// center reads a config-center or a metadata-report, which have no effect.
func (r *reader) center(o *block) {
	why := map[string]string{kindCenter: "the configuration is this file", kindReport: "metadata is not published: the services of a port are listed by its reflection"}[o.kind]
	known := idle(idleCenter)
	for i := range known {
		known[i].parse = func(*yaml.Node, string) {}
	}
	if r.fields(o.node, o.path, known); len(r.errs) == 0 {
		r.idle(o.node, o.path, o.kind, why)
	}
}
