package serve

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/cmd/eddy/internal/cli"
	"github.com/go-eddy/eddy/rpc"
	"github.com/go-eddy/eddy/rpc/config"
)

// Flags that a file replaces, and those that a file with ports replaces, too.
var (
	instead = []string{"isolation", "timeout", "retry-after", "overload", "overload-memory", "overload-lag", "overload-queue-age", "dump", "dump-dir"}
	ofPorts = []string{"addr", "loops", "max-conns", "dispatcher", "ordering", "threadpool", "threads", "queues", "adaptive", "alive", "in-flight", "max-payload",
		"connect-queue", "connect-warning", "idle-timeout"}
)

// configuration is what the flags say, or the file and those flags that it leaves room for.
func (f *rpcFlags) configuration(t *cli.Terminal, cmd *cobra.Command) (*config.Config, error) {
	flags, err := f.options()
	if err != nil {
		return nil, err
	}
	if f.config == "" {
		return &config.Config{Server: flags}, nil
	}
	var cfg *config.Config
	err = t.WhileRunning(cmd.Context(), func(ctx context.Context) (err error) {
		cfg, err = f.engines.LoadContext(ctx, f.config)
		return err
	})
	switch {
	case errors.Is(err, config.ErrNotLinked):
		return nil, fmt.Errorf("--config: %w; the command of cmd/eddy/full links ZooKeeper, etcd and the dubbo protocol", err)
	case err != nil:
		return nil, fmt.Errorf("--config: %w", err)
	case len(cfg.Server.Ports) == 0 && cfg.Client != nil:
		return nil, fmt.Errorf("--config %s: it has no protocols, the ports to serve on", f.config)
	}
	replaced := instead
	if len(cfg.Server.Ports) > 0 {
		replaced = slices.Concat(instead, ofPorts)
	}
	for _, name := range replaced {
		if cmd.Flags().Changed(name) {
			return nil, fmt.Errorf("--%s and --config: what it says belongs into the file", name)
		}
	}
	if len(cfg.Server.Ports) == 0 {
		cfg.Server.Ports = flags.Ports
		cfg.Warnings = append(cfg.Warnings, fmt.Sprintf("%s has no protocols: the port is that of --addr", f.config))
	}
	return cfg, nil
}

// before adds the handlers of first in front of those of then.
func before(first, then func(*eddy.Pipeline) error) func(*eddy.Pipeline) error {
	if then == nil {
		return first
	}
	return func(p *eddy.Pipeline) error {
		if err := first(p); err != nil {
			return err
		}
		return then(p)
	}
}

// registeredAt says where the services are registered.
func registeredAt(cfg *config.Config) string {
	if cfg.Registry == "" {
		return ""
	}
	s := ", registered in " + cfg.RegistryName()
	if cfg.Application != "" {
		s += " as " + cfg.Application
	}
	return s
}

// demoServer returns the server with the demo services, and a function that returns where a port listens.
func demoServer(t *cli.Terminal, f *rpcFlags, cfg *config.Config) (rpcServer, func(name string) string, error) {
	list := cfg.Services
	if len(list) == 0 {
		for _, name := range demoNames(f.config != "") {
			list = append(list, config.Service{Key: rpc.Key{Interface: name}})
		}
	}
	var services []*rpc.Service
	for _, s := range list {
		svc, err := f.demoService(t, s.Key)
		if err != nil {
			return nil, nil, fmt.Errorf("--config %s: %w", f.config, err)
		}
		services = append(services, svc)
	}
	if f.config == "" {
		cfg.Defaults = []rpc.RegisterOption{rpc.Timeout(f.timeout)}
	}
	srv, err := cfg.NewServer(services...)
	if err != nil {
		return nil, nil, err
	}
	return srv, func(name string) string { return srv.Addr(name).String() }, nil
}

// demoNames are the interfaces of the demo services, with those of Java where a file may come from Dubbo.
func demoNames(java bool) []string {
	names := []string{demoGreeter, demoSlow, demoFlaky, demoEcho}
	if java {
		names = append(names, javaDemo, javaHello)
	}
	return names
}

// demoService returns the demo service of a key's interface. Those of Java take values of the dubbo protocol, if it is linked.
func (f *rpcFlags) demoService(t *cli.Terminal, key rpc.Key) (*rpc.Service, error) {
	if impl := javaImpl(key.Interface); impl != nil {
		if at := slices.IndexFunc(f.engines.Wires, func(w rpc.Wire) bool { return w.Service != nil }); at >= 0 {
			return f.engines.Wires[at].Service(key, impl)
		}
	}
	methods, ok := demoMethods(t, key.Interface)
	if !ok {
		names := demoNames(true)
		return nil, fmt.Errorf("service %v: there is no such demo: use the interfaces %s and %s", key, strings.Join(names[:len(names)-1], ", "), names[len(names)-1])
	}
	return rpc.NewService(key, methods...)
}
