package sys

import (
	"io"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// TestPrefetch: what the page cache has is told at once; what it does not have is read, a part at a time; the end and
// errors are those of the file.
func TestPrefetch(t *testing.T) {
	const size = 1<<20 + 100
	f, _ := randomFile(t, size)
	must(t, f.Sync()) // only clean pages leave the cache
	prefetched := func(offset, n, want int64) {
		t.Helper()
		if got, err := Prefetch(f, offset, n); got != want || err != nil {
			t.Errorf("%d bytes from %d: %d, %v; want %d", n, offset, got, err, want)
		}
	}
	if cached(int(f.Fd()), 0, size) {
		prefetched(0, size, size)
		prefetched(4000, 500_000, 500_000)
	}
	prefetched(size-100, 1000, 100)
	prefetched(size, 1, 0)
	must(t, unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED))
	if cached(int(f.Fd()), 0, size) {
		t.Skip("the files of this directory do not leave the page cache")
	}
	prefetched(0, size, maxPrefetch)
	prefetched(size-100, 1000, 100)
	if at, err := f.Seek(0, io.SeekCurrent); at != 0 || err != nil {
		t.Errorf("the file stands at %d, %v", at, err)
	}
	must(t, f.Close())
	if got, err := Prefetch(f, 0, 1); got != 0 || err == nil {
		t.Errorf("of a closed file: %d, %v", got, err)
	}
}

// TestPrefetchReads: a file that the kernel does not send is read.
func TestPrefetchReads(t *testing.T) {
	f, err := os.Open("/proc/self/mem")
	must(t, err)
	defer f.Close()
	if got, err := Prefetch(f, 0, 4096); got != 0 || err == nil {
		t.Errorf("address 0: %d, %v", got, err)
	}
	dir, err := os.Open(t.TempDir())
	must(t, err)
	defer dir.Close()
	if got, err := Prefetch(dir, 0, 4096); got != 0 || err == nil {
		t.Errorf("of a directory: %d, %v", got, err)
	}
}

// TestCached: bytes are in the page cache when each page that they touch is.
func TestCached(t *testing.T) {
	f, _ := randomFile(t, 64<<10)
	fd := int(f.Fd())
	if !cached(fd, 0, 64<<10) {
		t.Skip("this system does not tell what its page cache has")
	}
	page := int64(os.Getpagesize())
	for _, c := range []struct {
		offset int64
		n      int
		want   bool
	}{{0, 1, true}, {page - 1, 2, true}, {64<<10 - 1, 1, true}, {64<<10 - 1, int(page) + 1, false}, {1 << 20, 1, false}} {
		if got := cached(fd, c.offset, c.n); got != c.want {
			t.Errorf("%d bytes from %d: %v", c.n, c.offset, got)
		}
	}
}
