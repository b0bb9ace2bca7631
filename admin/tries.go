package admin

import (
	"net/netip"
	"sync"
	"time"
)

const (
	maxTries    = 10 // wrong tokens of a network in a window
	triesWindow = time.Minute
	maxNetworks = 1024
)

// tries counts wrong tokens by the client's network: an IPv4 address, or the /64 of an IPv6 address. Networks beyond the
// first 1024 of a window are counted together.
type tries struct {
	mu    sync.Mutex
	begin time.Time // start of the window
	count map[netip.Prefix]int
}

func newTries() *tries { return &tries{count: make(map[netip.Prefix]int)} }

// network returns the network of a client, the zero Prefix if remote is no address.
func network(remote string) netip.Prefix {
	a, err := netip.ParseAddrPort(remote)
	if err != nil {
		return netip.Prefix{}
	}
	ip, bits := a.Addr().Unmap().WithZone(""), 32
	if ip.Is6() {
		bits = 64
	}
	p, _ := ip.Prefix(bits) // the length fits the family
	return p
}

// seat returns the key under which a client is counted, the zero Prefix beyond maxNetworks. t.mu is held.
func (t *tries) seat(now time.Time, remote string) netip.Prefix {
	if now.Sub(t.begin) >= triesWindow || now.Before(t.begin) {
		t.begin = now
		clear(t.count)
	}
	p := network(remote)
	if _, known := t.count[p]; !known && len(t.count) >= maxNetworks {
		return netip.Prefix{}
	}
	return p
}

// wait returns how long the client's network has to wait for its next try, 0 if it may try now.
func (t *tries) wait(now time.Time, remote string) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.count[t.seat(now, remote)] < maxTries {
		return 0
	}
	return max(t.begin.Add(triesWindow).Sub(now), time.Second)
}

// failed counts a wrong token.
func (t *tries) failed(now time.Time, remote string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.count[t.seat(now, remote)]++
}
