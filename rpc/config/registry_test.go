package config_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/go-eddy/eddy/internal/testkit"
	"github.com/go-eddy/eddy/rpc"
	"github.com/go-eddy/eddy/rpc/config"
	"github.com/go-eddy/eddy/rpc/discovery"
)

// memory is a registry that tells what becomes of it.
type memory struct {
	address, application string
	offered              chan string
	withdrawn            atomic.Int32
	closed               atomic.Int32
}

func (m *memory) Resolver(discovery.Service) discovery.Resolver { return nil }

func (m *memory) Register(s discovery.Service, i discovery.Instance) (discovery.Registration, error) {
	m.offered <- s.Protocol + " " + s.String() + " " + i.Zone
	return m, nil
}

func (m *memory) Withdraw(context.Context) error { m.withdrawn.Add(1); return nil }
func (m *memory) Err() error                     { return nil }
func (m *memory) Close() error                   { m.closed.Add(1); return nil }

func (m *memory) engines() config.Engines {
	return config.Engines{Registries: []discovery.Engine{{Schemes: []string{"memory"}, Open: func(address, application string) (discovery.Registry, error) {
		if m.address, m.application = address, application; strings.Contains(address, "broken") {
			return nil, errors.New("it is broken")
		}
		return m, nil
	}}}}
}

func echo(t *testing.T, key rpc.Key) *rpc.Service {
	t.Helper()
	svc, err := rpc.NewService(key, rpc.Raw("Echo", func(_ context.Context, b []byte) ([]byte, error) { return b, nil }))
	if err != nil {
		t.Fatal(err)
	}
	return svc
}

const inMemory = `dubbo:
  application: {name: shop}
  protocol: {name: tri, port: -1, host: 127.0.0.1}
  registry: {address: "memory://a:1?x=y", password: secret, zone: z1}
  provider: {timeout: 5000}
`

// TestRegistryOfTheFile: a server opens the registry that its file names, is registered in it, and closes it behind its services. A file without services takes
// all that are given.
func TestRegistryOfTheFile(t *testing.T) {
	m := &memory{offered: make(chan string, 10)}
	cfg, err := m.engines().Parse("f.yaml", []byte(inMemory))
	if err != nil {
		t.Fatal(err)
	}
	cfg.Server.Discovery.Grace = -1
	srv, err := cfg.NewServer(echo(t, rpc.Key{Interface: "a.B", Group: "g"}))
	if err != nil {
		t.Fatal(err)
	}
	if m.address != "memory://a:1?x=y&password=secret" || m.application != "shop" || cfg.RegistryName() != "memory://a:1" {
		t.Errorf("%q, %q, %q", m.address, m.application, cfg.RegistryName())
	}
	if err := srv.Listen(); err != nil {
		t.Fatal(err)
	}
	if got := testkit.Receive(t, "a registration", m.offered); got != "tri g/a.B z1" {
		t.Errorf("%q", got)
	}
	if _, err := srv.Shutdown(testkit.Context(t)); err != nil || m.withdrawn.Load() != 1 || m.closed.Load() != 1 {
		t.Errorf("%v, withdrawn %d, closed %d", err, m.withdrawn.Load(), m.closed.Load())
	}
}

// TestRegistryThatDoesNotOpen: the error has the registry's reason, and what was opened is closed where the server cannot be made.
func TestRegistryThatDoesNotOpen(t *testing.T) {
	m := &memory{}
	cfg, err := m.engines().Parse("f.yaml", []byte(strings.ReplaceAll(inMemory, "a:1", "broken")))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cfg.NewServer(); err == nil || !strings.Contains(err.Error(), "config: f.yaml: the registry: it is broken") {
		t.Error(err)
	}
	cfg, err = m.engines().Parse("f.yaml", []byte(inMemory))
	if err != nil {
		t.Fatal(err)
	}
	cfg.Server.Ports[0].Loops = -1
	if _, err := cfg.NewServer(); err == nil || m.closed.Load() != 1 {
		t.Errorf("%v, closed %d", err, m.closed.Load())
	}
	own := &memory{}
	cfg.Server.Ports[0].Loops, cfg.Server.Discovery.Registry = 0, own
	srv, err := cfg.NewServer()
	if err != nil {
		t.Fatal(err)
	}
	if err := srv.Close(); err != nil || own.closed.Load() != 0 || m.closed.Load() != 1 {
		t.Errorf("a registry of the program's own: %v, closed %d", err, own.closed.Load())
	}
}
