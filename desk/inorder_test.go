package desk

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-eddy/eddy/desk/datadir"
	"github.com/go-eddy/eddy/internal/testkit"
)

// The whole database is read at the start after a run that was killed, and not after one that ended in order.
func TestDatabaseIsCheckedAfterAKill(t *testing.T) {
	o := testOptions(t)
	checks := 0
	o.Checking = func() { checks++ }
	start := func(o Options, want int) *Desk {
		t.Helper()
		checks = 0
		d, err := Open(testkit.Context(t), o)
		if err != nil {
			t.Fatal(err)
		}
		if checks != want {
			t.Errorf("checked %d times, want %d", checks, want)
		}
		return d
	}
	d := start(o, 1) // the database of the options is of nobody
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	d = start(o, 0)
	killed := o
	killed.DataDir = filepath.Join(t.TempDir(), "killed")
	copyData(t, o.DataDir, killed.DataDir)
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := start(o, 0).Close(); err != nil {
			t.Fatal(err)
		}
	}
	d = start(killed, 1)
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if err := start(killed, 0).Close(); err != nil {
		t.Fatal(err)
	}
}

// Damage is told before anything is written, when the run before was killed or the file was changed since.
func TestDamageIsToldAtTheStart(t *testing.T) {
	o := testOptions(t)
	d, err := Open(testkit.Context(t), o)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 300 {
		if err := d.AddAgent(t.Context(), fmt.Sprint("agent", i), strings.Repeat("name ", 10), "a long enough password", 1); err != nil {
			t.Fatal(err)
		}
	}
	killed := o
	killed.DataDir = filepath.Join(t.TempDir(), "killed")
	copyData(t, o.DataDir, killed.DataDir)
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	for name, o := range map[string]Options{"changed after the end": o, "killed": killed} {
		path := datadir.Database(o.DataDir)
		if name == "killed" { // what was committed is still in the log: without it the file is whole
			if err := os.Remove(path + "-wal"); err != nil {
				t.Fatal(err)
			}
		}
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for at := 8192; at < len(content); at += 4096 {
			copy(content[at:], "this is no page of a database")
		}
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		d, err := Open(testkit.Context(t), o)
		if err == nil {
			_ = d.Close()
			t.Errorf("%s: opened", name)
		} else if !strings.Contains(err.Error(), "is damaged") || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", name, err)
		}
		if after, err := os.ReadFile(path); err != nil || string(after) != string(content) {
			t.Errorf("%s: the file was changed (%v)", name, err)
		}
	}
}

// copyData copies the files of a data directory that is in use. The copy is what a kill leaves.
func copyData(t *testing.T, from, to string) {
	t.Helper()
	entries, err := os.ReadDir(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(to, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !e.Type().IsRegular() || strings.HasSuffix(e.Name(), "-shm") {
			continue
		}
		content, err := os.ReadFile(filepath.Join(from, e.Name()))
		if err == nil {
			err = os.WriteFile(filepath.Join(to, e.Name()), content, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
