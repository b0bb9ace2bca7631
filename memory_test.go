package eddy

import (
	"fmt"
	"strings"
	"testing"

	"github.com/go-eddy/eddy/buf"
	"github.com/go-eddy/eddy/internal/meter"
	"github.com/go-eddy/eddy/internal/transport"
)

// TestSmallRestKeepsNoLargeSegment: what a connection holds between two reads is of the size of its unfinished frame, not
// of the frames that came before it.
func TestSmallRestKeepsNoLargeSegment(t *testing.T) {
	srv := cutServer(func(*Context, string) error { return nil })
	for _, rest := range []int{1, 100, 3000, 20_000} {
		t.Run(fmt.Sprint(rest), func(t *testing.T) {
			st, l := newStage(t, srv)
			a := st.connect(l)
			a.send(strings.Repeat("x", 60_000)) // a frame that outgrows the scratch buffer
			l.Iterate()
			for range 6 {
				a.send(strings.Repeat("x", 200_000))
				l.Iterate()
			}
			if a.conn.in.Memory() < 1<<20 {
				t.Fatal("the frame does not lie in a large segment")
			}
			a.send(";" + strings.Repeat("y", rest))
			for range 3 {
				l.Iterate()
			}
			if n := a.conn.in.Len(); n != rest {
				t.Fatalf("the connection holds %d bytes", n)
			}
			if n := a.conn.in.Memory(); n > transport.RoomyFactor*max(rest, buf.MinSegment) {
				t.Errorf("a rest of %d bytes holds a segment of %d", rest, n)
			}
			a.send(";")
			l.Iterate()
			if l.Counters[meter.Messages] != 2 || a.conn.in.Held() {
				t.Errorf("%d messages", l.Counters[meter.Messages])
			}
			if n := l.mem.segments.Retained(); n > retainedBuffers {
				t.Errorf("the loop keeps %d bytes of free segments, limit %d", n, retainedBuffers)
			}
		})
	}
}

// TestFramesInHandShrink: frames that wait for their turn give memory back as they are taken.
func TestFramesInHandShrink(t *testing.T) {
	srv := cutServer(func(*Context, string) error { return nil })
	st, l := newStage(t, srv)
	a := st.connect(l)
	frame := strings.Repeat("x", 1000) + ";"
	a.send(strings.Repeat("x", 50_000))
	l.Iterate()
	for range 4 {
		a.send(strings.Repeat("x", 200_000))
		l.Iterate()
	}
	a.send(";" + strings.Repeat(frame, 100))
	for sent := false; !sent || a.conn.in.Held(); sent = true {
		l.Iterate()
		if in := &a.conn.in; in.Memory() > transport.RoomyFactor*max(in.Len(), buf.MinSegment) {
			t.Errorf("%d bytes in hand hold a segment of %d", in.Len(), in.Memory())
		}
	}
	if n := l.Counters[meter.Messages]; n != 101 {
		t.Errorf("%d messages, want 101", n)
	}
}

// TestPooledMemoryIsBounded: after thousands of connections have queued and left megabytes, a loop keeps what its limit
// allows, and all of it is free.
func TestPooledMemoryIsBounded(t *testing.T) {
	st, l := newStage(t, countedServer(nil))
	copied := strings.Repeat("copied", 15_000) // nine megabytes in each round, with the counted ones: more than twice the limit
	for range 20 {
		var all []*actor
		for range 50 {
			a := st.connect(l)
			a.room = 0
			write(t, a.conn, a.conn.Buffers().Get(100_000))
			write(t, a.conn, copied)
			all = append(all, a)
		}
		l.Iterate()
		for i, a := range all {
			if i%2 == 0 {
				a.room = 1 << 30
			} else {
				a.conn.Close(CloseNormal)
			}
		}
		l.Iterate()
		for _, a := range all {
			a.conn.Close(CloseNormal)
		}
		l.Iterate()
		if n := l.mem.segments.Retained(); n > retainedBuffers || n == 0 {
			t.Fatalf("the loop keeps %d bytes of free segments, limit %d", n, retainedBuffers)
		}
		if shared := l.crew.shared; shared.Live() != 0 || shared.Retained() > retainedBuffers {
			t.Fatalf("%d counted buffers live, %d bytes kept, limit %d", shared.Live(), shared.Retained(), retainedBuffers)
		}
	}
}
