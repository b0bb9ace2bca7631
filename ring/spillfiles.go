package ring

import (
	"io"
	"os"
	"path/filepath"
)

// fileSystem is the part of the operating system that a log uses; tests put faults behind it.
type fileSystem interface {
	MkdirAll(dir string) error
	Open(name string) (logFile, error) // for reading and writing, created if it is missing
	Remove(name string) error
	Names(pattern string) ([]string, error) // sorted
}

type logFile interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	Truncate(size int64) error
	Sync() error
	Size() (int64, error)
}

type realFiles struct{}

func (realFiles) MkdirAll(dir string) error              { return os.MkdirAll(dir, 0o700) }
func (realFiles) Remove(name string) error               { return os.Remove(name) }
func (realFiles) Names(pattern string) ([]string, error) { return filepath.Glob(pattern) }
func (realFiles) Open(name string) (logFile, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	return realFile{f}, nil
}

type realFile struct{ *os.File }

func (f realFile) Size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}
