package executor

import (
	"bufio"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/pprof"
	"strings"
	"sync"
	"time"
)

// DumpInterval is the time between two dumps of a Dumper.
const DumpInterval = 10 * time.Minute

// DumpFiles is how many dumps a directory keeps. A new dump replaces the oldest.
const DumpFiles = 3

// Dumper writes the stacks of all goroutines to a file when a pool is exhausted, at most once in DumpInterval. To limit
// the dumps of a whole process, share one Dumper among its pools, through Options.Dumper. The zero value is ready and
// switched on. A Dumper must not be copied once it is used.
type Dumper struct {
	// Dir is the directory of the files, created if it is missing. "" means the user's home directory, which is also
	// used, with a warning, when Dir cannot be created. The directory keeps DumpFiles dumps, whichever process wrote
	// them.
	Dir string

	// Disabled switches dumps off.
	Disabled bool

	// Logger gets the warnings. nil is slog.Default().
	Logger *slog.Logger

	mu   sync.Mutex
	last time.Time // when the last dump began
	n    uint64
}

// Dump writes a file and returns its path. Dump returns "" and no error when dumps are switched off, or when the last
// one began less than DumpInterval ago, even if it failed. Dump blocks: pools call it on a goroutine of their own, and a
// loop must not call it.
//
// Equal stacks are written once, with their number and labels, which stops the program for much shorter than a list of
// all would. A file under its final name is complete, even after a crash.
func (d *Dumper) Dump(cause string) (path string, err error) {
	if d.Disabled {
		return "", nil
	}
	now := time.Now()
	n, due := d.due(now)
	if !due {
		return "", nil
	}
	dir, err := d.dir()
	if err != nil {
		return "", fmt.Errorf("executor: dump: %w", err)
	}
	// The name has no character that some file systems refuse, such as the colons of a time.
	name := fmt.Sprintf(dumpPrefix+"%s-%d-%d"+dumpSuffix, now.UTC().Format("20060102T150405Z"), os.Getpid(), n)
	path = filepath.Join(dir, name)
	if err := writeDump(dir, path, fmt.Sprintf("%s\n%s\n\n", now.Format(time.RFC3339), cause)); err != nil {
		return "", fmt.Errorf("executor: dump: %w", err)
	}
	prune(dir, name)
	return path, nil
}

// dumpPrefix and dumpSuffix begin and end the name of a dump; the time stands between them.
const dumpPrefix, dumpSuffix = "eddy-goroutines-", ".txt"

// prune removes the oldest dumps of a directory until at most DumpFiles are left. newest always stays.
func prune(dir, newest string) {
	entries, _ := os.ReadDir(dir) // sorted by name, and so by time; an entry that cannot be listed stays
	var old []string
	for _, e := range entries {
		if name := e.Name(); e.Type().IsRegular() && name != newest && strings.HasPrefix(name, dumpPrefix) && strings.HasSuffix(name, dumpSuffix) {
			old = append(old, name)
		}
	}
	for len(old) >= DumpFiles {
		_ = os.Remove(filepath.Join(dir, old[0])) // another user's file stays
		old = old[1:]
	}
}

// due claims the dump of this interval and returns its number.
func (d *Dumper) due(now time.Time) (n uint64, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.last.IsZero() && now.Sub(d.last) < DumpInterval {
		return 0, false
	}
	d.last = now
	d.n++
	return d.n, true
}

// dir returns a directory that exists.
func (d *Dumper) dir() (string, error) {
	if d.Dir != "" {
		err := os.MkdirAll(d.Dir, 0o700) // stacks are nobody else's business
		if err == nil {
			return d.Dir, nil
		}
		orDefaultLogger(d.Logger).Warn("executor: the dump goes to the home directory", "err", err)
	}
	return os.UserHomeDir()
}

// writeDump writes the file under a temporary name and renames it once its content is on disk.
func writeDump(dir, path, head string) (err error) {
	f, err := os.CreateTemp(dir, dumpPrefix+"*.tmp")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = f.Close() // may be closed already; err is the error that counts
			_ = os.Remove(f.Name())
		}
	}()
	w := bufio.NewWriter(f)
	_, _ = w.WriteString(head) // Flush reports the error
	if err = pprof.Lookup("goroutine").WriteTo(w, 1); err != nil {
		return err
	}
	if err = w.Flush(); err != nil {
		return err
	}
	if err = f.Sync(); err != nil {
		return err
	}
	if err = f.Close(); err != nil {
		return err
	}
	if err = os.Rename(f.Name(), path); err != nil {
		return err
	}
	syncDir(dir)
	return nil
}

// syncDir makes the rename durable where directories can be synced.
func syncDir(dir string) {
	if f, err := os.Open(dir); err == nil {
		_ = f.Sync() // not every system can sync a directory
		_ = f.Close()
	}
}

func orDefaultLogger(l *slog.Logger) *slog.Logger {
	if l == nil {
		return slog.Default()
	}
	return l
}
