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

// DumpFiles is how many dumps a directory keeps: a new one takes the place of the oldest.
const DumpFiles = 3

// Dumper writes the stacks of all goroutines to a file when a pool is exhausted, at most once in DumpInterval. One that is
// shared by all pools of a process, through Options.Dumper, limits the process (reference 2.7). The zero value is ready and
// on. It must not be copied once it is used.
type Dumper struct {
	// Dir is where the files go. It is made if it is missing. "" is the user's home directory, which is also used, with a
	// warning, when Dir cannot be made. It keeps DumpFiles dumps, whichever process made them.
	Dir string

	// Disabled switches dumps off.
	Disabled bool

	// Logger gets the warnings. nil is slog.Default().
	Logger *slog.Logger

	mu   sync.Mutex
	last time.Time // when the last dump began
	n    uint64
}

// Dump writes a file and returns its path. It returns "" and no error when dumps are switched off or the last one began
// less than DumpInterval ago, even if that failed. It blocks: pools call it on a goroutine of their own, a loop must not.
//
// Equal stacks are written once with their number and labels, which stops the program for much shorter than a list of
// all. A file under its final name is complete, also after a crash.
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
	// No character that a file system refuses, such as the colons of a time.
	name := fmt.Sprintf(dumpPrefix+"%s-%d-%d"+dumpSuffix, now.UTC().Format("20060102T150405Z"), os.Getpid(), n)
	path = filepath.Join(dir, name)
	if err := writeDump(dir, path, fmt.Sprintf("%s\n%s\n\n", now.Format(time.RFC3339), cause)); err != nil {
		return "", fmt.Errorf("executor: dump: %w", err)
	}
	prune(dir, name)
	return path, nil
}

// The names of dumps begin and end with these; between them is the time.
const dumpPrefix, dumpSuffix = "eddy-goroutines-", ".txt"

// prune removes the oldest dumps of a directory until DumpFiles are left with the newest, which stays.
func prune(dir, newest string) {
	entries, _ := os.ReadDir(dir) // by name, and so by time; what cannot be listed is not removed
	var old []string
	for _, e := range entries {
		if name := e.Name(); e.Type().IsRegular() && name != newest && strings.HasPrefix(name, dumpPrefix) && strings.HasSuffix(name, dumpSuffix) {
			old = append(old, name)
		}
	}
	for len(old) >= DumpFiles {
		_ = os.Remove(filepath.Join(dir, old[0])) // somebody else's stays
		old = old[1:]
	}
}

// due takes the right to the dump of this interval.
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

// dir returns a directory that is there.
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

// writeDump writes the file under a name of its own and renames it when it is on the disk.
func writeDump(dir, path, head string) (err error) {
	f, err := os.CreateTemp(dir, dumpPrefix+"*.tmp")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = f.Close() // closed already, or beside the point
			_ = os.Remove(f.Name())
		}
	}()
	w := bufio.NewWriter(f)
	_, _ = w.WriteString(head) // Flush has the error
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
		_ = f.Sync() // not every system can
		_ = f.Close()
	}
}

func orDefaultLogger(l *slog.Logger) *slog.Logger {
	if l == nil {
		return slog.Default()
	}
	return l
}
