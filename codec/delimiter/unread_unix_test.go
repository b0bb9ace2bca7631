//go:build unix

package delimiter

import (
	"runtime/debug"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestShortFramesSearchNotBeyond: the search for the end of a short frame does not go far behind it for another delimiter.
// The memory there cannot be read in this test.
func TestShortFramesSearchNotBeyond(t *testing.T) {
	page := unix.Getpagesize()
	view, err := unix.Mmap(-1, 0, 2*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(view)
	copy(view, strings.Repeat("x\n", page/2))
	if err := unix.Mprotect(view[page:], unix.PROT_NONE); err != nil {
		t.Fatal(err)
	}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	d := codec(t, 1<<20, false, false, "never occurs", "\n")
	for at := 0; at <= page-firstWindow; at += 2 {
		if _, n, err := d.next(view[at:]); n != 2 || err != nil {
			t.Fatal(n, err)
		}
	}
}
