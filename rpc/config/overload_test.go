package config

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/go-eddy/eddy/internal/testkit"
	"github.com/go-eddy/eddy/overload"
)

// TestOverloadLimits: the switch of the overload manager and its limits are the same options in each format.
func TestOverloadLimits(t *testing.T) {
	limits := &overload.Options{Memory: 1 << 30, Lag: 2 * time.Second, QueueAge: 300 * time.Millisecond}
	port := "protocols: {p: {port: 1}}\n"
	for _, c := range []struct {
		name, file string
		want       *overload.Options
	}{
		{"f.yaml", port + "application: {overload: true}", &overload.Options{}},
		{"f.yaml", port + "application: {overload: false}", nil},
		{"f.yaml", port + "application: {overload: {}}", &overload.Options{}},
		{"f.yaml", port + "application: {overload: {memory: auto}}", &overload.Options{}},
		{"f.yaml", port + "application: {overload: {memory: off, lag: 0, queue-age: 0s}}", &overload.Options{Memory: -1, Lag: -1, QueueAge: -1}},
		{"f.yaml", port + "application: {overload: {memory: 1073741824, lag: 2s, queue-age: 300}}", limits},
		{"f.yaml", "dubbo.application: {overload: {memory: 1GiB, lag: 2s, queueAge: 300}}", limits},
		{"f.yaml", "dubbo.application: {overload: {}}", &overload.Options{}},
		{"f.properties", "dubbo.application.overload=true\ndubbo.application.overload.memory=1GiB\ndubbo.application.overload.lag=2s\ndubbo.application.overload.queue-age=300", limits},
		{"f.properties", "dubbo.application.overload.memory=off", &overload.Options{Memory: -1}},
		{"f.xml", `<dubbo:application xmlns:dubbo="http://dubbo.apache.org/schema/dubbo" overload="true"><dubbo:parameter key="overload.memory" value="1GiB"/>` +
			`<dubbo:parameter key="overload.lag" value="2s"/><dubbo:parameter key="overload.queue-age" value="300"/></dubbo:application>`, limits},
	} {
		cfg, err := Parse(c.name, []byte(c.file))
		if err != nil || !reflect.DeepEqual(cfg.Server.Overload, c.want) {
			t.Errorf("%s\n%+v %v, want %+v", c.file, cfg, err, c.want)
		}
	}
}

// TestOverloadErrors: a limit that is none is refused with its place, the nearest key, and what it may be.
func TestOverloadErrors(t *testing.T) {
	for _, c := range []struct{ name, file, want string }{
		{"f.yaml", "application:\n  overload: maybe", `f.yaml:2: application.overload: "maybe" is neither true nor false nor a mapping of limits`},
		{"f.yaml", "application:\n  overload:\n", `f.yaml:2: application.overload: nothing is neither true`},
		{"f.yaml", "application:\n  overload: [memory]\n", `f.yaml:2: application.overload: a list is neither true`},
		{"f.yaml", "application:\n  overload:\n    memroy: 1GiB\n", `f.yaml:3: application.overload.memroy: is no key here (did you mean memory?): known are memory, lag, queue-age`},
		{"f.yaml", "application:\n  overload:\n    memory: 1GB\n", `f.yaml:3: application.overload.memory: "1GB" is neither a size such as 512MiB nor auto nor off`},
		{"f.yaml", "application: {overload: {memory: 0}}", `application.overload.memory: "0" is neither a size`},
		{"f.yaml", "application: {overload: {memory: [off]}}", `application.overload.memory: a list is neither a size`},
		{"f.yaml", "application: {overload: {lag: 999us}}", `application.overload.lag: "999us" is out of range: 1ms to 24h0m0s, or 0 for not watched`},
		{"f.yaml", "application: {overload: {lag: soon}}", `application.overload.lag: "soon" is no duration: write 3s or 500ms`},
		{"f.yaml", "application: {overload: {queue-age: -1s}}", `application.overload.queue-age: "-1s" is out of range: 1ms to`},
		{"f.yaml", "application: {overload: {queue-age: {}}}", `application.overload.queue-age: a mapping is no duration`},
		{"f.yaml", "application: {overload.lag: 1s}", `f.yaml:1: application.overload.lag: is no key here`},
		{"f.properties", "\ndubbo.application.overload.memroy=1GiB", `f.properties:2: dubbo.application.overload.memroy: is no key here (did you mean overload.memory?)`},
		{"f.properties", "dubbo.application.overload.lag=1us", `f.properties:1: dubbo.application.overload.lag: "1us" is out of range: 1ms to`},
		{"f.properties", "dubbo.application.overload.lag=1s\ndubbo.application.overload=false", `f.properties:1: dubbo.application.overload.lag: is a limit of the overload manager, which overload: false switches off`},
	} {
		if _, err := Parse(c.name, []byte(c.file)); err == nil || !strings.HasPrefix(err.Error(), "config: f.") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s\n%v\nwant %s", c.file, err, c.want)
		}
	}
}

// TestOverloadOfTheFile: a server by a file goes by the limits of the file.
func TestOverloadOfTheFile(t *testing.T) {
	cfg, err := Parse("f.yaml", []byte("application: {overload: {memory: 1KiB}}\nprotocols:\n  p: {host: 127.0.0.1, port: -1}\n"))
	if err != nil {
		t.Fatal(err)
	}
	srv, err := cfg.NewServer()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = srv.Close() }()
	if err := srv.Listen(); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "memory to be beyond the limit of the file", func() bool {
		st := srv.Overload().Stats()
		return st.Grade == overload.StopAccepting && st.Source == "memory"
	})
}
