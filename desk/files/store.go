package files

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"
)

// Errors of Store.Receive. Nothing is left in the store then.
var (
	ErrEmpty    = errors.New("files: the file is empty")
	ErrTooLarge = errors.New("files: the file is too large")
	ErrType     = errors.New("files: files of this type are not taken")
	ErrDamaged  = errors.New("files: the picture is damaged or too large to be shown")
	ErrFull     = errors.New("files: there is no room on the disk")
	ErrRead     = errors.New("files: the file did not arrive")
)

// Options configure a Store. Dir is required.
type Options struct {
	Dir     string   // created when missing
	Shared  bool     // other processes may have it open, too
	MaxSize int64    // bytes of one file, default 20 MiB
	MinFree int64    // bytes that must stay free on the disk, default 256 MiB; negative: not checked
	Types   []string // media types that are taken, default Types()

	disk disk // default the real one
}

// Store keeps files in a directory of its own. A file is there under its random name, whole and synchronised, or not at
// all. Any goroutine may use a Store.
type Store struct {
	o        Options
	incoming atomic.Int64  // bytes that running uploads may still write
	syncing  chan struct{} // places, because more syncs at once would only slow down everybody's commits
}

// File is what a Store has received.
type File struct {
	Storage string // name in the store
	Name    string // cleaned
	Type    string
	Size    int64
	Width   int // of a picture as it is shown, else 0
	Height  int
	SHA256  [sha256.Size]byte
}

// Shards is the number of directories that the files are spread over.
const Shards = 256

const (
	nameBytes   = 16
	copyBytes   = 32 << 10
	syncsAtOnce = 2
)

// Open makes the directory and removes files that an earlier process was receiving when it died. Of a directory that is shared, a Keeper does that.
func Open(o Options) (*Store, error) {
	if o.Dir == "" {
		return nil, errors.New("files: Options.Dir is empty")
	}
	if o.MaxSize < 0 {
		return nil, fmt.Errorf("files: Options.MaxSize is %d, want 0 (default 20 MiB) or more", o.MaxSize)
	}
	if o.MaxSize == 0 {
		o.MaxSize = 20 << 20
	}
	if o.MinFree == 0 {
		o.MinFree = 256 << 20
	}
	if o.Types == nil {
		o.Types = Types()
	}
	if o.disk == nil {
		o.disk = realDisk{}
	}
	s := &Store{o: o, syncing: make(chan struct{}, syncsAtOnce)}
	if err := os.MkdirAll(s.incomingDir(), 0o700); err != nil {
		return nil, fmt.Errorf("files: directory %s cannot be made: %w: give this user write access, or choose another data directory", o.Dir, err)
	}
	if o.Shared { // another process may just be receiving some
		return s, nil
	}
	if err := s.Sweep(time.Now().Add(time.Hour)); err != nil {
		return nil, err
	}
	return s, nil
}

// MaxSize returns the largest size of a file in bytes.
func (s *Store) MaxSize() int64 { return s.o.MaxSize }

func (s *Store) incomingDir() string { return filepath.Join(s.o.Dir, "incoming") }

func (s *Store) shard(i int) string { return filepath.Join(s.o.Dir, fmt.Sprintf("%02x", i)) }

func (s *Store) path(storage string) string { return filepath.Join(s.o.Dir, storage[:2], storage) }

// valid reports whether a name is one that a Store makes.
func valid(storage string) bool {
	if len(storage) != 2*nameBytes {
		return false
	}
	return !slices.ContainsFunc([]byte(storage), func(b byte) bool { return (b < '0' || b > '9') && (b < 'a' || b > 'f') })
}

// Receive reads a file to its end, checks it and keeps it for good. declared is the announced size, below 0 if there is
// none. A failing r is ErrRead with its error. Other errors are those above, or of the disk.
func (s *Store) Receive(r io.Reader, name string, declared int64) (File, error) {
	if declared == 0 {
		return File{}, ErrEmpty
	}
	if declared > s.o.MaxSize {
		return File{}, fmt.Errorf("%w: %d bytes, the limit is %d", ErrTooLarge, declared, s.o.MaxSize)
	}
	room := declared
	if room < 0 {
		room = s.o.MaxSize
	}
	if !s.reserve(room) {
		return File{}, fmt.Errorf("%w: %d bytes are to be left free", ErrFull, s.o.MinFree)
	}
	defer s.incoming.Add(-room)

	var random [nameBytes]byte
	_, _ = rand.Read(random[:]) // never fails
	in := &incoming{store: s, file: File{Storage: hex.EncodeToString(random[:])}, sum: sha256.New()}
	in.path = filepath.Join(s.incomingDir(), in.file.Storage)
	err := in.receive(r, name, declared)
	if err == nil {
		err = in.keep()
	}
	if err != nil {
		in.drop()
		if noSpace(err) {
			err = fmt.Errorf("%w: %w", ErrFull, err)
		}
		return File{}, err
	}
	return in.file, nil
}

// reserve takes room for a file, if the free space is enough for it and all files that are arriving.
func (s *Store) reserve(bytes int64) bool {
	all := s.incoming.Add(bytes)
	if s.o.MinFree < 0 {
		return true
	}
	if free, known := s.o.disk.free(s.o.Dir); known && free < uint64(all+s.o.MinFree) {
		s.incoming.Add(-bytes)
		return false
	}
	return true
}

// incoming is a file that is being received.
type incoming struct {
	store *Store
	path  string
	out   diskFile // nil when it is closed
	file  File
	sum   hash.Hash
	made  bool // there may be something at path
}

// receive writes the bytes of r and finds their type. The beginning decides the type, so that a file that is not taken
// is not read to its end.
func (in *incoming) receive(r io.Reader, name string, declared int64) error {
	buf := make([]byte, copyBytes)
	n, err := fill(r, buf[:headBytes])
	if err != nil && err != io.EOF { //nolint:errorlint // a reader's own mark: an end that was expected
		return fmt.Errorf("%w: %w", ErrRead, err)
	}
	if n == 0 {
		return ErrEmpty
	}
	in.file.Type = Detect(buf[:n], name)
	if !slices.Contains(in.store.o.Types, in.file.Type) {
		return fmt.Errorf("%w: %s", ErrType, in.file.Type)
	}
	in.file.Name = CleanName(name, in.file.Type)
	if in.out, err = in.store.o.disk.create(in.path); err != nil {
		return fmt.Errorf("files: %w", err)
	}
	in.made = true
	for {
		if n > 0 {
			if werr := in.write(buf[:n]); werr != nil {
				return werr
			}
		}
		if err != nil {
			break
		}
		n, err = r.Read(buf)
	}
	if err != io.EOF { //nolint:errorlint // as above
		return fmt.Errorf("%w: %w", ErrRead, err)
	}
	if declared >= 0 && in.file.Size != declared {
		return fmt.Errorf("%w: %d bytes came, %d were announced", ErrRead, in.file.Size, declared)
	}
	return in.measure()
}

// fill reads until p is full or r ends, and returns r's own error.
func fill(r io.Reader, p []byte) (n int, err error) {
	for n < len(p) && err == nil {
		var k int
		k, err = r.Read(p[n:])
		n += k
	}
	return n, err
}

func (in *incoming) write(p []byte) error {
	in.file.Size += int64(len(p))
	if most := in.store.o.MaxSize; in.file.Size > most {
		return fmt.Errorf("%w: the limit is %d bytes", ErrTooLarge, most)
	}
	_, _ = in.sum.Write(p) // never fails
	if _, err := in.out.Write(p); err != nil {
		return fmt.Errorf("files: %w", err)
	}
	return nil
}

// measure finds out the size of a picture.
func (in *incoming) measure() error {
	f := &in.file
	in.sum.Sum(f.SHA256[:0])
	var err error
	f.Width, f.Height, err = dimensions(f.Type, in.out, f.Size)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if int64(f.Width)*int64(f.Height) > maxPixels {
		return fmt.Errorf("%w: %d × %d pixels, the limit is %d in all", ErrDamaged, f.Width, f.Height, maxPixels)
	}
	return nil
}

// keep makes the bytes durable, and then the name.
func (in *incoming) keep() error {
	s := in.store
	s.syncing <- struct{}{}
	defer func() { <-s.syncing }()
	err := in.out.Sync()
	err = errors.Join(err, in.out.Close())
	in.out = nil
	if err != nil {
		return fmt.Errorf("files: %w", err)
	}
	to := s.path(in.file.Storage)
	if err := s.o.disk.mkdir(filepath.Dir(to)); err == nil {
		err = s.o.disk.syncDir(s.o.Dir)
		if err != nil {
			return fmt.Errorf("files: %w", err)
		}
	} else if !errors.Is(err, os.ErrExist) {
		return fmt.Errorf("files: %w", err)
	}
	if err := s.o.disk.rename(in.path, to); err != nil {
		return fmt.Errorf("files: %w", err)
	}
	in.path = to
	if err := s.o.disk.syncDir(filepath.Dir(to)); err != nil {
		return fmt.Errorf("files: %w", err)
	}
	return nil
}

// drop removes what is left of a file that was not received.
func (in *incoming) drop() {
	if in.out != nil {
		_ = in.out.Close()
	}
	if in.made {
		_ = in.store.o.disk.remove(in.path) // Sweep removes the file later if this fails
	}
}

// Open opens a file for reading. The error is os.ErrNotExist if there is no such file.
func (s *Store) Open(storage string) (*os.File, error) {
	if !valid(storage) {
		return nil, fmt.Errorf("files: %q: %w", storage, os.ErrNotExist)
	}
	f, err := os.Open(s.path(storage))
	if err != nil {
		return nil, fmt.Errorf("files: %w", err)
	}
	return f, nil
}

// Remove removes a file. A file that does not exist is no error.
func (s *Store) Remove(storage string) error {
	if !valid(storage) {
		return nil
	}
	if err := s.o.disk.remove(s.path(storage)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("files: %w", err)
	}
	return nil
}

// Sweep removes files that began to arrive before a time and were not completed.
func (s *Store) Sweep(before time.Time) error {
	return eachOld(s.incomingDir(), before, func(names []string) error {
		for _, name := range names {
			if err := s.o.disk.remove(filepath.Join(s.incomingDir(), name)); err != nil && !errors.Is(err, os.ErrNotExist) {
				return fmt.Errorf("files: %w", err)
			}
		}
		return nil
	})
}

// Each calls f with the names of the files of one shard, 0 to Shards - 1, that were stored before a time. f gets some
// names at a time.
func (s *Store) Each(ctx context.Context, shard int, before time.Time, f func(storage []string) error) error {
	dir := s.shard(shard)
	return eachOld(dir, before, func(names []string) error {
		names = slices.DeleteFunc(names, func(n string) bool { return !valid(n) || n[:2] != filepath.Base(dir) })
		if len(names) == 0 || ctx.Err() != nil {
			return ctx.Err()
		}
		return f(names)
	})
}

// namesAtOnce is how many names of a directory are in memory at a time.
const namesAtOnce = 256

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
