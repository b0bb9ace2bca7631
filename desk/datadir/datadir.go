// Package datadir knows the directory in which one Desk keeps everything: its names, and the process that has it.
package datadir

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/go-eddy/eddy/internal/filelock"
)

// Names in a data directory.
const (
	database = "desk.db"
	files    = "files"
	lock     = "desk.lock"
	restore  = "restore.partial"
)

// Database returns the path of the database.
func Database(dir string) string { return filepath.Join(dir, database) }

// Files returns the path of the directory of uploaded files.
func Files(dir string) string { return filepath.Join(dir, files) }

// Restore returns the path of the directory that a restore works in. The directory is left behind when a restore is
// interrupted.
func Restore(dir string) string { return filepath.Join(dir, restore) }

// Whole returns an error if a restore into the directory was interrupted after it had begun to change the directory.
func Whole(dir string) error {
	_, err := os.Lstat(Restore(dir))
	if err == nil {
		_, err = os.Lstat(Database(dir))
		if errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("desk: a restore into data directory %s was interrupted: run it again", dir)
		}
	}
	return nil
}

// ErrInUse is the error of Lock when another process has the directory.
var ErrInUse = errors.New("in use")

// Lock creates the data directory if needed and takes it for this process. Closing the file gives the directory back,
// and so does the kernel when the process dies. Errors are one line that names the directory and the remedy.
func Lock(dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, dirError(dir, err)
	}
	f, err := os.OpenFile(filepath.Join(dir, lock), os.O_RDWR|os.O_CREATE, 0o600)
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
			err = &inUse{fmt.Sprintf("desk: data directory %s is in use by process %s: stop it, or choose another data directory", dir, holder(f))}
		} else {
			err = dirError(dir, err)
		}
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// inUse is ErrInUse with its text.
type inUse struct{ text string }

func (e *inUse) Error() string { return e.text }

// Is makes the error match ErrInUse.
func (e *inUse) Is(target error) bool { return target == ErrInUse }

func dirError(dir string, err error) error {
	var pe *os.PathError
	if errors.As(err, &pe) {
		err = pe.Err
	}
	return fmt.Errorf("desk: data directory %s cannot be written (%w): give this user write access, or choose another data directory", dir, err)
}

// holder returns the process that has the lock.
func holder(f *os.File) string {
	b, err := io.ReadAll(io.LimitReader(f, 20))
	if pid := strings.TrimSpace(string(b)); err == nil && pid != "" {
		return pid
	}
	return "unknown"
}
