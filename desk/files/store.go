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
	ErrFull     = errors.New("files: there is no room for files")
	ErrRead     = errors.New("files: the file did not arrive")
)

// Options configure a Store. Place is required.
type Options struct {
	Place   Place    // the Store closes it
	MaxSize int64    // bytes of one file, default DefaultMaxSize
	MinFree int64    // bytes that must stay free where that is known, default 256 MiB; negative: not checked
	Types   []string // media types that are taken, default Types()
}

// DefaultMaxSize is the largest size of a file unless Options say otherwise.
const DefaultMaxSize = 20 << 20

// Store checks files and keeps them in a Place, under random names. Any goroutine may use a Store.
type Store struct {
	o        Options
	incoming atomic.Int64 // bytes that running uploads may still write
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

// Shards is the number of parts that the files are spread over.
const Shards = 256

const (
	nameBytes = 16
	copyBytes = 32 << 10
)

// Open returns the Store of a place.
func Open(o Options) (*Store, error) {
	if o.Place == nil {
		return nil, errors.New("files: Options.Place is required")
	}
	if o.MaxSize < 0 {
		return nil, fmt.Errorf("files: Options.MaxSize is %d, want 0 (default 20 MiB) or more", o.MaxSize)
	}
	if o.MaxSize == 0 {
		o.MaxSize = DefaultMaxSize
	}
	if o.MinFree == 0 {
		o.MinFree = 256 << 20
	}
	if o.Types == nil {
		o.Types = Types()
	}
	return &Store{o: o}, nil
}

// Close ends the use of the place.
func (s *Store) Close() { s.o.Place.Close() }

// MaxSize returns the largest size of a file in bytes.
func (s *Store) MaxSize() int64 { return s.o.MaxSize }

// Fault returns why files could not be stored or read the last time, nil if they could.
func (s *Store) Fault() error { return s.o.Place.Fault() }

// valid reports whether a name is one that a Store makes.
func valid(storage string) bool {
	if len(storage) != 2*nameBytes {
		return false
	}
	return !slices.ContainsFunc([]byte(storage), func(b byte) bool { return (b < '0' || b > '9') && (b < 'a' || b > 'f') })
}

// Receive reads a file to its end, checks it and keeps it for good. declared is the announced size, below 0 if there is
// none. A failing r is ErrRead with its error. Other errors are those above, or of the place.
func (s *Store) Receive(ctx context.Context, r io.Reader, name string, declared int64) (File, error) {
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
	err := in.receive(ctx, r, name, declared)
	if err == nil {
		err = in.out.Keep()
	}
	if err != nil {
		if in.out != nil {
			in.out.Drop()
		}
		return File{}, err
	}
	in.sum.Sum(in.file.SHA256[:0])
	return in.file, nil
}

// reserve takes room for a file, if the free space is enough for it and all files that are arriving.
func (s *Store) reserve(bytes int64) bool {
	all := s.incoming.Add(bytes)
	if s.o.MinFree < 0 {
		return true
	}
	if free, known := s.o.Place.Free(); known && free < uint64(all+s.o.MinFree) {
		s.incoming.Add(-bytes)
		return false
	}
	return true
}

// incoming is a file that is being received.
type incoming struct {
	store    *Store
	out      Arriving // nil until it was created
	file     File
	sum      hash.Hash
	measured bool
}

// receive writes the bytes of r and finds their type. The beginning decides the type, so that a file that is not taken
// is not read to its end.
func (in *incoming) receive(ctx context.Context, r io.Reader, name string, declared int64) error {
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
	if out, cerr := in.store.o.Place.Create(ctx, in.file.Storage, declared); cerr == nil {
		in.out = out
	} else {
		return cerr
	}
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

// write adds to the file. What its picture needs has come with HeaderBytes, behind which ReadAt may not see it any more.
func (in *incoming) write(p []byte) error {
	if most := in.store.o.MaxSize; in.file.Size+int64(len(p)) > most {
		return fmt.Errorf("%w: the limit is %d bytes", ErrTooLarge, most)
	}
	if rest := HeaderBytes - in.file.Size; rest >= 0 && int64(len(p)) > rest {
		if err := in.add(p[:rest]); err != nil {
			return err
		}
		if err := in.measure(); err != nil {
			return err
		}
		p = p[rest:]
	}
	return in.add(p)
}

func (in *incoming) add(p []byte) error {
	in.file.Size += int64(len(p))
	_, _ = in.sum.Write(p) // never fails
	_, err := in.out.Write(p)
	return err
}

// measure finds out the size of a picture, once.
func (in *incoming) measure() error {
	if in.measured {
		return nil
	}
	in.measured = true
	f := &in.file
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

// Open opens a file for reading. The error is os.ErrNotExist if there is no such file.
func (s *Store) Open(ctx context.Context, storage string) (io.ReadSeekCloser, error) {
	if !valid(storage) {
		return nil, fmt.Errorf("files: %q: %w", storage, os.ErrNotExist)
	}
	return s.o.Place.Open(ctx, storage)
}

// Remove removes files. One that does not exist is no error.
func (s *Store) Remove(ctx context.Context, storage ...string) error {
	storage = slices.DeleteFunc(slices.Clone(storage), func(name string) bool { return !valid(name) })
	if len(storage) == 0 {
		return nil
	}
	return s.o.Place.Remove(ctx, storage...)
}

// each calls f with the names of the files of one shard, 0 to Shards - 1, that were stored before a time. f gets some
// names at a time.
func (s *Store) each(ctx context.Context, shard int, before time.Time, f func(storage []string) error) error {
	dir := fmt.Sprintf("%02x", shard)
	return s.o.Place.Each(ctx, dir, before, func(names []string) error {
		names = slices.DeleteFunc(names, func(n string) bool { return !valid(n) || n[:2] != dir })
		if len(names) == 0 || ctx.Err() != nil {
			return ctx.Err()
		}
		return f(names)
	})
}
