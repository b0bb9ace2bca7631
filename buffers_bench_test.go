package eddy

import (
	"fmt"
	"testing"

	"github.com/go-eddy/eddy/buf"
)

// sink takes every write without looking at it, so that only the engine's own work is measured.
type sink struct{ stageSockets }

func (sink) Write(_ int, p []byte) (int, error) { return len(p), nil }

func (sink) Writev(_ int, bufs [][]byte) (n int, err error) {
	for _, b := range bufs {
		n += len(b)
	}
	return n, nil
}

func sinkLoop(b *testing.B, conns int) (*loop, []*Conn) {
	st, l := newStage(b, countedServer(nil))
	l.sock = sink{stageSockets{st}}
	var all []*Conn
	for range conns {
		all = append(all, st.connect(l).conn)
	}
	b.ReportAllocs()
	b.ResetTimer()
	return l, all
}

// BenchmarkBroadcast writes one message to 100 connections: as one counted buffer, or as a copy for each.
func BenchmarkBroadcast(b *testing.B) {
	for _, size := range []int{2 << 10, 16 << 10, 128 << 10} {
		text := make([]byte, size)
		b.Run(fmt.Sprintf("counted/%dKiB", size>>10), func(b *testing.B) {
			l, conns := sinkLoop(b, 100)
			for b.Loop() {
				s := l.crew.shared.Copy(text)
				for _, c := range conns {
					if err := c.writeFromTail(s.Retain()); err != nil {
						b.Fatal(err)
					}
				}
				s.Release()
				l.flushDirty()
			}
			if l.crew.shared.Live() != 0 {
				b.Error("a reference is left")
			}
		})
		b.Run(fmt.Sprintf("copies/%dKiB", size>>10), func(b *testing.B) {
			l, conns := sinkLoop(b, 100)
			for b.Loop() {
				for _, c := range conns {
					if err := c.writeFromTail(append(make([]byte, 0, size), text...)); err != nil {
						b.Fatal(err)
					}
				}
				l.flushDirty()
			}
		})
	}
}

// BenchmarkHeaderAndBody sends a header of 64 bytes and a body: joined as a composite, or by copying.
func BenchmarkHeaderAndBody(b *testing.B) {
	header := make([]byte, 64)
	for _, size := range []int{2 << 10, 16 << 10, 128 << 10} {
		body := make([]byte, size)
		send := func(b *testing.B, join func() any) {
			l, conns := sinkLoop(b, 1)
			for b.Loop() {
				if err := conns[0].writeFromTail(join()); err != nil {
					b.Fatal(err)
				}
				l.flushDirty()
			}
		}
		b.Run(fmt.Sprintf("composite/%dKiB", size>>10), func(b *testing.B) {
			send(b, func() any {
				c := new(buf.Composite)
				_ = c.Append(header)
				_ = c.Append(body)
				return c
			})
		})
		b.Run(fmt.Sprintf("copy/%dKiB", size>>10), func(b *testing.B) {
			send(b, func() any { return append(append(make([]byte, 0, len(header)+size), header...), body...) })
		})
	}
}
