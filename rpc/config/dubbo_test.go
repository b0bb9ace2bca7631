package config

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/rpc"
	"github.com/go-eddy/eddy/rpc/discovery"
)

// linked are engines that do nothing but be there.
func linked() Engines {
	return Engines{
		Registries: []discovery.Engine{{Schemes: []string{"zookeeper"}, Modes: true, OpenCenter: func(string) (discovery.Center, error) { return &shelf{}, nil }}},
		Wires: []rpc.Wire{{Name: "dubbo", Port: func(o *rpc.PortOptions) {
			o.Protocols, o.Offers, o.Front = []rpc.Protocol{rpc.ProtocolFrame}, []string{"dubbo"}, func(*eddy.Pipeline) error { return nil }
		}}},
	}
}

// sample reads a sample of Dubbo's documentation, as it is printed there. testdata/dubbo/README.md says where, and under which licence.
func sample(t *testing.T, name string) *Config {
	t.Helper()
	cfg, err := linked().Load(filepath.Join("testdata", "dubbo", name))
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// TestSampleYAML: the application.yaml of a provider.
func TestSampleYAML(t *testing.T) {
	cfg := sample(t, "application.yaml")
	if cfg.Application != "dubbo-springboot-demo-provider" || cfg.Registry != "zookeeper://127.0.0.1:2181" || len(cfg.Warnings) > 0 || len(cfg.Services) > 0 {
		t.Errorf("%+v", cfg)
	}
	p := cfg.Server.Ports
	if len(p) != 1 || p[0].Name != "dubbo" || p[0].Addr != ":-1" || p[0].FirstPort != 20880 || p[0].Dispatcher != rpc.DispatchAll || p[0].Front == nil || !slices.Equal(p[0].Offers, []string{"dubbo"}) {
		t.Errorf("%+v", p)
	}
}

// TestSampleXML: the beans of three services with pools of their own, on two protocols.
func TestSampleXML(t *testing.T) {
	cfg := sample(t, "isolation.xml")
	if cfg.Application != "demo-provider" || cfg.Server.Isolation != rpc.PerService || cfg.Registry != "zookeeper://127.0.0.1:2181?registry-type=service" || cfg.RegistryName() != "zookeeper://127.0.0.1:2181" {
		t.Errorf("%+v", cfg)
	}
	var ports []string
	for _, p := range cfg.Server.Ports {
		ports = append(ports, fmt.Sprint(p.Name, " ", p.Addr, " ", p.FirstPort, " ", p.Protocols))
	}
	if want := []string{"dubbo :-1 20880 [frame]", "tri :-1 50051 [grpc web]"}; !slices.Equal(ports, want) {
		t.Errorf("%v, want %v", ports, want)
	}
	var keys []string
	for _, s := range cfg.Services {
		keys = append(keys, fmt.Sprint(s.Key, " ", len(s.Options))) // OnPorts and Timeout
	}
	const api = "org.apache.dubbo.config.spring.api."
	if want := []string{"Group1/" + api + "DemoService:1.0.0 2", "Group2/" + api + "HelloService:2.0.0 2", "Group3/" + api + "HelloService:3.0.0 2"}; !slices.Equal(keys, want) {
		t.Errorf("%v, want %v", keys, want)
	}
	warnings := strings.Join(cfg.Warnings, "\n")
	for _, want := range []string{"isolation.xml:32: dubbo:service.ref: has no effect",
		`isolation.xml:32: dubbo:service.executor: "executor-demo-service" is a bean whose size is not known here`} {
		if !strings.Contains(warnings, want) {
			t.Errorf("no %q in\n%s", want, warnings)
		}
	}
	if len(cfg.Warnings) != 3 {
		t.Errorf("%d warnings:\n%s", len(cfg.Warnings), warnings)
	}
}

// TestSampleDump: the switches of thread dumps in each format.
func TestSampleDump(t *testing.T) {
	for name, want := range map[string]string{
		"dump.properties": "false ", "dump.xml": "true ", "dump.yaml": "true ",
		"directory.properties": "false /tmp", "directory.xml": "false /tmp", "directory.yaml": "false /tmp",
	} {
		d := sample(t, name).Server.Dumper
		if got := fmt.Sprint(d.Disabled, " ", d.Dir); got != want {
			t.Errorf("%s: disabled and directory are %q, want %q", name, got, want)
		}
	}
}

// The same configuration in each format.
const (
	sameYAML = `
spring.application.name: unused
dubbo:
  application: {name: shop, executorManagementMode: isolation, dump.enable: false, parameters: {dump.directory: /tmp}}
  protocols:
    tri: {port: "50052", threadpool: eager, threads: 20}
    frame: {name: frame, port: -1, host: 127.0.0.1, payload: 4096}
  provider: {timeout: 2000, threads: 30, dispatcher: message, group: g}
  registry: {address: "127.0.0.1", protocol: zookeeper, port: 2181, username: u, password: p w, group: root, zone: z1, registry-type: service}
  pools:
    small: {threads: 3, alive: 60000}
  services:
    one: {interface: org.example.One, version: 1.10, protocol: tri, executor: small, executes: 7}
    two: {interface: org.example.Two, timeout: 500ms, group: h}
`
	sameProperties = `
! a comment
dubbo.application.name = shop
dubbo.application.executor-management-mode isolation
dubbo.application.dump-enable:FALSE
dubbo.application.dump.directory=/t\u006dp
dubbo.protocols.tri.port=50052
dubbo.protocols.tri.threadpool=eager
dubbo.protocols.tri.threads=20
dubbo.protocols.frame.port=-1
dubbo.protocols.frame.host=127.\
    0.0.1
dubbo.protocols.frame.payload=4096
dubbo.provider.timeout=2000
dubbo.provider.threads=30
dubbo.provider.dispatcher=message
dubbo.provider.group=g
dubbo.registries.main.address=zookeeper\://127.0.0.1\:2181
dubbo.registries.main.parameters.registry-type=service
dubbo.registries.main.username=u
dubbo.registries.main.password=p w
dubbo.registries.main.group=root
dubbo.registries.main.zone=z1
dubbo.pools.small.threads=3
dubbo.pools.small.alive=60s
dubbo.services.one.interface=org.example.One
dubbo.services.one.version=1.10
dubbo.services.one.protocol=tri
dubbo.services.one.executor=small
dubbo.services.one.executes=7
dubbo.services.two.interface=org.example.Two
dubbo.services.two.timeout=500
dubbo.services.two.group=h
`
	sameXML = `<?xml version="1.0" encoding="UTF-8"?>
<beans xmlns="http://www.springframework.org/schema/beans" xmlns:d="http://dubbo.apache.org/schema/dubbo">
  <d:application name="shop" executor-management-mode="isolation" dump-enable="false"><d:parameter key="dump.directory" value="/tmp"/></d:application>
  <d:protocol name="tri" port="50052" threadpool="eager" threads="20"/>
  <d:protocol name="frame" host="127.0.0.1" payload="4096" port="-1"/>
  <d:provider timeout="2000" threads="30" dispatcher="message" group="g"/>
  <d:registry id="main" address="zookeeper://127.0.0.1:2181" username="u" password="p w" group="root" zone="z1"><d:parameter key="registry-type" value="service"/></d:registry>
  <bean id="small" class="java.util.concurrent.ThreadPoolExecutor"><property name="threads" value="3"/><property name="alive" value="60000"/></bean>
  <d:service interface="org.example.One" version="1.10" protocol="tri" executor="small" executes="7"/>
  <d:service interface="org.example.Two" timeout="500" group="h"/>
</beans>`
)

// TestFormatsMeanTheSame: YAML, properties and XML of one configuration are one value, whatever their file is called.
func TestFormatsMeanTheSame(t *testing.T) {
	var first string
	for name, text := range map[string]string{"a.yaml": sameYAML, "b.properties": sameProperties, "c.xml": sameXML, "d": sameYAML, "e.conf": sameProperties, "f": sameXML} {
		cfg, err := linked().Parse(name, []byte(text))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got := describe(cfg)
		if first == "" {
			first = got
			for _, want := range []string{"shop isolation:service dump:true /tmp", "zookeeper://127.0.0.1:2181?group=root&password=p+w&registry-type=service&username=u zone z1",
				"tri :50052 0 message eager 20 [grpc web]", "frame 127.0.0.1:-1 7000 message fixed 30 [frame]", "g/org.example.One:1.10 3 small", "h/org.example.Two: 1 \n", "small 3 1m0s"} {
				if !strings.Contains(got, want) {
					t.Errorf("%s: no %q in\n%s", name, want, got)
				}
			}
		}
		if got != first {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, first)
		}
	}
}

// describe is what a configuration says, as text.
func describe(c *Config) string {
	d := c.Server.Dumper
	text := fmt.Sprintf("%s isolation:%v dump:%v %s\n%s zone %s\n", c.Application, c.Server.Isolation, d.Disabled, d.Dir, c.Registry, c.Server.Discovery.Zone)
	for _, p := range c.Server.Ports {
		text += fmt.Sprintln(p.Name, p.Addr, p.FirstPort, p.Dispatcher, p.Pool.Kind, p.Pool.Threads, p.Protocols, p.MaxPayload)
	}
	for _, s := range c.Services {
		text += fmt.Sprintln(s.Key, len(s.Options), s.pool)
	}
	for _, p := range c.pools {
		text += fmt.Sprintln(p.name, p.o.Threads, p.o.KeepAlive)
	}
	for _, w := range c.Warnings {
		_, w, _ = strings.Cut(w, ": has no effect") // behind its place, which differs
		text += w + "\n"
	}
	return text
}

// TestDubboErrors: what is wrong in a file of Dubbo's is told with its place and the nearest key that there is.
func TestDubboErrors(t *testing.T) {
	const bomb = `<!DOCTYPE lolz [<!ENTITY lol "lol"><!ENTITY lol2 "&lol;&lol;">]><beans>&lol2;</beans>`
	for _, c := range []struct{ name, file, want string }{
		{"f.yaml", "dubbo:\n  protcol: {port: 1}\n", `f.yaml:2: dubbo.protcol.port: is no key here (did you mean protocol?): known are application, protocol, registry`},
		{"f.yaml", "dubbo:\n  protocol:\n    prot: 1\n", `f.yaml:3: dubbo.protocol.prot: is no key here (did you mean port?): known are threadpool`},
		{"f.yaml", "dubbo.application.nam: x\n", `f.yaml:1: dubbo.application.nam: is no key here (did you mean name?)`},
		{"f.yaml", "dubbo: {}\nsprong: {a: 1}\n", `f.yaml:2: sprong.a: is no key here (did you mean spring?)`},
		{"f.yaml", "dubbo: 5", `f.yaml:1: dubbo: "5" is no mapping of keys to values`},
		{"f.yaml", "dubbo:\n  protocol: tri\n", `f.yaml:2: dubbo.protocol: "tri" is no mapping of keys to values`},
		{"f.yaml", "dubbo:\n  protocols:\n    tri: 5\n", `f.yaml:3: dubbo.protocols.tri: "5" is no mapping`},
		{"f.yaml", "dubbo:\n  protocols: []\n", `f.yaml:2: dubbo.protocols: a list is no mapping`},
		{"f.yaml", "dubbo: {}\n", `f.yaml:1: there is nothing in it`},
		{"f.yaml", "dubbo:\n  protocol: {name: tri, port: 70000}\n", `f.yaml:2: dubbo.protocol.port: "70000" is out of range: -1 to 65535`},
		{"f.yaml", "dubbo:\n  protocol: {name: tri, port: none}\n", `dubbo.protocol.port: "none" is no whole number`},
		{"f.yaml", "dubbo:\n  protocol: {name: tri, port: '${PORT:20880}'}\n", `dubbo.protocol.port: "${PORT:20880}" has the placeholder "${PORT:20880}": placeholders are not replaced here`},
		{"f.yaml", "dubbo:\n  protocol: {name: rest}\n", `dubbo.protocol.name: "rest" is no protocol here: known are dubbo, tri, grpc, frame`},
		{"f.yaml", "dubbo:\n  protocol: {name: dubo}\n", `"dubo" is no protocol here (did you mean dubbo?)`},
		{"f.yaml", "dubbo:\n  protocol: {name: tri, sslEnabled: true}\n", `dubbo.protocol.ssl-enabled: "true" is refused: TLS is not read from the file`},
		{"f.yaml", "dubbo:\n  protocol: {name: dubbo, speaks: grpc}\n", `dubbo.protocol.speaks: is for tri, grpc and frame: the protocol "dubbo" says itself`},
		{"f.yaml", "dubbo:\n  ssl: {server-key-cert-chain-path: x}\n", `f.yaml:2: dubbo.ssl.server-key-cert-chain-path: is refused: TLS`},
		{"f.yaml", "dubbo:\n  application:\n    dump-enable: true\n    dumpEnable: true\n", `f.yaml:4: dubbo.application.dump-enable: is there twice: in line 3, too`},
		{"f.yaml", "dubbo:\n  application: {dump.enable: true}\ndubbo.application.dump.enable: true\n", `f.yaml:3: dubbo.application.dump.enable: is there twice: in line 2, too`},
		{"f.yaml", "dubbo:\n  protocols: {a: {name: tri, port: 80}, b: {name: tri, port: 80}}\n", `dubbo.protocols.b.port: 80 is the port of a, too`},
		{"f.yaml", "dubbo:\n  registry: {id: a}\n", `dubbo.registry: has no address: write zookeeper://host:port, or N/A for none`},
		{"f.yaml", "dubbo:\n  registry: {address: '127.0.0.1:2181'}\n", `dubbo.registry.address: "127.0.0.1:2181" has no scheme: write it such as zookeeper://host:port`},
		{"f.yaml", "dubbo:\n  registry: {address: 'etcd://u:secret@a:1?password=secret'}\n", `dubbo.registry.address: "etcd://a:1" is of an engine that is not linked: give the program etcd.Engine() of github.com/go-eddy/eddy/rpc/discovery/etcd`},
		{"f.yaml", "dubbo:\n  registry: {address: 'consul://a:1'}\n", `"consul://a:1" is of a kind "consul" that there is not: there are zookeeper, nacos and etcd`},
		{"f.yaml", "dubbo:\n  registries: {a: {address: 'zookeeper://a'}, b: {address: 'zookeeper://b'}}\n", `dubbo.registries.b: is a second registry: a server is registered in one`},
		{"f.yaml", "dubbo:\n  services: {a: {interface: x, registry: b}}\n", `dubbo.services.a.registry: "b" is the id of no registry`},
		{"f.yaml", "dubbo:\n  services: {a: {interface: x, token: 'true'}}\n", `dubbo.services.a.token: is refused: who calls is not checked by a token here`},
		{"f.yaml", "dubbo:\n  services: {a: {interface: x, protocol: tri}}\n", `dubbo.services.a.protocol: "tri" is none of the protocols`},
		{"f.yaml", "dubbo:\n  services: {a: {interface: x}, b: {interface: x}}\n", `dubbo.services.b: "/x:" is there twice`},
		{"f.yaml", "dubbo:\n  service: {org.example.X: {version: 1}}\n", `is refused: write dubbo.services.NAME.interface`},
		{"f.yaml", "dubbo:\n  provider: {threads: 0}\n  protocols: {a: {name: tri}, b: {name: tri, port: 1}}\n", `f.yaml:2: dubbo.provider.threads: "0" is out of range: 1 to 100000`},
		{"f.yaml", "dubbo:\n  a.b.c.d.e.f.g.h.i.j.k.l.m: 1\n", "has more than 12 parts"},
		{"f.yaml", "dubbo: &a\n  protocol: &b {x: &c {x: 1}}\n  protocols: *a\n", "has more than 12 parts"},
		{"f.properties", "dubbo.protocol.port=99999\n", `f.properties:1: dubbo.protocol.port: "99999" is out of range`},
		{"f.properties", "\n\ndubbo.protcol.port=1\n", `f.properties:3: dubbo.protcol.port: is no key here (did you mean protocol?)`},
		{"f.properties", "dubbo.protocol.name=tri\ndubbo.protocol.port=1\ndubbo.protocol.port=2\n", `f.properties:3: dubbo.protocol.port: is there twice: in line 2, too`},
		{"f.properties", "=5\n", `f.properties:1: "=5" has no key: write key=value`},
		{"f.properties", "dubbo.application.name=\\u12\n", `has a \u without the four digits`},
		{"f.properties", "dubbo.application.name=a\\nb\n", `has the control character \n`},
		{"f.properties", "dubbo\n", `f.properties:1: dubbo: "" is no mapping`},
		{"f.yaml", laughs(), "the file has more than 20000 keys"},
		{"f.properties", strings.Repeat("a.", 20) + "b=1\n", "has more than 12 parts"},
		{"f.properties", many(maxSettings+1, "dubbo.pools.p%d.threads=1\n"), "the file has more than 20000 keys"},
		{"f.properties", strings.Repeat("#", maxFile+1), "the file is longer than 1048576 bytes"},
		{"f.xml", bomb, "f.xml:1: a DOCTYPE may define entities and name other files: take it out"},
		{"f.xml", `<!DOCTYPE a SYSTEM "file:///etc/passwd"><beans/>`, "a DOCTYPE may define entities"},
		{"f.xml", "<beans>\n&lol;</beans>", "f.xml:2: is no XML: invalid character entity &lol;"},
		{"f.xml", "<beans>\n<import resource=\"b.xml\"/></beans>", `f.xml:2: import: "b.xml" is refused: the configuration is one file`},
		{"f.xml", "<beans>", "is no XML: unexpected EOF"},
		{"f.xml", "<beans></bean>", "is no XML: element <beans> closed by </bean>"},
		{"f.xml", `<?xml version="1.0" encoding="UTF-16"?><beans/>`, "is no XML: "},
		{"f.xml", "<dubbo:protocol name='tri'\n port='x'/>", `f.xml:2: dubbo:protocol.port: "x" is no whole number`},
		{"f.xml", "<dubbo:protocol name='tri' port='1' port='2'/>", `protocol.port: is there twice`},
		{"f.xml", "<dubbo:protocol name='tri'/><dubbo:protocol name='tri' port='1'/>", `dubbo:protocol: "tri" is there twice: in line 1, too. Give each an id`},
		{"f.xml", "<dubbo:protocoll/>", "dubbo:protocoll: is no element here (did you mean protocol?)"},
		{"f.xml", "<dubbo:provider><dubbo:service interface='a'/></dubbo:provider>", "dubbo:service: stands in dubbo:provider: put it beside"},
		{"f.xml", "<dubbo:application name='a'>text</dubbo:application>", `"text" is text where there are only elements`},
		{"f.xml", "<dubbo:application name='${a}'/>", `dubbo:application.name: "${a}" has the placeholder`},
		{"f.xml", strings.Repeat("<beans>", 13), "there are more than 12 elements in each other"},
		{"f.xml", strings.Repeat("<beans/>", maxSettings+1), "the file has more than 20000 keys"},
		{"f.xml", "\x00", "is no text"},
	} {
		_, err := linked().Parse(c.name, []byte(c.file))
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "config: f.") || strings.Contains(err.Error(), "secret") {
			t.Errorf("%.80q: %v\nwant %s", c.file, err, c.want)
		}
	}
}

// laughs is a file of a few lines whose aliases stand for ten thousand million keys.
func laughs() string {
	text := "dubbo:\n  labels:\n    a0: &a0 {x: 1}\n"
	for i := range 9 {
		text += fmt.Sprintf("    a%d: &a%d {", i+1, i+1)
		for k := range 10 {
			text += fmt.Sprintf("k%d: *a%d, ", k, i)
		}
		text += "}\n"
	}
	return text
}

// TestEveryDubboErrorAtOnce: all that is wrong is one error, of twenty at most.
func TestEveryDubboErrorAtOnce(t *testing.T) {
	for name, text := range map[string]string{
		"f.yaml":       "dubbo:\n" + many(100, "  wrong%d: {a: 1}\n"),
		"f.properties": many(100, "dubbo.wrong%d.a=1\n"),
		"f.xml":        many(100, "<dubbo:wrong%d a='1'/>\n"),
	} {
		_, err := Parse(name, []byte(text))
		if err == nil || strings.Count(err.Error(), "\n") != maxErrors-1 || !strings.Contains(err.Error(), "wrong19") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestNothingIsSilent: each key without effect is told once, and those for which there is no room are counted.
func TestNothingIsSilent(t *testing.T) {
	text := "dubbo.services.a.interface=x\ndubbo.services.b.interface=y\n"
	for i, f := range idle(idleService) {
		text += fmt.Sprintf("dubbo.services.a.%s=x\ndubbo.services.b.%s=x\n", f.name, f.name)
		cfg, err := Parse("f.properties", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if n := min(i+1, maxErrors+1); len(cfg.Warnings) != n {
			t.Errorf("%d warnings of %d keys", len(cfg.Warnings), i+1)
		}
		if last := cfg.Warnings[len(cfg.Warnings)-1]; i >= maxErrors && last != fmt.Sprintf("f.properties: %d more keys have no effect or an old spelling", i+1-maxErrors) {
			t.Errorf("%q of %d keys", last, i+1)
		}
	}
}

// TestNotLinked: a program without the engines is told what to give it, for every name at once.
func TestNotLinked(t *testing.T) {
	_, err := Load(filepath.Join("testdata", "dubbo", "isolation.xml"))
	if !errors.Is(err, ErrNotLinked) || !strings.Contains(err.Error(), "zookeeper.Engine() of github.com/go-eddy/eddy/rpc/discovery/zookeeper") || !strings.Contains(err.Error(), "dubbo.Wire() of github.com/go-eddy/eddy/rpc/dubbo") {
		t.Error(err)
	}
	cfg, err := Parse("f.yaml", []byte("dubbo:\n  protocol: {name: tri, port: 0}\n  registry: {address: N/A}\n  provider: {timeout: 5000}\n"))
	if err != nil || cfg.Registry != "" || cfg.Server.Ports[0].Addr != ":50051" || cfg.Server.Ports[0].FirstPort != 0 || len(cfg.Defaults) != 1 {
		t.Errorf("%+v, %v", cfg, err)
	}
	if _, err := Parse("f.yaml", []byte("dubbo:\n  registry: {address: 'zookeeper://a', register: false}\n")); err != nil {
		t.Error(err)
	}
}

// TestIdleKeysAreDocumented: docs/rpc.md has a row for each reason why keys have no effect, and for each refusal.
func TestIdleKeysAreDocumented(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "rpc.md"))
	if err != nil {
		t.Fatal(err)
	}
	sections := map[string]string{}
	for name, why := range idleSections {
		sections[why] += " " + name
	}
	var rows []string
	for _, c := range []struct {
		where string
		keys  map[string]string
	}{{"dubbo", sections}, {"application", idleApplication}, {"protocols", idleProtocol}, {"registry", idleRegistry}, {"services", idleService}, {"services[].methods", idleMethod}} {
		for _, why := range slices.Sorted(maps.Keys(c.keys)) {
			names := strings.Fields(c.keys[why])
			slices.Sort(names)
			rows = append(rows, fmt.Sprintf("| %s | `%s` | %s |", c.where, strings.Join(names, "`, `"), why))
		}
	}
	for _, row := range rows {
		if !strings.Contains(string(page), row+"\n") {
			t.Errorf("docs/rpc.md lacks the row\n%s", row)
		}
	}
}

// FuzzForms: no file of Dubbo's makes the reader panic, and what is wrong has its place.
func FuzzForms(f *testing.F) {
	forms := []string{"f.yaml", "f.properties", "f.xml", "f"}
	for i, text := range []string{sameYAML, sameProperties, sameXML, everyKey} {
		f.Add(uint8(i), text)
	}
	f.Fuzz(func(t *testing.T, i uint8, text string) {
		cfg, err := linked().Parse(forms[int(i)%len(forms)], []byte(text))
		switch {
		case err != nil && (cfg != nil || !strings.HasPrefix(err.Error(), "config: f") || strings.Count(err.Error(), "\nconfig: ") >= maxErrors):
			t.Errorf("%v", err)
		case err == nil && (len(cfg.Warnings) > maxErrors+1 || len(cfg.Server.Ports) > maxProtocols || cfg.Server.Dumper == nil):
			t.Errorf("%+v", cfg)
		}
	})
}
