package safehttp

import (
	"errors"
	"sync"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/http1"
)

// Pair makes two Clients on one loop of its own: one for public addresses only, and one for private ones, too. They share
// no connections. Any goroutine may call its methods.
type Pair struct {
	name string
	o    Options

	mu      sync.Mutex
	group   *eddy.Group // nil until the first client
	clients map[bool]*Client
	closed  bool
}

// NewPair returns a Pair, whose loop has a name. Options.Group and Options.AllowPrivate do not count.
func NewPair(name string, o Options) *Pair {
	return &Pair{name: name, o: o, clients: make(map[bool]*Client)}
}

// Client returns one of the two. After Close the error is http1.ErrTransportClosed.
func (p *Pair) Client(private bool) (*Client, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, http1.ErrTransportClosed
	}
	if c := p.clients[private]; c != nil {
		return c, nil
	}
	if p.group == nil {
		p.group = &eddy.Group{Name: p.name, Loops: 1, Logger: p.o.Logger}
	}
	o := p.o
	o.Group, o.AllowPrivate = p.group, private
	c, err := New(o)
	if err == nil {
		p.clients[private] = c
	}
	return c, err
}

// Close closes both clients. Do not call it on a loop.
func (p *Pair) Close() error {
	p.mu.Lock()
	p.closed = true
	clients, group := p.clients, p.group
	p.clients, p.group = nil, nil
	p.mu.Unlock()
	var errs []error
	for _, c := range clients {
		errs = append(errs, c.Close())
	}
	if group != nil {
		errs = append(errs, group.Close())
	}
	return errors.Join(errs...)
}
