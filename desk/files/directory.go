package files

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/uuid"
)

// Directory is a Place in a file system. A file is there under its name, whole and synchronised, or not at all.
type Directory struct {
	path    string
	disk    disk
	syncing chan struct{} // places, because more syncs at once would only slow down everybody's commits
}

const (
	syncsAtOnce = 2
	namesAtOnce = 256 // names of a directory that are in memory at a time
)

// OpenDirectory makes the directory and removes files that an earlier process was receiving when it died. Of a directory
// that other processes share, a Keeper does that.
func OpenDirectory(path string, shared bool) (*Directory, error) {
	return openDirectory(path, shared, realDisk{})
}

func openDirectory(path string, shared bool, on disk) (*Directory, error) {
	if path == "" {
		return nil, errors.New("files: the path of the directory is empty")
	}
	d := &Directory{path: path, disk: on, syncing: make(chan struct{}, syncsAtOnce)}
	if err := os.MkdirAll(d.incoming(), 0o700); err != nil {
		return nil, fmt.Errorf("files: directory %s cannot be made: %w: give this user write access, or choose another data directory", path, err)
	}
	if shared { // another process may just be receiving some
		return d, nil
	}
	return d, d.Sweep(context.Background(), time.Now().Add(time.Hour))
}

// String implements Place.
func (d *Directory) String() string { return "directory " + d.path }

// Free implements Place.
func (d *Directory) Free() (bytes uint64, known bool) { return d.disk.free(d.path) }

// Fault implements Place. Whether a disk works shows by using it.
func (d *Directory) Fault() error { return nil }

// Close implements Place.
func (d *Directory) Close() {}

func (d *Directory) incoming() string { return filepath.Join(d.path, "incoming") }

func (d *Directory) of(name string) string {
	return filepath.Join(d.path, filepath.FromSlash(Key(name)))
}

// failed is the error of a call to the disk.
func failed(err error) error {
	if noSpace(err) {
		return fmt.Errorf("%w: %w", ErrFull, err)
	}
	return fmt.Errorf("files: %w", err)
}

// fileArriving is a file that a Directory is receiving.
type fileArriving struct {
	diskFile // nil when it is closed
	d        *Directory
	name, at string
}

// Create implements Place.
func (d *Directory) Create(_ context.Context, name string, _ int64) (Arriving, error) {
	at := filepath.Join(d.incoming(), name)
	f, err := d.disk.create(at)
	if err != nil {
		return nil, failed(err)
	}
	return &fileArriving{f, d, name, at}, nil
}

// Write implements Arriving.
func (a *fileArriving) Write(p []byte) (int, error) {
	n, err := a.diskFile.Write(p)
	if err != nil {
		err = failed(err)
	}
	return n, err
}

// Keep makes the bytes durable, and then the name.
func (a *fileArriving) Keep() error {
	d := a.d
	d.syncing <- struct{}{}
	defer func() { <-d.syncing }()
	err := a.Sync()
	err = errors.Join(err, a.Close())
	a.diskFile = nil
	if err != nil {
		return failed(err)
	}
	to := d.of(a.name)
	if err := d.disk.mkdir(filepath.Dir(to)); err == nil {
		err = d.disk.syncDir(d.path)
		if err != nil {
			return failed(err)
		}
	} else if !errors.Is(err, os.ErrExist) {
		return failed(err)
	}
	if err := d.disk.rename(a.at, to); err != nil {
		return failed(err)
	}
	a.at = to
	if err := d.disk.syncDir(filepath.Dir(to)); err != nil {
		return failed(err)
	}
	return nil
}

// Drop implements Arriving.
func (a *fileArriving) Drop() {
	if a.diskFile != nil {
		_ = a.Close()
	}
	_ = a.d.disk.remove(a.at) // Sweep removes the file later if this fails
}

// Open implements Place.
func (d *Directory) Open(_ context.Context, name string) (io.ReadSeekCloser, error) {
	f, err := os.Open(d.of(name))
	if err != nil {
		return nil, fmt.Errorf("files: %w", err)
	}
	return f, nil
}

// Local implements Place.
func (d *Directory) Local(_ context.Context, name string) (path string, done func(), err error) {
	return d.of(name), func() {}, nil
}

// Remove implements Place.
func (d *Directory) Remove(_ context.Context, names ...string) error {
	for _, name := range names {
		if err := d.removeAt(d.of(name)); err != nil {
			return err
		}
	}
	return nil
}

func (d *Directory) removeAt(path string) error {
	if err := d.disk.remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("files: %w", err)
	}
	return nil
}

// Sweep implements Place.
func (d *Directory) Sweep(_ context.Context, before time.Time) error {
	return eachOld(d.incoming(), before, func(names []string) error {
		for _, name := range names {
			if err := d.removeAt(filepath.Join(d.incoming(), name)); err != nil {
				return err
			}
		}
		return nil
	})
}

// Each implements Place.
func (d *Directory) Each(_ context.Context, shard string, before time.Time, f func(names []string) error) error {
	return eachOld(filepath.Join(d.path, shard), before, f)
}

// ID implements Place. All of the id is there, or nothing.
func (d *Directory) ID(context.Context) (string, error) {
	path := filepath.Join(d.path, IDName)
	fresh := filepath.Join(d.incoming(), uuid.NewString())
	if err := os.WriteFile(fresh, []byte(uuid.NewString()+"\n"), 0o600); err != nil {
		return "", err
	}
	linked := os.Link(fresh, path)
	if err := os.Remove(fresh); err != nil {
		return "", err
	}
	if linked != nil && !errors.Is(linked, os.ErrExist) {
		return "", linked
	}
	text, err := os.ReadFile(path)
	return strings.TrimSpace(string(text)), err
}

func eachOld(dir string, before time.Time, f func(names []string) error) error {
	d, err := os.Open(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("files: %w", err)
	}
	defer func() { _ = d.Close() }()
	for {
		entries, err := d.ReadDir(namesAtOnce)
		var names []string
		for _, e := range entries {
			if info, err := e.Info(); err == nil && info.Mode().IsRegular() && info.ModTime().Before(before) {
				names = append(names, e.Name())
			}
		}
		if len(names) > 0 {
			if err := f(names); err != nil {
				return err
			}
		}
		switch {
		case err == io.EOF: //nolint:errorlint // ReadDir returns it unwrapped
			return nil
		case err != nil:
			return fmt.Errorf("files: %w", err)
		}
	}
}
