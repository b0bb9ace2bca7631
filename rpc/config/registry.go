package config

import (
	"errors"
	"net/url"
	"slices"
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
	var address, scheme, user, password, group, kind string
	mode := d.application.mode
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
		g.address = r.address(at, join(path, "address"), address, port, map[string]string{"username": user, "password": password, "group": group,
			"register-mode": mode, "registry-type": kind})
		d.byApplication(r, n, path, &g)
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
	address = withPort(address, port)
	if _, err := discovery.Find(r.engines.Registries, address); err != nil {
		e := &Error{File: r.origins[n], Line: n.Line, Key: key, Value: quoted(a.String()), Problem: err.Error()}
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
	return withKeys(address, more)
}

// withPort returns an address whose only host has the port, if it has none of its own. 0 = none.
func withPort(address string, port int) string {
	a, err := discovery.ParseAddress(address)
	if err == nil && port > 0 && len(a.Hosts) == 1 && !strings.Contains(a.Hosts[0], ":") {
		return strings.Replace(address, a.Hosts[0], a.Hosts[0]+":"+strconv.Itoa(port), 1)
	}
	return address
}

// byApplication looks whether instances are to be registered by application, which not every engine does.
func (d *document) byApplication(r *reader, n *yaml.Node, path string, g *registry) {
	a, err := discovery.ParseAddress(g.address)
	if err != nil || g.address == "" {
		return
	}
	mode, kind := a.Values.Get("register-mode"), a.Values.Get("registry-type")
	switch e, err := discovery.Find(r.engines.Registries, g.address); {
	case err != nil || mode != "instance" && mode != "all" && (mode != "" || kind != "service"):
	case !e.Modes:
		r.idle(n, path, "registry-type=service", "no instances are registered by application: services are registered by interface, which consumers of Dubbo 2 and 3 find")
	case d.application.name == "":
		r.fail(n, path, "", "registers by application, and there is no name of one: write dubbo.application.name")
	case d.report.node == nil:
	case d.report.address.Scheme != a.Scheme:
		r.fail(d.report.node, d.report.path, quoted(d.report.address.String()), "is of another kind than the registry, which is %s: metadata is written to servers of the registry's kind", a.Scheme)
	default:
		d.report.used = true
		if !slices.Equal(d.report.address.Hosts, a.Hosts) {
			g.address = withKeys(g.address, url.Values{"metadata": {strings.Join(d.report.address.Hosts, ",")}})
		}
	}
}

// withKeys returns an address with more keys behind its question mark.
func withKeys(address string, keys url.Values) string {
	switch {
	case len(keys) == 0:
		return address
	case strings.Contains(address, "?"):
		return address + "&" + keys.Encode()
	default:
		return address + "?" + keys.Encode()
	}
}
