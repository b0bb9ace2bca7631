// Package etcd finds and registers services in etcd. docs/discovery.md has the layout of the keys, which other programs may read and write.
//
//	registry, err := etcd.New(etcd.Options{Endpoints: []string{"https://etcd1:2379", "https://etcd2:2379"}})
//	defer registry.Close()
package etcd

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/go-eddy/eddy/rpc/discovery"
	"github.com/go-eddy/eddy/rpc/discovery/internal/keep"
)

const (
	// DefaultRoot is Options.Root if the options do not say.
	DefaultRoot = "eddy"
	// DefaultTTL is Options.TTL if the options do not say.
	DefaultTTL = 15 * time.Second
	// MaxEndpoints bounds Options.Endpoints.
	MaxEndpoints = 64

	minTTL = 2 * time.Second // etcd grants no shorter lease by default
	maxTTL = time.Hour

	requestTimeout = 5 * time.Second // of one request
	refresh        = 30 * time.Second
	maxAnswer      = 64 << 20 // of one answer in bytes
)

// Options say where etcd is. Endpoints is required.
type Options struct {
	Endpoints []string // host:port, or URLs with http or https

	Root string // the first part of all keys; "" = DefaultRoot
	// TTL is how long etcd keeps this program's registrations after it has lost it. 0 = DefaultTTL; less than two seconds and more
	// than an hour are refused.
	TTL time.Duration

	Username, Password string
	TLS                *tls.Config  // nil = none, or the system's for https
	Logger             *slog.Logger // nil = slog.Default()
}

// check returns the options with what they leave out. The error names the option and its value.
func (o Options) check() (Options, error) {
	switch {
	case len(o.Endpoints) == 0:
		return o, errors.New("etcd: Options.Endpoints is empty")
	case len(o.Endpoints) > MaxEndpoints:
		return o, fmt.Errorf("etcd: Options.Endpoints has %d, limit %d", len(o.Endpoints), MaxEndpoints)
	case o.TTL != 0 && (o.TTL < minTTL || o.TTL > maxTTL):
		return o, fmt.Errorf("etcd: Options.TTL is %v: it must be from %v to %v", o.TTL, minTTL, maxTTL)
	case strings.Contains(o.Root, "/"):
		return o, fmt.Errorf("etcd: Options.Root is %q: it must be one name", o.Root)
	case o.Username == "" && o.Password != "":
		return o, errors.New("etcd: Options.Password without Username")
	}
	for _, e := range o.Endpoints {
		scheme, addr, ok := strings.Cut(e, "://")
		if !ok {
			addr = e
		} else if scheme != "http" && scheme != "https" {
			return o, fmt.Errorf("etcd: Options.Endpoints: %q must begin with http:// or https://", e)
		}
		if err := (discovery.Instance{Addr: addr}).Check(); err != nil {
			return o, fmt.Errorf("etcd: Options.Endpoints: %w", err)
		}
	}
	o.Root = cmp.Or(o.Root, DefaultRoot)
	o.TTL = cmp.Or(o.TTL, DefaultTTL)
	o.Logger = cmp.Or(o.Logger, slog.Default())
	return o, nil
}

// Engine opens registries and centers by addresses such as etcd://user:password@etcd1:2379?backup=etcd2:2379&group=eddy. Their group is Options.Root. With
// tls=true they are spoken to by https.
func Engine() discovery.Engine {
	return discovery.Engine{
		Schemes: []string{"etcd", "etcd3", "etcdv3"},
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
			return NewCenter(o)
		},
	}
}

func optionsOf(address string) (Options, error) {
	a, err := discovery.ParseAddress(address)
	if err != nil {
		return Options{}, fmt.Errorf("etcd: %w", err)
	}
	return Options{Endpoints: a.Endpoints(), Root: a.Values.Get("group"), Username: a.Username, Password: a.Password}, nil
}

// Registry is a discovery.Registry in etcd. Make one with New. Any goroutine may call its methods.
type Registry struct {
	o       Options
	keep    *keep.Keeper
	refresh time.Duration // after which keys are read although no change was told

	mu     sync.Mutex
	client *clientv3.Client // nil before the first Watch or Register
	lease  *lease           // nil before the first registration

	granting sync.Mutex // one asks for a lease, the others wait
}

var _ discovery.Registry = (*Registry)(nil)

// New returns a registry, which connects when it is first used. The error names the option that makes no sense.
func New(o Options) (*Registry, error) {
	o, err := o.check()
	if err != nil {
		return nil, err
	}
	return &Registry{o: o, keep: keep.New("etcd", o.Logger), refresh: refresh}, nil
}

// connected returns the client, which it makes at its first call. Only registrations and watches of the keeper call it.
func (r *Registry) connected() (*clientv3.Client, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.client != nil {
		return r.client, nil
	}
	c, err := clientv3.New(clientv3.Config{
		Endpoints: r.o.Endpoints, TLS: r.o.TLS, Username: r.o.Username, Password: r.o.Password, Logger: zap.NewNop(),
		DialTimeout: requestTimeout, DialKeepAliveTime: 10 * time.Second, DialKeepAliveTimeout: requestTimeout, MaxCallRecvMsgSize: maxAnswer,
	})
	if err != nil {
		return nil, fmt.Errorf("etcd: %w", err)
	}
	r.client = c
	return c, nil
}

// Resolver implements discovery.Registry.
func (r *Registry) Resolver(s discovery.Service) discovery.Resolver { return &resolver{r, s} }

// Register implements discovery.Registry. The instance is a key with the registry's lease, which etcd ends when this program is gone.
func (r *Registry) Register(s discovery.Service, i discovery.Instance) (discovery.Registration, error) {
	if err := checkService(s); err != nil {
		return nil, err
	}
	if err := i.Check(); err != nil {
		return nil, err
	}
	value, err := valueOf(i)
	if err != nil {
		return nil, err
	}
	k := &key{r: r, key: r.prefix(s) + escape(s.Protocol) + "/" + url.PathEscape(i.Addr), value: value}
	return r.keep.Hold(keep.Holding{Name: k.key, Keep: k.keep, Remove: k.remove})
}

// Close implements discovery.Registry. It takes a few seconds at most.
func (r *Registry) Close() error {
	r.keep.Close()
	r.mu.Lock()
	client, lease := r.client, r.lease
	r.client, r.lease = nil, nil
	r.mu.Unlock()
	if client == nil {
		return nil
	}
	if lease != nil && !lease.over() {
		ctx, cancel := context.WithTimeout(context.Background(), requestTimeout/2)
		defer cancel()
		_, _ = client.Revoke(ctx, lease.id) // Otherwise it ends by itself.
	}
	if err := client.Close(); err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("etcd: %w", err)
	}
	return nil
}

// request bounds the time of one request.
func request(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, requestTimeout)
}
