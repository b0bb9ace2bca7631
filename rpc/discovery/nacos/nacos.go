// Package nacos finds and registers services in Nacos by its open API over HTTP, version 1, which Nacos 1 and 2 serve. Names and metadata are those of
// Dubbo's registry in Nacos. docs/discovery.md has the layout.
//
//	registry, err := nacos.New(nacos.Options{Servers: []string{"http://nacos1:8848", "http://nacos2:8848"}})
//	defer registry.Close()
package nacos

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-eddy/eddy/rpc/discovery"
	"github.com/go-eddy/eddy/rpc/discovery/internal/keep"
)

const (
	// DefaultPath is Options.Path if the options do not say.
	DefaultPath = "/nacos"
	// DefaultGroup is Options.Group if the options do not say.
	DefaultGroup = "DEFAULT_GROUP"
	// DefaultPoll is Options.Poll if the options do not say.
	DefaultPoll = 5 * time.Second
	// MaxServers bounds Options.Servers.
	MaxServers = 64

	beatEvery      = 5 * time.Second // Nacos takes an instance for ill after fifteen seconds without
	requestTimeout = 5 * time.Second
	maxAnswer      = 16 << 20 // bytes
)

// Options say where Nacos is. Servers is required.
type Options struct {
	Servers []string // host:port, or URLs with http or https; they are tried in turn
	Path    string   // in front of all paths; "" = DefaultPath

	Namespace string // its id; "" = Nacos's public one
	Group     string // Nacos's group, which is not that of a service; "" = DefaultGroup

	Username, Password string

	Poll   time.Duration     // between two readings of a service, a fifth more or less; 0 = DefaultPoll, less is refused
	Client http.RoundTripper // nil = one of its own; set it for certificates
	Logger *slog.Logger      // nil = slog.Default()
}

// check returns the options with what they leave out. The error names the option and its value.
func (o Options) check() (Options, error) {
	switch {
	case len(o.Servers) == 0:
		return o, errors.New("nacos: Options.Servers is empty")
	case len(o.Servers) > MaxServers:
		return o, fmt.Errorf("nacos: Options.Servers has %d, limit %d", len(o.Servers), MaxServers)
	case o.Poll < 0:
		return o, fmt.Errorf("nacos: Options.Poll is %v: it must not be negative", o.Poll)
	case o.Username == "" && o.Password != "":
		return o, errors.New("nacos: Options.Password without Username")
	}
	o.Servers = slices.Clone(o.Servers)
	for i, s := range o.Servers {
		if !strings.Contains(s, "://") {
			s = "http://" + s
		}
		u, err := url.Parse(s)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || strings.Trim(u.Path, "/") != "" {
			return o, fmt.Errorf("nacos: Options.Servers: %q: it must be host:port, or a URL with http or https without a path", o.Servers[i])
		}
		o.Servers[i] = u.Scheme + "://" + u.Host
	}
	o.Path = "/" + strings.Trim(cmp.Or(o.Path, DefaultPath), "/")
	o.Group = cmp.Or(o.Group, DefaultGroup)
	o.Poll = cmp.Or(o.Poll, DefaultPoll)
	o.Logger = cmp.Or(o.Logger, slog.Default())
	return o, nil
}

// Engine opens registries and centers by addresses such as nacos://user:password@nacos1:8848?backup=nacos2:8848&namespace=ID&group=NAME. With tls=true they
// are spoken to by https. The namespace of a center is its key namespace, or else its key group.
func Engine() discovery.Engine {
	return discovery.Engine{
		Schemes: []string{"nacos"},
		Open: func(address, _ string) (discovery.Registry, error) {
			o, err := optionsOf(address)
			if err != nil {
				return nil, err
			}
			return New(o)
		},
		OpenCenter: func(address string) (discovery.Center, error) {
			o, err := optionsOf(address)
			if err != nil {
				return nil, err
			}
			o.Namespace, o.Group = cmp.Or(o.Namespace, o.Group), ""
			return NewCenter(o)
		},
	}
}

func optionsOf(address string) (Options, error) {
	a, err := discovery.ParseAddress(address)
	if err != nil {
		return Options{}, fmt.Errorf("nacos: %w", err)
	}
	return Options{Servers: a.Endpoints(), Namespace: a.Values.Get("namespace"), Group: a.Values.Get("group"), Username: a.Username, Password: a.Password}, nil
}

// Registry is a discovery.Registry in Nacos. Make one with New. Any goroutine may call its methods.
type Registry struct {
	o     Options
	keep  *keep.Keeper
	http  *http.Client
	idle  func()        // closes the connections that nobody uses
	beats time.Duration // between two

	mu    sync.Mutex
	at    int    // the server that answered last
	token string // of the last login
}

var _ discovery.Registry = (*Registry)(nil)

// New returns a registry, which connects when it is first used. The error names the option that makes no sense.
func New(o Options) (*Registry, error) {
	o, err := o.check()
	if err != nil {
		return nil, err
	}
	r := &Registry{o: o, keep: keep.New("nacos", o.Logger), beats: beatEvery, idle: func() {}, at: rand.IntN(len(o.Servers))}
	transport := o.Client
	if transport == nil {
		own := &http.Transport{Proxy: http.ProxyFromEnvironment, MaxIdleConnsPerHost: 4, IdleConnTimeout: time.Minute}
		r.idle = own.CloseIdleConnections
		transport = own
	}
	r.http = &http.Client{Transport: transport, Timeout: requestTimeout}
	return r, nil
}

// Close implements discovery.Registry. It takes a few seconds at most.
func (r *Registry) Close() error {
	r.keep.Close()
	r.idle()
	return nil
}

// Resolver implements discovery.Registry. It reads the service every Options.Poll.
func (r *Registry) Resolver(s discovery.Service) discovery.Resolver { return &resolver{r, s} }

// resolver is the discovery.Resolver of one service.
type resolver struct {
	r *Registry
	s discovery.Service
}

// Watch implements discovery.Resolver.
func (v *resolver) Watch(ctx context.Context, tell func([]discovery.Instance)) error {
	if err := checkService(v.s); err != nil {
		return err
	}
	return v.r.keep.Watch(ctx, func(ctx context.Context) error {
		t := keep.Teller{Service: v.s, Log: v.r.keep.Log(), To: tell}
		for {
			entries, err := v.read(ctx)
			if err != nil {
				return err
			}
			if err := t.Tell(entries); err != nil {
				return err
			}
			if err := keep.Pause(ctx, v.r.o.Poll-v.r.o.Poll/5+time.Duration(rand.Int64N(int64(v.r.o.Poll/5*2)+1))); err != nil {
				return err
			}
		}
	})
}

// read returns the instances of the service.
func (v *resolver) read(ctx context.Context) ([]keep.Entry, error) {
	var answer struct {
		Hosts *[]host `json:"hosts"`
	}
	if err := v.r.call(ctx, http.MethodGet, "/v1/ns/instance/list", v.r.form(v.s), &answer); err != nil {
		return nil, err
	}
	if answer.Hosts == nil {
		return nil, fmt.Errorf("nacos: the answer about %v has no hosts", v.s)
	}
	entries := make([]keep.Entry, len(*answer.Hosts))
	for i, h := range *answer.Hosts {
		entries[i] = h.entry(v.s)
	}
	return entries, nil
}

// Register implements discovery.Registry. The instance is ephemeral: Nacos removes it when it has not heard of it for half a minute.
func (r *Registry) Register(s discovery.Service, i discovery.Instance) (discovery.Registration, error) {
	if err := checkService(s); err != nil {
		return nil, err
	}
	if err := i.Check(); err != nil {
		return nil, err
	}
	ip, port, _ := net.SplitHostPort(i.Addr)
	if ip == "" {
		return nil, fmt.Errorf("nacos: address %q has no host: others cannot connect to it", i.Addr)
	}
	e := &entry{r: r, form: r.form(s), host: hostOf(s, i, ip, port)}
	e.form.Set("ip", ip)
	e.form.Set("port", port)
	e.form.Set("ephemeral", "true")
	e.form.Set("clusterName", cluster(s.Protocol))
	return r.keep.Hold(keep.Holding{Name: serviceName(s) + " " + s.Protocol + " " + i.Addr, Keep: e.keep, Remove: e.remove})
}

// form has what every request about a service has.
func (r *Registry) form(s discovery.Service) url.Values {
	form := url.Values{"serviceName": {serviceName(s)}, "groupName": {r.o.Group}}
	if r.o.Namespace != "" {
		form.Set("namespaceId", r.o.Namespace)
	}
	return form
}
