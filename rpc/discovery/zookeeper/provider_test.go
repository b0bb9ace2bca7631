package zookeeper

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/go-eddy/eddy/rpc/discovery"
)

// TestProviderURL: the URL of an instance says what Dubbo's consumers look for, and is read back as it was.
func TestProviderURL(t *testing.T) {
	r, err := New(Options{Servers: []string{"zk"}, Application: "demo"})
	if err != nil {
		t.Fatal(err)
	}
	s := discovery.Service{Interface: "org.example.Greeter", Group: "g", Version: "1", Protocol: "tri"}
	u, err := r.urlOf(s, discovery.Instance{Addr: "[2001:db8::1]:20000", Zone: "z", Weight: 3, Since: time.UnixMilli(1_700_000_000_005), Attributes: map[string]string{"methods": "a,b", "empty": ""}})
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"tri://[2001:db8::1]:20000/org.example.Greeter?anyhost=true&application=demo&", "&group=g&interface=org.example.Greeter&methods=a,b&",
		"&side=provider&timestamp=1700000000005&version=1&weight=3&zone=z", "&dynamic=true&", "&generic=false&"} {
		if !strings.Contains(u, part) {
			t.Errorf("%s lacks %s", u, part)
		}
	}
	if strings.Contains(u, "empty") {
		t.Error(u)
	}
	p, err := parseProvider(url.QueryEscape(u))
	if err != nil || !p.serves(s) || p.instance.Addr != "[2001:db8::1]:20000" || p.instance.Zone != "z" || p.instance.Weight != 3 || p.instance.Since.UnixMilli() != 1_700_000_000_005 {
		t.Errorf("%+v, %v", p, err)
	}
	if later, _ := r.urlOf(s, discovery.Instance{Addr: "a:1"}); later == "" || !strings.Contains(later, "weight=100") {
		t.Error(later)
	}
}

// TestRefusedInstances: what a URL cannot say is refused, and the error names it.
func TestRefusedInstances(t *testing.T) {
	r, err := New(Options{Servers: []string{"zk"}})
	if err != nil {
		t.Fatal(err)
	}
	s := discovery.Service{Interface: "i"}
	for want, c := range map[string]struct {
		s discovery.Service
		i discovery.Instance
	}{
		"Interface is empty":                 {discovery.Service{}, discovery.Instance{Addr: "a:1"}},
		`Interface is "a/b"`:                 {discovery.Service{Interface: "a/b"}, discovery.Instance{Addr: "a:1"}},
		"missing port":                       {s, discovery.Instance{Addr: "a"}},
		"has no host":                        {s, discovery.Instance{Addr: ":1"}},
		`attribute "k"="a&b"`:                {s, discovery.Instance{Addr: "a:1", Attributes: map[string]string{"k": "a&b"}}},
		`attribute "a=b"="c"`:                {s, discovery.Instance{Addr: "a:1", Attributes: map[string]string{"a=b": "c"}}},
		`attribute "group"="a?b"`:            {discovery.Service{Interface: "i", Group: "a?b"}, discovery.Instance{Addr: "a:1"}},
		"limit 16384: the attributes are to": {s, discovery.Instance{Addr: "a:1", Attributes: map[string]string{"k": strings.Repeat("x", maxURL)}}},
	} {
		if _, err := r.Register(c.s, c.i); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if err := r.Resolver(discovery.Service{}).Watch(t.Context(), nil); err == nil {
		t.Error("a watch of nothing")
	}
	_ = r.Close()
}

// TestParseProvider: odd URLs are errors that name what is odd.
func TestParseProvider(t *testing.T) {
	for text, want := range map[string]string{
		"x":                                      "no protocol",
		"://a:1/x":                               "no protocol",
		"%zz":                                    "invalid URL escape",
		"tri://a/x":                              "no port",
		"tri://a:x/x":                            "the port must be a number",
		"tri://a:1/x?weight=much":                `weight is "much"`,
		"tri://a:1/x?timestamp=-x":               `timestamp is "-x"`,
		"tri://a:1/x?timestamp=9999999999999999": "timestamp is",
		"tri://a b:1/x":                          "no host",
		"tri://a:1/x?" + strings.Repeat("k", 70_000): "limit 65536",
	} {
		if _, err := parseProvider(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: %v, want %s", text, err, want)
		}
	}
	p, err := parseProvider("dubbo%3A%2F%2Fu%3Ap%402001%3Adb8%3A%3A1%3A20880%2Fx%3Fversion%3D0.0.0")
	if err != nil || p.instance.Addr != "[2001:db8::1]:20880" || !p.serves(discovery.Service{Interface: "x", Protocol: "dubbo"}) {
		t.Errorf("%+v, %v", p, err)
	}
}

// TestIdleProviders: providers whose weight is 0 are told if there are no others. Timestamps of dubbo-go are seconds.
func TestIdleProviders(t *testing.T) {
	v := &resolver{s: discovery.Service{Interface: "x"}}
	zero, one := "tri://a:1/x?weight=0&timestamp=1700000000", "tri://b:1/x?weight=1&timestamp=1700000000000"
	if got := v.entries([]string{zero, zero}); got[0].Other || got[1].Other || got[0].Instance.Weight != 0 || got[0].Instance.Since.Unix() != 1_700_000_000 {
		t.Errorf("%+v", got)
	}
	if got := v.entries([]string{zero, one}); !got[0].Other || got[1].Other || got[1].Instance.Since.Unix() != 1_700_000_000 {
		t.Errorf("%+v", got)
	}
	if got := v.entries([]string{zero, one + "&version=2"}); got[0].Other || !got[1].Other {
		t.Errorf("%+v", got)
	}
}

// TestParse: addresses of registries as Dubbo writes them.
func TestParse(t *testing.T) {
	o, err := Parse("zookeeper://u:p@zk1:2181?backup=zk2:2182,zk3&group=/mine/&session=5000&timeout=1")
	if err != nil || strings.Join(o.Servers, " ") != "zk1:2181 zk2:2182 zk3" || o.Root != "mine" || o.Session != 5*time.Second || o.Username != "u" || o.Password != "p" {
		t.Errorf("%+v, %v", o, err)
	}
	if o, err := Parse("a,b:1"); err != nil || len(o.Servers) != 2 {
		t.Errorf("%+v, %v", o, err)
	}
	for text, want := range map[string]string{
		"nacos://a":                  "must begin with zookeeper://",
		"zookeeper://":               "Servers is empty",
		"zookeeper://a:0":            "from 1 to 65535",
		"zookeeper://a?session=long": `session is "long"`,
		"zookeeper://a?session=1":    "Session is 1ms",
		"zookeeper://a?group=b/c":    `Root is "b/c"`,
		"zookeeper://a?x=%zz":        "invalid URL escape",
	} {
		if _, err := Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
	for want, o := range map[string]Options{
		"limit 64":          {Servers: make([]string, 65)},
		"without Username":  {Servers: []string{"a"}, Password: "p"},
		`Application is "&`: {Servers: []string{"a"}, Application: "&"},
		"from 1s to 1h0m0s": {Servers: []string{"a"}, Session: -1},
	} {
		if _, err := New(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// FuzzProvider: the name of a node is read or refused, and what is read can be used.
func FuzzProvider(f *testing.F) {
	f.Add("tri%3A%2F%2F10.0.0.1%3A50051%2Forg.example.Greeter%3Fgroup%3Dg%26weight%3D1%26timestamp%3D1700000000000")
	f.Add("dubbo://[::1]:1/x?ext.protocol=tri,rest&enabled=false")
	f.Fuzz(func(t *testing.T, name string) {
		p, err := parseProvider(name)
		if err != nil {
			return
		}
		if err := p.instance.Check(); err != nil {
			t.Errorf("%q: %v", name, err)
		}
		p.serves(discovery.Service{Interface: "x"})
	})
}

// TestEngine: an address of a file is a registry, and the application's name is in it.
func TestEngine(t *testing.T) {
	g, err := Engine().Open("zookeeper://u:p@a:1?backup=b&group=root&registry-type=service", "app")
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	if o := g.(*Registry).o; strings.Join(o.Servers, " ") != "a:1 b:2181" || o.Root != "root" || o.Username != "u" || o.Password != "p" || o.Application != "app" {
		t.Errorf("%+v", o)
	}
	if _, err := Engine().Open("zookeeper://u:secret@", ""); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("%v", err)
	}
}
