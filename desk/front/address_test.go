package front

import (
	"log/slog"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
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

func TestCensus(t *testing.T) {
	var c census
	a, ok1 := c.enter("a", 2)
	b, ok2 := c.enter("a", 2)
	if _, ok := c.enter("a", 2); !ok1 || !ok2 || ok {
		t.Fatal("two of two and not three")
	}
	if _, ok := c.enter("b", 2); !ok {
		t.Error("another key")
	}
	a()
	a() // the second time does nothing
	if _, ok := c.enter("a", 2); !ok {
		t.Error("one left")
	}
	if _, ok := c.enter("a", 2); ok {
		t.Error("left twice")
	}
	b()
	for range 3 {
		if leave, ok := c.enter("", 1); !ok {
			t.Error("nobody's are not counted")
		} else {
			leave()
		}
	}
	if leave, ok := c.enter("a", 0); !ok {
		t.Error("no limit")
	} else {
		leave()
	}
	if len(c.n) != 2 {
		t.Errorf("%v", c.n)
	}
}
