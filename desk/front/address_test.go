package front

import (
	"log/slog"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/go-eddy/eddy/desk/auth"
)

// Only a trusted proxy is believed, and of what it says only the last address that is not a trusted proxy.
func TestAddress(t *testing.T) {
	f := &Front{o: Options{Logger: slog.New(slog.DiscardHandler), TrustedProxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("::1/128")}}}
	for _, c := range []struct {
		peer      string
		forwarded []string
		want      string
	}{
		{"198.51.100.1:1", nil, "198.51.100.1"},
		{"198.51.100.1:1", []string{"203.0.113.9"}, "198.51.100.1"}, // not a proxy of ours
		{"10.0.0.1:1", nil, "10.0.0.1"},
		{"10.0.0.1:1", []string{""}, "10.0.0.1"},
		{"10.0.0.1:1", []string{"203.0.113.9"}, "203.0.113.9"},
		{"[::1]:1", []string{"203.0.113.9"}, "203.0.113.9"},
		{"[::ffff:10.0.0.1]:1", []string{"203.0.113.9"}, "203.0.113.9"},
		{"10.0.0.1:1", []string{"1.1.1.1, 203.0.113.9"}, "203.0.113.9"}, // the first was written by the client
		{"10.0.0.1:1", []string{"1.1.1.1", "203.0.113.9"}, "203.0.113.9"},
		{"10.0.0.1:1", []string{"203.0.113.9, 10.1.1.1, 10.2.2.2"}, "203.0.113.9"},
		{"10.0.0.1:1", []string{"203.0.113.9, unknown, 10.2.2.2"}, "10.2.2.2"},
		{"10.0.0.1:1", []string{"203.0.113.9:4711"}, "10.0.0.1"},
		{"10.0.0.1:1", []string{"10.3.3.3"}, "10.3.3.3"},
		{"10.0.0.1:1", []string{" 2001:db8::7 "}, "2001:db8::7"},
		{"10.0.0.1:1", []string{"fe80::1%eth0"}, "fe80::1"},
		{"10.0.0.1:1", []string{strings.Repeat("10.9.9.9,", 100_000) + "10.9.9.9"}, "10.9.9.9"},
		{"pipe", []string{"203.0.113.9"}, "pipe"},
	} {
		r := httptest.NewRequest("GET", "/", nil)
		r.RemoteAddr = c.peer
		for _, by := range c.forwarded {
			r.Header.Add("X-Forwarded-For", by)
		}
		if got := f.address(r); got != c.want {
			t.Errorf("%s for %.60q: %q, want %q", c.peer, c.forwarded, got, c.want)
		}
	}
}

func TestNetworksThatLimitsCount(t *testing.T) {
	f := &Front{o: Options{TrustedProxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}}
	for ip, want := range map[string][2]string{
		"198.51.100.1": {"198.51.100.1", "198.51.100.1"}, "::ffff:198.51.100.1": {"198.51.100.1", "198.51.100.1"},
		"2001:db8::1:2:3": {"2001:db8::/64", "2001:db8::/64"}, "fe80::1%eth0": {"fe80::/64", "fe80::/64"},
		"127.0.0.1": {"", ""}, "127.8.8.8": {"", ""}, "::1": {"", ""}, "10.0.0.1": {"10.0.0.1", ""},
	} {
		a := netip.MustParseAddr(ip)
		if got := [2]string{network(ip), f.Tenant(netip.AddrPortFrom(a, 1))}; got != want {
			t.Errorf("%s: %q, want %q", ip, got, want)
		}
	}
	if network("pipe") != "" || f.Tenant(netip.AddrPort{}) != "" {
		t.Error("what is no address is counted")
	}
}

// TestConnectionsOfTwoServers: the sessions of an address count at two servers together.
func TestConnectionsOfTwoServers(t *testing.T) {
	var shared [2]*auth.Shared
	var fronts [2]*Front
	for i := range fronts {
		shared[i] = auth.NewShared([]byte("the same at both"))
		fronts[i] = open(t, Options{ConnsPerIP: 10, Shared: shared[i]})
	}
	exchange := func(from, to int) {
		told := shared[from].Spent(100, time.Now())
		for i := range told {
			told[i].Node = "the other one"
		}
		shared[to].Spend(told, time.Now())
	}
	in := 0
	for i := range 60 {
		if _, _, ok := fronts[i%2].seat("198.51.100.1"); ok {
			in++
		}
		exchange(i%2, 1-i%2)
	}
	if in != 10 {
		t.Errorf("%d sessions of one address, want 10", in)
	}
	if _, _, ok := fronts[0].seat("198.51.100.2"); !ok {
		t.Error("another address is refused")
	}
}
