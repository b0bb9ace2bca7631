package allowance

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/windows"
)

// Total returns the machine's memory in bytes.
func Total() (uint64, error) {
	var status struct { // MEMORYSTATUSEX
		length, load                                                  uint32
		total, available, totalPage, availPage, totalVirt, avail, ext uint64
	}
	status.length = uint32(unsafe.Sizeof(status))
	ok, _, err := windows.NewLazySystemDLL("kernel32.dll").NewProc("GlobalMemoryStatusEx").Call(uintptr(unsafe.Pointer(&status)))
	if ok == 0 {
		return 0, fmt.Errorf("GlobalMemoryStatusEx: %w", err)
	}
	return status.total, nil
}
