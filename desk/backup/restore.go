package backup

import (
	"bufio"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-eddy/eddy/desk/datadir"
	"github.com/go-eddy/eddy/desk/store/sqlstore"
)

// RestoreOptions say what to put back and where.
type RestoreOptions struct {
	From     string
	DataDir  string
	Replace  bool // keep the data in DataDir beside it, in a directory of its own; else DataDir must hold no Desk
	Progress Progress
	Now      func() time.Time // default time.Now
}

// Restored is the result of a restore.
type Restored struct {
	Manifest
	ID   string // the new identity of the data: clients of the old one start afresh
	Kept string // where the old data is now, "" if there was none
}

// Restore puts a backup into a data directory that no running Desk has. Everything is checked before any of the present
// data is touched. The data get a new identity, because clients may hold events newer than the backup.
func Restore(ctx context.Context, o RestoreOptions) (Restored, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	m, sums, err := open(ctx, o.From)
	if err != nil {
		return Restored{}, err
	}
	lock, err := datadir.Lock(ctx, o.DataDir)
	if err != nil {
		return Restored{}, err
	}
	defer func() { _ = lock.Close() }()
	old, err := present(o.DataDir)
	if err != nil {
		return Restored{}, err
	}
	if len(old) > 0 && !o.Replace {
		return Restored{}, fmt.Errorf("backup: there is a Desk in %s: name an empty directory, or replace it", o.DataDir)
	}
	r := Restored{Manifest: m}
	work := datadir.Restore(o.DataDir)
	if err := os.RemoveAll(work); err != nil {
		return Restored{}, fmt.Errorf("backup: %w", err)
	}
	if r.ID, err = unpack(ctx, &o, work, m, sums); err != nil {
		return Restored{}, errors.Join(fmt.Errorf("backup: %w", err), os.RemoveAll(work))
	}
	if len(old) > 0 {
		r.Kept = filepath.Join(o.DataDir, "before-restore-"+o.Now().UTC().Format("20060102T150405Z"))
		if err := move(old, o.DataDir, r.Kept); err != nil {
			return Restored{}, fmt.Errorf("backup: %w", err)
		}
	}
	// The database comes last: a Desk that finds the working directory and no database does not start.
	if err := move([]string{filesName, dbName}, work, o.DataDir); err != nil {
		return Restored{}, fmt.Errorf("backup: %w", err)
	}
	return r, errors.Join(os.RemoveAll(work), syncDir(o.DataDir))
}

// open reads the description of a backup.
func open(ctx context.Context, dir string) (Manifest, map[string]string, error) {
	var m Manifest
	text, err := os.ReadFile(filepath.Join(dir, manifestName))
	if errors.Is(err, fs.ErrNotExist) {
		return m, nil, fmt.Errorf("backup: %s is no backup: it has no %s", dir, manifestName)
	}
	if err != nil {
		return m, nil, fmt.Errorf("backup: %w", err)
	}
	if err := json.Unmarshal(text, &m); err != nil {
		return m, nil, fmt.Errorf("backup: %s of %s is damaged: %w", manifestName, dir, err)
	}
	if m.Format != format {
		return m, nil, fmt.Errorf("backup: %s has format %d, this program knows %d: use the program that made it (%s)", dir, m.Format, format, m.Program)
	}
	sums, err := readSums(dir)
	if err != nil {
		return m, nil, err
	}
	_, err = sqlstore.Inspect(ctx, filepath.Join(dir, dbName))
	return m, sums, err
}

// readSums returns the hashes by name. Names that lead out of the backup are refused.
func readSums(dir string) (map[string]string, error) {
	f, err := os.Open(filepath.Join(dir, sumsName))
	if err != nil {
		return nil, fmt.Errorf("backup: %w", err)
	}
	defer func() { _ = f.Close() }()
	sums := make(map[string]string)
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		sum, name, ok := strings.Cut(lines.Text(), "  ")
		if !ok || !fs.ValidPath(name) || (name != dbName && !strings.HasPrefix(name, filesName+"/")) {
			return nil, fmt.Errorf("backup: %s of %s is damaged at %.80q", sumsName, dir, lines.Text())
		}
		sums[name] = sum
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("backup: %w", err)
	}
	if sums[dbName] == "" {
		return nil, fmt.Errorf("backup: %s of %s does not name %s", sumsName, dir, dbName)
	}
	return sums, nil
}

// present returns the names of what a directory holds of a Desk.
func present(dir string) ([]string, error) {
	var names []string
	for _, name := range []string{dbName, dbName + "-wal", dbName + "-shm", filesName} {
		_, err := os.Lstat(filepath.Join(dir, name))
		if err == nil {
			names = append(names, name)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("backup: %w", err)
		}
	}
	return names, nil
}

// unpack copies and checks everything, and gives the data their new identity.
func unpack(ctx context.Context, o *RestoreOptions, work string, m Manifest, sums map[string]string) (id string, err error) {
	if err := os.Mkdir(work, 0o700); err != nil {
		return "", err
	}
	if err := os.Mkdir(filepath.Join(work, filesName), 0o700); err != nil {
		return "", err
	}
	count := meter{total: m.Bytes, tell: o.Progress}
	for name, want := range sums {
		to := filepath.Join(work, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
			return "", err
		}
		got, n, err := copyFile(ctx, filepath.Join(o.From, filepath.FromSlash(name)), to)
		if err != nil {
			return "", err
		}
		if hex.EncodeToString(got) != want {
			return "", fmt.Errorf("%s in %s is damaged: its SHA-256 is not that of %s", name, o.From, sumsName)
		}
		count.add(n)
	}
	db := filepath.Join(work, dbName)
	if err := sqlstore.Check(ctx, db); err != nil {
		return "", err
	}
	return sqlstore.Renew(ctx, db)
}

// move renames the entries with these names from one directory into another.
func move(names []string, from, to string) error {
	if err := os.MkdirAll(to, 0o700); err != nil {
		return err
	}
	for _, name := range names {
		if err := os.Rename(filepath.Join(from, name), filepath.Join(to, name)); err != nil {
			return err
		}
	}
	return syncDir(to)
}
