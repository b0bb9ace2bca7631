//go:build unix

package main

import (
	"context"
	"errors"
	"hash/fnv"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const lookEvery = 500 * time.Millisecond

// proxy sends each request to any of the Desks that say that they are ready, as a load balancer does.
type proxy struct {
	c     *cluster
	addr  string
	ready atomic.Pointer[[]string] // addresses

	server *http.Server
	cancel context.CancelFunc
	done   sync.WaitGroup
}

func startProxy(c *cluster) (*proxy, error) {
	l, err := net.Listen("tcp", c.o.addr)
	if err != nil {
		return nil, err
	}
	p := &proxy{c: c, addr: l.Addr().String()}
	quiet := log.New(c.say.writer("proxy | "), "", 0)
	p.server = &http.Server{ErrorLog: quiet, ReadHeaderTimeout: 10 * time.Second, Handler: &httputil.ReverseProxy{
		ErrorLog: quiet,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(p.pick(r.In))
			r.Out.Host = r.In.Host // origins are compared with it
			r.SetXForwarded()
		},
		Transport: &http.Transport{MaxIdleConnsPerHost: 64},
	}}
	var ctx context.Context
	ctx, p.cancel = context.WithCancel(context.Background())
	p.look(ctx)
	p.done.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-time.After(lookEvery):
				p.look(ctx)
			}
		}
	})
	p.done.Go(func() {
		if err := p.server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			c.say.printf("proxy | %v", err)
		}
	})
	return p, nil
}

// look asks all Desks whether they are ready.
func (p *proxy) look(ctx context.Context) {
	ready := make([]bool, len(p.c.nodes))
	var all sync.WaitGroup
	for i, n := range p.c.nodes {
		all.Go(func() {
			_, err := n.ready(ctx)
			ready[i] = err == nil
		})
	}
	all.Wait()
	var addrs []string
	for i, n := range p.c.nodes {
		if ready[i] {
			addrs = append(addrs, n.addr)
		}
	}
	p.ready.Store(&addrs)
}

// pick returns the address of a Desk: any that is ready, and for long polls always the same one. If none is ready, it is one
// that is not: the answer says so.
func (p *proxy) pick(r *http.Request) *url.URL {
	addrs := *p.ready.Load()
	if len(addrs) == 0 {
		addrs = []string{p.c.nodes[0].addr}
	}
	i := rand.IntN(len(addrs))
	if strings.HasPrefix(r.URL.Path, "/api/v1/poll") {
		host, _, _ := net.SplitHostPort(r.RemoteAddr)
		sum := fnv.New32a()
		_, _ = sum.Write([]byte(host))
		i = int(sum.Sum32() % uint32(len(addrs)))
	}
	return &url.URL{Scheme: "http", Host: addrs[i]}
}

func (p *proxy) stop() {
	p.cancel()
	_ = p.server.Close() // with the connections that were handed over, whose Desks end
	p.done.Wait()
}

// writer returns a writer of lines that begin in a way.
func (l *lines) writer(begin string) lineWriter { return lineWriter{l, begin} }

type lineWriter struct {
	l     *lines
	begin string
}

func (w lineWriter) Write(b []byte) (int, error) {
	w.l.printf("%s%s", w.begin, b[:max(len(b)-1, 0)]) // without its end
	return len(b), nil
}
