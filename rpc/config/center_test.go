package config

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-eddy/eddy/rpc/discovery"
)

// shelf is a center that has texts by group and key, or is down.
type shelf struct {
	address string
	texts   map[string]string
	down    bool
	closed  int
}

func (s *shelf) Text(ctx context.Context, group, key string) (string, error) {
	if s.down {
		<-ctx.Done()
		return "", errors.New("nobody answers")
	}
	return s.texts[group+"/"+key], nil
}

func (s *shelf) Close() error {
	s.closed++
	return nil
}

func (s *shelf) engines() Engines {
	e := linked()
	e.Registries = append(e.Registries, discovery.Engine{Schemes: []string{"plain"}}, discovery.Engine{Schemes: []string{"shelf"}, OpenCenter: func(address string) (discovery.Center, error) {
		if s.address = address; strings.Contains(address, "broken") {
			return nil, errors.New("it is broken")
		}
		return s, nil
	}})
	return e
}

// load reads a file with the center.
func (s *shelf) load(t *testing.T, name, file string) (*Config, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := s.engines().Load(path)
	if err != nil {
		return cfg, errors.New(strings.ReplaceAll(err.Error(), filepath.Dir(path)+"/", ""))
	}
	return cfg, nil
}

const centered = `dubbo:
  application: {name: shop}
  config-center: {address: "shelf://a:1", namespace: mine, username: u, password: secret}
  protocols:
    tri: {name: tri, port: 50052, threads: 20}
  services:
    clock: {interface: org.example.Clock, timeout: 1000}
`

// TestCenterStandsAbove: what the center has for this application stands above what it has for all, and that above the file, whatever the file is written in.
func TestCenterStandsAbove(t *testing.T) {
	s := &shelf{texts: map[string]string{
		"dubbo/dubbo.properties": "# all\ndubbo.protocols.tri.threads=30\ndubbo.protocol.queues=7\ndubbo.application.dumpEnable=false\ndubbo.services.clock.timeout=2000\n",
		"shop/dubbo.properties":  "dubbo.protocols.tri.threads=40\ndubbo.services.more.interface=org.example.More\n",
	}}
	for name, file := range map[string]string{
		"f.yaml": centered,
		"f.properties": `dubbo.application.name=shop
dubbo.config-center.address=shelf://a:1?group=mine&username=u&password=secret
dubbo.protocols.tri.name=tri
dubbo.protocols.tri.port=50052
dubbo.protocols.tri.threads=20
dubbo.services.clock.interface=org.example.Clock
dubbo.services.clock.timeout=1000
`,
		"f.xml": `<beans>
<dubbo:application name="shop"/>
<dubbo:config-center address="shelf://a:1" namespace="mine" username="u" password="secret"/>
<dubbo:protocol name="tri" port="50052" threads="20"/>
<dubbo:service id="clock" interface="org.example.Clock" timeout="1000"/>
</beans>`,
	} {
		cfg, err := s.load(t, name, file)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		p := cfg.Server.Ports
		if len(p) != 1 || p[0].Pool.Threads != 40 || p[0].Pool.Queue != 7 || p[0].Addr != ":50052" || !cfg.Server.Dumper.Disabled {
			t.Errorf("%s: %+v", name, p)
		}
		if len(cfg.Services) != 2 || len(cfg.Warnings) > 0 {
			t.Errorf("%s: %+v, %q", name, cfg.Services, cfg.Warnings)
		}
		if a, err := discovery.ParseAddress(s.address); err != nil || a.Values.Get("group") != "mine" || a.Username != "u" || a.Password != "secret" {
			t.Errorf("%s: %s", name, s.address)
		}
	}
	if s.closed != 3 {
		t.Errorf("closed %d times", s.closed)
	}
	s.texts["shop/dubbo.properties"] += "dubbo.protocols.tri.queues=9\n"
	cfg, err := s.load(t, "below.yaml", strings.Replace(centered, "namespace: mine", "highest-priority: false", 1))
	if err != nil {
		t.Fatal(err)
	}
	if p := cfg.Server.Ports[0].Pool; p.Threads != 20 || p.Queue != 9 {
		t.Errorf("below the file: %+v", p)
	}
	two := strings.Replace(centered, "  services:", "    frame: {name: frame, port: 7001}\n  services:", 1)
	if cfg, err = s.load(t, "two.yaml", two); err != nil {
		t.Fatal(err)
	}
	if p := cfg.Server.Ports; len(p) != 3 || p[0].Pool.Queue != 9 || p[1].Pool.Queue != 0 || p[2].Name != "dubbo" || p[2].Pool.Queue != 7 {
		t.Errorf("a protocol without a name beside two: %+v", p)
	}
	s.texts = map[string]string{"all/a.properties": "dubbo.protocols.tri.threads=50", "shop/b.properties": "dubbo.protocols.tri.queues=8"}
	if cfg, err = s.load(t, "named.yaml", strings.Replace(centered, "namespace: mine", "group: all, config-file: a.properties, app-config-file: b.properties", 1)); err != nil {
		t.Fatal(err)
	}
	if p := cfg.Server.Ports[0].Pool; p.Threads != 50 || p.Queue != 8 {
		t.Errorf("texts of other names: %+v", p)
	}
}

// TestCenterErrors: what is wrong in the center is told with its place there, and what is wrong about it with that in the file.
func TestCenterErrors(t *testing.T) {
	const two = "dubbo.protocols.rest.port=1\n"
	for _, test := range []struct{ file, all, want string }{
		{centered, "\ndubbo.protocols.tri.threads=many", `dubbo/dubbo.properties of shelf://a:1:2: dubbo.protocols.tri.threads: "many" is`},
		{centered, "dubbo.protocols.tri.thraeds=1", `dubbo/dubbo.properties of shelf://a:1:1: dubbo.protocols.tri.thraeds: is no key here (did you mean threads?)`},
		{centered, "dubbo.portocol.port=1", `dubbo/dubbo.properties of shelf://a:1:1: dubbo.portocol.port: is no key here`},
		{centered, "nonsense.key=1", `dubbo/dubbo.properties of shelf://a:1:1: nonsense.key: is no key here`},
		{centered, "dubbo.protocol.port=${PORT}", `dubbo/dubbo.properties of shelf://a:1:1: dubbo.protocol.port: "${PORT}" has the placeholder`},
		{centered, two, `dubbo/dubbo.properties of shelf://a:1:1: dubbo.protocols.rest.name: "rest" is no protocol`},
		{centered, "a=\x01", `dubbo/dubbo.properties of shelf://a:1:1: "\x01" is no text`},
		{centered, "dubbo.registry.address=etcd://a:1", `dubbo/dubbo.properties of shelf://a:1:1: dubbo.registry.address: "etcd://a:1" is of an engine that is not linked`},
		{strings.Replace(centered, "shelf:", "plain:", 1), "", `f.yaml:3: dubbo.config-center.address: "plain://a:1" is of an engine that has no config centers`},
		{strings.Replace(centered, "shelf:", "etcd:", 1), "", `f.yaml:3: dubbo.config-center.address: "etcd://a:1" is of an engine that is not linked`},
		{strings.Replace(centered, "address:", "id:", 1), "", `f.yaml:3: dubbo.config-center: has no address`},
		{strings.Replace(centered, "config-center", "config-centers: {b: {address: 'shelf://b:1'}}\n  config-center", 1), "", `dubbo.config-center: is a second config center`},
		{strings.Replace(centered, "//a:1\"", "//broken:1\", check: true", 1), "", `f.yaml:3: dubbo.config-center: cannot be read: it is broken`},
	} {
		s := &shelf{texts: map[string]string{"dubbo/dubbo.properties": test.all}}
		if _, err := s.load(t, "f.yaml", test.file); err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v, want %s", test.all, err, test.want)
		}
	}
}

// TestCenterIsDown: the program starts with its file, and is told; with check: true it does not start. Either takes as long as the file says.
func TestCenterIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &shelf{down: true}
		began := time.Now()
		cfg, err := s.load(t, "f.yaml", centered)
		if err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took != centerTimeout || cfg.Server.Ports[0].Pool.Threads != 20 || s.closed != 1 {
			t.Errorf("after %v: %+v, closed %d", took, cfg.Server.Ports, s.closed)
		}
		if w := strings.Join(cfg.Warnings, "\n"); !strings.Contains(w, "f.yaml:3: dubbo.config-center: cannot be read, the file alone counts: nobody answers") {
			t.Errorf("%q", w)
		}
		began = time.Now()
		_, err = s.load(t, "f.yaml", strings.Replace(centered, "namespace: mine", "check: true, timeout: 60000", 1))
		if took := time.Since(began); took != time.Minute || err == nil || err.Error() != "config: f.yaml:3: dubbo.config-center: cannot be read: nobody answers" {
			t.Errorf("after %v: %v", took, err)
		}
		path := filepath.Join(t.TempDir(), "f.yaml")
		if err := os.WriteFile(path, []byte(centered), 0o600); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		began = time.Now()
		if cfg, err := s.engines().LoadContext(ctx, path); cfg != nil || !errors.Is(err, context.Canceled) || time.Since(began) != 0 {
			t.Errorf("with a context that has ended: %+v, %v, after %v", cfg, err, time.Since(began))
		}
	})
	cfg, err := (&shelf{}).engines().Parse("f.yaml", []byte(centered))
	if err != nil || len(cfg.Warnings) != 1 || !strings.Contains(cfg.Warnings[0], "f.yaml:3: dubbo.config-center: has no effect: only Load and LoadContext read it") {
		t.Errorf("%v, %+v", err, cfg)
	}
}

// TestRegisteredByApplication: the address of the registry has what the file says of that, and where the metadata is written.
func TestRegisteredByApplication(t *testing.T) {
	const file = "dubbo:\n  application: {name: shop, APPLICATION}\n  metadata-report: {REPORT}\n  registry: {address: 'zookeeper://a:1KEYS', REGISTRY}\n"
	for _, test := range []struct{ application, report, keys, registry, want, warning string }{
		{"", "", "?registry-type=service", "", "zookeeper://a:1?registry-type=service", ""},
		{"", "", "", "registry-type: service", "zookeeper://a:1?registry-type=service", ""},
		{"", "", "", "register-mode: instance", "zookeeper://a:1?register-mode=instance", ""},
		{"register-mode: all", "", "", "", "zookeeper://a:1?register-mode=all", ""},
		{"register-mode: all", "", "", "register-mode: interface", "zookeeper://a:1?register-mode=interface", ""},
		{"register-mode: all", "address: 'zookeeper://a:1'", "", "", "zookeeper://a:1?register-mode=all", ""},
		{"", "address: b, protocol: zookeeper, port: 2", "?register-mode=all", "", "zookeeper://a:1?register-mode=all&metadata=b%3A2", ""},
		{"", "address: 'zookeeper://b:2?backup=c:3'", "", "register-mode: all", "zookeeper://a:1?register-mode=all&metadata=b%3A2%2Cc%3A3", ""},
		{"", "address: 'zookeeper://b:2'", "", "", "zookeeper://a:1", "dubbo.metadata-report: has no effect: nothing is written of services that are registered by interface"},
		{"", "address: 'etcd://b:2'", "", "", "zookeeper://a:1", "dubbo.metadata-report: has no effect"},
	} {
		text := strings.NewReplacer("APPLICATION", test.application, "REPORT", test.report, "KEYS", test.keys, "REGISTRY", test.registry).Replace(file)
		if test.report == "" {
			text = strings.Replace(text, "  metadata-report: {}\n", "", 1)
		}
		cfg, err := linked().Parse("f.yaml", []byte(text))
		if err != nil || cfg.Registry != test.want {
			t.Errorf("%s: %v, %+v, want %s", text, err, cfg, test.want)
			continue
		}
		if w := strings.Join(cfg.Warnings, "\n"); !strings.Contains(w, test.warning) || test.warning == "" && w != "" {
			t.Errorf("%s: %s", text, w)
		}
	}
	cfg, err := (&shelf{}).engines().Parse("f.yaml", []byte("dubbo.registry.address: 'plain://a:1?registry-type=service'\n"))
	if err != nil || len(cfg.Warnings) != 1 || !strings.Contains(cfg.Warnings[0], "has no effect: no instances are registered by application") {
		t.Errorf("%v, %+v", err, cfg)
	}
	for text, want := range map[string]string{
		"dubbo:\n  registry: {address: 'zookeeper://a:1?registry-type=service'}\n":                                                                        "f.yaml:2: dubbo.registry: registers by application, and there is no name of one: write dubbo.application.name",
		"dubbo:\n  application: {name: shop, register-mode: some}\n":                                                                                      `f.yaml:2: dubbo.application.register-mode: "some" is none of interface, instance, all`,
		"dubbo:\n  application: {name: shop}\n  metadata-report: {address: 'etcd://b:2'}\n  registry: {address: 'zookeeper://a:1', register-mode: all}\n": `f.yaml:3: dubbo.metadata-report: "etcd://b:2" is of another kind than the registry, which is zookeeper`,
		"dubbo:\n  metadata-report: {timeout: 1}\n":                                                                                                       "f.yaml:2: dubbo.metadata-report.address: names no server: write zookeeper://host:port",
		"dubbo:\n  metadata-report: {address: 'zookeeper://b:2'}\n  metadata-reports: {b: {address: 'zookeeper://b:2'}}\n":                                "is a second metadata report",
	} {
		if _, err := linked().Parse("f.yaml", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}
