package files

import (
	"errors"
	"io"
	"os"
	"runtime"
)

// disk is the part of the operating system that a Directory uses; tests put a full or failing one in its place.
type disk interface {
	create(path string) (diskFile, error) // fails if there is such a file
	rename(from, to string) error
	remove(path string) error
	mkdir(path string) error
	syncDir(path string) error
	free(path string) (bytes uint64, known bool) // what this user may still write
}

type diskFile interface {
	io.Writer
	io.ReaderAt
	Sync() error
	Close() error
}

type realDisk struct{}

func (realDisk) create(path string) (diskFile, error) {
	return os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
}

func (realDisk) rename(from, to string) error { return os.Rename(from, to) }

func (realDisk) remove(path string) error { return os.Remove(path) }

func (realDisk) mkdir(path string) error { return os.Mkdir(path, 0o700) }

// syncDir makes the names in a directory durable. Windows has no such call and needs none.
func (realDisk) syncDir(path string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func (realDisk) free(path string) (uint64, bool) { return freeBytes(path) }
