package front

import (
	"net"
	"net/http"
	"net/netip"
	"strings"

	"github.com/go-eddy/eddy/desk/proto"
)

const maxHops = 16 // entries of X-Forwarded-For that are looked at

// address returns the client's IP. That is the peer, or, if the options trust the peer as a proxy, the last entry of
// X-Forwarded-For that is not such a proxy. Entries before that one may have been written by anybody.
func (f *Front) address(r *http.Request) string {
	peer := peerOf(r)
	a, err := netip.ParseAddr(peer)
	if err != nil || !f.trusted(a) {
		if err == nil && r.Header.Get("X-Forwarded-For") != "" {
			f.untrusted.Do(func() {
				f.o.Logger.Warn("desk: X-Forwarded-For is not believed: limits count the peer's address. If that is a proxy of yours, name it among the trusted proxies", "peer", peer)
			})
		}
		return peer
	}
	a = a.Unmap()
	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for n := 0; len(hops) > 0 && n < maxHops; n++ {
		hop, err := netip.ParseAddr(strings.TrimSpace(hops[len(hops)-1]))
		if err != nil {
			break // everything before this entry is as doubtful
		}
		a = hop.Unmap()
		if !f.trusted(a) {
			break
		}
		hops = hops[:len(hops)-1]
	}
	return a.WithZone("").String()
}

// peerOf returns the address at the other end of the connection.
func peerOf(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}

func (f *Front) trusted(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	for _, p := range f.o.TrustedProxies {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

// network returns the key that the limits per address count: an IPv4 address, or the 64 bits of an IPv6 address that one
// customer has. "" is not limited. It stands for this machine itself, where a proxy cannot be told from a customer.
func network(ip string) string {
	a, err := netip.ParseAddr(ip)
	if err != nil || a.Unmap().IsLoopback() {
		return ""
	}
	if a = a.Unmap().WithZone(""); a.Is4() {
		return a.String()
	}
	p, err := a.Prefix(64)
	if err != nil {
		return ""
	}
	return p.String()
}

// Tenant returns the key by which the engine counts connections: the network of a peer that is no trusted proxy. ""
// is not limited.
func (f *Front) Tenant(peer netip.AddrPort) string {
	if !peer.IsValid() || f.trusted(peer.Addr()) {
		return ""
	}
	return network(peer.Addr().String())
}

// newVisitorRefused takes one new visitor from the rates of an address and of a site. true means that there may be none
// now and the answer has been given.
func (f *Front) newVisitorRefused(w http.ResponseWriter, ip, site string) bool {
	now := f.o.Now()
	key := network(ip)
	if key != "" {
		if wait := f.visitorsOf.Take(key, now); wait > 0 {
			f.tooManyVisitors(w, wait)
			return true
		}
	}
	if wait := f.visitors.Take(site, now); wait > 0 {
		if key != "" {
			f.visitorsOf.Return(key)
		}
		f.tooManyVisitors(w, wait)
		return true
	}
	return false
}

func blocked(w http.ResponseWriter) {
	problem(w, http.StatusForbidden, &proto.Error{Code: proto.CodeBlocked, Text: "You cannot write here."})
}
