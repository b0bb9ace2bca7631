package datadir

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-eddy/eddy/internal/filelock"
)

// ErrInUse is the error of Lock when another process has the directory.
var ErrInUse = errors.New("in use")

const (
	briefly   = " briefly"                                   // follows the process that gives the directory back soon
	briefWait = time.Minute                                  // how long Lock waits for such a process
	lookAgain = 50 * time.Millisecond                        // between two looks at a lock that is held
	clean     = "closed in order: desk.db of %d bytes, %d\n" // what a Held leaves behind that closed the database
)

// Held is a data directory that this process has. One goroutine at a time may call its methods.
type Held struct {
	dir  string
	file *os.File

	// InOrder says that the process before this one closed the database, and that nobody has changed the file since.
	InOrder bool
}

// Lock creates the data directory if needed and takes it for this process. The kernel gives it back when the process
// dies. Lock waits up to a minute for a process that has the directory briefly; any other one makes it fail with
// ErrInUse. Errors are one line that names the directory and the remedy.
func Lock(ctx context.Context, dir string) (*Held, error) {
	h, err := take(dir, "")
	for from, before := time.Now(), ""; errors.Is(err, ErrInUse); h, err = take(dir, "") {
		holder, _ := errors.AsType[*inUse](err)
		if !holder.brief && holder.text == before || time.Since(from) > briefWait {
			return nil, err
		}
		before = holder.text // that may be of the process before, until the new one has written its own: the second look counts
		select {
		case <-time.After(lookAgain):
		case <-ctx.Done():
			return nil, err
		}
	}
	return h, err
}

// LockBriefly is Lock for a command that gives the directory back soon. It does not wait.
func LockBriefly(dir string) (*Held, error) { return take(dir, briefly) }

// take tries to take the directory. suffix is written after the number of the process.
func take(dir, suffix string) (*Held, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, dirError(dir, err)
	}
	f, err := os.OpenFile(filepath.Join(dir, lock), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, dirError(dir, err)
	}
	h := &Held{dir: dir, file: f}
	err = filelock.Lock(f)
	if errors.Is(err, filelock.ErrLocked) {
		err = inUseBy(dir, content(f))
		_ = f.Close()
		return nil, err
	}
	if err == nil {
		text, ok := h.state()
		h.InOrder = ok && text == content(f)
		err = h.write(fmt.Sprint(os.Getpid(), suffix, "\n"))
	}
	if err != nil {
		_ = f.Close()
		return nil, dirError(dir, err)
	}
	return h, nil
}

// write replaces what the file of the lock says. It is on the disk when write returns: if the machine fails after that,
// the directory is not taken for one that was left in order.
func (h *Held) write(text string) error {
	if err := h.file.Truncate(0); err != nil {
		return err
	}
	if _, err := h.file.WriteAt([]byte(text), 0); err != nil {
		return err
	}
	return h.file.Sync()
}

// state describes a database that is closed. ok is false if there is none, or if SQLite has yet to finish something.
func (h *Held) state() (text string, ok bool) {
	info, err := os.Stat(Database(h.dir))
	if err != nil {
		return "", false
	}
	if log, err := os.Stat(Database(h.dir) + "-wal"); err == nil && log.Size() > 0 {
		return "", false
	}
	return fmt.Sprintf(clean, info.Size(), info.ModTime().UnixNano()), true
}

// Close gives the directory back. The next process that takes it does not find it in order.
func (h *Held) Close() error { return h.file.Close() }

// CloseInOrder gives the directory back after the database was closed without an error.
func (h *Held) CloseInOrder() error {
	if text, ok := h.state(); ok {
		_ = h.write(text) // if it cannot be written, the next start checks the database, and that is all
	}
	return h.file.Close()
}

// inUse is ErrInUse with its text.
type inUse struct {
	text  string
	brief bool
}

func (e *inUse) Error() string { return e.text }

// Is makes the error match ErrInUse.
func (e *inUse) Is(target error) bool { return target == ErrInUse }

func inUseBy(dir, holder string) error {
	holder, brief := strings.CutSuffix(strings.TrimSpace(holder), briefly)
	if holder == "" || strings.Trim(holder, "0123456789") != "" {
		holder = "unknown"
	}
	remedy := "stop it, or choose another data directory"
	if brief {
		remedy = "try again when it has ended"
	}
	return &inUse{fmt.Sprintf("desk: data directory %s is in use by process %s: %s", dir, holder, remedy), brief}
}

func dirError(dir string, err error) error {
	var pe *os.PathError
	if errors.As(err, &pe) {
		err = pe.Err
	}
	return fmt.Errorf("desk: data directory %s cannot be written (%w): give this user write access, or choose another data directory", dir, err)
}

// content returns what the file of the lock says.
func content(f *os.File) string {
	b, err := io.ReadAll(io.NewSectionReader(f, 0, 200))
	if err != nil {
		return ""
	}
	return string(b)
}
