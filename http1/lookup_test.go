package http1

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
)

// A Transport connects to what Lookup returns and to nothing else: for names, for addresses, and for each connection anew.
func TestTransportLookup(t *testing.T) {
	var asked []string
	var answer []netip.Addr
	var refusal error
	base := scripted(t, func(_ int, c *raw) {
		if _, _, ok := c.request(); ok {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
		}
	})
	_, port, _ := net.SplitHostPort(strings.TrimPrefix(base, "http://"))
	tr := transport(t, &Transport{Lookup: func(_ context.Context, host string) ([]netip.Addr, error) {
		asked = append(asked, host)
		return answer, refusal
	}})
	get := func(host string) error {
		resp, err := tr.RoundTrip(request(t, "GET", "http://"+net.JoinHostPort(host, port)+"/", nil))
		if err == nil {
			_, err = io.ReadAll(resp.Body)
		}
		return err
	}
	local := netip.MustParseAddr("127.0.0.1")
	for _, host := range []string{"nowhere.invalid", "192.0.2.1", "nowhere.invalid", "2001:db8::1"} {
		answer, refusal = []netip.Addr{local}, nil
		if err := get(host); err != nil {
			t.Errorf("%s: %v", host, err)
		}
		answer, refusal = nil, errors.New("refused by the test")
		if err := get(host); !errors.Is(err, refusal) {
			t.Errorf("%s: %v, want the error of Lookup", host, err)
		}
	}
	refusal = nil
	if err := get("127.0.0.1"); err == nil {
		t.Error("connected without an address")
	}
	if len(asked) != 9 {
		t.Errorf("asked for %q", asked)
	}
}
