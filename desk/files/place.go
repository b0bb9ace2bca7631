package files

import (
	"context"
	"errors"
	"io"
	"time"
)

// Place is where the bytes of files are, under names that a Store makes: a Directory or a bucket of an object store. Any
// goroutine may use a Place.
//
// Errors of all methods: fs.ErrNotExist if there is no such file, ErrFull, and ErrUnavailable if the place cannot be used
// now. The error of a context means that the caller has given up.
type Place interface {
	// Create begins a file. size is the announced size, below 0 if there is none. ctx is that of all work on the file.
	Create(ctx context.Context, name string, size int64) (Arriving, error)
	// Open opens a file for reading. Only its end closes it; ctx ends what reads wait for.
	Open(ctx context.Context, name string) (io.ReadSeekCloser, error)
	// Local returns a path with the bytes of a file, for programs that read files. Call done when it is not needed any more.
	Local(ctx context.Context, name string) (path string, done func(), err error)
	// Remove removes files. One that does not exist is no error.
	Remove(ctx context.Context, names ...string) error
	// Sweep removes what is left of files that began to arrive before a time and were not completed.
	Sweep(ctx context.Context, before time.Time) error
	// Each calls f with the names below a shard, of files stored before a time, some at a time. Names of others may be among
	// them.
	Each(ctx context.Context, shard string, before time.Time, f func(names []string) error) error
	// ID returns the id of the place, which the first process makes that asks.
	ID(ctx context.Context) (string, error)
	// Free returns how many bytes there is room for, as far as that is known.
	Free() (bytes uint64, known bool)
	// Fault returns why the place could not be used the last time, nil if it could.
	Fault() error
	// String names the place in messages, without secrets.
	String() string
	Close()
}

// Arriving is a file that a Place is receiving. One goroutine uses it, and calls Keep or Drop in the end.
type Arriving interface {
	io.Writer
	// ReadAt reads what was written, until more than HeaderBytes are.
	io.ReaderAt
	// Keep makes the file durable under its name. If it returns an error, call Drop.
	Keep() error
	// Drop removes all that is left of the file.
	Drop()
}

// ErrUnavailable means that the place of the files cannot be used now, and may be later.
var ErrUnavailable = errors.New("files: the uploaded files cannot be reached now")

// IDName is the name of the file with the id of a Place.
const IDName = "directory-id"

// Key returns where a file is below its Place, with slashes.
func Key(name string) string { return name[:2] + "/" + name }

// NameOf returns the name of the file that is at a key, false if no Store has made it.
func NameOf(key string) (name string, ok bool) {
	if len(key) < 3 || !valid(key[3:]) || Key(key[3:]) != key {
		return "", false
	}
	return key[3:], true
}
