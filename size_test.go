package eddy

import (
	"net/netip"
	"reflect"
	"strconv"
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/go-eddy/eddy/internal/accept"
)

// TestSizes pins what every idle connection pays for: its Conn and one Context per handler. Both are size classes of Go's
// allocator (three contexts are 144), so that a byte more costs 16 per connection. What few connections need belongs
// in connExt.
func TestSizes(t *testing.T) {
	if strconv.IntSize != 64 {
		t.Skip("for 64-bit systems")
	}
	if n := unsafe.Sizeof(Conn{}); n > 176 {
		t.Errorf("a Conn has %d bytes, limit 176", n)
	}
	if n := unsafe.Sizeof(Context{}); n > 48 {
		t.Errorf("a Context has %d bytes, limit 48", n)
	}
}

// TestAddressesSurvive: a connection's compact addresses read as what they were.
func TestAddressesSurvive(t *testing.T) {
	for _, s := range []string{"", "192.0.2.7:1", "[2001:db8::1]:443", "[::ffff:192.0.2.7]:8", "[fe80::1%eth0]:65535", "0.0.0.0:0", "[::]:0"} {
		var want netip.AddrPort
		if s != "" {
			want = netip.MustParseAddrPort(s)
		}
		c := new(Conn)
		c.setAddrs(want, &want)
		if got := c.RemoteAddr(); got != want {
			t.Errorf("peer %q reads as %v", s, got)
		}
		if got := c.LocalAddr(); got != want {
			t.Errorf("local %q reads as %v", s, got)
		}
	}
	if c := new(Conn); c.LocalAddr().IsValid() {
		t.Errorf("without a local address it is %v", c.LocalAddr())
	}
}

// TestNetworkOfAPeer: it is the one that admission counts the peer for, the default's without admission.
func TestNetworkOfAPeer(t *testing.T) {
	g, err := (&Admission{IPv4Prefix: 24, IPv6Prefix: 48}).gate(0)
	if err != nil {
		t.Fatal(err)
	}
	for s, want := range map[string][2]string{
		"192.0.2.7:1":               {"192.0.2.7/32", "192.0.2.0/24"},
		"[::ffff:192.0.2.7]:8":      {"192.0.2.7/32", "192.0.2.0/24"},
		"[2001:db8:1:2:3::1]:443":   {"2001:db8:1:2::/64", "2001:db8:1::/48"},
		"[fe80:1:2:3::1%eth0]:6553": {"fe80:1:2:3::/64", "fe80:1:2::/48"},
	} {
		for i, set := range []*settings{{}, {accept: accept.Settings{Gate: g}}} {
			c := &Conn{set: set}
			c.setAddrs(netip.MustParseAddrPort(s), nil)
			if got := c.Network(); got.String() != want[i] {
				t.Errorf("%s is of %v, want %s", s, got, want[i])
			}
		}
	}
	if n := (&Conn{set: &settings{}}).Network(); n.IsValid() {
		t.Errorf("a Unix socket is of %v", n)
	}
}

// TestConnHasNoLooseFlags: what a connection's state consists of is its phase, its close reason, its deadlines and the
// named bits of state.go, all different.
func TestConnHasNoLooseFlags(t *testing.T) {
	for f := range reflect.TypeFor[Conn]().Fields() {
		if f.Type.Kind() == reflect.Bool || f.Type == reflect.TypeFor[atomic.Bool]() {
			t.Errorf("Conn.%s is a flag beside the bits", f.Name)
		}
	}
	var seen connBits
	for _, b := range []connBits{
		registered, listedReady, listedDirty, listedClose, partial, inputEnded, cutShort, finishing, lingering, draining,
		readingBody, handshaking, heldBack, timed, asked, marked, bulk,
	} {
		if b == 0 || b&(b-1) != 0 || seen&b != 0 {
			t.Errorf("bit %b is no bit of its own", b)
		}
		seen |= b
	}
}
