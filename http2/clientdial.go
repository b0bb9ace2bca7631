package http2

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"

	"github.com/go-eddy/eddy"
)

// attempt makes one connection to a host, for all calls that wait for it. Its steps follow each other: the lookup, the
// addresses in turn, TLS, and the server's SETTINGS.
type attempt struct {
	t     *Transport
	host  *host
	name  string
	port  uint16
	addrs []netip.Addr // still to be tried
}

// begin starts the attempt, which ends in Transport.made or Transport.unmade, once.
func (a *attempt) begin() {
	name, port, err := net.SplitHostPort(a.host.key.addr)
	var n uint64
	if err == nil {
		n, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		a.t.unmade(a, fmt.Errorf("http2: %w", err))
		return
	}
	a.name, a.port = name, uint16(n)
	if ip, err := netip.ParseAddr(name); err == nil && a.t.Lookup == nil {
		a.addrs = []netip.Addr{ip}
		a.next(nil)
		return
	}
	go a.resolve() // ends with ConnectTimeout or Transport.Close
}

// resolve looks the name up on a goroutine of its own.
func (a *attempt) resolve() {
	ctx, cancel := context.WithTimeout(a.t.run.base, a.t.ConnectTimeout)
	defer cancel()
	lookup := a.t.Lookup
	if lookup == nil {
		lookup = func(ctx context.Context, host string) ([]netip.Addr, error) {
			return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		}
	}
	ips, err := lookup(ctx, a.name)
	if err != nil {
		a.t.unmade(a, fmt.Errorf("http2: %w", err))
		return
	}
	for _, ip := range ips {
		a.addrs = append(a.addrs, ip.Unmap())
	}
	a.next(errors.New("http2: the name has no address"))
}

// next tries the next address. last is the error of the previous one.
func (a *attempt) next(last error) {
	if len(a.addrs) == 0 {
		a.t.unmade(a, last)
		return
	}
	remote := net.TCPAddrFromAddrPort(netip.AddrPortFrom(a.addrs[0], a.port))
	a.addrs = a.addrs[1:]
	cc := &clientConn{t: a.t, host: a.host}
	_, err := a.t.run.dialer.DialAddr(remote, eddy.DialOptions{Init: cc.init}, func(_ *eddy.Conn, err error) { a.dialed(cc, err) })
	if err != nil {
		a.t.unmade(a, closedError(err))
	}
}

func closedError(err error) error {
	if errors.Is(err, eddy.ErrDialerClosed) {
		return ErrTransportClosed
	}
	return err
}

// dialed handles the outcome of an attempt to connect. Loop only.
func (a *attempt) dialed(cc *clientConn, err error) {
	switch {
	case err == nil && cc.state == stateOver: // it has ended already
		a.t.unmade(a, ErrStale)
	case err == nil:
		cc.attempt = a
		cc.prepare()
	case errors.Is(err, eddy.ErrDialerClosed):
		a.t.unmade(a, ErrTransportClosed)
	default:
		a.next(err)
	}
}

// prepare makes a new connection ready: TLS for https, then the prefaces of both sides. Loop only.
func (cc *clientConn) prepare() {
	limit := cc.t.ConnectTimeout
	cc.timer, _ = cc.conn.Loop().After(limit, func() { // an error means that the loop ends
		cc.conn.CloseWith(eddy.CloseHandlerTimeout, &timeoutError{"the connection to " + cc.host.key.addr + " was not ready", limit})
	})
	if !cc.host.key.secure {
		cc.greet()
		return
	}
	p := cc.ctx.Pipeline()
	err := p.Remove(clientName)
	if err == nil {
		err = cc.t.secure()(p, cc.attempt.name, cc.secured)
	}
	if err == nil {
		err = p.Add(clientName, cc)
	}
	if err != nil { // HandleClose may not be called
		cc.conn.CloseWith(eddy.CloseHandshakeFailed, err)
		cc.ended(err)
	}
}

// secured handles the outcome of the TLS handshake. Loop only.
func (cc *clientConn) secured(err error) {
	switch {
	case err != nil:
		cc.conn.CloseWith(eddy.CloseHandshakeFailed, fmt.Errorf("http2: TLS with %s: %w", cc.host.key.addr, err))
	case cc.tls != nil && cc.tls.NegotiatedProtocol != "h2":
		cc.conn.CloseWith(eddy.CloseNormal, fmt.Errorf("%w: %s has chosen %q", ErrNotHTTP2, cc.host.key.addr, cc.tls.NegotiatedProtocol))
	default:
		cc.greet()
	}
}

// greet sends the client's preface. The server's SETTINGS end the attempt.
func (cc *clientConn) greet() {
	if cc.state == stateOver {
		return
	}
	cc.greeted = true
	cc.control(cc.t.run.hello)
}

// stopTimer stops the time of the attempt.
func (cc *clientConn) stopTimer() {
	if cc.timer != nil {
		cc.timer.Stop()
		cc.timer = nil
	}
}
