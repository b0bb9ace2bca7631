package backup

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/go-eddy/eddy/desk/datadir"
	"github.com/go-eddy/eddy/desk/store/sqlstore"
)

// Names inside a backup.
const (
	manifestName = "manifest.json"
	sumsName     = "SHA256SUMS"
	dbName       = "desk.db"
	filesName    = "files"
	incoming     = "incoming" // the directory of files that have arrived only in part
	partial      = ".partial"
	format       = 1
)

// Manifest describes a backup.
type Manifest struct {
	Format  int       `json:"format"`
	Made    time.Time `json:"made"`
	Program string    `json:"program"` // version of the program that made it
	Schema  int       `json:"schema"`  // version of the database's schema
	Store   string    `json:"store"`   // identity of the data
	Files   int       `json:"files"`   // uploaded files
	Bytes   int64     `json:"bytes"`   // of everything that SHA256SUMS names
}

// Progress is called with how many bytes of how many are done. The total may still grow.
type Progress func(done, total int64)

// Options say what to copy.
type Options struct {
	DataDir  string
	To       string // must not exist
	Program  string // version to note down
	Progress Progress
	Now      func() time.Time // default time.Now
}

// Make copies a data directory, which a running Desk may have, into a new directory. A failed copy leaves nothing
// behind. Errors are one line that names the thing and the remedy.
func Make(ctx context.Context, o Options) (Manifest, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	info, err := sqlstore.Inspect(ctx, datadir.Database(o.DataDir))
	if errors.Is(err, fs.ErrNotExist) || (err == nil && info.Schema == 0) {
		return Manifest{}, fmt.Errorf("backup: there is no Desk in %s: name its data directory", o.DataDir)
	}
	if err != nil {
		return Manifest{}, err
	}
	if _, err := os.Lstat(o.To); err == nil {
		return Manifest{}, fmt.Errorf("backup: %s exists already: name a new directory, backups are never overwritten", o.To)
	}
	if err := os.MkdirAll(filepath.Dir(o.To), 0o700); err != nil {
		return Manifest{}, fmt.Errorf("backup: %w: name a directory this user can write to", err)
	}
	work := o.To + partial
	if err := os.Mkdir(work, 0o700); err != nil {
		if errors.Is(err, fs.ErrExist) {
			err = fmt.Errorf("backup: %s is there: another backup is being made, or one was interrupted; remove it if none runs", work)
		}
		return Manifest{}, err
	}
	m := Manifest{Format: format, Made: o.Now().UTC().Truncate(time.Second), Program: o.Program, Schema: info.Schema, Store: info.ID}
	err = fill(ctx, &o, work, info.Size, &m)
	if err == nil {
		err = os.Rename(work, o.To)
	}
	if err == nil {
		err = syncDir(filepath.Dir(o.To))
	}
	if err != nil {
		return Manifest{}, errors.Join(fmt.Errorf("backup: %w", err), os.RemoveAll(work))
	}
	return m, nil
}

// fill writes the content of a backup.
func fill(ctx context.Context, o *Options, work string, dbSize int64, m *Manifest) error {
	sums, err := os.OpenFile(filepath.Join(work, sumsName), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = sums.Close() }()
	w := &copier{from: o.DataDir, to: work, sums: sums, m: m, meter: meter{total: dbSize, tell: o.Progress}}
	if err := w.database(ctx); err != nil {
		return err
	}
	if err := w.files(ctx); err != nil {
		return err
	}
	if err := errors.Join(sums.Sync(), sums.Close()); err != nil {
		return err
	}
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	return writeFile(filepath.Join(work, manifestName), append(text, '\n'))
}

// copier copies one data directory.
type copier struct {
	from, to string
	sums     io.Writer
	m        *Manifest
	meter    meter
}

// meter counts bytes for Progress.
type meter struct {
	done, total int64
	tell        Progress
}

func (m *meter) add(n int64) {
	m.done += n
	m.total = max(m.total, m.done)
	if m.tell != nil {
		m.tell(m.done, m.total)
	}
}

// watch reports how a file grows that another goroutine writes, until that has ended, and returns its error.
func (m *meter) watch(path string, ended <-chan error) error {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case err := <-ended:
			return err
		case <-tick.C:
			if info, err := os.Stat(path); err == nil && m.tell != nil {
				m.tell(min(info.Size(), m.total), m.total)
			}
		}
	}
}

// database takes the snapshot first. The files of every message in it are then in the directory, because a file is there
// before its message.
func (c *copier) database(ctx context.Context) error {
	to := filepath.Join(c.to, dbName)
	snapshot := make(chan error, 1)
	go func() { snapshot <- sqlstore.Snapshot(ctx, datadir.Database(c.from), to) }()
	if err := c.meter.watch(to, snapshot); err != nil {
		return err
	}
	sum, n, err := hashFile(ctx, to)
	if err != nil {
		return err
	}
	c.meter.total = n
	c.meter.add(n)
	return c.note(sum, dbName, n)
}

func (c *copier) note(sum []byte, name string, n int64) error {
	c.m.Bytes += n
	_, err := fmt.Fprintf(c.sums, "%s  %s\n", hex.EncodeToString(sum), filepath.ToSlash(name))
	return err
}

// files copies the uploaded files. A file that vanishes meanwhile belonged to no message.
func (c *copier) files(ctx context.Context) error {
	root := datadir.Files(c.from)
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err == nil {
			err = ctx.Err()
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		to := filepath.Join(c.to, filesName, rel)
		if rel == incoming {
			return fs.SkipDir
		}
		if e.IsDir() {
			return os.MkdirAll(to, 0o700)
		}
		if !e.Type().IsRegular() {
			return nil
		}
		sum, n, err := copyFile(ctx, path, to)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		c.m.Files++
		c.meter.add(n)
		return c.note(sum, filepath.Join(filesName, rel), n)
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// copyFile copies a file durably and returns the hash of the copied bytes.
func copyFile(ctx context.Context, from, to string) (sum []byte, n int64, err error) {
	in, err := os.Open(from)
	if err != nil {
		return nil, 0, err
	}
	defer func() { _ = in.Close() }()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, 0, err
	}
	hash := sha256.New()
	n, err = io.Copy(io.MultiWriter(out, hash), &interruptible{ctx, in})
	if err == nil {
		err = out.Sync()
	}
	return hash.Sum(nil), n, errors.Join(err, out.Close())
}

func hashFile(ctx context.Context, path string) (sum []byte, n int64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, 0, err
	}
	defer func() { _ = f.Close() }()
	hash := sha256.New()
	n, err = io.Copy(hash, &interruptible{ctx, f})
	return hash.Sum(nil), n, err
}

// interruptible ends a copy when its context does.
type interruptible struct {
	ctx context.Context
	r   io.Reader
}

// Read implements io.Reader.
func (i *interruptible) Read(p []byte) (int, error) {
	if err := i.ctx.Err(); err != nil {
		return 0, err
	}
	return i.r.Read(p)
}

func writeFile(path string, content []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	return errors.Join(err, f.Sync(), f.Close())
}

// syncDir makes the names in a directory durable, where the system can.
func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	_ = d.Sync() // not every system can
	return d.Close()
}
