package eddy

import (
	"io"
	"net"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/go-eddy/eddy/buf"
)

// TestKeepAliveDefault: silent peers are asked whether they live, unless the server or the dialer says otherwise. Accepted
// connections inherit it.
func TestKeepAliveDefault(t *testing.T) {
	if os.Getenv("EDDY_POLLER") == "net" {
		t.Skip("descriptors of net are not the kernel's, so it cannot be asked about them")
	}
	expect := func(kind string, set time.Duration, fd, seconds int) {
		t.Helper()
		on, err1 := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_KEEPALIVE)
		idle, err2 := unix.GetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_KEEPIDLE)
		if err1 != nil || err2 != nil || on != boolFlag(seconds > 0) || on*idle != seconds {
			t.Errorf("%s.KeepAlive %v: on %d, %d s; want %d s; %v, %v", kind, set, on, idle, seconds, err1, err2)
		}
	}
	init := func(p *Pipeline) error {
		return p.Add("app", Handle(func(*Context, *buf.Bytes) error { return nil }))
	}
	for set, seconds := range map[time.Duration]int{0: int(defaultKeepAlive / time.Second), time.Hour: 3600, -1: 0} {
		srv := &Server{Loops: 1, KeepAlive: set, Init: init}
		if err := srv.Listen("tcp", "127.0.0.1:0"); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { srv.Close() })
		expect("Server", set, srv.running().acceptors[0].FD, seconds)
		d := &Dialer{KeepAlive: set, Init: init}
		t.Cleanup(func() { d.Close() })
		c, err := d.Dial(t.Context(), "tcp", srv.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		expect("Dialer", set, c.fd, seconds)
	}
}

// TestSocketOptions asks the kernel: the listener is bound where it was told to, with its backlog and an address that can
// be bound again at once; an accepted socket does not block, does not delay and is not inherited.
func TestSocketOptions(t *testing.T) {
	if os.Getenv("EDDY_POLLER") == "net" {
		t.Skip("descriptors of net are not the kernel's, so it cannot be asked about them")
	}
	conns := make(chan *Conn, 1)
	serve := func(address string, backlog int) *Server {
		srv := &Server{Loops: 1, Backlog: backlog, KeepAlive: 77 * time.Second, RecvBuffer: 40_000, Init: func(p *Pipeline) error {
			return p.Add("app", Handle(func(ctx *Context, _ *buf.Bytes) error { conns <- ctx.conn; return nil }))
		}}
		if err := srv.Listen("tcp", address); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { srv.Close() })
		return srv
	}
	srv := serve("127.0.0.2:0", 33)
	if ip := srv.Addr().(*net.TCPAddr).IP; !ip.Equal(net.IPv4(127, 0, 0, 2)) {
		t.Errorf("bound to %v", ip)
	}
	info, err := unix.GetsockoptTCPInfo(srv.running().acceptors[0].FD, unix.IPPROTO_TCP, unix.TCP_INFO)
	if err != nil {
		t.Fatal(err)
	}
	if info.Sacked != 33 { // where the kernel reports the limit of a listening socket
		t.Errorf("backlog %d, want 33", info.Sacked)
	}
	c, err := net.Dial("tcp", srv.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	io.WriteString(c, "x")
	fd := (<-conns).fd
	for what, get := range map[string]func() (int, error){
		"TCP_NODELAY": func() (int, error) { return unix.GetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY) },
		"SO_KEEPALIVE with TCP_KEEPIDLE 77": func() (int, error) {
			on, _ := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_KEEPALIVE)
			v, err := unix.GetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_KEEPIDLE)
			return on * boolFlag(v == 77), err
		},
		"SO_RCVBUF twice 40,000": func() (int, error) {
			v, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF)
			return boolFlag(v == 80_000), err
		},
		"O_NONBLOCK": func() (int, error) {
			v, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
			return v & unix.O_NONBLOCK, err
		},
		"FD_CLOEXEC": func() (int, error) {
			v, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
			return v & unix.FD_CLOEXEC, err
		},
	} {
		if v, err := get(); v == 0 || err != nil {
			t.Errorf("%s is off (%v)", what, err)
		}
	}
	address := srv.Addr().String()
	if err := srv.Close(); err != nil { // ends the connection first, so that it lingers in TIME_WAIT on this side
		t.Fatal(err)
	}
	serve(address, 0)
}

func boolFlag(on bool) int {
	if on {
		return 1
	}
	return 0
}
