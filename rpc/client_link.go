package rpc

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/codec/frame"
	"github.com/go-eddy/eddy/internal/wheel"
	"github.com/go-eddy/eddy/rpc/balance"
)

// peer is one address.
type peer struct {
	addr   string
	node   *balance.Node
	links  []*link
	place  atomic.Pointer[place] // of its connections in the routes
	turn   atomic.Uint32         // of its connections
	ctx    context.Context       // ends with the address
	cancel context.CancelFunc
}

// place says where the connections of an address stand in routes.
type place struct {
	r       *routes
	from, n int
}

// link stands for one of the connections to an address. Its goroutine makes a connection, waits until that takes no more
// calls, and makes the next.
type link struct {
	client *Client
	peer   *peer
	dialer *eddy.Dialer
	wires  sync.WaitGroup // open connections, including those that only finish the calls in flight
	fresh  atomic.Pointer[wire]
	holdTo atomic.Int64 // earliest time of the next attempt, on the client's clock: a server's advice

	connecting bool  // or about to: calls may wait for it; Client.mu
	wire       *wire // ready, Client.mu
}

func newLink(p *peer, cl *Client) *link {
	l := &link{client: cl, peer: p, connecting: true}
	o := &cl.o
	decoder := frame.ResponseDecoder(frame.MaxPayload(o.MaxPayload))
	l.dialer = &eddy.Dialer{
		Group:          cl.group,
		CloseOnEOF:     true, // a server that has closed its end takes no more requests
		ConnectTimeout: o.DialTimeout,
		ReadTimeout:    frame.DefaultReadTimeout,
		Logger:         o.Logger,
		Watermarks:     eddy.Watermarks{Low: sendWindow, High: 4*sendWindow + o.MaxPayload, Max: 8*sendWindow + 2*o.MaxPayload},
		Init: func(p *eddy.Pipeline) error {
			w := newWire(cl, p.Conn())
			w.link = l
			l.fresh.Store(w)
			if err := l.front(p, w); err != nil {
				return err
			}
			if err := p.Add("frames", decoder); err != nil {
				return err
			}
			if err := p.Add("calls", w); err != nil {
				return err
			}
			return cl.events.add(p, "frames")
		},
	}
	return l
}

// front adds the handlers of the options in front of the protocol's.
func (l *link) front(p *eddy.Pipeline, w *wire) error {
	o := &l.client.o
	if o.Secure != nil {
		host, _, err := net.SplitHostPort(l.peer.addr)
		if err != nil {
			return err
		}
		w.secured = make(chan error, 1)
		ready := func(err error) {
			select {
			case w.secured <- err:
			default: // only the first call counts
			}
		}
		if err := o.Secure(p, host, ready); err != nil {
			return err
		}
	}
	if o.Front == nil {
		return nil
	}
	return o.Front(p)
}

// run is the link's goroutine.
func (l *link) run() {
	cl := l.client
	defer cl.life.links.Done()
	defer l.stop()
	again := cl.o.Backoff.schedule(cl.o.Rand)
	for {
		w, err := l.connect()
		served := false
		if err == nil && l.peer.ctx.Err() == nil {
			cl.ready(w)
			l.attend(w)
			served, err = w.served(), w.lost()
		}
		if l.peer.ctx.Err() != nil {
			return
		}
		// A connection that has served is made again soon, and calls wait for the new one. Any other counts as a failure.
		var pause time.Duration
		if served {
			again.Succeeded()
			pause = time.Duration(cl.o.Rand() * float64(cl.o.Backoff.Min))
			cl.setConnecting(l, true)
		} else {
			pause = again.Failed()
			cl.linkFailed(l, err, pause)
		}
		if !sleep(l.peer.ctx, l.held(pause)) {
			return
		}
		cl.setConnecting(l, true)
	}
}

// connect makes a connection.
func (l *link) connect() (*wire, error) {
	cl := l.client
	cl.stats.dials.Add(1)
	ctx, cancel := context.WithTimeout(l.peer.ctx, cl.o.DialTimeout)
	defer cancel()
	c, err := l.dialer.Dial(ctx, "tcp", l.peer.addr)
	if err != nil {
		return nil, &causeError{kinds: kindsDown, text: "connecting to " + l.peer.addr + ": " + err.Error(), cause: err}
	}
	w := l.fresh.Load()
	if w == nil || w.conn != c {
		return nil, errors.New("rpc: a connection without a handler") // does not happen: Dial returns the last one that was made
	}
	if w.secured == nil {
		return w, nil
	}
	select {
	case err = <-w.secured:
	case <-w.away:
		err = w.lost()
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err == nil {
		return w, nil
	}
	c.CloseWith(eddy.CloseHandshakeFailed, err)
	return nil, &causeError{kinds: kindsDown, text: "TLS with " + l.peer.addr + ": " + err.Error(), cause: err}
}

// hold delays the next attempt to connect for as long as a server asks, at most Backoff.Max. Any goroutine.
func (l *link) hold(d time.Duration) {
	if d > 0 {
		l.holdTo.Store(wheel.After(l.client.now(), min(d, l.client.o.Backoff.Max)))
	}
}

func (l *link) held(pause time.Duration) time.Duration {
	return max(pause, time.Duration(l.holdTo.Load()-l.client.now()))
}

// stop ends the link when its last connection has ended. The end of the client ends the connections.
func (l *link) stop() {
	cl := l.client
	if w := cl.setConnecting(l, false); w != nil {
		w.retire(errGone)
	}
	ended := make(chan struct{})
	go func() {
		l.wires.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-cl.life.ctx.Done():
	}
	_ = l.dialer.Close() // not on a loop, the only error
	<-ended
}

var errGone = &causeError{kinds: kindsDown, text: "the address is no longer among those of the resolver"}

// served reports whether the server has answered anything, or has at least kept the connection for Backoff.Max.
func (w *wire) served() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.proven || w.client.now()-w.opened >= int64(w.client.o.Backoff.Max)
}
