package sys

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// asNobody runs f on a thread whose access to files is that of an ordinary
// user, also when the tests run as root.
func asNobody(tb testing.TB, f func()) {
	tb.Helper()
	if os.Getuid() != 0 {
		f()
		return
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	const nobody = 65534
	_, err := unix.SetfsuidRetUid(nobody)
	must(tb, err)
	defer func() {
		if was, err := unix.SetfsuidRetUid(0); was != nobody || err != nil {
			tb.Fatalf("the thread was user %d, %v", was, err)
		}
	}()
	f()
}

// TestPermissionDenied: a directory that may not be written to, and a socket
// file of another user, which cannot be tested for use.
func TestPermissionDenied(t *testing.T) {
	base, err := os.MkdirTemp("", "eddy") // not t.TempDir, whose parents an ordinary user may not enter
	must(t, err)
	defer os.RemoveAll(base)
	must(t, os.Chmod(base, 0o755))
	closed, open := filepath.Join(base, "closed"), filepath.Join(base, "open")
	must(t, os.Mkdir(closed, 0o555))
	must(t, os.Chmod(closed, 0o555))
	must(t, os.Mkdir(open, 0o777))
	must(t, os.Chmod(open, 0o777))
	foreign := filepath.Join(open, "foreign")
	staleSocket(t, foreign)
	must(t, os.Chmod(foreign, 0))
	asNobody(t, func() {
		s := NewSockets()
		_, err := s.Listen("unix", closed+"/s", ListenOptions{})
		if !errors.Is(err, fs.ErrPermission) {
			t.Errorf("a closed directory: %v", err)
		}
		_, err = s.Listen("unix", foreign, ListenOptions{})
		if !errors.Is(err, syscall.EADDRINUSE) || !errors.Is(err, fs.ErrPermission) || !exists(foreign) {
			t.Errorf("somebody else's socket file: %v", err)
		}
	})
}
