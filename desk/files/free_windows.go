package files

import "golang.org/x/sys/windows"

// freeBytes returns what this user may still write to the volume of a path.
func freeBytes(path string) (uint64, bool) {
	p, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return 0, false
	}
	var mine uint64
	if err := windows.GetDiskFreeSpaceEx(p, &mine, nil, nil); err != nil {
		return 0, false
	}
	return mine, true
}
