package sys

import (
	"math/bits"
	"os"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// nowhere is /dev/null, nil where a sandbox has none. It stays open.
var nowhere = sync.OnceValue(func() *os.File {
	f, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		return nil
	}
	return f
})

var pageSize = int64(os.Getpagesize())

// cached reports whether the page cache has these bytes of a file. It is false for files whose pages the process may not
// ask for (neither its own nor writable), and before Linux 6.5.
func cached(fd int, offset int64, n int) bool {
	var st unix.Cachestat_t
	if bits.UintSize < 64 { // sendCached has no other call for them
		return false
	}
	pages := unix.CachestatRange{Off: uint64(offset), Len: uint64(n)}
	_, _, errno := syscall.RawSyscall6(unix.SYS_CACHESTAT, uintptr(fd), uintptr(unsafe.Pointer(&pages)), uintptr(unsafe.Pointer(&st)), 0, 0, 0)
	return errno == 0 && int64(st.Cache) > (offset+int64(n)-1)/pageSize-offset/pageSize
}

// sendCached is one sendfile of bytes that the page cache has. It waits for nothing, so the scheduler need not know of it.
func sendCached(fd, file int, offset *int64, n int) (int, error) {
	sent, _, errno := syscall.RawSyscall6(unix.SYS_SENDFILE, uintptr(fd), uintptr(file), uintptr(unsafe.Pointer(offset)), uintptr(n), 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(sent), nil
}

// prefetch sends the bytes that are not in the cache nowhere: the kernel needs the pages for that, and copies none. It
// returns 0 for a file that cannot be sent.
func prefetch(f PageFile, offset, n int64) (got int64) {
	conn, err := f.SyscallConn()
	if err != nil {
		return 0
	}
	_ = conn.Control(func(fd uintptr) { // an error is the reader's to find
		var st unix.Stat_t
		if unix.Fstat(int(fd), &st) != nil {
			return
		}
		n = min(n, st.Size-offset) // the cache has whole pages, beyond the end of the file, too
		if n > 0 && cached(int(fd), offset, int(n)) {
			var last [1]byte // the cache counts pages that are on their way from the disk; the last one comes last
			if k, err := unix.Pread(int(fd), last[:], offset+n-1); k == 1 && err == nil {
				got = n
			}
			return
		}
		n = min(n, maxPrefetch)
		for null := nowhere(); null != nil && got < n; {
			sent, err := sendFile(int(null.Fd()), int(fd), offset+got, int(n-got))
			if sent <= 0 || err != nil {
				return
			}
			got += int64(sent)
		}
	})
	return got
}
