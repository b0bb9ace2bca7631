package tlsx

import (
	"bytes"
	"crypto/tls"
	"errors"
	"net"
	"testing"
	"time"
	"unsafe"

	"github.com/go-eddy/eddy/internal/testkit"
)

// TestBuffersAreLent: the tls.Conn of this release has the buffers that lend knows. Between two reads it holds no
// memory in them, whatever has been read, and reading works as usual.
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

// atOnce is a connection whose Read returns everything that was written to it.
type atOnce struct {
	net.Conn
	in *bytes.Buffer
}

func (c atOnce) Read(p []byte) (int, error) {
	if c.in.Len() > 0 {
		return c.in.Read(p)
	}
	return c.Conn.Read(p)
}

// TestLentBufferWithBytesLeft: bytes that crypto/tls has read beyond a record, or that its reader has not taken, are
// there for the next reads, lent or not.
func TestLentBufferWithBytesLeft(t *testing.T) {
	for _, reads := range [][]string{{"first ", "record", "second record"}, {"first record", "second record"}} {
		t.Run(reads[0], func(t *testing.T) { readLent(t, reads) })
	}
}

func readLent(t *testing.T, reads []string) {
	cert, err := SelfSigned("localhost")
	if err != nil {
		t.Fatal(err)
	}
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	client := tls.Client(a, &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS12})
	in := new(bytes.Buffer)
	server := tls.Server(atOnce{b, in}, &tls.Config{Certificates: []tls.Certificate{cert}, SessionTicketsDisabled: true})
	over := make(chan error, 1)
	go func() { over <- client.Handshake() }()
	if err := server.Handshake(); err != nil {
		t.Fatal(err)
	}
	if err := <-over; err != nil {
		t.Fatal(err)
	}
	shed(server)
	wrote := make(chan error, 1)
	go func() {
		_, err1 := client.Write([]byte("first record"))
		_, err2 := client.Write([]byte("second record"))
		wrote <- errors.Join(err1, err2)
	}()
	for range 2 { // as records of a few bytes come: in one piece
		p := make([]byte, 4096)
		n, err := b.Read(p)
		if err != nil {
			t.Fatal(err)
		}
		in.Write(p[:n])
	}
	if err := <-wrote; err != nil {
		t.Fatal(err)
	}
	_ = b.SetReadDeadline(time.Now().Add(testkit.Patience))
	raw := (*bytes.Buffer)(unsafe.Add(unsafe.Pointer(server), layout().raw))
	for i, want := range reads {
		lent := lend(server)
		if i > 0 && lent != nil {
			t.Errorf("read %d: a buffer was lent to who has %d bytes in its own", i, raw.Len())
		}
		p := make([]byte, len(want))
		n, err := server.Read(p)
		takeBack(server, lent)
		other := lentBuffers.Get().(*[lentSize]byte) // whoever gets what was given back overwrites it
		clear(other[:])
		lentBuffers.Put(other)
		if err != nil || string(p[:n]) != want {
			t.Fatalf("read %d: %q, %v, want %q", i, p[:n], err, want)
		}
		shed(server) // takes nothing that is in use
	}
}
