package sys

import (
	"io"
	"syscall"
)

// PageFile is the part of an os.File that Prefetch needs.
type PageFile interface {
	io.ReaderAt
	syscall.Conn
}

// maxPrefetch bounds what one Prefetch reads from the disk.
const maxPrefetch = 256 << 10

// Prefetch has the next bytes of f from offset on in the page cache, up to n, and waits for the disk. It returns how many
// there are: n when the cache has them all, else at most 256 KiB, and fewer at the end of the file. Linux copies none of
// them.
func Prefetch(f PageFile, offset, n int64) (int64, error) {
	got := prefetch(f, offset, n)
	if got > 0 {
		return got, nil
	}
	return io.Copy(io.Discard, io.NewSectionReader(f, offset, min(n, maxPrefetch))) // the end, an error, or another system
}
