package relay_test

import (
	"io"
	"net"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/relay"
)

// benchPair is a pair with plain sockets at its ends, and the kernel's own buffers.
func benchPair(b *testing.B) (client, server net.Conn, loop *eddy.Loop) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	g := &eddy.Group{Loops: 1, WaitMode: eddy.WaitPinned}
	d := &eddy.Dialer{Group: g}
	r, err := relay.New(relay.Options{Dialer: d, Target: func(*eddy.Conn) (net.Addr, error) { return l.Addr(), nil }})
	if err != nil {
		b.Fatal(err)
	}
	srv := &eddy.Server{Group: g, Init: r.Init}
	if err := srv.Listen("tcp", "127.0.0.1:0"); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _, _, _ = srv.Close(), d.Close(), g.Close() })
	if client, err = net.Dial("tcp", srv.Addr().String()); err != nil {
		b.Fatal(err)
	}
	if server, err = l.Accept(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { client.Close(); server.Close() })
	return client, server, g.Loop(0)
}

// processor returns the processor time of the loop's thread so far, in seconds.
func processor(b *testing.B, l *eddy.Loop) float64 {
	used := make(chan float64, 1)
	err := l.Post(func() {
		var u unix.Rusage
		_ = unix.Getrusage(unix.RUSAGE_THREAD, &u)
		used <- float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
	})
	if err != nil {
		b.Fatal(err)
	}
	return <-used
}

// BenchmarkBulk carries 2 GiB one way. cpu-s is the processor time of the relay's loop for that.
func BenchmarkBulk(b *testing.B) {
	const size = 2 << 30
	c, s, loop := benchPair(b)
	piece, into := make([]byte, 256<<10), make([]byte, 256<<10)
	b.SetBytes(size)
	used := 0.0
	for b.Loop() {
		from := processor(b, loop)
		go func() {
			for range size / len(piece) {
				if _, err := c.Write(piece); err != nil {
					b.Error(err)
					return
				}
			}
		}()
		for left := int64(size); left > 0; {
			n, err := s.Read(into)
			if err != nil {
				b.Fatal(err)
			}
			left -= int64(n)
		}
		used += processor(b, loop) - from
	}
	b.ReportMetric(used/float64(b.N), "cpu-s/op")
}

// BenchmarkEcho sends a message there and back. cpu-ns is the processor time of the relay's loop for that.
func BenchmarkEcho(b *testing.B) {
	for _, size := range []int{64, 8 << 10, 16 << 10, 64 << 10, 256 << 10} {
		b.Run(strconv.Itoa(size), func(b *testing.B) {
			c, s, loop := benchPair(b)
			go func() {
				for p := make([]byte, size); ; {
					if _, err := io.ReadFull(s, p); err != nil {
						return
					}
					_, _ = s.Write(p)
				}
			}()
			p := make([]byte, size)
			b.ReportAllocs()
			from := processor(b, loop)
			for b.Loop() {
				if _, err := c.Write(p); err != nil {
					b.Fatal(err)
				}
				if _, err := io.ReadFull(c, p); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric((processor(b, loop)-from)*1e9/float64(b.N), "cpu-ns/op")
		})
	}
}
