//go:build unix

package sdnotify

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/go-eddy/eddy/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// manager is a service manager: the socket that it listens on.
type manager struct {
	t *testing.T
	c *net.UnixConn
}

func newManager(t *testing.T, path string) *manager {
	t.Helper()
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return &manager{t, c}
}

// next is what the manager hears next.
func (m *manager) next() string {
	m.t.Helper()
	b := make([]byte, 4096)
	m.c.SetReadDeadline(time.Now().Add(testkit.Patience))
	n, err := m.c.Read(b)
	if err != nil {
		m.t.Fatal(err)
	}
	return string(b[:n])
}

func environment(pairs ...string) func(string) string {
	return func(name string) string {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1]
			}
		}
		return ""
	}
}

// socketPath is short enough for a socket wherever the temporary directory is.
func socketPath(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "n")
	if len(path) > 100 {
		t.Chdir(filepath.Dir(path))
		return "/proc/self/cwd/n"
	}
	return path
}

func TestTell(t *testing.T) {
	path := socketPath(t)
	m := newManager(t, path)
	n := FromEnv(environment("NOTIFY_SOCKET", path), 7)
	for _, c := range []struct{ state, status, want string }{
		{Ready, "", "READY=1"},
		{Ready, "serving\non :80", "READY=1\nSTATUS=serving on :80"},
		{"", "draining", "STATUS=draining"},
		{Stopping, "", "STOPPING=1"},
	} {
		if err := n.Tell(c.state, c.status); err != nil {
			t.Fatal(err)
		}
		if got := m.next(); got != c.want {
			t.Errorf("told %q, want %q", got, c.want)
		}
	}
	m.c.Close()
	if err := n.Tell(Ready, ""); err == nil || !strings.HasPrefix(err.Error(), "sdnotify: ") {
		t.Errorf("nobody listens: %v", err)
	}
}

// TestManagerThatDoesNotRead: a full socket holds nobody up for long.
func TestManagerThatDoesNotRead(t *testing.T) {
	path := socketPath(t)
	newManager(t, path)
	n := FromEnv(environment("NOTIFY_SOCKET", path), 7)
	full := strings.Repeat("x", 4096)
	for range 100_000 {
		if err := n.Tell("", full); err != nil {
			return
		}
	}
	t.Error("a socket that nobody reads takes everything")
}

// TestAbstract: a name in the abstract namespace of Linux begins with "@".
func TestAbstract(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("abstract sockets are Linux's")
	}
	name := "@eddy-test-" + strings.ReplaceAll(t.TempDir(), "/", "-")
	name = name[:min(len(name), 100)]
	m := newManager(t, name)
	if err := FromEnv(environment("NOTIFY_SOCKET", name), 7).Tell(Ready, ""); err != nil {
		t.Fatal(err)
	}
	if got := m.next(); got != Ready {
		t.Errorf("told %q", got)
	}
}

func TestFromEnv(t *testing.T) {
	for _, c := range []struct {
		name     string
		env      []string
		manager  bool
		watchdog time.Duration
	}{
		{"nobody", nil, false, 0},
		{"no path", []string{"NOTIFY_SOCKET", "vsock:2:1234"}, false, 0},
		{"no watchdog", []string{"NOTIFY_SOCKET", "/run/n"}, true, 0},
		{"watchdog", []string{"NOTIFY_SOCKET", "/run/n", "WATCHDOG_USEC", "30000000"}, true, 30 * time.Second},
		{"for this process", []string{"NOTIFY_SOCKET", "/run/n", "WATCHDOG_USEC", "30000000", "WATCHDOG_PID", "7"}, true, 30 * time.Second},
		{"for another process", []string{"NOTIFY_SOCKET", "/run/n", "WATCHDOG_USEC", "30000000", "WATCHDOG_PID", "8"}, true, 0},
		{"no number", []string{"NOTIFY_SOCKET", "/run/n", "WATCHDOG_USEC", "soon"}, true, 0},
	} {
		n := FromEnv(environment(c.env...), 7)
		if (n != nil) != c.manager || n != nil && n.watchdog != c.watchdog {
			t.Errorf("%s: %+v", c.name, n)
		}
	}
	var none *Manager
	if err := none.Tell(Ready, ""); err != nil {
		t.Error(err)
	}
	none.Watch(func(context.Context) error { t.Error("looked for nobody"); return nil }, nil)()
}

// TestWatch: signs of life follow one another while all is well; none comes when not, but the reason.
func TestWatch(t *testing.T) {
	path := socketPath(t)
	m := newManager(t, path)
	n := FromEnv(environment("NOTIFY_SOCKET", path, "WATCHDOG_USEC", "400000"), 7)
	reported := make(chan error, 1000)
	well := func(ctx context.Context) error {
		if deadline, ok := ctx.Deadline(); !ok || deadline.After(time.Now().Add(200*time.Millisecond)) {
			t.Errorf("a check may take until %v", deadline)
		}
		return nil
	}
	stop := n.Watch(well, func(err error) { reported <- err })
	for range 3 {
		if got := m.next(); got != "WATCHDOG=1" {
			t.Errorf("told %q", got)
		}
	}
	stop()
	for len(reported) > 0 {
		t.Errorf("reported %v", <-reported)
	}
	path = filepath.Join(t.TempDir(), "n")
	if len(path) > 100 {
		t.Skip("the temporary directory has a name too long for a socket")
	}
	m = newManager(t, path)
	n = FromEnv(environment("NOTIFY_SOCKET", path, "WATCHDOG_USEC", "400000"), 7)
	ill := errors.New("loop 1 does not answer")
	stop = n.Watch(func(context.Context) error { return ill }, func(err error) {
		select {
		case reported <- err:
		default:
		}
	})
	for range 2 {
		if got := m.next(); got != "STATUS=no sign of life: loop 1 does not answer" {
			t.Errorf("told %q", got)
		}
	}
	stop()
	if err := <-reported; !errors.Is(err, ill) {
		t.Errorf("reported %v", err)
	}
}
