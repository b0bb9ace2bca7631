package resolve

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
)

// TestDNS: every address of a name is one.
func TestDNS(t *testing.T) {
	d, err := NewDNS("localhost:7000")
	if err != nil {
		t.Fatal(err)
	}
	d.lookup = func(_ context.Context, network, host string) ([]netip.Addr, error) {
		if network != "ip" || host != "localhost" {
			t.Errorf("%s %s", network, host)
		}
		return []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("::ffff:10.0.0.2"), netip.MustParseAddr("fe80::1")}, nil
	}
	got, err := d.Resolve(context.Background())
	if want := []string{"10.0.0.1:7000", "10.0.0.2:7000", "[fe80::1]:7000"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v", got, err)
	}
	d.lookup = func(context.Context, string, string) ([]netip.Addr, error) { return nil, nil }
	if _, err := d.Resolve(context.Background()); err == nil {
		t.Error("no address was an answer")
	}
	lost := &net.DNSError{Err: "no such host", Name: "localhost", IsNotFound: true}
	d.lookup = func(context.Context, string, string) ([]netip.Addr, error) { return nil, lost }
	if _, err := d.Resolve(context.Background()); !errors.Is(err, lost) {
		t.Error(err)
	}
	for _, bad := range []string{"", "host", "host:", "host:http", "host:70000", "a:b:c"} {
		if _, err := NewDNS(bad); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}

// TestTooManyAddresses are an error, as is what is no address.
func TestTooManyAddresses(t *testing.T) {
	if err := Check(make([]string, MaxAddrs+1)); err == nil || !strings.Contains(err.Error(), "limit 1024") {
		t.Error(err)
	}
	if err := Check([]string{"x"}); err == nil {
		t.Error("x is an address")
	}
}
