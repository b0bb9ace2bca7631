package desk

import (
	"errors"
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
