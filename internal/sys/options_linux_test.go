package sys

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestBacklogLimit: the queue is as long as was asked for, and with 0 or too
// much as the system allows.
func TestBacklogLimit(t *testing.T) {
	text, err := os.ReadFile("/proc/sys/net/core/somaxconn")
	must(t, err)
	most, err := strconv.Atoi(strings.TrimSpace(string(text)))
	must(t, err)
	for _, c := range []struct{ backlog, want int }{
		{1, 1}, {33, min(33, most)}, {most, most}, {most + 1, most}, {0, min(most, longestBacklog)},
	} {
		for _, network := range []string{"tcp4", "tcp6"} {
			if network == "tcp6" && !haveIPv6() {
				continue
			}
			s := NewSockets()
			l, err := s.Listen(network, ":0", ListenOptions{Backlog: c.backlog})
			must(t, err)
			info, err := unix.GetsockoptTCPInfo(l.FD, unix.IPPROTO_TCP, unix.TCP_INFO)
			must(t, err)
			if got := int(info.Sacked); got != c.want { // where the kernel reports the limit of a listening socket
				t.Errorf("%s: backlog %d became %d, want %d", network, c.backlog, got, c.want)
			}
			must(t, s.Close(l.FD))
		}
	}
}
