package eddy_test

import (
	"crypto/tls"
	"io"
	"net"
	"sync"
	"testing"
)

// flowBuffer is the size of the kernel's buffers behind a slow reader, in bytes: a few segments of the loopback interface,
// so that senders do not wait for timers of the kernel.
const flowBuffer = 256 << 10

// flowRelay stands between clients and a server and carries their bytes at the pace of a cell. To the server it speaks TLS
// where the cell does.
type flowRelay struct {
	t    *testing.T
	ln   net.Listener
	addr string
	cell *flowCell
	asks chan<- chan<- struct{}
	over chan struct{}
	all  sync.WaitGroup

	mu    sync.Mutex
	conns []net.Conn
}

func newFlowRelay(t *testing.T, addr string, c *flowCell, asks chan<- chan<- struct{}) *flowRelay {
	r := &flowRelay{t: t, ln: listenLocal(t), addr: addr, cell: c, asks: asks, over: make(chan struct{})}
	r.all.Go(func() {
		for {
			client, err := r.ln.Accept()
			if err != nil {
				return // closed
			}
			r.all.Go(func() { r.carry(client) })
		}
	})
	return r
}

// close ends what is still carried and returns when nothing of the relay is left.
func (r *flowRelay) close() {
	close(r.over)
	_ = r.ln.Close()
	r.mu.Lock()
	conns := r.conns
	r.mu.Unlock()
	for _, c := range conns {
		_ = c.Close()
	}
	r.all.Wait()
}

// keep notes a connection for close, and reports whether the relay goes on.
func (r *flowRelay) keep(c net.Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.conns = append(r.conns, c)
	select {
	case <-r.over:
		_ = c.Close()
		return false
	default:
		return true
	}
}

// carry connects a client to the server and returns at the end of both directions.
func (r *flowRelay) carry(client net.Conn) {
	if !r.keep(client) {
		return
	}
	defer client.Close()
	server, err := net.Dial("tcp", r.addr)
	if err != nil {
		r.t.Errorf("the relay reaches no server: %v", err)
		return
	}
	if !r.keep(server) {
		return
	}
	if r.cell.pace.piece > 0 {
		if err := server.(*net.TCPConn).SetReadBuffer(flowBuffer); err != nil {
			r.t.Error(err)
		}
	}
	if r.cell.protocol.tls {
		server = tls.Client(server, &tls.Config{InsecureSkipVerify: true})
	}
	defer server.Close()
	up := make(chan struct{})
	go func() {
		defer close(up)
		r.forward(server, client)
	}()
	r.forward(client, server)
	<-up
}

// forward carries one direction to its end.
func (r *flowRelay) forward(to, from net.Conn) {
	most := 64 << 10
	piece := r.cell.pace.piece
	if piece > 0 {
		most = min(most, piece)
	}
	buf := make([]byte, most)
	for left := 0; ; {
		if piece > 0 && left <= 0 {
			if left = piece; !r.ask() {
				return
			}
		}
		n, err := from.Read(buf)
		left -= n
		if _, failed := to.Write(buf[:n]); failed != nil || err != nil {
			break
		}
	}
	if half, ok := to.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
	_, _ = io.Copy(io.Discard, from)
}

// ask waits until the test lets the direction go on, and reports whether there is anything to go on with.
func (r *flowRelay) ask() bool {
	answer := make(chan struct{})
	select {
	case r.asks <- answer:
	case <-r.over:
		return false
	}
	<-answer
	return true
}
