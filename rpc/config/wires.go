package config

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/go-eddy/eddy/rpc"
)

// wires holds the keys of what a port speaks beside the frame protocol.
type wires struct {
	protocols   []rpc.Protocol
	origins     []string
	maxResponse int
	age, grace  time.Duration
}

var (
	protocolNames = []string{"frame", "grpc", "web"}
	originProblem = "is no origin: write https://host, https://host:port, or * for all"
)

func (w *wires) fields(r *reader) []field {
	return []field{
		{name: "speaks", parse: func(n *yaml.Node, key string) {
			var list []string
			names(r, &list)(n, key)
			for i, name := range list {
				p, err := rpc.ParseProtocol(name)
				switch path := fmt.Sprintf("%s[%d]", key, i); {
				case err != nil:
					r.fail(n, path, quoted(name), "is none of %s", strings.Join(protocolNames, ", "))
				case slices.Contains(w.protocols, p):
					r.fail(n, path, quoted(name), "is there twice")
				default:
					w.protocols = append(w.protocols, p)
				}
			}
		}},
		{name: "origins", parse: func(n *yaml.Node, key string) {
			names(r, &w.origins)(n, key)
			for i, origin := range w.origins {
				scheme, host, ok := strings.Cut(origin, "://")
				if origin != "*" && (!ok || scheme != "http" && scheme != "https" || host == "" || strings.ContainsAny(host, "/?# ")) {
					r.fail(n, fmt.Sprintf("%s[%d]", key, i), quoted(origin), "%s", originProblem)
				}
			}
		}},
		{name: "max-response", parse: integer(r, &w.maxResponse, 1, maxPayload)},
		{name: "max-age", parse: duration(r, &w.age, time.Millisecond)},
		{name: "max-age-grace", parse: duration(r, &w.grace, time.Millisecond)},
	}
}

// set puts the keys into the options of a port.
func (w *wires) set(o *rpc.PortOptions) {
	o.Protocols, o.Origins, o.MaxResponse, o.MaxAge, o.MaxAgeGrace = w.protocols, w.origins, w.maxResponse, w.age, w.grace
}
