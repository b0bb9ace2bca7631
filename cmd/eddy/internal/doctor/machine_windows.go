package doctor

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/windows"
)

func (machine) Memory() (uint64, error) {
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

func (machine) Volume(dir string) (Volume, error) {
	name, err := windows.UTF16PtrFromString(dir)
	if err != nil {
		return Volume{}, err
	}
	var free uint64
	if err := windows.GetDiskFreeSpaceEx(name, &free, nil, nil); err != nil {
		return Volume{}, fmt.Errorf("GetDiskFreeSpaceEx %s: %w", dir, err)
	}
	return Volume{Free: free}, nil
}
