package config

import (
	"time"

	"go.yaml.in/yaml/v3"
)

type application struct {
	name       string
	isolation  bool // executor-management-mode
	dumpOff    bool
	dumpDir    string
	retryAfter *time.Duration
	overload   bool
}

// parseApplication reads the application's keys, and those of the file's form.
func (d *document) parseApplication(r *reader, more ...field) func(*yaml.Node, string) {
	return func(n *yaml.Node, key string) {
		a := &d.application
		on, retryAfter := true, time.Duration(0)
		seen := r.fields(n, key, append([]field{
			{name: "name", parse: text(r, &a.name)},
			{name: "executor-management-mode", parse: choice(r, &a.isolation, among(managements, []bool{false, true}), managements)},
			{name: "dump-enable", also: "dump.enable", parse: boolean(r, &on)},
			{name: "dump-directory", also: "dump.directory", parse: text(r, &a.dumpDir)},
			{name: "overload", parse: boolean(r, &a.overload)},
			{name: "retry-after", parse: duration(r, &retryAfter, 0)},
		}, more...))
		a.dumpOff = !on
		if seen["retry-after"] != nil {
			a.retryAfter = &retryAfter
		}
	}
}
