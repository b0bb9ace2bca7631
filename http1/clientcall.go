package http1

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"sync"
	"sync/atomic"

	"github.com/go-eddy/eddy"
)

// call is one request of a Transport, until the response has come in full or the request has failed.
type call struct {
	t      *Transport
	req    *http.Request
	done   func(*http.Response, error)
	key    hostKey
	proxy  *url.URL
	plan   requestPlan
	unhook func() bool // stops watching the request's context

	fresh bool      // the second attempt, which takes only a new connection; that is never stale, so there is no third
	body  *sentBody // of req

	mu       sync.Mutex
	finished bool         // done was called
	stop     error        // why the call has to end, nil if it has not
	abort    func(error)  // ends the present stage
	addrs    []netip.Addr // addresses still to be tried
	port     uint16
}

func (t *Transport) newCall(r *http.Request, done func(*http.Response, error)) *call {
	return &call{t: t, req: r, done: done, body: &sentBody{ReadCloser: r.Body, goOn: make(chan bool, 1)}}
}

// sentBody is the request's body in one attempt to send it.
type sentBody struct {
	io.ReadCloser
	once sync.Once
	goOn chan bool   // receives whether the body may be sent, for a body that waits for 100 Continue
	done atomic.Bool // the body was written to its end
}

// end closes the body, as every RoundTripper must. A goroutine that waits in the body's Read or for leave to send is
// released.
func (b *sentBody) end() {
	b.once.Do(func() {
		b.allow(false)
		if b.ReadCloser != nil {
			_ = b.ReadCloser.Close() // nobody can do anything about an error
		}
	})
}

// allow says whether the body may be sent. The first answer stands.
func (b *sentBody) allow(yes bool) {
	select {
	case b.goOn <- yes:
	default:
	}
}

// check validates the request and plans it, without sending anything.
func (c *call) check() error {
	t, r := c.t, c.req
	if err := t.start(); err != nil {
		return err
	}
	if r.URL == nil || r.URL.Host == "" {
		return errors.New("http1: the request has no URL with a host")
	}
	c.key.secure = r.URL.Scheme == "https"
	if r.URL.Scheme != "http" && !c.key.secure {
		return fmt.Errorf("http1: unsupported scheme %q", r.URL.Scheme)
	}
	if c.key.secure {
		if err := t.prepareTLS(); err != nil {
			return err
		}
	}
	c.key.addr = withPort(r.URL)
	if t.Proxy != nil {
		p, err := t.Proxy(r)
		if err != nil {
			return err
		}
		if p != nil {
			if err := c.useProxy(p); err != nil {
				return err
			}
		}
	}
	return c.plan.init(r, c.proxy != nil && !c.key.secure, c.key.auth)
}

func (c *call) useProxy(p *url.URL) error {
	if p.Scheme != "http" || p.Host == "" {
		return fmt.Errorf("http1: proxy %s: only http proxies are supported", p.Redacted())
	}
	c.proxy, c.key.proxy = p, withPort(p)
	if p.User != nil {
		password, _ := p.User.Password()
		c.key.auth = basicAuth(p.User.Username(), password)
	}
	if !c.key.secure {
		c.key.addr = "" // any host is reached through the proxy's connections
	}
	return nil
}

// withPort returns host:port of an http or https URL.
func withPort(u *url.URL) string {
	port := u.Port()
	switch {
	case port != "":
	case u.Scheme == "https":
		port = "443"
	default:
		port = "80"
	}
	return net.JoinHostPort(u.Hostname(), port)
}

// begin starts the request after check. The call's done function gets the outcome.
func (c *call) begin() {
	c.t.conns.mu.Lock()
	c.t.conns.stats.Requests++
	c.t.conns.mu.Unlock()
	if ctx := c.req.Context(); ctx.Done() != nil {
		c.mu.Lock()
		c.unhook = context.AfterFunc(ctx, func() { c.cancel(context.Cause(ctx)) })
		c.mu.Unlock()
	}
	c.t.acquire(c)
}

// cancel ends the call at any stage. Any goroutine.
func (c *call) cancel(err error) {
	if ctxErr := c.req.Context().Err(); ctxErr != nil {
		err = ctxErr
	}
	abort := c.stopWith(err)
	if abort != nil {
		abort(err)
		return
	}
	c.t.stopWaiting(c)
}

// stopWith records why the call has to end and returns the function that ends its present stage. The first reason stays.
func (c *call) stopWith(err error) (abort func(error)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stop == nil {
		c.stop = err
	}
	return c.abort
}

// stopped reports whether the call has to end.
func (c *call) stopped() bool { return c.stopCause() != nil }

func (c *call) stopCause() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stop
}

// enter begins a stage that abort ends and returns the reason if the call has to end, else nil.
func (c *call) enter(abort func(error)) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.abort = abort
	return c.stop
}

// fail ends the call with err, unless done was already called.
func (c *call) fail(err error) {
	c.over() // before finish, which lets the caller use the request's body again
	c.finish(nil, err)
}

// finish calls done with the outcome, once, and reports whether this call did so.
func (c *call) finish(resp *http.Response, err error) bool {
	c.mu.Lock()
	was := c.finished
	c.finished = true
	c.mu.Unlock()
	if was {
		return false
	}
	c.done(resp, err)
	return true
}

// over releases what the call holds, after the last byte of the response or the failure.
func (c *call) over() {
	c.closeBody()
	c.mu.Lock()
	unhook := c.unhook
	c.mu.Unlock()
	if unhook != nil {
		unhook()
	}
}

// closeBody closes the request's body.
func (c *call) closeBody() {
	c.mu.Lock()
	b := c.body
	c.mu.Unlock()
	b.end()
}

// dial makes a connection for the call. The pool has already counted the connection.
func (c *call) dial() {
	if err := c.enter(func(error) {}); err != nil {
		c.dialFailed(err)
		return
	}
	target := c.key.addr
	if c.key.proxy != "" {
		target = c.key.proxy
	}
	name, port, err := splitTarget(target)
	if err != nil {
		c.dialFailed(err)
		return
	}
	c.port = port
	if ip, err := netip.ParseAddr(name); err == nil && c.t.Lookup == nil {
		c.addrs = []netip.Addr{ip}
		c.dialNext(nil)
		return
	}
	go c.resolve(name) // ends with the request's context, ConnectTimeout or Transport.Close
}

func splitTarget(target string) (name string, port uint16, err error) {
	name, service, err := net.SplitHostPort(target)
	if err == nil {
		var p int
		p, err = net.LookupPort("tcp", service) // never a service name: withPort and the URL parser allow digits only
		port = uint16(p)
	}
	return name, port, err
}

// resolve looks a name up on a goroutine of its own.
func (c *call) resolve(name string) {
	ctx, cancel := context.WithTimeout(c.req.Context(), c.t.ConnectTimeout)
	defer cancel()
	defer context.AfterFunc(c.t.run.base, cancel)()
	if err := c.enter(func(error) { cancel() }); err != nil {
		c.dialFailed(err)
		return
	}
	lookup := c.t.Lookup
	if lookup == nil {
		lookup = func(ctx context.Context, host string) ([]netip.Addr, error) {
			return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		}
	}
	ips, err := lookup(ctx, name)
	if err != nil {
		c.dialFailed(fmt.Errorf("http1: %w", err))
		return
	}
	for _, ip := range ips {
		c.addrs = append(c.addrs, ip.Unmap())
	}
	c.dialNext(errors.New("http1: the name has no address"))
}

// dialNext tries the next address. last is the error of the previous address.
func (c *call) dialNext(last error) {
	if err := c.stopCause(); err != nil {
		c.dialFailed(err)
		return
	}
	if len(c.addrs) == 0 {
		c.dialFailed(last)
		return
	}
	remote := net.TCPAddrFromAddrPort(netip.AddrPortFrom(c.addrs[0], c.port))
	c.addrs = c.addrs[1:]
	stage := new(attempting)
	if err := c.enter(stage.stop); err != nil {
		c.dialFailed(err)
		return
	}
	cancel, err := c.t.run.dialer.DialAddr(remote, eddy.DialOptions{}, c.dialed)
	if err != nil {
		c.dialFailed(transportError(err))
		return
	}
	stage.began(cancel)
}

// attempting is one attempt to connect. Its stop works at any time: before DialAddr has returned the cancel function, and
// after the outcome.
type attempting struct {
	mu     sync.Mutex
	cancel func(error)
	err    error
}

func (a *attempting) stop(err error) {
	a.mu.Lock()
	cancel := a.cancel
	a.err = err
	a.mu.Unlock()
	if cancel != nil {
		cancel(err)
	}
}

func (a *attempting) began(cancel func(error)) {
	a.mu.Lock()
	a.cancel = cancel
	err := a.err
	a.mu.Unlock()
	if err != nil {
		cancel(err)
	}
}

// dialed handles the outcome of an attempt. Loop only.
func (c *call) dialed(conn *eddy.Conn, err error) {
	switch {
	case err == nil:
		cc := c.t.connOf(conn)
		if cc == nil { // the connection has ended already
			c.dialFailed(ErrStale)
			return
		}
		cc.key = c.key
		cc.prepare(c)
	case errors.Is(err, eddy.ErrDialerClosed):
		c.dialFailed(ErrTransportClosed)
	default:
		c.dialNext(err)
	}
}

// dialFailed ends a call whose connection could not be made.
func (c *call) dialFailed(err error) {
	if cause := c.stopCause(); cause != nil {
		err = cause
	}
	c.t.gone(c.key, nil)
	c.fail(err)
}

func transportError(err error) error {
	if errors.Is(err, eddy.ErrDialerClosed) {
		return ErrTransportClosed
	}
	return err
}

// lost handles a call whose connection ended before the response's header was there. A repeatable request is sent once more
// if reused is set. reused says that the connection had been idle and no byte of a response had come. began says that
// sending had begun.
func (c *call) lost(err error, reused, began bool) {
	if cause := c.stopCause(); cause != nil {
		c.fail(cause)
		return
	}
	if !reused || !c.repeatable(began) {
		c.fail(err)
		return
	}
	if began && c.plan.hasBody {
		body, berr := c.req.GetBody()
		if berr != nil {
			c.fail(err)
			return
		}
		c.closeBody()
		c.mu.Lock()
		c.body = &sentBody{ReadCloser: body, goOn: make(chan bool, 1)}
		c.mu.Unlock()
	}
	c.fresh = true
	if c.enter(nil) != nil {
		c.fail(c.stopCause())
		return
	}
	c.t.conns.mu.Lock()
	c.t.conns.stats.Retried++
	c.t.conns.mu.Unlock()
	c.t.acquire(c)
}

// repeatable reports whether sending the request once more is harmless (RFC 9110 section 9.2.2). A request of which
// nothing was sent is always repeatable.
func (c *call) repeatable(began bool) bool {
	if !began {
		return true
	}
	if c.plan.hasBody && c.req.GetBody == nil {
		return false
	}
	switch c.req.Method {
	case "", "GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE":
		return true
	}
	_, has := c.req.Header["Idempotency-Key"]
	return has
}

// sendBody sends the request's body, on a goroutine of its own that ends with the body, the connection or the call.
func (c *call) sendBody(cc *clientConn, b *sentBody) {
	defer b.end()
	if c.plan.expect && !<-b.goOn {
		cc.conn.Close(eddy.CloseNormal) // the server has answered without the body
		return
	}
	out := outgoing{conn: cc.conn, ctx: c.req.Context(), chunked: c.plan.chunked, left: c.plan.length}
	_, err := io.Copy(&out, onlyReader{b.ReadCloser})
	if err == nil {
		err = out.end(c.req.Trailer)
	}
	if err != nil {
		if !errors.Is(err, eddy.ErrClosed) { // of a closed connection the loop knows the cause
			cc.conn.CloseWith(eddy.CloseNormal, err)
		}
		return
	}
	b.done.Store(true)
	_ = cc.news.Raise() // fails only when the loop has ended; its connections have told their calls
}
