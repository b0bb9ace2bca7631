package tlsx

import (
	"bytes"
	"crypto/tls"
	"net"
	"testing"
	"unsafe"
)

// TestBuffersAreLent: crypto/tls of this release has the buffers that lend knows of; between two reads it holds no memory
// in them, whatever has been read, and reading goes on as if nothing had happened.
func TestBuffersAreLent(t *testing.T) {
	f := layout()
	if !f.known {
		t.Fatal("tls.Conn has other fields than lend.go knows: it keeps its buffers")
	}
	cert, err := SelfSigned("localhost")
	if err != nil {
		t.Fatal(err)
	}
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		a, b := net.Pipe()
		client := tls.Client(a, &tls.Config{InsecureSkipVerify: true, MaxVersion: version})
		over := make(chan error, 1)
		go func() { over <- client.Handshake() }()
		server := tls.Server(b, &tls.Config{Certificates: []tls.Certificate{cert}, SessionTicketsDisabled: true})
		if err := server.Handshake(); err != nil {
			t.Fatal(err)
		}
		if err := <-over; err != nil {
			t.Fatal(err)
		}
		shed(server)
		held := func() int {
			raw := (*bytes.Buffer)(unsafe.Add(unsafe.Pointer(server), f.raw))
			hand := (*bytes.Buffer)(unsafe.Add(unsafe.Pointer(server), f.hand))
			return raw.Cap() + hand.Cap()
		}
		if n := held(); n != 0 {
			t.Errorf("after the handshake %d bytes are held", n)
		}
		for _, n := range []int{1, 100, maxPlain, 5} {
			go client.Write(make([]byte, n))
			got := 0
			for got < n {
				lent := lend(server)
				if lent == nil {
					t.Fatal("nothing was lent")
				}
				k, err := server.Read(make([]byte, maxPlain))
				takeBack(server, lent)
				if err != nil {
					t.Fatal(err)
				}
				got += k
			}
			if n := held(); n != 0 {
				t.Errorf("after %d bytes %d are held", got, n)
			}
		}
		a.Close()
		b.Close()
	}
}
