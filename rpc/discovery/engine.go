package discovery

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// An Engine opens registries of one kind by their addresses. The packages of registries have one each, such as zookeeper.Engine, which programs give to
// those that read addresses from a file.
type Engine struct {
	Schemes []string // what its addresses begin with; the first one is its name

	// Open returns the registry at an address, which connects when it is first used. The application names this program to those who look into the
	// registry; it may be empty. The error tells which part of the address does not parse.
	Open func(address, application string) (Registry, error)

	// Modes says that Open takes Dubbo's keys register-mode and registry-type, and metadata, the servers for the metadata of applications.
	Modes bool

	// OpenCenter returns the center at an address, which connects when it is first asked. The key group is the namespace. nil = the engine has no centers.
	OpenCenter func(address string) (Center, error)
}

// Center keeps texts by group and key for all programs that ask, such as Dubbo's config center. Any goroutine may call its methods.
type Center interface {
	// Text returns a text, "" if there is none. It waits for the center until ctx ends.
	Text(ctx context.Context, group, key string) (string, error)

	// Close ends the connection, and the calls of Text.
	Close() error
}

// ErrNotLinked is in the errors of Find for an address whose engine the program does not have.
var ErrNotLinked = errors.New("is of an engine that is not linked")

// Find returns the engine of engines that opens an address. The error names the package to import, or what is wrong with the address.
func Find(engines []Engine, address string) (Engine, error) {
	scheme, _, ok := strings.Cut(address, "://")
	if !ok {
		return Engine{}, errors.New("has no scheme: write it such as zookeeper://host:port")
	}
	for _, e := range engines {
		if slices.Contains(e.Schemes, scheme) {
			return e, nil
		}
	}
	const own = "github.com/go-eddy/eddy/rpc/discovery/"
	switch scheme {
	case "zookeeper", "nacos":
		return Engine{}, fmt.Errorf("%w: give the program %s.Engine() of %s%s", ErrNotLinked, scheme, own, scheme)
	case "etcd", "etcd3", "etcdv3":
		return Engine{}, fmt.Errorf("%w: give the program etcd.Engine() of %setcd", ErrNotLinked, own)
	}
	return Engine{}, fmt.Errorf("is of a kind %.40q that there is not: there are zookeeper, nacos and etcd", scheme)
}

// Address is the address of a registry in Dubbo's form, or a list of servers:
//
//	zookeeper://user:password@zk1:2181?backup=zk2:2181,zk3:2181&group=dubbo
//	zk1:2181,zk2:2181
type Address struct {
	Scheme             string // empty if there is none
	Hosts              []string
	Username, Password string
	Values             url.Values // the keys behind the question mark
}

// ParseAddress returns the parts of an address. The error is that of its keys.
func ParseAddress(address string) (Address, error) {
	scheme, rest, ok := strings.Cut(address, "://")
	if !ok {
		scheme, rest = "", address
	}
	a := Address{Scheme: scheme}
	hosts, query, _ := strings.Cut(rest, "?")
	if at := strings.LastIndexByte(hosts, '@'); at >= 0 {
		a.Username, a.Password, _ = strings.Cut(hosts[:at], ":")
		hosts = hosts[at+1:]
	}
	var err error
	if a.Values, err = url.ParseQuery(query); err != nil {
		return Address{}, err
	}
	a.Hosts = strings.FieldsFunc(strings.TrimSuffix(hosts, "/")+","+a.Values.Get("backup"), func(r rune) bool { return r == ',' || r == ';' || r == ' ' })
	a.Username, a.Password = cmp.Or(a.Values.Get("username"), a.Username), cmp.Or(a.Values.Get("password"), a.Password)
	return a, nil
}

// Endpoints returns the hosts, as URLs with https if the address has tls=true.
func (a Address) Endpoints() []string {
	list := slices.Clone(a.Hosts)
	for i, h := range list {
		if a.Values.Get("tls") == "true" {
			list[i] = "https://" + h
		}
	}
	return list
}

// String returns scheme and hosts: what may be shown. Passwords are not in it.
func (a Address) String() string {
	hosts := strings.Join(a.Hosts, ",")
	if a.Scheme == "" {
		return hosts
	}
	return a.Scheme + "://" + hosts
}
