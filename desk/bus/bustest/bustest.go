// Package bustest runs NATS servers for tests, inside the process of the test.
package bustest

import (
	"fmt"
	"net"
	"strconv"
	"testing"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/go-eddy/eddy/internal/testkit"
)

// Server is a NATS server at one address, which runs or does not. Methods run on the goroutine of the test.
type Server struct {
	t       *testing.T
	options server.Options
	run     *server.Server // nil = it does not run
}

// Start runs a server on a free port of this machine until the test ends. change, unless nil, changes its options.
func Start(t *testing.T, change func(*server.Options)) *Server {
	t.Helper()
	s := &Server{t: t, options: server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoLog: true, NoSigs: true}}
	if change != nil {
		change(&s.options)
	}
	s.Begin()
	t.Cleanup(s.End)
	return s
}

// Addr returns the address of the server, also while it does not run.
func (s *Server) Addr() string {
	return net.JoinHostPort(s.options.Host, strconv.Itoa(s.options.Port))
}

// URL returns the address for clients that need no password.
func (s *Server) URL() string { return "nats://" + s.Addr() }

// Begin lets the server run, at its address of before.
func (s *Server) Begin() {
	s.t.Helper()
	options := s.options // the server changes its own
	run, err := server.NewServer(&options)
	if err != nil {
		s.t.Fatalf("a NATS server: %v", err)
	}
	go run.Start()
	if !run.ReadyForConnections(testkit.Patience) {
		run.Shutdown()
		s.t.Fatalf("a NATS server does not begin: %v", run.Addr())
	}
	addr, ok := run.Addr().(*net.TCPAddr)
	if !ok {
		s.t.Fatalf("a NATS server listens at %v", run.Addr())
	}
	s.options.Port, s.run = addr.Port, run
}

// End ends the server, and cuts its connections. A server that does not run stays as it is.
func (s *Server) End() {
	if s.run != nil {
		s.run.Shutdown()
		s.run.WaitForShutdown()
		s.run = nil
	}
}

// Change changes the options for the next Begin.
func (s *Server) Change(change func(*server.Options)) { change(&s.options) }

// Clients returns how many clients are connected.
func (s *Server) Clients() int {
	if s.run == nil {
		return 0
	}
	return s.run.NumClients()
}

// User returns the address with a user and a password.
func (s *Server) User(name, password string) string {
	return fmt.Sprintf("nats://%s:%s@%s", name, password, s.Addr())
}
