package kubernetes

import (
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"

	"github.com/go-eddy/eddy/rpc/discovery"
	"github.com/go-eddy/eddy/rpc/discovery/internal/keep"
)

// slice is an EndpointSlice.
type slice struct {
	Metadata struct {
		Name            string `json:"name"`
		ResourceVersion string `json:"resourceVersion"`
	} `json:"metadata"`
	Endpoints []endpoint `json:"endpoints"`
	Ports     []port     `json:"ports"`
}

type endpoint struct {
	Addresses  []string `json:"addresses"` // Only the first one counts.
	Conditions struct {
		Ready *bool `json:"ready"` // nil = ready
	} `json:"conditions"`
	Zone      string `json:"zone"`
	NodeName  string `json:"nodeName"`
	TargetRef struct {
		Name string `json:"name"`
	} `json:"targetRef"`
}

type port struct {
	Name string `json:"name"`
	Port int    `json:"port"` // 0 = all
}

// list is the answer to a list.
type list struct {
	Metadata struct {
		ResourceVersion string `json:"resourceVersion"`
		Continue        string `json:"continue"`
	} `json:"metadata"`
	Items *[]slice `json:"items"`
}

// entries are the endpoints of all slices.
func entries(all map[string]slice, port string) []keep.Entry {
	var list []keep.Entry
	for _, name := range slices.Sorted(maps.Keys(all)) {
		s := all[name]
		number, err := s.port(port)
		for _, e := range s.Endpoints {
			switch {
			case e.Conditions.Ready != nil && !*e.Conditions.Ready:
				list = append(list, keep.Entry{Other: true})
			case err != nil:
				list = append(list, keep.Entry{Err: err})
			default:
				list = append(list, e.entry(name, number))
			}
		}
	}
	return list
}

// port returns the number of the port of that name; "" is the only one.
func (s slice) port(name string) (int, error) {
	if name == "" && len(s.Ports) == 1 {
		return s.Ports[0].Port, nil
	}
	var names []string
	for _, p := range s.Ports {
		if names = append(names, p.Name); p.Name == name {
			return p.Port, nil
		}
	}
	return 0, fmt.Errorf("kubernetes: %s has no port %q, but %.10q", s.Metadata.Name, name, names)
}

func (e endpoint) entry(name string, port int) keep.Entry {
	if len(e.Addresses) == 0 {
		return keep.Entry{Err: fmt.Errorf("kubernetes: %s has an endpoint without an address", name)}
	}
	i := discovery.Instance{Addr: net.JoinHostPort(e.Addresses[0], strconv.Itoa(port)), Zone: e.Zone, Attributes: map[string]string{"pod": e.TargetRef.Name, "node": e.NodeName}}
	maps.DeleteFunc(i.Attributes, func(_, value string) bool { return value == "" })
	return keep.Entry{Instance: i}
}
