package front

import "net/netip"

// KeepIP says how much of clients' addresses is stored, with logins and in the audit log.
type KeepIP int

// KeepNoIP stores no addresses, which is the default. KeepShortIP stores their first part, and KeepFullIP all of them.
const (
	KeepNoIP    KeepIP = iota
	KeepShortIP        // the first 24 bits of an IPv4 address, 48 of an IPv6 address
	KeepFullIP
)

const (
	shortIPv4 = 24
	shortIPv6 = 48
)

// keep returns the part of an address that is stored.
func (k KeepIP) keep(ip string) string {
	a, err := netip.ParseAddr(ip)
	if err != nil || k == KeepNoIP {
		return ""
	}
	a = a.Unmap().WithZone("")
	if k == KeepFullIP {
		return a.String()
	}
	bits := shortIPv6
	if a.Is4() {
		bits = shortIPv4
	}
	p, err := a.Prefix(bits)
	if err != nil {
		return ""
	}
	return p.String()
}
