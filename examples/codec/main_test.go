package main

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/examples/internal/try"
	"github.com/go-eddy/eddy/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestCodec: messages are answered, also when they come in halves. A malformed one ends the connection as soon as that
// shows.
func TestCodec(t *testing.T) {
	srv := server()
	addr := try.Serve(t, srv)
	big := strings.Repeat("x", 1000)
	for _, c := range []struct {
		pieces []string
		want   string
		reason eddy.CloseReason
	}{
		{[]string{"5:hello,0:,3:you,"}, "5:HELLO,0:,3:YOU,", eddy.ClosePeerClosed},
		{[]string{"1", "1:is th", "ere, a", ","}, "11:IS THERE, A,", eddy.ClosePeerClosed},
		{[]string{"3:abc"}, "", eddy.CloseIncompleteRequest},
		{[]string{"1000:" + big + ","}, "1000:" + strings.ToUpper(big) + ",", eddy.ClosePeerClosed},
		{[]string{"1001:"}, "", eddy.CloseFrameTooLarge},
		{[]string{"hello"}, "", eddy.CloseProtocolError},
		{[]string{":"}, "", eddy.CloseProtocolError},
		{[]string{"1:ab"}, "", eddy.CloseProtocolError},
		{[]string{"99999"}, "", eddy.CloseProtocolError},
	} {
		before := srv.Stats().Closed[c.reason]
		conn := try.Dial(t, addr)
		for _, p := range c.pieces {
			if _, err := io.WriteString(conn, p); err != nil {
				t.Error(err)
			}
		}
		if c.reason == eddy.ClosePeerClosed || c.reason == eddy.CloseIncompleteRequest {
			got := make([]byte, len(c.want))
			if _, err := io.ReadFull(conn, got); err != nil || string(got) != c.want {
				t.Errorf("%q: %q (%v), want %q", c.pieces, got, err, c.want)
			}
		} else if n, err := io.Copy(io.Discard, conn); n > 0 || err != nil {
			t.Errorf("%q: %d bytes of answer, %v", c.pieces, n, err)
		}
		_ = conn.Close()
		testkit.Eventually(t, fmt.Sprintf("the end of %q with %v", c.pieces, c.reason), func() bool { return srv.Stats().Closed[c.reason] > before })
	}
}
