package top

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/go-eddy/eddy/cmd/eddy/internal/cmdtest"
	"github.com/go-eddy/eddy/internal/testkit"
)

// pseudoTerminal returns both sides of one.
func pseudoTerminal(t *testing.T) (master, slave *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no pseudo terminals here: %v", err)
	}
	t.Cleanup(func() { master.Close() })
	n, err := unix.IoctlGetUint32(int(master.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		t.Skipf("no pseudo terminals here: %v", err)
	}
	slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no pseudo terminals here: %v", err)
	}
	t.Cleanup(func() { slave.Close() })
	return master, slave
}

// TestTopOnTerminal: on a terminal it draws on the other screen, fits the window and its changes, tells when the program does
// not answer any more, and leaves the terminal as it was at q, Ctrl+C and a signal.
func TestTopOnTerminal(t *testing.T) {
	t.Parallel()
	p := cmdtest.StartServer(t, "serve", "echo", "--addr", "127.0.0.1:0", "--admin", "127.0.0.1:0")
	addr := strings.TrimPrefix(p.Operator(), "http://")
	for i, end := range []string{"q", "\x03", ""} {
		master, slave := pseudoTerminal(t)
		resize := func(rows, columns uint16) {
			if err := unix.IoctlSetWinsize(int(master.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: columns}); err != nil {
				t.Fatal(err)
			}
		}
		resize(8, 40)
		before, err := unix.IoctlGetTermios(int(slave.Fd()), unix.TCGETS)
		if err != nil {
			t.Fatal(err)
		}
		cmd := cmdtest.Program("top", addr, "--interval", "100ms")
		cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
		shown := new(testkit.Output)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			cmd.Process.Kill()
			if t.Failed() {
				t.Logf("shown: %q", shown)
			}
		})
		go func() { // ends when the master is closed
			var b [4096]byte
			for {
				n, err := master.Read(b[:])
				if err != nil {
					return
				}
				shown.Write(b[:n])
			}
		}()
		see := func(what string, cond func(text string) bool) {
			t.Helper()
			testkit.Eventually(t, what, func() bool { return cond(shown.String()) })
		}
		see("a frame of eight lines", func(s string) bool {
			return strings.HasPrefix(s, enterScreen+topLeft+"eddy serve echo") && strings.Contains(s, "q quits"+clearLine+clearRest) && strings.Count(s[:strings.Index(s, clearRest)], "\r\n") == 7
		})
		resize(30, 100)
		see("a larger frame", func(s string) bool { return strings.Contains(s, "STALLS  PANICS") && strings.Contains(s, "CLOSED") })
		if i == 2 { // the program goes
			p.Stop()
			see("that there is no answer", func(s string) bool { return strings.Contains(s, "no answer, these numbers are old") })
			if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
		} else if _, err := master.WriteString(end); err != nil {
			t.Fatal(err)
		}
		waitExit(t, cmd)
		see("the screen before", func(s string) bool { return strings.HasSuffix(s, leaveScreen) })
		after, err := unix.IoctlGetTermios(int(slave.Fd()), unix.TCGETS)
		if err != nil {
			t.Fatal(err)
		}
		if fmt.Sprint(*before) != fmt.Sprint(*after) {
			t.Errorf("after %q the terminal is %+v, was %+v", end, *after, *before)
		}
		if bytes.Contains([]byte(shown.String()), []byte("\x1b[2J")) {
			t.Error("the screen was wiped")
		}
	}
}

// waitExit expects the end of a program in order.
func waitExit(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	timer := time.AfterFunc(testkit.Patience, func() { cmd.Process.Kill() })
	defer timer.Stop()
	if err := cmd.Wait(); err != nil {
		t.Errorf("the end: %v", err)
	}
}
