package http2

import (
	"strings"
	"testing"

	wire "golang.org/x/net/http2"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/internal/enginetest"
	"github.com/go-eddy/eddy/internal/testkit"
)

// TestTunnelStopsAtTheMark: what one frame brings is not decoded any further once the answers have filled the queue, and goes on when
// there is room again.
func TestTunnelStopsAtTheMark(t *testing.T) {
	const count = 16
	s := startTunnels(t, setup{adjust: func(srv *eddy.Server) { srv.Watermarks = tunnelMarks }}, echoLine)
	r := s.dial(wire.Setting{ID: wire.SettingInitialWindowSize, Val: 0})
	l := s.tunnel(r, 1)
	line := strings.Repeat("x", 998)
	r.data(1, false, strings.Repeat(line+"\n", count))
	testkit.Eventually(t, "a full queue", func() bool { return !l.Writable() })
	enginetest.Barrier(t, s.srv)
	if n := l.QueuedBytes(); n != 5*999 {
		t.Errorf("%d bytes are queued, want five answers, the last of which has passed 4000", n)
	}
	r.send(func() error { return r.WriteWindowUpdate(1, 999*count) })
	r.wantData(1, strings.Repeat(line+"!", count))
}
