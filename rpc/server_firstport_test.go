package rpc_test

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"
	"testing"

	"github.com/go-eddy/eddy/rpc"
)

// TestFirstPort: a port that is looked for is the first free one, and says so; where all that are tried are taken, the error names them.
func TestFirstPort(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	first := taken.Addr().(*net.TCPAddr).Port
	srv, err := rpc.NewServer(rpc.ServerOptions{Ports: []rpc.PortOptions{{Addr: "127.0.0.1:-1", FirstPort: first}}})
	if err != nil {
		t.Fatal(err)
	}
	defer srv.Close()
	if err := srv.Listen(); err != nil {
		t.Fatal(err)
	}
	if got := srv.Addr("port0").(*net.TCPAddr).Port; got <= first || got >= first+100 {
		t.Errorf("port %d, from %d on", got, first)
	}
	for _, o := range []rpc.PortOptions{{Addr: "127.0.0.1:-1", FirstPort: -1}, {Addr: "127.0.0.1:-1", FirstPort: 65536}, {Addr: "127.0.0.1:80", FirstPort: 80}} {
		if _, err := rpc.NewServer(rpc.ServerOptions{Ports: []rpc.PortOptions{o}}); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("FirstPort is %d", o.FirstPort)) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

// TestFirstPortTaken: no port behind the last one is tried.
func TestFirstPortTaken(t *testing.T) {
	last, err := net.Listen("tcp", "127.0.0.1:65535")
	if err != nil && !errors.Is(err, syscall.EADDRINUSE) {
		t.Skip(err)
	} else if err == nil {
		defer last.Close()
	}
	srv, err := rpc.NewServer(rpc.ServerOptions{Ports: []rpc.PortOptions{{Addr: "127.0.0.1:-1", FirstPort: 65535}}})
	if err != nil {
		t.Fatal(err)
	}
	defer srv.Close()
	if err := srv.Listen(); err == nil || !strings.Contains(err.Error(), "no port from 65535 to 65535 is free") {
		t.Error(err)
	}
}
