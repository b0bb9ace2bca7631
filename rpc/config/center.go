package config

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/go-eddy/eddy/rpc/discovery"
)

const (
	centerTimeout = 3 * time.Second
	centerGroup   = "dubbo" // of the text for all applications; that of one is in the group of its name
	centerKey     = "dubbo.properties"
)

// center is where more settings are, which stand above those of the file.
type center struct {
	node    *yaml.Node
	path    string
	address string
	timeout time.Duration
	must    bool // the program does not start without it
	highest bool // what it has stands above the file

	group, key, keyOfApplication string
}

// overlay is a text of a center, whose settings stand above those of the file, or below.
type overlay struct {
	name, data string
	below      bool
}

// centers reads the config center, of which there is one.
func (d *document) centers(r *reader, list []*block) {
	for i, o := range list {
		if i > 0 {
			r.fail(o.node, o.path, "", "is a second config center: there is one")
			return
		}
		c := &center{node: o.node, path: o.path, timeout: centerTimeout, highest: true, group: centerGroup, key: centerKey}
		var address, scheme, user, password, namespace string
		port := 0
		seen := r.fields(o.node, o.path, append(idle(idleCenter), []field{
			{name: "id", parse: func(*yaml.Node, string) {}},
			{name: "address", parse: text(r, &address)},
			{name: "protocol", parse: text(r, &scheme)},
			{name: "port", parse: integer(r, &port, 1, maxPort)},
			{name: "username", parse: text(r, &user)},
			{name: "password", parse: text(r, &password)},
			{name: "namespace", parse: text(r, &namespace)},
			{name: "group", parse: text(r, &c.group)},
			{name: "config-file", parse: text(r, &c.key)},
			{name: "app-config-file", parse: text(r, &c.keyOfApplication)},
			{name: "timeout", parse: duration(r, &c.timeout, time.Millisecond)},
			{name: "check", parse: boolean(r, &c.must)},
			{name: "highest-priority", parse: boolean(r, &c.highest)},
		}...))
		at := seen["address"]
		if at == nil {
			r.fail(o.node, o.path, "", "has no address: write zookeeper://host:port")
			return
		}
		if !strings.Contains(address, "://") && scheme != "" {
			address = scheme + "://" + address
		}
		key := join(o.path, "address")
		c.address = r.address(at, key, address, port, map[string]string{"username": user, "password": password, "group": namespace})
		if e, err := discovery.Find(r.engines.Registries, c.address); err == nil && e.OpenCenter == nil {
			r.fail(at, key, quoted(address), "is of an engine that has no config centers")
		}
		d.center = c
	}
}

// withCenter reads the file again, with what its center has. A center that cannot be read is a warning, unless the file says check: true.
func (r *reader) withCenter(ctx context.Context, d *document, data []byte) (*Config, error) {
	c := d.center
	texts, err := c.read(ctx, r.engines, d.application.name)
	if ctx.Err() != nil {
		return nil, fmt.Errorf("config: %s: waiting for %s: %w", r.file, c.path, ctx.Err())
	}
	again := &reader{file: r.file, engines: r.engines, over: texts, origins: map[*yaml.Node]string{}}
	for _, t := range texts {
		if err := (&reader{file: t.name}).plain([]byte(t.data)); err != nil {
			return nil, err
		}
	}
	switch {
	case err != nil && c.must:
		return nil, &Error{File: r.file, Line: max(c.node.Line, 1), Key: c.path, Problem: fmt.Sprintf("cannot be read: %v", err)}
	case err != nil:
		again.warn(c.node, c.path, "cannot be read, the file alone counts: %v", err)
	}
	d, err = again.read(data)
	return d.config(again), err
}

// read returns the texts of all applications and of this one.
func (c *center) read(ctx context.Context, engines Engines, application string) (texts []overlay, err error) {
	e, err := discovery.Find(engines.Registries, c.address)
	if err != nil {
		return nil, err
	}
	center, err := e.OpenCenter(c.address)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, center.Close()) }()
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	a, err := discovery.ParseAddress(c.address)
	if err != nil {
		return nil, err
	}
	places := [][2]string{{c.group, c.key}}
	if application != "" {
		places = append(places, [2]string{application, cmp.Or(c.keyOfApplication, c.key)})
	}
	for _, at := range places {
		data, err := center.Text(ctx, at[0], at[1])
		if err != nil {
			return nil, err
		}
		texts = append(texts, overlay{fmt.Sprintf("%s/%s of %v", at[0], at[1], a), data, !c.highest})
	}
	if !c.highest {
		slices.Reverse(texts) // what is there stays
	}
	return texts, nil
}

// override puts what the center has into the blocks of the file.
func (r *reader) override(b *blocks) {
	file := r.file
	b.over = true
	for _, t := range r.over {
		r.file, r.below = t.name, t.below
		r.lines([]byte(t.data), func(s setting) {
			r.origins[s.value] = t.name
			if !r.placeholder(s.value, shownKey(s.key())) {
				b.take(s)
			}
		})
	}
	b.over, r.file = false, file
}

// isMeant reports whether a key of the center is about the block: by its id or name, or because it is the only one of its kind.
func (o *block) isMeant(kind, id string, all []*block) bool {
	if o.kind != kind {
		return false
	}
	if id == "" {
		return len(all) == 1
	}
	name := o.value("name")
	return o.id == id || o.id == "" && name != nil && name.Value == id
}

// report is where the metadata of applications is written.
type report struct {
	node    *yaml.Node // nil = none
	path    string
	address discovery.Address
	used    bool // by a registry
}

// reports reads the metadata report, of which there is one.
func (d *document) reports(r *reader, list []*block) {
	for i, o := range list {
		if i > 0 {
			r.fail(o.node, o.path, "", "is a second metadata report: there is one")
			return
		}
		var address, scheme string
		port := 0
		at := r.fields(o.node, o.path, append(idle(idleReport), []field{
			{name: "address", parse: text(r, &address)},
			{name: "protocol", parse: text(r, &scheme)},
			{name: "port", parse: integer(r, &port, 1, maxPort)},
		}...))["address"]
		if !strings.Contains(address, "://") && scheme != "" {
			address = scheme + "://" + address
		}
		a, err := discovery.ParseAddress(withPort(address, port))
		if at == nil || err != nil || len(a.Hosts) == 0 {
			r.fail(cmp.Or(at, o.node), join(o.path, "address"), "", "names no server: write zookeeper://host:port")
			return
		}
		d.report = report{node: o.node, path: o.path, address: a}
	}
}

// reported warns of a metadata report that no registry uses.
func (d *document) reported(r *reader) {
	if d.report.node != nil && !d.report.used {
		r.idle(d.report.node, d.report.path, kindReport, "nothing is written of services that are registered by interface: see register-mode of the registry")
	}
}
