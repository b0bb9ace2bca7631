package bus

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/nats-io/nats.go"
)

const (
	maxServers = 16
	example    = "write nats://host:4222, or several of these separated by commas"
)

// CheckURL returns what is wrong with an address that Open would be given. "" is right, and means that there is no bus.
//
// An address is nats://[user:password@|token@]host[:port], or tls:// for servers that speak nothing but TLS. Several are
// separated by commas. A query may name files: creds (of NATS accounts), nkey (a seed), ca, and cert with key.
func CheckURL(address string) error {
	if address == "" {
		return nil
	}
	_, _, err := parse(address)
	return err
}

// Place returns an address that CheckURL accepts without passwords.
func Place(address string) string {
	var all []string
	for _, one := range strings.Split(address, ",") {
		if u, err := url.Parse(strings.TrimSpace(one)); err == nil {
			all = append(all, u.Scheme+"://"+u.Host)
		}
	}
	return strings.Join(all, ",")
}

// parse returns the servers of an address, and what its query asks for.
func parse(address string) (servers []string, options []nats.Option, err error) {
	asked := make(url.Values)
	for _, one := range strings.Split(address, ",") {
		u, err := url.Parse(strings.TrimSpace(one))
		if err != nil {
			return nil, nil, fmt.Errorf("the address of the bus is no address: %s", example) // err would show a password
		}
		if u.Scheme != "nats" && u.Scheme != "tls" {
			return nil, nil, fmt.Errorf("the address of the bus begins with %.12q: %s", u.Scheme+"://", example)
		}
		if u.Hostname() == "" || strings.Trim(u.Path, "/") != "" {
			return nil, nil, fmt.Errorf("the address of the bus has no host, or something behind it: %s", example)
		}
		for name, values := range u.Query() {
			asked[name] = append(asked[name], values...)
		}
		u.RawQuery, u.Path = "", ""
		servers = append(servers, u.String())
	}
	if len(servers) > maxServers {
		return nil, nil, fmt.Errorf("the address of the bus names %d servers: give at most %d, they tell of the others", len(servers), maxServers)
	}
	options, err = files(asked)
	return servers, options, err
}

// files returns the options of the files that a query names.
func files(asked url.Values) (options []nats.Option, err error) {
	for name, values := range asked {
		if !slices.Contains([]string{"creds", "nkey", "ca", "cert", "key"}, name) {
			return nil, fmt.Errorf("the address of the bus asks for %.20q: only creds, nkey, ca, cert and key are known", name)
		}
		if len(values) != 1 || values[0] == "" {
			return nil, fmt.Errorf("the address of the bus has %d values of %s: name one file", len(values), name)
		}
	}
	if (asked.Get("cert") == "") != (asked.Get("key") == "") {
		return nil, errors.New("the address of the bus names cert or key alone: a certificate of this server needs both")
	}
	if file := asked.Get("creds"); file != "" {
		options = append(options, nats.UserCredentials(file))
	}
	if file := asked.Get("nkey"); file != "" {
		option, err := nats.NkeyOptionFromSeed(file)
		if err != nil {
			return nil, fmt.Errorf("the seed of the bus (nkey) in %s: %w", file, err)
		}
		options = append(options, option)
	}
	if file := asked.Get("ca"); file != "" {
		options = append(options, nats.RootCAs(file))
	}
	if file := asked.Get("cert"); file != "" {
		options = append(options, nats.ClientCert(file, asked.Get("key")))
	}
	return options, nil
}
