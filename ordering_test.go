package eddy_test

import (
	"bytes"
	"io"
	"sync/atomic"
	"testing"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/buf"
)

// TestMessageInPartsIsOneMessage: a message of several slices is taken or refused whole.
func TestMessageInPartsIsOneMessage(t *testing.T) {
	var result atomic.Pointer[error]
	for _, policy := range []eddy.OverflowPolicy{eddy.OverflowClose, eddy.OverflowReject} {
		srv := &eddy.Server{Loops: 1, Overflow: policy, Watermarks: eddy.Watermarks{Low: 1 << 10, High: 4 << 10, Max: 16 << 10},
			Init: initWith(eddy.Handle(func(ctx *eddy.Context, _ *buf.Bytes) error {
				err := ctx.Write([][]byte{[]byte("head"), make([]byte, 64<<10), []byte("tail")})
				result.Store(&err)
				return nil
			}))}
		c := dial(t, start(t, srv))
		io.WriteString(c, "x")
		got := make([]byte, 8+64<<10)
		if _, err := io.ReadFull(c, got); err != nil || !bytes.HasSuffix(got, []byte("tail")) {
			t.Errorf("policy %d: %v, write returned %v", policy, err, *result.Load())
		}
	}
}
