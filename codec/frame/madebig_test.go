package frame

import (
	"bytes"
	"context"
	"testing"

	"github.com/go-eddy/eddy/internal/enginetest"
	"github.com/go-eddy/eddy/internal/testkit"
)

// TestBigMadePayloadsAreNotSharedOut: a long payload made in a request's memory is given to the connection. No later
// request uses that memory while the payload waits to be sent.
func TestBigMadePayloadsAreNotSharedOut(t *testing.T) {
	const requests, size = 60, 50_000
	narrow := &set{o: Options{Append: func(_ context.Context, f *Frame, dst []byte) ([]byte, error) {
		return append(dst, bytes.Repeat([]byte{byte(f.ID)}, size)...), nil
	}}}
	enginetest.Narrow(&narrow.srv)
	r, _ := newRouted(t, narrow)
	c := r.dialNarrow()
	for id := range uint64(requests) {
		c.ask(id+1, 2, []string{"pool", "loop"}[id%2])
	}
	low := int64(narrow.srv.Watermarks.Low) // below it the server would read on
	testkit.Eventually(t, "the socket to be full", func() bool { return r.srv.Stats().Memory.Outbound > low })
	for range requests {
		if a := c.read(); len(a.payload) != size || bytes.Count([]byte(a.payload), []byte{byte(a.id)}) != size {
			t.Fatalf("response %d of %d bytes has bytes of another one", a.id, len(a.payload))
		}
	}
}
