package config

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/go-eddy/eddy/rpc"
)

// The same methods in each format that has them.
var methodFiles = map[string]string{
	"own.yaml": `
application: {executor-management-mode: isolation}
protocols: {frame: {host: 127.0.0.1, port: 0}}
pools: {small: {threads: 3}}
services:
  - interface: demo.Search
    timeout: 3s
    methods:
      - {name: Find, timeout: 500ms, in-flight: 7, executor: {threads: 20, adaptive: true}}
      - {name: Index, criticality: sheddable, executor: small}
`,
	"dubbo.yaml": `
dubbo:
  application: {executor-management-mode: isolation}
  protocol: {name: frame, host: 127.0.0.1, port: -1}
  pools: {small: {threads: 3}}
  services:
    s:
      interface: demo.Search
      timeout: 3000
      methods:
        - {name: Find, timeout: 500, executes: 7, executor: {threads: 20, adaptive: true}, retries: 2}
        - {name: Index, criticality: sheddable, executor: small}
`,
	"dubbo.xml": `
<beans xmlns:dubbo="http://dubbo.apache.org/schema/dubbo">
  <dubbo:application executor-management-mode="isolation"/>
  <dubbo:protocol name="frame" host="127.0.0.1" port="-1"/>
  <bean id="small" class="x"><property name="threads" value="3"/></bean>
  <bean id="own" class="x"><property name="threads" value="20"/><property name="adaptive" value="true"/></bean>
  <dubbo:service interface="demo.Search" timeout="3000">
    <dubbo:method name="Find" timeout="500" executes="7" executor="own" retries="2"><dubbo:argument index="0" callback="true"/></dubbo:method>
    <dubbo:method name="Index" executor="small"><dubbo:parameter key="criticality" value="sheddable"/></dubbo:method>
  </dubbo:service>
</beans>`,
}

// TestMethodsOfTheFile: what a file says of methods is what their calls meet, in each format.
func TestMethodsOfTheFile(t *testing.T) {
	for name, text := range methodFiles {
		t.Run(name, func(t *testing.T) {
			cfg, err := Parse(name, []byte(text))
			if err != nil {
				t.Fatal(err)
			}
			for _, w := range cfg.Warnings {
				if !strings.Contains(w, "has no effect: it is for consumers") && !strings.Contains(w, "arguments have no settings") && !strings.Contains(w, "creates objects") {
					t.Error(w)
				}
			}
			say := rpc.Raw("Find", func(ctx context.Context, _ []byte) ([]byte, error) { return nil, nil })
			index := rpc.Raw("Index", func(ctx context.Context, _ []byte) ([]byte, error) { return nil, nil })
			svc, err := rpc.NewService(rpc.Key{Interface: "demo.Search"}, say, index)
			if err != nil {
				t.Fatal(err)
			}
			s, err := cfg.NewServer(svc)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			if got := slices.Sorted(maps.Keys(s.Stats().Services[svc.Key()].Methods)); fmt.Sprint(got) != "[Find Index]" {
				t.Errorf("methods with settings of their own are %v", got)
			}
			var pools []string
			for _, p := range slices.Concat(s.Pools(), s.pools) {
				pools = append(pools, fmt.Sprint(p.Name(), " ", p.Stats().MaxWorkers, " ", p.Adaptive()))
			}
			want := []string{"method demo.Search:/Find 20 true", "pool small 3 false"}
			if name == "dubbo.xml" {
				want[0] = "pool own 20 true"
			}
			for _, w := range want {
				if !slices.Contains(pools, strings.Replace(w, "demo", "/demo", 1)) && !slices.Contains(pools, w) {
					t.Errorf("no pool %q in %q", w, pools)
				}
			}
		})
	}
}

// TestMethodsWrong: what is wrong with a method is told with its place.
func TestMethodsWrong(t *testing.T) {
	const head = "application: {executor-management-mode: isolation}\nprotocols: {frame: {port: 0}}\nservices:\n  - interface: a.B\n    methods:"
	for text, want := range map[string]string{
		" x":                           `f.yaml:5: services[0].methods: "x" is no list of methods`,
		" [{timeout: 1s}]":             `f.yaml:5: services[0].methods[0]: has no name`,
		" [{name: A}, {name: A}]":      `f.yaml:5: services[0].methods[1].name: "A" is there twice: in line 5, too`,
		" [{name: A, nam: B}]":         `f.yaml:5: services[0].methods[0].nam: is no key here (did you mean name?): known are name, timeout, in-flight, criticality, executor`,
		" [{name: A, executes: 0}]":    `f.yaml:5: services[0].methods[0].executes: "0" is out of range: 1 to 65536`,
		" [{name: A, executor: p}]":    `f.yaml:5: services[0].methods[0].executor: "p" is no name in pools: there are none`,
		" [{name: A, criticality: x}]": `f.yaml:5: services[0].methods[0].criticality: "x" is none of sheddable, sheddable_plus, critical, critical_plus`,
		" [" + many(maxMethods+1, "{name: A%d}, ") + "]": `f.yaml:5: services[0].methods: 1001 items are too many: at most 1000`,
	} {
		if _, err := Parse("f.yaml", []byte(head+text+"\n")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: %v\nwant %s", text, err, want)
		}
	}
	cfg, err := Parse("f.yaml", []byte(head+" [{name: Missing, timeout: 1s}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	svc, err := rpc.NewService(rpc.Key{Interface: "a.B"}, rpc.Raw("There", func(context.Context, []byte) ([]byte, error) { return nil, nil }))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cfg.NewServer(svc); err == nil || !strings.Contains(err.Error(), `line 4: rpc: service /a.B:: OnMethod: there is no method "Missing"`) {
		t.Error(err)
	}
}
