// Package zookeeper finds and registers services in ZooKeeper, where Dubbo keeps its own: providers of Dubbo and servers of Eddy are found by each
// other's clients. docs/discovery.md has the layout.
//
//	registry, err := zookeeper.New(zookeeper.Options{Servers: []string{"zk1:2181", "zk2:2181", "zk3:2181"}})
//	defer registry.Close()
package zookeeper

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-eddy/eddy/rpc/discovery"
	"github.com/go-eddy/eddy/rpc/discovery/internal/keep"
)

const (
	name = "zookeeper" // of the registry and its addresses

	// DefaultRoot is Options.Root if the options do not say.
	DefaultRoot = "dubbo"
	// DefaultPort is that of servers without one.
	DefaultPort = "2181"
	// DefaultSession is Options.Session if the options do not say.
	DefaultSession = 30 * time.Second
	// MaxServers bounds Options.Servers.
	MaxServers = 64

	minSession = time.Second
	maxSession = time.Hour
)

// Options say where ZooKeeper is. Servers is required.
type Options struct {
	Servers []string // host and port, or host, of each; they are tried in turn

	Root        string // the node above all, without slashes; "" = DefaultRoot. Dubbo calls it the group of the registry.
	Application string // names this program to those who look into the registry; "" = eddy

	Register Mode     // where instances are registered
	Metadata []string // servers that have the metadata of applications, if they are others than Servers

	// Session is how long the servers keep this program's registrations after they have lost it. They may choose another
	// time. 0 = DefaultSession; less than a second and more than an hour are refused.
	Session time.Duration

	// Username and Password, if they are set, are those of the digest scheme. Nodes that the registry makes are then for the same user only, as Dubbo's are.
	Username, Password string

	TLS    *tls.Config  // nil = none
	Logger *slog.Logger // nil = slog.Default()
}

// Parse returns the options that an address of a registry says, in Dubbo's form or as a list of servers:
//
//	zookeeper://user:password@zk1:2181?backup=zk2:2181,zk3:2181&group=dubbo&session=30000
//	zookeeper://zk1:2181?register-mode=all&metadata=zk9:2181
//	zk1:2181,zk2:2181
//
// Here register-mode is interface, instance or all, and registry-type=service is all. Other keys than these are left to their readers. The error names the part that
// does not parse.
func Parse(address string) (Options, error) {
	a, err := discovery.ParseAddress(address)
	switch {
	case err != nil:
		return Options{}, fmt.Errorf("zookeeper: address %q: %w", a, err)
	case a.Scheme != "" && a.Scheme != name:
		return Options{}, fmt.Errorf("zookeeper: address %q: it must begin with zookeeper://", a)
	}
	o := Options{Servers: a.Hosts, Root: strings.Trim(a.Values.Get("group"), "/"), Username: a.Username, Password: a.Password}
	if ms := a.Values.Get("session"); ms != "" {
		if o.Session, err = time.ParseDuration(ms + "ms"); err != nil {
			return Options{}, fmt.Errorf("zookeeper: address %q: session is %q: it must be a number of milliseconds", a, ms)
		}
	}
	if metadata := a.Values.Get("metadata"); metadata != "" {
		o.Metadata = strings.Split(metadata, ",")
	}
	if o.Register, err = modeOf(a.Values); err != nil {
		return Options{}, fmt.Errorf("zookeeper: address %q: %w", a, err)
	}
	_, err = o.check()
	return o, err
}

// Engine opens registries and centers by the addresses that Parse takes.
func Engine() discovery.Engine {
	return discovery.Engine{
		Schemes: []string{name},
		Modes:   true,
		Open: func(address, application string) (discovery.Registry, error) {
			o, err := Parse(address)
			if err != nil {
				return nil, err
			}
			o.Application = application
			return New(o)
		},
		OpenCenter: func(address string) (discovery.Center, error) {
			o, err := Parse(address)
			if err != nil {
				return nil, err
			}
			return NewCenter(o)
		},
	}
}

// check returns the options with what they leave out. The error names the option and its value.
func (o Options) check() (Options, error) {
	switch {
	case len(o.Servers) == 0:
		return o, errors.New("zookeeper: Options.Servers is empty")
	case len(o.Servers) > MaxServers:
		return o, fmt.Errorf("zookeeper: Options.Servers has %d, limit %d", len(o.Servers), MaxServers)
	case len(o.Metadata) > MaxServers:
		return o, fmt.Errorf("zookeeper: Options.Metadata has %d, limit %d", len(o.Metadata), MaxServers)
	case o.Session != 0 && (o.Session < minSession || o.Session > maxSession):
		return o, fmt.Errorf("zookeeper: Options.Session is %v: it must be from %v to %v", o.Session, minSession, maxSession)
	case strings.ContainsAny(o.Root, "/\x00"):
		return o, fmt.Errorf("zookeeper: Options.Root is %q: it must be one name", o.Root)
	case strings.ContainsAny(o.Application, "&?/#,\x00") || o.Application == "." || o.Application == "..":
		return o, fmt.Errorf("zookeeper: Options.Application is %q: it must be a name without & ? / # ,", o.Application)
	case o.Register > ByBoth:
		return o, fmt.Errorf("zookeeper: Options.Register is %d: it must be ByInterface, ByApplication or ByBoth", o.Register)
	case o.Username == "" && o.Password != "":
		return o, errors.New("zookeeper: Options.Password without Username")
	}
	var err error
	if o.Servers, err = withPorts(o.Servers); err != nil {
		return o, fmt.Errorf("zookeeper: Options.Servers: %w", err)
	}
	if o.Metadata, err = withPorts(o.Metadata); err != nil {
		return o, fmt.Errorf("zookeeper: Options.Metadata: %w", err)
	}
	o.Root = cmp.Or(o.Root, DefaultRoot)
	o.Application = cmp.Or(o.Application, "eddy")
	o.Session = cmp.Or(o.Session, DefaultSession)
	o.Logger = cmp.Or(o.Logger, slog.Default())
	return o, nil
}

// withPorts returns servers each of which has a port.
func withPorts(servers []string) ([]string, error) {
	servers = slices.Clone(servers)
	for i, s := range servers {
		if _, _, err := net.SplitHostPort(s); err != nil {
			s = net.JoinHostPort(strings.Trim(s, "[]"), DefaultPort)
		}
		if err := (discovery.Instance{Addr: s}).Check(); err != nil {
			return nil, err
		}
		servers[i] = s
	}
	return servers, nil
}

// Registry is a discovery.Registry in ZooKeeper. Make one with New. Any goroutine may call its methods.
type Registry struct {
	o       Options
	keep    *keep.Keeper
	started time.Time
	to      link
	report  *link // where the metadata of applications is

	mu     sync.Mutex
	places map[string]*place // by address
}

var _ discovery.Registry = (*Registry)(nil)

// New returns a registry, which connects when it is first used. The error names the option that makes no sense.
func New(o Options) (*Registry, error) {
	if o.Register != ByInterface && o.Application == "" {
		return nil, errors.New("zookeeper: Options.Application is empty, by which instances are to be registered")
	}
	o, err := o.check()
	if err != nil {
		return nil, err
	}
	r := &Registry{o: o, keep: keep.New(name, o.Logger), started: time.Now(), places: make(map[string]*place)}
	r.to = link{o: o, keep: r.keep}
	if r.report = &r.to; len(o.Metadata) > 0 {
		o.Servers = o.Metadata
		r.report = &link{o: o, keep: r.keep}
	}
	return r, nil
}

// connected returns the session of registrations.
func (r *Registry) connected() *session { return r.to.connected() }

// found is what ends the pauses of registrations.
func (r *Registry) found() <-chan struct{} { return r.connected().found() }

// Resolver implements discovery.Registry.
func (r *Registry) Resolver(s discovery.Service) discovery.Resolver { return &resolver{r, s} }

// Register implements discovery.Registry. The instance is an ephemeral node, which ZooKeeper removes when this program is gone. Attributes become
// parameters of its URL, as does what Dubbo's consumers look for.
func (r *Registry) Register(s discovery.Service, i discovery.Instance) (discovery.Registration, error) {
	u, err := r.urlOf(s, i)
	if err != nil {
		return nil, err
	}
	called := s.String() + " " + s.Protocol + " " + i.Addr
	n := &node{r: r, parent: r.providers(s.Interface), name: url.QueryEscape(u), contest: new(contest)}
	byInterface := keep.Holding{Name: called, Keep: n.keep, Remove: n.remove, Wake: r.found}
	if r.o.Register == ByInterface {
		return r.keep.Hold(byInterface)
	}
	m := r.member(s, i)
	byApplication := keep.Holding{Name: called + " of " + r.o.Application, Keep: m.keep, Remove: m.remove, Wake: r.found}
	if r.o.Register == ByApplication {
		return r.keep.Hold(byApplication)
	}
	return holdBoth(r.keep, byInterface, byApplication)
}

// Close implements discovery.Registry. It ends the session, with which ZooKeeper removes what is still registered. It takes a few seconds at most.
func (r *Registry) Close() error {
	r.keep.Close()
	r.to.close()
	r.report.close()
	return nil
}

// providers is the node whose children are the providers of an interface.
func (r *Registry) providers(name string) string {
	return "/" + r.o.Root + "/" + url.QueryEscape(name) + "/providers"
}

// resolver is the discovery.Resolver of one service.
type resolver struct {
	r *Registry
	s discovery.Service
}

// Watch implements discovery.Resolver.
func (v *resolver) Watch(ctx context.Context, tell func([]discovery.Instance)) error {
	if err := checkInterface(v.s.Interface); err != nil {
		return err
	}
	return v.r.keep.Watch(ctx, func(ctx context.Context) error {
		t := keep.Teller{Service: v.s, Log: v.r.keep.Log(), To: tell}
		for {
			session := v.r.connected()
			names, changed, err := session.children(ctx, v.r.providers(v.s.Interface))
			if err != nil {
				return err
			}
			if err := t.Tell(v.entries(names)); err != nil {
				return err
			}
			if err := keep.Pause(ctx, keep.Settle); err != nil {
				return err
			}
			if err := await(ctx, changed, session.over); err != nil {
				return err
			}
		}
	})
}

// entries reads the names of providers. Those whose weight is 0 get calls only if there are no others: dubbo-go writes that where no weight was set.
func (v *resolver) entries(names []string) []keep.Entry {
	entries := make([]keep.Entry, len(names))
	var idle []int
	busy := false
	for i, name := range names {
		p, err := parseProvider(name)
		entries[i] = keep.Entry{Instance: p.instance, Other: err == nil && !p.serves(v.s), Err: err}
		switch {
		case err != nil || entries[i].Other:
		case p.idle:
			idle = append(idle, i)
		default:
			busy = true
		}
	}
	for _, i := range idle {
		entries[i].Other = busy
	}
	return entries
}
