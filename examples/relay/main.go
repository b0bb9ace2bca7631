// Command relay is a TCP proxy from 127.0.0.1:7000 to the given address. Each side is read as fast as the other takes it, and the end of one
// direction is passed on alone. Try it: go run ./examples/relay example.com:80, and curl -H 'Host: example.com' 127.0.0.1:7000
package main

import (
	"context"
	"errors"
	"log"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/relay"
)

// A program is the server and the dialer of a relay. They share their loops, so that both sides of a pair are on one loop.
type program struct {
	loops  *eddy.Group
	dialer *eddy.Dialer
	srv    *eddy.Server
}

func newProgram(target net.Addr, done func(relay.Report)) (*program, error) {
	p := &program{loops: &eddy.Group{}}
	p.dialer = &eddy.Dialer{
		Group: p.loops, ConnectTimeout: 5 * time.Second, BackpressureTimeout: time.Minute,
	}
	r, err := relay.New(relay.Options{
		Dialer: p.dialer,
		Target: func(*eddy.Conn) (net.Addr, error) { return target, nil },
		Idle:   10 * time.Minute,
		Done:   done,
	})
	if err != nil {
		return nil, err
	}
	p.srv = &eddy.Server{
		Group: p.loops, Init: r.Init, MaxConns: 10_000, BackpressureTimeout: time.Minute,
	}
	return p, nil
}

// end lets the relayed connections finish, for grace at most.
func (p *program) end(grace time.Duration) (eddy.DrainReport, error) {
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	report, err := p.srv.Shutdown(ctx)
	return report, errors.Join(err, p.dialer.Close(), p.loops.Close())
}

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: relay HOST:PORT")
	}
	target, err := net.ResolveTCPAddr("tcp", os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	p, err := newProgram(target, func(r relay.Report) {
		log.Printf("%s: %d bytes there, %d back, %v, %v", r.Client, r.In, r.Out, r.Took.Round(time.Millisecond), r.Reason)
	})
	if err == nil {
		err = p.srv.Listen("tcp", "127.0.0.1:7000")
	}
	if err != nil {
		log.Fatal(err)
	}
	told, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	<-told.Done()
	stop() // a second signal ends the program at once
	report, err := p.end(10 * time.Second)
	log.Printf("%d connections drained, %d forced, %v", report.Drained, report.Forced, err)
}
