package desk

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/go-eddy/eddy/internal/filelock"
)

// lockDir creates the data directory if needed and takes it for this process. Closing the file gives it back; the
// kernel does so too when the process dies.
func lockDir(dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, dirError(dir, err)
	}
	f, err := os.OpenFile(filepath.Join(dir, "desk.lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, dirError(dir, err)
	}
	err = filelock.Lock(f)
	if err == nil {
		err = f.Truncate(0)
		if err == nil {
			_, err = fmt.Fprintln(f, os.Getpid())
		}
	}
	if err != nil {
		if errors.Is(err, filelock.ErrLocked) {
			err = fmt.Errorf("desk: data directory %s is in use by process %s: stop it, or choose another data directory", dir, holder(f))
		} else {
			err = dirError(dir, err)
		}
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

func dirError(dir string, err error) error {
	var pe *os.PathError
	if errors.As(err, &pe) {
		err = pe.Err
	}
	return fmt.Errorf("desk: data directory %s cannot be written (%w): give this user write access, or choose another data directory", dir, err)
}

// holder reads who took the lock.
func holder(f *os.File) string {
	b, err := io.ReadAll(io.LimitReader(f, 20))
	if pid := strings.TrimSpace(string(b)); err == nil && pid != "" {
		return pid
	}
	return "unknown"
}
