package etcd

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/go-eddy/eddy/rpc/discovery"
	"github.com/go-eddy/eddy/rpc/discovery/internal/keep"
)

// maxValue bounds the value of one key in bytes.
const maxValue = 64 << 10

// empty stands for an empty group, version or protocol.
const empty = "-"

// value is the JSON of an instance. Its address is in the key.
type value struct {
	Weight     int               `json:"weight,omitempty"`
	Zone       string            `json:"zone,omitempty"`
	Since      time.Time         `json:"since,omitzero"`
	Attributes map[string]string `json:"attributes,omitempty"`
}

// prefix is that of the keys of a service. The protocol and the address follow.
func (r *Registry) prefix(s discovery.Service) string {
	return "/" + escape(r.o.Root) + "/" + escape(s.Interface) + "/" + escape(s.Group) + "/" + escape(s.Version) + "/"
}

// escape makes one part of a key.
func escape(part string) string {
	switch part {
	case "":
		return empty
	case empty:
		return "%2D"
	}
	return url.PathEscape(part)
}

func checkService(s discovery.Service) error {
	if s.Interface == "" {
		return errors.New("etcd: Service.Interface is empty")
	}
	return nil
}

func valueOf(i discovery.Instance) (string, error) {
	text, err := json.Marshal(value{Weight: i.Weight, Zone: i.Zone, Since: i.Since, Attributes: i.Attributes})
	if err != nil {
		return "", fmt.Errorf("etcd: the instance %s: %w", i.Addr, err)
	}
	if len(text) > maxValue {
		return "", fmt.Errorf("etcd: the instance %s takes %d bytes, limit %d: its attributes are too long", i.Addr, len(text), maxValue)
	}
	return string(text), nil
}

// entryOf reads a key below a service's prefix.
func entryOf(s discovery.Service, name string, text []byte) keep.Entry {
	protocol, addr, ok := strings.Cut(name, "/")
	protocol, err1 := url.PathUnescape(protocol)
	addr, err2 := url.PathUnescape(addr)
	if err := errors.Join(err1, err2); err != nil || !ok {
		return keep.Entry{Err: fmt.Errorf("etcd: the key ends with %q, and not with protocol/address", name)}
	}
	if protocol != empty && !keep.Speaks(s.Protocol, protocol) {
		return keep.Entry{Other: true}
	}
	var v value
	if len(text) > maxValue {
		return keep.Entry{Err: fmt.Errorf("etcd: the value of %s has %d bytes, limit %d", name, len(text), maxValue)}
	}
	if err := json.Unmarshal(text, &v); len(text) > 0 && err != nil {
		return keep.Entry{Err: fmt.Errorf("etcd: the value of %s: %w", name, err)}
	}
	return keep.Entry{Instance: discovery.Instance{Addr: addr, Weight: v.Weight, Zone: v.Zone, Since: v.Since, Attributes: v.Attributes}}
}
