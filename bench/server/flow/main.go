// Command flow is a server with large answers or requests, or with -client its callers, over one of several protocols.
// Limits of the libraries keep their defaults, except for the length of one message.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/rpc"
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/bench/internal/target"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/http1"
	"github.com/go-eddy/eddy/internal/chaos"
	eddyrpc "github.com/go-eddy/eddy/rpc"
)

// flow is what server and callers have in common.
type flow struct {
	*target.Calls
	proto  string
	upload bool   // requests are large and answers empty; else requests are empty and answers large
	pace   string // pace of the callers' network
	large  []byte
}

var protocols = map[string]struct{ serve, call func(*flow) error }{
	"net/rpc":    {(*flow).serveNetRPC, (*flow).callNetRPC},
	"eddy/rpc":   {(*flow).serveEddyRPC, (*flow).callEddyRPC},
	"net/http":   {(*flow).serveNetHTTP, (*flow).callHTTP},
	"eddy/http1": {(*flow).serveEddyHTTP, (*flow).callHTTP},
}

func main() {
	f := &flow{Calls: target.CallFlags()}
	flag.StringVar(&f.proto, "proto", "net/rpc", "net/rpc, eddy/rpc, net/http or eddy/http1")
	flag.BoolVar(&f.upload, "upload", false, "requests are large, not answers")
	flag.StringVar(&f.pace, "pace", "fast", "of the callers' network: fast, slow (1 MB/s for each connection) or stop-and-go (by turns 50 ms)")
	flag.Parse()
	f.large = make([]byte, f.Size)
	if err := f.Profiled(f.run); err != nil {
		log.Fatalf("flow: %s: %v", f.proto, err)
	}
}

func (f *flow) run() error {
	p, ok := protocols[f.proto]
	switch {
	case !ok:
		return errors.New("no such protocol")
	case f.Addr == "":
		return p.serve(f)
	case f.pace == "fast":
		return p.call(f)
	}
	network, err := chaos.New(f.Addr)
	if err != nil {
		return err
	}
	defer network.Close()
	f.Addr = network.Addr()
	if f.pace == "slow" {
		network.Throttle(1_000_000)
		return p.call(f)
	}
	over := make(chan struct{})
	defer close(over)
	go func() {
		for turn := time.NewTicker(50 * time.Millisecond); ; {
			for _, stalled := range []bool{true, false} {
				network.Stall(stalled)
				select {
				case <-turn.C:
				case <-over:
					turn.Stop()
					network.Stall(false)
					return
				}
			}
		}
	}()
	return p.call(f)
}

// request is what callers send, answer what they get.
func (f *flow) request() []byte {
	if f.upload {
		return f.large
	}
	return nil
}

func (f *flow) answer() []byte {
	if f.upload {
		return nil
	}
	return f.large
}

// done checks an answer and returns the size of the large part of the call.
func (f *flow) done(answer int, err error) (int, error) {
	if err == nil && answer != len(f.answer()) {
		err = fmt.Errorf("an answer of %d bytes, want %d", answer, len(f.answer()))
	}
	return f.Size, err
}

// Flow is the service of package net/rpc.
type Flow struct{ f *flow }

// Call has the large answer, or takes the large request.
func (s Flow) Call(req *[]byte, resp *[]byte) error {
	*resp = s.f.answer()
	return nil
}

func (f *flow) serveNetRPC() error {
	srv := rpc.NewServer()
	if err := srv.Register(Flow{f}); err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	go srv.Accept(l)
	target.Serve(l.Addr())
	return nil
}

func (f *flow) callNetRPC() error {
	cl, err := rpc.Dial("tcp", f.Addr)
	if err != nil {
		return err
	}
	defer cl.Close()
	request := f.request()
	return f.Run(func([]byte) (int, error) {
		var resp []byte
		err := cl.Call("Flow.Call", &request, &resp)
		return f.done(len(resp), err)
	})
}

// longest returns the limit of one message, headers included.
func (f *flow) longest() int { return f.Size + 1<<10 }

var key = eddyrpc.Key{Interface: "bench.Flow"}

func (f *flow) serveEddyRPC() error {
	srv, err := eddyrpc.NewServer(eddyrpc.ServerOptions{
		Logger: slog.New(slog.DiscardHandler),
		Ports:  []eddyrpc.PortOptions{{Name: "flow", Addr: "127.0.0.1:0", MaxPayload: f.longest()}},
	})
	if err != nil {
		return err
	}
	svc, err := eddyrpc.NewService(key, eddyrpc.Raw("Call", func(context.Context, []byte) ([]byte, error) { return f.answer(), nil }))
	if err := errors.Join(err, srv.Register(svc), srv.Listen()); err != nil {
		return err
	}
	target.Serve(srv.Addr("flow"))
	return srv.Close()
}

func (f *flow) callEddyRPC() error {
	cl, err := eddyrpc.NewClient(eddyrpc.ClientOptions{Addrs: []string{f.Addr}, Timeout: time.Minute, MaxPayload: f.longest(),
		MaxWaiting: max(64<<20, f.Callers*f.longest())}) // the default is too little for all requests together
	if err != nil {
		return err
	}
	defer cl.Close()
	return f.Run(func([]byte) (int, error) {
		resp, err := eddyrpc.Invoke[[]byte](context.Background(), cl, key, "Call", f.request())
		if err != nil {
			return 0, err
		}
		return f.done(len(*resp), nil)
	})
}

func (f *flow) serveNetHTTP() error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	go http.Serve(l, f)
	target.Serve(l.Addr())
	return nil
}

func (f *flow) serveEddyHTTP() error {
	pool, err := executor.NewFixed(executor.Options{Name: "http", Workers: 64, Queue: 1024})
	if err != nil {
		return err
	}
	defer pool.Close()
	srv := &eddy.Server{Init: http1.NewHandler(f, pool, http1.Options{}).Init, Logger: slog.New(slog.DiscardHandler)}
	if err := srv.Listen("tcp", "127.0.0.1:0"); err != nil {
		return err
	}
	target.Serve(srv.Addr())
	return srv.Close()
}
