package nacos

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/go-eddy/eddy/rpc/discovery"
	"github.com/go-eddy/eddy/rpc/discovery/internal/keep"
)

// host is an instance in Nacos's JSON.
type host struct {
	IP       string            `json:"ip"`
	Port     int               `json:"port"`
	Weight   *float64          `json:"weight,omitempty"` // 1 is usual
	Healthy  *bool             `json:"healthy,omitempty"`
	Enabled  *bool             `json:"enabled,omitempty"`
	Metadata map[string]string `json:"metadata"`
}

// serviceName is that of Dubbo's registry in Nacos.
func serviceName(s discovery.Service) string {
	return "providers:" + s.Interface + ":" + s.Version + ":" + s.Group
}

// cluster is the one of the instances of a protocol: Nacos has one instance of an address in each.
func cluster(protocol string) string {
	if protocol == "" || protocol == "tri" {
		return "DEFAULT"
	}
	return protocol
}

func checkService(s discovery.Service) error {
	if s.Interface == "" {
		return errors.New("nacos: Service.Interface is empty")
	}
	for _, part := range []string{s.Interface, s.Group, s.Version} {
		if strings.ContainsAny(part, ":@# \x00") {
			return fmt.Errorf("nacos: the service %v: %q has characters that separate the parts of a name", s, part)
		}
	}
	return nil
}

// hostOf is the JSON of an instance that is registered.
func hostOf(s discovery.Service, i discovery.Instance, ip, port string) host {
	n, _ := strconv.Atoi(port)
	weight := float64(cmp.Or(i.Weight, discovery.DefaultWeight)) / discovery.DefaultWeight
	m := map[string]string{"side": "provider", "category": "providers"}
	maps.Copy(m, i.Attributes)
	maps.Copy(m, map[string]string{"protocol": cmp.Or(s.Protocol, "tri"), "path": s.Interface, "interface": s.Interface, "group": s.Group, "version": s.Version, "zone": i.Zone})
	if !i.Since.IsZero() {
		m["timestamp"] = strconv.FormatInt(i.Since.UnixMilli(), 10)
	}
	maps.DeleteFunc(m, func(_, value string) bool { return value == "" })
	return host{IP: ip, Port: n, Weight: &weight, Metadata: m}
}

// entry reads an instance.
func (h host) entry(s discovery.Service) keep.Entry {
	protocol := h.Metadata["protocol"]
	off := func(flag *bool) bool { return flag != nil && !*flag }
	if off(h.Healthy) || off(h.Enabled) || h.Weight != nil && *h.Weight <= 0 || protocol != "" && !keep.Speaks(s.Protocol, protocol) {
		return keep.Entry{Other: true}
	}
	i := discovery.Instance{Addr: net.JoinHostPort(h.IP, strconv.Itoa(h.Port)), Zone: h.Metadata["zone"], Attributes: maps.Clone(h.Metadata)}
	if h.Weight != nil {
		i.Weight = int(max(1, math.Round(min(*h.Weight*discovery.DefaultWeight, discovery.MaxWeight))))
	}
	if text, ok := h.Metadata["timestamp"]; ok {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < 0 || n > math.MaxInt64/int64(time.Millisecond) {
			return keep.Entry{Err: fmt.Errorf("nacos: %s: timestamp is %.100q: it must be a number of milliseconds", i.Addr, text)}
		}
		i.Since = time.UnixMilli(n)
	}
	for _, known := range []string{"timestamp", "zone", "group", "version"} {
		delete(i.Attributes, known)
	}
	return keep.Entry{Instance: i}
}
