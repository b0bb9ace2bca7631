package config

import (
	"math"
	"slices"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/go-eddy/eddy/internal/bytesize"
	"github.com/go-eddy/eddy/overload"
)

type application struct {
	name       string
	isolation  bool // executor-management-mode
	dumpOff    bool
	dumpDir    string
	retryAfter *time.Duration
	overload   *overload.Options // nil = off
	mode       string            // register-mode of registries that do not say
}

// parseApplication reads the application's keys, and those of the file's form.
func (d *document) parseApplication(r *reader, more ...field) func(*yaml.Node, string) {
	return func(n *yaml.Node, key string) {
		a := &d.application
		on, retryAfter := true, time.Duration(0)
		watch, limited := false, overload.Options{}
		seen := r.fields(n, key, slices.Concat([]field{
			{name: "name", parse: text(r, &a.name)},
			{name: "executor-management-mode", parse: choice(r, &a.isolation, among(managements, []bool{false, true}), managements)},
			{name: "dump-enable", also: "dump.enable", parse: boolean(r, &on)},
			{name: "dump-directory", also: "dump.directory", parse: text(r, &a.dumpDir)},
			{name: "overload", parse: overloading(r, &watch, &limited)},
			{name: "retry-after", parse: duration(r, &retryAfter, 0)},
		}, d.flatLimits(r, &limited), more))
		if d.limited(r, seen, key, watch) || watch {
			a.overload = &limited
		}
		a.dumpOff = !on
		if seen["retry-after"] != nil {
			a.retryAfter = &retryAfter
		}
	}
}

// overloading takes true, false, or a mapping of the limits, which switches the overload manager on as true does.
func overloading(r *reader, on *bool, o *overload.Options) func(*yaml.Node, string) {
	return func(n *yaml.Node, key string) {
		switch {
		case n.Kind == yaml.MappingNode:
			*on = true
			r.fields(n, key, limits(r, o))
		case n.Kind != yaml.ScalarNode || n.Tag != "!!bool" || n.Decode(on) != nil:
			r.fail(n, key, shown(n), "is neither true nor false nor a mapping of limits")
		}
	}
}

// limits returns the keys that the flags --overload-… of the commands have, too.
func limits(r *reader, o *overload.Options) []field {
	return []field{
		{name: "memory", parse: memory(r, &o.Memory)},
		{name: "lag", parse: watched(r, &o.Lag)},
		{name: "queue-age", parse: watched(r, &o.QueueAge)},
	}
}

const flat = "overload." // begins the keys of limits where a file has no mappings

// flatLimits returns the keys of limits as files of Dubbo's form have them.
func (d *document) flatLimits(r *reader, o *overload.Options) (list []field) {
	if d.dubbo {
		for _, f := range limits(r, o) {
			f.name = flat + f.name
			list = append(list, f)
		}
	}
	return list
}

// limited reports whether there are such keys. They contradict a switch that is off.
func (d *document) limited(r *reader, seen map[string]*yaml.Node, path string, watch bool) (any bool) {
	for _, f := range d.flatLimits(r, new(overload.Options)) {
		at := seen[f.name]
		if at != nil && seen["overload"] != nil && !watch {
			r.fail(at, join(path, f.name), "", "is a limit of the overload manager, which overload: false switches off")
		}
		any = any || at != nil
	}
	return any
}

// memory takes a size, auto for the default, and off.
func memory(r *reader, dst *int) func(*yaml.Node, string) {
	return func(n *yaml.Node, key string) {
		size, err := bytesize.Parse(n.Value)
		switch {
		case n.Kind == yaml.ScalarNode && n.Value == "auto":
			*dst = 0
		case n.Kind == yaml.ScalarNode && n.Value == "off":
			*dst = -1
		case n.Kind != yaml.ScalarNode || err != nil || size < 1 || size > math.MaxInt:
			r.fail(n, key, shown(n), "is neither a size such as 512MiB nor auto nor off")
		default:
			*dst = int(size)
		}
	}
}

// watched takes a duration, or 0 for what is not watched.
func watched(r *reader, dst *time.Duration) func(*yaml.Node, string) {
	return func(n *yaml.Node, key string) {
		d, ok := parseDuration(n)
		switch {
		case ok && d == 0:
			*dst = -1
		case ok && (d < time.Millisecond || d > longest):
			r.fail(n, key, shown(n), "is out of range: %v to %v, or 0 for not watched", time.Millisecond, longest)
		default:
			duration(r, dst, time.Millisecond)(n, key)
		}
	}
}
