package zookeeper

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-eddy/eddy/rpc/discovery"
	"github.com/go-eddy/eddy/rpc/discovery/internal/keep"
)

const (
	maxURL    = 64 << 10 // of a provider's URL, which is the name of a node
	maxParams = 1024     // of a URL

	firstMillis = 100_000_000_000 // Timestamps below it are seconds, which dubbo-go writes; milliseconds were here in 1973.

	anyZero = "0.0.0" // Dubbo's word for no version
)

// provider is what the URL of a provider says.
type provider struct {
	instance       discovery.Instance
	protocols      []string
	group, version string
	disabled       bool
	idle           bool // its weight is 0
}

// serves reports whether the provider is one of the service.
func (p provider) serves(s discovery.Service) bool {
	return !p.disabled && p.group == s.Group && versionOf(p.version) == versionOf(s.Version) &&
		slices.ContainsFunc(p.protocols, func(o string) bool { return keep.Speaks(s.Protocol, o) })
}

func versionOf(v string) string {
	if v == anyZero {
		return ""
	}
	return v
}

// parseProvider reads the name of a node, which is a URL with every special character escaped. The error says what does not parse.
func parseProvider(name string) (provider, error) {
	if len(name) > maxURL {
		return provider{}, fmt.Errorf("zookeeper: a URL of %d bytes, limit %d", len(name), maxURL)
	}
	text, err := url.QueryUnescape(name)
	if err != nil {
		return provider{}, fmt.Errorf("zookeeper: %q: %w", short(name), err)
	}
	protocol, rest, ok := strings.Cut(text, "://")
	if !ok || protocol == "" {
		return provider{}, fmt.Errorf("zookeeper: %q has no protocol", short(text))
	}
	rest, query, _ := strings.Cut(rest, "?")
	authority, _, _ := strings.Cut(rest, "/")
	authority = authority[strings.LastIndexByte(authority, '@')+1:]
	colon := strings.LastIndexByte(authority, ':') // addresses of version 6 may stand without brackets
	if colon < 0 {
		return provider{}, fmt.Errorf("zookeeper: %q has no port", short(text))
	}
	params, err := parseParams(query)
	if err != nil {
		return provider{}, fmt.Errorf("zookeeper: %q: %w", short(text), err)
	}
	p := provider{protocols: []string{protocol}, group: params["group"], version: params["version"]}
	for _, ext := range strings.Split(params["ext.protocol"], ",") {
		if ext != "" {
			p.protocols = append(p.protocols, ext)
		}
	}
	p.disabled = params["enabled"] == "false" || params["disabled"] == "true"
	p.instance.Addr = net.JoinHostPort(strings.Trim(authority[:colon], "[]"), authority[colon+1:])
	if err := p.read(params); err != nil {
		return provider{}, fmt.Errorf("zookeeper: %q: %w", short(text), err)
	}
	return p, p.instance.Check()
}

// read takes the instance's fields from params; the others are its attributes.
func (p *provider) read(params map[string]string) error {
	if text, ok := params["weight"]; ok {
		n, err := strconv.Atoi(text)
		if err != nil {
			return fmt.Errorf("weight is %q: it must be a number", short(text))
		}
		p.idle = n <= 0
		p.instance.Weight = min(max(n, 0), discovery.MaxWeight)
	}
	if text, ok := params["timestamp"]; ok {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n > math.MaxInt64/int64(time.Millisecond) {
			return fmt.Errorf("timestamp is %q: it must be a number of milliseconds", short(text))
		}
		switch {
		case n >= firstMillis:
			p.instance.Since = time.UnixMilli(n)
		case n > 0:
			p.instance.Since = time.Unix(n, 0)
		}
	}
	p.instance.Zone = params["zone"]
	for _, known := range []string{"weight", "timestamp", "zone", "group", "version"} {
		delete(params, known)
	}
	p.instance.Attributes = params
	return nil
}

func parseParams(query string) (map[string]string, error) {
	params := make(map[string]string)
	for query != "" {
		var pair string
		pair, query, _ = strings.Cut(query, "&")
		if key, value, _ := strings.Cut(pair, "="); key != "" {
			params[key] = value
		}
		if len(params) > maxParams {
			return nil, fmt.Errorf("more than %d parameters", maxParams)
		}
	}
	return params, nil
}

// urlOf is the URL of a provider as Dubbo writes it. Times are those of the instance, or of the registry: a name must not change while it is
// registered.
func (r *Registry) urlOf(s discovery.Service, i discovery.Instance) (string, error) {
	if err := checkInterface(s.Interface); err != nil {
		return "", err
	}
	if err := i.Check(); err != nil {
		return "", err
	}
	host, port, _ := net.SplitHostPort(i.Addr)
	if host == "" {
		return "", fmt.Errorf("zookeeper: address %q has no host: others cannot connect to it", i.Addr)
	}
	params := r.params(s, i)
	var b strings.Builder
	fmt.Fprintf(&b, "%s://%s/%s", protocolOf(s), net.JoinHostPort(host, port), s.Interface)
	mark := byte('?')
	for _, key := range slices.Sorted(maps.Keys(params)) {
		value := params[key]
		if value == "" {
			continue
		}
		if key == "" || strings.ContainsAny(key, "&=?#/") || strings.ContainsAny(value, "&?#") {
			return "", fmt.Errorf("zookeeper: attribute %q=%q has characters that separate the parts of a URL", key, value)
		}
		b.WriteByte(mark)
		b.WriteString(key + "=" + value)
		mark = '&'
	}
	if b.Len() > maxURL/4 {
		return "", fmt.Errorf("zookeeper: a URL of %d bytes, limit %d: the attributes are too long", b.Len(), maxURL/4)
	}
	return b.String(), nil
}

// protocolOf is what a provider of the service speaks.
func protocolOf(s discovery.Service) string { return cmp.Or(s.Protocol, "tri") }

// params are the parameters of a provider. They may be empty.
func (r *Registry) params(s discovery.Service, i discovery.Instance) map[string]string {
	since := i.Since
	if since.IsZero() {
		since = r.started
	}
	params := map[string]string{
		"anyhost": "true", "application": r.o.Application, "deprecated": "false", "dubbo": "2.0.2", "dynamic": "true",
		"generic": "false", "pid": strconv.Itoa(os.Getpid()), "side": "provider",
	}
	maps.Copy(params, i.Attributes)
	maps.Copy(params, map[string]string{
		"interface": s.Interface, "group": s.Group, "version": s.Version, "zone": i.Zone,
		"weight": strconv.Itoa(cmp.Or(i.Weight, discovery.DefaultWeight)), "timestamp": strconv.FormatInt(since.UnixMilli(), 10),
	})
	return params
}

// checkInterface returns what is wrong with the name of a service.
func checkInterface(name string) error {
	switch {
	case name == "":
		return errors.New("zookeeper: Service.Interface is empty")
	case name == "." || name == ".." || strings.ContainsAny(name, "/?&#\x00"):
		return fmt.Errorf("zookeeper: Service.Interface is %q: it must be a name without / ? & #", name)
	}
	return nil
}

// short cuts a text of others for errors.
func short(text string) string {
	if len(text) > 200 {
		return text[:200] + "…"
	}
	return text
}
