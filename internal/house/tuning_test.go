package house

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestTuningGuide looks in docs/tuning.md for each limit of the system, with the command that shows it, and for the
// cost of each way of polling. It also checks that the README links the page.
func TestTuningGuide(t *testing.T) {
	doc, err := os.ReadFile(filepath.Join(moduleRoot(t), "docs", "tuning.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, word := range []string{
		"## Listen queue", "`sysctl net.core.somaxconn`", "`sysctl net.ipv4.tcp_max_syn_backlog`", "ss -lnt", "TcpExtListenOverflows",
		"## Descriptors", "/proc/PID/limits", "`sysctl fs.nr_open`",
		"## Ports of clients and proxies", "`sysctl net.ipv4.ip_local_port_range`",
		"## Keep-alive", "ss -tno", "## Buffers", "ss -tmn", "## SO_REUSEPORT",
		"\n| `epoll` | Linux", "\n| `kqueue` | macOS", "\n| `poll` |", "\n| `select` |", "\n| `net` |",
		"**IOCP**", "**/dev/poll**", "**io_uring**",
		"| Linux | macOS | FreeBSD | OpenBSD | NetBSD |",
	} {
		if !strings.Contains(string(doc), word) {
			t.Errorf("docs/tuning.md does not say %q", word)
		}
	}
	if _, text := readme(t); !strings.Contains(text, "(docs/tuning.md)") {
		t.Error("README.md does not lead to docs/tuning.md")
	}
}
