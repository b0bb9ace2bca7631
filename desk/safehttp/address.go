package safehttp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

// ErrForbidden ends a request that would go to a forbidden address.
var ErrForbidden = errors.New("safehttp: this address may not be used")

// special returns the networks of RFC 6890 and its registries that are not part of the public Internet and that netip
// has no method for. private marks those that are somebody's own network.
func special() []struct {
	net     string
	private bool
} {
	return []struct {
		net     string
		private bool
	}{
		{"0.0.0.0/8", false}, {"100.64.0.0/10", true}, {"192.0.0.0/24", false}, {"192.0.2.0/24", false}, {"192.88.99.0/24", false},
		{"198.18.0.0/15", false}, {"198.51.100.0/24", false}, {"203.0.113.0/24", false}, {"240.0.0.0/4", false},
		{"2001::/23", false}, {"2001:db8::/32", false}, {"3fff::/20", false},
	}
}

// CheckAddr returns nil if a may be connected to. allowPrivate admits loopback, link-local and private networks, and
// nothing else that is not public. An IPv4 address inside an IPv6 one counts as an IPv4 address. Any goroutine.
func CheckAddr(a netip.Addr, allowPrivate bool) error {
	refuse := func(what string) error { return fmt.Errorf("%w: %s is %s", ErrForbidden, a, what) }
	ip := a.Unmap()
	switch {
	case !ip.IsValid():
		return fmt.Errorf("%w: there is no address", ErrForbidden)
	case ip.Zone() != "":
		return refuse("an address of one interface only")
	case ip.IsUnspecified():
		return refuse("unspecified")
	case ip.IsMulticast():
		return refuse("a multicast address")
	case ip.IsLoopback(), ip.IsPrivate(), ip.IsLinkLocalUnicast():
		if !allowPrivate {
			return refuse("private, link-local or loopback")
		}
		return nil
	}
	if inner, ok := embedded(ip); ok {
		if err := CheckAddr(inner, allowPrivate); err != nil {
			return refuse("a form of " + inner.String() + ", which may not be used")
		}
		return nil
	}
	if ip.Is6() && !netip.MustParsePrefix("2000::/3").Contains(ip) { // RFC 4291 section 2.4: all that is in use
		return refuse("reserved")
	}
	for _, s := range special() {
		if netip.MustParsePrefix(s.net).Contains(ip) && !(s.private && allowPrivate) {
			return refuse("reserved (" + s.net + ")")
		}
	}
	return nil
}

// embedded returns the IPv4 address that a translating router would send ip to: NAT64 (RFC 6052, RFC 8215) and 6to4 (RFC
// 3056).
func embedded(ip netip.Addr) (netip.Addr, bool) {
	if !ip.Is6() {
		return netip.Addr{}, false
	}
	b := ip.As16()
	switch {
	case netip.MustParsePrefix("64:ff9b::/96").Contains(ip), netip.MustParsePrefix("64:ff9b:1::/48").Contains(ip):
		return netip.AddrFrom4([4]byte(b[12:16])), true
	case binary.BigEndian.Uint16(b[:2]) == 0x2002:
		return netip.AddrFrom4([4]byte(b[2:6])), true
	}
	return netip.Addr{}, false
}

// CheckURL parses a URL and returns an error if no request could go there. The URL must be https with a host and without
// a password, or http if allowPrivate is set. A host that is an address is checked; a name can only be checked when it
// is resolved. Any goroutine.
func CheckURL(s string, allowPrivate bool) (*url.URL, error) {
	u, err := url.Parse(s)
	if err != nil {
		return nil, fmt.Errorf("safehttp: %q is no URL", s)
	}
	host := u.Hostname()
	switch {
	case u.Scheme != "https" && u.Scheme != "http", u.Opaque != "":
		return nil, fmt.Errorf("safehttp: %q, want a URL that begins with https://", s)
	case u.Scheme == "http" && !allowPrivate:
		return nil, fmt.Errorf("%w: %q is not https, which is needed unless private addresses are allowed", ErrForbidden, s)
	case host == "" || strings.HasSuffix(u.Host, ":"):
		return nil, fmt.Errorf("safehttp: %q has no host", s)
	case !validPort(u.Port()):
		return nil, fmt.Errorf("safehttp: %q, want a port of 1 up to 65535", s)
	case u.User != nil:
		return nil, errors.New("safehttp: a URL with a user or password: leave them out")
	case u.Fragment != "":
		return nil, fmt.Errorf("safehttp: %q has a part behind #, which is never sent: leave it out", s)
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		return u, CheckAddr(ip, allowPrivate)
	}
	if numeric(host) {
		return nil, fmt.Errorf("%w: %q is a number and not written as an address like 192.0.2.1", ErrForbidden, host)
	}
	return u, nil
}

func validPort(s string) bool {
	n, err := strconv.ParseUint(s, 10, 16)
	return s == "" || (err == nil && n > 0)
}

// numeric reports whether the last part of a host is a number. Some resolvers then take the whole for an IPv4 address,
// in decimal, hexadecimal, octal or with parts left out. No name ends so.
func numeric(host string) bool {
	host = strings.TrimSuffix(host, ".")
	last := strings.ToLower(host[strings.LastIndexByte(host, '.')+1:])
	if hex, ok := strings.CutPrefix(last, "0x"); ok {
		return strings.Trim(hex, "0123456789abcdef") == ""
	}
	return last != "" && strings.Trim(last, "0123456789") == ""
}
