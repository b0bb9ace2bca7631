package desk

import (
	"errors"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"github.com/go-eddy/eddy/desk/desktest"
	"github.com/go-eddy/eddy/internal/testkit"
)

func prefixes(t *testing.T, list ...string) (all []netip.Prefix) {
	t.Helper()
	for _, s := range list {
		p, err := netip.ParsePrefix(s)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	return all
}

func closeCode(err error) int {
	var ce websocket.CloseError
	if errors.As(err, &ce) {
		return int(ce.Code)
	}
	return 0
}

// Only a trusted proxy is believed, and of what it says only the last address that is not a trusted proxy.
func TestAddress(t *testing.T) {
	d := openDesk(t, testOptions(t))
	d.o.TrustedProxies = prefixes(t, "10.0.0.0/8", "::1/128")
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
		for _, f := range c.forwarded {
			r.Header.Add("X-Forwarded-For", f)
		}
		if got := d.address(r); got != c.want {
			t.Errorf("%s for %.60q: %q, want %q", c.peer, c.forwarded, got, c.want)
		}
	}
}

func TestNetworksThatLimitsCount(t *testing.T) {
	o := Options{TrustedProxies: prefixes(t, "10.0.0.0/8")}
	for ip, want := range map[string][2]string{
		"198.51.100.1": {"198.51.100.1", "198.51.100.1"}, "::ffff:198.51.100.1": {"198.51.100.1", "198.51.100.1"},
		"2001:db8::1:2:3": {"2001:db8::/64", "2001:db8::/64"}, "fe80::1%eth0": {"fe80::/64", "fe80::/64"},
		"127.0.0.1": {"", ""}, "127.8.8.8": {"", ""}, "::1": {"", ""}, "10.0.0.1": {"10.0.0.1", ""},
	} {
		a := netip.MustParseAddr(ip)
		if got := [2]string{network(ip), o.tenant(netip.AddrPortFrom(a, 1))}; got != want {
			t.Errorf("%s: %q, want %q", ip, got, want)
		}
	}
	if network("pipe") != "" || o.tenant(netip.AddrPort{}) != "" {
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

// WebSockets of one address are limited, also behind a proxy, and each gives its place back when it ends.
func TestSocketsPerAddress(t *testing.T) {
	o := testOptions(t)
	o.TrustedProxies = prefixes(t, "127.0.0.0/8")
	o.ConnsPerIP = 2
	s := serve(t, o)
	dial := func(ip string) (desktest.Transport, error) {
		return desktest.Dial(s.ctx, s.base.Load().(string), map[string][]string{"X-Forwarded-For": {ip}})
	}
	var open []desktest.Transport
	for range 2 {
		c, err := dial("198.51.100.1")
		s.ok(err)
		open = append(open, c)
	}
	if _, err := dial("198.51.100.1"); err == nil || !strings.Contains(err.Error(), "429") {
		t.Fatalf("a third one: %v", err)
	}
	other, err := dial("198.51.100.2")
	s.ok(err)
	_ = other.Close()
	if local, err := s.hello(map[string][]string{"X-Forwarded-For": {"127.0.0.1"}}); err != nil {
		t.Errorf("this machine: %v", err)
	} else {
		_ = local.CloseNow()
	}
	_ = open[0].Close()
	testkit.Eventually(t, "the place of the one that ended", func() bool {
		c, err := dial("198.51.100.1")
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	})
	_ = open[1].Close()
	if s.desk.Stats().SocketsRefused == 0 {
		t.Error("not counted")
	}
}

// The engine itself limits the connections of an address, whatever they carry; a trusted proxy's and this machine's own are
// not counted.
func TestConnectionsPerAddress(t *testing.T) {
	o := testOptions(t)
	o.ConnsPerIP = 3
	d := openDesk(t, o)
	a := d.admission()
	if a.MaxPerTenant != 3 || a.Tenant(netip.MustParseAddrPort("198.51.100.1:9")) != "198.51.100.1" || a.Tenant(netip.MustParseAddrPort("127.0.0.1:9")) != "" {
		t.Errorf("%+v", a)
	}
	o.ConnsPerIP = -1
	o.fill()
	if o.ConnsPerIP != 0 {
		t.Errorf("no limit became %d", o.ConnsPerIP)
	}
}
