package allowance

import "golang.org/x/sys/unix"

// Total returns the machine's memory in bytes, without reading files.
func Total() (uint64, error) {
	var info unix.Sysinfo_t
	err := unix.Sysinfo(&info)
	return uint64(info.Totalram) * uint64(info.Unit), err
}
