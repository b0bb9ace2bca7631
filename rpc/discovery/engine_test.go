package discovery

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// TestFind: an address finds the engine of its scheme, or is told which package has it.
func TestFind(t *testing.T) {
	engines := []Engine{{Schemes: []string{"a"}}, {Schemes: []string{"etcd", "etcd3"}}}
	for _, address := range []string{"etcd://x", "etcd3://x"} {
		if e, err := Find(engines, address); err != nil || e.Schemes[0] != "etcd" {
			t.Errorf("%s: %v, %v", address, e, err)
		}
	}
	for address, want := range map[string]string{
		"zookeeper://x": "give the program zookeeper.Engine() of github.com/go-eddy/eddy/rpc/discovery/zookeeper",
		"nacos://x":     "give the program nacos.Engine() of github.com/go-eddy/eddy/rpc/discovery/nacos",
		"etcdv3://x":    "give the program etcd.Engine() of github.com/go-eddy/eddy/rpc/discovery/etcd",
		"redis://x":     `is of a kind "redis" that there is not: there are zookeeper, nacos and etcd`,
		"x:1":           "has no scheme",
	} {
		if _, err := Find(engines, address); err == nil || !strings.Contains(err.Error(), want) || errors.Is(err, ErrNotLinked) != strings.Contains(want, "give") {
			t.Errorf("%s: %v, want %s", address, err, want)
		}
	}
}

// TestParseAddress: the parts of an address; what is shown has no password.
func TestParseAddress(t *testing.T) {
	for address, want := range map[string]string{
		"zookeeper://u:p@a:1?backup=b:2,c&x=y":     "zookeeper [a:1 b:2 c] u p y zookeeper://a:1,b:2,c [a:1 b:2 c]",
		"a:1, b;c":                                 " [a:1 b c]    a:1,b,c [a:1 b c]",
		"etcd://a/?username=u&password=p&tls=true": "etcd [a] u p  etcd://a [https://a]",
		"": " []     []",
	} {
		a, err := ParseAddress(address)
		if got := fmt.Sprint(a.Scheme, " ", a.Hosts, " ", a.Username, " ", a.Password, " ", a.Values.Get("x"), " ", a, " ", a.Endpoints()); err != nil || got != want {
			t.Errorf("%s: %q, %v, want %q", address, got, err, want)
		}
	}
	if _, err := ParseAddress("a?%zz"); err == nil {
		t.Error("no error")
	}
}
